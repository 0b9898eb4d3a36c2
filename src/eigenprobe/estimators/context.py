"""What the network of an embedding sees of a point, and the trained network as a function of new points.

    f_s = P^s x,   P = D^-1/2 A D^1/2 (averaging),   x: principal coordinates,   s in (4, 16, 64)
    v(x) = network([f_4, f_16, f_64](x)) T           T (K, K): orthonormalisation and Ritz rotation

These context features are averages over the neighbourhood of a point in the fitted cloud at several scales, which is
attention to a frozen context with known weights. At a new point they are averages over its fitted neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import networks
from ..extensions import NeighbourhoodExtension
from ..smoothers import Smoother

CONTEXT = (4, 16, 64)  # steps of averaging
PRINCIPAL = 32  # principal coordinates that are averaged


def context_features(smoothers: Sequence[Smoother]) -> list[Tensor]:
    """Features ``(n, width)`` float64 of the points of every smoother; directions and scales are those of the first."""
    mean, principal = _principal(_points(smoothers[0]), PRINCIPAL)
    clouds = [_averages((_points(each) - mean) @ principal, each) for each in smoothers]
    maps = [_principal(part, part.shape[1]) for part in clouds[0]]
    return [torch.cat([(x - m) @ turn for x, (m, turn) in zip(parts, maps, strict=True)], 1) for parts in clouds]


def root_mass(smoother: Smoother) -> Tensor:
    """``sqrt(mass) (n,)`` in float64."""
    assert smoother.mass is not None
    return smoother.mass.double().sqrt()


def _points(smoother: Smoother) -> Tensor:
    assert smoother.graph is not None
    return smoother.graph.points.double()


def _averages(x: Tensor, smoother: Smoother) -> list[Tensor]:
    """``P^s x`` for every scale, ``(n, p)`` float64 each."""
    root = root_mass(smoother)[:, None]
    x, done, parts = x * root, 0, []
    for steps in CONTEXT:
        x, done = smoother.power(x.to(smoother.dtype), steps - done).double(), steps
        parts.append(x / root)
    return parts


def _principal(x: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Mean and principal directions, over the root of their deviation: leading ones stay larger, others matter."""
    mean = x.mean(0)
    values, directions = torch.linalg.eigh((x - mean).mT @ (x - mean) / len(x))
    deviation, directions = values.flip(0)[:width].clamp_min(0).sqrt(), directions.flip(1)[:, :width]
    kept = deviation > 1e-3 * deviation[0]  # constant columns have no direction
    deviation, directions = deviation[kept], directions[:, kept]
    return mean, directions / (deviation * deviation.mean()).sqrt()


class ContextExtension:
    """A trained network as a function of points; float64, so that a row does not depend on its batch.

    ``context`` extends the features ``(n, width)`` of the fitted points; ``matrix`` is T.
    """

    kind = "context"

    def __init__(self, network: networks.Network, context: NeighbourhoodExtension, matrix: Tensor) -> None:
        self.network = network.to(matrix.device).double().eval()
        self.context, self.matrix = context, matrix

    def __call__(self, points: Tensor) -> Tensor:
        """Vectors ``(m, K)`` at points ``(m, d)``."""
        return self.with_mass(points)[0]

    def with_mass(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors and the mass interpolated between fitted points."""
        features, mass = self.context.with_mass(points)
        return outputs(self.network, features) @ self.matrix, mass

    def tensors(self) -> dict[str, Tensor]:
        """Everything needed to rebuild it."""
        found = {f"network.{name}": value.float() for name, value in self.network.state_dict().items()}
        found |= {f"context.{name}": value for name, value in self.context.tensors().items()}
        return found | {"matrix": self.matrix}

    def facts(self) -> dict[str, Any]:
        """JSON-able settings beside the tensors."""
        return {"network": self.network.describe(), "context": self.context.facts()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> ContextExtension:
        """The inverse of `tensors` and `facts`."""
        network = networks.described(facts["network"])
        network.load_state_dict(_under("network.", tensors))
        context = NeighbourhoodExtension.from_tensors(_under("context.", tensors), facts["context"])
        return cls(network, context, tensors["matrix"])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


@torch.no_grad()
def outputs(network: networks.Network, features: Tensor) -> Tensor:
    """The network's functions ``(m, K)`` of features ``(m, width)``; the first is the constant, which is known."""
    values = network(features)
    values[:, 0] = 1.0
    return values
