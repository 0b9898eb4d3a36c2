"""Smoother -> span -> basis: leading eigenpairs by the solver that suits, and the one way from a span to a basis."""

from .basis import basis_from_span
from .problem import Eigenpairs
from .solve import solve
from .span import Rotation, Span, canonical_signs, orthonormalise, ritz, rotate, sweep, widen

__all__ = [
    "Eigenpairs",
    "Rotation",
    "Span",
    "basis_from_span",
    "canonical_signs",
    "orthonormalise",
    "ritz",
    "rotate",
    "solve",
    "sweep",
    "widen",
]
