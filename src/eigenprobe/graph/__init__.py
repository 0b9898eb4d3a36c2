"""Points -> graph: neighbours, undirected edges, components, memory order, dimension."""

from ..search.axes import canonical_pose
from .arranged import Arranged, Placed, arrange
from .dimension import cloud_dimensions, estimate_dimension, local_dimension
from .graph import Edges, Graph, build_graph, components, stack, undirected
