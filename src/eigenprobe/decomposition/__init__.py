"""Points in, `Basis` out: `entry` one cloud or several, `stack` many clouds as one problem,
`settings` of both.
"""

from .entry import decompose
from .settings import (
    Method,
    OperatorSettings,
    Parts,
    Request,
    Resolution,
    Space,
    geometry_of,
    prepare,
)

__all__ = [
    "Method",
    "OperatorSettings",
    "Parts",
    "Request",
    "Resolution",
    "Space",
    "decompose",
    "geometry_of",
    "prepare",
]
