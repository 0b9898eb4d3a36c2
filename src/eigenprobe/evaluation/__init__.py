"""Measuring a result: against an oracle, against its peers, against labels."""

from __future__ import annotations

from .alignment import Alignment, compare, compare_vectors

__all__ = ["Alignment", "compare", "compare_vectors"]
