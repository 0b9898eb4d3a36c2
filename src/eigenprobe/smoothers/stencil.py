"""Which neighbours a point keeps for its balanced weights, and what it takes to choose them.

    h_i                            local spacing (n,)                T_i (d, dim)   orthonormal tangent frame
    |sum_j T_i^T u_ij| <= s count  "surrounded": the directions u_ij to the nearest `count` neighbours cancel
    |sum_j (T_i^T u_ij)^(2)| <= t count                              and not in a line: the traceless second moments
    |T_i^T u_ij|, |T_j^T u_ij| >= cos(angle)                         the edge ij runs along the sheet at both ends

On a curve the nearest neighbour on either side is kept, elsewhere the shortest list of nearest ones that surround the
point.  Parts that these lists leave apart are joined by edges of the whole graph that run along one sheet.

A surface may be sampled more closely along one direction than across it: scan lines, long cells.  There lengths are

    S_i                              the star of point i: who shares an edge of its Voronoi cell in the tangent plane
    C_i = 2 mean_{j in S_i} l l^T    averaged over i and its nearest; h^2 times the identity on an even cloud
    |l|_i^2 = l^T C_i^-1 l           lengths in which the neighbours of i are even

in which the nearest neighbours surround a point where the nearest in space lie in a line.  Weights that are round in
them are not round in space: dividing by the mean second moment along an edge makes them nearly so.

How much length, area or volume a cloud covers, from the Voronoi cells of its points in their tangent planes.

    r_i(u) = min_j |l_ij|^2 / (2 u.l_ij)     the cell of point i seen from the point in direction u;  l_ij (n, k, dim)
    |cell_i| = mean_u  V_dim r_i(u)^dim      V_dim: volume of the unit ball;  u: evenly spread directions (D, dim)

A cell that its neighbours do not close lies at the boundary, and ends there: at the plane through the point that has
the neighbours on its other side.  A smoother knows the relative sizes of its points (the mass); their sum is fixed by
the cells of a sample of them, as the ratio of two sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..graph import Edges, Graph, undirected
from ..graph.graph import components, sphere_directions
from ..search.layout import Segments, principal_axes
from .smoother import Smoother


@dataclass(frozen=True)
class Selection:
    """Constants of the choice of neighbours, with derivation or ablation."""

    planar: tuple[int, int, int] = (7, 16, 10)  # neighbours kept on a surface: least, most, where never surrounded
    solid: tuple[int, int, int] = (12, 28, 9)  # the same in a solid
    surrounded: float = 0.35  # |mean tangential direction| up to which the neighbours surround a point
    uneven: float = 0.7  # of the second moments of neighbours in a line: rows of a grid of 1 : 3 are 0.6 to 1
    tie: float = 1e-6  # relative difference of distances that are one: a shell of a solid lattice is kept whole
    nearest: int = 6  # neighbours that measure the spacing: those of an even cloud
    frame: int = 10  # neighbours that span the first frame
    stray: float = 2.5  # own over the neighbours' spacing: one of 20 000 random points of a sphere is above
    along: float = 0.75  # |tangential part| of an edge that may bridge a gap, cosine of 41 degrees
    one_sided: float = 0.4  # |mean direction| at the end of a sheet: 2/pi beside a straight gap, 0 inside
    crumb: int = 8  # a part of fewer points has no sheet of its own, and is joined by any edge
    speck: float = 0.01  # a part of a smaller share of the points is joined by edges that are no longer than ...
    beside: float = 5.0  # ... so many times the distance to the sixth neighbour at either end


SELECTION = Selection()
# Points that are even in space lie in rows in a stretched metric; weights above 0 make longer lists of them round.
STRETCHED = Selection(uneven=0.35)


class Neighbours(NamedTuple):
    """Neighbours ``(n, k)`` in ascending order, their ``offsets (n, k, d)``, and how many of each row are real."""

    indices: Tensor
    distances: Tensor
    offsets: Tensor
    real: Tensor | int  # (n,), or k for all

    @classmethod
    def of(cls, points: Tensor, indices: Tensor, distances: Tensor) -> Neighbours:
        """Rows that were filled up by repeating their first neighbour end with those copies, at offset zero."""
        offsets = points.index_select(0, indices.flatten()).view(*indices.shape, -1) - points[:, None]
        if points.requires_grad:
            distances = offsets.norm(dim=2)
        copy = torch.zeros_like(indices, dtype=torch.bool)
        torch.eq(indices[:, 1:], indices[:, :1], out=copy[:, 1:])
        if not bool(copy.any()):
            return cls(indices, distances, offsets, indices.shape[1])
        real = (~copy).sum(1)
        padded = torch.arange(indices.shape[1], device=copy.device) >= real[:, None]
        if not torch.equal(copy, padded):
            order = copy.byte().argsort(dim=1, stable=True)
            indices, distances = indices.gather(1, order), distances.gather(1, order)
            offsets = points[indices] - points[:, None]
        farthest = distances.gather(1, real[:, None] - 1)
        return cls(indices, torch.where(padded, farthest, distances), offsets.masked_fill(padded[..., None], 0), real)

    def directions(self, frames: Tensor, count: int) -> Tensor:
        """Tangential parts ``(n, count, dim)`` of the unit vectors to the first neighbours."""
        length = self.distances[:, :count, None].clamp_min(torch.finfo(self.distances.dtype).tiny)
        return (self.offsets[:, :count] @ frames) / length

    def stretched(self, field: Tensor) -> Neighbours:
        """The nearest where offsets are longer along a ``field (n, d)`` (`stretch`): as many as are surely among these.

        Of ``k`` nearest in a disk those are ``k / s`` in an ellipse, ``s`` the largest stretch.
        """
        offsets = stretch(self.offsets, field[:, None])
        distances = offsets.norm(dim=2)
        count = torch.arange(offsets.shape[1], device=field.device)
        copy = count >= torch.as_tensor(self.real, device=field.device).reshape(-1, 1)
        distances, order = distances.masked_fill(copy, torch.inf).sort(dim=1, stable=True)
        few = max(1, round(offsets.shape[1] / (1 + float(field.norm(dim=1).max()))))
        distances, order = distances[:, :few], order[:, :few]
        real = torch.as_tensor(self.real, device=field.device).clamp_max(few).expand(len(field))
        farthest = distances.gather(1, real[:, None] - 1)
        offsets = offsets.gather(1, order[..., None].expand(-1, -1, offsets.shape[2]))
        return Neighbours(self.indices.gather(1, order), torch.minimum(distances, farthest), offsets, real)


def stretch(vectors: Tensor, field: Tensor) -> Tensor:
    """``vectors`` with ``1 + |field|`` times their length along the field."""
    size = field.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(field.dtype).tiny)
    return vectors + field / size * (field * vectors).sum(-1, keepdim=True)


def tangent_frames(offsets: Tensor, distances: Tensor, dimension: int) -> Tensor:
    """Orthonormal tangent frames ``(n, d, dim)``: local principal directions of ``offsets (n, k, d)``."""
    scale = distances[:, -1:].clamp_min(torch.finfo(distances.dtype).tiny)
    weighted = offsets * torch.exp(-(distances / scale).square() / 2)[..., None] / scale[..., None]
    k, d = offsets.shape[1:]
    if d <= k:
        return principal(weighted.mT @ weighted, dimension)
    left = principal(weighted @ weighted.mT, dimension)  # d > k: the small Gram matrix
    frames = weighted.mT @ left
    return frames / frames.norm(dim=1, keepdim=True).clamp_min(torch.finfo(frames.dtype).tiny)


def principal(matrices: Tensor, count: int) -> Tensor:
    """Leading eigenvectors (n, d, count) of many small symmetric matrices (n, d, d)."""
    if not matrices.requires_grad:
        return principal_axes(matrices)[1][..., -count:]
    # Nothing here depends on the choice of vectors in the leading space, whose derivative may be infinite: only the
    # space turns.  The added term is 0, and its derivative is that of the space.
    values, vectors = principal_axes(matrices.detach())
    rest, leading = vectors[..., :-count], vectors[..., -count:]
    gap = values[:, None, -count:] - values[:, :-count, None]
    return leading + rest @ ((rest.mT @ matrices @ leading) / gap.clamp_min(torch.finfo(gap.dtype).eps))


def choose_edges(
    near: Neighbours, frames: Tensor, selection: Selection = SELECTION, directions: Tensor | None = None
) -> Edges:
    """The edges of the chosen neighbours, and those that bridge gaps between them.

    ``directions (n, k, dim)`` are those of the offsets in the tangent frames, if not as they are in space.
    """
    if frames.shape[2] == 1:
        return _bridged(near, _adjacent(near, frames), frames, selection)
    most = (selection.planar if frames.shape[2] == 2 else selection.solid)[1]
    directions = near.directions(frames, most) if directions is None else directions[:, :most]
    return _bridged(near, _surrounding(near, directions, selection), frames, selection)


def with_doubtful(edges: Edges, doubtful: Tensor | None) -> tuple[Edges, Tensor]:
    """The edges and those that may be real, and which are the latter."""
    if doubtful is None:
        return edges, torch.zeros_like(edges.head, dtype=torch.bool)
    known, more = edges.head * edges.n + edges.tail, doubtful[:, 0] * edges.n + doubtful[:, 1]
    key, order = torch.cat([known, more[~torch.isin(more, known)]]).sort()
    return Edges(key // edges.n, key % edges.n, edges.n), order >= len(edges)


def _surrounding(near: Neighbours, directions: Tensor, selection: Selection) -> Tensor:
    """Which neighbours each point keeps (n, k): the shortest prefix whose mean tangential direction is small."""
    sizes = selection.planar if directions.shape[2] == 2 else selection.solid
    few, most, otherwise = (min(count, near.indices.shape[1]) for count in sizes)
    count = torch.arange(1, most + 1, device=directions.device)
    surrounded = directions.cumsum(1).norm(dim=2) <= selection.surrounded * count
    surrounded &= _unevenness(directions) <= selection.uneven * count
    surrounded[:, : few - 1] = False
    first = torch.where(surrounded.any(1), surrounded.int().argmax(1) + 1, otherwise)
    keep = torch.zeros(near.indices.shape, dtype=torch.bool, device=directions.device)
    keep[:, :most] = count <= first[:, None]
    if directions.shape[2] == 3:
        keep |= near.distances <= (1 + selection.tie) * near.distances.gather(1, first[:, None] - 1)
    return keep


def _unevenness(directions: Tensor) -> Tensor:
    """How far the second moments of the first 1, 2, ... unit vectors ``(n, k, dim)`` are from round, ``(n, k)``.

    0 where they are, and the count where they lie in a line (in a solid: in a plane).
    """
    dimension = directions.shape[2]
    if dimension == 2:
        x, y = directions.unbind(2)
        moments = torch.stack([x.square() - y.square(), 2 * x * y], 2).cumsum(1)
        return moments.norm(dim=2)
    round_part = torch.eye(dimension, dtype=directions.dtype, device=directions.device) / dimension
    moments = (directions[..., :, None] * directions[..., None, :] - round_part).cumsum(1)
    return moments.flatten(2).norm(dim=2) * (dimension * (dimension - 1)) ** 0.5


def _adjacent(near: Neighbours, frames: Tensor) -> Tensor:
    """On a curve, the nearest neighbour on either side: weights 1/length are then balanced as they stand."""
    side = (near.offsets @ frames)[..., 0]  # (n, k)
    ahead, behind = side > 0, side < 0
    return (ahead & (ahead.cumsum(1) == 1)) | (behind & (behind.cumsum(1) == 1))


def _bridged(near: Neighbours, keep: Tensor, frames: Tensor, selection: Selection) -> Edges:
    """The kept edges; a gap in a sheet wider than the kept stencils is bridged by whatever the whole graph offers.

    Two sheets stay two parts: an edge between them leaves at least one of them steeply.
    """
    edges, _ = undirected(near.indices, keep)
    count, labels = edges.components
    if count == 1:
        return edges
    crossing = labels[:, None] != labels[near.indices]
    if frames.shape[1] > frames.shape[2]:
        head, place = crossing.nonzero(as_tuple=True)
        tail = near.indices[head, place]
        unit = near.offsets[head, place] / near.distances[head, place, None]
        size = torch.bincount(labels)[labels]
        crumb, speck = size < selection.crumb, size < selection.speck * len(labels)
        sixth = selection.beside * near.distances[:, min(selection.nearest, near.distances.shape[1]) - 1]
        beside = near.distances[head, place] < torch.minimum(sixth[head], sixth[tail])
        crossing[head, place] = (
            (_along(unit, frames[head], selection) & _along(unit, frames[tail], selection))
            | (_open(unit, head, near, labels, selection) & _open(-unit, tail, near, labels, selection))
            | (crumb[head] | crumb[tail])
            | ((speck[head] | speck[tail]) & beside)
        )
    if not bool(crossing.any()):
        return edges
    return _bridged(near, keep | crossing, frames, selection)


def _along(unit: Tensor, frames: Tensor, selection: Selection) -> Tensor:
    """Whether directions ``(e, d)`` run along the sheet with these frames."""
    return (unit[:, None] @ frames)[:, 0].norm(dim=1) > selection.along


def _open(unit: Tensor, ends: Tensor, near: Neighbours, labels: Tensor, selection: Selection) -> Tensor:
    """Whether directions ``(e, d)`` leave their part where it ends: its points lie on the other side of ``ends``."""
    rows, place = ends.unique(return_inverse=True)
    inside = (labels[rows, None] == labels[near.indices[rows]])[..., None]
    length = near.distances[rows, :, None].clamp_min(torch.finfo(unit.dtype).tiny)
    mean = (inside * near.offsets[rows] / length).sum(1) / inside.sum(1).clamp_min(1)
    return (unit * mean[place]).sum(1) < -selection.one_sided


@dataclass(frozen=True)
class StarRule:
    """Constants of points in lines and of their stars, with derivation."""

    nearest: int = 4  # neighbours that lie in a line where lines are more than two steps apart
    around: int = 10  # points whose stars are averaged
    lined: float = 0.2  # |mean of the doubled directions| of those, of points in lines
    clear: float = 0.3  # the same where lines are clear: in 0 to .2 of an even or random cloud, in .33 to 1 of lines
    share: float = 0.27  # least share of clear points in a cloud that has lines at all
    thin: float = 0.3  # 4 det / trace^2 of the nearest below which they span no plane
    stretched: tuple[float, float] = (1.5, 30.0)  # ratios of the axes of C at which neighbours are chosen by it
    along: float = 0.75  # tangential share of an offset on the same sheet
    third: float = (
        1.5  # mean distance to the third neighbour over that to the first; 1.2 on an even cloud, 1.8 in lines
    )
    longest: float = 3.0  # the same of one point, at most
    tried: int = 1000  # rows that are looked at first: where none of them is stretched, none is
    rows: int = 8192  # stars at a time
    widest: int = 8  # coordinates up to which a moment per point is small


STAR = StarRule()


class Lines(NamedTuple):
    """Rows ``(r,)`` of points in lines, and inverse roots ``(r, 2, d)`` of their ``C``: ``|root l|`` is ``|l|_i``."""

    rows: Tensor
    roots: Tensor

    def squared(self, ends: Tensor, chord: Tensor, spacing: Tensor) -> Tensor:
        """``|l|_i^2`` of chords ``(e, d)`` at their ``ends (e,)``; at other points lengths over their spacing."""
        place = torch.full_like(spacing, -1, dtype=torch.int64)
        place[self.rows] = torch.arange(len(self.rows), device=place.device)
        usual = chord.square().sum(1) / spacing[ends].square()
        edge = (place[ends] >= 0).nonzero()[:, 0]
        inside = (self.roots[place[ends[edge]]] @ chord[edge, :, None]).square().sum((1, 2))
        return usual.index_copy(0, edge, inside)

    def spacing(self, spacing: Tensor) -> Tensor:
        """The spacing ``(n,)`` with ``det(C)^(1/4)`` at points in lines."""
        area = torch.linalg.det(self.roots @ self.roots.mT).rsqrt()  # of the cell, sqrt(det C)
        return spacing.index_copy(0, self.rows, area.sqrt())

    def moments(self, second: Tensor, near: Neighbours, edges: Edges, chord: Tensor) -> Tensor:
        """How much of the ``second`` moments ``(n, d, d)`` of the weights lies along every edge ``(e,)``, 1 if round.

        The mean over a point and those round it is what lines do to all of them; other points do not count.
        """
        mean = second[self.rows] + sum(second[column] for column in near.indices[self.rows, : STAR.around].unbind(1))
        mean = mean * (2 / mean.diagonal(dim1=1, dim2=2).sum(1))[:, None, None]
        identity = torch.eye(chord.shape[1], dtype=chord.dtype, device=chord.device).expand(edges.n, -1, -1)
        mean = identity.index_copy(0, self.rows, mean)
        unit = chord / chord.norm(dim=1, keepdim=True)
        head, tail = (((unit[:, None] @ mean[end])[:, 0] * unit).sum(1) for end in (edges.head, edges.tail))
        return (head * tail).sqrt()

    def ordered(self, near: Neighbours, frames: Tensor) -> tuple[Neighbours, Tensor]:
        """The neighbours, those of points in lines in the order of ``|l|_i``, and their directions ``(n, k, 2)``."""
        white = near.offsets[self.rows] @ self.roots.mT
        order = white.square().sum(2).argsort(dim=1, stable=True)
        indices, distances, offsets = near.indices.clone(), near.distances.clone(), near.offsets.clone()
        for values in (indices, distances, offsets, white):
            wide = order.view(*order.shape, *[1] * (values.ndim - 2)).expand(-1, -1, *values.shape[2:])
            rows = self.rows if len(values) == len(near.indices) else slice(None)
            values[rows] = values[rows].gather(1, wide)
        near = near._replace(indices=indices, distances=distances, offsets=offsets)
        unit = white / white.norm(dim=2, keepdim=True).clamp_min(torch.finfo(white.dtype).tiny)
        return near, near.directions(frames, near.indices.shape[1]).index_copy(0, self.rows, unit)


def find_lines(
    near: Neighbours, frames: Tensor, sizes: tuple[int, ...], rule: StarRule = STAR
) -> tuple[Tensor, Lines | None]:
    """Frames ``(n, d, 2)`` that span a plane where the nearest neighbours lie in a line, and the points in lines."""
    if frames.shape[2] != 2 or frames.shape[1] > rule.widest or near.indices.shape[1] < rule.around:
        return frames, None
    alike = _alike(near, frames, rule)
    clouds = Segments(sizes or (len(alike),), alike.device)
    one = torch.ones_like(alike)
    share = clouds.inner((alike > rule.clear).to(alike), one) / clouds.inner(one, one)
    lined, distances = alike > rule.lined, near.distances.detach()
    third = (distances[:, 2] / distances[:, 0].clamp_min(torch.finfo(distances.dtype).tiny)).clamp_max(rule.longest)
    third = clouds.inner(lined.to(third), third) / clouds.inner(lined.to(third), one).clamp_min(1)
    rows = (lined & clouds.spread((share > rule.share) & (third > rule.third))).nonzero()[:, 0]
    if not len(rows):
        return frames, None
    wide = tangent_frames(near.offsets[rows], near.distances[rows], 2)
    flat = near.offsets[rows, : SELECTION.frame] @ wide
    moment = flat.mT @ flat
    thin = 4 * torch.linalg.det(moment) < rule.thin * moment.diagonal(dim1=1, dim2=2).sum(1).square()
    plane = torch.where(thin[:, None, None], wide, frames[rows])
    frames = frames.index_copy(0, rows, plane)
    some = torch.arange(0, len(rows), max(1, len(rows) // rule.tried), device=rows.device)
    if 4 * len(some) < len(rows) and not bool(_stretched(*_moments(near, rows, plane, some, rule), rule).any()):
        return frames, None
    inside, count = _moments(near, rows, plane, torch.arange(len(rows), device=rows.device), rule)
    stretched = _stretched(inside, count, rule)
    if not bool(stretched.any()):
        return frames, None
    root = torch.linalg.inv(torch.linalg.cholesky(inside[stretched]))
    return frames, Lines(rows[stretched], root @ plane[stretched].mT)


def _moments(near: Neighbours, rows: Tensor, plane: Tensor, asked: Tensor, rule: StarRule) -> tuple[Tensor, Tensor]:
    """Mean moments ``(a, 2, 2)`` of the stars of some of the ``rows`` and of those round them, and how many they are.

    ``plane (r, d, 2)`` are the planes of the rows, ``asked (a,)`` count among these.
    """
    around = torch.cat([rows[asked, None], near.indices[rows[asked], : rule.around]], 1)
    place = torch.full((len(near.indices),), len(rows), device=rows.device)
    place[rows] = torch.arange(len(rows), device=rows.device)
    needed, others = place[around].unique(return_inverse=True)
    needed = needed[needed < len(rows)]
    count = (others < len(needed)).sum(1)  # those of no row in lines are the last, which is empty
    own = plane[needed]
    offsets = near.offsets[rows[needed]]
    flat = offsets @ own
    same = flat.square().sum(2) > rule.along**2 * offsets.square().sum(2)
    white = torch.where(same[..., None], flat, 1e3 * flat).detach()  # what is on another sheet is far
    star = torch.cat([voronoi_neighbours(part) for part in white.split(rule.rows)]) & same
    weight = star.to(flat) / star.sum(1, keepdim=True).clamp_min(1)
    moments = own @ (2 * (weight[..., None] * flat).mT @ flat) @ own.mT
    moments = torch.cat([moments, torch.zeros_like(moments[:1])])
    mean = sum(moments[column] for column in others.unbind(1)) / count[:, None, None]
    return plane[asked].mT @ mean @ plane[asked], count


def _stretched(inside: Tensor, count: Tensor, rule: StarRule) -> Tensor:
    """Which moments ``(a, 2, 2)`` of enough stars are those of lines, longer one way than the other ``(a,)``."""
    trace, det = inside.diagonal(dim1=1, dim2=2).sum(1), torch.linalg.det(inside)
    least, most = ((ratio + 1 / ratio) ** 2 for ratio in rule.stretched)  # trace^2 / det of axes with that ratio
    return (trace.square() > least * det) & (trace.square() < most * det) & (2 * count > rule.around)


@torch.no_grad()
def _alike(near: Neighbours, frames: Tensor, rule: StarRule) -> Tensor:
    """How far the directions to the very nearest, of a point and those round it, are the same up to sign, ``(n,)``."""
    unit = near.directions(frames, rule.nearest)
    moment = frames @ (unit.mT @ unit) @ frames.mT
    moment = moment + sum(moment[column] for column in near.indices[:, : rule.around].unbind(1))
    inside = frames.mT @ moment @ frames
    x, y, z = inside[:, 0, 0], inside[:, 1, 1], inside[:, 0, 1]
    return ((x - y).square() + 4 * z.square()).sqrt() / (x + y)


def voronoi_neighbours(flat: Tensor) -> Tensor:
    """Which of the points ``flat (n, k, 2)`` share an edge of the Voronoi cell of the origin with it, ``(n, k)``.

    The edge towards ``p`` lies on its bisector ``p / 2 + t J p``; every other point ``q`` leaves the side
    ``t <Jp, q> <= (|q|^2 - <p, q>) / 2`` of it, and what all leave must not be empty.
    """
    squared = flat.square().sum(2)
    turned = torch.stack([-flat[..., 1], flat[..., 0]], 2)
    itself = torch.eye(flat.shape[1], dtype=torch.bool, device=flat.device)
    slope = (turned @ flat.mT).masked_fill(itself, 0.0)  # (n, p, q)
    bound = ((squared[:, None] - flat @ flat.mT) / 2).masked_fill(itself, 0.0)
    ratio = bound / torch.where(slope == 0, 1.0, slope)
    high = ratio.masked_fill(slope <= 0, torch.inf).amin(2)
    low = ratio.masked_fill(slope >= 0, -torch.inf).amax(2)
    hidden = ((slope == 0) & (bound < 0)).any(2)
    return (low < high) & ~hidden & (squared > 0)


CELL_DIMENSIONS = 3  # above, directions and neighbours are too few for cells: balls of k neighbours instead
SAMPLE = 8192  # cells that are measured: their sizes vary by half, so the ratio is good to .6 per cent
BLOCK = 1024  # points at a time: (1024, k, D) numbers
GAP = 0.7 * math.pi  # between directions to neighbours: pi at a straight edge, pi / 2 at most inside an even sheet
LINKED = 10  # nearest points that continue a chain
CHAIN = 8  # points of the shortest chain
DIRECTIONS = {1: 2, 2: 64, 3: 200}


def covered(smoother: Smoother) -> Tensor:
    """Length, area or volume (``length^dim``) of the cloud of a smoother in its measure, in the units of its graph.

    A number, with derivatives where the points of the graph and the mass have them.
    """
    graph, mass = smoother.graph, smoother.mass
    if graph is None or not smoother.symmetric or graph.metric != "euclidean":
        raise InputError("a volume needs a symmetric smoother on a Euclidean graph")
    graph, dimension = graph.without_loops(), max(1, round(smoother.dimension))
    rows = torch.arange(0, graph.n, max(1, -(-graph.n // SAMPLE)), device=graph.device)
    if dimension > CELL_DIMENSIONS:
        # n balls of k neighbours cover the volume k times over, whatever the density.
        sizes = _ball(dimension) * graph.distances[rows, -1] ** dimension / graph.k
    else:
        sizes = torch.cat([_cells(graph, part, dimension)[0] for part in rows.split(BLOCK)])
    if smoother.density is not None:
        sizes = sizes * smoother.density[rows]
    return sizes.sum() / mass[rows].double().sum() * mass.double().sum()


def at_boundary(smoother: Smoother) -> Tensor:
    """Which points ``(n,)`` lie at the boundary: the nearest neighbours leave their cells open.

    The boundary of a surface is made of loops: points alone or in small groups are gaps of a noisy or sparse sheet.
    """
    dimension = max(1, round(smoother.dimension))
    if smoother.graph is None or smoother.graph.metric != "euclidean" or dimension > CELL_DIMENSIONS:
        raise InputError("a boundary is found in Euclidean clouds of up to three dimensions: give a bool mask instead")
    graph = smoother.graph.without_loops()
    found = open_cells(graph, torch.arange(graph.n, device=graph.device), dimension)
    return found & _in_loops(graph) if dimension == 2 and bool(found.any()) else found


def open_cells(graph: Graph, rows: Tensor, dimension: int) -> Tensor:
    """Which of some points ``(rows,)`` of a graph without self-loops have a cell that their neighbours do not close."""
    found = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    places = torch.arange(len(rows), device=rows.device)
    if dimension == 2:
        # A neighbour at less than 60 degrees from a direction closes it (|l| <= 2 r cos), so that six sectors do which
        # all have one: signs against three lines at 60 degrees to each other.
        x, y = _in_planes(graph, rows, SELECTION.frame)
        sector = (y > 0).long() + 2 * (y > 3**0.5 * x) + 4 * (y > -(3**0.5) * x)
        places = (x.new_zeros((len(rows), 8)).scatter_(1, sector, 1.0).sum(1) < 6).nonzero()[:, 0]
    for part in places.split(BLOCK):
        found[part] = _cells(graph, rows[part], dimension)[1]
    return found


def _in_planes(graph: Graph, rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Coordinates ``(rows, k)`` of the neighbours of some points in the planes of the ``count`` nearest."""
    places, near = graph.points.mT.contiguous(), graph.indices[rows]  # an axis at a time: shorter gathers
    offsets = torch.stack([axis.take(near) - axis[rows, None] for axis in places])  # (d, rows, k)
    if len(places) > 2:
        frames = tangent_frames(offsets[..., :count].permute(1, 2, 0), graph.distances[rows, :count], 2)
        offsets = torch.stack([(axis.mT[..., None] * offsets).sum(0) for axis in frames.unbind(2)])
    return offsets[0], offsets[1]


def _in_loops(graph: Graph) -> Tensor:
    """Which points ``(n,)`` are beside a chain of points with a wide gap in the directions to all their neighbours."""
    x, y = _in_planes(graph, torch.arange(graph.n, device=graph.device), graph.k)
    angle = torch.atan2(y, x).sort(dim=1).values
    wide = torch.cat([angle.diff(dim=1), angle[:, :1] + 2 * math.pi - angle[:, -1:]], 1).amax(1) > GAP
    near = graph.indices[:, :LINKED]
    head, place = (wide[:, None] & wide[near]).nonzero(as_tuple=True)
    _, labels = components(head, near[head, place], graph.n)
    chained = wide & (torch.bincount(labels)[labels] >= CHAIN)
    return chained | chained[near].any(1)


def _cells(graph: Graph, rows: Tensor, dimension: int) -> tuple[Tensor, Tensor]:
    """Sizes ``(rows,)`` of the cells of some points, and whether the neighbours leave a cell open."""
    points, indices, distances = graph.points, graph.indices, graph.distances
    tiny = torch.finfo(points.dtype).tiny
    offsets, length = points[indices[rows]] - points[rows, None], distances[rows].clamp_min(tiny)
    if dimension < points.shape[1]:
        few = slice(0, SELECTION.frame)
        offsets = offsets @ tangent_frames(offsets[:, few], length[:, few], dimension)
        if dimension == 2:  # the directions start at the nearest neighbour: no frame is better than another
            x, y = (offsets[:, :1] / offsets[:, :1].norm(dim=2, keepdim=True).clamp_min(tiny)).unbind(2)
            u, v = offsets.unbind(2)
            offsets = torch.stack([x * u + y * v, x * v - y * u], 2)
        # Chords that leave the tangent plane keep their length: near enough to an arc's.
        offsets = offsets * (length / offsets.norm(dim=2).clamp_min(tiny))[..., None]
    directions = even_directions(dimension).to(points)
    closing = (2 * (offsets @ directions.T) / length.square()[..., None]).amax(1)  # 1 / r, (rows, D)
    farthest = 1 / length.amax(1, keepdim=True)
    outward = -(offsets / length[..., None]).mean(1)
    is_open = closing.amin(1) < farthest[:, 0]
    beyond = is_open[:, None] & (outward @ directions.T > 0)
    radius = torch.where(beyond, 0.0, 1 / torch.maximum(closing, farthest))
    return _ball(dimension) * (radius**dimension).mean(1), is_open


def even_directions(dimension: int) -> Tensor:
    """Unit vectors ``(D, dim)`` spread evenly: both ways, a ring, or a Fibonacci sphere."""
    count = DIRECTIONS[dimension]
    place = torch.arange(count, dtype=torch.float64)
    if dimension == 1:
        return 1 - 2 * place[:, None]
    if dimension == 2:
        angle = 2 * math.pi * place / count
        return torch.stack([angle.cos(), angle.sin()], 1)
    return sphere_directions(count)


def _ball(dimension: int) -> float:
    return math.pi ** (dimension / 2) / math.gamma(dimension / 2 + 1)
