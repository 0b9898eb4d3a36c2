"""Estimators in scikit-learn's conventions."""

from .eigenmaps import Eigenmaps

OptimalApproximationEigenmaps = Eigenmaps

__all__ = ["Eigenmaps", "OptimalApproximationEigenmaps"]
