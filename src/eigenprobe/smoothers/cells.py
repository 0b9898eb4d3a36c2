"""Voronoi cells of points in their tangent planes: the weights of a surface, and how much any cloud
covers.

On a surface (finite volumes) neighbours are those that share an edge of the cell of a point in its
tangent plane:

    w_ij = |edge of cell i towards j| / |l_ij|
    sum_j w_ij l_ij = 0,   sum_j w_ij |l_ij|^2 = 4 |cell_i|      of a closed cell
    l_ij: chord to neighbour j, turned into the plane of i

whatever the density and however much closer points lie along one direction than across it (scan
lines).  Weights are the mean of what the cells of both ends say, and the mass is the area of the
cells.  The nearest few are looked at, further ones where a cell of a random cloud may have more,
and all where the nearest lie in a line.  A cell that none of them closes ends a little beyond its
point, at the edge of the surface; farther out where points get sparse towards the edges, as in a
view from one side, and in scan lines and at steps of the density, where points are missing rather
than the surface.

How much length, area or volume a cloud covers:

    r_i(u) = min_j |l_ij|^2 / (2 u.l_ij)     reach of cell i in direction u;  l_ij (n, k, dim)
    |cell_i| = mean_u  V_dim r_i(u)^dim      V_dim: volume of the unit ball;  u (D, dim) even

A cell that its neighbours do not close lies at the boundary, and ends there: at the plane through
the point that has the neighbours on its other side.  A smoother knows the relative sizes of its
points (the mass); their sum is fixed by the cells of a sample of them, as the ratio of two sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..neighbors.graph import FRAME, RING, Edges, Graph, components, undirected
from ..neighbors.layout import rows_at_once
from .smoother import Smoother
from .stencil import (
    BALANCE,
    Balance,
    Neighbours,
    Stencil,
    bridged,
    edge_directions,
    edge_frames,
    first_frames,
    tangent_frames,
)


@dataclass(frozen=True)
class CellRule:
    """Constants of the cells of a surface."""

    nearest: int = 13  # that are looked at first: 6 share an edge of an even cell, on average
    # of a cell, over the mean distance to the six nearest: radius exp(growth unevenness) is 1.5 in
    # an even cloud, 2.2 in a random one, and ends no cell in the view of a scanner
    radius: float = 1.26
    growth: float = 2.5
    # first over sixth distance of a point among those: .5 and more if even, .14 if random
    irregular: float = 0.4
    # how far an open cell reaches outwards, over how far inwards: 0 on an edge, 1 for pixels
    outward: float = 0.3
    along: float = 0.3  # tangential share of an offset to a neighbour on the same sheet
    # 4 det / trace^2 of the moments of the nearest below which they lie in a line
    thin: float = 0.3
    bridge: float = 0.02  # weight of an edge that joins parts; usual ones have 1 / sqrt(3)


CELLS = CellRule()


def cell_stencil(graph: Graph, settings: Balance = BALANCE, field: Tensor | None = None) -> Stencil:
    """Weights of the Voronoi cells of a surface, in the planes of the edges that cells in the first
    planes have.

    Of one cloud or of several, on a graph without self-loops; ``field (n, d)`` stretches their
    metric.
    """
    near, frames = first_frames(graph, 2)
    points = graph.points
    sorted_ = replace(graph, indices=near.indices, distances=near.distances)
    radius = CELLS.radius * torch.exp(CELLS.growth * sorted_.unevenness)
    radius = graph.each.spread(radius)
    near = near if field is None else near.stretched_along(field, frames)
    frames, thin = planar_frames(near, frames)
    if points.shape[1] > 2:
        cells = cell_edges(near, frames, thin, radius)
        chord = points[cells.edges.tail] - points[cells.edges.head]
        frames = edge_frames(chord, cells.edges, cells.weight, 2, frames)
    cells = _joined(near, cell_edges(near, frames, thin, radius), frames)
    edges, weight, rim = cells
    chord = points[edges.tail] - points[edges.head]
    length2 = chord.square().sum(1)
    if field is not None:
        length2 = edge_directions(chord, edges, frames, settings, field)[2]
    return Stencil(edges, weight, edges.at(weight * length2) / 4 + rim)


def planar_frames(near: Neighbours, frames: Tensor) -> tuple[Tensor, Tensor]:
    """The frames ``(n, d, 2)``, those of all neighbours where the nearest lie in a line, and where
    that is ``(n,)``.
    """
    flat = near.offsets[:, :FRAME] @ frames
    moment = flat.mT @ flat
    det = moment[:, 0, 0] * moment[:, 1, 1] - moment[:, 0, 1].square()
    thin = 4 * det < CELLS.thin * moment.diagonal(dim1=1, dim2=2).sum(1).square()
    rows = thin.nonzero()[:, 0]
    if len(rows):
        frames = frames.index_copy(
            0, rows, tangent_frames(near.offsets[rows], near.distances[rows], 2)
        )
    return frames, thin


class CellEdges(NamedTuple):
    """Edges of Voronoi cells, their weights ``(e,)``, and areas ``(n,)`` between points and the
    edge of a surface.
    """

    edges: Edges
    weight: Tensor
    rim: Tensor


def cell_edges(near: Neighbours, frames: Tensor, thin: Tensor, radius: Tensor) -> CellEdges:
    """Edges of the Voronoi cells of points, weighted by the mean of the cells of both ends; cells
    end at a ``radius (n,)`` over the spacing.

    An end whose list does not have the other says nothing: dense points do not see the sparse side
    of a step.
    """
    k, n = near.indices.shape[1], len(thin)
    few = min(CELLS.nearest, k)
    weight, rim = near.offsets.new_zeros((n, k)), near.offsets.new_zeros(n)
    reach = torch.full_like(rim, torch.inf)

    def measure(rows: Tensor, count: int) -> None:
        block = rows_at_once(thin.device, 4 * count)  # x, y, squares and ends of every neighbour
        for part in rows.split(block):
            planes = _Planes.of(near, part, frames[part], count)
            sides, width, far = _measured(planes, _ends(planes), radius[part].to(planes.x))
            weight[part, :count] = sides.mT.to(weight)
            rim[part] = (width * planes.spacing.square()).to(rim)
            reach[part] = (far * planes.spacing).to(reach)

    ratio = near.distances[:, 0] / near.distances[:, min(RING, k) - 1]
    irregular = torch.minimum(ratio, ratio[near.indices[:, :few]].amin(1)) < CELLS.irregular
    measure(torch.arange(n, device=thin.device), few)
    # A neighbour that is farther than twice the farthest corner cuts nothing off.
    within = near.offsets.detach().norm(dim=2) < 2 * reach[:, None]
    needed = (within * torch.arange(1, k + 1, device=thin.device)).amax(1)
    beyond = irregular & (2 * reach > near.distances[:, few - 1])
    needed = torch.where(thin, k, torch.where(beyond, needed, 0))
    step = 6 if thin.device.type == "cpu" else k
    for count in range(few, k, step):
        rows = ((needed > count) & (needed <= count + step)).nonzero()[:, 0]
        if len(rows):
            measure(rows, min(count + step, k))
    kept = weight.detach() > torch.finfo(weight.dtype).eps
    edges, place = undirected(near.indices, kept)
    total = weight.new_zeros(len(edges)).index_add(0, place, weight[kept])
    says = torch.bincount(place, minlength=len(edges))  # ends whose list has the other
    own, other = kept.nonzero()[:, 0], near.indices[kept]
    for part in (says[place] == 1).nonzero()[:, 0].split(rows_at_once(thin.device, k)):
        says[place[part]] += (near.indices[other[part]] == own[part, None]).any(1)
    return CellEdges(edges, total / says, rim)


class _Planes(NamedTuple):
    """Neighbours ``(x, y) (k, r)`` of some points, turned into their tangent planes at full length,
    and which of them are on the same sheet; in units of the ``spacing (r,)``, the mean distance of
    the nearest. Long rows are quick.
    """

    x: Tensor
    y: Tensor
    squared: Tensor
    same: Tensor
    spacing: Tensor

    @classmethod
    def of(cls, near: Neighbours, rows: Tensor, frames: Tensor, count: int) -> _Planes:
        real = torch.as_tensor(near.real, device=rows.device).expand(len(near.indices))[rows, None]
        asked = torch.arange(count, device=rows.device) < real
        tiny = torch.finfo(frames.dtype).tiny
        offsets = near.offsets[rows, :count].to(frames).permute(2, 1, 0).contiguous()  # (d, k, r)
        length = offsets.square().sum(0).clamp_min(tiny).sqrt()  # a copy has derivatives, of 0
        x, y = (_inner(offsets, axis) for axis in frames.permute(2, 1, 0).contiguous())
        size = (x.square() + y.square()).clamp_min(tiny).sqrt()
        # At full length: arcs are longer by a fraction of the angle squared, but so is noise.
        spacing = length[:RING].mean(0)
        longer = length / size / spacing
        x, y = x * longer, y * longer
        same = asked.mT & (size > CELLS.along * length)
        return cls(x, y, x.square() + y.square(), same, spacing)


def _inner(offsets: Tensor, axis: Tensor) -> Tensor:
    """Inner products ``(k, r)`` of vectors ``(d, k, r)`` and one ``(d, r)`` for each column."""
    total = offsets[0] * axis[0]
    for part, own in zip(offsets[1:], axis[1:], strict=True):
        total = torch.addcmul(total, part, own)
    return total


def _ends(planes: _Planes) -> Tensor:
    """How far along its bisector, ahead and behind, the cell reaches towards each neighbour
    ``(2, k, r)``.

    The edge towards ``p`` lies on the bisector ``p / 2 + t J p``; every other neighbour ``q``
    leaves the side ``t <Jp, q> <= (|q|^2 - <p, q>) / 2`` of it.  A neighbour in the same direction
    divides by zero: the bisector of a nearer one leaves nothing of it.  Penalties on the other side
    stand for comparisons, which take five times as long.
    """
    x, y, far = planes.x, planes.y, float(torch.finfo(planes.x.dtype).max) ** 0.25
    more = 1 + 2 * torch.finfo(x.dtype).eps  # no neighbour hides another at its place
    squared = torch.where(planes.same, more * planes.squared, far)
    zero, large = squared.new_zeros(()), squared.new_full((), far)
    own = torch.eye(len(x), dtype=torch.bool, device=x.device)[..., None]
    ahead = behind = torch.full_like(x, far)
    size = rows_at_once(x.device, 4 * x.numel())
    for u, v, length, itself in zip(
        *(each[:, None].split(size) for each in (x, y, squared)), own.split(size), strict=True
    ):
        side = torch.addcmul(zero, x, v).addcmul_(y, u, value=-1)  # (q, k, r)
        room = torch.addcmul(length, x, u, value=-1).addcmul_(y, v, value=-1)
        room = room.masked_fill(itself, far)
        if side.requires_grad:
            side = torch.where(side == 0, 1 / far, side)
        bound = room / side.abs()
        left = torch.addcmul(bound, side.clamp_max(0), large, value=-1)
        ahead = torch.minimum(ahead, left.amin(0))
        left = torch.addcmul(bound, side.clamp_min(0), large)
        behind = torch.minimum(behind, left.amin(0))
    return torch.stack([ahead, behind])


def _measured(planes: _Planes, ends: Tensor, radius: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lengths of the edges of each cell over the distances of its neighbours ``(k, r)``, from the
    ``ends`` on the bisectors; areas at the edge of the surface and farthest corners ``(r,)``.

    Beyond the radius a cell is cut off: it may be open.
    """
    x, y, squared, same = planes[:4]
    tiny, rounding = torch.finfo(x.dtype).tiny, 32 * torch.finfo(x.dtype).eps
    limit = (radius.square() / squared.clamp_min(tiny) - 0.25).clamp_min(tiny).sqrt()
    high, low = torch.minimum(ends[0] / 2, limit), -torch.minimum(ends[1] / 2, limit)
    seen = same & (high - low > rounding)  # not the corner of a grid
    reach = (
        torch.where(seen, squared * (0.25 + torch.maximum(high, -low).square()), 0.0)
        .detach()
        .amax(0)
        .sqrt()
    )
    rim = torch.zeros_like(radius)
    ended = (seen & ((high >= limit) | (low <= -limit))).any(0).nonzero()[:, 0]
    if len(ended):
        top, bottom, width = _ended(*(part[:, ended] for part in (x, y, high, low, seen)))
        high, low = (whole.index_copy(1, ended, own) for whole, own in ((high, top), (low, bottom)))
        rim = rim.index_copy(0, ended, width)
    return torch.where(seen, (high - low).clamp_min(0.0), 0.0), rim, reach


def _ended(
    x: Tensor, y: Tensor, high: Tensor, low: Tensor, asked: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The ends of the edges of open cells, at a line outwards (neighbours ``(x, y) (k, r)`` lie
    inwards), and the rim.

    The rim is the area between the point and the line: edges of the cell do not count it, ``sum_j
    w_ij |l_ij|^2 / 4``.
    """
    tiny = torch.finfo(x.dtype).tiny
    share = asked / (x.square() + y.square()).clamp_min(tiny).sqrt()
    inward = torch.stack([(x * share).sum(0), (y * share).sum(0)])
    inward = inward / inward.norm(dim=0).clamp_min(tiny)
    # <inward, p>, <inward, J p>
    along, slope = (x * inward[0] + y * inward[1], x * inward[1] - y * inward[0])
    reach = CELLS.outward * torch.where(
        asked, along / 2 + torch.maximum(high * slope, low * slope), 0.0
    ).amax(0)
    end = -(reach + along / 2) / torch.where(slope == 0, 1.0, slope)
    cut = asked & (low < end) & (end < high) & (slope != 0)
    high = torch.where(asked & (slope < 0), torch.minimum(high, end), high)
    low = torch.where(asked & (slope > 0), torch.maximum(low, end), low)
    # <J inward, p / 2 + end J p>, on either side of the point
    across = torch.where(cut, end * along - slope / 2, 0.0)
    width = across.clamp_min(0.0).amax(0) + (-across).clamp_min(0.0).amax(0)
    return high, low, torch.where(cut.sum(0) > 1, width * reach / 2, 0.0)


def _joined(near: Neighbours, cells: CellEdges, frames: Tensor) -> CellEdges:
    """With edges between parts that those of the cells leave apart."""
    edges, weight, rim = cells
    joined = bridged(near, edges, frames)
    if joined is edges:
        return cells
    known = torch.isin(joined.head * joined.n + joined.tail, edges.head * edges.n + edges.tail)
    return CellEdges(
        joined, weight.new_full((len(joined),), CELLS.bridge).masked_scatter(known, weight), rim
    )


# cells that are measured: their sizes vary by half, so the ratio is good to .6 per cent
SAMPLE = 8192
# between directions to neighbours: pi at a straight edge, pi / 2 at most inside an even sheet
GAP = 0.7 * math.pi
LINKED = 10  # nearest points that continue a chain
CHAIN = 8  # points of the shortest chain
# of a cell; above three dimensions neighbours are too few for cells: balls of k instead
DIRECTIONS = {1: 2, 2: 64, 3: 200}


def covered(smoother: Smoother) -> Tensor:
    """Length, area or volume (``length^dim``) of the cloud of a smoother in its measure, in the
    units of its graph.

    A number, with derivatives where the points of the graph and the mass have them.
    """
    graph, mass = smoother.graph, smoother.mass
    if graph is None or not smoother.symmetric or graph.metric != "euclidean":
        raise InputError("a volume needs a symmetric smoother on a Euclidean graph")
    graph, dimension = graph.without_loops(), max(1, round(smoother.dimension))
    rows = torch.arange(0, graph.n, max(1, -(-graph.n // SAMPLE)), device=graph.device)
    if dimension not in DIRECTIONS:
        # n balls of k neighbours cover the volume k times over, whatever the density.
        sizes = _ball(dimension) * graph.distances[rows, -1] ** dimension / graph.k
    else:
        parts = rows.split(_at_once(graph, dimension))
        sizes = torch.cat([_cells(graph, part, dimension)[0] for part in parts])
    if smoother.density is not None:
        sizes = sizes * smoother.density[rows]
    return sizes.sum() / mass[rows].double().sum() * mass.double().sum()


def at_boundary(smoother: Smoother) -> Tensor:
    """Which points ``(n,)`` lie at the boundary: the nearest neighbours leave their cells open.

    The boundary of a surface is made of loops: points alone or in small groups are gaps of a noisy
    or sparse sheet.
    """
    dimension = max(1, round(smoother.dimension))
    if (
        smoother.graph is None
        or smoother.graph.metric != "euclidean"
        or dimension not in DIRECTIONS
    ):
        raise InputError(
            "a boundary is found in Euclidean clouds of up to three dimensions: give a bool "
            "mask instead"
        )
    graph = smoother.graph.without_loops()
    if graph.k <= dimension:
        raise InputError(f"a boundary needs more than {dimension} neighbours, got {graph.k}")
    found = open_cells(graph, torch.arange(graph.n, device=graph.device), dimension)
    return found & _in_loops(graph) if dimension == 2 and bool(found.any()) else found


def open_cells(graph: Graph, rows: Tensor, dimension: int) -> Tensor:
    """Which of some points ``(rows,)`` of a graph without self-loops have a cell that their
    neighbours do not close.
    """
    found = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    places = torch.arange(len(rows), device=rows.device)
    if dimension == 2:
        # A neighbour at less than 60 degrees from a direction closes it (|l| <= 2 r cos), so that
        # six sectors do which all have one: signs against three lines at 60 degrees to each other.
        x, y = _in_planes(graph, rows)
        sector = (y > 0).long() + 2 * (y > 3**0.5 * x) + 4 * (y > -(3**0.5) * x)
        places = (x.new_zeros((len(rows), 8)).scatter_(1, sector, 1.0).sum(1) < 6).nonzero()[:, 0]
    for part in places.split(_at_once(graph, dimension)):
        found[part] = _cells(graph, rows[part], dimension)[1]
    return found


def _in_planes(graph: Graph, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates ``(rows, k)`` of the neighbours of some points in their tangent planes."""
    # an axis at a time: shorter gathers
    places, near = (graph.points.mT.contiguous(), graph.indices[rows])
    offsets = torch.stack([axis.take(near) - axis[rows, None] for axis in places])  # (d, rows, k)
    if len(places) > 2:
        frames = graph.frames(2, rows)
        offsets = torch.stack([(axis.mT[..., None] * offsets).sum(0) for axis in frames.unbind(2)])
    return offsets[0], offsets[1]


def _in_loops(graph: Graph) -> Tensor:
    """Which points ``(n,)`` are beside a chain of points with a wide gap in the directions to all
    their neighbours.
    """
    x, y = _in_planes(graph, torch.arange(graph.n, device=graph.device))
    angle = torch.atan2(y, x).sort(dim=1).values
    wide = (
        torch.cat([angle.diff(dim=1), angle[:, :1] + 2 * math.pi - angle[:, -1:]], 1).amax(1) > GAP
    )
    near = graph.indices[:, :LINKED]
    head, place = (wide[:, None] & wide[near]).nonzero(as_tuple=True)
    _, labels = components(head, near[head, place], graph.n)
    chained = wide & (torch.bincount(labels)[labels] >= CHAIN)
    return chained | chained[near].any(1)


def _at_once(graph: Graph, dimension: int) -> int:
    """Points whose neighbours are compared with all directions at once."""
    return rows_at_once(graph.device, graph.k * DIRECTIONS[dimension])


def _cells(graph: Graph, rows: Tensor, dimension: int) -> tuple[Tensor, Tensor]:
    """Sizes ``(rows,)`` of the cells of some points, and whether the neighbours leave a cell
    open.
    """
    points, indices, distances = graph.points, graph.indices, graph.distances
    tiny = torch.finfo(points.dtype).tiny
    offsets, length = points[indices[rows]] - points[rows, None], distances[rows].clamp_min(tiny)
    if dimension < points.shape[1]:
        offsets = offsets @ graph.frames(dimension, rows)
        # the directions start at the nearest neighbour: no frame is better than another
        if dimension == 2:
            x, y = (
                offsets[:, :1] / offsets[:, :1].norm(dim=2, keepdim=True).clamp_min(tiny)
            ).unbind(2)
            u, v = offsets.unbind(2)
            offsets = torch.stack([x * u + y * v, x * v - y * u], 2)
        # Chords that leave the tangent plane keep their length: near enough to an arc's.
        offsets = offsets * (length / offsets.norm(dim=2).clamp_min(tiny))[..., None]
    directions = even_directions(dimension).to(points)
    closing = (2 * offsets / length.square()[..., None] @ directions.T).amax(1)  # 1 / r, (rows, D)
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
    height, angle = 1 - 2 * (place + 0.5) / count, math.pi * (1 + 5**0.5) * (place + 0.5)
    ring = (1 - height.square()).sqrt()
    return torch.stack([ring * angle.cos(), ring * angle.sin(), height], 1)


def _ball(dimension: int) -> float:
    return math.pi ** (dimension / 2) / math.gamma(dimension / 2 + 1)
