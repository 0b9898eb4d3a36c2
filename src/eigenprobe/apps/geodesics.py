"""Geodesic distances on a bare cloud by the heat method [Crane, Weischedel, Wardetzky 2013].

    (M + t L) u = delta_s          a little heat from the source;  t = spacing^2, more where some point is very far
    X = -grad u / |grad u|         points away from it, with unit length
    L d = sum_j L_ij (X_i + X_j).(x_j - x_i) / 2        the function that rises along every edge as X says

    d <- d / median |grad d|       directions that are off shorten what is rebuilt from them: a distance has slope 1

The zero of d is set by the neighbours of the source, whose chords are known.  The weights of L are positive, so u is
accurate however small it is far away.  Two sparse factors serve all sources.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..annotations import door
from ..basis import Basis
from ..cloud import check_points
from ..decomposition import smoothed
from ..errors import InputError
from ..operators import gradients, matrices
from ..threads import limited_threads
from .arrays import Array, rows

STEPS = 1.0  # square root of the time of the heat, in spacings; with less the directions of random clouds are noise
FARTHEST = 400  # roots of the time that heat travels: exp(-400) is a number, exp(-750) is 0
SHIFT = 1e-8  # of the Laplacian, in units of one over the squared size of the cloud


@door
def geodesic_distance(cloud: Any, sources: Any, *, time: float | None = None) -> Array:
    """Distances along the cloud from every point to each source: (n,) for one index, (n, s) for a list of them.

    ``cloud`` is points ``(n, d)`` or a basis made from them; ``time`` (length^2) smooths more where it is larger. Parts
    of the cloud that the source is not connected with are at an infinite distance.

    Examples
    --------
    >>> angle = np.arange(200) * np.pi / 100
    >>> ring = np.stack([np.cos(angle), np.sin(angle)], 1)
    >>> print(round(float(geodesic_distance(ring, 0).max()), 1))
    3.1
    """
    points = cloud.points if isinstance(cloud, Basis) else cloud
    if points is None:
        raise InputError("a geodesic distance needs points: this basis has none")
    x, origin = check_points(points, 1)
    index = rows(sources, len(x), torch.device("cpu")).numpy()
    if time is not None and not time > 0:
        raise InputError(f"expected a time above 0, got {time}")
    with limited_threads(x.device, len(x)):
        found = _distances(x, index, time)
    single = not hasattr(sources, "__len__") and getattr(sources, "ndim", 0) == 0
    result = found[:, 0] if single else found
    return result if origin.numpy else torch.from_numpy(result).to(origin.dtype).to(origin.device)


def _distances(x: torch.Tensor, sources: np.ndarray, time: float | None) -> np.ndarray:
    """Distances ``(n, s)`` on float64 points ``(n, d)``."""
    cloud, smoother = smoothed(x, 1)
    stiffness, mass = matrices(cloud, smoother)
    frames, parts = gradients(cloud, smoother)
    spacing = float(np.mean(mass.diagonal() ** (1 / len(parts))))
    if time is None:
        time = (max(STEPS, 2 * _hops(stiffness, int(sources[0])) / FARTHEST) * spacing) ** 2
    heat = _factor(mass + float(time) * stiffness)
    # A shift far below the first eigenvalue makes L invertible; what is solved for has no constant part.
    inverse = _factor(stiffness + SHIFT / cloud.frame.scale**2 * mass)
    labels = smoother.components[1].cpu().numpy()
    labels = labels if cloud.rows is None else labels[cloud.rows.cpu().numpy()]
    points, edges = x.cpu().numpy(), stiffness.tocoo()
    chords = points[edges.col] - points[edges.row]
    found = np.empty((len(x), len(sources)))
    for column, source in enumerate(sources):
        point = np.zeros(len(x))
        point[source] = 1.0
        warmth = heat.solve(point)
        field = -np.einsum("nda,an->nd", frames, np.stack([part @ warmth for part in parts]))
        field /= np.maximum(np.abs(field).max(1, keepdims=True), np.finfo(float).tiny)  # their squares may vanish
        field /= np.maximum(np.linalg.norm(field, axis=1, keepdims=True), np.finfo(float).tiny)
        rise = ((field[edges.row] + field[edges.col]) * chords).sum(1) / 2
        distance = inverse.solve(np.bincount(edges.row, edges.data * rise, minlength=len(x)))
        # The direction is undefined at the source itself: its neighbours, whose chords are known, set the zero.
        near = np.union1d(stiffness[[source]].indices, source)
        near = np.setdiff1d(np.unique(stiffness[near].indices), source)
        distance -= np.mean(distance[near] - np.linalg.norm(points[near] - points[source], axis=1))
        distance[source] = 0.0
        part = labels == labels[source]
        slope = np.median(np.linalg.norm([gradient @ distance for gradient in parts], axis=0)[part])
        found[:, column] = np.where(part, np.maximum(distance, 0.0) / slope, np.inf)
    return found


def _hops(stiffness: Any, source: int) -> float:
    """How many edges away the farthest point of the same part is."""
    from scipy.sparse.csgraph import dijkstra

    hops = dijkstra(abs(stiffness), unweighted=True, indices=source)
    return float(hops[np.isfinite(hops)].max())


def _factor(matrix: Any) -> Any:
    from scipy.sparse import csc_matrix
    from scipy.sparse.linalg import splu

    options = {"SymmetricMode": True}
    return splu(csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
