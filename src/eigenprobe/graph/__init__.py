"""Points -> graph: neighbours, undirected edges, components, memory order, dimension."""

from ..search.axes import canonical_pose
from .arranged import Arranged, arrange
from .dimension import cloud_dimensions, estimate_dimension, local_dimension
from .edges import Edges, components, undirected
from .graph import Graph, build_graph, stack
