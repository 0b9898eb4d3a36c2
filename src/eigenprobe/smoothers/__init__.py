"""Graph -> smoother: a symmetric averaging operator with a mass.

    row, symmetric   one Gaussian for the whole cloud                         `gaussian`
    adaptive         balanced weights in one to three dimensions              `balanced`
                     a Gaussian whose width follows the sampling above        `variable`
    neighbourhood    shared neighbours, for tables of embeddings              `neighbourhood`

Every function here is O(n k): sparse CSR, float64 or float32, on the device of the points.
"""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from ..cloud import as_tensor
from ..errors import InputError
from ..graph import Graph, estimate_dimension
from ..graph.graph import build_graph
from ..host.validation import validated
from ..search.neighbours import Metric
from .balanced import balanced_smoother
from .gaussian import row_smoother, symmetric_smoother
from .neighbourhood import neighbourhood_smoother
from .smoother import ROW_STEPS, RowSmoother, Smoother, laplacian_smoother, symmetric_matrix
from .variable import variable_smoother

Kind = Literal["row", "symmetric", "adaptive"]
KINDS: tuple[Kind, ...] = ("row", "symmetric", "adaptive")
NEIGHBOURS = {"row": 15, "symmetric": 15, "adaptive": 30}
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
    """A smoother on a cloud ``(n, d)`` (array, tensor, list, file or mesh) or on its graph; every setting that is not
    given is chosen from the data. It smooths numpy arrays to numpy arrays and tensors to tensors.

    ``bandwidth`` is sigma of the Gaussian (row, symmetric, and adaptive where it is not balanced); ``balance`` forces
    balanced weights on or off (adaptive). ``options``: ``self_loops`` of the graph; ``alpha``, the power of the
    density that `symmetric` divides by (1); ``settings`` and ``field`` of balanced weights.
    """
    if isinstance(source, Graph):
        graph = source if isinstance(source.indices, Tensor) else source.torch()
    else:
        source = as_tensor(source)
        most = source.shape[0] - 1
        loops = bool(options.pop("self_loops", False))
        graph = build_graph(source, min(k or NEIGHBOURS[kind], most), metric=metric, self_loops=loops)
    if dimension is None:
        dimension = estimate_dimension(graph)
    if not 0 < dimension <= max(300, graph.points.shape[1]):
        raise InputError(f"dimension must be above 0 and at most {max(300, graph.points.shape[1])}, got {dimension}")
    known = {"row": set(), "symmetric": {"alpha"}, "adaptive": {"settings", "field"}}
    if unknown := set(options) - known[kind]:
        raise InputError(f"a {kind} smoother does not know the option {sorted(unknown)[0]!r}")
    if kind == "row":
        return row_smoother(graph, bandwidth, dimension)
    if kind == "symmetric":
        return symmetric_smoother(graph, bandwidth, dimension, **options)
    graph = graph.without_loops()
    if balance is None:
        balance = dimension < BALANCED_DIMENSIONS + 0.5 and graph.metric == "euclidean" and bandwidth is None
    if balance:
        return balanced_smoother(graph, dimension, **options)
    if options.get("field") is not None:
        raise InputError("anisotropy needs Euclidean points of one to three dimensions without a bandwidth")
    return variable_smoother(graph, bandwidth, dimension)
