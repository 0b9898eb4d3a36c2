"""Shapes in: reading, sampling, and the mesh Laplacian to compare with."""

from __future__ import annotations

from ..graph.farthest import farthest_points
from .io import Shape, find_shapes, load, save
from .mesh import face_areas, is_closed, vertex_areas
from .oracle import oracle
from .sampling import SurfaceSample, draw_surface, sample_surface, sample_volume

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
