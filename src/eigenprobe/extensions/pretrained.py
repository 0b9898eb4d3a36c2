"""A cloud as a shipped model remembers it: the functions it predicts, at points beside the cloud's.

    z(x) = [raw(x; context) + a(x), p(x), g(x)]

`raw` attends to the frozen context only. What comes from diffusion (inputs, diffused seeds `p`,
guards `g`) and `a`, which mixed seeds and polishing added to the columns, is known at the context's
points and extended to `x` by its kernel.  So a row depends on its own point alone, but for the
rounding of single precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..networks.spectral import GUARDS, PLACED, SpectralNetwork, guards, inputs, place, place_inputs
from ..smoothers import Smoother
from .kernel import KernelExtension

CHUNK = 4096  # rows at once


@dataclass
class CloudMemory:
    """A cloud as the network remembers it, to be asked about other points."""

    network: SpectralNetwork
    pose: Tensor  # (4, 3)
    # diffused inputs, seeds, what mixing and polishing added to the raw columns, guards
    fields: KernelExtension
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
        values = torch.cat(
            [seen.features[0, :, PLACED:], seeds, added, guards(points[None], smoother, seen)[0]],
            -1,
        )
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
