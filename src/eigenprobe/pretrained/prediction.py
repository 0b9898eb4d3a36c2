"""Clouds that go through the network together, and one pass of it.

    clouds (n_i, 3) -> frames -> stacked neighbour graph -> diffusion       what the network sees
                                                         -> averaging operator A, mass M

On surfaces of distinct points diffusion is the averaging operator too: one matrix for all clouds of
a batch, whatever their sizes (`Batch.of_surfaces`).  Any other cloud is a batch of one with the
operator that `decompose` would use (`Batch.of_one`).  `b` clouds, `n` points of the largest.

Of a large cloud the columns are those of an even subset, extended to the other points by its
kernel: they are smooth functions, and what the subset cannot say no network of that size knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..cloud.cloud import Cloud, arrange, arrange_surfaces, grouped_by_size
from ..cloud.edges import without_short_cuts
from ..errors import InputError
from ..networks.spectral import NEIGHBOURS, Inputs, SpectralNetwork, diffusion, inputs
from ..smoothers import NEIGHBOURS as OPERATOR_NEIGHBOURS
from ..smoothers import Smoother, build_smoother
from ..smoothers.prepared import Prepared

FEWEST = 64  # points below which a cloud says too little for the network's inputs
WHOLE = 8192  # clouds of up to so many points go through the network whole
BATCH_POINTS = 131_072  # points that go through the network together


@dataclass(frozen=True)
class Batch:
    """Clouds in their frames, what the network sees of them, and their averaging operator."""

    clouds: list[Cloud]
    points: Tensor  # (b, n, 3) in their frames, float32, padded to the largest
    operator: Smoother  # of stacked surfaces; else of the only cloud
    components: list[int]

    @property
    def stacked(self) -> bool:
        """Whether it is one of surfaces, of any number."""
        return bool(self.operator.clouds)

    @classmethod
    def of_surfaces(cls, clouds: Sequence[Tensor]) -> tuple[Batch | None, list[bool]]:
        """The batch of those clouds `(n_i, 3)` that are surfaces of distinct points, and which
        these are.
        """
        count = OPERATOR_NEIGHBOURS["adaptive"]
        placed, graph, surfaces = arrange_surfaces(clouds, count, dtype=torch.float32)
        if graph is None:
            return None, surfaces
        components = graph.each.parts(graph.truncate(NEIGHBOURS).components())
        padded = graph.each.padded(graph.points)
        return cls(placed, padded, diffusion(graph), list(components)), surfaces

    @classmethod
    def of_one(cls, x: Tensor, k: int, kind: Any) -> Batch:
        """One cloud ``(n, 3)`` of any kind, with the operator of `decompose`."""
        cloud = arrange(x, OPERATOR_NEIGHBOURS[kind], max(k, FEWEST - 1))
        if float(cloud.graph.distances[:, -1].median()) < 8 * torch.finfo(torch.float32).eps:
            raise InputError(
                "most points are nearer to each other than a model can see: "
                "encode far parts one by one"
            )
        dimension = None
        if kind == "adaptive":
            cloud, dimension = without_short_cuts(cloud)
        operator = build_smoother(cloud.graph, kind, dimension=dimension)
        points = cloud.graph.points.float()[None]
        return cls([cloud], points, operator, [operator.warn_of_parts()])


def surface_operator(x: Tensor) -> Prepared:
    """The operator of one surface ``(n, 3)`` of a batch, alone."""
    batch, _ = Batch.of_surfaces([x])
    if batch is None:
        raise InputError("expected a surface of distinct points")
    return Prepared(batch.clouds[0], batch.operator.single().to(dtype=torch.float64))


def batches(
    clouds: Mapping[int, Tensor], k: int, kind: Any, together: bool
) -> Iterator[tuple[list[int], Batch]]:
    """All clouds by their numbers; surfaces of up to `WHOLE` points ``together``, the others one by
    one.
    """
    alone = [i for i, x in clouds.items() if not together or len(x) > WHOLE]
    for group in grouped_by_size(
        {i: len(clouds[i]) for i in clouds.keys() - set(alone)}, BATCH_POINTS
    ):
        batch, surfaces = Batch.of_surfaces([clouds[i] for i in group])
        members = [i for i, ok in zip(group, surfaces, strict=True) if ok]
        alone += sorted(set(group) - set(members))
        if batch is not None:
            yield members, batch
    for i in alone:
        yield [i], Batch.of_one(clouds[i], k, kind)


@torch.no_grad()
def predict(network: SpectralNetwork, points: Tensor, smoother: Smoother) -> tuple[Tensor, Inputs]:
    """Columns `Z (b, n, K - 1)` of clouds `(b, n, 3)` of any sizes, padded to the largest, and what
    the network saw; in bfloat16 on CUDA."""
    seen = inputs(points, smoother)
    with torch.autocast(points.device.type, torch.bfloat16, enabled=points.is_cuda):
        raw, mixing = network.raw(seen, None if smoother.each.equal else smoother.each.real)
    return network.finish(raw, mixing, seen, smoother), seen
