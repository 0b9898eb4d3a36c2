"""Training: a Lightning module for every setting, one manifold or many.

`fit_network` is the single-manifold fit behind ``decompose(method="network")``; `train` runs any module and data with
checkpoints, resumption and logs.  Lightning is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_NAMES = {
    "Batch": "batch",
    "FitSettings": "fit",
    "ManifoldData": "data",
    "Optimisation": "module",
    "Pool": "data",
    "ProbeSettings": "data",
    "RunSettings": "runs",
    "SpectralModule": "module",
    "fit_network": "fit",
    "train": "runs",
}

if TYPE_CHECKING:
    from .batch import Batch
    from .data import ManifoldData, Pool, ProbeSettings
    from .fit import FitSettings, fit_network
    from .module import Optimisation, SpectralModule
    from .runs import RunSettings, train

__all__ = [
    "Batch",
    "FitSettings",
    "ManifoldData",
    "Optimisation",
    "Pool",
    "ProbeSettings",
    "RunSettings",
    "SpectralModule",
    "fit_network",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
