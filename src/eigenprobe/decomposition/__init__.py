"""Points in, `Basis` out: one cloud (`front`), many of them solved as one problem (`together`), settings of both."""

from .front import PER_POINT, Method, decompose
from .settings import OperatorSettings, Space, geometry_of

__all__ = ["PER_POINT", "Method", "OperatorSettings", "Space", "decompose", "geometry_of"]
