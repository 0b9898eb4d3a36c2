"""Geodesic distances on a bare cloud.

Circular fronts pass from point to point along the edges of its Laplacian [Kimmel, Sethian 1998; Novotni, Klein 2002]:

    d_i = min over wedges (j, k) at i of |x_i - s|,    |x_j - s| = d_j,  |x_k - s| = d_k

in the plane of x_i, x_j, x_k: s is where a front that reached j and k came from, beyond the segment jk and seen through
it.  Exact where the cloud is flat.  With j = k it is d_j + |x_i - x_j|.  In coordinates along and across the segment

    j = (u, h),  k = (u + l, h),  i = 0        a = (d_j^2 - d_k^2 + l^2) / 2 l,    s = (u + a, h + (d_j^2 - a^2)^1/2)

Points are visited by their distance along edges, a narrow band at a time, until nothing falls any more.  With a time t
it is the heat method [Crane, Weischedel, Wardetzky 2013], which smooths:

    (M + t L) u = delta_s          a little heat from the source
    X = -grad u / |grad u|         points away from it, with unit length
    L d = sum_j L_ij (X_i + X_j).(x_j - x_i) / 2        the function that rises along every edge as X says

Both are scaled to slope 1, d <- d / median |grad d|: noise lengthens edges, and directions that are off shorten what is
rebuilt from them.  The zero of the heat method is set by the neighbours of the source, whose chords are known.  The
weights of L are positive, so u is accurate however small it is far away.  Two sparse factors serve all sources.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from ..basis import Basis
from ..cloud import check_points
from ..decomposition import OperatorSettings, geometry_of
from ..eigen.inverse import symmetric_factor
from ..errors import InputError
from ..extensions import KernelExtension
from ..host.threads import limited_threads
from ..host.validation import validated
from ..operators import gradients, matrices
from ..sampling import WorkingSample
from ..smoothers.prepared import Prepared
from ..smoothers.stencil import BALANCE
from .spectral import Array, rows

# Cosine of the widest wedge; narrower limits leave directions of random clouds without one (1.2 % error).
WIDEST = -0.95
BAND = 0.5  # in edges: points of one band do not wait for each other, bands of 1 take three times as many rounds
SETTLED = 0.05  # of an edge; 0.001 changes the mean error by less than 1 % of itself
ROUNDS = 100  # 3 to 11 were seen
TINY = np.finfo(float).tiny
SHIFT = 1e-8  # of the Laplacian, in units of one over the squared size of the cloud


@validated
def geodesic_distance(cloud: Any, sources: Any, *, time: float | None = None) -> Array:
    """Distances along the cloud from every point to each source: (n,) for one index, (n, s) for a list of them.

    ``cloud`` is points ``(n, d)``, or a basis made from them: then along its graph, by the weights that made it. With a
    ``time`` (length^2; the squared spacing is little) they are those of the heat method, smoother with more of it.
    Parts that the source is not connected with are at an infinite distance.

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
        made = geometry_of(cloud) if isinstance(cloud, Basis) else OperatorSettings().build(x, 1)
        if made.sample is None:
            found = _distances(x, made, index, time)
        else:
            found = _lifted(made, made.sample, index, time)
    result = found[:, 0] if np.ndim(sources) == 0 else found
    return result if origin.numpy else torch.from_numpy(result).to(origin.dtype).to(origin.device)


def _lifted(made: Prepared, sample: WorkingSample, sources: np.ndarray, time: float | None) -> np.ndarray:
    """Distances on the working sample of a cloud, from the cells of the sources, at all given points ``(n, s)``."""
    cells, place = np.unique(sample.rows.cpu().numpy()[sources], return_inverse=True)
    inside = _distances(sample.points, made, cells, time)
    if sample.one_to_one:
        return inside[sample.rows.cpu().numpy()][:, place]
    reached = np.isfinite(inside)
    smooth = KernelExtension(sample.points, torch.from_numpy(np.where(reached, inside, 0.0)))(sample.given)
    found = np.where(reached[sample.rows.cpu().numpy()], smooth.cpu().numpy().clip(0), np.inf)[:, place]
    given = sample.given.cpu().numpy()
    return np.maximum(found, np.linalg.norm(given[:, None] - given[sources], axis=2))


def _distances(x: torch.Tensor, made: Prepared, sources: np.ndarray, time: float | None) -> np.ndarray:
    """Distances ``(n, s)`` on float64 points ``(n, d)``."""
    cloud, smoother = made.cloud, made.smoother
    stiffness, mass = matrices(cloud, smoother)
    frames, parts = gradients(cloud, smoother)
    points, edges = x.cpu().numpy(), stiffness.tocoo()
    off = edges.row != edges.col
    heads, tails = edges.row[off], edges.col[off]
    chords = points[tails] - points[heads]
    size, faint = np.linalg.norm(chords, axis=1), _in_doubt(made, heads, tails)
    sure = csr_matrix((size[~faint], (heads[~faint], tails[~faint])), shape=edges.shape)
    size[faint] /= BALANCE.doubtful_weight
    lengths = csr_matrix((size, (heads, tails)), shape=edges.shape)
    if time is None:
        corners, none = _wedges(points, sure, frames), np.zeros(int(faint.sum()))
        doors = _Wedges(heads[faint], tails[faint], tails[faint], none, size[faint], none)
        corners = _Wedges(*(np.concatenate(both) for both in zip(corners, doors, strict=True)))
    else:
        heat = symmetric_factor(mass + float(time) * stiffness)
        # A shift far below the first eigenvalue makes L invertible; what is solved for has no constant part.
        inverse = symmetric_factor(stiffness + SHIFT / cloud.frame.scale**2 * mass)
    labels = smoother.components[1].cpu().numpy()
    labels = labels if cloud.rows is None else labels[cloud.rows.cpu().numpy()]
    found = np.full((len(x), len(sources)), np.inf)
    for column, source in enumerate(sources.tolist()):
        near = np.union1d(sure[np.union1d(sure[[source]].indices, source)].indices, source)
        chord = np.linalg.norm(points[near] - points[source], axis=1)
        if time is None:
            distance = _arrivals(lengths, corners, source, (near, chord))
        else:
            warmth = heat.solve(np.bincount([source], minlength=len(x)).astype(float))
            field = -np.einsum("nda,an->nd", frames, np.stack([part @ warmth for part in parts]))
            field /= np.maximum(np.abs(field).max(1, keepdims=True), TINY)  # their squares may vanish
            field /= np.maximum(np.linalg.norm(field, axis=1, keepdims=True), TINY)
            rise = ((field[heads] + field[tails]) * chords).sum(1) / 2
            distance = inverse.solve(np.bincount(heads, edges.data[off] * rise, minlength=len(x)))
            distance -= np.mean((distance[near] - chord)[near != source])  # no direction is defined at the source
            distance[source] = 0.0
        part = labels == labels[source]
        inside = np.where(part, distance, 0.0)
        slope = np.median(np.linalg.norm([gradient @ inside for gradient in parts], axis=0)[part])
        chord = np.linalg.norm(points - points[source], axis=1)
        found[part, column] = np.maximum(np.maximum(distance, 0.0) / (slope or 1.0), chord)[part]
    return found


def _in_doubt(made: Prepared, heads: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Which edges ``(e,)`` are in doubt: they carry a share of the weight, and are as much longer to a front."""
    cloud, graph = made.cloud, made.smoother.known_graph
    if graph.doubtful is None:
        return np.zeros(len(heads), bool)
    ends = np.stack([heads, tails]).astype(np.int64)
    ends = ends if cloud.rows is None else cloud.rows.cpu().numpy()[ends]
    known = graph.doubtful.cpu().numpy() @ (graph.n, 1)
    return np.isin(ends.min(0) * graph.n + ends.max(0), known)


class _Wedges(NamedTuple):
    """Pairs of neighbours ``j, k`` at points ``i`` and the triangle they make: ``(w,)`` each."""

    i: np.ndarray
    j: np.ndarray
    k: np.ndarray
    along: np.ndarray  # u
    across: np.ndarray  # h
    length: np.ndarray  # l


def _wedges(points: np.ndarray, edges: csr_matrix, frames: np.ndarray) -> _Wedges:
    """Each edge by itself and, on surfaces, with the next one around the point; in solids with all others.

    ``edges`` is CSR; ``frames (n, d, dim)``. Wedges with neighbours inside are left out: fronts on curved surfaces are
    no circles, and the error grows with the square of the width.
    """
    (edges := edges.copy()).eliminate_zeros()  # copies of a point are in no direction
    heads = np.repeat(np.arange(len(points)), np.diff(edges.indptr))
    chord = points[edges.indices] - points[heads]
    flat = np.einsum("ed,eda->ea", chord, frames[heads])
    turn = np.arctan2(flat[:, -1], flat[:, 0])
    order = np.lexsort((turn, heads))
    tails, chord = edges.indices[order], chord[order]
    size, degree, first = np.linalg.norm(chord, axis=1), np.diff(edges.indptr)[heads], edges.indptr[heads]
    shifts = range({1: 1, 2: 2}.get(frames.shape[2], int(degree.max(initial=0)) // 2 + 1))
    one = np.tile(np.arange(len(heads)), len(shifts))
    other = np.concatenate([first + (np.arange(len(heads)) - first + shift) % degree for shift in shifts])
    narrow = (chord[one] * chord[other]).sum(1) >= WIDEST * size[one] * size[other]
    one, other = one[narrow], other[narrow]
    length = np.linalg.norm(side := chord[other] - chord[one], axis=1)
    along = (chord[one] * side).sum(1) / np.maximum(length, TINY)
    across = np.sqrt(np.maximum(size[one] ** 2 - along**2, 0))
    return _Wedges(heads[one], tails[one], tails[other], along, across, length)


def _arrivals(edges: csr_matrix, corners: _Wedges, source: int, near: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Distances ``(n,)`` from one point along ``edges``, CSR of lengths; ``near``: points and their known distances."""
    distance: np.ndarray = dijkstra(edges, indices=source)
    distance[near[0]] = near[1]
    spacing = float(np.median(corners.across[corners.j == corners.k])) if len(corners.i) else 1.0  # of edges, no copies
    part = np.flatnonzero(np.isfinite(distance))
    reached = np.flatnonzero(np.isfinite(distance[corners.i]))
    band = (distance[corners.i[reached]] / (BAND * spacing)).astype(int)
    order = np.lexsort((corners.i[reached], band))
    reached, cuts = reached[order], np.flatnonzero(np.diff(band[order])) + 1
    bands = [_Wedges(*fields) for fields in zip(*(np.split(field[reached], cuts) for field in corners), strict=True)]
    firsts = [np.flatnonzero(np.diff(wedge.i, prepend=-1)) for wedge in bands]
    for _ in range(ROUNDS):
        before = distance[part]
        for wedge, first in zip(bands, firsts, strict=True):
            at = wedge.i[first]
            distance[at] = np.minimum(distance[at], np.minimum.reduceat(_through(wedge, distance), first))
        if np.max(before - distance[part]) <= SETTLED * spacing:
            break
    return distance


def _through(wedge: _Wedges, distance: np.ndarray) -> np.ndarray:
    """Distance of ``i`` through each wedge; infinite where the front does not come through it."""
    one, other = distance[wedge.j], distance[wedge.k]
    past = (one**2 - other**2 + wedge.length**2) / (2 * np.maximum(wedge.length, TINY))  # a
    depth = one**2 - past**2
    side, away = wedge.along + past, wedge.across + np.sqrt(np.maximum(depth, 0))
    entry = side * wedge.across / np.maximum(away, TINY)
    inside = (depth >= 0) & (entry >= wedge.along) & (entry <= wedge.along + wedge.length)
    return np.where(inside, np.hypot(side, away), np.inf)
