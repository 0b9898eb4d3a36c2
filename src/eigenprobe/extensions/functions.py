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

Of an embedding phi is a network of features, each averaged over the fitted neighbours of x.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from .. import networks
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


@dataclass(frozen=True)
class NeighbourhoodExtension:
    """Vectors ``values (n, K)`` of a fitted cloud, at new points; row i depends on point i alone.

    At a fitted point (up to rounding) the value is the fitted one.
    """

    kind: ClassVar[str] = "neighbourhood"

    frame: Frame
    points: Tensor  # (n, d) in the frame
    indices: Tensor  # (n, k) the graph
    values: Tensor  # (n, K)
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
            (2 * mu.to(values) - 1).clamp_min(LEAST_FACTOR),
            "euclidean" if graph.metric == "cosine" else graph.metric,  # that of unit rows
            dict(graph.options or {}),
            cloud.same,
        )

    def __getstate__(self) -> dict[str, Any]:
        # Without what is cached.
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __call__(self, points: Tensor) -> Tensor:
        return self.averages(points, self.values, self.factors)

    def averages(self, points: Tensor, values: Tensor, factors: Tensor | float = 1.0) -> Tensor:
        """Any ``values (n, c)`` of the fitted points, averaged over the neighbours of ``points (m,
        d)`` and divided by ``factors``: ``(m, c)``."""
        width = self.indices.shape[1] or points.shape[1]
        parts = _blocks(points, width)
        return torch.cat([self._rows(part, values, factors) for part in parts])

    @cached_property
    def _search(self) -> Search:
        if self.metric == "precomputed":
            return lambda distances, k: distances.topk(k, largest=False)[::-1]
        return searcher(self.points, metric=self.metric, options=self.options)

    @cached_property
    def _fingerprints(self) -> tuple[Tensor, Tensor]:
        return cast(Any, fingerprints(self.points).sort(stable=True))

    def _rows(self, points: Tensor, values: Tensor, factors: Tensor | float) -> Tensor:
        if self.metric == "precomputed":
            return self._placed(points.to(self.points), values, factors)
        if self.metric == "precomputed_affinity":
            affinities = points.to(values)  # (m, n) to the fitted rows: the weights
            total = affinities.sum(1, keepdim=True)
            if not bool((total > 0).all()) or bool((affinities < 0).any()):
                raise InputError(
                    "every row needs affinities of at least 0 to fitted rows, and one above 0"
                )
            return affinities / total @ values / factors
        local = self.frame(points.to(self.points.device), self.points.dtype)
        if self.metric != "euclidean":
            return self._placed(local, values, factors)
        # Ascending; to look a fitted point up costs a hundredth of a search.
        sums, order = self._fingerprints
        found = order[torch.searchsorted(sums, fingerprints(local)).clamp_max_(len(order) - 1)]
        parts = (_blocks(each, local.shape[1]) for each in (local, found))
        differ = [(self.points[i] != x).any(1) for x, i in zip(*parts, strict=True)]
        new = torch.cat(differ).nonzero()[:, 0]
        known = values[found]
        if len(new):
            known[new] = self._placed(local[new], values, factors)
        return known

    def _placed(self, local: Tensor, values: Tensor, factors: Tensor | float) -> Tensor:
        """At points in the frame that are not, bit by bit, fitted ones."""
        k = self.indices.shape[1]
        found, distances = (each.to(local.device) for each in self._search(local, k))  # (m, k)
        distances = distances.to(local)
        rows = torch.arange(len(found), device=found.device).repeat_interleave(k)
        shared = overlaps(found, self.indices, rows, found.reshape(-1)).reshape(found.shape)
        # Both have j; as a guest x is in both.
        weight = fuzzy_weights(distances) * (shared + 2) / (2 * k - shared)
        weight = (weight / weight.sum(1, keepdim=True)).to(values)
        same = distances[:, :1] <= self.same * distances[:, -1:]
        return torch.where(same, values[found[:, 0]], average(weight, values, found) / factors)


@dataclass(eq=False)
class NetworkExtension:
    """Network, context cloud and the K x K matrix ``T``, the identity where it is not given: the
    function is then that of the features. ``inputs`` are what the network sees of points: them in a
    frame, or averages of features over their neighbours."""

    kind: ClassVar[str] = "network"

    network: networks.Network
    inputs: Frame | NeighbourhoodExtension
    context: Tensor
    learned_mass: bool = False
    matrix: Any = None

    def __post_init__(self) -> None:
        # In float64, since T may be ill-conditioned and rows must not depend on how their batch was
        # cut.
        self.network = copy.deepcopy(self.network).eval().requires_grad_(False).double()
        if self.matrix is None:
            identity = torch.eye(self.network.config.outputs, dtype=torch.float64)
            self.matrix = identity.to(self.context.device)

    @cached_property
    def _memory(self) -> Any:
        return self.network.context(self.context.double())

    @torch.no_grad()
    def features(self, points: Tensor) -> Tensor:
        """Network features ``phi`` at points of the user's coordinates: ``(m, d) -> (m, K)``
        float64.
        """
        return self.of_inputs(self.inputs(points.to(self.matrix.device)))

    @torch.no_grad()
    def of_inputs(self, local: Tensor) -> Tensor:
        """Features ``(m, K)`` of what the network sees of points, ``(m, width)``."""
        parts = _blocks(local.double(), len(self.context))
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


KINDS: dict[str, Any] = {"frame": Frame}
KINDS |= {each.kind: each for each in (KernelExtension, NeighbourhoodExtension, NetworkExtension)}


def packed(held: Any) -> tuple[dict[str, Tensor], Facts]:
    """A function as tensors and facts for a file; those of its parts (a frame, a network) after
    their names.
    """
    if isinstance(held, networks.MLP | networks.Transformer):
        return {name: each.float() for name, each in held.state_dict().items()}, held.describe()
    tensors: dict[str, Tensor] = {}
    facts: Facts = {"kind": next(kind for kind, each in KINDS.items() if each is type(held))}
    for each in fields(held):
        value = getattr(held, each.name)
        if isinstance(value, Tensor):
            tensors[each.name] = value
        elif is_dataclass(value) or isinstance(value, nn.Module):
            own, facts[each.name] = packed(value)
            tensors |= {f"{each.name}.{name}": tensor for name, tensor in own.items()}
        elif callable(value):
            raise InputError(f"a {each.name} that is a function cannot be written to a file")
        else:
            facts[each.name] = value
    return tensors, facts


def unpacked(tensors: dict[str, Tensor], facts: Facts) -> Any:
    """The inverse of `packed`."""
    if facts["kind"] not in KINDS:
        return with_weights(lambda: networks.described(facts), tensors, "the saved network")
    own: dict[str, Any] = {name: each for name, each in tensors.items() if "." not in name}
    for name, value in facts.items():
        part = isinstance(value, dict) and "kind" in value
        own[name] = unpacked(beginning_with(f"{name}.", tensors), value) if part else value
    found = KINDS[own.pop("kind")](**own)
    if isinstance(found, (KernelExtension, NeighbourhoodExtension)):
        _check_fit(found)
    return found


def _check_fit(found: KernelExtension | NeighbourhoodExtension) -> None:
    """Whether the tensors of a function belong to the same points and vectors."""
    points, values = found.points, found.values
    fits = points.ndim == values.ndim == 2 and len(points) == len(values)
    if isinstance(found, KernelExtension):
        fits = fits and points.dtype == values.dtype
    elif fits:
        (n, d), near = points.shape, found.indices
        fits = near.ndim == 2 and len(near) == n and bool(((near >= 0) & (near < n)).all())
        fits = fits and found.factors.shape == values.shape[1:] and found.frame.centre.shape == (d,)
    if not fits:
        raise InputError(
            f"expected points, values and neighbours of one cloud, got {[*points.shape]} points "
            f"and {[*values.shape]} values"
        )


def beginning_with(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those of the tensors whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
    }
