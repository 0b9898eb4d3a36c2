"""Rows as the user has them -> points as the graph and the network see them, and coordinates as the user wants them.

euclidean   x -> (x - mean) / scale,  scale: root mean square distance to the mean
cosine      x -> x / |x|,             whose Euclidean distance is sqrt(2 - 2 cos)
network     -> principal coordinates, scaled towards unit variance     (m, d) -> (m, p)

vectors v;  normalized sqrt(mass) v;  diffusion u = mu^t v;  sphere u / sqrt(1 + |u|^2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError

Array = NDArray[Any]
Coordinates = Literal["sphere", "diffusion", "vectors", "normalized"]
COORDINATES: tuple[Coordinates, ...] = ("sphere", "diffusion", "vectors", "normalized")
COSINE_COLUMNS = 64  # metric="auto": features this wide are nearly always compared by angle


@dataclass(frozen=True)
class Frame:
    """The map from rows to float32 points; float64 until the last step, so that a large common offset costs nothing."""

    metric: Literal["euclidean", "cosine"]
    centre: Array  # (d,)
    scale: float

    @classmethod
    def of(cls, rows: Array, metric: str) -> Frame:
        """The frame of a sample ``(n, d)``."""
        if metric == "auto":
            metric = "cosine" if rows.shape[1] >= COSINE_COLUMNS else "euclidean"
        if metric == "cosine":
            return cls("cosine", np.zeros(rows.shape[1]), 1.0)
        if metric != "euclidean":
            raise InputError(f"metric must be 'auto', 'euclidean' or 'cosine', got {metric!r}")
        centre = rows.mean(0, dtype=np.float64)
        scale = float(np.sqrt(((rows - centre) ** 2).sum(1).mean()))
        if not scale > 0:
            raise InputError("all rows are equal: there is nothing to embed")
        if not np.isfinite(scale):
            raise InputError("the rows are too large to be compared: their squares overflow")
        return cls("euclidean", centre, scale)

    def __call__(self, rows: Array, first: int = 0) -> Tensor:
        """Points ``(m, d)`` of rows; ``first`` is the number of the first row, for messages."""
        rows = np.asarray(rows, np.float64)
        finite = np.isfinite(rows).all(1)
        if not finite.all():
            raise InputError(f"features must be finite, row {first + int(np.argmin(finite))} has NaN or infinity")
        if self.metric == "cosine":
            # Rows are scaled by their largest entry first: squares of tiny or huge numbers leave the range.
            largest = np.abs(rows).max(1, keepdims=True)
            if not largest.all():
                row = first + int(np.argmin(largest))
                raise InputError(
                    f"cosine distance needs non-zero rows, row {row} is all zeros (use metric='euclidean')"
                )
            rows = rows / largest
            points = rows / np.sqrt((rows**2).sum(1, keepdims=True))
        else:
            points = (rows - self.centre) / self.scale
        return torch.from_numpy(points.astype(np.float32))


def coordinates(vectors: Array, mass: Array, factors: Array, kind: Coordinates, steps: float) -> Array:
    """The embedding ``(m, K)`` of vectors ``(m, K)``, mass ``(m,)`` and eigenvalues mu ``(K,)`` of the smoother."""
    if kind == "vectors":
        return vectors
    if kind == "normalized":
        return vectors * np.sqrt(mass)[:, None]
    spread = vectors * np.maximum(factors, 0) ** steps
    if kind == "diffusion":
        return spread
    if kind == "sphere":
        return spread / np.sqrt(1 + (spread**2).sum(1, keepdims=True))
    raise InputError(f"coordinates must be one of {', '.join(COORDINATES)}, got {kind!r}")
