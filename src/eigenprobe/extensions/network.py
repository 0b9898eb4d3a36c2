"""A fitted network as a function: values of the basis at new points.

    v(x) = [1, phi_2(x), ..., phi_K(x)] T           mass known: T is R^-1 and the Ritz rotation
    v(x) = q(x) / q_1(x),   q(x) = phi(x) R^-1      mass learned as q_1^2 (`row`)

phi attends to the frozen context only, so a row depends on its own point alone and is the fitted
value at a fitted point.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch
from torch import Tensor

from .. import networks
from ..basis import Basis, extension
from ..cloud import Frame
from ..errors import InputError
from ..host.files import Facts
from ..host.weights import with_weights

CHUNK = 2048  # rows at once: bounds the memory, changes no value


@extension
class NetworkExtension:
    """Network, context cloud and the K x K matrix ``T``; saved with its basis as plain tensors."""

    kind: ClassVar[str] = "network"

    def __init__(
        self,
        network: networks.Network,
        frame: Frame,
        context: Tensor,
        learned_mass: bool = False,
        matrix: Tensor | None = None,
    ) -> None:
        """``matrix`` is the identity where it is not given: the function is then that of the
        features.
        """
        # In float64, since T may be ill-conditioned and rows must not depend on how their batch was
        # cut.
        self.network = copy.deepcopy(network).eval().requires_grad_(False).double()
        self.frame, self.context, self.learned_mass = frame, context, learned_mass
        identity = torch.eye(network.config.outputs, dtype=torch.float64, device=context.device)
        self.matrix = identity if matrix is None else matrix
        self._memory: Any = None

    def rotated(self, matrix: Tensor) -> NetworkExtension:
        """The same network with another matrix."""
        other = copy.copy(self)
        other.matrix = matrix.contiguous()
        return other

    @torch.no_grad()
    def features(self, points: Tensor) -> Tensor:
        """Network features ``phi`` at points of the user's coordinates: ``(m, d) -> (m, K)``
        float64.
        """
        device = self.matrix.device
        if self._memory is None:
            self._memory = self.network.context(self.context.to(device, torch.float64))
        local = self.frame(points.to(device), torch.float64)
        values = torch.cat([self.network.query(x, self._memory) for x in local.split(CHUNK)])
        if not self.learned_mass:
            values[:, 0] = 1.0  # the constant is known exactly where the mass is
        return values

    def __call__(self, points: Tensor) -> Tensor:
        """Values of the vectors ``V`` at new points: ``(m, d) -> (m, K)`` on the points' device."""
        values = self.features(points) @ self.matrix
        if self.learned_mass:
            values = values / values[:, :1]
        return values.to(points.device)

    def tensors(self) -> dict[str, Tensor]:
        """Everything needed to rebuild it."""
        others = {"context": self.context, "matrix": self.matrix, "centre": self.frame.centre}
        return weights_of(self.network) | others

    def facts(self) -> Facts:
        """JSON-able settings beside the tensors."""
        frame = {"radius": self.frame.scale, "unit": self.frame.unit}
        return {"network": self.network.describe(), **frame, "learned_mass": self.learned_mass}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: Facts) -> NetworkExtension:
        """The inverse of `tensors` and `facts`."""
        frame = Frame(tensors["centre"], facts["radius"], facts["unit"])
        network = saved_network(tensors, facts)
        return cls(network, frame, tensors["context"], facts["learned_mass"], tensors["matrix"])


def fitted_network(basis: Basis) -> NetworkExtension:
    """The function that a basis is, where a network was fitted; an error of other bases."""
    if not isinstance(basis.extension, NetworkExtension):
        raise InputError(
            f"expected a basis of a fitted network, got one of method {basis.info.get('method')!r}"
        )
    return basis.extension


def weights_of(network: networks.Network) -> dict[str, Tensor]:
    """The weights as tensors of a file, their names after ``network.``; `saved_network` is the
    inverse.
    """
    return {f"network.{name}": value.float() for name, value in network.state_dict().items()}


def saved_network(tensors: dict[str, Tensor], facts: Facts) -> networks.Network:
    weights = beginning_with("network.", tensors)
    return with_weights(lambda: networks.described(facts["network"]), weights, "the saved network")


def beginning_with(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those of the tensors whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
    }
