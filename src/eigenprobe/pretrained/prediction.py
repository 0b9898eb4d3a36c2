r"""Prediction with a trained network: columns of one cloud or of a batch, and their values at new points.

    z(x) = raw(x; context) + p(x) (I + W),       v(x) = [1, z(x), p(x), g(x)] T + r(x)

`raw` attends to the frozen context only. What comes from diffusion (inputs, crude basis `p`, guards `g`) is known at
the context's points and extended to `x` by its kernel; `T` maps columns to vectors; `r` is what refinement added at
the context's points, extended likewise. So a row depends on its own point alone, and is the fitted value at a fitted
point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..extensions.kernel import KernelExtension
from ..networks.heat import HeatOperator, heat_operator
from ..networks.spectral import GUARDS, Inputs, SpectralNetwork, coordinates, guards, inputs, place

if TYPE_CHECKING:
    from .model import SpectralModel

NEIGHBOURS = 12
PLACED = 15  # inputs that are functions of the place alone
CHUNK = 4096  # rows at once


@torch.no_grad()
def predict(network: SpectralNetwork, points: Tensor, operator: HeatOperator) -> tuple[Tensor, Inputs]:
    """Columns `Z (b, n, K - 1)` of `points (b, n, 3)`, and what the network saw; in bfloat16 on CUDA."""
    seen = inputs(points, operator)
    with torch.autocast(points.device.type, torch.bfloat16, enabled=points.is_cuda):
        raw, mixing = network.raw(seen)
    return network.finish(raw, mixing, seen, operator), seen


@dataclass
class Context:
    """A cloud as the network remembers it, to be asked about other points."""

    network: SpectralNetwork
    pose: Tensor  # (4, 3)
    fields: KernelExtension  # diffused inputs, crude basis, what polishing added, guards
    mixing: Tensor  # (49, K - 1), identity included
    bias: Tensor  # (1, 1, width)
    memory: list[tuple[Tensor, Tensor]]

    @classmethod
    @torch.no_grad()
    def of(cls, network: SpectralNetwork, points: Tensor, operator: HeatOperator) -> Context:
        """The context of one cloud `(n, 3)` and its operator of a batch of one."""
        seen = inputs(points[None], operator)
        raw, mixing = network.raw(seen)
        mixing = mixing[0] + torch.eye(*mixing.shape[1:], device=mixing.device)
        bare = raw[0].float() + seen.crude[0] @ mixing
        polished = network.finish(raw, mixing[None] - torch.eye(*mixing.shape, device=mixing.device), seen, operator)[0]
        further = guards(points[None], operator, seen)[0]
        values = torch.cat([seen.features[0, :, PLACED:], seen.crude[0], polished - bare, further], -1)
        bias = network.bias(network.shape(seen.gram))[:, None]
        transformer = network.transformer
        x, memory = transformer.tokens(seen.features) + bias, []
        for layer in transformer.layers:
            memory.append(layer.memory(x))  # type: ignore[operator]
            x = layer(x, memory[-1])
        return cls(network, seen.pose[0], KernelExtension.fit(points, values), mixing, bias, memory)

    @torch.no_grad()
    def __call__(self, points: Tensor) -> Tensor:
        """Columns, crude basis and guards `(m, K - 1 + 49 + 49)` at points `(m, 3)`, each on its own."""
        return torch.cat([self._rows(part) for part in points.split(CHUNK)])

    def _rows(self, points: Tensor) -> Tensor:
        values = self.fields(points)
        width = values.shape[1] - self.mixing.shape[0] - self.mixing.shape[1] - GUARDS
        diffused, crude, added, further = values.split([width, *self.mixing.shape, GUARDS], -1)
        x = place(points[None], self.pose[None])
        features = torch.cat([*coordinates(x), diffused[None]], -1)
        transformer = self.network.transformer
        x = transformer.tokens(features) + self.bias
        for layer, memory in zip(transformer.layers, self.memory, strict=True):
            x = layer(x, memory)
        return torch.cat([transformer.finish(x)[0] + crude @ self.mixing + added, crude, further], -1)


class ModelExtension:
    """Values of an encoded basis at new points; saved by the name and the fingerprint of its model, not its weights."""

    kind = "pretrained"

    def __init__(
        self, model: SpectralModel, points: Tensor, frame: Tensor, matrix: Tensor, residual: Tensor | None
    ) -> None:
        """`points (n, 3)` as the network saw them, float32; `frame (4,)` is centre and scale of the user's points."""
        self.model, self.points, self.frame, self.matrix, self.residual = model, points, frame, matrix, residual
        self._context: Context | None = None
        self._remainder: KernelExtension | None = None

    def __call__(self, points: Tensor) -> Tensor:
        device = self.points.device
        if self._context is None:
            self._context = Context.of(self.model.network_on(device), self.points, operator_for(self.points))
            if self.residual is not None:
                self._remainder = KernelExtension.fit(self.points, self.residual)
        x = ((points.to(device, torch.float64) - self.frame[:3]) / self.frame[3]).float()
        z = self._context(x).double()
        values = torch.cat([torch.ones_like(z[:, :1]), z], 1)[:, : len(self.matrix)] @ self.matrix
        if self._remainder is not None:
            values = values + self._remainder(x).double()
        return values.to(points.device)

    def tensors(self) -> dict[str, Tensor]:
        tensors = {"points": self.points, "frame": self.frame, "matrix": self.matrix}
        return tensors if self.residual is None else {**tensors, "residual": self.residual}

    def facts(self) -> dict[str, Any]:
        return {"model": self.model.name, "fingerprint": self.model.fingerprint}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> ModelExtension:
        from .model import SpectralModel

        model = SpectralModel.from_pretrained(facts["model"], fingerprint=facts["fingerprint"])
        return cls(model, tensors["points"], tensors["frame"], tensors["matrix"], tensors.get("residual"))


def operator_for(points: Tensor) -> HeatOperator:
    """The network's operator of one cloud `(n, 3)`."""
    return heat_operator(*neighbours(points.float()[None]), dense=False)


def neighbours(points: Tensor) -> tuple[Tensor, Tensor]:
    """Distances and indices `(b, n, 12)`: all at once on a GPU, by trees on a processor."""
    from ..graph.batched import nearest
    from ..graph.neighbours import build_graph

    if points.is_cuda:
        return nearest(points, NEIGHBOURS)
    graphs = [build_graph(x, NEIGHBOURS) for x in points]
    return torch.stack([g.distances for g in graphs]).float(), torch.stack([g.indices for g in graphs])
