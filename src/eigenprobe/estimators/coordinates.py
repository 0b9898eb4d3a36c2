"""What of the basis is the embedding: vectors v of the smoother with eigenvalues mu, at rows of some mass.

vectors v;  normalized sqrt(mass) v;  diffusion u = mu^t v;  sphere u / sqrt(1 + |u|^2)
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..graph import Metric

Array = NDArray[Any]
Coordinates = Literal["sphere", "diffusion", "vectors", "normalized"]
COORDINATES: tuple[Coordinates, ...] = ("sphere", "diffusion", "vectors", "normalized")
COSINE_COLUMNS = 64  # metric="auto": features this wide are nearly always compared by angle


def choose_metric(metric: str, columns: int) -> Metric:
    """``auto`` is cosine for wide tables and Euclidean for narrow ones."""
    if metric not in ("auto", "euclidean", "cosine"):
        raise InputError(f"metric must be 'auto', 'euclidean' or 'cosine', got {metric!r}")
    return "cosine" if metric == "cosine" or (metric == "auto" and columns >= COSINE_COLUMNS) else "euclidean"


def coordinates(vectors: Array, mass: Array, factors: Array, kind: Coordinates, steps: float) -> Array:
    """The embedding ``(m, K)`` of vectors ``(m, K)``, mass ``(m,)`` and eigenvalues mu ``(K,)`` of the smoother."""
    if kind == "vectors":
        return vectors
    if kind == "normalized":
        return vectors * np.sqrt(mass)[:, None]
    spread = vectors * np.maximum(factors, 0) ** steps
    return spread if kind == "diffusion" else spread / np.sqrt(1 + (spread**2).sum(1, keepdims=True))
