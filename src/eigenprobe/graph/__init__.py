"""Points -> graph: neighbours, undirected edges, components, memory order, dimension."""

from .arranged import Arranged, arrange
from .axes import canonical_pose
from .dimension import cloud_dimensions, estimate_dimension, local_dimension
from .edges import Edges, components, undirected
from .graph import Graph, build_graph, stack
