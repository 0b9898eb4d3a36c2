"""Centre and scale, and back: ``y = scale (x - centre)``,  ``x = y / scale + centre``,  points ``(n, d)``.

    sphere   centre = mean of the points,     scale = 1 / max_i |x_i - centre|      everything within the unit sphere
    area     centre = centroid of the surface, scale = 1 / sqrt(area)               total area one

Eigenvalues are length^-2: those of the scaled points are ``lambda / scale^2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .mesh import check_mesh, face_areas

Array = NDArray[Any]


@dataclass(frozen=True)
class Normalisation:
    """The map that was applied, and its inverse."""

    centre: Array  # (d,)
    scale: float

    def apply(self, x: Array) -> Array:
        """Original to normalised coordinates."""
        return (x - self.centre) * self.scale

    def invert(self, y: Array) -> Array:
        """Normalised to original coordinates."""
        return y / self.scale + self.centre

    def original_eigenvalues(self, eigenvalues: Array) -> Array:
        """Eigenvalues computed on the normalised points, in the units of the original ones."""
        return eigenvalues * self.scale**2


def normalise(
    vertices: Array, faces: Array | None = None, *, to: Literal["sphere", "area"] = "sphere"
) -> tuple[Array, Normalisation]:
    """The points moved and scaled ``to`` the unit sphere or (with ``faces``) to unit area, and how.

    >>> y, how = normalise(np.array([[1.0, 0.0], [3.0, 0.0]]))
    >>> y.tolist(), how.invert(y).tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [3.0, 0.0]])
    """
    points = np.asarray(vertices)
    if points.ndim != 2 or len(points) == 0 or not np.isfinite(points).all():
        raise InputError(f"expected finite points of shape (n, d), got shape {points.shape}")
    if to == "sphere":
        centre = points.mean(0, dtype=np.float64)
        size = float(np.linalg.norm(points - centre, axis=1).max())
    elif to == "area":
        if faces is None:
            raise InputError("unit area needs the faces of a mesh, got a point cloud")
        points, faces = check_mesh(points, faces)
        areas = face_areas(points, faces)
        size = float(np.sqrt(areas.sum()))
        centre = (areas[:, None] * points[faces].mean(1)).sum(0) / max(areas.sum(), np.finfo(float).tiny)
    else:
        raise InputError(f"to must be 'sphere' or 'area', got {to!r}")
    if not size > 0:
        raise InputError("expected points that differ from each other, got a shape of size zero")
    how = Normalisation(centre, 1 / size)
    return how.apply(points), how
