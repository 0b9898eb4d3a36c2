"""Averaging operators with a mass."""

from __future__ import annotations

from .smoother import (
    KINDS,
    NEIGHBOURS,
    Kind,
    Smoother,
    block_diagonal,
    build_smoother,
    laplacian_smoother,
    symmetric_matrix,
)

__all__ = [
    "KINDS",
    "NEIGHBOURS",
    "Kind",
    "Smoother",
    "block_diagonal",
    "build_smoother",
    "laplacian_smoother",
    "symmetric_matrix",
]
