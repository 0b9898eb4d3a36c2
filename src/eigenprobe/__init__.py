"""Spectral decompositions of any point cloud: basis vectors, eigenvalues and mass, from random
smooth probes.

>>> import numpy as np, eigenprobe as ep
>>> t = np.arange(400) * np.pi / 200
>>> circle = np.stack([np.cos(t), np.sin(t)], axis=1)
>>> basis = ep.decompose(circle, k=5)
>>> basis.eigenvalues.round(1) + 0.0
array([0., 1., 1., 4., 4.])

Everything public is listed in ``__all__`` and loaded on first use, so ``import eigenprobe`` costs
next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.4.0"

# public name -> module that defines it
_NAMES = {
    "decompose": "decomposition",
    "laplacian": "operators",
    "Basis": "basis",
    "Probes": "probes",
    **dict.fromkeys(("InputError", "EigenprobeWarning"), "errors"),
    **dict.fromkeys(("Graph", "build_graph"), "neighbors"),
    **dict.fromkeys(("Smoother", "build_smoother"), "smoothers"),
    "SpectralModel": "pretrained.model",
    **dict.fromkeys(("Eigenmaps", "OptimalApproximationEigenmaps"), "manifold"),
}
_MODULES = (
    "apps",
    "datasets",
    "evaluation",
    "geometry",
    "interop",
    "networks",
    "operators",
    "training",
    "viz",
)

__all__ = [
    "Basis",
    "Eigenmaps",
    "EigenprobeWarning",
    "Graph",
    "InputError",
    "OptimalApproximationEigenmaps",
    "Probes",
    "Smoother",
    "SpectralModel",
    "__version__",
    "apps",
    "build_graph",
    "build_smoother",
    "datasets",
    "decompose",
    "evaluation",
    "geometry",
    "interop",
    "laplacian",
    "networks",
    "operators",
    "training",
    "viz",
]

if TYPE_CHECKING:
    from . import apps, datasets, evaluation, geometry, interop, networks, operators, training, viz
    from .basis import Basis
    from .decomposition import decompose
    from .errors import EigenprobeWarning, InputError
    from .manifold import OptimalApproximationEigenmaps
    from .manifold.eigenmaps import Eigenmaps
    from .neighbors.graph import Graph, build_graph
    from .operators import laplacian
    from .pretrained.model import SpectralModel
    from .probes import Probes
    from .smoothers import Smoother, build_smoother


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
