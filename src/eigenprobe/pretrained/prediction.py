r"""Prediction with a trained network: columns of one cloud or of a batch, and their values at new points.

    z(x) = raw(x; context) + p(x) (I + W),       v(x) = [1, z(x), p(x), g(x)] T + r(x)

`raw` attends to the frozen context only. What comes from diffusion (inputs, diffused seeds `p`, guards `g`) is known at
the context's points and extended to `x` by its kernel; `T` maps columns to vectors; `r` is what refinement added at
the context's points, extended likewise. So a row depends on its own point alone, and is the fitted value at a fitted
point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..cloud import LARGEST, SMALLEST, Frame
from ..errors import InputError
from ..graph import Graph, Placed
from ..graph.graph import cloud_dimensions
from ..networks.spectral import Inputs, SpectralNetwork, diffusion, inputs, stacked_graph
from ..search.layout import Segments, framed
from ..smoothers import Smoother
from ..smoothers.prepared import Prepared

BATCH_POINTS = 131_072  # points that go through the network together
LOCAL = 30  # neighbours that tell a surface from a solid: of 20 balls of 300 points 20 are solid, with 16 only 3


@dataclass(frozen=True)
class Surfaces:
    """Surfaces of any sizes in their frames, and the smoother that the network looks through."""

    given: Sequence[Tensor]  # (n_i, 3)
    points: Tensor  # (b, n, 3): the same in their frames, float32, padded to the largest
    frames: list[Frame]
    graph: Graph
    smoother: Smoother

    @classmethod
    def of(cls, clouds: Sequence[Tensor]) -> tuple[Surfaces | None, list[bool]]:
        """The batch of those clouds `(n_i, 3)` that are surfaces of distinct points, and which these are."""
        each = Segments(tuple(len(x) for x in clouds), clouds[0].device)
        points, frames, scale = framed(torch.cat(list(clouds)), each)
        graph = stacked_graph(points.float(), each, min(LOCAL, min(each.sizes) - 1))
        plain = _plain(graph, scale)
        if not all(plain):
            chosen = [x for x, ok in zip(clouds, plain, strict=True) if ok]
            return cls.of(chosen)[0] if chosen else None, plain
        return cls(clouds, each.padded(graph.points), frames, graph, diffusion(graph)), plain

    @classmethod
    def operator(cls, x: Tensor) -> Prepared:
        """The operator of one surface ``(n, 3)`` alone."""
        found, _ = cls.of([x])
        if found is None:
            raise InputError("expected a surface of distinct points")
        smoother = found.smoother.single()
        return Prepared(Placed(x, found.frames[0]), smoother.to(dtype=torch.float64))


def packed(sizes: Sequence[int]) -> Iterator[slice]:
    """Runs of clouds of ascending sizes that, padded to the largest, have at most `BATCH_POINTS` points."""
    first = 0
    for i, n in enumerate(sizes):
        if first < i and n * (i + 1 - first) > BATCH_POINTS:
            yield slice(first, i)
            first = i
    yield slice(first, len(sizes))


def _plain(graph: Graph, scale: Tensor) -> list[bool]:
    """Which clouds of a batch are surfaces of distinct points."""
    each = graph.each
    apart = each.padded(graph.distances[:, 0], 1.0).amin(-1) > 0
    usual = (graph.k / each.counts) ** 0.5  # neighbourhoods of a unit square
    seen = each.median(graph.distances[:, -1]) > 0.01 * usual  # by single precision
    sound = apart & seen & (scale > SMALLEST) & (scale < LARGEST)
    return [ok and dimension == 2 for ok, dimension in zip(sound.tolist(), cloud_dimensions(graph), strict=True)]


@torch.no_grad()
def predict(network: SpectralNetwork, points: Tensor, smoother: Smoother) -> tuple[Tensor, Inputs]:
    """Columns `Z (b, n, K - 1)` of clouds `(b, n, 3)` of any sizes, padded to the largest, and what the network saw; in
    bfloat16 on CUDA."""
    seen = inputs(points, smoother)
    with torch.autocast(points.device.type, torch.bfloat16, enabled=points.is_cuda):
        raw, mixing = network.raw(seen, None if smoother.each.equal else smoother.each.real)
    return network.finish(raw, mixing, seen, smoother), seen
