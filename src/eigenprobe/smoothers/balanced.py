"""Sparse symmetric operators on clouds of low dimension that are exact for linear functions.

On a surface the weights are those of Voronoi cells in tangent planes (finite volumes; `stencil`), the mean of what the
cells of both ends say, and the mass is the area of the cells.  In a solid each point keeps its nearest neighbours up to
the first count at which they surround it, so the stencil is as small as the sampling allows.  Every edge gets a
geodesic length (a chord that leaves the tangent plane at angle asin(s) spans an arc longer by asin(s)/s) and a
direction in the tangent frame of either end, l_ij = log_i(x_j).  Starting weights

    w_ij = |l_ij|^(dim-2) (1 + |l_ij|^2 / (2 c h_i h_j))^-2        h: local spacing

(on a curve simply 1/|l_ij| to the nearest on either side) are then changed as little as possible,
min sum (w' - w)^2 / w, so that at every interior point

    sum_j w_ij l_ij = 0                                            "balance"

which makes coordinate functions harmonic: the property that gives the cotangent Laplacian its accuracy, here without a
mesh and in any dimension.  The second moments are drawn towards roundness as well, sum_j w_ij l_ij l_ij^T towards a
multiple of the identity: neighbours closer in one direction than in the other would otherwise make the operator
anisotropic.  The dual system has one vector per point, and each equation involves the edges of one point only: with the
inverse of the block of every point as a preconditioner a dozen conjugate-gradient steps solve it, whatever the frames.
Near a boundary the direction across it stays free.  The mass is the local time, m_i = sum_j w_ij |l_ij|^2 / (2 dim),
and the operator M^-1 (R - W) is in the units of the input with nothing to calibrate.  Arrays: e edges, (e, dim)
directions; n points, (n, 8) dual variables.

An anisotropic metric is a field of tangent vectors f_i: lengths along f_i count 1 + |f_i| times.  Neighbours are sorted
and directions measured in it, l_ij <- l_ij + f (f.l_ij) / |f|; everything after is the same.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..graph import Edges, Graph
from ..graph.arranged import Placed
from ..graph.graph import local_spacing
from ..search.layout import Segments
from .smoother import Smoother, conjugate_gradients, csr, laplacian_smoother
from .stencil import (
    CELLS,
    SELECTION,
    STRETCHED,
    UNEVEN_CELLS,
    CellEdges,
    CellRule,
    Neighbours,
    bridged,
    cell_edges,
    choose_edges,
    planar_frames,
    principal,
    spacing_growth,
    stretch,
    tangent_frames,
    uneven_clouds,
    with_pairs,
)


@dataclass(frozen=True)
class Balance:
    """Constants of the balanced weights, with derivation or ablation."""

    outside: float = -0.35  # cosine with the inward direction beyond which a neighbour lies on the other side
    few_outside: float = 0.03  # share of such neighbours that tells a boundary: a third inside, none at the boundary
    bandwidth: float = 2.0  # c above
    steepest: float = 0.8  # sine of the angle beyond which an edge says nothing about an arc
    ridge: float = 1e-2  # softness of balance, relative to the moments of the point
    round_ridge: float = 2.0  # softness of roundness
    end_ridge: float = 1e3  # at a boundary: free, for the cells of its points may be halves or wholes (pixels)
    rounds: int = 3  # Newton rounds
    steps: int = 30  # conjugate-gradient steps in each
    tolerance: float = 2e-2  # relative residual at which they end: weights within .008 of the exact ones
    least_factor: float = 0.3  # a weight loses at most this factor in a round, so it stays positive
    farthest: float = 50.0  # exponent at which a Gaussian weight stops falling: exp(-50) instead of 0 far away
    doubtful_weight: float = 0.05  # of an edge that is probably a short-cut: a limb cut by mistake stays connected
    cells: bool = False  # cells of an uneven cloud, even if it does not look so: a sample of scan lines
    stray_weight: float = 0.05  # of an edge to a stray point: the point follows its neighbours and hardly leads them


BALANCE = Balance()
# Other operators feel what a soft balance leaves: a slow drift of the mass off a boundary makes the first eigenvalue of
# a square 3 per cent too low (free) or 2 too high (vanishing), with a firm one below 1; and neighbours that are even in
# space are not in a stretched metric, where a grid is 12 per cent off with the usual roundness and 4 with this one.
FIRM = Balance(ridge=1e-3, round_ridge=0.2, end_ridge=1.0, tolerance=1e-3, steps=200)
# Where derivatives are asked for the dual systems are solved to rounding: what is left of them is not smooth.
EXACT = Balance(tolerance=1e-13, steps=2000)


@dataclass(frozen=True)
class Stencil:
    """Undirected weighted edges with squared lengths, and the mass they induce (unnormalised)."""

    edges: Edges
    weight: Tensor  # (e,)
    length2: Tensor  # (e,)
    mass: Tensor  # (n,)


def balanced_smoother(
    graph: Graph, dimension: float, settings: Balance = BALANCE, field: Tensor | None = None
) -> Smoother:
    """The smoother of a graph without self-loops in one to three dimensions; ``field (n, d)`` stretches its metric."""
    whole = max(1, min(round(dimension), graph.points.shape[1]))
    stencil = balanced_stencil(graph, whole, settings, field)
    smoother = laplacian_smoother(stencil.edges, stencil.weight, stencil.mass, graph, float(whole))
    return smoother if field is None else replace(smoother, density=1 + field.norm(dim=1))


def traced_stencil(points: Tensor, cloud: Placed, smoother: Smoother) -> Stencil:
    """The stencil of the cloud with derivatives with respect to its ``points (N, d)``, in its frame.

    Which points are neighbours is held fixed. Frame and units are numbers: the weights are homogeneous in the points.
    """
    graph = smoother.known_graph.without_loops()
    moving = cloud.frame(cloud.collect(points.to(cloud.given)))
    whole = max(1, min(round(smoother.dimension), graph.points.shape[1]))
    return balanced_stencil(replace(graph, points=moving), whole, EXACT)


def balanced_stencil(graph: Graph, dimension: int, settings: Balance = BALANCE, field: Tensor | None = None) -> Stencil:
    """Weights on a graph without self-loops, of one cloud or of several: of cells on a surface, else balanced.

    A row with fewer neighbours repeats its first one to fill the places; the copies do not count.
    """
    near = Neighbours.of(graph.points, graph.indices, graph.distances)
    few = slice(0, SELECTION.frame)
    frames = tangent_frames(near.offsets[:, few], near.distances[:, few], dimension)
    if dimension == 2:
        uneven = uneven_clouds(near, frames, graph.clouds) | settings.cells
        if bool(uneven.any()) and not bool(uneven.all()):
            fields = [None] * len(uneven) if field is None else field.split(graph.clouds)
            parts = zip(graph.parts(), fields, strict=True)
            return _stacked([balanced_stencil(part, dimension, settings, own) for part, own in parts])
    if field is not None:
        near = near.stretched((frames @ _tangential(field, frames)[..., None])[..., 0])
    if dimension == 2:
        rule = UNEVEN_CELLS if bool(uneven.all()) else CELLS
        return _cell_stencil(graph, near, frames, settings, field, rule)
    spacing, stray = _strays(near)
    chosen = choose_edges(near, frames, SELECTION if field is None else STRETCHED)
    edges, faint = with_pairs(chosen, graph.doubtful)
    head, tail = edges.head, edges.tail
    chord, spread = graph.points[tail] - graph.points[head], spacing[head] * spacing[tail]
    if dimension < chord.shape[1]:
        close = torch.exp(-(chord.square().sum(1) / spread / 2).clamp_max(settings.farthest)).masked_fill(faint, 0)
        frames = _edge_frames(chord, edges, close, dimension, frames)
    else:
        frames = torch.eye(dimension, dtype=chord.dtype, device=chord.device).expand(len(frames), -1, -1)
    forward, backward, length2 = _directions(chord, edges, frames, settings, field)
    if dimension == 1:
        weight = length2.rsqrt()
    else:
        loose = stray[head] | stray[tail]
        length2 = torch.where(loose, torch.minimum(spacing[head], spacing[tail]).square(), length2)
        forward, backward = (part.masked_fill((loose | faint)[:, None], 0) for part in (forward, backward))
        weight = length2 ** ((dimension - 2) / 2) * (1 + length2 / (2 * settings.bandwidth * spread)) ** -2
        share = torch.where(faint, settings.doubtful_weight, weight.new_ones(()))
        weight = weight * torch.where(loose, settings.stray_weight, share)
        crossing = _boundary_direction(near, frames, settings)
        vectors = _Vectors(forward, backward, length2.masked_fill(faint, 0), crossing)
        weight = _balance(weight, vectors, edges, settings, graph.clouds)
    return Stencil(edges, weight, length2, edges.at((weight * length2).masked_fill(faint, 0)) / (2 * dimension))


def _stacked(stencils: list[Stencil]) -> Stencil:
    """The stencils of several clouds as one."""
    first = [0, *accumulate(len(each.mass) for each in stencils)]
    heads, tails = (
        torch.cat([getattr(each.edges, end) + at for each, at in zip(stencils, first)]) for end in ("head", "tail")
    )
    values = (torch.cat([getattr(each, name) for each in stencils]) for name in ("weight", "length2", "mass"))
    return Stencil(Edges(heads, tails, first[-1]), *values)


def _strays(near: Neighbours) -> tuple[Tensor, Tensor]:
    """Local spacing ``(n,)``, and which points are strays."""
    spacing, excess = local_spacing(near.indices, near.distances, near.real, SELECTION.nearest)
    return spacing, excess > math.log(SELECTION.stray)


def _joined(near: Neighbours, cells: CellEdges, frames: Tensor, rule: CellRule) -> CellEdges:
    """With edges between parts that those of the cells leave apart."""
    edges, weight, rim = cells
    joined = bridged(near, edges, frames)
    if joined is edges:
        return cells
    known = torch.isin(joined.head * joined.n + joined.tail, edges.head * edges.n + edges.tail)
    return CellEdges(joined, weight.new_full((len(joined),), rule.bridge).masked_scatter(known, weight), rim)


def _cell_stencil(
    graph: Graph, near: Neighbours, frames: Tensor, settings: Balance, field: Tensor | None, rule: CellRule
) -> Stencil:
    """Weights of the Voronoi cells of a surface, in the planes of the edges that cells in the first planes have."""
    points = graph.points
    spacing, stray = _strays(near)
    stray = stray & rule.strays
    frames, thin = planar_frames(near, frames)
    cells, clouds = cell_edges(near, frames, thin, stray, rule), Segments(graph.clouds or (graph.n,), graph.device)
    if points.shape[1] > 2:
        head, tail = cells.edges.head, cells.edges.tail
        chord = (points[tail] - points[head]).masked_fill((stray[head] | stray[tail])[:, None], 0)
        outward = _outward(near, chord, cells, rule, clouds) if rule.growing else None
        frames = torch.where(stray[:, None, None], frames, _edge_frames(chord, cells.edges, cells.weight, 2, frames))
        cells = cell_edges(near, frames, thin, stray, rule, outward)
    cells = _joined(near, cells, frames, rule)
    rim = cells.rim * _at_edges(cells, rule, clouds) if rule.chained else cells.rim
    edges, faint = with_pairs(cells.edges, graph.doubtful)
    weight = cells.weight
    head, tail = edges.head, edges.tail
    chord = points[tail] - points[head]
    length2 = chord.square().sum(1)
    if field is not None:
        length2 = _directions(chord, edges, frames, settings, field)[2]
    spread = 2 * settings.bandwidth * spacing[head] * spacing[tail]
    weight = (settings.doubtful_weight * (1 + length2 / spread) ** -2).masked_scatter(~faint, weight)
    loose = stray[head] | stray[tail]
    weight = torch.where(loose, rule.bridge, weight)
    length2 = torch.where(loose, torch.minimum(spacing[head], spacing[tail]).square(), length2)
    mass = edges.at((weight * length2).masked_fill(faint, 0)) / 4 + rim
    passed = rule.shared * (mass[tail] - mass[head]).masked_fill(loose | faint, 0)
    mass = mass + edges.at_head(passed) - edges.at_tail(passed)
    return Stencil(edges, weight.clamp_max(rule.most), length2, mass)


def _outward(near: Neighbours, chord: Tensor, cells: CellEdges, rule: CellRule, clouds: Segments) -> Tensor:
    """How far open cells of each cloud reach outwards ``(n,)``: farther where spacings grow towards its edges."""
    edges, tiny = cells.edges, torch.finfo(chord.dtype).tiny
    unit = chord / chord.norm(dim=1, keepdim=True).clamp_min(tiny)
    inward = edges.at_head(unit) - edges.at_tail(unit)
    inward = inward / inward.norm(dim=1, keepdim=True).clamp_min(tiny)
    is_open = (cells.rim > 0).to(chord)
    rows = is_open.nonzero()[:, 0]
    slopes = [spacing_growth(near, part, inward[part], rule) for part in rows.split(rule.rows)]  # in memory at once
    growth = torch.zeros_like(is_open).index_copy(0, rows, torch.cat(slopes))
    mean = clouds.inner(growth, is_open) / clouds.inner(is_open, is_open).clamp_min(1)
    return clouds.spread((rule.outward + rule.growing * (mean - rule.usual)).clamp(rule.outward, rule.farthest))


def _at_edges(cells: CellEdges, rule: CellRule, clouds: Segments) -> Tensor:
    """Whether open cells of each cloud lie at edges of the surface, beside each other, rather than in gaps ``(n,)``."""
    edges, is_open = cells.edges, (cells.rim > 0).to(cells.rim)
    chained = edges.at(is_open[edges.head] * is_open[edges.tail]) > 1
    return clouds.spread(clouds.inner(is_open, chained.to(is_open)) >= rule.chained * clouds.inner(is_open, is_open))


def _directions(
    chord: Tensor, edges: Edges, frames: Tensor, settings: Balance, field: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Directions of the edges at both ends ``(e, dim)``, as long as their arcs in the metric of the field, squared."""
    forward, backward, length2 = chord, -chord, chord.square().sum(1)
    if frames.shape[2] < chord.shape[1]:
        forward, ahead = _logarithm(chord, length2, frames[edges.head], settings.steepest)
        backward, behind = _logarithm(-chord, length2, frames[edges.tail], settings.steepest)
        length2 = (ahead + behind) / 2
    if field is not None:
        flat = field if frames.shape[2] == chord.shape[1] else _tangential(field, frames)
        forward, backward = stretch(forward, flat[edges.head]), stretch(backward, flat[edges.tail])
        length2 = (forward.square().sum(1) + backward.square().sum(1)) / 2
    return forward, backward, length2


def _tangential(field: Tensor, frames: Tensor) -> Tensor:
    """Components ``(n, dim)`` of the vectors turned into the tangent planes, their lengths kept."""
    flat = (field[:, None] @ frames)[:, 0]
    size = flat.norm(dim=1, keepdim=True).clamp_min(torch.finfo(flat.dtype).tiny)
    return flat / size * field.norm(dim=1, keepdim=True)


def _edge_frames(chord: Tensor, edges: Edges, weight: Tensor, dimension: int, fallback: Tensor) -> Tensor:
    """Frames (n, d, dim) from the kept edges alone: covariances about their mean, or about a point that has too few."""
    d = chord.shape[1]
    if d > 8:
        return fallback  # d x d moments per point would be the largest array of all
    second = edges.at(_outer(weight, chord))
    first = edges.at_head(weight[:, None] * chord) - edges.at_tail(weight[:, None] * chord)
    size = second.diagonal(dim1=1, dim2=2).sum(1)  # before the subtraction, which may leave nothing of it
    first = first * (edges.at((weight > 0).to(weight)) > dimension)[:, None]
    second = second - first[:, :, None] * first[:, None, :] / edges.at(weight)[:, None, None]
    return principal(second / size.clamp_min(torch.finfo(size.dtype).tiny)[:, None, None], dimension)


def _outer(weight: Tensor, vectors: Tensor) -> Tensor:
    """``w v v^T (e, d, d)`` of weights ``(e,)`` and vectors ``(e, d)``; from long rows, eight times as quick."""
    rows = vectors.mT.contiguous()
    return (rows[:, None] * (weight * rows)).permute(2, 0, 1).contiguous()


def _logarithm(chord: Tensor, chord2: Tensor, frames: Tensor, steepest: float) -> tuple[Tensor, Tensor]:
    """Tangential direction of each edge with the length of its arc, (e, dim), and that length squared, (e,)."""
    flat = (chord[:, None] @ frames)[:, 0]
    flat2 = flat.square().sum(1)
    sine = (1 - flat2 / chord2).clamp(1e-8, steepest**2).sqrt()
    length2 = chord2 * (torch.asin(sine) / sine).square()
    return flat * (length2 / flat2.clamp_min(1e-12 * chord2)).sqrt()[:, None], length2


def _boundary_direction(near: Neighbours, frames: Tensor, settings: Balance) -> Tensor:
    """Unit inward direction (n, dim) at points that have next to no neighbours on its other side, zero elsewhere."""
    tiny = torch.finfo(frames.dtype).tiny
    offsets, axes = near.offsets.permute(2, 0, 1).contiguous(), frames.permute(1, 2, 0).contiguous()
    flat = sum(x * axis[..., None] for x, axis in zip(offsets, axes, strict=True))  # (dim, n, k): long rows are quick
    length = near.distances.clamp_min(tiny)
    # Fading towards the last neighbour: where a lattice has more of the same distance, those listed would tilt the sum.
    fading = (1 - (length / length[:, -1:]).square()) / length
    inward = (fading * flat).sum(2)
    inward = inward / inward.norm(dim=0).clamp_min(tiny)
    along = (flat * inward[..., None]).sum(0)
    outside = ((along < 0) & (along.square() > settings.outside**2 * flat.square().sum(0))).sum(1)  # cosines
    return torch.where((outside < settings.few_outside * near.real)[:, None], inward.mT, 0.0)


class _Vectors(NamedTuple):
    """Directions of the edges at both ends ``(e, dim)``, their squared lengths, and directions that stay free."""

    forward: Tensor
    backward: Tensor
    length2: Tensor  # (e,)
    crossing: Tensor  # (n, dim)


def _balance(weight: Tensor, vectors: _Vectors, edges: Edges, settings: Balance, sizes: tuple[int, ...]) -> Tensor:
    """Newton rounds on the dual: (B W B^T + ridge) t = -B w,  w <- w (1 + B^T t);  row i of B holds point i's edges."""
    forward, backward, length2, crossing = vectors
    dimension, head, tail = crossing.shape[1], edges.head, edges.tail
    moment, tiny = weight * length2, torch.finfo(weight.dtype).tiny
    first, second = ((dimension / edges.at(part).clamp_min(tiny)).sqrt() for part in (moment, moment * length2))

    def rows(along: Tensor, at: Tensor) -> Tensor:
        free, across = along * first[at, None], crossing[at]
        free = free - across * (across * free).sum(1, keepdim=True)
        return torch.cat([free, _traceless(along) * second[at, None]], 1)

    ahead, behind = rows(forward, head), rows(backward, tail)
    ridge = weight.new_full((edges.n, ahead.shape[1]), settings.round_ridge)
    ridge[(crossing != 0).any(1)] = settings.end_ridge
    ridge[:, :dimension] = settings.ridge
    incidence = _Incidence(ahead, behind, edges, weight.detach(), ridge)
    clouds = Segments(tuple(ahead.shape[1] * size for size in sizes or (edges.n,)), weight.device)
    dual: Tensor | None = None
    for _ in range(settings.rounds):
        dual = incidence.solve(weight, settings, clouds, dual)
        weight = weight * (1 + incidence.gather(dual)).clamp_min(settings.least_factor)
    return weight


def _traceless(t: Tensor) -> Tensor:
    """The part of ``t t^T`` that is not round, of size ``|t|^2`` in three dimensions."""
    x, y, *rest = t.unbind(1)
    parts = [x * x - y * y, 2 * x * y] + [2 * z * each for z in rest for each in (x, y)]
    return torch.stack([3**0.5 / 2 * part for part in parts] + [rest[0].square() - (x * x + y * y) / 2], 1)


class _Incidence:
    """``B (n dim, e)`` and its transpose, sparse: one column per edge, its directions at both ends.

    The dual matrix ``B W B^T + ridge`` is applied as a product of the two; assembled it would have twice their entries.
    ``nearly`` inverts its block of every point, with the first weights.
    """

    def __init__(self, forward: Tensor, backward: Tensor, edges: Edges, weight: Tensor, ridge: Tensor) -> None:
        self.ends, self.ridge = (forward, backward, edges), ridge.reshape(-1)
        forward, backward = forward.detach(), backward.detach()
        count, dimension = forward.shape
        head, tail, rows = edges.head, edges.tail, edges.n * dimension
        within = torch.arange(dimension, device=head.device)
        ends = torch.cat([head[:, None] * dimension + within, tail[:, None] * dimension + within], 1)
        columns, values = ends.reshape(-1).int(), torch.cat([forward, backward], 1).reshape(-1)
        pointers = torch.arange(0, len(columns) + 1, 2 * dimension, device=head.device).int()
        self.to_edges = csr(pointers, columns, values, (count, rows))  # B^T
        if head.device.type == "cpu":  # a counting sort
            from scipy.sparse import csr_array

            flipped = csr_array((values.numpy(), columns.numpy(), pointers.numpy()), shape=self.to_edges.shape).tocsc()
            parts = [torch.from_numpy(part) for part in (flipped.indptr, flipped.indices, flipped.data)]
        else:
            order = torch.argsort(columns, stable=True)
            counts = torch.bincount(columns, minlength=rows).cumsum(0)
            parts = [torch.cat([counts.new_zeros(1), counts]), order // (2 * dimension), values[order]]
        self.to_points = csr(parts[0], parts[1], parts[2], (rows, count))  # B
        blocks = torch.diag_embed(ridge).index_add_(0, head, _outer(weight, forward))
        blocks.index_add_(0, tail, _outer(weight, backward))
        within = (torch.arange(rows, device=head.device) // dimension * dimension)[:, None] + within
        pointers = torch.arange(0, rows * dimension + 1, dimension, device=head.device).int()
        self.nearly = csr(pointers, within.reshape(-1).int(), torch.linalg.inv_ex(blocks)[0].reshape(-1), (rows, rows))

    def gather(self, dual: Tensor) -> Tensor:
        """``B^T t``: (n dim,) -> (e,); sums over edges where there are derivatives."""
        forward, backward, edges = self.ends
        if not (forward.requires_grad or dual.requires_grad):
            return self.to_edges @ dual
        dual = dual.reshape(edges.n, -1)
        return (forward * dual[edges.head] + backward * dual[edges.tail]).sum(1)

    def scatter(self, weight: Tensor) -> Tensor:
        """``B w``: (e,) -> (n dim,)."""
        forward, backward, edges = self.ends
        if not (forward.requires_grad or weight.requires_grad):
            return self.to_points @ weight
        return (edges.at_head(forward * weight[:, None]) + edges.at_tail(backward * weight[:, None])).reshape(-1)

    def solve(self, weight: Tensor, settings: Balance, clouds: Segments, before: Tensor | None = None) -> Tensor:
        """``t`` with ``(B W B^T + ridge) t = -B w``; its derivative is a solve with the same matrix.

        ``before`` is the answer for other weights, to start from.
        """
        inverse = partial(self._inverse, weight.detach(), settings, clouds)
        found = inverse(-(self.to_points @ weight.detach()), before)
        if not weight.requires_grad:
            return found
        residual = -self.scatter(weight) - self.scatter(weight * self.gather(found)) - self.ridge * found
        return _Solved.apply(residual, found, inverse)

    def _inverse(
        self, weight: Tensor, settings: Balance, clouds: Segments, right: Tensor, before: Tensor | None = None
    ) -> Tensor:
        """``(B W B^T + ridge)^-1 right``: every cloud ends on its own, as if it were alone."""

        def times(x: Tensor) -> Tensor:
            return torch.addcmul(self.to_points @ (weight * (self.to_edges @ x)), self.ridge, x)

        known = torch.zeros_like(right)
        target = settings.tolerance**2 * clouds.inner(right, self.nearly @ right)
        if before is not None:  # the best multiple of it
            before = before.detach()
            image = times(before)
            share = clouds.inner(before, image)
            share = clouds.spread(torch.where(share > 0, clouds.inner(before, right) / share, 0.0))
            known, right = share * before, torch.addcmul(right, share, image, value=-1)
        nearly = partial(torch.mv, self.nearly)
        return known + conjugate_gradients(times, nearly, right, target, settings.steps, clouds, None)[0]


class _Solved(torch.autograd.Function):
    """``A(x)^-1 b(x)`` as ``found + A^-1 (b(x) - A(x) found)``: the derivative is that of the residual, solved."""

    @staticmethod
    def forward(ctx: Any, residual: Tensor, found: Tensor, inverse: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.inverse = inverse
        return found.clone()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None, None]:
        return ctx.inverse(given[0]), None, None
