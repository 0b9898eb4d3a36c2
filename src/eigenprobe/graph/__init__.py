"""Points -> graph: neighbours, undirected edges, components, memory order, dimension."""

from .dimension import estimate_dimension, local_dimension
from .edges import Edges, components, undirected
from .graph import Graph, Metric, stack
from .neighbours import build_graph, query

__all__ = [
    "Edges",
    "Graph",
    "Metric",
    "build_graph",
    "components",
    "estimate_dimension",
    "local_dimension",
    "query",
    "stack",
    "undirected",
]
