"""The vectors of an embedding: leading eigenvectors of the neighbourhood smoother in closed form,
or those of a network that is trained to reconstruct its probes.

    cloud -> neighbourhood smoother A -> span (n, K) with the constant first -> Basis with values at
    new points

    f_s = P^s x,   P = D^-1/2 A D^1/2 (averaging),   x: principal coordinates,   s in (4, 16, 64)
    v(x) = network([f_4, f_16, f_64](x)) T           T (K, K): orthonormalisation and Ritz rotation

A pointwise network of context features f is trained on the expected reconstruction loss of the
smoother's probes, and ends with a Ritz rotation in its K outputs. Context features are averages
over the neighbourhood of a point in the fitted cloud at several scales, which is attention to a
frozen context with known weights. At a new point they are averages over its fitted neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..basis import Basis
from ..cloud.cloud import CloudGraph
from ..eigen import basis_of, rotate, solve
from ..errors import InputError, RankError
from ..extensions import ContextExtension, NeighbourhoodExtension, outputs
from ..host.files import Facts
from ..networks import MLPConfig, Network, from_config
from ..smoothers import Smoother

TOLERANCE = 1e-5  # residual: the precision of a coordinate is that of its float32 points
CONTEXT = (4, 16, 64)  # steps of averaging, of features and of probes
PRINCIPAL = 32  # principal coordinates that are averaged
# on a processor, rows up to which an n x n covariance costs less than 64 sparse products per step
DENSE_ROWS = 2500


def fit_direct(cloud: CloudGraph, smoother: Smoother, count: int, seed: int) -> Basis:
    """``count`` leading vectors in closed form."""
    generator = torch.Generator().manual_seed(seed)
    pairs = solve(smoother, count, tol=TOLERANCE, generator=generator)
    found = rotate(pairs.vectors, smoother, count, gaps=pairs.gaps)
    extension = NeighbourhoodExtension.of(cloud, smoother, found.vectors, 1 - found.gaps)
    info = facts(cloud, smoother) | {"solver": pairs.solver, "residual": pairs.residual}
    return basis_of(found, smoother, cloud, extension=extension, info=info)


def facts(cloud: CloudGraph, smoother: Smoother) -> Facts:
    """Separate parts, and the time of a step in the caller's units: mu = 1 - eigenvalue *
    step_time."""
    time = float(smoother.step_time) * cloud.frame.scale**2
    return {"components": smoother.components[0], "step_time": time}


class Training(NamedTuple):
    """The network of an embedding and its training; ``flags`` are those of Lightning's Trainer."""

    hidden: Sequence[int]
    steps: int
    rate: float
    flags: dict[str, Any]


def fit_by_network(
    cloud: CloudGraph, smoother: Smoother, count: int, seed: int, training: Training
) -> Basis:
    """``count`` vectors of a cloud by a network that is trained on it."""
    features, root = context_features(smoother), smoother.mass.double().sqrt()
    network = _train(features, smoother, count, seed, training).to(smoother.device).double()
    # Features are values like any others: their extension is an average over fitted neighbours,
    # undivided.
    extended = NeighbourhoodExtension.of(cloud, smoother, features, torch.ones_like(features[0]))
    try:
        columns = outputs(network, features) * root[:, None]
        found = rotate(columns, smoother, count)
    except RankError as error:
        message = f"the network's {count} outputs are not independent"
        raise InputError(f"{message}: raise max_iter or lower n_components") from error
    matrix = torch.linalg.lstsq(columns, found.q).solution.contiguous()
    extension = ContextExtension(network, extended, matrix)
    info = facts(cloud, smoother) | {"steps": training.steps}
    return basis_of(found, smoother, cloud, extension=extension, info=info)


def context_features(smoother: Smoother) -> Tensor:
    """Features ``(n, width)`` float64 of the points of a smoother: principal coordinates of
    ``P^s x`` for every scale s."""
    root = smoother.mass.double().sqrt()[:, None]
    x, done, parts = _principal(smoother.known_graph.points.double(), PRINCIPAL) * root, 0, []
    for steps in CONTEXT:
        x, done = smoother.power(x.to(smoother.dtype), steps - done).double(), steps
        parts.append(_principal(x / root, PRINCIPAL))
    return torch.cat(parts, 1)


def _principal(x: Tensor, width: int) -> Tensor:
    """Principal coordinates, over the root of their deviation: leading ones stay larger, others
    matter.
    """
    x = x - x.mean(0)
    values, directions = torch.linalg.eigh(x.mT @ x / len(x))
    deviation = values.flip(0)[:width].clamp_min(0).sqrt()
    kept = deviation > 1e-3 * deviation[0]  # constant columns have no direction
    scale = (deviation[kept] * deviation[kept].mean()).sqrt()
    return x @ directions.flip(1)[:, :width][:, kept] / scale


def _train(
    features: Tensor, smoother: Smoother, count: int, seed: int, training: Training
) -> Network:
    """A network ``(width) -> (count)`` trained on the probes of the smoother."""
    from ..probes.covariance import DENSE_LIMIT, Covariance
    from ..probes.objective import Objective
    from ..training.data import Batch, ManifoldData, Pool
    from ..training.module import Optimisation, SpectralModule
    from ..training.runs import RunSettings, train

    generator = torch.Generator().manual_seed(seed)
    covariance: Any = Covariance(smoother, CONTEXT, generator)
    if smoother.n <= (DENSE_LIMIT if smoother.device.type == "cuda" else DENSE_ROWS):
        covariance = covariance.dense()
    local, root = features.float(), smoother.mass.double().sqrt().float()
    cloud = Batch(local.unsqueeze(0), root.unsqueeze(0), covariance=covariance)
    sizes = MLPConfig(
        inputs=features.shape[1], hidden=tuple(training.hidden), outputs=count, activation="gelu"
    )
    network = from_config(sizes, generator)
    warmup = max(1, min(10, training.steps // 10))
    schedule = Optimisation(training.steps, rate=training.rate, warmup=warmup)
    module = SpectralModule(
        network, Objective("expected", "euclidean", relative=True), schedule, seed=seed
    )
    settings = RunSettings(device=str(smoother.device), flags=training.flags)
    train(module, ManifoldData(Pool([cloud], seed), steps=training.steps), settings)
    return network
