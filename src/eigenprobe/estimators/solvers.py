"""The two ways to the vectors of an embedding: closed form, and a network.

    Fitted: V (n, K + 1) with the constant first, mu (K + 1,), mass (n,), and v(x) at new points

`direct` takes the leading eigenvectors of the neighbourhood smoother. `network` trains a pointwise network on the
expected reconstruction loss of that smoother's probes, on one cloud or on random subsets of it, and ends with a Ritz
rotation in its K + 1 outputs. A point enters the network as `context features`, averages over its neighbourhood in the
fitted cloud at several scales, which is attention to a frozen context with known weights:

    f_s = P^s x,   P = D^-1/2 A D^1/2 (averaging),   x: principal coordinates,   s in (4, 16, 64)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..eigen import Span, rotate, solve
from ..errors import InputError, RankError
from ..extensions.neighbourhood import NeighbourhoodExtension
from ..graph.neighbours import build_graph
from ..smoothers import Smoother
from ..smoothers.neighbourhood import neighbourhood_smoother

SCALES = (4, 16, 64)  # steps of the probes, each scale with the same energy
CONTEXT = (4, 16, 64)  # steps of averaging of the context features
PRINCIPAL = 32  # principal coordinates that are averaged
DENSE_ROWS = 2500  # on a processor, rows up to which an n x n covariance costs less than 64 sparse products a step


@dataclass
class Fitted:
    """A fitted embedding: values at the fitted points and a function for others."""

    vectors: Tensor  # (n, K + 1) float64, constant first
    factors: Tensor  # (K + 1,) mu
    mass: Tensor  # (n,)
    smoother: Smoother
    function: Any  # points (m, d) -> vectors (m, K + 1), mass (m,)
    info: dict[str, Any]


class NetworkFunction:
    """A trained network as a function of points; float64, so that a row does not depend on its batch."""

    def __init__(
        self, network: Any, features: ContextFeatures, context: NeighbourhoodExtension, matrix: Tensor
    ) -> None:
        self.network, self.scaling, self.context, self.matrix = network, features, context, matrix

    def __call__(self, points: Tensor) -> Tensor:
        """Vectors ``(m, K + 1)`` at points ``(m, d)``."""
        return self.with_mass(points)[0]

    def with_mass(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors and the mass interpolated between fitted points."""
        averaged, mass = self.context.with_mass(points)
        return self.outputs(self.scaling.scale(averaged)) @ self.matrix, mass

    @torch.no_grad()
    def outputs(self, features: Tensor) -> Tensor:
        values = self.network(features).double()
        values[:, 0] = 1.0  # the constant is known
        return values


def smoother_of(points: Tensor, neighbours: int) -> Smoother:
    """The neighbourhood smoother of points ``(n, d)``."""
    return neighbourhood_smoother(build_graph(points, min(neighbours, len(points) - 1)))


def distinct(points: Tensor, neighbours: int, count: int) -> Tensor:
    """The points, each once if some have only copies of themselves for neighbours."""
    k = min(neighbours, len(points) - 1)
    order = torch.unique(points, dim=0, return_counts=True)
    if int(order[1].max()) <= k:
        return points
    if len(order[0]) <= count:
        raise InputError(f"an embedding with {count - 1} components needs more than {count} distinct rows")
    return order[0]


def fit_direct(points: Tensor, count: int, neighbours: int, seed: int) -> Fitted:
    """``count`` leading vectors in closed form."""
    smoother = smoother_of(points, neighbours)
    assert smoother.mass is not None
    # The precision of a coordinate is that of its float32 points: a tighter residual would buy nothing.
    pairs = solve(smoother, count, tol=1e-5, generator=torch.Generator().manual_seed(seed))
    columns, (parts, labels) = pairs.vectors, smoother.components
    if count < parts <= points.shape[1]:
        root = smoother.mass.double().sqrt()[:, None]
        columns = root * _part_vectors(points.double(), labels, smoother.mass.double(), parts, count)
    rotation = rotate(Span(columns, pairs.gaps), smoother, count)
    mu, vectors = 1 - rotation.gaps, rotation.vectors
    extension = NeighbourhoodExtension.of(smoother, vectors, mu)
    return Fitted(vectors, mu, smoother.mass, smoother, extension, {"solver": "direct"})


def _part_vectors(points: Tensor, labels: Tensor, mass: Tensor, parts: int, count: int) -> Tensor:
    """Vectors ``(n, count)`` that are constant on every part of a graph with more parts than vectors.

    All functions constant on the parts share mu = 1, so any would do; these are the principal directions of the parts'
    centres, in which no two parts fall together that are apart in the data.
    """
    weight = torch.zeros(parts, dtype=mass.dtype, device=mass.device).index_add_(0, labels, mass)
    centres = torch.zeros((parts, points.shape[1]), dtype=mass.dtype, device=mass.device)
    centres = centres.index_add_(0, labels, points * mass[:, None]) / weight[:, None]
    root = weight.sqrt()[:, None]
    spread = (centres - (centres * weight[:, None]).sum(0) / weight.sum()) * root
    left = torch.linalg.svd(spread, full_matrices=False)[0][:, : count - 1]  # orthogonal to root: spread^T root = 0
    return torch.cat([torch.ones_like(root), left / root * weight.sum().sqrt()], 1)[labels]


def fit_by_network(
    clouds: Sequence[Tensor],
    count: int,
    neighbours: int,
    seed: int,
    *,
    hidden: tuple[int, ...],
    steps: int,
    rate: float,
    flags: dict[str, Any] | None,
) -> Fitted:
    """Train on the subsets ``clouds`` (the first is the one the result is defined on)."""
    from .. import networks
    from ..networks.mlp import MLPConfig
    from ..probes.objective import Objective
    from ..training.data import ManifoldData, Pool
    from ..training.module import Optimisation, SpectralModule
    from ..training.runs import RunSettings, train

    device, smoothers = clouds[0].device, [smoother_of(points, neighbours) for points in clouds]
    smoother, generator = smoothers[0], torch.Generator().manual_seed(seed)
    assert smoother.mass is not None
    scaling = ContextFeatures.of(clouds[0], smoother)
    averaged = [scaling.averages(points, each) for points, each in zip(clouds, smoothers)]
    pool = [_sampling(scaling.scale(x), each, generator) for x, each in zip(averaged, smoothers)]
    sizes = MLPConfig(inputs=scaling.width, hidden=tuple(hidden), outputs=count, activation="gelu")
    network = networks.from_config(sizes, generator)
    schedule = Optimisation(steps=steps, rate=rate, warmup=max(1, min(10, steps // 10)))
    module = SpectralModule(network, Objective("expected", "euclidean", relative=True), schedule, seed=seed)
    train(module, ManifoldData(Pool(pool, seed), None, steps), RunSettings(device=str(device), flags=dict(flags or {})))
    network = network.to(device).double().eval().requires_grad_(False)
    identity = torch.eye(count, dtype=torch.float64, device=device)
    # The averages are values like any others: their extension is an average over fitted neighbours, undivided.
    context = NeighbourhoodExtension.of(smoother, averaged[0], torch.ones(averaged[0].shape[1], device=device))
    function = NetworkFunction(network, scaling, context, identity)
    outputs = function.outputs(scaling.scale(averaged[0]))
    try:
        rotation = rotate(Span(outputs * smoother.mass.double().sqrt()[:, None]), smoother, count)
    except RankError as error:
        message = f"the network's {count} outputs are not independent: raise max_iter or lower n_components"
        raise InputError(message) from error
    function.matrix = rotation.matrix
    info = {"solver": "network", "steps": steps, "subsets": len(clouds)}
    return Fitted(outputs @ function.matrix, 1 - rotation.gaps, smoother.mass, smoother, function, info)


@dataclass(frozen=True)
class ContextFeatures:
    """Principal coordinates averaged over the cloud at several scales, each scale rotated and scaled."""

    mean: Tensor  # (d,)
    principal: Tensor  # (d, p)
    maps: list[tuple[Tensor, Tensor]]  # centre (p,) and scaling (p, p') of every scale

    @classmethod
    def of(cls, points: Tensor, smoother: Smoother) -> ContextFeatures:
        mean, principal = _principal(points.double(), PRINCIPAL)
        bare = cls(mean, principal, [])
        parts = bare.averages(points, smoother).split(principal.shape[1], 1)
        return cls(mean, principal, [_principal(part, part.shape[1]) for part in parts])

    @property
    def width(self) -> int:
        return sum(scaling.shape[1] for _, scaling in self.maps)

    def averages(self, points: Tensor, smoother: Smoother) -> Tensor:
        """``P^s x`` for all scales, side by side: ``(n, p len(CONTEXT))`` float64."""
        assert smoother.mass is not None
        root = smoother.mass.double().sqrt()[:, None]
        x, done, parts = ((points.double() - self.mean) @ self.principal) * root, 0, []
        for steps in CONTEXT:
            x, done = smoother.power(x.to(smoother.dtype), steps - done).double(), steps
            parts.append(x / root)
        return torch.cat(parts, 1)

    def scale(self, averages: Tensor) -> Tensor:
        """What the network sees ``(m, width)``."""
        parts = averages.split(self.principal.shape[1], 1)
        return torch.cat([(part - centre) @ scaling for part, (centre, scaling) in zip(parts, self.maps)], 1)


def _principal(x: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Mean and principal directions, over the root of their deviation: leading ones stay larger, others audible."""
    mean = x.mean(0)
    values, directions = torch.linalg.eigh((x - mean).mT @ (x - mean) / len(x))
    deviation, directions = values.flip(0)[:width].clamp_min(0).sqrt(), directions.flip(1)[:, :width]
    kept = deviation > 1e-3 * deviation[0]  # constant columns have no direction
    deviation, directions = deviation[kept], directions[:, kept]
    return mean, directions / (deviation * deviation.mean()).sqrt()


def _sampling(features: Tensor, smoother: Smoother, generator: torch.Generator) -> Any:
    from ..probes.covariance import DENSE_LIMIT, Covariance, DenseCovariance
    from ..training.batch import Batch
    from ..training.data import Sampling

    assert smoother.mass is not None
    covariance: Any
    if smoother.n <= (DENSE_LIMIT if smoother.device.type == "cuda" else DENSE_ROWS):
        power, at = smoother.matrix.to_dense().float(), 1
        total = torch.zeros_like(power)
        while at < max(SCALES):  # the scales are powers of two: squaring reaches each
            power, at = power @ power, 2 * at
            if at in SCALES:
                total += power / power.trace() / len(SCALES)
        covariance = DenseCovariance(total)
    else:
        covariance = Covariance(smoother, scales=SCALES, generator=generator)
    local = features.float()
    batch = Batch(local.unsqueeze(0), smoother.mass.float().sqrt().unsqueeze(0), covariance=covariance)
    return Sampling(local, smoother, batch)
