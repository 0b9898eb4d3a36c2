"""A trained network of context features as a function of rows: values of an embedding at new ones.

v(x) = network(f(x)) T           f: features averaged over the fitted neighbours of x,   T (K, K)
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from .. import networks
from ..basis import extension
from ..host.files import Facts
from .neighbourhood import NeighbourhoodExtension
from .network import beginning_with, saved_network, weights_of


@extension
class ContextExtension:
    """A trained network as a function of points; float64, so that a row does not depend on its
    batch.

    ``context`` extends the features ``(n, width)`` of the fitted points; ``matrix`` is T.
    """

    kind: ClassVar[str] = "context"

    def __init__(
        self, network: networks.Network, context: NeighbourhoodExtension, matrix: Tensor
    ) -> None:
        self.network = network.to(matrix.device).double().eval()
        self.context, self.matrix = context, matrix

    def __call__(self, points: Tensor) -> Tensor:
        return self.with_mass(points)[0]

    def with_mass(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors ``(m, K)`` at points ``(m, d)``, and the mass interpolated between fitted
        points.
        """
        features, mass = self.context.with_mass(points)
        return outputs(self.network, features) @ self.matrix, mass

    def tensors(self) -> dict[str, Tensor]:
        context = {f"context.{name}": value for name, value in self.context.tensors().items()}
        return weights_of(self.network) | context | {"matrix": self.matrix}

    def facts(self) -> Facts:
        return {"network": self.network.describe(), "context": self.context.facts()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: Facts) -> ContextExtension:
        context = NeighbourhoodExtension.from_tensors(
            beginning_with("context.", tensors), facts["context"]
        )
        return cls(saved_network(tensors, facts), context, tensors["matrix"])


@torch.no_grad()
def outputs(network: networks.Network, features: Tensor) -> Tensor:
    """The network's functions ``(m, K)`` of features ``(m, width)``; the first is the constant,
    which is known.
    """
    values = network(features)
    values[:, 0] = 1.0
    return values
