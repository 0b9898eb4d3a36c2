"""Shapes in: reading, sampling, and the mesh Laplacian to compare with."""

from ..graph.farthest import farthest_points
from .io import Shape, find_shapes, load, save
from .mesh import Array, SurfaceSample, draw_surface, face_areas, is_closed, sample_surface, sample_volume, vertex_areas
from .oracle import oracle, point_cloud

__all__ = ["Shape", "SurfaceSample", "draw_surface", "face_areas", "farthest_points", "find_shapes", "is_closed"]
__all__ += ["load", "oracle", "sample_surface", "sample_volume", "save", "vertex_areas"]
