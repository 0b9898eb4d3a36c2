"""What the estimator asks of its parameters, and which metric it takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from .coordinates import COORDINATES, COSINE_COLUMNS

COORDINATE_METRICS = ("cosine", "euclidean")


def check_parameters(model: Any) -> None:
    """An error that says which parameter is wrong."""
    if model.solver not in ("direct", "network"):
        raise InputError(f"solver must be 'direct' or 'network', got {model.solver!r}")
    if model.coordinates not in COORDINATES:
        raise InputError(f"coordinates must be one of {', '.join(COORDINATES)}, got {model.coordinates!r}")
    if model.solver == "network" and model.metric not in ("auto", *COORDINATE_METRICS):
        raise InputError(f"solver='network' compares rows by cosine or euclidean, got metric={model.metric!r}")
    for name in ("n_components", "n_neighbors", "max_iter"):
        value = getattr(model, name)
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise InputError(f"{name} must be a positive integer, got {value!r}")
    if model.max_samples != "auto" and model.max_samples <= max(model.n_components, model.n_neighbors):
        raise InputError(f"max_samples must exceed n_components and n_neighbors, got {model.max_samples}")


def choose_metric(metric: str, columns: int) -> str:
    """``auto`` is cosine for wide tables and Euclidean for narrow ones."""
    return metric if metric != "auto" else "cosine" if columns >= COSINE_COLUMNS else "euclidean"
