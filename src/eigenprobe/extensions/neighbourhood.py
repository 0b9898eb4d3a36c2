"""Values at new points from the neighbourhood smoother, each row on its own.

v(x) = sum_j w_j v_j / (mu' sum_j w_j),   w_j = p_j J_j towards the k nearest fitted points,   mu' = 2 mu - 1
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..cloud import Frame
from ..errors import InputError
from ..graph.arranged import Arranged
from ..graph.neighbours import Search, searcher
from ..smoothers import Smoother
from ..smoothers.neighbourhood import closed_neighbours, fuzzy_weights, overlaps

LEAST_FACTOR = 0.1  # Nystrom divides by mu, which must not blow noise up
SAME = 1e-5  # relative distance below which a new point is a fitted one
BLOCK = 1 << 22  # neighbours, or values of neighbours, in memory at once


@dataclass(frozen=True)
class NeighbourhoodExtension:
    """Vectors ``values (n, K)`` and mass of a fitted cloud, at new points; row i depends on point i alone.

    At a fitted point (up to rounding) the value is the fitted one, and the mass that of one of its copies.
    """

    frame: Frame
    points: Tensor  # (n, d) in the frame
    indices: Tensor  # (n, k) the graph
    values: Tensor  # (n, K)
    mass: Tensor  # (n,)
    factors: Tensor  # (K,) of the average: 2 mu - 1
    metric: str = "euclidean"  # between points in the frame; precomputed: new points are distances to the fitted ones
    kind: str = "neighbourhood"

    @classmethod
    def of(cls, cloud: Arranged, smoother: Smoother, values: Tensor, mu: Tensor) -> NeighbourhoodExtension:
        """From a cloud and its smoother, vectors V ``(n, K)`` and their eigenvalues mu ``(K,)``."""
        if smoother.graph is None or smoother.mass is None:
            raise InputError("this smoother keeps no points, so it has no values at new ones")
        factors = (2 * mu.to(values) - 1).clamp_min(LEAST_FACTOR)
        graph, mass = smoother.graph, cloud.share(smoother.mass.to(values))
        metric = "euclidean" if graph.metric == "cosine" else graph.metric  # that of unit rows
        return cls(cloud.frame, graph.points, graph.indices, values, mass, factors, metric)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # without what is cached

    def __call__(self, points: Tensor) -> Tensor:
        """Values ``(m, K)`` at points ``(m, d)``."""
        return self.with_mass(points)[0]

    def with_mass(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Values ``(m, K)`` and the mass ``(m,)`` interpolated from the fitted one."""
        parts = [self._rows(part) for part in points.split(max(1, BLOCK // self.indices.shape[1]))]
        return torch.cat([value for value, _ in parts]), torch.cat([mass for _, mass in parts])

    @cached_property
    def _search(self) -> Search:
        return _smallest if self.metric == "precomputed" else searcher(self.points, metric=self.metric)

    @cached_property
    def _closed(self) -> Tensor:
        return closed_neighbours(self.indices)

    def _rows(self, points: Tensor) -> tuple[Tensor, Tensor]:
        k = self.indices.shape[1]
        local = self.frame(points.to(self.points.device), self.points.dtype)
        found, distances = (each.to(local.device) for each in self._search(local, k))  # (m, k)
        distances = distances.to(local)
        rows = torch.arange(len(found), device=found.device).repeat_interleave(k)
        common = overlaps(found.int(), self._closed, rows, found.reshape(-1)).reshape(found.shape)
        weight = fuzzy_weights(distances) * (common + 1) / (2 * k + 1 - common)
        fitted = distances[:, :1] <= SAME * distances[:, -1:]
        first = torch.zeros_like(weight)
        first[:, 0] = 1
        weight = torch.where(fitted, first, weight / weight.sum(1, keepdim=True)).to(self.values)
        size = max(1, BLOCK // (k * self.values.shape[1]))
        gathered = zip(weight.split(size), found.split(size), strict=True)
        average = torch.cat([(w[:, None] @ self.values[i])[:, 0] for w, i in gathered])
        factors = torch.where(fitted, torch.ones_like(self.factors), self.factors)
        return average / factors, (weight * self.mass[found]).sum(1)

    def tensors(self) -> dict[str, Tensor]:
        """Everything needed to rebuild it."""
        names = ("points", "indices", "values", "mass", "factors")
        return {name: getattr(self, name) for name in names} | {"centre": self.frame.centre}

    def facts(self) -> dict[str, Any]:
        """JSON-able settings beside the tensors."""
        return {"scale": self.frame.scale, "unit": self.frame.unit, "metric": self.metric}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> NeighbourhoodExtension:
        t, frame = tensors, Frame(tensors["centre"], facts["scale"], facts["unit"])
        metric = facts.get("metric", "euclidean")
        return cls(frame, t["points"], t["indices"], t["values"], t["mass"], t["factors"], metric)


def _smallest(distances: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, indices = distances.topk(k, largest=False)
    return indices, values
