"""From vectors to coordinates, and from coordinates back to rows.

u = V mu^t (n, K)   diffusion coordinates;      sphere: u / sqrt(1 + |u|^2)
x(z) = sum_j w_j x_j / sum_j w_j,               w_j by distance of z to the coordinates of its nearest fitted rows
"""

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ..graph.neighbours import nearest_rows
from ..smoothers.neighbourhood import fuzzy_weights

Array = NDArray[Any]
Coordinates = Literal["sphere", "diffusion", "vectors", "normalized"]
SAME = 1e-5  # relative distance below which coordinates are those of a fitted row, as single precision rounds them
COSINE_COLUMNS = 64  # metric="auto": features this wide are nearly always compared by angle


def coordinates(vectors: Array, mass: Array, factors: Array, kind: Coordinates, steps: float) -> Array:
    """The embedding ``(m, K)`` of vectors ``(m, K)``, mass ``(m,)`` and eigenvalues mu ``(K,)`` of the smoother."""
    if kind == "vectors":
        return vectors
    if kind == "normalized":
        return vectors * np.sqrt(mass)[:, None]
    spread = vectors * np.maximum(factors, 0) ** steps
    return spread if kind == "diffusion" else spread / np.sqrt(1 + (spread**2).sum(1, keepdims=True))


def local_averages(known: Array, rows: Array, places: torch.Tensor, k: int) -> Array:
    """Averages ``(m, d)`` of ``rows (n, d)`` over the ``k`` nearest of their coordinates ``known`` to every place; at
    the coordinates of a fitted row (of several: their mean) that row."""
    near, lengths = nearest_rows(torch.from_numpy(known), places, min(k, len(known)))
    same = lengths <= SAME * lengths[:, -1:]
    weight = torch.where(same.any(1, keepdim=True), same.to(lengths), fuzzy_weights(lengths))
    return np.einsum("mk,mkd->md", (weight / weight.sum(1, keepdim=True)).numpy(), rows[near.numpy()])
