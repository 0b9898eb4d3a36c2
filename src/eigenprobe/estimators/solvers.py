"""The two ways to the vectors of an embedding: closed form, and a network.

    Fitted: V (n, K + 1) with the constant first, mu (K + 1,), mass (n,), and v(x) at new points

`direct` takes the leading eigenvectors of the neighbourhood smoother. `network` trains a pointwise network on the
expected reconstruction loss of that smoother's probes, on one cloud or on random subsets of it, and ends with a Ritz rotation
in its K + 1 features. Both are values of the same functions, so everything after them is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..basis import canonical_signs
from ..errors import InputError
from ..graph import build_graph
from ..neighbourhood import NeighbourhoodExtension, neighbourhood_smoother
from ..smoothing import Smoother
from .frame import PrincipalInputs

SCALES = (4, 16, 64)  # steps of the probes, each scale with the same energy
INPUTS = 64  # principal coordinates the network sees
CHUNK = 1 << 14


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

    def __init__(self, network: Any, inputs: PrincipalInputs, matrix: Tensor, masses: NeighbourhoodExtension) -> None:
        self.network, self.inputs, self.matrix, self.masses = network, inputs, matrix, masses

    @torch.no_grad()
    def features(self, points: Tensor) -> Tensor:
        device = self.inputs.mean.device
        rows = [self.network(self.inputs(part.to(device))) for part in points.split(CHUNK)]
        values = torch.cat(rows).double()
        values[:, 0] = 1.0  # the constant is known
        return values

    def __call__(self, points: Tensor) -> Tensor:
        return self.features(points) @ self.matrix

    def with_mass(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors and the mass interpolated between fitted points."""
        return self(points), self.masses.with_mass(points)[1]


def smoother_of(points: Tensor, neighbours: int) -> Smoother:
    """The neighbourhood smoother of points ``(n, d)``."""
    return neighbourhood_smoother(build_graph(points, min(neighbours, len(points) - 1)))


def fit_direct(points: Tensor, count: int, neighbours: int, seed: int) -> Fitted:
    """``count`` leading vectors in closed form."""
    from ..direct import solve

    smoother = smoother_of(points, neighbours)
    # The precision of a coordinate is that of its float32 points: a tighter residual would buy nothing.
    q, mu = solve(smoother, count, tol=1e-5, generator=torch.Generator().manual_seed(seed))
    assert smoother.mass is not None
    vectors = q.double() / smoother.mass.double().sqrt()[:, None]
    mu = mu.to(vectors)
    vectors = vectors * _signs(vectors, smoother.mass)
    return Fitted(
        vectors, mu, smoother.mass, smoother, NeighbourhoodExtension.of(smoother, vectors, mu), {"solver": "direct"}
    )


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
    from ..networks.mlp import MLP, MLPConfig
    from ..objective import Objective, nested_basis
    from ..training.data import ManifoldData, Pool
    from ..training.module import Optimisation, SpectralModule
    from ..training.runs import RunSettings, train

    device = clouds[0].device
    inputs = PrincipalInputs.of(torch.cat(list(clouds)), INPUTS)
    smoothers = [smoother_of(points, neighbours) for points in clouds]
    generator = torch.Generator().manual_seed(seed)
    config = MLPConfig(inputs=inputs.map.shape[1], hidden=tuple(hidden), outputs=count, activation="gelu")
    network = networks.from_config(config, generator)
    assert isinstance(network, MLP)
    objective = Objective("expected", "euclidean", relative=True)
    pool = [_sampling(points, smoother, inputs, generator) for points, smoother in zip(clouds, smoothers)]
    module = SpectralModule(
        network, objective, Optimisation(steps=steps, rate=rate, warmup=max(1, min(20, steps // 10))), seed=seed
    )
    settings = RunSettings(device=str(device), flags=dict(flags or {}))
    train(module, ManifoldData(Pool(pool, seed), None, steps), settings)
    network = network.to(device).double().eval().requires_grad_(False)
    smoother = smoothers[0]
    assert smoother.mass is not None
    root = smoother.mass.double().sqrt()
    identity = torch.eye(count, dtype=torch.float64, device=device)
    masses = NeighbourhoodExtension.of(
        smoother, torch.ones((smoother.n, 1), dtype=torch.float64, device=device), identity[0, :1]
    )
    function = NetworkFunction(network, inputs, identity, masses)
    q, factor = nested_basis(function.features(clouds[0]) * root[:, None])
    if not bool(q.isfinite().all()):
        raise InputError(f"the network's {count} features are not independent: raise max_iter or lower n_components")
    small = q.mT @ smoother.apply(q.to(smoother.dtype)).double()
    mu, rotation = torch.linalg.eigh((small + small.mT) / 2)
    mu, rotation = mu.flip(0), rotation.flip(1)
    matrix = torch.linalg.solve_triangular(factor.mT, identity, upper=True) @ rotation
    function.matrix = matrix
    function.matrix = matrix * _signs(function(clouds[0]), smoother.mass)
    info = {"solver": "network", "steps": steps, "subsets": len(clouds)}
    return Fitted(function(clouds[0]), mu, smoother.mass, smoother, function, info)


def _sampling(points: Tensor, smoother: Smoother, inputs: PrincipalInputs, generator: torch.Generator) -> Any:
    from ..covariance import DENSE_LIMIT, Covariance
    from ..training.batch import Batch
    from ..training.data import Sampling

    assert smoother.mass is not None
    local = inputs(points).float()
    covariance: Any = Covariance(smoother, scales=SCALES, generator=generator)
    covariance = covariance.dense() if smoother.n <= DENSE_LIMIT else covariance
    batch = Batch(local.unsqueeze(0), smoother.mass.float().sqrt().unsqueeze(0), covariance=covariance)
    return Sampling(local, smoother, batch)


def _signs(vectors: Tensor, mass: Tensor) -> Tensor:
    signs = canonical_signs(vectors, mass.to(vectors))
    signs[0] = torch.where(vectors[:, 0].sum() < 0, -1.0, 1.0)
    return signs
