"""A cloud made ready: the points that its operator is made on, in memory order, their graph, and
the way from and to the points as they were given.

    rows[i]   the row that given point i (N,) belongs to
    share_i   what i has of the mass of its row: copies of a point and members of a cell share it
              equally, points that are left out have none

Rows are distinct given points, ``kept (n,)``, or ``means (n, d)`` of cells (`sample`).  Along a
space-filling curve the neighbours of a point are near in memory, which makes the search and every
sparse product after it several times faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor

from ..errors import warn
from ..host.files import Facts
from ..neighbors.graph import Graph, Metric, build_graph, cloud_dimensions
from ..neighbors.layout import REORDER, Segments, framed, morton_order, rows_at_once
from ..neighbors.search import query
from ..points import Frame, check_count
from .quadrics import BIAS

if TYPE_CHECKING:
    from .inspection import Inspection


PADDED = 3.0  # rows, over points, up to which clouds of different sizes go together


@dataclass(frozen=True)
class Cloud:
    """``given`` points in the caller's units, and their ``frame``; ``rows`` and ``kept`` are None
    where nothing was moved, merged or left out."""

    given: Tensor  # (N, d) float64
    frame: Frame
    rows: Tensor | None = None  # (N,); of a point that is left out the nearest
    kept: Tensor | None = None  # (n,) the given points that rows stand for
    short_cuts: Tensor | None = None  # (c, 2) edges that were cut from the graph, as rows of it
    noise: float = 0.0  # of a surface, over its spacing
    means: Tensor | None = None  # (n, d) in the caller's units, where no rows are kept
    left_out: Tensor | None = None  # (N,) bool
    outliers: Tensor | None = None  # (N,) bool, those among them that lie on no surface
    inspection: Inspection | None = None  # how the given points were sampled

    @classmethod
    def plain(cls, points: Tensor, **own: Any) -> Self:
        """Points as they are, in their own units."""
        return cls(points, Frame(torch.zeros_like(points[0]), 1.0), **own)

    @property
    def points(self) -> Tensor:
        """The points of the operator ``(n, d)`` in the caller's units."""
        if self.means is not None:
            return self.means
        return self.given if self.kept is None else self.given[self.kept]

    @property
    def whole(self) -> bool:
        """Whether all given points are there, none left out and none averaged."""
        return self.means is None and self.left_out is None

    @property
    def duplicates(self) -> int:
        """How many given points coincide with another one."""
        if self.kept is None:
            return 0
        lost = 0 if self.left_out is None else int(self.left_out.sum())
        return len(self.given) - lost - len(self.kept)

    @cached_property
    def shares(self) -> Tensor:
        """What every given point ``(N,)`` has of the mass of its row."""
        held = torch.ones_like(self.given[:, 0])
        if self.rows is None:
            return held
        if self.left_out is not None:
            held[self.left_out] = 0
        return held / torch.bincount(self.rows, held)[self.rows]

    def facts(self) -> Facts:
        """What is known of it, for people."""
        strays = 0 if self.outliers is None else int(self.outliers.sum())
        facts = Facts()
        if self.duplicates:
            facts["duplicates"] = self.duplicates
        if self.short_cuts is not None:
            facts["short_cuts"] = len(self.short_cuts)
        if self.inspection is not None:
            quality = self.inspection.facts()
            facts["quality"] = quality | {
                "thickness": self.noise * quality["spacing"],
                "noise_over_spacing": round(self.noise, 4),
                "cleaned": 2 * self.noise**2 > BIAS,
                "strays": strays,
                "stray_share": round(strays / len(self.given), 5),
            }
        if not self.whole:
            facts["resolution"] = len(self.points)
        if self.outliers is not None:
            facts["strays"] = self.outliers.nonzero()[:, 0].tolist()
        if self.left_out is not None:
            small = self.left_out if self.outliers is None else self.left_out & ~self.outliers
            facts |= {"left_out": small.nonzero()[:, 0].tolist()} if bool(small.any()) else {}
        return facts

    def spread(self, mass: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Mass ``(n,)`` and functions ``(n, K)`` of the rows, at all given points ``(N, ...)``."""
        if self.rows is None:
            return mass, vectors
        return mass[self.rows] * self.shares.to(mass), vectors[self.rows]

    def share(self, mass: Tensor) -> Tensor:
        """What one copy of every point has of its mass ``(n,)``."""
        return mass if self.rows is None else mass / torch.bincount(self.rows)

    def collect(self, values: Tensor) -> Tensor:
        """Values ``(N, ...)`` at the given points, at the rows ``(n, ...)``: the mean over copies
        or cells.
        """
        if self.rows is None:
            return values
        weight = self.shares.to(values).view(-1, *[1] * (values.ndim - 1))
        sums = values.new_zeros((len(self.points), *values.shape[1:]))
        return sums.index_add_(0, self.rows, weight * values)

    def without(self, lost: Tensor) -> Self:
        """The cloud without some rows, ``lost (n,)`` bool."""
        kept, place = (~lost).nonzero()[:, 0], torch.where(lost, -1, (~lost).cumsum(0) - 1)
        rows = torch.arange(len(lost), device=lost.device) if self.rows is None else self.rows
        left_out, rows = lost[rows], place[rows]
        rows[left_out] = query(self.points[kept], self.given[left_out], 1)[0][:, 0]
        if self.left_out is not None:
            left_out |= self.left_out
        own: dict[str, Any] = {"rows": rows, "left_out": left_out}
        if self.means is not None:
            own["means"] = self.means[kept]
        else:
            own["kept"] = kept if self.kept is None else self.kept[kept]
        if self.short_cuts is not None:
            cut = place[self.short_cuts]
            own["short_cuts"] = cut[(cut >= 0).all(1)]
        return replace(self, **own)


@dataclass(frozen=True)
class CloudGraph(Cloud):
    """With the ``graph`` of the kept points in the frame; a length below ``same``, of that to the
    last neighbour, is that to a copy."""

    graph: Graph = field(kw_only=True)
    same: float = field(default=1e-5, kw_only=True)


class Cells(NamedTuple):
    """The ``points (m, d)`` of a sample, the one that every given point belongs to, ``rows (N,)``,
    and which of those are ``outliers (N,)``; ``kept (m,)`` are the given points that they are, if
    they are some.
    """

    points: Tensor
    rows: Tensor
    outliers: Tensor
    kept: Tensor | None = None


def arrange(
    given: Tensor,
    neighbours: int,
    k: int,
    metric: Metric = "euclidean",
    *,
    cells: Cells | None = None,
) -> CloudGraph:
    """The distinct points of a cloud ``(N, d)``, or of its ``cells``, with their ``neighbours``
    nearest, enough of them for ``k`` vectors.
    """
    found = given if cells is None else cells.points
    frame = Frame.of(found, metric, centred=False)
    points = frame(found)
    ordered = points.shape[1] <= 3 and len(points) > REORDER
    kept = morton_order(points) if ordered else None
    rows, moved = (None, points) if kept is None else (_inverse(kept), points[kept])
    if (merged := distinct(moved)) is not None:
        first, place = merged
        check_count(len(first), k, "distinct ")
        rows, kept = (place, first) if rows is None or kept is None else (place[rows], kept[first])
        moved = moved[first]
    graph = build_graph(moved, min(neighbours, len(moved) - 1), metric=metric, ordered=ordered)
    if cells is None:
        return CloudGraph(given, frame, rows, kept, graph=graph)
    rows = cells.rows if rows is None else rows[cells.rows]
    own: dict[str, Any] = {"means": found if kept is None else found[kept]}
    if cells.kept is not None:
        own = {"kept": cells.kept if kept is None else cells.kept[kept]}
    if bool(cells.outliers.any()):
        own |= {"outliers": cells.outliers, "left_out": cells.outliers}
    return CloudGraph(given, frame, rows, graph=graph, **own)


def grouped_by_size(sizes: Mapping[int, int], rows: int) -> list[list[int]]:
    """Groups of clouds, by their numbers, of similar sizes: padded to the largest they have at most
    so many ``rows`` each, and not many more than points.
    """
    found: list[list[int]] = []
    total = 0
    for i in sorted(sizes, key=lambda i: (-sizes[i], i)):
        total += sizes[i]
        if not found or sizes[found[-1][0]] * (len(found[-1]) + 1) > min(rows, PADDED * total):
            found.append([])
            total = sizes[i]
        found[-1].append(i)
    return found


def arrange_surfaces(
    clouds: Sequence[Tensor],
    neighbours: int,
    dimension: float | None = None,
    dtype: torch.dtype = torch.float64,
) -> tuple[list[Cloud], Graph | None, list[bool]]:
    """The clouds ``(n_i, d)`` on one device that are surfaces of distinct points, each in its
    frame, their graph as one of stacked clouds, and which these are.
    """
    each = Segments(tuple(len(x) for x in clouds), clouds[0].device)
    points = torch.cat(list(clouds))
    largest = each.padded(points.abs()).amax((1, 2))
    points, frames, scale = framed(points, each)
    kind = torch.finfo(points.dtype)  # fourth powers are ordinary numbers; not of NaN either
    sound = (scale > kind.eps**0.5 * largest) & (scale > kind.tiny**0.2) & (scale < kind.max**0.2)
    fits: list[bool] = sound.tolist()
    if all(fits):
        parts = points.to(dtype).split(each.sizes)
        kept = [morton_order(x) if len(x) > REORDER else None for x in parts]
        moved = [x if order is None else x[order] for x, order in zip(parts, kept, strict=True)]
        graph = build_graph(
            torch.cat(moved), min(neighbours, min(each.sizes) - 1), clouds=each.sizes
        )
        apart = each.padded(graph.distances[:, 0], 1.0).amin(1) > 0
        usual = (graph.k / each.counts) ** 0.5  # neighbourhoods of a unit square
        seen = each.median(graph.distances[:, -1]) > 0.01 * usual  # by single precision
        found = cloud_dimensions(graph) if dimension is None else [dimension] * len(clouds)
        fits = [ok and round(d) == 2 for ok, d in zip((apart & seen).tolist(), found, strict=True)]
    if not all(fits):  # those that fit go on without the others
        chosen = [x for x, fitting in zip(clouds, fits, strict=True) if fitting]
        if not chosen:
            return [], None, fits
        return *arrange_surfaces(chosen, neighbours, dimension, dtype)[:2], fits
    rows = (None if order is None else _inverse(order) for order in kept)
    placed = [Cloud(*each) for each in zip(clouds, frames, rows, kept, strict=True)]
    return placed, graph, fits


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
