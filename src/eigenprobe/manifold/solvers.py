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

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..basis import Basis
from ..cloud.cloud import CloudGraph
from ..eigen import basis_of, rotate, solve
from ..extensions import NeighbourhoodExtension, NetworkExtension
from ..neighbors.candidates import principal_directions
from ..networks import MLPConfig, Network, from_config
from ..smoothers import Smoother

if TYPE_CHECKING:
    from .eigenmaps import Eigenmaps

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
    info = {"solver": pairs.solver, "residual": pairs.residual}
    return basis_of(found, smoother, cloud, extension=extension, info=info)


def fit_by_network(
    cloud: CloudGraph, smoother: Smoother, count: int, seed: int, model: Eigenmaps
) -> Basis:
    """``count`` vectors of a cloud by a network that is trained on it as the model says."""
    from ..training.fit import network_basis

    features = context_features(smoother)
    network = _train(features, smoother, count, seed, model).to(smoother.device)
    # Features are values like any others: their extension is an average over fitted neighbours,
    # undivided.
    inputs = NeighbourhoodExtension.of(cloud, smoother, features, torch.ones_like(features[0]))
    return network_basis(NetworkExtension(network, inputs, features[:0]), cloud, smoother)


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
    mean, directions = principal_directions(x, width)
    x = (x - mean) @ directions
    deviation = x.square().mean(0).sqrt()
    kept = deviation > 1e-3 * deviation.max()  # constant columns have no direction
    return (x / (deviation * deviation[kept].mean()).sqrt())[:, kept]


def _train(
    features: Tensor, smoother: Smoother, count: int, seed: int, model: Eigenmaps
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
    hidden, steps = tuple(model.hidden_layer_sizes), model.max_iter
    network = from_config(MLPConfig(features.shape[1], hidden, count, "gelu"), generator)
    warmup = max(1, min(10, steps // 10))
    schedule = Optimisation(steps, rate=model.learning_rate, warmup=warmup)
    module = SpectralModule(
        network, Objective("expected", "euclidean", relative=True), schedule, seed=seed
    )
    settings = RunSettings(device=str(smoother.device), flags=dict(model.trainer or {}))
    train(module, ManifoldData(Pool([cloud], seed), steps=steps), settings)
    return network
