"""Estimators in scikit-learn's conventions."""

from .eigenmaps import OptimalApproximationEigenmaps

__all__ = ["OptimalApproximationEigenmaps"]
