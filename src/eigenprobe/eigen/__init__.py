"""Smoother -> span -> basis: leading eigenpairs by the solver that suits, and the one way from a
span to a basis.
"""

from .derivative import with_derivatives
from .inverse import smallest_pairs
from .problem import Eigenpairs, smoother_filter
from .solve import solve, solve_each
from .span import RitzPairs, basis_of, canonical_signs, orthonormalise, ritz, rotate, sweep, widen
