"""Training: a Lightning module for every setting, one manifold or many.

`fit_network` is the single-manifold fit behind ``decompose(method="network")``; `train` runs any module and data with
checkpoints, resumption and logs.
"""

from .data import Batch, ManifoldData, Pool, ProbeSettings
from .fit import FitSettings, fit_network
from .module import Optimisation, SpectralModule
from .runs import RunSettings, train

__all__ = ["Batch", "FitSettings", "ManifoldData", "Optimisation", "Pool", "ProbeSettings", "RunSettings"]
__all__ += ["SpectralModule", "fit_network", "train"]
