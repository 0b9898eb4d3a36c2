"""A cloud made ready: distinct points in memory order, their graph, and the way back to the points as they were given.

    kept[r]   the given point that row r stands for (n,);      rows[i]   the row that stands for given point i (N,)

Coinciding points are one: each copy gets its value and an equal share of its mass.  Along a space-filling curve the
neighbours of a point are near in memory, which makes the search and every sparse product after it several times faster.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from ..cloud import Frame, check_count
from ..errors import warn
from ..search.cells import HOST
from ..search.layout import REORDER, morton_order
from ..search.neighbours import EXACT_POINTS, KDTREE_DIMENSIONS, Backend, nearest_rows, without_self
from .graph import Graph, Metric, build_graph, components

APART = 300.0  # lengths between different rows over those between a row and its copies
FEWEST = 4  # different rows per neighbour, and copies of one at most: beyond either they are groups of rows
SEEN = 2000  # rows whose lengths are looked at
CACHE = 1 << 16  # numbers whose bits are added up at once on a processor


@dataclass(frozen=True)
class Placed:
    """``given`` points in the caller's units, and their ``frame``; ``rows`` and ``kept`` are None where nothing was
    moved or merged."""

    given: Tensor  # (N, d) float64
    frame: Frame
    rows: Tensor | None = None  # (N,)
    kept: Tensor | None = None  # (n,)
    short_cuts: Tensor | None = None  # (c, 2) edges that were cut from the graph, as rows of it
    doubts: tuple[Tensor, Tensor] | None = None  # (e, 2) judged edges that were kept, and how likely each is one (e,)

    @classmethod
    def plain(cls, points: Tensor, **own: Any) -> Self:
        """Points as they are, in their own units."""
        return cls(points, Frame(torch.zeros_like(points[0]), 1.0), **own)

    @property
    def points(self) -> Tensor:
        """The kept points ``(n, d)`` in the caller's units."""
        return self.given if self.kept is None else self.given[self.kept]

    @property
    def duplicates(self) -> int:
        """How many given points coincide with another one."""
        return 0 if self.kept is None else len(self.given) - len(self.kept)

    def spread(self, mass: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Mass ``(n,)`` and functions ``(n, K)`` of the kept points, at all given ones ``(N, ...)``."""
        if self.rows is None:
            return mass, vectors
        return self.share(mass)[self.rows], vectors[self.rows]

    def share(self, mass: Tensor) -> Tensor:
        """What one copy of every kept point has of its mass ``(n,)``."""
        return mass if self.rows is None else mass / torch.bincount(self.rows)

    def collect(self, values: Tensor) -> Tensor:
        """Values ``(N, ...)`` at the given points, at the kept ones ``(n, ...)``: the mean over copies."""
        if self.rows is None:
            return values
        counts = torch.bincount(self.rows).to(values)
        sums = values.new_zeros((len(counts), *values.shape[1:])).index_add_(0, self.rows, values)
        return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


@dataclass(frozen=True)
class Arranged(Placed):
    """With the ``graph`` of the kept points in the frame; a length below ``same``, of that to the last neighbour, is
    that to a copy."""

    graph: Graph = field(kw_only=True)
    same: float = field(default=1e-5, kw_only=True)


def arrange(
    given: Tensor,
    neighbours: int,
    k: int,
    metric: Metric = "euclidean",
    *,
    frame: Frame | None = None,
    dtype: torch.dtype = torch.float64,
) -> Arranged:
    """The distinct points of a cloud ``(N, d)`` with their ``neighbours`` nearest, enough of them for ``k`` vectors.

    ``frame`` is that of a cloud which this one is a part of; ``dtype`` is that of the points in it.
    """
    frame = frame or Frame.of(given, metric, centred=False)
    points = frame(given, dtype)
    ordered = points.shape[1] <= 3 and len(points) > REORDER
    kept = morton_order(points) if ordered else None
    rows, moved = (None, points) if kept is None else (_inverse(kept), points[kept])
    if (merged := distinct(moved)) is not None:
        first, place = merged
        check_count(len(first), k, "distinct ")
        rows, kept = (place, first) if rows is None or kept is None else (place[rows], kept[first])
        moved = moved[first]
    graph = build_graph(moved, min(neighbours, len(moved) - 1), metric=metric, ordered=ordered)
    return Arranged(given, frame, rows, kept, graph=graph)


def distinct(points: Tensor) -> tuple[Tensor, Tensor] | None:
    """The first copy of every distinct point ``(n,)``, in their order, and the one that each point ``(N,)`` is a copy
    of; a warning says how many are. None where all differ."""
    place = groups(points)
    if place is None:
        return None
    first, order = _first(place, int(place.max()) + 1).sort()
    copies = len(points) - len(first)
    warn(f"{copies} of {len(points)} points coincide with others; each copy shares the value and the mass")
    return first, _inverse(order)[place]


def extend(cloud: Arranged, more: Tensor) -> Arranged | None:
    """The cloud with new rows ``more (m, d)``: only their distances to all are computed; None where points coincide,
    or where so many are new that the cells of all (`cells`) need fewer distances.

    A list of neighbours takes in the new rows that are nearer than its last, so that it is what a search would find.
    """
    given, graph = torch.cat([cloud.given, more.to(cloud.given)]), cloud.graph
    new = cloud.frame(more, graph.points.dtype)
    n, k, points = graph.n, graph.k, torch.cat([graph.points, new])
    wide = points.shape[1] > KDTREE_DIMENSIONS
    many = wide and len(points) > EXACT_POINTS and 2 * len(new) > HOST.searched
    if many or cloud.kept is not None or groups(points) is not None:
        return None
    space = points if graph.metric == "euclidean" else points / points.norm(dim=1, keepdim=True)
    lengths = graph.distances if graph.metric == "euclidean" else (2 * graph.distances).sqrt()
    backend: Backend = "torch" if wide else "auto"
    found, near = nearest_rows(space[n:], space[:n], min(k, len(new)), backend)
    lengths, place = torch.cat([lengths, near.to(lengths)], 1).topk(k, largest=False)
    indices = torch.cat([graph.indices, found + n], 1).gather(1, place)
    found, near = without_self(*nearest_rows(space, space[n:], k + 1, backend), first=n)
    indices, lengths = torch.cat([indices, found]), torch.cat([lengths, near.to(lengths)])
    distances = lengths if graph.metric == "euclidean" else lengths.square() / 2
    return Arranged(given, cloud.frame, graph=Graph(points, indices, distances, graph.metric))


def without_near_copies(cloud: Arranged) -> Arranged:
    """The same cloud where most neighbours are copies with a little noise: one point for each group of them.

    Lists of such neighbours say nothing about the rest. Copies are what lies below an empty stretch of the lengths of
    all lists, at least by `APART`; distances of one shape, however uneven, leave none. Where every list is full of
    them, they are the parts of the graph.
    """
    graph, least = cloud.graph, _least_between_rows(cloud.graph)
    if least < math.inf:
        near = graph.squared < least
        if 2 * int(near.sum()) < near.numel():
            return cloud
        rows = torch.arange(graph.n, device=graph.device)[:, None].expand_as(near)
        count, label = components(rows[near], graph.indices[near], graph.n)
    else:
        count, label = graph.components()
    if count < FEWEST * graph.k or graph.n > FEWEST * graph.k * count:  # a few groups
        return cloud
    if least == math.inf:
        between = build_graph(graph.points[_first(label, count)], 1, metric=graph.metric).squared
        if float(between.quantile(0.05)) < APART**2 * float(graph.squared.max()):
            return cloud
    warn(f"{graph.n - count} of {graph.n} rows are others with a little noise; they share their value and mass")
    first, order = _first(label, count).sort()
    label = _inverse(order)[label]
    own = build_graph(graph.points[first], graph.k, metric=graph.metric, ordered=graph.ordered)
    given = label if cloud.rows is None else label[cloud.rows]
    kept = first if cloud.kept is None else cloud.kept[first]
    return Arranged(cloud.given, cloud.frame, given, kept, graph=own, same=1 / APART)


def _least_between_rows(graph: Graph) -> float:
    """The squared length in the middle of the widest empty stretch of all lengths; infinite where none is wide."""
    some = graph.squared[:: max(1, graph.n // SEEN)].flatten()
    logs = some[some > 0].sort().values.log()
    few = len(logs) // 200  # on either side at least
    gaps = logs.diff()[few : len(logs) - few]
    if len(gaps) == 0 or float(gaps.max()) < 2 * math.log(APART):
        return math.inf
    place = few + int(gaps.argmax())
    return math.exp(float(logs[place] + logs[place + 1]) / 2)


def groups(points: Tensor) -> Tensor | None:
    """The group of equal points ``(n,)`` that each point is in, or None where all differ."""
    sums = fingerprints(points).sort().values
    if not bool((sums[1:] == sums[:-1]).any()):
        return None
    unique, place = torch.unique(points, dim=0, return_inverse=True)
    return None if len(unique) == len(points) else place


def fingerprints(points: Tensor) -> Tensor:
    """A number ``(n,)`` for every point ``(n, d)``: equal points have equal bits, and so an equal sum of them.

    Sorting rows is dear, sorting sums is not. Others agree once in 2^64 pairs.
    """
    factors = torch.randint(1 << 62, (points.shape[1],), generator=torch.Generator().manual_seed(0)) * 2 + 1
    factors, sums = factors.to(points.device), torch.empty(len(points), dtype=torch.int64, device=points.device)
    size = max(1, (CACHE if points.device.type == "cpu" else CACHE << 8) // max(1, points.shape[1]))
    for out, part in zip(sums.split(size), points.split(size), strict=True):
        bits = (part + 0.0).view(torch.int64 if points.dtype == torch.float64 else torch.int32).long()  # -0 is 0
        torch.sum((bits ^ (bits >> 15)) * factors, 1, out=out)  # overflow is no harm
    return sums


def _first(rows: Tensor, count: int) -> Tensor:
    """The first point of every group of coinciding ones."""
    places = torch.full((count,), len(rows), dtype=torch.int64, device=rows.device)
    return places.scatter_reduce_(0, rows, torch.arange(len(rows), device=rows.device), "amin")


def _inverse(order: Tensor) -> Tensor:
    return torch.empty_like(order).index_copy_(0, order, torch.arange(len(order), device=order.device))
