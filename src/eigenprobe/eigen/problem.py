"""The eigenproblem that every solver gets, the operators it is posed with, and what a solver gives
back.

    A q_k = mu_k q_k,   1 = mu_1 >= mu_2 >= ...        gaps 1 - mu, tiny on large clouds, are kept

The multiplicity of mu = 1 is the number of connected components, and its eigenvectors are known:
sqrt(mass), restricted to the components.  No solver iterates on them, and their gaps are 0 exactly.
Several clouds are blocks on the diagonal of A, one after the other.

The Chebyshev recurrence, the operators it runs on, and the interval it needs.

    T_0 = x,  T_1 = B x,  T_{j+1} = 2 B T_j - T_{j-1}
    B = (A - c) / e,  c = (hi + lo)/2,  e = (hi - lo)/2          c, e: one number per cloud

Among polynomials of degree d bounded by 1 on [lo, hi], T_d grows fastest outside: eigenvectors
above ``hi`` gain ``cosh(d arccosh((mu - c)/e))`` over all others.  Shapes: x (n, p).  A term is one
sparse product and nothing else: shift and scale sit in the stored values, the subtraction in the
product itself (``addmm`` in place).
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import compress, cycle
from typing import NamedTuple

import torch
from torch import Tensor

from ..neighbors.graph import components
from ..neighbors.layout import Segments
from ..smoothers import Smoother
from ..smoothers.smoother import csr, from_entries, pointers_to, rows_of

Apply = Callable[[Tensor], Tensor]
Step = Callable[[Tensor, Tensor | None], Tensor]
WIDENED = 1 << 20  # rows of a block in float64 at once


def terms(step: Step, x: Tensor, degree: int) -> Iterator[Tensor]:
    """``T_0 x, ..., T_degree x``.  ``step(now, before)`` is ``2 B now - before``, or ``B now``
    without ``before``, whose memory it may use: a term is valid until the next but one is asked
    for.
    """
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


def with_values(matrix: Tensor, values: Tensor) -> Tensor:
    """A CSR matrix with the same pattern and other values."""
    rows, columns = matrix.shape
    return csr(matrix.crow_indices(), matrix.col_indices(), values, (rows, columns))


def chebyshev(
    apply: Apply, x: Tensor, degree: int, lo: float | Tensor, hi: float | Tensor
) -> Tensor:
    """``T_degree(B) x``; the bounds are numbers or tensors that broadcast with ``x``."""
    centre, half = (hi + lo) / 2, (hi - lo) / 2

    def step(now: Tensor, before: Tensor | None) -> Tensor:
        image = (apply(now) - centre * now) / half
        return image if before is None else 2 * image - before

    return last_term(step, x, degree)


def smoother_filter(smoother: Smoother, x: Tensor, coefficients: Tensor) -> Tensor:
    """``sum_j c_j T_j(2 A - I) x`` on a smoother with spectrum in [0, 1].

    ``x (b, n, c)`` and coefficients ``(b, D + 1)``, or ``(b, F, D + 1)`` for ``F`` filters -> ``(b,
    F, n, c)``. Clouds of different sizes are padded to ``n`` rows; products are taken without the
    padding.
    """
    several, each = coefficients.ndim == 3, smoother.each
    scale = (coefficients if several else coefficients[:, None]).to(x.dtype)
    scale = scale[..., None, None] if each.equal else each.spread(scale)[..., None]
    signal = x if each.equal else each.stacked(x)
    out = signal.new_zeros((*scale.shape[:2], *signal.shape[1:]))
    for j, term in enumerate(terms(smoother_step(smoother), signal, scale.shape[2] - 1)):
        out.addcmul_(scale[:, :, j], term[:, None])
    out = out if each.equal else each.padded(out).transpose(1, 2)
    return out if several else out[:, 0]


def smoother_step(smoother: Smoother) -> Step:
    """The recurrence of ``B = 2 A - I`` on blocks ``(b, n, c)`` or stacked rows: of ``2 B`` a term
    is one product.
    """
    rows, columns, values = smoother.entries()
    shifted = 4 * values - 2 * (rows == columns).to(values.dtype)
    twice = with_values(smoother.matrix, shifted)

    def step(now: Tensor, before: Tensor | None) -> Tensor:
        x = now.reshape(smoother.n, -1)
        if before is None:
            return (0.5 * (twice @ x)).view_as(now)
        return torch.addmm(before.reshape(x.shape), twice, x, beta=-1).view_as(now)

    return step


def growth(values: Tensor, lo: Tensor, hi: Tensor) -> Tensor:
    """``arccosh((value - c)/e)``: the exponent a filter on ``[lo, hi]`` gains at values ``(b, p)``
    per degree; 0 inside.
    """
    lo, hi = lo[:, None], hi[:, None]
    return torch.acosh(((2 * values - hi - lo) / (hi - lo)).clamp_min(1.0))


def floor(dtype: torch.dtype) -> float:
    """The residual that sweeps in this precision do not go below: five roundings of a unit vector
    (45 in float64, whose products are summed in any order).
    """
    return {torch.float32: 6e-7}.get(dtype, 1e-14)


def normal_block(
    size: tuple[int, ...], generator: torch.Generator, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Gaussian numbers from ``generator``, wherever it lives, on ``device``."""
    return torch.randn(size, generator=generator, device=generator.device, dtype=dtype).to(device)


class Eigenpairs(NamedTuple):
    """``vectors (n, k)`` orthonormal, ``gaps (k,)`` = 1 - mu ascending, float64; who found them,
    and the largest residual ``|A q - mu q|``, where it was measured."""

    vectors: Tensor
    gaps: Tensor
    solver: str
    residual: float = math.nan

    @property
    def factors(self) -> Tensor:
        """``mu``, descending."""
        return 1 - self.gaps


class SparseOperator:
    """A symmetric sparse matrix that stores its whole diagonal, reordered by ``order``; one
    pattern, values in both precisions. A product is taken in the precision of the block ``(n, p)``.

    ``laplacian_diagonal (n,)`` is ``1 - A_ii`` without cancellation, where it is known; ``clouds``
    are the sizes of blocks on the diagonal, empty for one.
    """

    def __init__(
        self,
        matrix: Tensor,
        order: Tensor | None = None,
        laplacian_diagonal: Tensor | None = None,
        clouds: tuple[int, ...] = (),
    ) -> None:
        self.n, self.device = matrix.shape[0], matrix.device
        self.each = Segments(clouds or (self.n,), self.device)
        rows, columns = rows_of(matrix), matrix.col_indices()
        if order is not None:
            rank = order.argsort()
            matrix = from_entries(rank[rows], rank[columns], matrix.values(), self.n)
            rows, columns = rows_of(matrix), matrix.col_indices()
        self.diagonal = (rows == columns).nonzero()[:, 0]
        self.matrix = with_values(matrix, matrix.values().double())
        own = laplacian_diagonal
        if own is None:
            own = 1 - self.matrix.values()[self.diagonal]
        elif order is not None:
            own = own[order]
        self.laplacian_diagonal = own.double()

    @cached_property
    def single(self) -> Tensor:
        """The same matrix in float32."""
        return with_values(self.matrix, self.matrix.values().float())

    @cached_property
    def rows(self) -> Tensor:
        """The row of every entry."""
        return rows_of(self.matrix)

    def restricted(self, rows: Tensor, clouds: tuple[int, ...] = ()) -> "SparseOperator":
        """The block of some rows, ascending, that no entry joins to others."""
        place = torch.full((self.n,), -1, device=self.device)
        place[rows] = torch.arange(len(rows), device=self.device)
        inside = place[self.rows] >= 0
        head, tail = self.rows[inside], self.matrix.col_indices()[inside]
        values = self.matrix.values()[inside]
        matrix = csr(pointers_to(place[head], len(rows)), place[tail], values, (len(rows),) * 2)
        return SparseOperator(matrix, None, self.laplacian_diagonal[rows], clouds)

    @cached_property
    def dimension(self) -> float:
        """The power by which neighbourhoods grow: that of a grid with the same numbers of points
        within r edges of one, ``|B_r| = (2 r + 1)^d``, the largest of those that r = 1, 2, then 2,
        4 and 4, 8 give, the median over eight points, rounded.

        It is 1 on the graph of a curve and 2 on that of a surface, however many edges a point has,
        and far more on an expander, which every factor and coarse level fills in. Within a cluster
        of a table the neighbours share theirs: such a graph shows what it is from r = 4 on.
        """
        count = 8
        first = torch.arange(count, device=self.device)
        ball = torch.zeros((self.n, count), device=self.device)
        ball[(2 * first + 1) * self.n // (2 * count), first] = 1
        pattern = with_values(self.single, torch.ones_like(self.single.values()))
        sizes = []
        for _ in range(8):
            ball = ((pattern @ ball) > 0).to(ball)
            sizes.append(ball.sum(0).log())
        powers = [
            (sizes[2 * r - 1] - sizes[r - 1]) / math.log((4 * r + 1) / (2 * r + 1))
            for r in (1, 2, 4)
        ]
        return round(float(torch.stack(powers).amax(0).median()))

    def weyl_gap(self, count: int, dimension: int = 2) -> Tensor:
        """About the gap of number ``count`` of every cloud ``(b,)``, if they are surfaces of even
        points, or lines, on the host; at most a half. Points without edges do not count.

        A surface of area S has k eigenvalues below 4 pi k / S [Weyl]. Even points (a triangular
        lattice) have cotangent weights 1 / sqrt 3 to six neighbours, so A_ii = 1 - c 2 sqrt 3 /
        m_i: the k-th gap is c 4 pi k / S = (2 pi / sqrt 3) k / sum_i 1 / (1 - A_ii).
        A line of length l has the eigenvalues (pi k / l)^2. Points at distances g and h of their
        two neighbours have A_ii = 1 - 2 c / (g h): the k-th gap is c (pi k / l)^2, where
        l = sum_i sqrt(2 c / (1 - A_ii)).
        """
        own = self.laplacian_diagonal
        size = self.each.sum(torch.where(own > 0, own ** (-dimension / 2), 0.0))
        if dimension == 1:
            gap = (math.pi * count / size).square() / 2
        else:
            gap = 2 * math.pi / 3**0.5 * count / size
        return gap.clamp_max(0.5).cpu()

    def apply(self, x: Tensor) -> Tensor:
        """``A x`` for ``x (n, p)``."""
        return (self.single if x.dtype == torch.float32 else self.matrix) @ x

    def laplacian(self) -> Tensor:
        """``I - A``, CSR float64; its diagonal without cancellation where the smoother knows it."""
        values = -self.matrix.values()
        values[self.diagonal] = self.laplacian_diagonal
        return with_values(self.matrix, values)

    def filter(self, x: Tensor, degree: int, lo: Tensor, hi: Tensor) -> Tensor:
        """``T_degree(B) x`` with the interval of every cloud, ``(b,)`` on the host.

        With signs +, +, -, -, ... every term is one before it plus ``+-2 B`` times the last: a
        GPU's product adds to what is there without a pass over it that turns its sign.
        """
        centre, half = ((hi + lo) / 2).to(x.device), ((hi - lo) / 2).to(x.device)
        values = self.matrix.values().clone()
        values[self.diagonal] -= self.each.spread(centre)
        values /= self.each.spread(half)[self.rows]
        shifted = with_values(self.matrix, values.to(x.dtype))
        twice = cycle((-2.0, 2.0))

        def step(now: Tensor, before: Tensor | None) -> Tensor:
            if before is None:
                return shifted @ now
            return torch.addmm(before, shifted, now, alpha=next(twice), out=before)

        found = last_term(step, x, degree)
        return found.neg_() if degree & 2 else found


class FunctionOperator:
    """Any symmetric operator given by its action on a block."""

    dimension = math.inf  # nothing is known of its graph

    def __init__(self, function: Apply, n: int, device: torch.device) -> None:
        self.function, self.n, self.device = function, n, device
        self.each = Segments((n,), device)

    def apply(self, x: Tensor) -> Tensor:
        """``A x`` for ``x (n, p)``."""
        return self.function(x).to(x.dtype)

    def filter(self, x: Tensor, degree: int, lo: Tensor, hi: Tensor) -> Tensor:
        """``T_degree(B) x``."""
        return chebyshev(self.apply, x, degree, float(lo), float(hi))


Operator = SparseOperator | FunctionOperator


@dataclass
class Problem:
    """The leading pairs of ``operator`` beyond the ``known (n, c)`` ones of gap 0; ``guard`` extra
    columns may help.

    Of several clouds, in ``each``, the columns of ``known`` are those of all side by side: a cloud
    with fewer components than others has columns of zeros, and more vectors to be found.
    """

    operator: Operator
    known: Tensor  # (n, c) float64: eigenvectors of mu = 1
    wanted_each: tuple[int, ...]  # vectors beyond the known ones, per cloud
    guard: int
    tol: float
    generator: torch.Generator
    bounded: bool = False  # whether no eigenvalue is above 1
    surface: bool = False  # whether Weyl's law of surfaces says about where the gaps are
    labels: Tensor | None = None  # (n,) component of every row, where there are several

    @property
    def n(self) -> int:
        return self.operator.n

    @property
    def wanted(self) -> int:
        return max(self.wanted_each)

    @property
    def each(self) -> Segments:
        return self.operator.each

    @property
    def width(self) -> int:
        """Columns of a block: the wanted ones and the guards."""
        return min(self.wanted + self.guard, min(self.each.sizes) - self.known.shape[1])

    def restricted(
        self, rows: Tensor, known: Tensor, wanted: Iterable[int], clouds: Iterable[int] = ()
    ) -> "Problem":
        """The same on some components or clouds, ``rows`` ascending."""
        return replace(
            self,
            operator=self.sparse.restricted(rows, tuple(clouds)),
            known=known,
            wanted_each=tuple(wanted),
            labels=None,
        )

    def of_clouds(self, chosen: Tensor, rows: Tensor) -> "Problem":
        """The same on the ``chosen (b,)`` clouds, whose rows these are."""
        wanted = compress(self.wanted_each, chosen.tolist())
        sizes = compress(self.each.sizes, chosen.tolist())
        return self.restricted(rows, self.known[rows], wanted, sizes)

    @property
    def sparse(self) -> SparseOperator:
        """The operator, which is a matrix."""
        assert isinstance(self.operator, SparseOperator)
        return self.operator


def components_of(smoother: Smoother) -> tuple[int, Tensor]:
    """The number of connected components of the operator, and the label ``(n,)`` of every point;
    labels ascend from cloud to cloud.
    """
    rows, columns, values = smoother.entries()
    there = values != 0
    if bool(there.all()):
        return smoother.components
    return components(rows[there], columns[there], smoother.n)  # edges may join more


def null_vectors(smoother: Smoother, k: int) -> tuple[Tensor, tuple[int, ...]]:
    """Eigenvectors ``(n, min(k, most))`` of mu = 1 and their number per cloud, where a cloud has up
    to ``most`` components; the first is ``sqrt(mass)``.
    """
    each, (total, labels) = smoother.each, components_of(smoother)
    first = labels[each.first]
    counts = first.diff(append=first.new_tensor([total])).tolist()
    labels, most = labels - each.spread(first), max(counts)
    root = smoother.mass.double().sqrt()
    place = each.owner * most + labels
    weights = root.new_zeros(len(each) * most).index_add_(0, place, root.square())
    # A Householder reflection per cloud completes the unit vector sqrt(weights) to an orthonormal
    # basis of the components; those that a cloud does not have are columns of zeros.
    axis = weights.unflatten(0, (-1, most)).sqrt()
    axis = axis / axis.norm(dim=1, keepdim=True)
    axis[:, 0] -= 1
    width = min(k, most)
    size = axis.square().sum(1).clamp_min(torch.finfo(axis.dtype).tiny)[:, None, None]
    basis = torch.eye(most, width, dtype=axis.dtype, device=axis.device)
    basis = basis - 2 * axis[:, :, None] * axis[:, None, :width] / size
    known = (root / weights[place].sqrt())[:, None] * basis.flatten(0, 1)[place]
    return known, tuple(min(k, count) for count in counts)


def inner(x: Tensor, y: Tensor, wide: bool = False) -> Tensor:
    """``x^T y`` in float64 of ``(..., n, p)``.  A GPU may multiply float32 in reduced precision, so
    there, or if ``wide``, the factors are widened.
    """
    if x.dtype == torch.float64 or not (x.is_cuda or wide):
        return (x.mT @ y).double()
    parts = zip(x.split(WIDENED, -2), y.split(WIDENED, -2), strict=True)
    return reduce(torch.add, (left.double().mT @ right.double() for left, right in parts))


def times(x: Tensor, small: Tensor) -> Tensor:
    """``x small`` in the precision of ``x (..., n, p)``, for a small float64 matrix."""
    if x.dtype == torch.float64 or not x.is_cuda:
        return x @ small.to(x.dtype)
    out = x.new_empty((*x.shape[:-1], small.shape[-1]))
    for part, rows in zip(out.split(WIDENED, -2), x.split(WIDENED, -2), strict=True):
        part.copy_(rows.double() @ small)
    return out


def without(block: Tensor, known: Tensor) -> Tensor:
    """The part of a block ``(..., n, p)`` that is orthogonal to the known vectors."""
    for _ in range(2 if known.shape[-1] else 0):
        block = block - times(known, inner(known, block))
    return block
