"""Which operator of a cloud is meant: the settings of graph and smoother, and the way from points
to both.

    points (N, d) -> frame, memory order, graph (n, k) -> inspection -> sample -> short-cuts cut
    -> smoother (n, n) -> potential, boundary, ...

A basis carries these settings, so that its operator can be built again from its points after it was
read from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..basis import Basis
from ..cloud.cloud import Cells, Cloud, CloudGraph, arrange
from ..cloud.edges import Neighbours, without_short_cuts
from ..cloud.inspection import LEAST, Inspection, find_outliers, inspect, removable
from ..cloud.sample import working_sample
from ..errors import InputError, warn
from ..host.files import Facts
from ..host.threads import limited_threads
from ..host.validation import validated
from ..neighbors.graph import NEAREST, estimate_dimension
from ..neighbors.search import Metric
from ..points import Array, Origin, check_count, check_points
from ..probes.estimates import Eigenvalues
from ..smoothers import BALANCED_DIMENSIONS, NEIGHBOURS, Kind, Smoother, build_smoother
from ..smoothers.alteration import alter, anisotropic_field, neighbours_along
from ..smoothers.prepared import Prepared, without_rows
from ..smoothers.stencil import BALANCE, EXACT, Balance

Space = Literal["euclidean", "cosine", "scale-invariant"]
Method = Literal["direct", "network", "pretrained"]
Parts = Literal["largest", "all"]
Resolution = Literal["auto", "all"] | int
FRAGMENT = 0.05  # of the largest part: smaller ones are left out ...
FRAGMENTS = 0.1  # ... where they hold no more than this share of all points


@validated
@dataclass(frozen=True)
class OperatorSettings:
    """Settings of graph and smoother, as `decompose` documents them; ``moving``: derivatives are
    wanted.
    """

    smoother: Kind | Smoother = "adaptive"
    metric: Space = "euclidean"
    neighbours: Neighbours | None = None
    bandwidth: float | None = None
    dimension: float | None = None
    potential: Array | None = None
    boundary: str | Array | None = None
    anisotropy: float | Array | None = None
    measure: float | Array | None = None
    resolution: Resolution = "auto"
    parts: Parts | None = None
    moving: bool = False
    arrays: list[str] | None = None  # names of settings that a file did not hold

    def __post_init__(self) -> None:
        if self.bandwidth is not None and self.bandwidth <= 0:
            raise InputError(f"bandwidth must be above 0, got {self.bandwidth}")

    @property
    def asked(self) -> list[str]:
        """The names of what is not as usual in the operator."""
        given = [
            name
            for name in ("potential", "boundary", "anisotropy", "measure")
            if getattr(self, name) is not None
        ]
        given += ["scale_invariant"] if self.metric == "scale-invariant" else []
        return given + (self.arrays or [])

    @property
    def fixes_constant(self) -> bool:
        """Whether the constant is an eigenvector, of eigenvalue 0."""
        return self.potential is None and self.boundary is None

    @property
    def balance(self) -> Balance:
        """The settings of balanced weights that suit."""
        return EXACT if self.moving else BALANCE

    @property
    def search_metric(self) -> Metric:
        """In which neighbours are near."""
        return "cosine" if self.metric == "cosine" else "euclidean"

    @property
    def geometry(self) -> OperatorSettings:
        """The same graph, dimension and kind of weights, without a potential, a boundary or another
        measure.
        """
        smoother = "adaptive" if self.smoother == "row" else self.smoother
        if smoother is self.smoother and self.metric == "euclidean" and not self.asked:
            return self
        plain: dict[str, Any] = dict.fromkeys(("potential", "boundary", "anisotropy", "measure"))
        lost = [name for name in self.arrays or () if name not in plain] or None
        return replace(self, smoother=smoother, metric="euclidean", arrays=lost, **plain)

    def traced(self, origin: Origin, extra: list[str] | None = None) -> OperatorSettings:
        """The same settings, with derivatives where the points require them and the operator has
        them.
        """
        asked = [*self.asked, *(extra or [])]
        wanted = not origin.numpy and torch.is_grad_enabled() and bool(origin.points.requires_grad)
        if wanted and asked:
            warn(f"no derivatives with respect to the points: there are none with {asked[0]}")
        return replace(self, moving=wanted and not asked)

    def differentiable(self, ready: Smoother) -> bool:
        """Whether derivatives are wanted and the smoother has them, as balanced weights do; a
        warning if not.
        """
        if not self.moving:
            return False
        euclidean = (
            ready.graph is not None and ready.graph.metric == "euclidean" and self.bandwidth is None
        )
        found = self.smoother == "adaptive" and euclidean and ready.dimension <= BALANCED_DIMENSIONS
        if not found:
            only = "only 'adaptive' weights in up to three dimensions have them"
            warn(f"no derivatives with respect to the points: {only}")
        return found

    @property
    def is_plain(self) -> bool:
        """Whether the operator is the usual one, which a sample of the points may stand for."""
        usual = (self.smoother, self.metric, self.bandwidth) == ("adaptive", "euclidean", None)
        return usual and not self.moving and not self.asked

    def prepare(self, points: Array) -> Prepared:
        """The operator of points ``(N, d)`` of any kind of array."""
        if self.arrays:
            raise InputError(
                f"the operator of this basis cannot be built again: its {self.arrays[0]} was an "
                "array, which a file does not hold; decompose the points again with it"
            )
        x, _ = check_points(points, 1)
        with limited_threads(x.device, len(x)):
            return prepare(x, self, 1)

    def record(self) -> Facts:
        """The settings that are not the usual ones, for a file; names whose values are arrays are
        under ``arrays``.
        """
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        own = {name: value for name, value in own.items() if not _usual(name, value)}
        simple = {
            name: value for name, value in own.items() if isinstance(value, (str, int, float))
        }
        arrays = self.arrays or [name for name in own if name not in simple]
        return simple | ({"arrays": arrays} if arrays else {})


def _usual(name: str, value: object) -> bool:
    usual = getattr(OperatorSettings, name)
    return value is usual or (isinstance(value, (str, bool, int, float)) and value == usual)


def prepare(x: Tensor, wanted: OperatorSettings, k: int) -> Prepared:
    """The cloud ``x (N, d)`` float64, made ready for ``k`` vectors, and its smoother."""
    if isinstance(wanted.smoother, Smoother):
        return _with_given_smoother(x, wanted, k)
    usual = NEIGHBOURS[wanted.smoother]
    if wanted.anisotropy is not None:
        usual = neighbours_along(wanted.anisotropy, usual)
    count = wanted.neighbours if isinstance(wanted.neighbours, int) else usual
    cloud, dimension = arrange(x, count, k, wanted.search_metric), wanted.dimension
    if (inspection := _inspect(x, cloud, wanted)) is not None:
        if (cells := _sample(x, cloud, inspection, wanted)) is not None:
            check_count(len(cells.points), k, "sampled ")
            cloud = arrange(x, count, k, wanted.search_metric, cells=cells)
        elif dimension is None:
            dimension = float(inspection.labels.mode().values)
        cloud = replace(cloud, inspection=inspection)
    made = _operator(cloud, wanted, k, dimension)
    if (small := _small_parts(made, wanted)) is None:
        return made
    check_count(int((~small).sum()), k, "remaining ")
    return without_rows(made, small)


def _with_given_smoother(x: Tensor, wanted: OperatorSettings, k: int) -> Prepared:
    given = wanted.smoother
    assert isinstance(given, Smoother)
    if given.n != len(x):
        raise InputError(f"expected a smoother of these {len(x)} points, got one of {given.n}")
    if wanted.anisotropy is not None:
        raise InputError(
            "anisotropy changes the weights of a smoother: not together with a given one"
        )
    return _altered(Prepared(Cloud.plain(x), given), wanted, k)


def _inspect(x: Tensor, cloud: CloudGraph, wanted: OperatorSettings) -> Inspection | None:
    """How a curve, surface or solid was sampled; None of few points and of other operators."""
    if not wanted.is_plain and isinstance(wanted.resolution, int):
        raise InputError("a resolution is known to the plain operator of adaptive weights only")
    _check_resolution(wanted.resolution, *x.shape)
    graph = cloud.graph
    few = x.shape[1] not in (2, 3) or graph.n < LEAST or graph.k < NEAREST
    if few or not wanted.is_plain:
        return None
    return inspect(
        replace(graph, points=cloud.points, distances=graph.distances * cloud.frame.scale)
    )


def _sample(
    x: Tensor, cloud: CloudGraph, inspection: Inspection, wanted: OperatorSettings
) -> Cells | None:
    """The sample of a cloud, or None where it is the cloud."""
    if wanted.resolution == "all":
        return None
    dimension = inspection.dimension if wanted.dimension is None else round(wanted.dimension)
    outliers = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    if dimension == 2 < x.shape[1]:  # only there is a sheet to stand off
        graph = cloud.graph
        outliers = find_outliers(graph.points, graph.indices, graph.distances)
        outliers = removable(outliers if cloud.rows is None else outliers[cloud.rows])
    if wanted.dimension is None and (doubt := inspection.doubt()):
        warn(f"{doubt}: pass dimension= where it matters")
    count = wanted.resolution if isinstance(wanted.resolution, int) else None
    if count is None and inspection.is_sample and not bool(outliers.any()):
        return None
    return working_sample(x, outliers, inspection, dimension, count)


def _check_resolution(resolution: Resolution, n: int, d: int) -> None:
    """Whether a cloud ``(n, d)`` can have a sample of so many points; an error if not."""
    if not isinstance(resolution, int):
        return
    if not 1 < resolution <= n:
        raise InputError(
            f"resolution must be 'auto', 'all' or a number of points up to {n}, got {resolution}"
        )
    if d not in (2, 3) or n < LEAST:
        needed = "2 or 3 dimensions" if d not in (2, 3) else f"{LEAST} points or more"
        raise InputError(
            f"a resolution of {resolution} points needs a cloud of {needed}, got {n} points of {d}"
        )


def _operator(
    cloud: CloudGraph, wanted: OperatorSettings, k: int, dimension: float | None
) -> Prepared:
    """The smoother of a cloud, after its edges are judged."""
    assert not isinstance(wanted.smoother, Smoother)
    own: dict[str, Any] = {}
    if wanted.smoother == "adaptive":
        if wanted.bandwidth is None:
            cloud, dimension = without_short_cuts(cloud, wanted.neighbours, dimension)
        own["settings"] = wanted.balance
    if wanted.anisotropy is not None:
        if wanted.smoother != "adaptive":
            raise InputError(f"anisotropy needs the smoother 'adaptive', got {wanted.smoother!r}")
        dimension = estimate_dimension(cloud.graph) if dimension is None else dimension
        own["field"] = anisotropic_field(wanted.anisotropy, cloud, dimension)
    width = None if wanted.bandwidth is None else wanted.bandwidth / cloud.frame.scale
    ready = build_smoother(
        cloud.graph, wanted.smoother, bandwidth=width, dimension=dimension, **own
    )
    return _altered(Prepared(cloud, ready), wanted, k)


def _altered(plain: Prepared, wanted: OperatorSettings, k: int) -> Prepared:
    """The same cloud with the smoother of the operator that is asked for."""
    if not wanted.asked:
        return plain
    if not plain.smoother.symmetric:
        raise InputError(
            f"{wanted.asked[0]} needs a symmetric smoother, got kind 'row': use 'adaptive'"
        )
    own: dict[str, Any] = {
        name: getattr(wanted, name) for name in ("potential", "boundary", "measure")
    }
    own["scale_invariant"] = wanted.metric == "scale-invariant"
    return replace(plain, smoother=alter(plain.smoother, plain.cloud, k, **own))


def _small_parts(made: Prepared, wanted: OperatorSettings) -> Tensor | None:
    """Which kept points ``(n,)`` lie in parts that are not wanted; None where all are."""
    count, labels = made.smoother.components
    if count == 1 or wanted.parts == "all" or not wanted.is_plain:
        return None
    sizes = torch.bincount(labels, minlength=count)
    if wanted.parts == "largest":
        small = torch.ones_like(sizes, dtype=torch.bool)
        small[sizes.argmax()] = False
    else:
        small = sizes < FRAGMENT * sizes.max()
        if not bool(small.any()) or int(sizes[small].sum()) > FRAGMENTS * len(labels):
            return None
    return small[labels]


@dataclass(frozen=True)
class Request:
    """What is asked of one cloud: ``k`` vectors of an operator by a method; `decompose` documents
    every setting.
    """

    k: int
    method: Method = "direct"
    operator: OperatorSettings = field(default_factory=OperatorSettings)
    probes: Any = None
    seed: int = 0
    device: str | torch.device | None = None
    tol: float = 1e-6
    eigenvalues: Eigenvalues = "rayleigh"
    options: Mapping[str, Any] = field(default_factory=dict)

    def of(self, probes: Any, **per_point: Any) -> Request:
        """The same of one of several clouds, with its own probes and settings of its points."""
        return replace(self, operator=replace(self.operator, **per_point), probes=probes)

    @property
    def asked(self) -> list[str]:
        """The names of what is not as usual beside the operator."""
        unusual = {"probes": self.probes is not None, "eigenvalues": self.eigenvalues != "rayleigh"}
        return [name for name, chosen in unusual.items() if chosen]

    @property
    def stackable(self) -> bool:
        """Whether clouds may share one eigenproblem: the usual operator, but for its neighbours and
        its dimension.
        """
        free = {"neighbours", "dimension", "resolution", "parts"}
        usual = self.method == "direct" and not self.asked and not self.options
        usual = (
            usual
            and not isinstance(self.operator.resolution, int)
            and self.operator.parts != "largest"
        )
        return usual and set(self.operator.record()) <= free

    @property
    def graph_settings(self) -> dict[str, Any]:
        """Settings of graph and smoother that a network has, too."""
        names = ("smoother", "neighbours", "bandwidth", "dimension")
        return {"metric": self.operator.search_metric} | {
            name: getattr(self.operator, name) for name in names
        }


def geometry_of(basis: Basis) -> Prepared:
    """The operator that made a basis, as far as it is one of the geometry: symmetric, Euclidean,
    nothing added to it.

    A basis that does not know what made it (of a mesh, for instance) has that of its points by the
    usual settings.
    """
    if basis.points is None:
        raise InputError("a basis without points has no geometry")
    settings = None if basis.source is None else basis.source.settings
    if isinstance(settings, OperatorSettings):
        plain = settings.geometry
        return basis.prepared() if plain is settings else plain.prepare(basis.points)
    if basis.source is not None:
        found = basis.prepared()
        euclidean = found.smoother.graph is not None and found.smoother.graph.metric == "euclidean"
        if found.smoother.symmetric and euclidean and found.smoother.lowest is None:
            return found
    return OperatorSettings().prepare(basis.points)
