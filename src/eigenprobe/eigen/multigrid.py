"""Algebraic multigrid for the Laplacian of a smoother: a few coarser copies of ``H = I - A`` and
one cycle over them.

    scaled         S = D^-1/2 H D^-1/2,   D = diag H       points in dense spots are no stiffer
    aggregates     a maximal independent set of roots, every other point joins a neighbour's root
    prolongation   P = (I - 2/3 S) T,   T[i, a] = sqrt(m_i d_i) on i's aggregate a, unit columns
    coarse         H <- P^T S P,   G <- P^T D^-1/2 G D^-1/2 P
                   the same eigenproblem  H y = g G y  on fewer points

P reproduces the known null vector exactly, so on smooth vectors the coarse problem is as good as
the fine one.  One symmetric V-cycle (one polynomial of degree 1 in S before and after the coarse
correction: four products on the finest level) is a preconditioner for H.  Matrices are built in
float64 and applied in float32 to blocks (n, p), on any device.

Algebra of sparse CSR matrices on the device of their operands: what a hierarchy is built from.

    (A B)[i, j] = sum_k A[i, k] B[k, j]        host: scipy, row by row
                                               device: every product is written out, sorted by
                                               (i, j) and summed

Values keep their precision, indices have 32 bits where they suffice.  Rows need not be sorted.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..neighbors.layout import as_scipy
from ..smoothers.smoother import csr, from_scipy, on_host, pointers_to, rows_of, transpose
from .problem import with_values

DENSEST = 24  # points per column of the block, up to which the coarsest level is inverted densely
SLOWEST = 0.6  # a level with more than this share of the points above is not worth having
PRODUCTS = 1 << 27  # written out at once: about four gigabytes


class Level(NamedTuple):
    """``H`` and ``G`` (None: identity) of one level, its null vectors, and the way to the next
    coarser one.
    """

    laplacian: Tensor  # CSR (n, n) float64
    gram: Tensor | None  # CSR (n, n) float64
    known: Tensor  # (n, c) float64
    scale: Tensor  # (n, 1) D^-1/2
    scaled: Tensor  # S
    # The smoothing polynomial with the pattern of S; on the coarsest level the dense pseudo-inverse
    smooth: Tensor
    down: Any = None  # P^T, None on the coarsest level
    up: Any = None  # P

    def prolong(self, x: Tensor) -> Tensor:
        """Coarse vectors ``(m, p)`` as vectors of this level: ``D^-1/2 P x``."""
        return (self.up @ x).mul_(self.scale)


Levels = list[Level]


def hierarchy(laplacian: Tensor, known: Tensor, width: int) -> Levels:
    """Levels from fine to coarse; the coarsest has at least 1.5 ``width`` points, and few enough
    for a dense inverse, or the graph is unsuited.
    """
    gram: Tensor | None = None
    levels: Levels = []
    while True:
        rows, columns = rows_of(laplacian), laplacian.col_indices()
        on = rows == columns
        diagonal = torch.zeros(len(known), dtype=known.dtype, device=known.device)
        diagonal[rows[on]] = laplacian.values()[on]
        # A point without edges, or a component that has become one point: 0 but for rounding, where
        # aggregates have diagonals of about 1.  It is a known vector: its row is that of I.
        rounding = torch.finfo(known.dtype).eps ** 0.5 if levels else 0.0
        alone = diagonal <= rounding * diagonal.max()
        root = torch.where(alone, 1.0, diagonal.rsqrt())
        matrix = scaled(laplacian, torch.where(alone, 0.0, root), root)
        matrix.values()[on] = matrix.values()[on] + alone[rows[on]]
        level = (
            laplacian,
            gram,
            known,
            root.float()[:, None],
            with_values(matrix, matrix.values().float()),
        )
        n, null = len(known), known / root[:, None]
        labels, count = aggregate(matrix)
        if 2 * count < 3 * width or count > SLOWEST * n:
            if n > DENSEST * width:
                raise RuntimeError("this graph does not coarsen")
            return [*levels, Level(*level, _pseudo_inverse(matrix, null))]
        prolong, known = _prolongation(matrix, null, labels, count)
        back = transpose(prolong)
        ways = (with_values(each, each.values().float()) for each in (back, prolong))
        levels.append(Level(*level, _smoothing(matrix, on), *ways))
        laplacian = multiply(back, multiply(matrix, prolong))
        down = scaled(prolong, root)
        up = with_values(back, back.values() * root[back.col_indices()])
        gram = multiply(up, down if gram is None else multiply(gram, down))


def _prolongation(
    matrix: Tensor, null: Tensor, labels: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """``P = (I - omega S) T`` and the null vectors of the coarse level, ``T^T null``."""
    weight = null[:, 0].abs()
    size = weight.new_zeros(count).index_add_(0, labels, weight.square()).sqrt()
    weight = weight / size[labels]
    pointers = torch.arange(len(labels) + 1, device=labels.device)
    tentative = csr(pointers, labels, weight, (len(labels), count))
    rows, columns = rows_of(matrix), matrix.col_indices()
    # Smoothed aggregation [Vanek, Mandel, Brezina 1996].
    jacobi = torch.where(rows == columns, 1.0, 0.0).to(weight) - 2 / 3 * matrix.values()
    coarse = null.new_zeros((count, null.shape[1])).index_add_(0, labels, weight[:, None] * null)
    return multiply(with_values(matrix, jacobi), tentative), coarse


def _smoothing(matrix: Tensor, on: Tensor) -> Tensor:
    """Minimax on [.2, 2]: ``x = (a - b S) r`` is the second Chebyshev iterate from zero. S has no
    eigenvalue above 2 [Gershgorin]; the lowest tenth is left to the coarse level.
    """
    centre, half = 1.1, 0.9
    first = 2 * centre / (2 * centre**2 - half**2)
    values = 2 * first * on.to(matrix.dtype) - first / centre * matrix.values()
    return with_values(matrix, values.float())


def cycle(levels: Levels, residual: Tensor, at: int = 0) -> Tensor:
    """One V-cycle: an approximation of ``S^-1 residual`` for a block ``(n, p)`` on level ``at``."""
    level = levels[at]
    x = level.smooth @ residual
    if level.down is None:
        return x
    left = torch.addmm(residual, level.scaled, x, alpha=-1)
    coarse = levels[at + 1].scale  # the coarse level is solved in its own scaled vectors, too
    torch.addmm(
        x, level.up, cycle(levels, (level.down @ left).mul_(coarse), at + 1).mul_(coarse), out=x
    )
    torch.addmm(residual, level.scaled, x, alpha=-1, out=left)
    return torch.addmm(x, level.smooth, left, out=x)


def inverse(levels: Levels, residual: Tensor, at: int = 0) -> Tensor:
    """``S^-1 residual`` to about one digit: two cycles. They are cheap beside the Rayleigh-Ritz
    step that follows.
    """
    x = cycle(levels, residual, at)
    return x.add_(cycle(levels, torch.addmm(residual, levels[at].scaled, x, alpha=-1), at))


def aggregate(graph: Tensor) -> tuple[Tensor, int]:
    """Labels ``(n,)`` of connected groups of points, and how many: a random maximal independent set
    and its rings.

    Luby's rounds: an undecided point becomes a root where its random key is the largest among its
    undecided neighbours.
    """
    n = graph.shape[0]
    # Odd multipliers permute the residues modulo 2^31: keys that differ, look random and are the
    # same everywhere.
    key = torch.arange(n, device=graph.device)
    for factor in (1_103_515_245, 747_796_405):
        key = (key * factor) & 0x7FFFFFFF
        key = key ^ (key >> 15)
    key = key + 1
    root = torch.zeros(n, dtype=torch.bool, device=graph.device)
    while bool((key > 0).any()):  # 0: decided
        root |= (key > 0) & (row_max(graph, key) == key)
        key = torch.where(row_max(graph, root.long()) > 0, 0, key)
    labels = root.cumsum(0) * root
    labels = torch.where(root, labels, row_max(graph, labels)) - 1
    return labels, int(labels.max()) + 1


def _pseudo_inverse(matrix: Tensor, null: Tensor) -> Tensor:
    """Of a dense copy: lift the null vectors to eigenvalue 1, invert, take them out again."""
    basis = torch.linalg.qr(null)[0]
    outer = basis @ basis.mT
    lifted = matrix.to_dense() + outer
    factor, status = torch.linalg.cholesky_ex(lifted)
    # By the factor it is half of the work.
    inverse = torch.linalg.inv(lifted) if bool(status) else torch.cholesky_inverse(factor)
    inverse = inverse - outer
    return ((inverse + inverse.mT) / 2).float()


def scaled(matrix: Tensor, left: Tensor, right: Tensor | None = None) -> Tensor:
    """``diag(left) A diag(right)``."""
    values = matrix.values() * left.repeat_interleave(
        matrix.crow_indices().diff(), output_size=len(matrix.values())
    )
    return with_values(matrix, values if right is None else values * right[matrix.col_indices()])


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """``A B`` of two sparse matrices."""
    if on_host(a):
        return from_scipy(as_scipy(a) @ as_scipy(b))
    pointers, columns, values = a.crow_indices().long(), a.col_indices(), a.values()
    width = b.crow_indices().long().diff()[columns]  # products of every entry of A
    before = torch.cat([width.new_zeros(1), width.cumsum(0)])
    ends = before[pointers].cpu()  # products up to every row
    parts, first = [], 0
    while first < a.shape[0]:  # as many rows at once as PRODUCTS allows
        last = int(torch.searchsorted(ends, ends[first] + PRODUCTS, right=True)) - 1
        last = min(max(last, first + 1), a.shape[0])
        entries = slice(int(pointers[first]), int(pointers[last]))
        total = int(ends[last] - ends[first])
        some = torch.arange(first, last, device=a.device)
        rows = some.repeat_interleave(
            pointers[first : last + 1].diff(), output_size=entries.stop - entries.start
        )
        parts.append(_summed(rows, columns[entries], values[entries], width[entries], total, b))
        first = last
    rows, columns, values = (torch.cat(part) for part in zip(*parts, strict=True))
    return csr(pointers_to(rows, a.shape[0]), columns, values, (a.shape[0], b.shape[1]))


def _summed(
    rows: Tensor, columns: Tensor, values: Tensor, width: Tensor, total: int, b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and values of the products of some entries of A with the rows of B that they
    meet.
    """
    source = torch.arange(len(rows), device=rows.device).repeat_interleave(width, output_size=total)
    start = b.crow_indices().long()[columns] - (width.cumsum(0) - width)
    place = start[source] + torch.arange(total, device=rows.device)
    key, order = (rows[source] * b.shape[1] + b.col_indices()[place]).sort()
    products = (values[source] * b.values()[place])[order]
    del source, place, order
    key, place = torch.unique_consecutive(key, return_inverse=True)
    return (
        key // b.shape[1],
        key % b.shape[1],
        products.new_zeros(len(key)).index_add_(0, place, products),
    )


def row_max(matrix: Tensor, key: Tensor) -> Tensor:
    """The largest of the keys of every row's own and its neighbours' ``(n,)``; keys are whole
    numbers.
    """
    return key.scatter_reduce(0, rows_of(matrix), key[matrix.col_indices()], "amax")
