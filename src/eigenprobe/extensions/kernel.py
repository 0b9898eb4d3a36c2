"""Values of a basis at new points by a kernel between fitted ones, each row on its own.

    N(x) = s * sum_j g_j(x) v_j / sum_j g_j(x)      g: Gaussian of distances to the k nearest fitted points
    v(x) = N(x) + sum_j p_j(x) (v_j - N(x_j))       p: inverse squared distances, normalised

`s` (one number per vector) undoes the shrinking by the average, as Nystrom's 1/mu does. At a fitted point all of `p` is
on that point, so v(x_i) = v_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ..basis import extension
from ..errors import InputError
from ..host.files import Facts
from ..search.neighbours import Metric, query

NEIGHBOURS = 10
BLOCK = (1 << 16, 1 << 20)  # rows that are computed at once: on a processor, on a device
SAME = 1e3  # roundings of the squared distance to the farthest neighbour within which a point is a fitted one


@extension
@dataclass(frozen=True)
class KernelExtension:
    """Fitted ``values (n, K)`` at ``points (n, d)``; ``stored`` is what a file had of the fit."""

    kind: ClassVar[str] = "kernel"

    points: Tensor
    values: Tensor
    metric: Metric = "euclidean"
    stored: tuple[Tensor, Tensor] | None = None

    @cached_property
    def fitted(self) -> tuple[Tensor, Tensor]:
        """The ``remainder (n, K)`` v - N and the ``scale (K,)`` s: a search and an average over all points."""
        if self.stored is not None:
            return self.stored
        smooth, _ = self._smooth(self.points)
        tiny = torch.finfo(smooth.dtype).tiny
        scale = (smooth * self.values).sum(0) / smooth.square().sum(0).clamp_min(tiny)
        return self.values - scale * smooth, scale

    def __call__(self, points: Tensor) -> Tensor:
        x, width = points.to(self.points), self.points.shape[1]
        if x.shape[1] != width:
            raise InputError(f"expected new points of shape (m, {width}), got {tuple(x.shape)}")
        size = BLOCK[x.device.type != "cpu"]
        return torch.cat([self._rows(part) for part in x.split(size)]) if len(x) else self.values[:0]

    def tensors(self) -> dict[str, Tensor]:
        remainder, scale = self.fitted
        return {"points": self.points, "values": self.values, "remainder": remainder, "scale": scale}

    def facts(self) -> Facts:
        return {"metric": self.metric}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: Facts) -> KernelExtension:
        t = tensors
        n, k = t["values"].shape
        if t["points"].shape[:-1] != (n,) or t["remainder"].shape != (n, k) or t["scale"].shape != (k,):
            raise InputError(f"expected an extension of {n} points and {k} vectors, got {[*t['points'].shape]} points")
        if len(kinds := {each.dtype for each in t.values()}) > 1:
            raise InputError(f"expected an extension of one precision, got {sorted(map(str, kinds))}")
        return cls(t["points"], t["values"], cast(Metric, facts["metric"]), (t["remainder"], t["scale"]))

    def _rows(self, points: Tensor) -> Tensor:
        smooth, (indices, squared) = self._smooth(points)
        # Relative to the farthest, too: what is nearer than rounding is the same point.
        inverse = squared.clamp_min(torch.finfo(squared.dtype).eps ** 2).reciprocal()
        inverse = inverse / inverse.sum(1, keepdim=True)
        remainder, scale = self.fitted
        found = scale * smooth + average(inverse, remainder, indices)
        # Of equal distances others may be chosen in another block, which changes N: at a fitted point it is not asked.
        near = squared <= SAME * torch.finfo(squared.dtype).eps
        return torch.where(near[:, :1] & (near.sum(1, keepdim=True) == 1), self.values[indices[:, 0]], found)

    def _smooth(self, points: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        indices, distances = query(self.points, points, NEIGHBOURS, self.metric)
        # Relative to the farthest of them: only ratios matter, and squares of very small distances are 0.
        distances = distances / distances[:, -1:].clamp_min(torch.finfo(distances.dtype).tiny)
        squared = distances if self.metric == "cosine" else distances.square()
        width = squared.mean(1, keepdim=True).clamp_min(torch.finfo(squared.dtype).tiny)
        weight = torch.exp(-squared / width)
        weight = weight / weight.sum(1, keepdim=True)
        return average(weight, self.values, indices), (indices, squared)


def average(weight: Tensor, values: Tensor, indices: Tensor) -> Tensor:
    """``sum_j weight[i, j] values[indices[i, j]]``; gathered values, k times as many, are never in memory."""
    return embedding_bag(indices, values, per_sample_weights=weight, mode="sum")
