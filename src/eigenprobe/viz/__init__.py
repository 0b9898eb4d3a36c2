"""Pictures of a basis: matplotlib figures, a single-file HTML report and a live viewer.

They live in their own modules (`figures`, `report`, `scatter`, `viewer`) and are loaded on first
use, so that importing this package costs nothing and needs neither matplotlib nor plotly.
"""

from importlib import import_module
from types import ModuleType

__all__ = ["charts", "colours", "figures", "report", "scatter", "scene", "viewer"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
