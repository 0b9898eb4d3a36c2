"""The operators themselves, as sparse matrices to solve with: Laplacian, mass, gradient."""

from .matrices import laplacian

__all__ = ["laplacian"]
