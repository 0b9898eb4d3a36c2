"""Values of a basis at new points."""

from .kernel import KernelExtension

__all__ = ["KernelExtension"]
