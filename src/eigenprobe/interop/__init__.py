"""Where other libraries take over: operators for DiffusionNet, a PyTorch Geometric transform,
AnnData, shapes.

Each needs its own package only when it is used.
"""

from typing import TYPE_CHECKING, Any

from ..errors import extra
from .diffusionnet import DiffusionNetOperators, diffusionnet_operators
from .objects import eigenmaps, equip, with_scalars

if TYPE_CHECKING:
    from .pyg import SpectralBasis

__all__ = [
    "DiffusionNetOperators",
    "SpectralBasis",
    "diffusionnet_operators",
    "eigenmaps",
    "equip",
    "with_scalars",
]


def __getattr__(name: str) -> Any:
    if name != "SpectralBasis":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return extra(f"{__name__}.pyg").SpectralBasis
