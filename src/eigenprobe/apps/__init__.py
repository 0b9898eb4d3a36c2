"""What people do with a basis: descriptors, distances, filters, parts, retrieval and maps between
shapes.

Every function takes one or two `Basis` objects and gives numpy arrays for a numpy basis, tensors
for a torch one. With the mass scaled to sum to 1, kernels are densities against that mass: the
constant of integral 1 is 1.
"""

from .descriptors import hks, retrieve, shape_dna, shape_dna_distance, wks
from .geodesics import geodesic_distance
from .matching import functional_map, map_from_points, match, point_map, zoomout
from .spectral import (
    RESPONSES,
    apply_filter,
    distance,
    heat_kernel,
    pseudotime,
    response,
    segment,
    spectral_embedding,
)

__all__ = [
    "RESPONSES",
    "apply_filter",
    "distance",
    "functional_map",
    "geodesic_distance",
    "heat_kernel",
    "hks",
    "map_from_points",
    "match",
    "point_map",
    "pseudotime",
    "response",
    "retrieve",
    "segment",
    "shape_dna",
    "shape_dna_distance",
    "spectral_embedding",
    "wks",
    "zoomout",
]
