"""Values of a basis at new points by a kernel between fitted ones, each row on its own.

    N(x) = s * sum_j g_j(x) v_j / sum_j g_j(x)      g: Gaussian of distances to the k nearest
    v(x) = N(x) + sum_j p_j(x) (v_j - N(x_j))       p: inverse squared distances, normalised

`s` (one number per vector) undoes the shrinking by the average, as Nystrom's 1/mu does. At a fitted
point all of `p` is on that point, so v(x_i) = v_i.
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
BLOCK = 1 << 18  # rows that are computed at once


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
        """The ``remainder (n, K)`` v - N and the ``scale (K,)`` s: a search and an average over all
        points.
        """
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
        parts = x.split(BLOCK)
        return torch.cat([self._rows(part) for part in parts]) if len(x) else self.values[:0]

    def tensors(self) -> dict[str, Tensor]:
        remainder, scale = self.fitted
        fitted = {"points": self.points, "values": self.values}
        return fitted | {"remainder": remainder, "scale": scale}

    def facts(self) -> Facts:
        return {"metric": self.metric}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: Facts) -> KernelExtension:
        points, values = tensors["points"], tensors["values"]
        remainder, scale = tensors["remainder"], tensors["scale"]
        n, k = values.shape
        if points.ndim != 2 or len(points) != n or remainder.shape != (n, k) or scale.shape != (k,):
            raise InputError(f"expected {n} points and {k} vectors, got {[*points.shape]} points")
        if len(kinds := {each.dtype for each in tensors.values()}) > 1:
            raise InputError(f"expected one precision, got {sorted(map(str, kinds))}")
        return cls(points, values, cast(Metric, facts["metric"]), (remainder, scale))

    def _rows(self, points: Tensor) -> Tensor:
        smooth, (indices, squared) = self._smooth(points)
        # Relative to the farthest, too: what is nearer than rounding is the same point.
        inverse = squared.clamp_min(torch.finfo(squared.dtype).eps ** 2).reciprocal()
        inverse = inverse / inverse.sum(1, keepdim=True)
        remainder, scale = self.fitted
        found = scale * smooth + average(inverse, remainder, indices)
        # Of equal distances others may be chosen in another block, which changes N: at a fitted
        # point it is not asked.
        near = squared <= 1e3 * torch.finfo(squared.dtype).eps  # roundings of a squared distance
        return torch.where(
            near[:, :1] & (near.sum(1, keepdim=True) == 1), self.values[indices[:, 0]], found
        )

    def _smooth(self, points: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        indices, distances = query(self.points, points, NEIGHBOURS, self.metric)
        # Relative to the farthest of them: only ratios matter, and squares of very small distances
        # are 0.
        distances = distances / distances[:, -1:].clamp_min(torch.finfo(distances.dtype).tiny)
        squared = distances if self.metric == "cosine" else distances.square()
        width = squared.mean(1, keepdim=True).clamp_min(torch.finfo(squared.dtype).tiny)
        weight = torch.exp(-squared / width)
        weight = weight / weight.sum(1, keepdim=True)
        return average(weight, self.values, indices), (indices, squared)


def average(weight: Tensor, values: Tensor, indices: Tensor) -> Tensor:
    """``sum_j weight[i, j] values[indices[i, j]]``; gathered values, k times as many, are never in
    memory.
    """
    return embedding_bag(indices, values, per_sample_weights=weight, mode="sum")
