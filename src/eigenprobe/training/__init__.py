"""Training: a Lightning module for every setting, one manifold or many.

`fit_network` is the single-manifold fit behind ``decompose(method="network")``; `train` runs any
module and data with checkpoints, resumption and logs.

The names are loaded on first use: were they imported here, two threads that begin with different
modules of this package would wait for each other.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import extra

# Or one line that says what to install. Whole, too: threads that begin with different modules
# of this package would meet parts of scipy that another is loading.
for _library in ("scipy.sparse.linalg", "scipy.spatial", "lightning.pytorch"):
    extra(_library)

if TYPE_CHECKING:
    from .data import Batch, ManifoldData, Pool, ProbeSettings
    from .fit import FitSettings, fit_network
    from .module import Optimisation, SpectralModule
    from .runs import RunSettings, train

_NAMES = {  # public name -> module that defines it
    **dict.fromkeys(("Batch", "ManifoldData", "Pool", "ProbeSettings"), "data"),
    **dict.fromkeys(("FitSettings", "fit_network"), "fit"),
    **dict.fromkeys(("Optimisation", "SpectralModule"), "module"),
    **dict.fromkeys(("RunSettings", "train"), "runs"),
}
__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_NAMES[name]}", __name__), name)
