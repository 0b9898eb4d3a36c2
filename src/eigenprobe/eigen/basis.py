"""The one way from a span to a `Basis`: rotate, go back to the points as they were given, and to their units.

span (n, p), smoother -> Q (n, K), mass, lambda -> copies share value and mass (N, K) -> lambda / scale^2
"""

from collections.abc import Callable
from typing import Any

from ..basis import Basis, Extension
from ..graph.arranged import Arranged
from ..smoothers import Smoother
from ..smoothers.prepared import OperatorSource, Prepared
from .span import Rotation, Span, rotate

Extend = Callable[[Rotation], Extension] | None
Facts = dict[str, Any] | None


def basis_from_span(
    span: Span, smoother: Smoother, k: int, cloud: Arranged, *, extension: Extend = None, info: Facts = None, **how: Any
) -> Basis:
    """The basis of ``k`` vectors that a span holds; ``how`` are options of `rotate`.

    ``extension`` makes values at new points from the rotation; ``info`` is added to what the smoother says.
    """
    return basis_of(rotate(span, smoother, k, **how), smoother, cloud, extension=extension, info=info)


def basis_of(
    rotation: Rotation, smoother: Smoother, cloud: Arranged, *, extension: Extend = None, info: Facts = None
) -> Basis:
    """The basis of one cloud from its rotation."""
    facts: dict[str, Any] = {"smoother": smoother.kind, "dimension": float(smoother.dimension), **(info or {})}
    if cloud.duplicates:
        facts["duplicates"] = cloud.duplicates
    cut = cloud.short_cuts
    if cut is not None:
        facts["short_cuts"] = len(cut)
        cut = cut if cloud.kept is None else cloud.kept[cut]
    mass, vectors = cloud.spread(rotation.mass, rotation.vectors)
    normalized = rotation.q if cloud.rows is None else vectors * mass.sqrt()[:, None]
    values = rotation.eigenvalues / cloud.frame.scale**2
    function = None if extension is None else extension(rotation)
    source = OperatorSource(kept=Prepared(cloud, smoother)) if not smoother.clouds else None
    return Basis(normalized, mass, values, cloud.given, facts, function, short_cuts=cut, source=source)
