"""Who is a neighbour of whom."""

from __future__ import annotations

from .dimension import estimate_dimension
from .neighbours import Graph, Metric, build_graph, query

__all__ = ["Graph", "Metric", "build_graph", "estimate_dimension", "query"]
