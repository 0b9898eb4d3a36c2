"""One model for all shapes: a forward pass instead of a solve, its weights and its training.

`SpectralModel` is loaded on first use, because it needs the networks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model import SpectralModel

__all__ = ["SpectralModel"]


def __getattr__(name: str) -> Any:
    if name == "SpectralModel":
        return importlib.import_module(".model", __name__).SpectralModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
