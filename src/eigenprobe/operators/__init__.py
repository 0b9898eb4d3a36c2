"""The operators themselves, as sparse matrices to solve with: Laplacian, mass, gradient."""

from .matrices import gradient, gradients, laplacian, matrices

__all__ = ["gradient", "gradients", "laplacian", "matrices"]
