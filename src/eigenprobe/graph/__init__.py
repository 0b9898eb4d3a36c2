"""Points -> graph: neighbours, undirected edges, components, memory order, dimension."""

from ..search.layout import canonical_pose
from .arranged import Arranged, Placed, arrange
from .graph import (
    Edges,
    Graph,
    build_graph,
    cloud_dimensions,
    components,
    connected,
    estimate_dimension,
    local_dimension,
    stack,
    undirected,
)
