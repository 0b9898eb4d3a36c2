"""Points in, `Basis` out: `entry` one cloud or several, `stack` many clouds as one problem, `settings` of both."""

from .entry import decompose
from .settings import Method, OperatorSettings, Parts, Request, Space, geometry_of

__all__ = ["Method", "OperatorSettings", "Parts", "Request", "Space", "decompose", "geometry_of"]
