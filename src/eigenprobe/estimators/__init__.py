"""Estimators in scikit-learn's conventions."""

from __future__ import annotations

from .eigenmaps import OptimalApproximationEigenmaps

__all__ = ["OptimalApproximationEigenmaps"]
