"""A cloud made ready: distinct points in memory order, their graph, and the way back to the points
as they were given.

    kept[r]   the given point that row r stands for (n,);      rows[i]   the row that stands for
    given point i (N,)

Coinciding points are one: each copy gets its value and an equal share of its mass.  Along a
space-filling curve the neighbours of a point are near in memory, which makes the search and every
sparse product after it several times faster.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from ..errors import warn
from ..neighbors.graph import Graph, Metric, build_graph
from ..neighbors.layout import REORDER, morton_order, rows_at_once
from ..points import Frame, check_count


@dataclass(frozen=True)
class Cloud:
    """``given`` points in the caller's units, and their ``frame``; ``rows`` and ``kept`` are None
    where nothing was moved or merged."""

    given: Tensor  # (N, d) float64
    frame: Frame
    rows: Tensor | None = None  # (N,)
    kept: Tensor | None = None  # (n,)
    short_cuts: Tensor | None = None  # (c, 2) edges that were cut from the graph, as rows of it
    noisy: bool = False  # whether its points were moved onto the surface

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
        """Mass ``(n,)`` and functions ``(n, K)`` of the kept points, at all given ones ``(N,
        ...)``.
        """
        if self.rows is None:
            return mass, vectors
        return self.share(mass)[self.rows], vectors[self.rows]

    def share(self, mass: Tensor) -> Tensor:
        """What one copy of every kept point has of its mass ``(n,)``."""
        return mass if self.rows is None else mass / torch.bincount(self.rows)

    def collect(self, values: Tensor) -> Tensor:
        """Values ``(N, ...)`` at the given points, at the kept ones ``(n, ...)``: the mean over
        copies.
        """
        if self.rows is None:
            return values
        counts = torch.bincount(self.rows).to(values)
        sums = values.new_zeros((len(counts), *values.shape[1:])).index_add_(0, self.rows, values)
        return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


@dataclass(frozen=True)
class CloudGraph(Cloud):
    """With the ``graph`` of the kept points in the frame; a length below ``same``, of that to the
    last neighbour, is that to a copy."""

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
) -> CloudGraph:
    """The distinct points of a cloud ``(N, d)`` with their ``neighbours`` nearest, enough of them
    for ``k`` vectors.

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
    return CloudGraph(given, frame, rows, kept, graph=graph)


def distinct(points: Tensor) -> tuple[Tensor, Tensor] | None:
    """The first copy of every distinct point ``(n,)``, in their order, and the one that each point
    ``(N,)`` is a copy of; a warning says how many are. None where all differ."""
    place = groups(points)
    if place is None:
        return None
    first, order = _first(place, int(place.max()) + 1).sort()
    copies = len(points) - len(first)
    warn(
        f"{copies} of {len(points)} points coincide with others; each copy shares the value "
        "and the mass"
    )
    return first, _inverse(order)[place]


def groups(points: Tensor) -> Tensor | None:
    """The group of equal points ``(n,)`` that each point is in, or None where all differ."""
    sums = fingerprints(points).sort().values
    if not bool((sums[1:] == sums[:-1]).any()):
        return None
    unique, place = torch.unique(points, dim=0, return_inverse=True)
    return None if len(unique) == len(points) else place


def fingerprints(points: Tensor) -> Tensor:
    """A number ``(n,)`` for every point ``(n, d)``: equal points have equal bits, and so an equal
    sum of them.

    Sorting rows is dear, sorting sums is not. Others agree once in 2^64 pairs.
    """
    factors = (
        torch.randint(1 << 62, (points.shape[1],), generator=torch.Generator().manual_seed(0)) * 2
        + 1
    )
    factors, sums = (
        factors.to(points.device),
        torch.empty(len(points), dtype=torch.int64, device=points.device),
    )
    size = rows_at_once(points.device, 4 * points.shape[1])  # three copies beside the points
    for out, part in zip(sums.split(size), points.split(size), strict=True):
        # -0 is 0
        bits = (
            (part + 0.0).view(torch.int64 if points.dtype == torch.float64 else torch.int32).long()
        )
        torch.sum((bits ^ (bits >> 15)) * factors, 1, out=out)  # overflow is no harm
    return sums


def _first(rows: Tensor, count: int) -> Tensor:
    """The first point of every group of coinciding ones."""
    places = torch.full((count,), len(rows), dtype=torch.int64, device=rows.device)
    return places.scatter_reduce_(0, rows, torch.arange(len(rows), device=rows.device), "amin")


def _inverse(order: Tensor) -> Tensor:
    return torch.empty_like(order).index_copy_(
        0, order, torch.arange(len(order), device=order.device)
    )
