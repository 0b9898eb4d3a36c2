"""The two things eigenprobe says when something is wrong with its input."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


class InputError(ValueError):
    """The input cannot be used. The message is one line: what was expected and what came."""


class RankError(InputError):
    """The columns to orthonormalise are linearly dependent (to working precision)."""


class EigenprobeWarning(UserWarning):
    """The input could be used, but the caller should know how (duplicates, disconnected clouds, ...)."""


def warn(message: str) -> None:
    """An `EigenprobeWarning` that points to the line of the caller's own code, however deep its cause lies."""
    frame: FrameType | None = sys._getframe(1)
    depth, package = 2, __name__.partition(".")[0]
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (package, "torch"):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, EigenprobeWarning, stacklevel=depth)
