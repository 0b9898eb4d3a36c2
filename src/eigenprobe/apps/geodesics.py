"""Geodesic distances on a bare cloud by the heat method [Crane, Weischedel, Wardetzky 2013].

    (M + t L) u = delta_s          a little heat from the source s
    X = -grad u / |grad u|         points away from it, with unit length
    L d = -div X,                  (-div X)_i = sum_j L_ij (X_i + X_j).(x_j - x_i) / 2

so that ``d`` rises along every edge as X says. ``L (n, n)`` and ``M`` are those of `laplacian`,
``grad`` is that of `gradient`. The weights of L are positive, so u is accurate however small it is
far away. Two sparse factors serve all sources.

X has no direction at the source, so the zero of ``d`` is set by the neighbours of the source, whose
chords are known. Finally ``d`` is scaled to slope 1, d <- d / median |grad d|: directions that are
off shorten what is rebuilt from them.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..basis import Basis
from ..cloud.cloud import Cloud
from ..decomposition import OperatorSettings, geometry_of, prepare
from ..eigen.inverse import symmetric_factor
from ..errors import InputError
from ..extensions import KernelExtension
from ..host.threads import limited_threads
from ..host.validation import validated
from ..operators import gradients, matrices
from ..points import check_points
from ..smoothers.prepared import Prepared
from .spectral import Array, rows


@overload
def geodesic_distance(  # type: ignore[overload-overlap]
    cloud: Tensor | Basis[Tensor], sources: Any, *, time: float | None = None
) -> Tensor: ...


@overload
def geodesic_distance(
    cloud: object, sources: Any, *, time: float | None = None
) -> NDArray[Any]: ...


@validated
def geodesic_distance(cloud: Any, sources: Any, *, time: float | None = None) -> Array:
    """Distances along the cloud from every point to each source, by the heat method.

    Parameters
    ----------
    cloud
        Points ``(n, d)``, or a basis made from them: then along its graph, by the weights that made
        it.
    sources
        The index of a point, or a list of ``s`` of them.
    time
        How long heat spreads, in length^2: more of it smooths the distances. By default
        ``(h / 2)^2`` for the mean spacing ``h`` of the points.

    Returns
    -------
    Array
        ``(n,)`` for one index, ``(n, s)`` for a list. Parts that the source is not connected with
        are at an infinite distance.

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
        made = geometry_of(cloud) if isinstance(cloud, Basis) else prepare(x, OperatorSettings(), 1)
        found = _at_given_points(made, index, time)
    result = found[:, 0] if np.ndim(sources) == 0 else found
    return result if origin.numpy else torch.from_numpy(result).to(origin.dtype).to(origin.device)


def _at_given_points(made: Prepared, sources: np.ndarray, time: float | None) -> np.ndarray:
    """Distances ``(n, s)`` at all given points: those between rows, extended where these are
    means."""
    cloud = made.cloud
    if cloud.rows is None:
        return _distances(made, sources, time)
    place = cloud.rows.cpu().numpy()
    inside = _distances(made, place[sources], time)
    if cloud.means is None:
        return inside[place]
    reached = np.isfinite(inside)
    extension = KernelExtension(cloud.means, torch.from_numpy(np.where(reached, inside, 0.0)))
    given = cloud.given.cpu().numpy()
    chords = np.linalg.norm(given[:, None] - given[sources], axis=2)
    found = np.maximum(extension(cloud.given).cpu().numpy(), chords)
    return np.where(reached[place], found, np.inf)


def _distances(made: Prepared, sources: np.ndarray, time: float | None) -> np.ndarray:
    """Distances ``(n, s)`` at the rows of a cloud."""
    smoother, cloud = made.smoother, Cloud(made.cloud.points, made.cloud.frame)
    stiffness, mass = matrices(cloud, smoother)
    frames, gradient = gradients(cloud, smoother)
    if time is None:
        time = mass.diagonal().mean() ** (2 / len(gradient)) / 4
    heat = symmetric_factor(mass + time * stiffness)
    # Half of the digits make L invertible: more would show, fewer would drown in rounding.
    shift = np.finfo(float).eps ** 0.5 / cloud.frame.scale**2
    inverse = symmetric_factor(stiffness + shift * mass)
    component = smoother.components[1].cpu().numpy()
    points, edges = cloud.points.cpu().numpy(), stiffness.tocoo()
    steps = points[edges.col] - points[edges.row]
    found = np.full((len(points), len(sources)), np.inf)
    for column, source in enumerate(sources.tolist()):
        chord = np.linalg.norm(points - points[source], axis=1)
        warmth = heat.solve(np.bincount([source], minlength=len(points)).astype(float))
        field = -np.einsum("nda,an->nd", frames, [part @ warmth for part in gradient])
        # First by the largest entry: squares of what is left of the heat far away may vanish.
        for norm in (np.inf, 2):
            size = np.linalg.norm(field, norm, axis=1, keepdims=True)
            field /= np.where(size > 0, size, 1)
        rise = ((field[edges.row] + field[edges.col]) * steps).sum(1) / 2
        distance = inverse.solve(np.bincount(edges.row, edges.data * rise, minlength=len(points)))
        near = stiffness[[source]].indices
        near = near[chord[near] > 0]
        distance -= np.mean(distance[near] - chord[near])
        distance[chord == 0] = 0.0
        reached = component == component[source]
        distance = np.where(reached, distance, 0.0)
        slope = np.median(np.linalg.norm([part @ distance for part in gradient], axis=0)[reached])
        distance = np.maximum(distance / (slope or 1.0), chord)
        found[reached, column] = distance[reached]
    return found
