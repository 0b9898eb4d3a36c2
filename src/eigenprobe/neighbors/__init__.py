"""Points -> graph: nearest neighbours, undirected edges, components, dimension; memory order and
sums over stacked clouds.
"""

from .graph import (
    Edges,
    Graph,
    build_graph,
    cloud_dimensions,
    components,
    estimate_dimension,
    undirected,
)
from .layout import canonical_pose
