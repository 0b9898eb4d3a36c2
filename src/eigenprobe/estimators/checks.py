"""What the estimator asks of its parameters, and which metric it takes."""

from __future__ import annotations

from typing import Any

from ..annotations import as_annotated
from ..errors import InputError
from .coordinates import COSINE_COLUMNS

COORDINATE_METRICS = ("cosine", "euclidean")
MOST_SEEDS = 2**31 - 1  # that are drawn from a random state


def check_parameters(model: Any) -> None:
    """An error that says which parameter is wrong."""
    as_annotated(type(model).__init__, model.get_params(deep=False))
    if model.solver == "network" and model.metric not in ("auto", *COORDINATE_METRICS):
        raise InputError(f"solver='network' compares rows by cosine or euclidean, got metric={model.metric!r}")
    for name in ("n_components", "n_neighbors", "max_iter"):
        if (value := getattr(model, name)) < 1:
            raise InputError(f"{name} must be a positive integer, got {value!r}")
    if model.max_samples != "auto" and model.max_samples <= max(model.n_components, model.n_neighbors):
        raise InputError(f"max_samples must exceed n_components and n_neighbors, got {model.max_samples}")


def choose_metric(metric: str, columns: int) -> str:
    """``auto`` is cosine for wide tables and Euclidean for narrow ones."""
    return metric if metric != "auto" else "cosine" if columns >= COSINE_COLUMNS else "euclidean"
