"""Values of a basis at new points."""

from __future__ import annotations

from .kernel import KernelExtension

__all__ = ["KernelExtension"]
