"""Which metric and scale a table gets; from vectors to coordinates on a sphere.

sphere: y = u / sqrt(1 + |u|^2),   u = V mu^t (n, K)
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

Array = NDArray[Any]
Coordinates = Literal["auto", "map", "sphere", "vectors"]
Scale = Literal["auto", "standard", "none"]
SPATIAL = ("cosine", "euclidean")
AFFINITY = "precomputed_affinity"
PRECOMPUTED = ("precomputed", AFFINITY)  # metrics of square matrices instead of rows
MEASURED = 2000  # rows that a choice is made from
COSINE_COLUMNS = 64  # metric="auto": features this wide are nearly always compared by angle ...
# ... unless they vary in fewer directions; digits have 13, embeddings 20 to 90, a knot 2.4
COSINE_DIRECTIONS = 9.0
# scale="auto": the widest column over the median one. It is 390 for wine and more for breast cancer
# and beans, whose columns have units of their own.
UNITS = 100.0
SPACE = 3  # columns of points in space, whose unit is one
STEPS, LEFT = 30.0, 0.05  # of the sphere: so many, or fewer, so that this is left of the last


def check_parameters(model: Any) -> None:
    """An error that says which parameter is wrong."""
    as_annotated(type(model).__init__, model.get_params(deep=False))
    if model.solver == "network" and model.metric not in ("auto", *SPATIAL):
        raise InputError(
            f"solver='network' compares rows by cosine or euclidean, got metric={model.metric!r}"
        )
    if model.metric_kwds and model.metric in (*SPATIAL, "auto", *PRECOMPUTED):
        raise InputError(
            f"metric {model.metric!r} has no further arguments, got metric_kwds={model.metric_kwds}"
        )
    if model.n_jobs == 0:
        raise InputError("n_jobs must be a number of cores, or -1 for all, got 0")
    for name in ("n_components", "n_neighbors", "max_iter"):
        if (value := getattr(model, name)) < 1:
            raise InputError(f"{name} must be a positive integer, got {value!r}")
    if model.map_dimensions not in (2, 3):
        raise InputError(f"map_dimensions must be 2 or 3, got {model.map_dimensions}")
    most = model.max_samples
    if most != "auto" and most <= max(model.n_components, model.n_neighbors):
        raise InputError(f"max_samples must exceed n_components and n_neighbors, got {most}")


def choose_metric(
    metric: str | Callable[..., float], rows: torch.Tensor, stored: Array | None = None
) -> str | Callable[..., float]:
    """``auto`` is cosine for wide tables and Euclidean for narrow ones, and for wide ones whose
    unit rows lie, once centred, in a few directions only: a curve or a surface, whose angles from
    the origin mean nothing. Wide counts are compared by angle in any case: their totals are how
    much was counted. ``stored``: the entries of a sparse table, of which ``rows`` are projections.
    The effective number of directions is ``(tr C)^2 / tr C^2``, C the covariance.
    """
    if metric != "auto" or rows.shape[1] < COSINE_COLUMNS:
        return "euclidean" if metric == "auto" else metric
    some = rows[:: max(1, len(rows) // MEASURED)].double()
    entries = some.numpy(force=True) if stored is None else stored
    counts = bool((entries >= 0).all() and (entries == entries.round()).all())
    # Unit vectors of centred unit rows: neither the sizes of rows nor a few far ones dominate.
    unit = torch.nn.functional.normalize
    some = unit(some)
    some = unit(some - some.mean(0))
    tall = len(some) >= some.shape[1]
    covariance = some.mT @ some if tall else some @ some.mT
    least = torch.finfo(some.dtype).tiny
    directions = covariance.trace() ** 2 / covariance.square().sum().clamp_min(least)
    return "cosine" if counts or directions >= COSINE_DIRECTIONS else "euclidean"


def choose_spread(scale: Scale, rows: torch.Tensor, metric: object) -> Array | None:
    """What columns are divided by, their standard deviations ``(d,)``, or None.

    ``auto`` divides where Euclidean distances would be those of a few columns: the widest of more
    than three is a hundred times as wide as the median one.
    """
    if scale == "none" or (scale == "auto" and (metric != "euclidean" or rows.shape[1] <= SPACE)):
        return None
    spread = rows.double().std(0)
    varied = spread[spread > 0]
    if not len(varied) or not bool(torch.isfinite(varied).all()):
        return None
    factor = float(varied.max() / varied.median())
    if scale == "auto":
        if factor < UNITS:
            return None
        warn(
            f"column {int(spread.argmax())} is {factor:.0f} times as wide as the median column: "
            "columns were divided by their standard deviations (scale='none' keeps them)"
        )
    return torch.where(spread > 0, spread, 1.0).numpy(force=True)


def on_sphere(vectors: Array, factors: Array) -> Array:
    """Diffusion coordinates ``V mu^t (m, K)`` projected on the sphere from its centre: rows of a
    group lie in one direction, and the projection keeps the direction."""
    tiny = np.finfo(float).eps
    factors = factors.clip(tiny, 1 - tiny)
    spread = vectors * factors ** min(STEPS, math.log(LEFT) / math.log(factors[-1]))
    return spread / np.sqrt(1 + (spread**2).sum(1, keepdims=True))
