"""From vectors to coordinates and back to rows; which parameters and metric may be asked for.

u = V mu^t (n, K)   diffusion coordinates;      sphere: y = u / sqrt(1 + |u|^2)
folded: y W,  W (K', K) orthonormal,            W maximises the mean of log |(y_i - y_j) W|^2 over pairs of rows
x(z) = sum_j w_j x_j / sum_j w_j,               w_j by distance of z to the coordinates of its nearest fitted rows
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError, warn
from ..host.validation import as_annotated
from ..search.neighbours import nearest_rows
from ..smoothers.neighbourhood import fuzzy_weights

Array = NDArray[Any]
SPATIAL = ("cosine", "euclidean")
AFFINITY = "precomputed_affinity"


def check_parameters(model: Any) -> None:
    """An error that says which parameter is wrong."""
    as_annotated(type(model).__init__, model.get_params(deep=False))
    if model.solver == "network" and model.metric not in ("auto", *SPATIAL):
        raise InputError(f"solver='network' compares rows by cosine or euclidean, got metric={model.metric!r}")
    if model.metric_kwds and (model.metric in (*SPATIAL, "auto", "precomputed", AFFINITY)):
        raise InputError(f"metric {model.metric!r} has no further arguments, got metric_kwds={model.metric_kwds}")
    if model.n_jobs == 0:
        raise InputError("n_jobs must be a number of cores, or -1 for all, got 0")
    for name in ("n_components", "n_neighbors", "max_iter"):
        if (value := getattr(model, name)) < 1:
            raise InputError(f"{name} must be a positive integer, got {value!r}")
    if model.map_dimensions not in PLANE_AND_SPACE:
        raise InputError(f"map_dimensions must be 2 or 3, got {model.map_dimensions}")
    if not 0 <= model.target_weight <= 1:
        raise InputError(f"target_weight must be between 0 and 1, got {model.target_weight:g}")
    if model.coordinates == "map" and model.n_components < 2:
        raise InputError(f"a map has at least 2 coordinates, got n_components={model.n_components}")
    if model.max_samples != "auto" and model.max_samples <= max(model.n_components, model.n_neighbors):
        raise InputError(f"max_samples must exceed n_components and n_neighbors, got {model.max_samples}")


def choose_metric(metric: str | Callable[..., float], rows: torch.Tensor) -> str | Callable[..., float]:
    """``auto`` is cosine for wide tables and Euclidean for narrow ones, and for wide ones whose unit rows lie, once
    centred, in a few directions only: a curve or a surface, whose angles from the origin mean nothing. Wide counts are
    compared by angle in any case: their totals are how much was counted."""
    if metric != "auto":
        return metric
    some = rows[:: max(1, len(rows) // MEASURED)].double()
    wide = rows.shape[1] >= COSINE_COLUMNS
    counts = wide and bool((some >= 0).all()) and bool((some == some.round()).all())
    return "cosine" if wide and (counts or directions(some) >= COSINE_DIRECTIONS) else "euclidean"


def choose_coordinates(model: Any, rows: int) -> Coordinates:
    """``auto`` is the map of two or three coordinates, where it is soon made, and of more where the groups outnumber
    them (`solvers.fit_direct`), and the sphere elsewhere."""
    chosen: Coordinates = model.coordinates
    if chosen != "auto":
        return chosen
    spectral = model.solver == "network" or model.diffusion_steps != "auto"  # which a map has no use for
    most = 0 if spectral else MOST_MAPPED.get(model.n_components, 0)
    mapped = model.basis_.info.get("mapped", False) or FEWEST_MAPPED < rows <= most
    return "map" if mapped else "sphere"


def warn_of_few_columns(rows: torch.Tensor) -> None:
    """A warning where a few columns of a table decide all Euclidean distances: other units count for nothing."""
    spread, order = rows[:: max(1, len(rows) // MEASURED)].double().var(0).sort(descending=True)
    shares = spread.cumsum(0) / spread.sum()
    few = int((shares > NEARLY_ALL).logical_not().sum()) + 1  # all columns and one where a variance is beyond numbers
    if few > SPACE or int((spread > 0).sum()) < FEWER * few:
        return
    columns, verb, them = ("columns", "hold", "them") if few > 1 else ("column", "holds", "it")
    names = ", ".join(map(str, sorted(order[:few].tolist())))
    warn(
        f"{columns} {names} {verb} {100 * float(shares[few - 1]):.4g} % of the variance, so that distances are those "
        f"of {them} alone: where columns have different units, scale them first (sklearn.preprocessing.StandardScaler)"
    )


def directions(rows: torch.Tensor) -> float:
    """The effective number of directions of rows ``(n, d)``: ``(tr C)^2 / tr C^2``, C the covariance of unit vectors of
    centred unit rows: neither the sizes of rows nor a few far ones dominate."""
    tiny = torch.finfo(rows.dtype).tiny
    some = rows / rows.norm(dim=1, keepdim=True).clamp_min(tiny)
    some = some - some.mean(0)
    some = some / some.norm(dim=1, keepdim=True).clamp_min(tiny)
    covariance = some.mT @ some if some.shape[1] <= len(some) else some @ some.mT
    return float(covariance.trace() ** 2 / covariance.square().sum().clamp_min(torch.finfo(some.dtype).tiny))


Coordinates = Literal["auto", "sphere", "diffusion", "vectors", "normalized", "map"]
FEWEST_MAPPED = 30  # rows up to which a map has nothing to group
PLANE_AND_SPACE = (2, 3)  # dimensions to look at
MOST_MAPPED = {2: 100_000, 3: 10_000}  # rows of a map of 2 or 3 dimensions that two cores make in half a minute
SAME = 1e-5  # relative distance below which coordinates are those of a fitted row, as single precision rounds them
COSINE_COLUMNS = 64  # metric="auto": features this wide are nearly always compared by angle ...
COSINE_DIRECTIONS = 9.0  # ... unless they vary in fewer directions; digits have 13, embeddings 20 to 90, a knot 2.4
FOLDED_PAIRS, FOLDED_STEPS, FOLDED_NEAR = 4000, 20, 0.01  # pairs, steps, squared share that counts as fallen together
SPACE, NEARLY_ALL = 3, 0.99  # columns of points in space, whose units are one; share of the variance that is nearly all
FEWER = 4  # times as many columns as those few that decide
MEASURED = 2000  # rows that these are measured on
LEAST = 1e-9  # a factor counts as so much: that of two rows is 0, and a power of it would leave them in one place
VANISHED = 1e-6  # of the first coordinate: a map of it is constant to single precision
MOST_STEPS, LEFT = 30.0, 0.05  # diffusion_steps="auto": so many, or fewer, so that the last coordinate keeps this share


def diffusion_time(steps: float | Literal["auto"], factors: Array) -> float:
    """The power t; ``auto`` falls below 30 where that would leave nothing of the last of the coordinates."""
    if steps != "auto":
        if len(factors) and (kept := float(np.max(factors).clip(0, 1)) ** float(steps)) < VANISHED:
            warn(f"diffusion_steps={steps:g} leaves {kept:.0e} of the first coordinate: fewer, or 'auto'")
        return float(steps)
    last = float(np.clip(factors[-1], LEAST, 1 - LEAST))
    return min(MOST_STEPS, math.log(LEFT) / math.log(last))


def coordinates(vectors: Array, mass: Array, factors: Array, kind: Coordinates, steps: float) -> Array:
    """The embedding ``(m, K)`` of vectors ``(m, K)``, mass ``(m,)`` and eigenvalues mu ``(K,)`` of the smoother."""
    if kind == "vectors":
        return vectors
    if kind == "normalized":
        return vectors * np.sqrt(mass)[:, None]
    spread = vectors * np.maximum(factors, 0) ** steps
    return spread if kind == "diffusion" else spread / np.sqrt(1 + (spread**2).sum(1, keepdims=True))


def folding(places: Array, count: int) -> Array:
    """Orthonormal directions ``W (K', count)`` in which pairs of ``places (n, K')`` stay apart.

    Principal directions let whole groups fall together; a logarithm does not forgive that of any pair. From random
    directions a few steps of gradient ascent, each made orthonormal again, over random pairs.
    """
    rng = np.random.default_rng(0)
    first, second = rng.integers(len(places), size=(2, FOLDED_PAIRS))
    apart = places[first] - places[second]
    lengths = np.linalg.norm(apart, axis=1, keepdims=True)
    apart = (apart / np.maximum(lengths, SAME))[lengths[:, 0] > SAME]
    found = np.linalg.qr(rng.normal(size=(places.shape[1], count)))[0]
    for _ in range(FOLDED_STEPS):
        seen = apart @ found
        gradient = apart.T @ (seen / ((seen**2).sum(1, keepdims=True) + FOLDED_NEAR)) / len(apart)
        found = np.linalg.qr(found + 2 * gradient)[0]
    return found


def local_averages(known: Array, rows: Array, places: torch.Tensor, k: int) -> Array:
    """Averages ``(m, d)`` of ``rows (n, d)`` over the ``k`` nearest of their coordinates ``known`` to every place; at
    the coordinates of a fitted row (of several: their mean) that row."""
    near, lengths = nearest_rows(torch.from_numpy(known), places, min(k, len(known)))
    same = lengths <= SAME * lengths[:, -1:]
    weight = torch.where(same.any(1, keepdim=True), same.to(lengths), fuzzy_weights(lengths))
    return np.einsum("mk,mkd->md", (weight / weight.sum(1, keepdim=True)).numpy(), rows[near.numpy()])
