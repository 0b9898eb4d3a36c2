"""Points or a graph -> smoother; and what made a basis: the prepared cloud and its smoother, kept
or built again.

A smoother works on distinct points in memory order and in a frame of size one (`cloud.cloud`).
Seen from the points of the caller, with r the rank of a row among the kept points and s the scale
of the frame,

    indices' = r[indices],   distances' = s distances
    A'_{r(i) r(j)} = A_ij,   step_time' = s^2 step_time

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

from ..cloud.cloud import Cloud, CloudGraph
from ..errors import InputError
from ..host.validation import validated
from ..neighbors.graph import Edges, Graph, build_graph, estimate_dimension
from ..neighbors.search import Metric
from ..points import Array, as_tensor
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
    """A smoother of a cloud, which averages functions over neighbours.

    Parameters
    ----------
    source
        Points ``(n, d)`` (an array, a tensor, a list, a file or a mesh), or their graph.
    kind
        ``"adaptive"``, ``"symmetric"`` or ``"row"``, as in `decompose`.
    k, dimension
        Neighbours, and dimension of the manifold; chosen from the data unless given.
    bandwidth
        Sigma of the Gaussian, where weights are Gaussian.
    metric
        ``"euclidean"`` or ``"cosine"``.
    balance
        Whether adaptive weights are balanced; chosen from the dimension unless given.
    options
        ``self_loops`` of the graph; ``alpha``, the power of the density that ``"symmetric"``
        divides by (1); ``settings`` and ``field`` of balanced weights.

    Returns
    -------
    Smoother
        It smooths numpy arrays to numpy arrays and tensors to tensors.

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.arange(200) * np.pi / 100
    >>> smoother = build_smoother(np.stack([np.cos(angle), np.sin(angle)], 1))
    >>> bool(np.allclose(smoother.apply(np.ones((200, 1))), 1))
    True
    """
    if isinstance(source, Graph):
        graph = source if isinstance(source.indices, Tensor) else source.torch()
    else:
        source = as_tensor(source)
        # Sums of a million fourth powers are ordinary numbers.
        size, numbers = float(source.detach().abs().max()), torch.finfo(source.dtype)
        low, high = (1e6 * numbers.tiny) ** 0.25, (1e-6 * numbers.max) ** 0.25
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
    dimension = min(dimension, columns or MOST_DIMENSIONS)
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


def traced_stencil(points: Tensor, cloud: Cloud, smoother: Smoother) -> Stencil:
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

    cloud: Cloud
    smoother: Smoother

    @cached_property
    def graph(self) -> Graph:
        """The graph of the distinct points, in the order and the units of the points as they were
        given.
        """
        graph = self.smoother.known_graph
        scale = 1.0 if graph.metric == "cosine" else self.cloud.frame.scale
        points = self.cloud.points
        if self._order is not None:
            graph = replace(_graph_rows(graph, *self._order), ordered=False)
            points = points[self._order[0]]
        return replace(graph, points=points, distances=graph.distances * scale)

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
        return found if self._order is None else _smoother_rows(found, *self._order)

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
    kept, place = (~lost).nonzero()[:, 0], torch.where(lost, -1, (~lost).cumsum(0) - 1)
    smoother = _smoother_rows(made.smoother, kept, place)
    graph = _graph_rows(made.smoother.known_graph, kept, place)
    smoother = replace(smoother, graph=graph, mass=smoother.mass / smoother.mass.sum())
    cloud = made.cloud.without(lost)
    if isinstance(cloud, CloudGraph):
        cloud = replace(cloud, graph=graph)
    return Prepared(cloud, smoother)


def _graph_rows(graph: Graph, kept: Tensor, place: Tensor) -> Graph:
    """The rows ``kept`` of a graph; ``place (n,)`` is where each row goes, -1 where it is left
    out.
    """
    indices = place[graph.indices[kept]]
    # The first neighbour fills the places of those that are left out.
    order = (indices < 0).int().argsort(dim=1, stable=True)
    column = torch.arange(graph.k, device=graph.device)
    count = (indices >= 0).sum(1, keepdim=True)
    order = order.gather(1, torch.where(column < count, column, 0))
    return replace(
        graph,
        points=graph.points[kept],
        indices=indices.gather(1, order),
        distances=graph.distances[kept].gather(1, order),
    )


def _smoother_rows(smoother: Smoother, kept: Tensor, place: Tensor) -> Smoother:
    """The same of a smoother, all but its graph."""
    rows, columns, values = smoother.entries()
    inside = (place[rows] >= 0) & (place[columns] >= 0)
    ends = place[rows[inside]], place[columns[inside]]
    own: dict[str, Any] = {
        name: value[kept]
        for name in ("mass", "degree", "density", "fixed")
        if (value := getattr(smoother, name)) is not None
    }
    if (edges := smoother.edges) is not None:
        pairs = place[torch.stack([edges.head, edges.tail], 1)]
        head, tail = pairs[(pairs >= 0).all(1)].sort(1).values.unbind(1)
        own["edges"] = Edges(head, tail, len(kept))
    return replace(smoother, matrix=from_entries(*ends, values[inside], len(kept)), **own)


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
