"""Geodesic distances on a bare cloud: fronts along the edges of its Laplacian, or the heat method
[Crane, Weischedel, Wardetzky 2013], which smooths.

    (M + t L) u = delta_s          a little heat from the source
    X = -grad u / |grad u|         points away from it, with unit length
    L d = sum_j L_ij (X_i + X_j).(x_j - x_i) / 2        the function that rises along every edge as X says

Both are scaled to slope 1, d <- d / median |grad d|: noise lengthens edges, and directions that are off shorten what is
rebuilt from them.  The zero of the heat method is set by the neighbours of the source, whose chords are known.  The
weights of L are positive, so u is accurate however small it is far away.  Two sparse factors serve all sources.
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
from .fronts import arrivals, wedges

SHIFT = 1e-8  # of the Laplacian, in units of one over the squared size of the cloud


@door
def geodesic_distance(cloud: Any, sources: Any, *, time: float | None = None) -> Array:
    """Distances along the cloud from every point to each source: (n,) for one index, (n, s) for a list of them.

    ``cloud`` is points ``(n, d)`` or a basis made from them. With a ``time`` (length^2; the squared spacing is little)
    they are those of the heat method, smoother with more of it. Parts that the source is not connected with
    are at an infinite distance.

    Examples
    --------
    >>> angle = np.arange(200) * np.pi / 100
    >>> ring = np.stack([np.cos(angle), np.sin(angle)], 1)
    >>> print(round(float(geodesic_distance(ring, 0).max()), 3))
    3.141
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
    from scipy.sparse import csr_matrix

    cloud, smoother = smoothed(x, 1)
    stiffness, mass = matrices(cloud, smoother)
    frames, parts = gradients(cloud, smoother)
    points, edges = x.cpu().numpy(), stiffness.tocoo()
    off = edges.row != edges.col
    heads, tails = edges.row[off], edges.col[off]
    chords = points[tails] - points[heads]
    lengths = csr_matrix((np.linalg.norm(chords, axis=1), (heads, tails)), shape=edges.shape)
    if time is None:
        corners = wedges(points, lengths, frames)
    else:
        heat = _factor(mass + float(time) * stiffness)
        # A shift far below the first eigenvalue makes L invertible; what is solved for has no constant part.
        inverse = _factor(stiffness + SHIFT / cloud.frame.scale**2 * mass)
    labels = smoother.components[1].cpu().numpy()
    labels = labels if cloud.rows is None else labels[cloud.rows.cpu().numpy()]
    found = np.full((len(x), len(sources)), np.inf)
    for column, source in enumerate(sources.tolist()):
        near = np.union1d(lengths[np.union1d(lengths[[source]].indices, source)].indices, source)
        chord = np.linalg.norm(points[near] - points[source], axis=1)
        if time is None:
            distance = arrivals(lengths, corners, source, (near, chord))
        else:
            warmth = heat.solve(np.bincount([source], minlength=len(x)).astype(float))
            field = -np.einsum("nda,an->nd", frames, np.stack([part @ warmth for part in parts]))
            field /= np.maximum(np.abs(field).max(1, keepdims=True), np.finfo(float).tiny)  # their squares may vanish
            field /= np.maximum(np.linalg.norm(field, axis=1, keepdims=True), np.finfo(float).tiny)
            rise = ((field[heads] + field[tails]) * chords).sum(1) / 2
            distance = inverse.solve(np.bincount(heads, edges.data[off] * rise, minlength=len(x)))
            distance -= np.mean((distance[near] - chord)[near != source])  # no direction is defined at the source
            distance[source] = 0.0
        part = labels == labels[source]
        slope = np.median(np.linalg.norm([gradient[part][:, part] @ distance[part] for gradient in parts], axis=0))
        found[part, column] = np.maximum(distance[part], 0.0) / (slope or 1.0)
    return found


def _factor(matrix: Any) -> Any:
    from scipy.sparse import csc_matrix
    from scipy.sparse.linalg import splu

    options = {"SymmetricMode": True}
    return splu(csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
