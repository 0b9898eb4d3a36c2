r"""A shipped model as a function of points: what it predicts for one cloud, at new points.

    z(x) = raw(x; context) + a(x),       v(x) = [1, z(x), p(x), g(x)] T + r(x)

`raw` attends to the frozen context only. What comes from diffusion (inputs, diffused seeds `p`, guards `g`) and `a`,
which mixed seeds and polishing added to the columns, is known at the context's points and extended to `x` by its
kernel; `T` maps columns to vectors; `r` is what refinement added at the context's points, extended likewise. So a row
depends on its own point alone, but for the rounding of single precision, and is the fitted value at a fitted point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..basis import extension
from ..cloud import Frame
from ..errors import InputError
from ..host.files import Facts
from ..networks.spectral import GUARDS, PLACED, SpectralNetwork, diffusion, guards, inputs, place, place_inputs
from ..networks.store import fingerprint, load_network
from ..smoothers import Smoother
from .kernel import KernelExtension

CHUNK = 4096  # rows at once


@dataclass
class CloudMemory:
    """A cloud as the network remembers it, to be asked about other points."""

    network: SpectralNetwork
    pose: Tensor  # (4, 3)
    fields: KernelExtension  # diffused inputs, seeds, what mixing and polishing added to the raw columns, guards
    widths: tuple[int, int]  # of seeds and of columns
    bias: Tensor  # (1, 1, width)
    memory: list[tuple[Tensor, Tensor]]

    @classmethod
    @torch.no_grad()
    def of(cls, network: SpectralNetwork, points: Tensor, smoother: Smoother) -> CloudMemory:
        """The memory of one cloud `(n, 3)` and its smoother of a batch of one."""
        seen = inputs(points[None], smoother)
        raw, mixing = network.raw(seen)
        polished, seeds = network.finish(raw, mixing, seen, smoother)[0], seen.seeds[0]
        added = polished - raw[0].float()
        values = torch.cat([seen.features[0, :, PLACED:], seeds, added, guards(points[None], smoother, seen)[0]], -1)
        bias = network.bias(network.shape(seen.gram))[:, None]
        memory = network.transformer.context(seen.features[0], bias)
        widths = (seeds.shape[1], added.shape[1])
        return cls(network, seen.pose[0], KernelExtension(points, values), widths, bias, memory)

    @torch.no_grad()
    def __call__(self, points: Tensor) -> Tensor:
        """Columns, seeds and guards `(m, K - 1 + 49 + 49)` at points `(m, 3)`, each on its own."""
        return torch.cat([self._rows(part) for part in points.split(CHUNK)])

    def _rows(self, points: Tensor) -> Tensor:
        values = self.fields(points)
        width = values.shape[1] - sum(self.widths) - GUARDS
        diffused, seeds, added, further = values.split([width, *self.widths, GUARDS], -1)
        features = torch.cat([*place_inputs(place(points[None], self.pose[None])[0]), diffused], -1)
        raw = self.network.transformer.query(features, self.memory, self.bias)
        return torch.cat([raw + added, seeds, further], -1)


@extension
class ModelExtension:
    """Values of an encoded basis at new points; saved by the name and the fingerprint of its model, not its weights."""

    kind: ClassVar[str] = "pretrained"

    def __init__(
        self, network: SpectralNetwork, name: str, points: Tensor, frame: Frame, matrix: Tensor, residual: Tensor | None
    ) -> None:
        """`points (n, 3)` as the network saw them, float32; `frame` takes the user's points there."""
        self.network, self.name = network, name
        self.points, self.frame, self.matrix, self.residual = points, frame, matrix, residual
        self._memory: CloudMemory | None = None
        self._remainder: KernelExtension | None = None

    def __call__(self, points: Tensor) -> Tensor:
        device = self.points.device
        if self._memory is None:
            self._memory = CloudMemory.of(self.network.to(device), self.points, diffusion(self.points[None]))
            if self.residual is not None:
                self._remainder = KernelExtension(self.points, self.residual)
        x = self.frame(points.to(device), torch.float32)
        z = self._memory(x).double()
        values = torch.cat([torch.ones_like(z[:, :1]), z], 1)[:, : len(self.matrix)] @ self.matrix
        if self._remainder is not None:
            values = values + self._remainder(x).double()
        return values.to(points.device)

    def tensors(self) -> dict[str, Tensor]:
        frame = torch.cat([self.frame.centre, self.frame.centre.new_tensor([self.frame.scale])])
        tensors = {"points": self.points, "frame": frame, "matrix": self.matrix}
        return tensors if self.residual is None else {**tensors, "residual": self.residual}

    def facts(self) -> Facts:
        return {"model": self.name, "fingerprint": fingerprint(self.network)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: Facts) -> ModelExtension:
        network, _ = load_network(facts["model"], online=False)  # a file must not decide what is downloaded
        if fingerprint(network) != facts["fingerprint"]:
            raise InputError(f"expected the weights this basis was made with, got others under {facts['model']!r}")
        frame = Frame(tensors["frame"][:3], float(tensors["frame"][3]))
        network = network.eval().requires_grad_(False)
        return cls(network, facts["model"], tensors["points"], frame, tensors["matrix"], tensors.get("residual"))
