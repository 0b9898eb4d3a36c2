"""A network of an embedding: trained to reconstruct the probes of the neighbourhood smoother.

    f_s = P^s x,   P = D^-1/2 A D^1/2 (averaging),   x: principal coordinates,   s in (4, 16, 64)
    v(x) = network([f_4, f_16, f_64](x)) T           T (K, K): orthonormalisation and Ritz rotation

A pointwise network of context features f is trained on the expected reconstruction loss of the
smoother's probes, on one cloud or on random subsets of it, and ends with a Ritz rotation in its K
outputs. Context features are averages over the neighbourhood of a point in the fitted cloud at
several scales, which is attention to a frozen context with known weights. At a new point they are
averages over its fitted neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..basis import Basis
from ..cloud.arranged import Arranged
from ..eigen import basis_of, rotate
from ..errors import InputError, RankError
from ..extensions import ContextExtension, NeighbourhoodExtension, outputs
from ..networks import MLPConfig, Network, from_config
from ..smoothers import Smoother, neighbourhood_smoother
from .solvers import facts

CONTEXT = (4, 16, 64)  # steps of averaging, of features and of probes
PRINCIPAL = 32  # principal coordinates that are averaged
# on a processor, rows up to which an n x n covariance costs less than 64 sparse products per step
DENSE_ROWS = 2500


class Training(NamedTuple):
    """The network of an embedding and its training; ``flags`` are those of Lightning's Trainer."""

    hidden: Sequence[int]
    steps: int
    rate: float
    flags: dict[str, Any]


def fit_by_network(clouds: Sequence[Arranged], count: int, seed: int, training: Training) -> Basis:
    """Train on the subsets ``clouds`` (the first is the one the result is defined on)."""
    cloud, smoothers = clouds[0], [neighbourhood_smoother(each.graph) for each in clouds]
    smoother = smoothers[0]
    features = context_features(smoothers)
    network = _train(features, smoothers, count, seed, training).to(smoother.device).double()
    # Features are values like any others: their extension is an average over fitted neighbours,
    # undivided.
    extended = NeighbourhoodExtension.of(
        cloud, smoother, features[0], torch.ones_like(features[0][0])
    )
    try:
        columns = outputs(network, features[0]) * root_mass(smoother)[:, None]
        found = rotate(columns, smoother, count)
    except RankError as error:
        message = f"the network's {count} outputs are not independent"
        raise InputError(f"{message}: raise max_iter or lower n_components") from error
    matrix = torch.linalg.lstsq(columns, found.q).solution.contiguous()
    extension = ContextExtension(network, extended, matrix)
    info = facts(cloud, smoother) | {"steps": training.steps, "subsets": len(clouds)}
    return basis_of(found, smoother, cloud, extension=extension, info=info)


def context_features(smoothers: Sequence[Smoother]) -> list[Tensor]:
    """Features ``(n, width)`` float64 of the points of every smoother; directions and scales are
    those of the first.
    """
    mean, principal = _principal(_points(smoothers[0]), PRINCIPAL)
    clouds = [_averages((_points(each) - mean) @ principal, each) for each in smoothers]
    maps = [_principal(part, part.shape[1]) for part in clouds[0]]
    return [
        torch.cat([(x - m) @ turn for x, (m, turn) in zip(parts, maps, strict=True)], 1)
        for parts in clouds
    ]


def root_mass(smoother: Smoother) -> Tensor:
    """``sqrt(mass) (n,)`` in float64."""
    return smoother.mass.double().sqrt()


def _points(smoother: Smoother) -> Tensor:
    return smoother.known_graph.points.double()


def _averages(x: Tensor, smoother: Smoother) -> list[Tensor]:
    """``P^s x`` for every scale, ``(n, p)`` float64 each."""
    root = root_mass(smoother)[:, None]
    x, done, parts = x * root, 0, []
    for steps in CONTEXT:
        x, done = smoother.power(x.to(smoother.dtype), steps - done).double(), steps
        parts.append(x / root)
    return parts


def _principal(x: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Mean and principal directions, over the root of their deviation: leading ones stay larger,
    others matter.
    """
    mean = x.mean(0)
    values, directions = torch.linalg.eigh((x - mean).mT @ (x - mean) / len(x))
    deviation, directions = (
        values.flip(0)[:width].clamp_min(0).sqrt(),
        directions.flip(1)[:, :width],
    )
    kept = deviation > 1e-3 * deviation[0]  # constant columns have no direction
    deviation, directions = deviation[kept], directions[:, kept]
    return mean, directions / (deviation * deviation.mean()).sqrt()


def _train(
    features: list[Tensor], smoothers: list[Smoother], count: int, seed: int, training: Training
) -> Network:
    """A network ``(width) -> (count)`` trained on the probes of every cloud."""
    from ..probes.objective import Objective
    from ..training.data import ManifoldData, Pool
    from ..training.module import Optimisation, SpectralModule
    from ..training.runs import RunSettings, train

    generator = torch.Generator().manual_seed(seed)
    pool = [_sampling(x, each, generator) for x, each in zip(features, smoothers, strict=True)]
    hidden = tuple(training.hidden)
    sizes = MLPConfig(inputs=features[0].shape[1], hidden=hidden, outputs=count, activation="gelu")
    network = from_config(sizes, generator)
    schedule = Optimisation(
        training.steps, rate=training.rate, warmup=max(1, min(10, training.steps // 10))
    )
    module = SpectralModule(
        network, Objective("expected", "euclidean", relative=True), schedule, seed=seed
    )
    settings = RunSettings(device=str(smoothers[0].device), flags=training.flags)
    train(module, ManifoldData(Pool(pool, seed), steps=training.steps), settings)
    return network


def _sampling(features: Tensor, smoother: Smoother, generator: torch.Generator) -> Any:
    from ..probes.covariance import DENSE_LIMIT, Covariance
    from ..training.data import Batch

    covariance: Any = Covariance(smoother, CONTEXT, generator)
    if smoother.n <= (DENSE_LIMIT if smoother.device.type == "cuda" else DENSE_ROWS):
        covariance = covariance.dense()
    local, root = features.float(), root_mass(smoother).float()
    return Batch(local.unsqueeze(0), root.unsqueeze(0), covariance=covariance)
