"""The two things eigenprobe says when something is wrong with its input."""

from __future__ import annotations


class InputError(ValueError):
    """The input cannot be used. The message is one line: what was expected and what came."""


class RankError(InputError):
    """The columns to orthonormalise are linearly dependent (to working precision)."""


class EigenprobeWarning(UserWarning):
    """The input could be used, but the caller should know how (duplicates, disconnected clouds, ...)."""
