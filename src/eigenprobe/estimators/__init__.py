"""Estimators in scikit-learn's conventions."""

from .eigenmaps import OptimalApproximationEigenmaps

Eigenmaps = OptimalApproximationEigenmaps

__all__ = ["Eigenmaps", "OptimalApproximationEigenmaps"]
