"""Points or a graph -> smoother; and what made a basis: the prepared cloud and its smoother, kept
or built again.

A smoother works on distinct points in memory order and in a frame of size one (`graph.arranged`).
Seen from the points of the caller, with r the rank of a row among the kept points and s the scale
of the frame,

    indices' = r[indices],   distances' = s distances,   A'_{r(i) r(j)} = A_ij,   step_time' = s^2
    step_time

so that A' q = (1 - lambda step_time') q for every eigenpair of the basis.  Copies of a point are
one row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from ..cloud import Array, as_tensor
from ..errors import InputError
from ..graph import Edges, Graph, build_graph, estimate_dimension
from ..graph.arranged import Arranged, Placed
from ..host.validation import validated
from ..sampling import Inspection, WorkingSample
from ..search.neighbours import Metric
from .balanced import balanced_stencil
from .cells import cell_stencil
from .gaussian import row_smoother, symmetric_smoother
from .smoother import Smoother, from_entries, laplacian_smoother
from .stencil import BALANCE, EXACT, Balance, Stencil
from .variable import variable_smoother

Kind = Literal["row", "symmetric", "adaptive"]
KINDS: tuple[Kind, ...] = ("row", "symmetric", "adaptive")
NEIGHBOURS = {"row": 15, "symmetric": 15, "adaptive": 30}
MOST_DIMENSIONS = 300  # where there are no coordinates that bound it
SCALES = {
    torch.float32: (1e-6, 1e8),
    torch.float64: (1e-60, 1e60),
}  # whose fourth powers are ordinary numbers
BALANCED_DIMENSIONS = 3  # balance needs neighbours on all sides: too many of them above this


@validated
def build_smoother(
    source: Any,
    kind: Kind = "adaptive",
    *,
    k: int | None = None,
    bandwidth: float | None = None,
    dimension: float | None = None,
    metric: Metric = "euclidean",
    balance: bool | None = None,
    **options: Any,
) -> Smoother:
    """A smoother on a cloud ``(n, d)`` (array, tensor, list, file or mesh) or on its graph; every
    setting that is not given is chosen from the data. It smooths numpy arrays to numpy arrays and
    tensors to tensors.

    ``bandwidth`` is sigma of the Gaussian (row, symmetric, and adaptive where it is not balanced);
    ``balance`` forces balanced weights on or off (adaptive). ``options``: ``self_loops`` of the
    graph; ``alpha``, the power of the density that `symmetric` divides by (1); ``settings`` and
    ``field`` of balanced weights.
    """
    if isinstance(source, Graph):
        graph = source if isinstance(source.indices, Tensor) else source.torch()
    else:
        source = as_tensor(source)
        size, (low, high) = float(source.detach().abs().max()), SCALES[source.dtype]
        if size and not low < size < high:
            raise InputError(
                f"expected coordinates between {low:.0e} and {high:.0e}, got {size:.3g}: "
                "change the unit"
            )
        most = source.shape[0] - 1
        loops = bool(options.pop("self_loops", False))
        graph = build_graph(
            source, min(k or NEIGHBOURS[kind], most), metric=metric, self_loops=loops
        )
    if dimension is None:
        dimension = estimate_dimension(graph)
    columns = graph.points.shape[1]
    most = max(columns, BALANCED_DIMENSIONS) if columns else MOST_DIMENSIONS
    if not 0 < dimension <= most:
        raise InputError(
            f"dimension must be above 0 and at most {most} for {columns} columns, got {dimension}"
        )
    known = {"row": set(), "symmetric": {"alpha"}, "adaptive": {"settings", "field"}}
    if unknown := set(options) - known[kind]:
        raise InputError(f"a {kind} smoother does not know the option {sorted(unknown)[0]!r}")
    if kind == "row":
        return row_smoother(graph, bandwidth, dimension)
    if kind == "symmetric":
        return symmetric_smoother(graph, bandwidth, dimension, **options)
    graph = graph.without_loops()
    if balance is None:
        balance = (
            dimension < BALANCED_DIMENSIONS + 0.5
            and graph.metric == "euclidean"
            and bandwidth is None
        )
    if balance:
        return balanced_smoother(graph, dimension, **options)
    if options.get("field") is not None:
        raise InputError(
            "anisotropy needs Euclidean points of one to three dimensions without a bandwidth"
        )
    return variable_smoother(graph, bandwidth, dimension)


def balanced_smoother(
    graph: Graph, dimension: float, settings: Balance = BALANCE, field: Tensor | None = None
) -> Smoother:
    """The smoother of a graph without self-loops in one to three dimensions; ``field (n, d)``
    stretches its metric.
    """
    whole = max(1, min(round(dimension), graph.points.shape[1]))
    stretched = 1.0 if field is None else 1 + float(field.norm(dim=1).max())
    needed = 3 if whole == 2 else whole if whole < graph.points.shape[1] else 1
    if graph.k < needed * stretched:
        raise InputError(
            f"weights of dimension {whole} need {math.ceil(needed * stretched)} neighbours "
            f"of every point, got {graph.k}: use more points or neighbours, or a lower dimension="
        )
    stencil = laplacian_stencil(graph, whole, settings, field)
    smoother = laplacian_smoother(stencil.edges, stencil.weight, stencil.mass, graph, float(whole))
    return smoother if field is None else replace(smoother, density=1 + field.norm(dim=1))


def traced_stencil(points: Tensor, cloud: Placed, smoother: Smoother) -> Stencil:
    """The stencil of the cloud with derivatives with respect to its ``points (N, d)``, in its
    frame.

    Which points are neighbours is held fixed. Frame and units are numbers: the weights are
    homogeneous in the points.
    """
    graph = smoother.known_graph.without_loops()
    moving = cloud.frame(cloud.collect(points.to(cloud.given)))
    whole = max(1, min(round(smoother.dimension), graph.points.shape[1]))
    return laplacian_stencil(replace(graph, points=moving), whole, EXACT)


def laplacian_stencil(
    graph: Graph, dimension: int, settings: Balance = BALANCE, field: Tensor | None = None
) -> Stencil:
    """Weights on a graph without self-loops, of one cloud or of several: of cells on a surface,
    else balanced.
    """
    if dimension == 2:
        return cell_stencil(graph, settings, field)
    return balanced_stencil(graph, dimension, settings, field)


@dataclass(frozen=True)
class Prepared:
    """A cloud in its frame and in memory order, and the smoother of its kept points."""

    cloud: Placed
    smoother: Smoother
    sample: WorkingSample | None = None  # of the given points, where the cloud is not all of them
    inspection: Inspection | None = None  # how the given points were sampled

    @cached_property
    def graph(self) -> Graph:
        """The graph of the distinct points, in the order and the units of the points as they were
        given.
        """
        graph = self.smoother.known_graph
        scale = 1.0 if graph.metric == "cosine" else self.cloud.frame.scale
        points = self.cloud.points
        if self._order is None:
            return replace(graph, points=points, distances=graph.distances * scale)
        order, rank = self._order
        return replace(
            graph,
            points=points[order],
            indices=rank[graph.indices[order]],
            distances=graph.distances[order] * scale,
            ordered=False,
            doubtful=None if graph.doubtful is None else rank[graph.doubtful],
        )

    @cached_property
    def smoother_as_given(self) -> Smoother:
        """The smoother of the distinct points, in the order and the units of the points as they
        were given.
        """
        found, scale = self.smoother, self.cloud.frame.scale
        found = replace(
            found,
            graph=None if found.graph is None else self.graph,
            step_time=found.step_time * scale**2,
            lowest=None if found.lowest is None else found.lowest / scale**2,
        )
        return found if self._order is None else _reordered(found, *self._order)

    @cached_property
    def _order(self) -> tuple[Tensor, Tensor] | None:
        """The rows by their first given point, and the place of every row among them."""
        if self.cloud.kept is None:
            return None
        order = self.cloud.kept.argsort()
        return order, order.argsort()


def without_rows(made: Prepared, lost: Tensor) -> Prepared:
    """The cloud and its smoother without whole parts, ``lost (n,)``: no weight joins them to the
    rest, which keeps its own.
    """
    kept = (~lost).nonzero()[:, 0]
    place = (~lost).cumsum(0) - 1
    smoother, graph = made.smoother, made.smoother.known_graph
    rows, columns, values = smoother.entries()
    inside = ~lost[rows] & ~lost[columns]
    matrix = from_entries(place[rows[inside]], place[columns[inside]], values[inside], len(kept))
    real = ~lost[graph.indices[kept]]
    order = (~real).int().argsort(dim=1, stable=True)
    column = torch.arange(graph.k, device=graph.device)
    order = order.gather(1, torch.where(column < real.sum(1, keepdim=True), column, 0))
    graph = replace(
        graph,
        points=graph.points[kept],
        indices=place[graph.indices[kept].gather(1, order)],
        distances=graph.distances[kept].gather(1, order),
        doubtful=_inside(graph.doubtful, lost, place),
    )
    edges = smoother.edges
    if edges is not None:
        both = ~lost[edges.head] & ~lost[edges.tail]
        edges = Edges(place[edges.head[both]], place[edges.tail[both]], len(kept))
    own = {name: getattr(smoother, name) for name in ("leaving", "density", "fixed")}
    own = {name: None if value is None else value[kept] for name, value in own.items()}
    mass = smoother.mass[kept]
    smoother = replace(
        smoother, matrix=matrix, graph=graph, mass=mass / mass.sum(), edges=edges, **own
    )
    cloud = made.cloud
    given = ~lost if cloud.rows is None else ~lost[cloud.rows]
    numbers = given.cumsum(0) - 1
    own_cloud: dict[str, Any] = {
        "given": cloud.given[given],
        "rows": None if cloud.rows is None else place[cloud.rows[given]],
        "kept": None if cloud.kept is None else numbers[cloud.kept[kept]],
        "short_cuts": _inside(cloud.short_cuts, lost, place),
    }
    if isinstance(cloud, Arranged):
        own_cloud["graph"] = graph
    return replace(made, cloud=replace(cloud, **own_cloud), smoother=smoother)


def _inside(pairs: Tensor | None, lost: Tensor, place: Tensor) -> Tensor | None:
    """Pairs ``(c, 2)`` of points that are both kept, in their new places."""
    return None if pairs is None else place[pairs[~lost[pairs].any(1)]]


def _reordered(smoother: Smoother, order: Tensor, rank: Tensor) -> Smoother:
    rows, columns, values = smoother.entries()
    n = smoother.n
    per_row: dict[str, Any] = {
        name: getattr(smoother, name) for name in ("mass", "leaving", "density")
    }
    moved: dict[str, Any] = {
        name: values[order] for name, values in per_row.items() if values is not None
    }
    if smoother.edges is not None:
        ends = rank[torch.stack([smoother.edges.head, smoother.edges.tail])].sort(0).values
        moved["edges"] = Edges(ends[0], ends[1], n)
    return replace(smoother, matrix=from_entries(rank[rows], rank[columns], values, n), **moved)


class Settings(Protocol):
    """What an operator is built from again: the settings that the caller chose."""

    def prepare(self, points: Array) -> Prepared: ...

    def record(self) -> dict[str, Any]: ...


class OperatorSource:
    """Where the operator of a basis comes from: it is kept, or made when first asked for, and then
    shared by copies.

    A pickle and a file hold the settings only.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        kept: Prepared | None = None,
        make: Callable[[], Prepared] | None = None,
    ) -> None:
        self.settings, self._kept, self._make = settings, kept, make

    def prepared(self, points: Array | None) -> Prepared:
        """The prepared cloud and its smoother; ``points`` are those of the basis."""
        if self._kept is None and self._make is not None:
            self._kept = self._make()
        if self._kept is None:
            if self.settings is None:
                raise InputError(
                    "the operator of this basis was not recorded: decompose its points again"
                )
            if points is None:
                raise InputError(
                    "the operator of this basis is built from its points, and it has none"
                )
            self._kept = self.settings.prepare(points)
        return self._kept

    def record(self) -> dict[str, Any] | None:
        """What a file holds of it."""
        return None if self.settings is None else self.settings.record()

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "_kept": None, "_make": None}
