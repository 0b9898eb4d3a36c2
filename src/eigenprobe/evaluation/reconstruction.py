"""Rebuilding the coordinates from the first k vectors, and how much is lost.

    x_k = V_k V_k^T M x            error(k) = sqrt( sum_i area_i |x_i - x_k,i|^2 / sum_i area_i )

``M`` is the mass the method itself estimated: what a user of `Basis.project` and `Basis.reconstruct` gets. The oracle
is the mesh's basis sampled at the same points; its vectors are no longer exactly orthonormal there, so it is given the
best coefficients in the area-weighted least-squares sense. ``area`` is the true area of each sample, the same for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..basis import Basis

Array = NDArray[Any]


def rebuild(basis: Basis, f: Array, k: int) -> Array:
    """``f`` (n, m) from the first ``k`` vectors of ``basis`` in its own mass."""
    basis = basis.truncate(k).numpy()
    return np.asarray(basis.reconstruct(basis.project(f)), dtype=np.float64)


def rebuild_weighted(vectors: Array, f: Array, k: int, areas: Array) -> Array:
    """``f`` (n, m) from the first ``k`` columns of any ``vectors`` with the best area-weighted coefficients."""
    root = np.sqrt(areas)[:, None]
    coefficients = np.linalg.lstsq(root * vectors[:, :k], root * f, rcond=None)[0]
    return vectors[:, :k] @ coefficients


def weighted_error(f: Array, rebuilt: Array, areas: Array) -> float:
    """Root of the area-weighted mean squared distance."""
    return float(np.sqrt((areas[:, None] * (f - rebuilt) ** 2).sum() / areas.sum()))


def reconstruction_errors(basis: Basis, f: Array, areas: Array, ks: Iterable[int]) -> dict[int, float]:
    """``error(k)`` of a method for each ``k``."""
    return {k: weighted_error(f, rebuild(basis, f, k), areas) for k in ks}


def oracle_errors(vectors: Array, f: Array, areas: Array, ks: Iterable[int]) -> dict[int, float]:
    """``error(k)`` of sampled oracle vectors for each ``k``."""
    return {k: weighted_error(f, rebuild_weighted(vectors, f, k, areas), areas) for k in ks}
