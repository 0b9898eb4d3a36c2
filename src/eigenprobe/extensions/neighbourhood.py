"""Values of an embedding at new rows by the weights of its neighbourhood smoother, each row on its
own.

    v(x) = sum_j w_j v_j / (mu' sum_j w_j)      w_j = p_j J_j towards the k nearest,  mu' = 2 mu - 1

At a fitted row (up to rounding) the value is the fitted one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from ..basis import extension
from ..cloud import Frame
from ..errors import InputError
from ..graph.arranged import Arranged, fingerprints
from ..host.files import Facts
from ..search.neighbours import Search, searcher
from ..smoothers import Smoother
from ..smoothers.neighbourhood import fuzzy_weights, overlaps
from .kernel import average

LEAST_FACTOR = 0.1  # Nystrom divides by mu, which must not blow noise up
BLOCK = 1 << 22  # neighbours, or numbers compared, in memory at once


@extension
@dataclass(frozen=True)
class NeighbourhoodExtension:
    """Vectors ``values (n, K)`` and mass of a fitted cloud, at new points; row i depends on point i
    alone.

    At a fitted point (up to rounding) the value is the fitted one, and the mass that of one of its
    copies.
    """

    kind: ClassVar[str] = "neighbourhood"

    frame: Frame
    points: Tensor  # (n, d) in the frame
    indices: Tensor  # (n, k) the graph
    values: Tensor  # (n, K)
    mass: Tensor  # (n,)
    factors: Tensor  # (K,) of the average: 2 mu - 1
    # between points in the frame; precomputed: new points are distances to the fitted ones
    metric: Any = "euclidean"
    options: dict[str, Any] = field(default_factory=dict)  # further arguments of the metric
    same: float = 1e-5  # relative distance below which a new point is a fitted one

    @classmethod
    def of(
        cls, cloud: Arranged, smoother: Smoother, values: Tensor, mu: Tensor
    ) -> NeighbourhoodExtension:
        """From a cloud and its smoother, vectors V ``(n, K)`` and their eigenvalues mu ``(K,)``."""
        factors = (2 * mu.to(values) - 1).clamp_min(LEAST_FACTOR)
        graph, mass = smoother.known_graph, cloud.share(smoother.mass.to(values))
        metric = "euclidean" if graph.metric == "cosine" else graph.metric  # that of unit rows
        arrays = (graph.points, graph.indices, values, mass, factors)
        return cls(cloud.frame, *arrays, metric, dict(graph.options or {}), cloud.same)

    def __getstate__(self) -> dict[str, Any]:
        # Without what is cached.
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __call__(self, points: Tensor) -> Tensor:
        return self.with_mass(points)[0]

    def with_mass(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Values ``(m, K)`` at points ``(m, d)``, and the mass ``(m,)`` interpolated from the
        fitted one.
        """
        width = self.indices.shape[1] or points.shape[1]
        parts = [self._rows(part) for part in points.split(max(1, BLOCK // width))]
        return torch.cat([value for value, _ in parts]), torch.cat([mass for _, mass in parts])

    @cached_property
    def _search(self) -> Search:
        if self.metric == "precomputed":
            return lambda distances, k: distances.topk(k, largest=False)[::-1]
        return searcher(self.points, metric=self.metric, options=self.options)

    @cached_property
    def _fingerprints(self) -> tuple[Tensor, Tensor]:
        return cast(Any, fingerprints(self.points).sort(stable=True))

    def _rows(self, points: Tensor) -> tuple[Tensor, Tensor]:
        if self.metric == "precomputed_affinity":
            affinities = points.to(self.values)  # (m, n) to the fitted rows: the weights
            total = affinities.sum(1, keepdim=True)
            if not bool((total > 0).all()) or bool((affinities < 0).any()):
                raise InputError(
                    "every row needs affinities of at least 0 to fitted rows, and one above 0"
                )
            weight = affinities / total
            return weight @ self.values / self.factors, weight @ self.mass
        local = self.frame(points.to(self.points.device), self.points.dtype)
        if self.metric != "euclidean":
            return self._placed(local)
        # Ascending; to look a fitted point up costs a hundredth of a search.
        known, order = self._fingerprints
        found = order[torch.searchsorted(known, fingerprints(local)).clamp_max_(len(order) - 1)]
        pairs = zip(
            *(each.split(max(1, BLOCK // local.shape[1])) for each in (local, found)), strict=True
        )
        new = torch.cat([(self.points[i] != x).any(1) for x, i in pairs]).nonzero()[:, 0]
        values, mass = self.values[found], self.mass[found]
        if len(new):
            values[new], mass[new] = self._placed(local[new])
        return values, mass

    def _placed(self, local: Tensor) -> tuple[Tensor, Tensor]:
        """At points in the frame that are not, bit by bit, fitted ones."""
        k = self.indices.shape[1]
        found, distances = (each.to(local.device) for each in self._search(local, k))  # (m, k)
        distances = distances.to(local)
        rows = torch.arange(len(found), device=found.device).repeat_interleave(k)
        shared = overlaps(found, self.indices, rows, found.reshape(-1)).reshape(found.shape)
        # Both have j; as a guest x is in both.
        weight = fuzzy_weights(distances) * (shared + 2) / (2 * k - shared)
        weight = (weight / weight.sum(1, keepdim=True)).to(self.values)
        values = average(weight, self.values, found) / self.factors
        mass = (weight * self.mass[found]).sum(1)
        same = distances[:, 0] <= self.same * distances[:, -1]
        nearest = found[same, 0]
        values[same], mass[same] = self.values[nearest], self.mass[nearest]
        return values, mass

    def tensors(self) -> dict[str, Tensor]:
        names = ("points", "indices", "values", "mass", "factors")
        return {name: getattr(self, name) for name in names} | {"centre": self.frame.centre}

    def facts(self) -> Facts:
        if not isinstance(self.metric, str):
            raise InputError("a metric that is a function cannot be written to a file")
        about = {"metric": self.metric, "options": self.options, "same": self.same}
        return {"scale": self.frame.scale, "unit": self.frame.unit, **about}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: Facts) -> NeighbourhoodExtension:
        t, frame = tensors, Frame(tensors["centre"], facts["scale"], facts["unit"])
        metric, options = facts.get("metric", "euclidean"), facts.get("options", {})
        if not bool(((t["indices"] >= 0) & (t["indices"] < len(t["values"]))).all()):
            raise InputError(f"expected indices of {len(t['values'])} rows, got others")
        (n, k), d = t["values"].shape, t["centre"].shape[0]
        # Affinities that were given have neither points nor neighbours.
        width = d if t["indices"].numel() else 0
        shapes = {"points": (n, width), "mass": (n,), "factors": (k,), "centre": (d,)}
        for name, shape in shapes.items():
            if tuple(t[name].shape) != shape:
                raise InputError(f"expected {name} {shape}, got {tuple(t[name].shape)}")
        arrays = (t["points"], t["indices"], t["values"], t["mass"], t["factors"])
        return cls(frame, *arrays, metric, options, facts.get("same", 1e-5))
