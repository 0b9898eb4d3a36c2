"""Rows of features: tables on disk, images through CLIP or DINOv2, and the image data sets of the paper.

images -> `datasets.open_images` -> `extract.run` -> npz (features (n, d), labels (n,)) -> `sources.read_table`
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

_NAMES = {"read_table": "sources", "open_rows": "sources", "Table": "sources", "open_images": "datasets"}
_MODULES = ("datasets", "extract", "sources", "vision")

__all__ = ["Table", "datasets", "extract", "open_images", "open_rows", "read_table", "sources", "vision"]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    if name in _MODULES:
        module: ModuleType = importlib.import_module(f".{name}", __name__)
        return module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
