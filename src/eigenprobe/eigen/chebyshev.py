"""The Chebyshev recurrence, the operators it runs on, and the interval it needs.

    T_0 = x,  T_1 = B x,  T_{j+1} = 2 B T_j - T_{j-1},      B = (A - c) / e,  c = (hi + lo)/2,  e = (hi - lo)/2

Among polynomials of degree d bounded by 1 on [lo, hi], T_d grows fastest outside: eigenvectors above ``hi`` gain
``cosh(d arccosh((mu - c)/e))`` over all others.  Shapes: x (n, p).  A term is one sparse product and nothing else: the
shift sits on the stored diagonal, the scale and the subtraction in the product itself (``addmm`` in place).
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

from ..smoothers import Smoother
from ..smoothers.smoother import csr

Apply = Callable[[Tensor], Tensor]
Step = Callable[[Tensor, Tensor | None], Tensor]


def terms(step: Step, x: Tensor, degree: int) -> Iterator[Tensor]:
    """``T_0 x, ..., T_degree x``.  ``step(now, before)`` is ``2 B now - before``, or ``B now`` without ``before``,
    whose memory it may use: a term is valid until the next but one is asked for."""
    before, now = x.clone(), step(x, None)
    yield before
    for _ in range(degree - 1):
        yield now
        before, now = now, step(now, before)
    if degree:
        yield now


def last_term(step: Step, x: Tensor, degree: int) -> Tensor:
    """``T_degree x``."""
    return deque(terms(step, x, degree), maxlen=1).pop()


class Operator(Protocol):
    """A symmetric operator as the solvers see it, in the precision of the block it is given."""

    n: int
    device: torch.device

    def apply(self, x: Tensor) -> Tensor: ...

    def filter(self, x: Tensor, degree: int, lo: float, hi: float) -> Tensor: ...


def smoother_filter(smoother: Smoother, x: Tensor, coefficients: Tensor) -> Tensor:
    """``sum_j c_j T_j(2 A - I) x`` on a smoother with spectrum in [0, 1].

    ``x (b, n, c)`` and coefficients ``(b, D + 1)``, or ``(b, F, D + 1)`` for ``F`` filters -> ``(b, F, n, c)``. Clouds
    of different sizes are padded to ``n`` rows; products are taken without the padding.
    """
    several, each = coefficients.ndim == 3, smoother.each
    scale = coefficients.to(x.dtype)
    scale = scale[..., None, None] if several else scale[:, None, :, None, None]  # (b, F, D + 1, 1, 1)
    step, degree = smoother_step(smoother), coefficients.shape[-1] - 1
    if each.equal:
        out = torch.zeros((*scale.shape[:2], *x.shape[1:]), dtype=x.dtype, device=x.device)
        for j, term in enumerate(terms(step, x, degree)):
            out.addcmul_(scale[:, :, j], term[:, None])
    else:
        flat, own = each.stacked(x), each.spread(scale[..., 0])  # (rows, c), (rows, F, D + 1, 1)
        rows = torch.zeros((len(flat), own.shape[1], flat.shape[1]), dtype=x.dtype, device=x.device)
        for j, term in enumerate(terms(step, flat, degree)):
            rows.addcmul_(own[:, :, j], term[:, None])
        out = each.padded(rows).transpose(1, 2)
    return out if several else out[:, 0]


def smoother_step(smoother: Smoother) -> Step:
    """The recurrence of ``B = 2 A - I`` on blocks ``(b, n, c)`` or stacked rows: of ``2 B`` a term is one product."""
    if smoother.matrix.ndim == 3:
        twice = 4 * smoother.matrix
        twice.diagonal(dim1=-2, dim2=-1).sub_(2)
    else:
        rows, columns, values = smoother.entries()
        shifted = 4 * values - 2 * (rows == columns).to(values.dtype)
        twice = csr(smoother.matrix.crow_indices(), columns, shifted, (smoother.n, smoother.n))

    def step(now: Tensor, before: Tensor | None) -> Tensor:
        blocks = twice.ndim == 3
        x = now if blocks else now.reshape(smoother.n, -1)
        if before is None:
            return (0.5 * (twice @ x)).view_as(now)
        rest = before if blocks else before.reshape(x.shape)
        return (torch.baddbmm if blocks else torch.addmm)(rest, twice, x, beta=-1).view_as(now)

    return step


def growth(values: Tensor, lo: float, hi: float) -> Tensor:
    """``arccosh((value - c)/e)``: the exponent a filter on ``[lo, hi]`` gains at a value per degree; 0 inside."""
    return torch.acosh(((2 * values - hi - lo) / (hi - lo)).clamp_min(1.0))


def spectral_bounds(operator: Operator, generator: torch.Generator, steps: int = 12) -> tuple[float, float]:
    """An interval that holds the spectrum: Lanczos, widened by the residuals of its two extreme Ritz values."""
    steps = min(steps, operator.n)
    vector = normal_block((operator.n, 1), generator, operator.device, torch.float64)
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


def normal_block(size: tuple[int, ...], generator: torch.Generator, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Gaussian numbers from ``generator``, wherever it lives, on ``device``."""
    return torch.randn(size, generator=generator, device=generator.device, dtype=dtype).to(device)
