"""The operators themselves, as sparse matrices to solve with: Laplacian, mass, gradient."""

from .gradient import gradient, gradients
from .matrices import laplacian, matrices

__all__ = ["gradient", "gradients", "laplacian", "matrices"]
