"""Procedural shapes: random implicit surfaces as point clouds, batched and seeded, on any
device.
"""

from .fields import Builder, Field, Rng
from .source import FAMILIES, ProceduralShapes, Variation, project, seeds, unit_sphere

__all__ = [
    "FAMILIES",
    "Builder",
    "Field",
    "ProceduralShapes",
    "Rng",
    "Variation",
    "project",
    "seeds",
    "unit_sphere",
]
