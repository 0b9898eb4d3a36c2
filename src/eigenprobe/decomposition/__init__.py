"""Points in, `Basis` out: one cloud (`front`), and many of them solved as one problem (`together`)."""

from .front import PER_POINT, Method, Space, decompose, differentiable, requires_derivatives, smoothed

__all__ = ["PER_POINT", "Method", "Space", "decompose", "differentiable", "requires_derivatives", "smoothed"]
