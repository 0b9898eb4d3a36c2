"""The eigenproblem that every solver gets, the operators it is posed with, and what a solver gives back.

    A q_k = mu_k q_k,   1 = mu_1 >= mu_2 >= ...;      gaps 1 - mu, which are tiny on large clouds, are what is kept

The multiplicity of mu = 1 is the number of connected components, and its eigenvectors are known: sqrt(mass), restricted
to the components.  No solver iterates on them.

The Chebyshev recurrence, the operators it runs on, and the interval it needs.

    T_0 = x,  T_1 = B x,  T_{j+1} = 2 B T_j - T_{j-1},      B = (A - c) / e,  c = (hi + lo)/2,  e = (hi - lo)/2

Among polynomials of degree d bounded by 1 on [lo, hi], T_d grows fastest outside: eigenvectors above ``hi`` gain
``cosh(d arccosh((mu - c)/e))`` over all others.  Shapes: x (n, p).  A term is one sparse product and nothing else: the
shift sits on the stored diagonal, the scale and the subtraction in the product itself (``addmm`` in place).
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..smoothers import Smoother
from ..smoothers.smoother import csr, from_entries, rows_of

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
    values, vectors = torch.linalg.eigh(torch.diag(diagonal) + torch.diag(off[:-1], -1))  # the lower triangle
    slack = (off[-1] * vectors[-1]).abs()
    return float(values[0] - slack[0]), float(values[-1] + slack[-1])


def normal_block(size: tuple[int, ...], generator: torch.Generator, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Gaussian numbers from ``generator``, wherever it lives, on ``device``."""
    return torch.randn(size, generator=generator, device=generator.device, dtype=dtype).to(device)


WIDENED = 1 << 20  # rows of a block in float64 at once
GROWN = 8  # points whose neighbourhoods are measured


class Eigenpairs(NamedTuple):
    """``vectors (n, k)`` orthonormal, ``gaps (k,)`` = 1 - mu ascending, float64; who found them, and the largest
    residual ``|A q - mu q|``."""

    vectors: Tensor
    gaps: Tensor
    solver: str = ""
    residual: float = 0.0

    @property
    def factors(self) -> Tensor:
        """``mu``, descending."""
        return 1 - self.gaps


class Unsuited(Exception):
    """A solver has measured that the problem is not one of its own; the next one takes over."""


class SparseOperator:
    """A symmetric sparse matrix, reordered by ``order``; one pattern, values in both precisions."""

    def __init__(self, matrix: Tensor, order: Tensor | None = None, leaving: Tensor | None = None) -> None:
        self.n, self.device = matrix.shape[0], matrix.device
        pointers, columns, values, self.diagonal = _with_diagonal(matrix, order)
        self.pattern = (pointers, columns)
        self.leaving = leaving if leaving is None or order is None else leaving[order]
        self.matrix = csr(*self.pattern, values.double(), (self.n, self.n))

    @cached_property
    def single(self) -> Tensor:
        """The same matrix in float32."""
        return csr(*self.pattern, self.matrix.values().float(), (self.n, self.n))

    @property
    def entries(self) -> int:
        return self.matrix.values().numel()

    @cached_property
    def growth(self) -> float:
        """``log2(|B_4| / |B_2|)``, B_r: the points within r edges of one; the median over a few. About the dimension of
        a graph of points near a manifold, far more on an expander, which every factor and coarse level fills in."""
        pattern = csr(*self.pattern, torch.ones_like(self.single.values()), (self.n, self.n))
        first = torch.arange(GROWN, device=self.device)
        ball = torch.zeros((self.n, GROWN), device=self.device)
        ball[(2 * first + 1) * self.n // (2 * GROWN), first] = 1
        sizes = []
        for _ in range(4):
            ball = ((pattern @ ball) > 0).to(ball)
            sizes.append(ball.sum(0))
        return float((sizes[3] / sizes[1]).log2().median())

    def apply(self, x: Tensor) -> Tensor:
        """``A x`` for ``x (n, p)``."""
        return (self.single if x.dtype == torch.float32 else self.matrix) @ x

    def laplacian(self) -> Tensor:
        """``I - A``, CSR float64; its diagonal without cancellation where the smoother knows it."""
        values = -self.matrix.values()
        own = values[self.diagonal] + 1 if self.leaving is None else self.leaving.double()
        values[self.diagonal] = own
        return csr(*self.pattern, values, (self.n, self.n))

    def filter(self, x: Tensor, degree: int, lo: float, hi: float) -> Tensor:
        """``T_degree(B) x``."""
        matrix = self.single if x.dtype == torch.float32 else self.matrix
        values = matrix.values().clone()
        values[self.diagonal] -= (hi + lo) / 2
        shifted, half = csr(*self.pattern, values, (self.n, self.n)), (hi - lo) / 2

        def step(now: Tensor, before: Tensor | None) -> Tensor:
            if before is None:
                return torch.addmm(torch.zeros_like(now), shifted, now, beta=0.0, alpha=1 / half)
            return torch.addmm(before, shifted, now, beta=-1.0, alpha=2 / half, out=before)

        return last_term(step, x, degree)


class FunctionOperator:
    """Any symmetric operator given by its action on a block."""

    def __init__(self, function: Apply, n: int, device: torch.device) -> None:
        self.function, self.n, self.device = function, n, device

    def apply(self, x: Tensor) -> Tensor:
        """``A x`` for ``x (n, p)``."""
        return self.function(x).to(x.dtype)

    def filter(self, x: Tensor, degree: int, lo: float | Tensor, hi: float | Tensor) -> Tensor:
        """``T_degree(B) x``; the bounds are numbers or tensors that broadcast with ``x``."""
        centre, half = (hi + lo) / 2, (hi - lo) / 2

        def step(now: Tensor, before: Tensor | None) -> Tensor:
            image = (self.apply(now) - centre * now) / half
            return image if before is None else 2 * image - before

        return last_term(step, x, degree)


@dataclass
class Problem:
    """``wanted`` leading pairs of ``operator`` beyond the ``known (n, c)`` ones; ``guard`` extra columns may help."""

    operator: Operator
    known: Tensor  # (n, c) float64: eigenvectors of mu = 1
    wanted: int
    guard: int
    tol: float
    max_sweeps: int
    generator: torch.Generator
    start: Tensor | None = None  # (n, any) approximate eigenvectors, in any order
    bounded: bool = False  # whether no eigenvalue is above 1

    @property
    def n(self) -> int:
        return self.operator.n

    @property
    def width(self) -> int:
        """Columns of a block: the wanted ones and the guards."""
        return min(self.wanted + self.guard, self.n - self.known.shape[1])

    @property
    def sparse(self) -> SparseOperator:
        """The operator as a matrix; a function is unsuited."""
        if not isinstance(self.operator, SparseOperator):
            raise Unsuited("a function has no matrix")
        return self.operator

    def block(self) -> Tensor:
        """A random block ``(n, width)`` float32, its first columns replaced by the given start."""
        given = 0 if self.start is None else min(self.start.shape[1], self.width)
        block = normal_block((self.n, self.width - given), self.generator, self.operator.device, torch.float32)
        return block if self.start is None else torch.cat([self.start[:, :given].float(), block * self.n**-0.5], 1)


def null_vectors(mass: Tensor, labels: Tensor, count: int, k: int) -> Tensor:
    """Eigenvectors ``(n, min(k, count))`` of mu = 1 for ``count`` components; the first is ``sqrt(mass)``."""
    root = mass.double().sqrt()
    weights = torch.zeros(count, dtype=torch.float64, device=mass.device).index_add_(0, labels, root.square())
    # A Householder reflection completes the unit vector sqrt(weights) to an orthonormal basis of the components.
    unit = (weights / weights.sum()).sqrt()
    axis = unit.clone()
    axis[0] -= 1
    width = min(k, count)
    basis = torch.eye(count, width, dtype=torch.float64, device=mass.device)
    if count > 1:
        basis -= 2 * axis[:, None] * axis[None, :width] / axis.square().sum()
    return (root / weights[labels].sqrt())[:, None] * basis[labels]


def _with_diagonal(matrix: Tensor, order: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """CSR pointers, columns and values with every diagonal entry stored, and where those are. 32-bit indices."""
    n, rows = matrix.shape[0], rows_of(matrix)
    columns, values = matrix.col_indices().long(), matrix.values()
    place = (rows == columns).nonzero()[:, 0]
    if order is not None or len(place) < n:
        absent = (torch.bincount(rows[place], minlength=n) == 0).nonzero()[:, 0]
        rows, columns = torch.cat([rows, absent]), torch.cat([columns, absent])
        if order is not None:
            rank = order.argsort()
            rows, columns = rank[rows], rank[columns]
        matrix = from_entries(rows, columns, torch.cat([values, values.new_zeros(len(absent))]), n)
        place = (rows_of(matrix) == matrix.col_indices()).nonzero()[:, 0]
    return matrix.crow_indices(), matrix.col_indices(), matrix.values(), place


def inner(x: Tensor, y: Tensor) -> Tensor:
    """``x^T y`` in float64. A GPU may multiply float32 in reduced precision, so there the factors are widened."""
    if x.dtype == torch.float64 or not x.is_cuda:
        return (x.mT @ y).double()
    out = torch.zeros((x.shape[1], y.shape[1]), dtype=torch.float64, device=x.device)
    for left, right in zip(x.split(WIDENED), y.split(WIDENED), strict=True):
        out.addmm_(left.double().mT, right.double())
    return out


def times(x: Tensor, small: Tensor) -> Tensor:
    """``x small`` in the precision of ``x``, for a small float64 matrix."""
    if x.dtype == torch.float64 or not x.is_cuda:
        return x @ small.to(x.dtype)
    out = torch.empty((x.shape[0], small.shape[1]), dtype=x.dtype, device=x.device)
    for part, rows in zip(out.split(WIDENED), x.split(WIDENED), strict=True):
        part.copy_(rows.double() @ small)
    return out


def without(block: Tensor, known: Tensor) -> Tensor:
    """The part of a block that is orthogonal to the known vectors."""
    for _ in range(2 if known.shape[1] else 0):
        block = block - times(known, inner(known, block))
    return block
