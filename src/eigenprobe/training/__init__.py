"""Training: a Lightning module for every setting, one manifold or many.

`fit_network` is the single-manifold fit behind ``decompose(method="network")``; `train` runs any module and data with
checkpoints, resumption and logs.  Lightning is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data import Batch, ManifoldData, Pool, ProbeSettings
    from .fit import FitSettings, fit_network
    from .module import Optimisation, SpectralModule
    from .runs import RunSettings, train

__all__ = ["Batch", "FitSettings", "ManifoldData", "Optimisation", "Pool", "ProbeSettings", "RunSettings"]
__all__ += ["SpectralModule", "fit_network", "train"]


def __getattr__(name: str) -> Any:
    for module in ("data", "fit", "module", "runs") if name in __all__ else ():
        found = importlib.import_module(f".{module}", __name__)
        if name in vars(found):
            return vars(found)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
