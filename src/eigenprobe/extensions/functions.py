"""Values of a basis at new points, each row on its own; a file names the kind of its function.

Kernel: smooth functions at the points of a cloud.

    N(x) = s * sum_j g_j(x) v_j / sum_j g_j(x)      g: Gaussian of distances to the k nearest
    v(x) = N(x) + sum_j p_j(x) (v_j - N(x_j))       p: inverse squared distances, normalised

`s` (one number per vector) undoes the shrinking by the average, as Nystrom's 1/mu does. At a fitted
point all of `p` is on that point, so v(x_i) = v_i.

Neighbourhood: an embedding, by the weights of its smoother; at a fitted row (up to rounding) the
fitted value.

    v(x) = sum_j w_j v_j / (mu' sum_j w_j)      w_j = p_j J_j towards the k nearest,  mu' = 2 mu - 1

Network: phi attends to the frozen context only, so a row depends on its own point alone.

    v(x) = [1, phi_2(x), ..., phi_K(x)] T           mass known: T is R^-1 and the Ritz rotation
    v(x) = q(x) / q_1(x),   q(x) = phi(x) R^-1      mass learned as q_1^2 (`row`)

Context: a network of features, f(x) averaged over the fitted neighbours of x.

    v(x) = network(f(x)) T
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from .. import networks
from ..basis import extension
from ..cloud.cloud import CloudGraph, fingerprints
from ..errors import InputError
from ..host.files import Facts
from ..host.weights import with_weights
from ..neighbors.search import Metric, Search, query, searcher
from ..points import Frame
from ..smoothers import Smoother
from ..smoothers.neighbourhood import fuzzy_weights, overlaps

NEIGHBOURS = 10
LEAST_FACTOR = 0.1  # Nystrom divides by mu, which must not blow noise up
AT_ONCE = 1 << 22  # numbers in memory: neighbours of points, or points that a network attends to


def _blocks(points: Tensor, width: int) -> Sequence[Tensor]:
    """The rows in blocks of which each row takes ``width`` numbers: bounds the memory, changes no
    value.
    """
    return points.split(max(1, AT_ONCE // max(1, width)))


@extension
@dataclass(frozen=True)
class KernelExtension:
    """Fitted ``values (n, K)`` at ``points (n, d)``."""

    kind: ClassVar[str] = "kernel"

    points: Tensor
    values: Tensor
    metric: Metric = "euclidean"

    @cached_property
    def fitted(self) -> tuple[Tensor, Tensor]:
        """The ``remainder (n, K)`` v - N and the ``scale (K,)`` s: a search and an average over all
        points.
        """
        smooth, _ = self._smooth(self.points)
        tiny = torch.finfo(smooth.dtype).tiny
        scale = (smooth * self.values).sum(0) / smooth.square().sum(0).clamp_min(tiny)
        return self.values - scale * smooth, scale

    def __call__(self, points: Tensor) -> Tensor:
        x, width = points.to(self.points), self.points.shape[1]
        if x.shape[1] != width:
            raise InputError(f"expected new points of shape (m, {width}), got {tuple(x.shape)}")
        if not len(x):
            return self.values[:0]
        return torch.cat([self._rows(part) for part in _blocks(x, NEIGHBOURS)])

    def tensors(self) -> dict[str, Tensor]:
        return {"points": self.points, "values": self.values}

    def facts(self) -> Facts:
        return {"metric": self.metric}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: Facts) -> KernelExtension:
        points, values = tensors["points"], tensors["values"]
        if points.ndim != 2 or values.ndim != 2 or len(points) != len(values):
            raise InputError(f"expected as many points as values, got {[*points.shape]} points")
        if points.dtype != values.dtype:
            raise InputError(f"expected one precision, got {points.dtype} and {values.dtype}")
        return cls(points, values, cast(Metric, facts["metric"]))

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
        cls, cloud: CloudGraph, smoother: Smoother, values: Tensor, mu: Tensor
    ) -> NeighbourhoodExtension:
        """From a cloud and its smoother, vectors V ``(n, K)`` and their eigenvalues mu ``(K,)``."""
        graph = smoother.known_graph
        return cls(
            cloud.frame,
            graph.points,
            graph.indices,
            values,
            cloud.share(smoother.mass.to(values)),
            (2 * mu.to(values) - 1).clamp_min(LEAST_FACTOR),
            "euclidean" if graph.metric == "cosine" else graph.metric,  # that of unit rows
            dict(graph.options or {}),
            cloud.same,
        )

    def __getstate__(self) -> dict[str, Any]:
        # Without what is cached.
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __call__(self, points: Tensor) -> Tensor:
        return self.with_mass(points)[0]

    def with_mass(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Values ``(m, K)`` at points ``(m, d)``, and the mass ``(m,)`` interpolated from the
        fitted one.
        """
        return self.averages(points, self.values, self.factors)

    def averages(
        self, points: Tensor, values: Tensor, factors: Tensor | float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Any ``values (n, c)`` of the fitted points, averaged over the neighbours of ``points``
        and divided by ``factors``, and the mass ``(m,)``."""
        width = self.indices.shape[1] or points.shape[1]
        parts = [self._rows(part, values, factors) for part in _blocks(points, width)]
        return torch.cat([value for value, _ in parts]), torch.cat([mass for _, mass in parts])

    @cached_property
    def _search(self) -> Search:
        if self.metric == "precomputed":
            return lambda distances, k: distances.topk(k, largest=False)[::-1]
        return searcher(self.points, metric=self.metric, options=self.options)

    @cached_property
    def _fingerprints(self) -> tuple[Tensor, Tensor]:
        return cast(Any, fingerprints(self.points).sort(stable=True))

    def _rows(
        self, points: Tensor, values: Tensor, factors: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        if self.metric == "precomputed":
            return self._placed(points.to(self.points), values, factors)
        if self.metric == "precomputed_affinity":
            affinities = points.to(values)  # (m, n) to the fitted rows: the weights
            total = affinities.sum(1, keepdim=True)
            if not bool((total > 0).all()) or bool((affinities < 0).any()):
                raise InputError(
                    "every row needs affinities of at least 0 to fitted rows, and one above 0"
                )
            weight = affinities / total
            return weight @ values / factors, weight @ self.mass
        local = self.frame(points.to(self.points.device), self.points.dtype)
        if self.metric != "euclidean":
            return self._placed(local, values, factors)
        # Ascending; to look a fitted point up costs a hundredth of a search.
        sums, order = self._fingerprints
        found = order[torch.searchsorted(sums, fingerprints(local)).clamp_max_(len(order) - 1)]
        parts = (_blocks(each, local.shape[1]) for each in (local, found))
        differ = [(self.points[i] != x).any(1) for x, i in zip(*parts, strict=True)]
        new = torch.cat(differ).nonzero()[:, 0]
        known, mass = values[found], self.mass[found]
        if len(new):
            known[new], mass[new] = self._placed(local[new], values, factors)
        return known, mass

    def _placed(
        self, local: Tensor, values: Tensor, factors: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """At points in the frame that are not, bit by bit, fitted ones."""
        k = self.indices.shape[1]
        found, distances = (each.to(local.device) for each in self._search(local, k))  # (m, k)
        distances = distances.to(local)
        rows = torch.arange(len(found), device=found.device).repeat_interleave(k)
        shared = overlaps(found, self.indices, rows, found.reshape(-1)).reshape(found.shape)
        # Both have j; as a guest x is in both.
        weight = fuzzy_weights(distances) * (shared + 2) / (2 * k - shared)
        weight = (weight / weight.sum(1, keepdim=True)).to(values)
        placed = average(weight, values, found) / factors
        mass = (weight * self.mass[found]).sum(1)
        same = distances[:, 0] <= self.same * distances[:, -1]
        nearest = found[same, 0]
        placed[same], mass[same] = values[nearest], self.mass[nearest]
        return placed, mass

    def tensors(self) -> dict[str, Tensor]:
        names = ("points", "indices", "values", "mass", "factors")
        return {name: getattr(self, name) for name in names} | {"centre": self.frame.centre}

    def facts(self) -> Facts:
        if not isinstance(self.metric, str):
            raise InputError("a metric that is a function cannot be written to a file")
        own = {name: getattr(self, name) for name in ("metric", "options", "same")}
        return {"scale": self.frame.scale, "unit": self.frame.unit, **own}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: Facts) -> NeighbourhoodExtension:
        t, frame = tensors, Frame(tensors["centre"], facts["scale"], facts["unit"])
        if not bool(((t["indices"] >= 0) & (t["indices"] < len(t["values"]))).all()):
            raise InputError(f"expected indices of {len(t['values'])} rows, got others")
        (n, k), d = t["values"].shape, t["centre"].shape[0]
        shapes = {"points": (n, d), "mass": (n,), "factors": (k,), "centre": (d,)}
        for name, shape in shapes.items():
            if tuple(t[name].shape) != shape:
                raise InputError(f"expected {name} {shape}, got {tuple(t[name].shape)}")
        arrays: Any = [t[key] for key in ("points", "indices", "values", "mass", "factors")]
        known = {name: facts[name] for name in ("metric", "options", "same") if name in facts}
        return cls(frame, *arrays, **known)


@extension
class NetworkExtension:
    """Network, context cloud and the K x K matrix ``T``; saved with its basis as plain tensors."""

    kind: ClassVar[str] = "network"

    def __init__(
        self,
        network: networks.Network,
        frame: Frame,
        context: Tensor,
        learned_mass: bool = False,
        matrix: Tensor | None = None,
    ) -> None:
        """``matrix`` is the identity where it is not given: the function is then that of the
        features.
        """
        # In float64, since T may be ill-conditioned and rows must not depend on how their batch was
        # cut.
        self.network = copy.deepcopy(network).eval().requires_grad_(False).double()
        self.frame, self.context, self.learned_mass = frame, context, learned_mass
        identity = torch.eye(network.config.outputs, dtype=torch.float64, device=context.device)
        self.matrix = identity if matrix is None else matrix
        self._memory: Any = None

    def rotated(self, matrix: Tensor) -> NetworkExtension:
        """The same network with another matrix."""
        other = copy.copy(self)
        other.matrix = matrix.contiguous()
        return other

    @torch.no_grad()
    def features(self, points: Tensor) -> Tensor:
        """Network features ``phi`` at points of the user's coordinates: ``(m, d) -> (m, K)``
        float64.
        """
        device = self.matrix.device
        if self._memory is None:
            self._memory = self.network.context(self.context.to(device, torch.float64))
        local = self.frame(points.to(device), torch.float64)
        parts = _blocks(local, len(self.context))
        values = torch.cat([self.network.query(x, self._memory) for x in parts])
        if not self.learned_mass:
            values[:, 0] = 1.0  # the constant is known exactly where the mass is
        return values

    def __call__(self, points: Tensor) -> Tensor:
        """Values of the vectors ``V`` at new points: ``(m, d) -> (m, K)`` on the points' device."""
        values = self.features(points) @ self.matrix
        if self.learned_mass:
            values = values / values[:, :1]
        return values.to(points.device)

    def tensors(self) -> dict[str, Tensor]:
        """Everything needed to rebuild it."""
        others = {"context": self.context, "matrix": self.matrix, "centre": self.frame.centre}
        return weights_of(self.network) | others

    def facts(self) -> Facts:
        """JSON-able settings beside the tensors."""
        frame = {"radius": self.frame.scale, "unit": self.frame.unit}
        return {"network": self.network.describe(), **frame, "learned_mass": self.learned_mass}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: Facts) -> NetworkExtension:
        """The inverse of `tensors` and `facts`."""
        frame = Frame(tensors["centre"], facts["radius"], facts["unit"])
        network = saved_network(tensors, facts)
        return cls(network, frame, tensors["context"], facts["learned_mass"], tensors["matrix"])


def weights_of(network: networks.Network) -> dict[str, Tensor]:
    """The weights as tensors of a file, their names after ``network.``; `saved_network` is the
    inverse.
    """
    return {f"network.{name}": value.float() for name, value in network.state_dict().items()}


def saved_network(tensors: dict[str, Tensor], facts: Facts) -> networks.Network:
    weights = beginning_with("network.", tensors)
    return with_weights(lambda: networks.described(facts["network"]), weights, "the saved network")


def beginning_with(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those of the tensors whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
    }


@extension
class ContextExtension:
    """A trained network as a function of points; float64, so that a row does not depend on its
    batch.

    ``context`` extends the features ``(n, width)`` of the fitted points; ``matrix`` is T.
    """

    kind: ClassVar[str] = "context"

    def __init__(
        self, network: networks.Network, context: NeighbourhoodExtension, matrix: Tensor
    ) -> None:
        self.network = network.to(matrix.device).double().eval()
        self.context, self.matrix = context, matrix

    def __call__(self, points: Tensor) -> Tensor:
        return self.with_mass(points)[0]

    def with_mass(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors ``(m, K)`` at points ``(m, d)``, and the mass interpolated between fitted
        points.
        """
        features, mass = self.context.with_mass(points)
        return outputs(self.network, features) @ self.matrix, mass

    def tensors(self) -> dict[str, Tensor]:
        context = {f"context.{name}": value for name, value in self.context.tensors().items()}
        return weights_of(self.network) | context | {"matrix": self.matrix}

    def facts(self) -> Facts:
        return {"network": self.network.describe(), "context": self.context.facts()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], facts: Facts) -> ContextExtension:
        own = beginning_with("context.", tensors)
        context = NeighbourhoodExtension.from_tensors(own, facts["context"])
        return cls(saved_network(tensors, facts), context, tensors["matrix"])


@torch.no_grad()
def outputs(network: networks.Network, features: Tensor) -> Tensor:
    """The network's functions ``(m, K)`` of features ``(m, width)``; the first is the constant,
    which is known.
    """
    values = network(features)
    values[:, 0] = 1.0
    return values
