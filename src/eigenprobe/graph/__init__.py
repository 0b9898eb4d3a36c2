"""Points -> graph: neighbours, undirected edges, components, memory order, dimension."""

from .arranged import Arranged, arrange
from .axes import canonical_pose
from .dimension import cloud_dimensions, estimate_dimension, local_dimension
from .edges import Edges, components, undirected
from .farthest import farthest_points
from .graph import Graph, Metric, stack
from .neighbours import Search, build_graph, query, searcher
from .segments import Segments
