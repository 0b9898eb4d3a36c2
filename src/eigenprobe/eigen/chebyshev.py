"""Chebyshev filters of a symmetric operator: the sweeps of `direct`.

    T_0 = x,  T_1 = B x,  T_{j+1} = 2 B T_j - T_{j-1},      B = (A - c) / e,  c = (hi + lo)/2,  e = (hi - lo)/2

Among polynomials of degree d bounded by 1 on [lo, hi], T_d grows fastest outside: eigenvectors above ``hi`` gain
``cosh(d arccosh((mu - c)/e))`` over all others.  Shapes: x (n, p).  A sweep is d sparse products and nothing else: the
shift sits on the stored diagonal, the scale and the subtraction in the product itself (``addmm`` in place).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

Apply = Callable[[Tensor], Tensor]
CHAIN = 4  # mean entries of a row up to which a graph is one of a curve
COARSEN, SPARSE = 6000, 24  # points from which, and entries a row up to which, a coarse start pays


class Operator(Protocol):
    """A symmetric operator as the solver sees it, in the precision of the block it is given."""

    n: int
    device: torch.device

    def apply(self, x: Tensor) -> Tensor: ...

    def filter(self, x: Tensor, degree: int, lo: float, hi: float) -> Tensor: ...


class SparseOperator:
    """A symmetric sparse matrix, reordered by ``order``; one pattern, values in both precisions."""

    def __init__(self, matrix: Tensor, order: Tensor | None = None) -> None:
        self.n, self.device = matrix.shape[0], matrix.device
        pointers, columns, values, self.diagonal = _with_diagonal(matrix, order)
        self.pattern = (pointers, columns)
        self.matrix = self._csr(values.double())
        self.single = self._csr(values.float())

    def _csr(self, values: Tensor) -> Tensor:
        return torch.sparse_csr_tensor(*self.pattern, values, (self.n, self.n), check_invariants=False)

    def apply(self, x: Tensor) -> Tensor:
        """``A x`` for ``x (n, p)``."""
        return (self.single if x.dtype == torch.float32 else self.matrix) @ x

    def worth_coarsening(self) -> bool:
        """Whether a hierarchy beats filters: on the host, many points, few neighbours (a graph of low dimension)."""
        entries = self.matrix.values().numel()
        return self.device.type == "cpu" and self.n >= COARSEN and entries <= SPARSE * self.n

    def is_chain(self) -> bool:
        """Whether there are so few entries that the graph is a union of chains and rings: the cloud is a curve."""
        return self.matrix.values().numel() <= CHAIN * self.n

    def laplacian(self) -> Any:
        """``I - A`` as a scipy CSR array."""
        from scipy.sparse import csr_array

        values = -self.matrix.values().cpu().numpy()
        values[self.diagonal.cpu().numpy()] += 1
        pointers, columns = (index.cpu().numpy() for index in self.pattern)
        return csr_array((values, columns, pointers), shape=(self.n, self.n))

    def filter(self, x: Tensor, degree: int, lo: float, hi: float) -> Tensor:
        """``T_degree(B) x``."""
        matrix = self.single if x.dtype == torch.float32 else self.matrix
        centre, half = (hi + lo) / 2, (hi - lo) / 2
        values = matrix.values().clone()
        values[self.diagonal] -= centre
        shifted = self._csr(values)
        before, now = x.clone(), torch.zeros_like(x)
        torch.addmm(now, shifted, x, beta=0.0, alpha=1 / half, out=now)
        for _ in range(degree - 1):
            torch.addmm(before, shifted, now, beta=-1.0, alpha=2 / half, out=before)
            before, now = now, before
        return now


class FunctionOperator:
    """Any symmetric operator given by its action on a block."""

    def __init__(self, function: Apply, n: int, device: torch.device) -> None:
        self.function, self.n, self.device = function, n, device

    def apply(self, x: Tensor) -> Tensor:
        """``A x`` for ``x (n, p)``."""
        return self.function(x).to(x.dtype)

    def filter(self, x: Tensor, degree: int, lo: float, hi: float) -> Tensor:
        """``T_degree(B) x``."""
        centre, half = (hi + lo) / 2, (hi - lo) / 2
        before, now = x, (self.apply(x) - centre * x) / half
        for _ in range(degree - 1):
            before, now = now, (self.apply(now) - centre * now).mul_(2 / half).sub_(before)
        return now


def growth(value: float, lo: float, hi: float) -> float:
    """``arccosh((value - c)/e)``: the exponent a filter on ``[lo, hi]`` gains at ``value`` per degree; 0 inside."""
    position = (2 * value - hi - lo) / (hi - lo)
    return float(np.arccosh(max(position, 1.0)))


def spectral_bounds(operator: Operator, generator: torch.Generator, steps: int = 12) -> tuple[float, float]:
    """An interval that holds the spectrum: Lanczos, widened by the residuals of its two extreme Ritz values."""
    steps = min(steps, operator.n)
    vector = draw((operator.n, 1), generator, operator.device, torch.float64)
    vector /= vector.norm()
    previous, beta = torch.zeros_like(vector), torch.zeros((), dtype=vector.dtype, device=vector.device)
    alphas, betas = [], []
    for _ in range(steps):
        image = operator.apply(vector) - beta * previous
        alpha = (image * vector).sum()
        image = image - alpha * vector
        previous, beta = vector, image.norm()
        vector = image / beta.clamp_min(torch.finfo(torch.float64).tiny)
        alphas.append(alpha)
        betas.append(beta)
    diagonal, off = torch.stack(alphas).cpu(), torch.stack(betas).cpu()
    values, vectors = torch.linalg.eigh(torch.diag(diagonal) + torch.diag(off[:-1], 1) + torch.diag(off[:-1], -1))
    slack = (off[-1] * vectors[-1]).abs()
    return float(values[0] - slack[0]), float(values[-1] + slack[-1])


def draw(shape: tuple[int, ...], generator: torch.Generator, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Gaussian numbers from ``generator``, wherever it lives, on ``device``."""
    return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype).to(device)


def _with_diagonal(matrix: Tensor, order: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """CSR pointers, columns and values with every diagonal entry stored, and where those are. 32-bit indices."""
    n = matrix.shape[0]
    rows = torch.repeat_interleave(
        torch.arange(n, device=matrix.device), matrix.crow_indices().diff(), output_size=matrix.values().numel()
    )
    columns, values = matrix.col_indices().long(), matrix.values()
    if order is not None:
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(n, device=order.device)
        rows, columns = inverse[rows], inverse[columns]
    own = torch.arange(n, device=matrix.device)
    rows, columns = torch.cat([rows, own]), torch.cat([columns, own])
    values = torch.cat([values, values.new_zeros(n)])
    if matrix.device.type == "cpu":  # scipy's counting sort is several times faster than coalesce here
        from scipy.sparse import coo_array

        built = coo_array((values.numpy(), (rows.int().numpy(), columns.int().numpy())), shape=(n, n)).tocsr()
        pointers, columns, values = (torch.from_numpy(a) for a in (built.indptr, built.indices, built.data))
    else:
        summed = torch.sparse_coo_tensor(torch.stack([rows, columns]), values, (n, n)).coalesce().to_sparse_csr()
        pointers, columns, values = summed.crow_indices(), summed.col_indices(), summed.values()
    if values.numel() < 2**31:
        pointers, columns = pointers.int(), columns.int()
    counted = torch.repeat_interleave(own, pointers.long().diff(), output_size=values.numel())
    return pointers, columns, values, (counted == columns).nonzero()[:, 0]
