r"""Prediction with a trained network: columns of one cloud or of a batch, and their values at new points.

    z(x) = raw(x; context) + p(x) (I + W),       v(x) = [1, z(x), p(x), g(x)] T + r(x)

`raw` attends to the frozen context only. What comes from diffusion (inputs, diffused seeds `p`, guards `g`) is known at
the context's points and extended to `x` by its kernel; `T` maps columns to vectors; `r` is what refinement added at
the context's points, extended likewise. So a row depends on its own point alone, and is the fitted value at a fitted
point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..cloud import LARGEST, SMALLEST, Frame
from ..errors import InputError
from ..extensions import KernelExtension
from ..graph import Graph
from ..graph.dimension import cloud_dimensions
from ..networks.diffusion import batch_graph, diffusion
from ..networks.spectral import GUARDS, Inputs, SpectralNetwork, guards, inputs, place, place_inputs
from ..smoothers import Smoother
from .store import fingerprint, load_network

PLACED = 15  # inputs that are functions of the place alone
CHUNK = 4096  # rows at once
BATCH_POINTS = 131_072  # points that go through the network together
LOCAL = 16  # neighbours that tell a surface from a solid


@dataclass(frozen=True)
class Surfaces:
    """Surfaces of one size in their frames, and the smoother that the network looks through."""

    given: Tensor  # (b, n, 3)
    points: Tensor  # the same in their frames, float32
    frames: list[Frame]
    graph: Graph
    smoother: Smoother

    @classmethod
    def of(cls, x: Tensor) -> tuple[Surfaces | None, list[bool]]:
        """The batch of those clouds of `(b, n, 3)` that are surfaces of distinct points, and which these are."""
        centre = x.mean(1, keepdim=True)
        scale = (x - centre).norm(dim=-1).amax(-1)
        points = ((x - centre) / scale[:, None, None]).float()
        graph = batch_graph(points, min(LOCAL, x.shape[1] - 1))
        plain = _plain(graph, scale)
        if not all(plain):
            return cls.of(x[torch.tensor(plain, device=x.device)])[0] if any(plain) else None, plain
        frames = [Frame(c, s) for c, s in zip(centre[:, 0], scale.tolist(), strict=True)]
        return cls(x, points, frames, graph, diffusion(graph)), plain


def packed(stacks: list[Tensor]) -> Iterator[list[Tensor]]:
    """Batches cut and put together so that, with padding, at most `BATCH_POINTS` go through the network at once."""
    pack: list[Tensor] = []
    for x in stacks:
        for part in x.split(max(1, BATCH_POINTS // x.shape[1])):
            rows = max(each.shape[1] for each in [*pack, part]) * sum(len(each) for each in [*pack, part])
            if pack and rows > BATCH_POINTS:
                yield pack
                pack = []
            pack = [*pack, part]
    if pack:
        yield pack


def _plain(graph: Graph, scale: Tensor) -> list[bool]:
    """Which clouds of a batch are surfaces of distinct points."""
    apart = graph.distances[:, 0].view(len(scale), -1).amin(-1) > 0
    sound = apart & (scale > SMALLEST) & (scale < LARGEST)
    return [ok and dimension == 2 for ok, dimension in zip(sound.tolist(), cloud_dimensions(graph), strict=True)]


@torch.no_grad()
def predict(network: SpectralNetwork, batches: Sequence[tuple[Tensor, Smoother]]) -> list[tuple[Tensor, Inputs]]:
    """Columns `Z (b, n, K - 1)` of batches `(b, n, 3)`, and what the network saw; in bfloat16 on CUDA.

    Clouds of different sizes, each size a batch with its smoother, go through the network together: they are padded.
    """
    seen = [inputs(points, smoother) for points, smoother in batches]
    sizes = [each.features.shape[1] for each in seen]
    most = max(sizes)
    features = torch.cat([pad(each.features, (0, 0, 0, most - n)) for each, n in zip(seen, sizes, strict=True)])
    every = replace(seen[0], features=features, gram=torch.cat([each.gram for each in seen]))
    counts = torch.tensor([n for each, n in zip(seen, sizes, strict=True) for _ in each.features])
    mask = None if min(sizes) == most else (torch.arange(most) < counts[:, None]).to(features.device)
    with torch.autocast(features.device.type, torch.bfloat16, enabled=features.is_cuda):
        found = network.raw(every, mask)
    parts = zip(*(part.split([len(each.features) for each in seen]) for part in found), strict=True)
    return [
        (network.finish(raw[:, :n], mixing, each, smoother), each)
        for (raw, mixing), each, n, (_, smoother) in zip(parts, seen, sizes, batches, strict=True)
    ]


@dataclass
class CloudMemory:
    """A cloud as the network remembers it, to be asked about other points."""

    network: SpectralNetwork
    pose: Tensor  # (4, 3)
    fields: KernelExtension  # diffused inputs, seeds, what polishing added, guards
    mixing: Tensor  # (49, K - 1), identity included
    bias: Tensor  # (1, 1, width)
    memory: list[tuple[Tensor, Tensor]]

    @classmethod
    @torch.no_grad()
    def of(cls, network: SpectralNetwork, points: Tensor, smoother: Smoother) -> CloudMemory:
        """The memory of one cloud `(n, 3)` and its smoother of a batch of one."""
        seen = inputs(points[None], smoother)
        raw, mixing = network.raw(seen)
        polished, seeds = network.finish(raw, mixing, seen, smoother)[0], seen.seeds[0]
        mixing = mixing[0] + torch.eye(*mixing.shape[1:], device=mixing.device)
        added = polished - (raw[0].float() + seeds @ mixing)
        values = torch.cat([seen.features[0, :, PLACED:], seeds, added, guards(points[None], smoother, seen)[0]], -1)
        bias = network.bias(network.shape(seen.gram))[:, None]
        memory = network.transformer.context(seen.features[0], bias)
        return cls(network, seen.pose[0], KernelExtension(points, values), mixing, bias, memory)

    @torch.no_grad()
    def __call__(self, points: Tensor) -> Tensor:
        """Columns, seeds and guards `(m, K - 1 + 49 + 49)` at points `(m, 3)`, each on its own."""
        return torch.cat([self._rows(part) for part in points.split(CHUNK)])

    def _rows(self, points: Tensor) -> Tensor:
        values = self.fields(points)
        width = values.shape[1] - self.mixing.shape[0] - self.mixing.shape[1] - GUARDS
        diffused, seeds, added, further = values.split([width, *self.mixing.shape, GUARDS], -1)
        features = torch.cat([*place_inputs(place(points[None], self.pose[None])[0]), diffused], -1)
        raw = self.network.transformer.query(features, self.memory, self.bias)
        return torch.cat([raw + seeds @ self.mixing + added, seeds, further], -1)


class ModelExtension:
    """Values of an encoded basis at new points; saved by the name and the fingerprint of its model, not its weights."""

    kind = "pretrained"

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

    def facts(self) -> dict[str, Any]:
        return {"model": self.name, "fingerprint": fingerprint(self.network)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> ModelExtension:
        network, _ = load_network(facts["model"], online=False)  # a file must not decide what is downloaded
        if fingerprint(network) != facts["fingerprint"]:
            raise InputError(f"expected the weights this basis was made with, got others under {facts['model']!r}")
        frame = Frame(tensors["frame"][:3], float(tensors["frame"][3]))
        network = network.eval().requires_grad_(False)
        return cls(network, facts["model"], tensors["points"], frame, tensors["matrix"], tensors.get("residual"))
