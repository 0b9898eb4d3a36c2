"""Where other libraries take over: operators for DiffusionNet, a PyTorch Geometric transform, AnnData in place.

Each needs its own package only when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .cells import eigenmaps
from .diffusionnet import DiffusionNetOperators, diffusionnet_operators

if TYPE_CHECKING:
    from .pyg import SpectralBasis

__all__ = ["DiffusionNetOperators", "SpectralBasis", "diffusionnet_operators", "eigenmaps"]


def __getattr__(name: str) -> Any:
    if name != "SpectralBasis":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f"{__name__}.pyg").SpectralBasis
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch_geometric":
            raise
        raise InputError("SpectralBasis needs torch_geometric: pip install 'eigenprobe[pyg]'") from error
