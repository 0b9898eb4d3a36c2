r"""Diffusion on a batch of clouds: what the amortised network looks through, and what it is trained against.

    w_ij = exp(-d_ij^2 / (4 eps rho_i rho_j)) on the union of k nearest neighbours,  rho = sqrt(kNN radius)
    L = M^{-1/2} (R - W) M^{-1/2},   M = r tau (local time),   spectrum in [0, bound]      (adaptive smoother, dim = 2)
    g(L) x = sum_j c_j T_j(B) x,     B = 2 L / bound - I                                   (Chebyshev)

The time of a heat kernel is set by its trace, `tr exp(-t L) = level` ("about `level` eigenvectors survive"), which
needs no units and no dimension. The trace comes from the Chebyshev moments of a few random sign vectors.

Shapes: `b` clouds of `n` points, `c` columns, `D` degree; `x (b, n, c)`, coefficients `(b, D + 1)`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

_GRID = 40  # times on the logarithmic grid on which traces are inverted


@dataclass
class HeatOperator:
    """The symmetric operator `B = 2 L / bound - I` of a batch, dense `(b, n, n)` or block-diagonal CSR `(b n, b n)`."""

    matrix: Tensor
    mass: Tensor  # (b, n), sums to 1
    bound: Tensor  # (b,)
    spread: Tensor  # (b, n) log of the local time against its mean: how coarse the sampling is here
    unit: Tensor  # (b,) the length in which L is measured: eigenvalues in the points' units are those of L / unit^2

    @property
    def degree(self) -> int:
        """Enough for the longest time in use on `n` points: a time of `s` steps needs about `sqrt(s)` products."""
        return math.ceil(1.3 * math.sqrt(self.mass.shape[1])) + 4

    def apply(self, x: Tensor) -> Tensor:
        """`B x` for `x (b, n, c)`."""
        if self.matrix.layout == torch.sparse_csr:
            return (self.matrix @ x.reshape(-1, x.shape[-1])).view_as(x)
        return self.matrix @ x

    def step(self, now: Tensor, before: Tensor) -> Tensor:
        """`2 B now - before`, the Chebyshev recurrence, as one kernel."""
        if self.matrix.layout == torch.sparse_csr:
            c = now.shape[-1]
            flat = torch.addmm(before.reshape(-1, c), self.matrix, now.reshape(-1, c), beta=-1, alpha=2)
            return flat.view_as(now)
        return torch.baddbmm(before, self.matrix, now, beta=-1, alpha=2)

    def filter(self, x: Tensor, coefficients: Tensor) -> Tensor:
        """`sum_j c_j T_j(B) x`; `coefficients (b, D + 1)`, or `(b, F, D + 1)` for `F` filters -> `(b, F, n, c)`."""
        several = coefficients.ndim == 3
        scale = coefficients.to(x.dtype)
        scale = scale[..., None, None] if several else scale[:, None, :, None, None]  # (b, F, D + 1, 1, 1)
        before, now = x, self.apply(x)
        out = scale[:, :, 0] * before[:, None] + scale[:, :, 1] * now[:, None]
        for j in range(2, coefficients.shape[-1]):
            before, now = now, self.step(now, before)
            out.addcmul_(scale[:, :, j], now[:, None])
        return out if several else out[:, 0]

    def moments(self, probes: int = 24) -> Tensor:
        """Estimates `(b, D + 1)` of `tr T_j(B)`, with half the products by `T_i T_j = (T_{i+j} + T_{i-j})/2`."""
        b, n = self.mass.shape
        sign = _signs(n, probes).to(self.mass)
        before = sign.expand(b, n, probes)
        now = self.apply(before)
        first = (before * now).sum((1, 2)) / probes
        out = [torch.full_like(first, float(n)), first]
        for _ in range(self.degree // 2):
            even = 2 * (now * now).sum((1, 2)) / probes - n
            following = self.step(now, before)
            odd = 2 * (now * following).sum((1, 2)) / probes - first
            out += [even, odd]
            before, now = now, following
        return torch.stack(out[: self.degree + 1], -1)

    def times(self, levels: tuple[float, ...], moments: Tensor) -> Tensor:
        """Times `(b, len(levels))` at which the heat trace falls to each level, in units of `1 / bound`."""
        longest = self.degree**2 / 5
        grid = torch.logspace(-0.5, math.log10(longest), _GRID, device=moments.device)
        kernel = heat_coefficients(grid, moments.shape[-1] - 1)  # (G, D + 1)
        trace = (moments @ kernel.mT).clamp_min(0.5).cummin(-1).values.log()  # (b, G)
        target = torch.tensor(levels, device=moments.device).log()
        above = (trace[:, None] > target[:, None]).sum(-1).clamp(1, _GRID - 1)  # (b, levels)
        low, high = trace.gather(1, above - 1), trace.gather(1, above)
        share = ((low - target) / (low - high).clamp_min(1e-6)).clamp(0, 1)
        return (grid.log()[above - 1] * (1 - share) + grid.log()[above] * share).exp()


def heat_coefficients(times: Tensor, degree: int) -> Tensor:
    """Chebyshev coefficients `(..., degree + 1)` of `exp(-t (1 + y) / 2)` on `[-1, 1]`, `t` in units of `1 / bound`."""
    nodes = 4 * (degree + 1)
    theta = (torch.arange(nodes, device=times.device, dtype=torch.float64) + 0.5) * (math.pi / nodes)
    value = torch.exp(-0.5 * times.double()[..., None] * (1 + theta.cos()))  # (..., nodes)
    order = torch.arange(degree + 1, device=times.device, dtype=torch.float64)
    transform = torch.cos(order[:, None] * theta) * (2 / nodes)
    transform[0] /= 2
    return (value @ transform.mT).float()


def _signs(n: int, probes: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 2, (n, probes), generator=generator).float() * 2 - 1


def heat_operator(distances: Tensor, indices: Tensor, dense: bool) -> HeatOperator:
    """The operator of `b` clouds from their neighbours `(b, n, k)` (self excluded, ascending)."""
    b, n, k = indices.shape
    tenth = distances[..., min(9, k - 1)]
    centre = tenth.median(-1).values.clamp_min(1e-12)[:, None]
    rho = (tenth / centre).clamp(0.2, 5).sqrt()  # density^(-1/4) on a surface
    d2 = distances.square() / centre[..., None].square()  # in units of the median 10th neighbour
    near = rho.gather(1, indices.flatten(1)).view(b, n, k)
    weight = torch.exp(-2 * d2 / (rho[..., None] * near))
    if dense:
        w = torch.zeros(b, n, n, device=weight.device).scatter_(2, indices, weight)
        w = torch.maximum(w, w.mT)
        length = torch.zeros_like(w).scatter_(2, indices, d2)
        length = torch.maximum(length, length.mT)
        q = (w.sum(-1) / rho.square()).clamp_min(1e-12).sqrt()
        w = w / (q[:, None] * q[..., None])
        r = w.sum(-1).clamp_min(1e-12)
        tau = (w * length).sum(-1) / (4 * r)
    else:
        rows = torch.arange(b * n, device=weight.device).repeat_interleave(k)
        columns = (indices + n * torch.arange(b, device=indices.device)[:, None, None]).flatten()
        key = torch.cat([rows * (b * n) + columns, columns * (b * n) + rows])
        key, order = key.sort()  # torch.unique with its inverse takes far longer than the rest of this function
        first = torch.cat([key.new_ones(1, dtype=torch.bool), key[1:] != key[:-1]])
        key, order = key[first], order[first] % weight.numel()
        rows, columns = key // (b * n), key % (b * n)
        values, length = weight.flatten()[order], d2.flatten()[order]
        q = (_sum(values, rows, b, n) / rho.square()).clamp_min(1e-12).sqrt()
        values = values / (q.flatten()[rows] * q.flatten()[columns])
        r = _sum(values, rows, b, n).clamp_min(1e-12)
        tau = _sum(values * length, rows, b, n) / (4 * r)
    # A floor on the local time bounds the spectrum (and the work) where two points nearly coincide.
    tau = torch.maximum(tau, 0.25 * tau.median(-1, keepdim=True).values).clamp_min(1e-12)
    mass = r * tau
    bound = (2 / tau).amax(-1)  # Gershgorin
    root = mass.rsqrt()
    diagonal = 2 / (tau * bound[:, None]) - 1
    spread = (tau / tau.mean(-1, keepdim=True)).log()
    mass_one = mass / mass.sum(-1, keepdim=True)
    if dense:
        matrix = w * (root[:, None] * root[..., None] * (-2 / bound)[:, None, None])
        matrix.diagonal(dim1=-2, dim2=-1).copy_(diagonal)
        return HeatOperator(matrix, mass_one, bound, spread, centre[:, 0])
    flat, scale = root.flatten(), (-2 / bound)[:, None].expand(b, n).flatten()
    values = values * flat[rows] * flat[columns] * scale[rows]
    everyone = torch.arange(b * n, device=weight.device)
    rows, columns = torch.cat([rows, everyone]), torch.cat([columns, everyone])
    values = torch.cat([values, diagonal.flatten()])
    order = torch.argsort(rows * (b * n) + columns)
    pointer = torch.zeros(b * n + 1, dtype=torch.int64, device=rows.device)
    pointer[1:] = torch.bincount(rows, minlength=b * n).cumsum(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Sparse")
        size = (b * n, b * n)
        matrix = torch.sparse_csr_tensor(pointer, columns[order], values[order], size, check_invariants=False)
    return HeatOperator(matrix, mass_one, bound, spread, centre[:, 0])


def _sum(values: Tensor, rows: Tensor, b: int, n: int) -> Tensor:
    return torch.zeros(b * n, device=values.device).scatter_add_(0, rows, values).view(b, n)
