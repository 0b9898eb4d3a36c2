"""Leading eigenpairs of a smoother, and bases from spans."""

from __future__ import annotations
