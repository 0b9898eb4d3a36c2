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

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..cloud import LARGEST, SMALLEST, Frame
from ..errors import InputError
from ..graph import Graph, Placed
from ..graph.dimension import cloud_dimensions
from ..networks.diffusion import batch_graph, diffusion
from ..networks.spectral import Inputs, SpectralNetwork, inputs
from ..search.layout import Segments, framed
from ..smoothers import Smoother
from ..smoothers.prepared import Prepared

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
        points, frames, scale = framed(x.flatten(0, 1), Segments((x.shape[1],) * len(x), x.device))
        points = points.view_as(x).float()
        graph = batch_graph(points, min(LOCAL, x.shape[1] - 1))
        plain = _plain(graph, scale)
        if not all(plain):
            return cls.of(x[torch.tensor(plain, device=x.device)])[0] if any(plain) else None, plain
        return cls(x, points, frames, graph, diffusion(graph)), plain

    @classmethod
    def operator(cls, x: Tensor) -> Prepared:
        """The operator of one surface ``(n, 3)`` alone."""
        found, _ = cls.of(x[None])
        if found is None:
            raise InputError("expected a surface of distinct points")
        smoother = found.smoother.single()
        return Prepared(Placed(x, found.frames[0]), smoother.to(dtype=torch.float64))


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
    usual = (graph.k / graph.distances.view(len(scale), -1, graph.k).shape[1]) ** 0.5  # neighbourhoods of a unit square
    seen = graph.distances[:, -1].view(len(scale), -1).median(-1).values > 0.01 * usual  # by single precision
    sound = apart & seen & (scale > SMALLEST) & (scale < LARGEST)
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
