"""Shapes in: reading, sampling, and the mesh Laplacian to compare with."""

from ..cloud.farthest import farthest_points
from ..io.mesh import face_areas, is_closed, vertex_areas
from ..io.shapes import Shape, find_shapes, load, save
from .draws import SurfaceSample, draw_surface, sample_surface, sample_volume
from .oracle import oracle, point_cloud

__all__ = [
    "Shape",
    "SurfaceSample",
    "draw_surface",
    "face_areas",
    "farthest_points",
    "find_shapes",
    "is_closed",
    "load",
    "oracle",
    "sample_surface",
    "sample_volume",
    "save",
    "vertex_areas",
]
