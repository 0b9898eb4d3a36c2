"""Values at new points from the neighbourhood smoother, each row on its own.

v(x) = sum_j w_j v_j / (mu' sum_j w_j),   w_j = p_j J_j towards the k nearest fitted points,   mu' = 2 mu - 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..graph import Graph, query
from ..smoothers import Smoother
from ..smoothers.neighbourhood import closed_neighbours, count_shared, fuzzy_weights

LEAST_FACTOR = 0.1  # Nystrom divides by mu, which must not blow noise up
SPARE = 6  # candidates beyond k, so that rounding in the search cannot change the neighbours of a point
SAME = 1e-5  # relative distance below which a new point is a fitted one
BLOCK = 1 << 22  # neighbours of neighbours compared at once


@dataclass(frozen=True)
class NeighbourhoodExtension:
    """Vectors ``values (n, K)`` and mass of a fitted cloud, at new points; row i depends on point i alone.

    At a fitted point (up to rounding) the value is the fitted one.
    """

    points: Tensor  # (n, d)
    indices: Tensor  # (n, k) the graph
    values: Tensor  # (n, K)
    mass: Tensor  # (n,)
    factors: Tensor  # (K,) of the average: 2 mu - 1
    kind: str = "neighbourhood"

    @classmethod
    def of(cls, smoother: Smoother, values: Tensor, mu: Tensor) -> NeighbourhoodExtension:
        """From a fitted smoother, its vectors V and their eigenvalues mu."""
        if smoother.graph is None or smoother.mass is None:
            raise InputError("this smoother keeps no points, so it has no values at new ones")
        factors = (2 * mu.to(values) - 1).clamp_min(LEAST_FACTOR)
        return cls(smoother.graph.points, smoother.graph.indices, values, smoother.mass.to(values), factors)

    def __call__(self, points: Tensor) -> Tensor:
        """Values ``(m, K)`` at points ``(m, d)``."""
        return self.with_mass(points)[0]

    def with_mass(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Values ``(m, K)`` and the mass ``(m,)`` interpolated from the fitted one."""
        parts = [self._rows(part) for part in points.to(self.points).split(max(1, BLOCK // self.indices.shape[1] ** 2))]
        return torch.cat([value for value, _ in parts]), torch.cat([mass for _, mass in parts])

    def _rows(self, points: Tensor) -> tuple[Tensor, Tensor]:
        k, n = self.indices.shape[1], self.points.shape[0]
        graph = Graph(self.points, self.indices, self.points.new_empty((n, 0)))
        found, distances = query(graph, points, min(k + SPARE, n))
        found, order = found.sort(1)
        distances, second = distances.gather(1, order).sort(stable=True, dim=1)  # ties go to the lower index
        found, distances = found.gather(1, second)[:, :k], distances[:, :k]
        common = count_shared(closed_neighbours(self.indices)[found], found[:, None])  # (m, k)
        weight = fuzzy_weights(distances) * (common + 1) / (2 * k + 1 - common)
        fitted = distances[:, :1] <= SAME * distances[:, -1:]
        first = torch.zeros_like(weight)
        first[:, 0] = 1
        weight = torch.where(fitted, first, weight / weight.sum(1, keepdim=True)).to(self.values)
        factors = torch.where(fitted, torch.ones_like(self.factors), self.factors)
        values = (weight[:, None] @ self.values[found])[:, 0] / factors
        return values, (weight * self.mass[found]).sum(1)

    def tensors(self) -> dict[str, Tensor]:
        """Everything needed to rebuild it."""
        names = ("points", "indices", "values", "mass", "factors")
        return {name: getattr(self, name) for name in names}

    def facts(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> NeighbourhoodExtension:
        t = tensors
        return cls(t["points"], t["indices"], t["values"], t["mass"], t["factors"])
