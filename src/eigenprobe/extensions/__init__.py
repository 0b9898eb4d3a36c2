"""Values of a basis at new points, each row on its own.

kernel           N(x) = s * sum_j g_j(x) v_j / sum_j g_j(x)      g: Gaussian of distances to the k nearest fitted points
                 v(x) = N(x) + sum_j p_j(x) (v_j - N(x_j))       p: inverse squared distances, normalised
neighbourhood    v(x) = sum_j w_j v_j / (mu' sum_j w_j)          w_j = p_j J_j towards the k nearest,   mu' = 2 mu - 1

`s` (one number a vector) undoes the shrinking by the average, as Nystrom's 1/mu does. At a fitted point all of `p` is
on that point, so v(x_i) = v_i.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ..cloud import Frame
from ..errors import InputError
from ..graph import Arranged, Metric, Search, query, searcher
from ..graph.arranged import fingerprints
from ..smoothers import Smoother
from ..smoothers.neighbourhood import fuzzy_weights, overlaps

NEIGHBOURS = 10
LEAST_FACTOR = 0.1  # Nystrom divides by mu, which must not blow noise up
SAME = 1e-5  # relative distance below which a new point is a fitted one
BLOCK = 1 << 22  # neighbours, or numbers compared, in memory at once


@dataclass(frozen=True)
class KernelExtension:
    """Fitted ``values (n, K)`` at ``points (n, d)``; ``stored`` is what a file had of the fit."""

    points: Tensor
    values: Tensor
    metric: Metric = "euclidean"
    stored: tuple[Tensor, Tensor] | None = None
    kind: str = "kernel"

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
        x = points.to(self.points)
        return torch.cat([self._rows(part) for part in x.split(65536)]) if len(x) else self.values[:0]

    def tensors(self) -> dict[str, Tensor]:
        remainder, scale = self.fitted
        return {"points": self.points, "values": self.values, "remainder": remainder, "scale": scale}

    def facts(self) -> dict[str, Any]:
        return {"metric": self.metric}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> KernelExtension:
        t = tensors
        n, k = t["values"].shape
        if t["points"].shape[:-1] != (n,) or t["remainder"].shape != (n, k) or t["scale"].shape != (k,):
            raise InputError(f"expected an extension of {n} points and {k} vectors, got {[*t['points'].shape]} points")
        return cls(t["points"], t["values"], cast(Metric, facts["metric"]), (t["remainder"], t["scale"]))

    def _rows(self, points: Tensor) -> Tensor:
        smooth, (indices, squared) = self._smooth(points)
        # Relative to the farthest, too: what is nearer than rounding is the same point.
        inverse = squared.clamp_min(torch.finfo(squared.dtype).eps ** 2).reciprocal()
        inverse = inverse / inverse.sum(1, keepdim=True)
        remainder, scale = self.fitted
        return scale * smooth + average(inverse, remainder, indices)

    def _smooth(self, points: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        indices, distances = query(self.points, points, NEIGHBOURS, self.metric)
        # Relative to the farthest of them: only ratios matter, and squares of very small distances are 0.
        distances = distances / distances[:, -1:].clamp_min(torch.finfo(distances.dtype).tiny)
        squared = distances if self.metric == "cosine" else distances.square()
        width = squared.mean(1, keepdim=True).clamp_min(torch.finfo(squared.dtype).tiny)
        weight = torch.exp(-squared / width)
        weight = weight / weight.sum(1, keepdim=True)
        return average(weight, self.values, indices), (indices, squared)


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
        return self.with_mass(points)[0]

    def with_mass(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Values ``(m, K)`` at points ``(m, d)``, and the mass ``(m,)`` interpolated from the fitted one."""
        parts = [self._rows(part) for part in points.split(max(1, BLOCK // self.indices.shape[1]))]
        return torch.cat([value for value, _ in parts]), torch.cat([mass for _, mass in parts])

    @cached_property
    def _search(self) -> Search:
        if self.metric == "precomputed":
            return lambda distances, k: distances.topk(k, largest=False)[::-1]
        return searcher(self.points, metric=self.metric)

    @cached_property
    def _fingerprints(self) -> tuple[Tensor, Tensor]:
        return cast(Any, fingerprints(self.points).sort(stable=True))

    def _rows(self, points: Tensor) -> tuple[Tensor, Tensor]:
        local = self.frame(points.to(self.points.device), self.points.dtype)
        if self.metric != "euclidean":
            return self._placed(local)
        known, order = self._fingerprints  # ascending; to look a fitted point up costs a hundredth of a search
        found = order[torch.searchsorted(known, fingerprints(local)).clamp_max_(len(order) - 1)]
        pairs = zip(*(each.split(max(1, BLOCK // local.shape[1])) for each in (local, found)), strict=True)
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
        weight = fuzzy_weights(distances) * (shared + 2) / (2 * k - shared)  # both have j; as a guest x is in both
        weight = (weight / weight.sum(1, keepdim=True)).to(self.values)
        values, mass = average(weight, self.values, found) / self.factors, (weight * self.mass[found]).sum(1)
        same = distances[:, 0] <= SAME * distances[:, -1]
        nearest = found[same, 0]
        values[same], mass[same] = self.values[nearest], self.mass[nearest]
        return values, mass

    def tensors(self) -> dict[str, Tensor]:
        names = ("points", "indices", "values", "mass", "factors")
        return {name: getattr(self, name) for name in names} | {"centre": self.frame.centre}

    def facts(self) -> dict[str, Any]:
        return {"scale": self.frame.scale, "unit": self.frame.unit, "metric": self.metric}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> NeighbourhoodExtension:
        t, frame = tensors, Frame(tensors["centre"], facts["scale"], facts["unit"])
        metric = facts.get("metric", "euclidean")
        return cls(frame, t["points"], t["indices"], t["values"], t["mass"], t["factors"], metric)


def average(weight: Tensor, values: Tensor, indices: Tensor) -> Tensor:
    """``sum_j weight[i, j] values[indices[i, j]]``; gathered values, k times as many, are never in memory."""
    return embedding_bag(indices, values, per_sample_weights=weight, mode="sum")
