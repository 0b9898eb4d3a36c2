"""Which neighbours a point keeps, what it takes to choose them, and the Voronoi cells of a surface.

    h_i                            local spacing (n,)                T_i (d, dim)   orthonormal tangent frame
    |sum_j T_i^T u_ij| <= s count  "surrounded": the directions u_ij to the nearest `count` neighbours cancel
    |sum_j (T_i^T u_ij)^(2)| <= t count                              and not in a plane: the traceless second moments
    |T_i^T u_ij|, |T_j^T u_ij| >= cos(angle)                         the edge ij runs along the sheet at both ends

On a curve the nearest neighbour on either side is kept, unless it is a point of another turn that an end of the curve
faces: far from both, steep to the curve, and not the nearest the other way round.  In a solid the shortest list of
nearest ones that surround the point is kept.  Parts that these lists leave apart are joined by edges of the whole graph
that run along one sheet.

On a surface they are those that share an edge of the Voronoi cell of a point in its tangent plane:

    w_ij = |edge of cell i towards j| / |l_ij|        l_ij: chord to neighbour j, turned into the plane of i
    sum_j w_ij l_ij = 0,  sum_j w_ij |l_ij|^2 = 4 |cell_i|                of a closed cell

whatever the density and however much closer points lie along one direction than across it (scan lines).  The nearest
few are looked at, further ones where a cell of a random cloud may have more, and all where the nearest lie in a line.
A cell that none of them closes ends a little beyond its point, at the edge of the surface; farther out where points get
sparse towards the edges, as in a view from one side, and in scan lines and at steps of the density, where points are
missing rather than the surface.

How much length, area or volume a cloud covers, from the Voronoi cells of its points in their tangent planes.

    r_i(u) = min_j |l_ij|^2 / (2 u.l_ij)     the cell of point i seen from the point in direction u;  l_ij (n, k, dim)
    |cell_i| = mean_u  V_dim r_i(u)^dim      V_dim: volume of the unit ball;  u: evenly spread directions (D, dim)

A cell that its neighbours do not close lies at the boundary, and ends there: at the plane through the point that has
the neighbours on its other side.  A smoother knows the relative sizes of its points (the mass); their sum is fixed by
the cells of a sample of them, as the ratio of two sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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

    solid: tuple[int, int, int] = (12, 28, 9)  # neighbours kept in a solid: least, most, where never surrounded
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
    turn: int = 4  # neighbours of both ends of an edge of a curve that are nearer, if it may lead to another turn


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


def choose_edges(near: Neighbours, frames: Tensor, selection: Selection = SELECTION) -> Edges:
    """The edges of the chosen neighbours, and those that bridge gaps between them."""
    if frames.shape[2] == 1:
        keep = _adjacent(near, frames, selection)
    else:
        keep = _surrounding(near, near.directions(frames, selection.solid[1]), selection)
    return bridged(near, undirected(near.indices, keep)[0], frames, selection)


def with_pairs(edges: Edges, pairs: Tensor | None) -> tuple[Edges, Tensor]:
    """The edges with further ``pairs (c, 2)`` of points, the lower one first, and which ``(e,)`` are the latter."""
    if pairs is None:
        return edges, torch.zeros_like(edges.head, dtype=torch.bool)
    known, more = edges.head * edges.n + edges.tail, (pairs[:, 0] * edges.n + pairs[:, 1]).unique()
    key, order = torch.cat([known, more[~torch.isin(more, known)]]).sort()
    return Edges(key // edges.n, key % edges.n, edges.n), order >= len(edges)


def _surrounding(near: Neighbours, directions: Tensor, selection: Selection) -> Tensor:
    """Which neighbours each point keeps (n, k): the shortest prefix whose mean tangential direction is small."""
    few, most, otherwise = (min(count, near.indices.shape[1]) for count in selection.solid)
    count = torch.arange(1, most + 1, device=directions.device)
    surrounded = directions.cumsum(1).norm(dim=2) <= selection.surrounded * count
    surrounded &= _unevenness(directions) <= selection.uneven * count
    surrounded[:, : few - 1] = False
    first = torch.where(surrounded.any(1), surrounded.int().argmax(1) + 1, otherwise)
    keep = torch.zeros(near.indices.shape, dtype=torch.bool, device=directions.device)
    keep[:, :most] = count <= first[:, None]
    return keep | (near.distances <= (1 + selection.tie) * near.distances.gather(1, first[:, None] - 1))


def _unevenness(directions: Tensor) -> Tensor:
    """How far the second moments of the first 1, 2, ... unit vectors ``(n, k, dim)`` are from round, ``(n, k)``.

    0 where they are, and the count where they lie in a plane.
    """
    dimension = directions.shape[2]
    round_part = torch.eye(dimension, dtype=directions.dtype, device=directions.device) / dimension
    moments = (directions[..., :, None] * directions[..., None, :] - round_part).cumsum(1)
    return moments.flatten(2).norm(dim=2) * (dimension * (dimension - 1)) ** 0.5


def _adjacent(near: Neighbours, frames: Tensor, selection: Selection = SELECTION) -> Tensor:
    """On a curve, the nearest neighbour on either side: weights 1/length are then balanced as they stand."""
    side = (near.offsets @ frames)[..., 0]  # (n, k)
    ahead, behind = side > 0, side < 0
    keep = (ahead & (ahead.cumsum(1) == 1)) | (behind & (behind.cumsum(1) == 1))
    fourth = near.distances[:, min(selection.turn, near.distances.shape[1]) - 1]
    far = keep & (near.distances > torch.maximum(fourth[:, None], fourth[near.indices]))
    head, place = far.nonzero(as_tuple=True)
    tail = near.indices[head, place]
    back = (keep[tail] & (near.indices[tail] == head[:, None])).any(1)
    unit = near.offsets[head, place] / near.distances[head, place, None]
    runs = _along(unit, frames[head], selection) & _along(unit, frames[tail], selection)
    keep[head, place] = back | runs
    return keep


def bridged(near: Neighbours, edges: Edges, frames: Tensor, selection: Selection = SELECTION) -> Edges:
    """The edges; a gap in a sheet wider than the stencils is bridged by whatever the whole graph offers.

    Two sheets stay two parts: an edge between them leaves at least one of them steeply.
    """
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
    head, place = crossing.nonzero(as_tuple=True)
    ends = torch.stack([head, near.indices[head, place]], 1).sort(dim=1).values
    return bridged(near, with_pairs(edges, ends)[0], frames, selection)


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
class UnevenRule:
    """Constants of clouds whose weights are those of Voronoi cells: scan lines, sudden steps of the density."""

    nearest: int = 4  # neighbours that lie in a line where lines are more than two steps apart
    around: int = 10  # points whose directions are compared
    lined: float = 0.2  # |mean of the doubled directions| of those, of points in lines
    clear: float = 0.3  # the same where lines are clear: in 0 to .2 of an even or random cloud, in .33 to 1 of lines
    share: float = 0.27  # least share of clear points in a cloud that has lines at all
    third: float = 1.5  # mean distance to the third neighbour over that to the first: 1.2 if even, 1.8 in lines
    longest: float = 3.0  # the same of one point, at most
    widest: int = 8  # coordinates up to which a moment per point is small
    steep: float = 3.0  # spacing over that of one of the nearest at a step: .05 to .4 % of the points of random clouds
    several: float = 2.5  # points at a step at least, (sum a)^2 / sum a^2 of their areas: fewer are strays ...
    area: float = 0.02  # ... and their share of the area; up to .01 in a random cloud


UNEVEN = UnevenRule()


@torch.no_grad()
def uneven_clouds(near: Neighbours, frames: Tensor, sizes: tuple[int, ...], rule: UnevenRule = UNEVEN) -> Tensor:
    """Which of the stacked clouds of a surface lie in lines or have steps of their density, ``(b,)`` of bool."""
    clouds = Segments(sizes or (len(frames),), frames.device)
    area = near.distances[:, : SELECTION.nearest].square().mean(1)
    one = torch.ones_like(area)

    def share(rows: Tensor, weight: Tensor) -> Tensor:
        return clouds.inner(rows.to(weight), weight) / clouds.inner(one, weight)

    steep = area > rule.steep**2 * area[near.indices[:, : rule.around]].amin(1)
    stepped = area * steep
    several = clouds.inner(stepped, one).square() > rule.several * clouds.inner(stepped, stepped)
    uneven = several & (share(steep, area) > rule.area)
    if frames.shape[1] > rule.widest or near.indices.shape[1] < rule.around:
        return uneven
    alike = _alike(near, frames, rule)
    lined, shortest = alike > rule.lined, near.distances[:, 0].clamp_min(torch.finfo(alike.dtype).tiny)
    third = (near.distances[:, 2] / shortest).clamp_max(rule.longest)
    third = clouds.inner(lined.to(third), third) / clouds.inner(lined.to(third), one).clamp_min(1)
    return uneven | ((share(alike > rule.clear, one) > rule.share) & (third > rule.third))


def _alike(near: Neighbours, frames: Tensor, rule: UnevenRule) -> Tensor:
    """How far the directions to the very nearest, of a point and those round it, are the same up to sign, ``(n,)``."""
    unit = near.directions(frames, rule.nearest)
    moment = frames @ (unit.mT @ unit) @ frames.mT
    moment = moment + sum(moment[column] for column in near.indices[:, : rule.around].unbind(1))
    inside = frames.mT @ moment @ frames
    x, y, z = inside[:, 0, 0], inside[:, 1, 1], inside[:, 0, 1]
    return ((x - y).square() + 4 * z.square()).sqrt() / (x + y)


@dataclass(frozen=True)
class CellRule:
    """Constants of the cells of a surface, chosen on six meshes (even, random, in scan lines, in a step of density)."""

    nearest: int = 13  # that may share an edge of a cell: 6 on average do; more reach other sheets of thin parts ...
    further: int = 20  # ... but in random clouds cells have more: of 13, eigenvalues of a sphere are 3.5 per cent low
    irregular: float = 0.4  # first over sixth distance of a point among those: .5 and more if even, .14 if random
    radius: float = 1.5  # of a cell, over the mean distance to the six nearest: 0.6 in an even cloud, 1 in a random one
    wider: float = 1.5  # the same of cells with further neighbours, relative to the others
    outward: float = 0.3  # how far an open cell reaches outwards, over how far inwards: 0 on an edge, 1 for pixels
    growing: float = 10.0  # added to it per slope of the spacing, where a surface turns away from its only scanner ...
    usual: float = 0.045  # ... above that of edges like the rest (.02 to .06); .10 to .17 in views from one side
    farthest: float = 1.5  # how far an open cell reaches outwards at most
    chained: float = 0.0  # share of open cells beside two others from which they are the edge of the surface
    strays: bool = True  # points far from all others have no cells
    along: float = 0.7  # tangential share of an offset to a neighbour on the same sheet
    thin: float = 0.3  # 4 det / trace^2 of the moments of the nearest below which they lie in a line
    most: float = 6.0  # weight of a pair much closer than others: more would only shorten steps of the smoother
    shared: float = 0.1  # of the difference of two masses that passes along their edge, for the same reason
    bridge: float = 0.02  # weight of an edge that joins parts; those of an even cloud have 1 / sqrt(3)
    rows: int = 2048  # cells at a time on a CPU, whose arrays its second cache holds


CELLS = CellRule()
# Lines and steps: open cells in chains (.6 to .75 of them) are an edge, single ones (.2 to .5) gaps, which have no area
# of their own.  Outwards, 1 loses at steps, 2.5 at edges; cells that further neighbours close cross the gaps
# between sheets; the sparse side of a step is no stray.
UNEVEN_CELLS = CellRule(further=0, outward=1.5, growing=0.0, chained=0.55, strays=False, most=math.inf, shared=0.0)


def planar_frames(near: Neighbours, frames: Tensor, rule: CellRule = CELLS) -> tuple[Tensor, Tensor]:
    """The frames ``(n, d, 2)``, those of all neighbours where the nearest lie in a line, and where that is ``(n,)``."""
    flat = near.offsets[:, : SELECTION.frame] @ frames
    moment = flat.mT @ flat
    det = moment[:, 0, 0] * moment[:, 1, 1] - moment[:, 0, 1].square()
    thin = 4 * det < rule.thin * moment.diagonal(dim1=1, dim2=2).sum(1).square()
    rows = thin.nonzero()[:, 0]
    if len(rows):
        frames = frames.index_copy(0, rows, tangent_frames(near.offsets[rows], near.distances[rows], 2))
    return frames, thin


class CellEdges(NamedTuple):
    """Edges of Voronoi cells, their weights ``(e,)``, and areas ``(n,)`` between points and the edge of a surface."""

    edges: Edges
    weight: Tensor
    rim: Tensor


def cell_edges(
    near: Neighbours, frames: Tensor, thin: Tensor, stray: Tensor, rule: CellRule = CELLS, outward: Tensor | None = None
) -> CellEdges:
    """Edges of the Voronoi cells of points that are no ``stray (n,)``, weighted by the mean of the cells of both ends.

    Open ones end at ``outward (n,)`` of their inward reach, or where the rule says.

    An end whose list does not have the other says nothing: dense points do not see the sparse side of a step.
    """
    k, n = near.indices.shape[1], len(thin)
    few, more = min(rule.nearest, k), min(rule.further, k)
    ratio = near.distances[:, 0] / near.distances[:, min(SELECTION.nearest, k) - 1]
    weight, rim = near.offsets.new_zeros((n, k)), near.offsets.new_zeros(n)
    outward = torch.full_like(rim, rule.outward) if outward is None else outward

    def measure(rows: Tensor, count: int, wider: float = 1.0) -> Tensor:
        own = replace(rule, radius=wider * rule.radius)
        found = _cells_in_planes(near, rows, frames[rows], count, stray, outward[rows], own)
        weight[rows, :count], rim[rows] = found.weight, found.rim
        return found.reach

    block = rule.rows if thin.device.type == "cpu" else 16 * rule.rows
    for rows in (~thin).nonzero()[:, 0].split(block):
        reach = measure(rows, few)
        if more > few:
            beside = torch.minimum(ratio[rows], ratio[near.indices[rows, :few]].amin(1))
            rows = rows[(2 * reach > near.distances[rows, few - 1]) & (beside < rule.irregular)]
            measure(rows, more, rule.wider)
    for rows in thin.nonzero()[:, 0].split(block):
        measure(rows, k)
    kept = weight.detach() > torch.finfo(weight.dtype).eps
    edges, place = undirected(near.indices, kept)
    total = weight.new_zeros(len(edges)).index_add(0, place, weight[kept])
    says = torch.bincount(place, minlength=len(edges))  # ends whose list has the other
    once = (says[place] == 1).nonzero()[:, 0].split(16 * block)
    own, other = kept.nonzero()[:, 0], near.indices[kept]
    for part in once:
        says[place[part]] += (near.indices[other[part]] == own[part, None]).any(1)
    return CellEdges(edges, total / says, rim)


class _PlaneCells(NamedTuple):
    """Cells in tangent planes: edges over distances ``(r, count)``, areas at the edge and farthest corners ``(r,)``."""

    weight: Tensor
    rim: Tensor
    reach: Tensor


def _cells_in_planes(
    near: Neighbours, rows: Tensor, frames: Tensor, count: int, stray: Tensor, outward: Tensor, rule: CellRule
) -> _PlaneCells:
    """Length of the edge of the Voronoi cell of each of some points towards its neighbours, over their distance.

    The edge towards ``p`` lies on its bisector ``p / 2 + t J p``; every other neighbour ``q`` leaves the side
    ``t <Jp, q> <= (|q|^2 - <p, q>) / 2`` of it.  Beyond the radius a cell is cut off: it may be open.
    """
    tiny, rounding, far = torch.finfo(frames.dtype).tiny, 2 * torch.finfo(frames.dtype).eps, _far(frames.dtype)
    real = torch.as_tensor(near.real, device=rows.device).expand(len(near.indices))[rows, None]
    asked = (torch.arange(count, device=rows.device) < real) & ~stray[near.indices[rows, :count]]
    offsets = near.offsets[rows, :count]
    length = offsets.norm(dim=2).clamp_min(tiny)
    flat = offsets @ frames
    size = flat.norm(dim=2).clamp_min(tiny)
    same = (asked & (size > rule.along * length)).mT.contiguous()  # (count, r): long rows are quick
    # Turned into the plane at full length: arcs are longer by a fraction of the angle squared, but so is noise.
    x, y = (flat * (length / size)[..., None]).permute(2, 1, 0).contiguous()
    squared = x.square() + y.square()
    radius = rule.radius * length[:, : SELECTION.nearest].mean(1)
    if count > max(rule.nearest, rule.further):  # points in a line: the next lines end their cells
        radius = torch.maximum(radius, length[:, -1] / 2)
    limit = (radius.square() / squared.clamp_min(tiny) - 0.25).clamp_min(tiny).sqrt()
    high, low = _bisector_ends(x, y, torch.where(same, (1 + rounding) * squared, far), limit)
    seen = same & (high - low > 16 * rounding)  # not the corner of a grid
    reach = torch.where(seen, squared * (0.25 + torch.maximum(high, -low).square()), 0.0).detach().amax(0).sqrt()
    rim = torch.zeros_like(radius)
    ended = (seen & ((high >= limit) | (low <= -limit))).any(0).nonzero()[:, 0]
    if len(ended):
        part = [values[:, ended] for values in (x, y, high, low, seen)]
        top, bottom, width = _ended(part[0], part[1], part[2], part[3], part[4], outward[ended])
        high, low = (whole.index_copy(1, ended, own) for whole, own in ((high, top), (low, bottom)))
        rim = rim.index_copy(0, ended, width)
    return _PlaneCells(torch.where(seen, (high - low).clamp_min(0.0), 0.0).mT, rim, reach)


def _bisector_ends(x: Tensor, y: Tensor, squared: Tensor, limit: Tensor) -> tuple[Tensor, Tensor]:
    """Which ``t`` of the bisectors of neighbours ``(x, y) (k, r)`` no other one cuts off, from and to; none if hidden.

    ``squared (k, r)`` is ``|q|^2``, a little more, so that none hides itself, or far beyond all for those that do not
    count. A neighbour in the same direction divides by zero: below the bisector of a nearer one there is no ``t``.
    Penalties on the other side stand for comparisons, which take five times as long.
    """
    ahead = behind = 2 * limit  # of t and of -t
    zero, far = squared.new_zeros(()), squared.new_full((), _far(squared.dtype))
    for q in range(len(x)):
        side = torch.addcmul(zero, x, y[q]).addcmul_(y, x[q], value=-1)
        room = torch.addcmul(squared[q], x, x[q], value=-1).addcmul_(y, y[q], value=-1)
        room[q] = far
        if side.requires_grad:
            side = torch.where(side == 0, 1 / far, side)
        bound = room / side.abs()
        ahead = torch.minimum(ahead, torch.addcmul(bound, side.clamp_max(0), far, value=-1))
        behind = torch.minimum(behind, torch.addcmul(bound, side.clamp_min(0), far))
    return ahead / 2, -behind / 2


def _far(dtype: torch.dtype) -> float:
    """A number beyond all others whose square is one still."""
    return float(torch.finfo(dtype).max) ** 0.25


def _ended(
    x: Tensor, y: Tensor, high: Tensor, low: Tensor, asked: Tensor, outward: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The ends of the edges of open cells, at a line outwards (neighbours ``(x, y) (k, r)`` lie inwards), and the rim.

    The rim is the area between the point and the line: edges of the cell do not count it, ``sum_j w_ij |l_ij|^2 / 4``.
    """
    tiny = torch.finfo(x.dtype).tiny
    share = asked / (x.square() + y.square()).clamp_min(tiny).sqrt()
    inward = torch.stack([(x * share).sum(0), (y * share).sum(0)])
    inward = inward / inward.norm(dim=0).clamp_min(tiny)
    along, slope = x * inward[0] + y * inward[1], x * inward[1] - y * inward[0]  # <inward, p>, <inward, J p>
    outward = outward * torch.where(asked, along / 2 + torch.maximum(high * slope, low * slope), 0.0).amax(0)
    end = -(outward + along / 2) / torch.where(slope == 0, 1.0, slope)
    cut = asked & (low < end) & (end < high) & (slope != 0)
    high = torch.where(asked & (slope < 0), torch.minimum(high, end), high)
    low = torch.where(asked & (slope > 0), torch.maximum(low, end), low)
    across = torch.where(cut, end * along - slope / 2, 0.0)  # <J inward, p / 2 + end J p>, on either side of the point
    width = across.clamp_min(0.0).amax(0) + (-across).clamp_min(0.0).amax(0)
    return high, low, torch.where(cut.sum(0) > 1, width * outward / 2, 0.0)


def spacing_growth(near: Neighbours, rows: Tensor, inward: Tensor, rule: CellRule = CELLS) -> Tensor:
    """How much the spacing of points along ``inward (r, d)`` grows per length outwards, ``(r,)``: 0 where it is even.

    The slope of the line through the extents (root mean squares along it) of the nearest points of each neighbour.
    """
    tiny = torch.finfo(inward.dtype).tiny
    count = min(rule.nearest, near.indices.shape[1])
    outside = -(near.offsets[rows, :count] @ inward[..., None])[..., 0]
    around = near.offsets[:, : SELECTION.nearest][near.indices[rows, :count]]  # (r, count, 6, d)
    extent = (around @ inward[:, None, :, None])[..., 0].square().mean(2).clamp_min(tiny).sqrt()
    outside = outside - outside.mean(1, keepdim=True)
    return (outside * extent).sum(1) / outside.square().sum(1).clamp_min(tiny)


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
