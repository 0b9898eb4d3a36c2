"""Who is a neighbour of whom: ``indices[i, j]`` is the j-th nearest neighbour of point i,
``distances[i, j]`` how far.

    head[e] < tail[e]                          undirected: every edge once;  (e,)
    at(values)[i] = sum_{e at i} values[e]     (e, ...) -> (n, ...)

Several clouds may share one graph: their points are stacked, ``clouds`` holds their sizes, and no
edge joins two.

The intrinsic dimension of a cloud, of every sample and as a whole.

    r_a = variance a of the 16 nearest neighbours / the first,  a = 2, 3      (d,) per sample
    e   = min_u (second largest of <u, y_j - x> / |y_j - x|)                  the emptiest direction
    u

In ordinary space a sample lies on a curve where r_2 is small, in a solid where r_3 is large *and*
most samples around it are surrounded (e large: no direction is empty), and on a surface otherwise.
Each number alone fails: r_3 is large on a thin plate, whose two sides share neighbourhoods, but
every point of a plate has an empty side; e is large on a noisy surface, but its neighbourhoods are
still flat.  A curve or a surface with noise below the spacing keeps its dimension; noise well above
the spacing makes a curve a tube and a surface a slab, which no statistic can tell from solids of
that thickness.  Above three dimensions it is the growth of the number of neighbours, k ~ r^dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..host.validation import validated
from ..points import as_tensor
from .grid import grid_search
from .layout import Segments, nearest, principal_axes
from .search import Backend, Metric, nearest_rows, search_space, self_first, without_self

FRAME = 10  # neighbours that span a tangent plane
CACHE = 1 << 18  # numbers that are added up at once on a processor


@dataclass(frozen=True)
class Edges:
    """Undirected edges ``head < tail`` of ``n`` points."""

    head: Tensor  # (e,)
    tail: Tensor  # (e,)
    n: int

    def __len__(self) -> int:
        return self.head.shape[0]

    def at(self, values: Tensor) -> Tensor:
        """Sums of ``values (e, ...)`` over the edges of every point: ``(n, ...)``."""
        return self.at_head(values).index_add_(0, self.tail, values)

    def at_head(self, values: Tensor) -> Tensor:
        """Sums over the edges that begin at every point."""
        return values.new_zeros((self.n, *values.shape[1:])).index_add_(0, self.head, values)

    def at_tail(self, values: Tensor) -> Tensor:
        """Sums over the edges that end at every point."""
        return values.new_zeros((self.n, *values.shape[1:])).index_add_(0, self.tail, values)

    def moments(self, weight: Tensor, ahead: Tensor, behind: Tensor) -> Tensor:
        """Sums ``(n, d, d)`` of ``w v v^T`` over the edges of every point, for weights ``(e,)`` and
        vectors ``(e, d)`` at either end; as many at once as a processor's cache holds."""
        d, size = ahead.shape[1], len(self) or 1
        size = max(1, CACHE // d**2) if weight.device.type == "cpu" else size
        total = weight.new_zeros((self.n, d * d))
        for ends, vectors in ((self.head, ahead), (self.tail, behind)):
            for at, w, v in zip(
                *(each.split(size) for each in (ends, weight, vectors)), strict=True
            ):
                total.index_add_(0, at, (v[..., None] * (w[:, None] * v)[:, None]).flatten(1))
        found = total.unflatten(1, (d, d))
        return found.triu() + found.triu(1).mT  # symmetric to the last digit

    @cached_property
    def components(self) -> tuple[int, Tensor]:
        """The number of connected components and the label ``(n,)`` of every point."""
        return components(self.head, self.tail, self.n)


def undirected(indices: Tensor, keep: Tensor | None = None) -> tuple[Edges, Tensor]:
    """Edges that stand in the list of either end, and the edge ``(n k,)`` (or of every kept entry)
    of each entry.

    >>> edges, place = undirected(torch.tensor([[1], [0], [1]]))
    >>> edges.head.tolist(), edges.tail.tolist(), place.tolist()
    ([0, 1], [1, 2], [0, 0, 1])
    """
    n, k = indices.shape
    if keep is None:
        rows, columns = (
            torch.arange(n, device=indices.device).repeat_interleave(k),
            indices.reshape(-1),
        )
    else:
        rows, place = keep.nonzero(as_tuple=True)
        columns = indices[rows, place]
    key, order = (torch.minimum(rows, columns) * n + torch.maximum(rows, columns)).sort()
    first = torch.ones_like(key, dtype=torch.bool)
    torch.ne(key[1:], key[:-1], out=first[1:])
    place = torch.empty_like(order)
    place[order] = first.cumsum(0) - 1
    key = key[first]
    return Edges(key // n, key % n, n), place


def components(head: Tensor, tail: Tensor, n: int) -> tuple[int, Tensor]:
    """The number of connected components of the graph with these edges, and the label ``(n,)`` of
    every point.
    """
    if head.device.type != "cpu":
        return _joined(head, tail, n)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    matrix = coo_array((np.ones(len(head), np.int8), (head.numpy(), tail.numpy())), shape=(n, n))
    count, labels = connected_components(matrix, directed=False)
    return int(count), torch.from_numpy(labels.astype(np.int64))


def _joined(head: Tensor, tail: Tensor, n: int) -> tuple[int, Tensor]:
    """The same on any device, without a loop over points [FastSV: Zhang, Azad, Buluc 2020].

    Every point names another of its part, in the end the first one: an edge passes on the smaller
    name of its two ends to both and to those that they name, and names of names are taken, so that
    long chains need few rounds.
    """
    name = torch.arange(n, device=head.device)
    while True:
        before, further = name, name[name]
        for one, other in ((head, tail), (tail, head)):
            smaller = further[other]
            name = name.scatter_reduce(0, before[one], smaller, "amin").scatter_reduce_(
                0, one, smaller, "amin"
            )
        name = torch.minimum(name, further)
        if bool((name == before).all()):
            first, labels = name.unique(return_inverse=True)
            return len(first), labels


def connected(points: Tensor, k: int = 8) -> Tensor:
    """Share `(b,)` of the points that lie in the largest component of the `k` nearest-neighbour
    graph.
    """
    b, n = points.shape[:2]
    first = n * torch.arange(b, device=points.device)[:, None, None]
    heads = torch.arange(b * n, device=points.device).repeat_interleave(k)
    _, labels = components(heads, (nearest(points, k)[1] + first).flatten(), b * n)
    return torch.bincount(labels)[labels].view(b, n).amax(-1) / n


def tangent_frames(offsets: Tensor, distances: Tensor, dimension: int) -> Tensor:
    """Orthonormal tangent frames ``(n, d, dim)``: local principal directions of ``offsets (n, k,
    d)``.
    """
    scale = distances[:, -1:].clamp_min(torch.finfo(distances.dtype).tiny)
    weighted = offsets * torch.exp(-(distances / scale).square() / 2)[..., None] / scale[..., None]
    k, d = offsets.shape[1:]
    if d <= k:
        return principal(weighted.mT @ weighted, dimension)
    left = principal(weighted @ weighted.mT, dimension)  # d > k: the small Gram matrix
    frames = weighted.mT @ left
    return frames / frames.norm(dim=1, keepdim=True).clamp_min(torch.finfo(frames.dtype).tiny)


def principal(matrices: Tensor, count: int) -> Tensor:
    """Leading eigenvectors (n, d, count) of many small symmetric matrices (n, d, d)."""
    if not matrices.requires_grad:
        return principal_axes(matrices)[1][..., -count:]
    # Nothing here depends on the choice of vectors in the leading space, whose derivative may be
    # infinite: only the space turns.  The added term is 0, and its derivative is that of the space.
    values, vectors = principal_axes(matrices.detach())
    rest, leading = vectors[..., :-count], vectors[..., -count:]
    gap = values[:, None, -count:] - values[:, :-count, None]
    return leading + rest @ (
        (rest.mT @ matrices @ leading) / gap.clamp_min(torch.finfo(gap.dtype).eps)
    )


@dataclass(frozen=True)
class Graph:
    """A directed k-nearest-neighbour graph: ``points`` (n, d), ``indices`` and ``distances`` (n,
    k).

    The three are tensors, or numpy arrays where the points were (`torch` and `numpy` turn one into
    the other). ``distances`` are in the chosen metric, ascending. With ``self_loops`` the first
    column is the point itself. ``ordered`` says that the points lie in memory as they lie in space,
    so that no further sorting pays.
    """

    points: Tensor
    indices: Tensor
    distances: Tensor
    metric: Any = (
        "euclidean"  # a `Metric`, or another name or function, whose distances are lengths
    )
    self_loops: bool = False
    clouds: tuple[int, ...] = ()  # sizes of stacked clouds; empty: one cloud
    ordered: bool = False
    doubtful: Tensor | None = None  # (c, 2) edges taken out of the lists that may be real after all
    options: dict[str, Any] | None = None  # further arguments of the metric

    @property
    def n(self) -> int:
        return self.indices.shape[0]

    @property
    def k(self) -> int:
        return self.indices.shape[1]

    @property
    def device(self) -> torch.device:
        return self.indices.device

    @cached_property
    def each(self) -> Segments:
        """The stacked clouds."""
        return Segments(self.clouds or (self.n,), self.device)

    def frames(self, dimension: int, rows: Tensor | slice = slice(None)) -> Tensor:
        """Tangent frames ``(n, d, dim)`` of some points of a graph without self-loops, those of the
        nearest `FRAME`.
        """
        offsets = self.points[self.indices[rows, :FRAME]] - self.points[rows, None]
        return tangent_frames(offsets, self.distances[rows, :FRAME], dimension)

    @cached_property
    def unevenness(self) -> Tensor:
        """The deviation ``(b,)`` of the logarithm of the spacing on every cloud: .07 of even
        points, .23 of random ones on a surface.
        """
        squared = self.distances[:, :6].square().mean(1)
        spacing = squared.clamp_min(torch.finfo(squared.dtype).tiny).log() / 2
        apart = spacing - self.each.spread(self.each.mean(spacing))
        return self.each.mean(apart.square()).clamp_min(torch.finfo(squared.dtype).tiny).sqrt()

    @property
    def squared(self) -> Tensor:
        """Squared lengths ``(n, k)``; the cosine distance is one already (half of it between unit
        vectors).
        """
        return self.distances if self.metric == "cosine" else self.distances.square()

    def torch(self) -> Graph:
        """The same graph of tensors."""
        return self._map(torch.as_tensor)

    def numpy(self) -> Graph:
        """The same graph of numpy arrays."""
        return self._map(
            lambda values: values.detach().cpu().numpy() if isinstance(values, Tensor) else values
        )

    def _map(self, convert: Callable[[Any], Any]) -> Graph:
        names = ("points", "indices", "distances") + (
            () if self.doubtful is None else ("doubtful",)
        )
        return replace(self, **{name: convert(getattr(self, name)) for name in names})

    def truncate(self, k: int) -> Graph:
        """The graph of the ``k`` nearest neighbours only."""
        return replace(self, indices=self.indices[:, :k], distances=self.distances[:, :k])

    def without_loops(self) -> Graph:
        """The same graph without the point itself in the first column."""
        if not self.self_loops:
            return self
        return replace(
            self, indices=self.indices[:, 1:], distances=self.distances[:, 1:], self_loops=False
        )

    def parts(self) -> list[Graph]:
        """The graphs of the stacked clouds."""
        found = []
        for start, size in zip(self.each.first.tolist(), self.each.sizes, strict=True):
            rows, own = slice(start, start + size), self.doubtful
            if own is not None:
                own = own[((own >= start) & (own < start + size)).all(1)] - start
            arrays = (self.points[rows], self.indices[rows] - start, self.distances[rows])
            found.append(Graph(*arrays, self.metric, self.self_loops, (), self.ordered, own))
        return found

    def components(self) -> tuple[int, Tensor]:
        """The number of connected components and the label of every point (edges count both
        ways).
        """
        if not isinstance(self.indices, Tensor):
            count, labels = self.torch().components()
            return count, labels.numpy()  # type: ignore[return-value]
        heads = torch.arange(self.n, device=self.device).repeat_interleave(self.k)
        return components(heads, self.indices.reshape(-1), self.n)


class Spacing(NamedTuple):
    """Local spacing ``(n,)``, and the logarithm of a point's own spacing over that of its
    neighbours.
    """

    length: Tensor
    excess: Tensor


def local_spacing(
    indices: Tensor, distances: Tensor, real: Tensor | int | None = None, nearest: int = 6
) -> Spacing:
    """Root mean square distance to the nearest six, averaged (in the logarithm) over the point and
    those six.

    ``real`` counts the neighbours of each row that are not padding.
    """
    few = min(nearest, indices.shape[1])
    squared, around = distances[:, :few].square(), indices[:, :few]
    if not isinstance(real, Tensor):
        own = squared.mean(1).sqrt().log()
        others = own[around].mean(1)
        return Spacing(((own + few * others) / (few + 1)).exp(), own - others)
    share = real.clamp_max(few)
    counts = torch.arange(few, device=around.device) < share[:, None]
    own = ((squared * counts).sum(1) / share).sqrt().log()
    others = (own[around] * counts).sum(1) / share
    return Spacing(((own + share * others) / (share + 1)).exp(), own - others)


def stack(graphs: Sequence[Graph]) -> Graph:
    """Several graphs with equal numbers of neighbours as one, without edges between them."""
    if len({(g.k, g.metric, g.self_loops) for g in graphs}) != 1:
        raise InputError("expected graphs of one metric and one number of neighbours to stack")
    sizes = [g.n for g in graphs]
    first = torch.tensor([0, *sizes[:-1]]).cumsum(0).tolist()
    doubtful = [
        g.doubtful + start for g, start in zip(graphs, first, strict=True) if g.doubtful is not None
    ]
    return replace(
        graphs[0],
        points=torch.cat([g.points for g in graphs]),
        indices=torch.cat([g.indices + start for g, start in zip(graphs, first, strict=True)]),
        distances=torch.cat([g.distances for g in graphs]),
        clouds=tuple(sizes),
        ordered=all(g.ordered for g in graphs),
        doubtful=torch.cat(doubtful) if doubtful else None,
    )


@validated
def build_graph(
    points: Any,
    k: int = 15,
    *,
    metric: Metric = "euclidean",
    self_loops: bool = False,
    backend: Backend = "auto",
    ordered: bool = False,
    clouds: tuple[int, ...] = (),
) -> Graph:
    """The ``k`` nearest neighbours of every point, itself excluded unless ``self_loops`` (then it
    is the first).

    A tensor gives a graph of tensors on its device, a numpy array (a list, a file, a mesh) one of
    numpy arrays. ``ordered`` says that the points already lie in memory as they lie in space
    (`layout.morton_order`); ``clouds`` are the sizes of stacked clouds, each of which is searched
    in itself.

    >>> x = torch.tensor([[0.0], [1.0], [3.0]])
    >>> build_graph(x, k=1).indices.ravel().tolist()
    [1, 0, 1]
    """
    if not isinstance(points, Tensor):
        return build_graph(
            as_tensor(points), k, metric=metric, self_loops=self_loops, backend=backend
        ).numpy()
    points = as_tensor(points)
    n = min(clouds) if clouds else points.shape[0]
    if not 1 <= k <= n - (not self_loops):
        raise InputError(
            f"a graph of {k} neighbours needs at least {max(k, 1) + (not self_loops)} points, "
            f"got {n}"
        )
    space = search_space(points, metric)
    if clouds and points.device.type != "cpu" and points.shape[1] <= 3:
        indices, distances = grid_search(space, k + (not self_loops), clouds)
    elif clouds:
        parts = space.split(list(clouds))
        return stack(
            [
                build_graph(part, k, metric=metric, self_loops=self_loops, backend=backend)
                for part in parts
            ]
        )
    else:
        indices, distances = nearest_rows(space, space, k + (not self_loops), backend, ordered)
    indices, distances = (
        self_first(indices, distances) if self_loops else without_self(indices, distances)
    )
    if metric == "cosine":
        distances = distances.square() / 2
    return Graph(points, indices, distances.to(points.dtype), metric, self_loops, clouds, ordered)


TIED = 1e-6  # relative difference of distances that are equal but for rounding
PCA_DIMENSIONS = (
    16  # ambient dimension up to which local principal components estimate the intrinsic one
)


@dataclass(frozen=True)
class Thickness:
    """Constants, tuned on surfaces (noise of 0, 1, 2 % of the radius) and solids of 500 and 1500
    points.
    """

    nearest: int = 16  # neighbours whose variances are compared
    around: int = 3  # every third neighbour speaks for the surroundings of a sample
    quantile: float = 0.75  # of the ratios around a sample: solids have boundaries too
    flat: float = 0.28  # r_2 of a surface; a curve with noise of two spacings reaches it
    # r_3 of a solid: medians .27 on surfaces with 2 % noise, .43 in solids, .40 on thin plates
    thick: float = 0.375
    open: float = 0.3  # e of a surrounded sample
    # share of surrounded samples around one in a solid: 0 on plates and tubes, .6 in solids
    inside: float = 0.35
    directions: int = 48  # u above, spread over the sphere
    centres: int = 400  # samples that decide for the whole cloud
    stacked: int = 100  # the same where many clouds are stacked


THICKNESS = Thickness()


def estimate_dimension(graph: Graph) -> float:
    """The intrinsic dimension of the whole cloud: in ordinary space that of most of its samples."""
    graph, d = graph.without_loops(), graph.points.shape[1]
    if _comparable(graph):
        step = max(1, graph.n // (THICKNESS.centres if d <= 3 else 2000))
        sample = torch.arange(0, graph.n, step, device=graph.device)
        if d <= 3:
            return float(local_dimension(graph, sample).mode().values)
        count = max(1, int((_variances(graph, sample).median(0).values > THICKNESS.flat).sum()))
        if count <= 2:
            return float(count)
    slope = _slopes(graph)
    if bool(slope.isnan().all()):
        return 1.0
    return min(float(d or math.inf), max(1.0, _growth(graph) / float(slope.nanmean())))


def cloud_dimensions(graph: Graph) -> list[float]:
    """The dimension of every one of the stacked clouds of a graph, in three dimensions or fewer."""
    share = (
        torch.arange(THICKNESS.stacked, dtype=torch.float64, device=graph.device)
        / THICKNESS.stacked
    )
    sample = (share * graph.each.counts[:, None]).long() + graph.each.first[:, None]  # (b, s)
    label = _ordinary(graph, sample.flatten())
    return label.view(sample.shape).mode(1).values.double().tolist()


def local_dimension(graph: Graph, samples: Tensor | None = None) -> Tensor:
    """The intrinsic dimension at every point ``(n,)`` or at ``samples (s,)``: whole numbers in
    ordinary space.

    With all points at hand each follows the middle one of the labels around it.
    """
    graph, d = graph.without_loops(), graph.points.shape[1]
    chosen = torch.arange(graph.n, device=graph.device) if samples is None else samples
    if _comparable(graph) and d <= 3:
        label = _ordinary(graph, chosen)
        label = label[_around(graph, chosen)].median(1).values if samples is None else label
        return label.to(graph.distances.dtype)
    grown = _slopes(graph)[_around(graph, chosen)].nanmean(1)
    dimension = torch.where(grown > 0, _growth(graph) / grown, 1.0).clamp_min(1)
    if _comparable(graph):
        rows, place = _around(graph, chosen).unique(return_inverse=True)
        count = (
            (_variances(graph, rows)[place].median(1).values > THICKNESS.flat).sum(1).clamp_min(1)
        )
        dimension = torch.where(count <= 2, count.to(dimension.dtype), dimension)
    return dimension


def _comparable(graph: Graph) -> bool:
    return 0 < graph.points.shape[1] <= PCA_DIMENSIONS and graph.metric == "euclidean"


def _around(graph: Graph, samples: Tensor) -> Tensor:
    """Each sample and some of its neighbours, near and far: ``(s, a)``."""
    return torch.cat([samples[:, None], graph.indices[samples, :: THICKNESS.around]], 1)


def _ordinary(graph: Graph, samples: Tensor) -> Tensor:
    """The dimension at ``samples (s,)`` of a cloud in at most three dimensions: 1, 2 or 3."""
    around = _around(graph, samples)
    rows, place = around.unique(return_inverse=True)
    typical = _variances(graph, rows)[place].quantile(THICKNESS.quantile, dim=1)  # (s, d)
    label = 1 + (typical[:, 1:2] > THICKNESS.flat).sum(1)
    if typical.shape[1] == 3:
        thick = ((label == 2) & (typical[:, 2] > THICKNESS.thick)).nonzero()[:, 0]
        rows, place = around[thick].unique(return_inverse=True)
        label[thick] += _surrounded(graph, rows)[place].mean(1) > THICKNESS.inside
    return label


def _surrounded(graph: Graph, rows: Tensor) -> Tensor:
    """1 where every direction has at least two neighbours of the point nearby in angle, else 0;
    ``(r,)``.
    """
    directions = sphere_directions(THICKNESS.directions).to(graph.points).T  # (3, u)
    result = []
    for part in rows.split(
        256 if rows.device.type == "cpu" else 4096
    ):  # from the cache four times as fast
        offsets = graph.points[graph.indices[part]] - graph.points[part, None]
        units = offsets / graph.distances[part, :, None].clamp_min(torch.finfo(offsets.dtype).tiny)
        result.append(((units @ directions) > THICKNESS.open).sum(1).amin(1) > 1)
    return torch.cat(result).to(graph.points.dtype)


def sphere_directions(count: int) -> Tensor:
    """Unit vectors ``(count, 3)`` spread evenly along a spiral on the sphere [Fibonacci
    lattice].
    """
    place = torch.arange(count, dtype=torch.float64) + 0.5
    height, angle = 1 - 2 * place / count, math.pi * (1 + 5**0.5) * place
    ring = (1 - height.square()).sqrt()
    return torch.stack([ring * angle.cos(), ring * angle.sin(), height], 1)


def _variances(graph: Graph, rows: Tensor) -> Tensor:
    """Variances of the nearest neighbours of ``rows`` along their principal axes over the first,
    descending.
    """
    offsets = graph.points[graph.indices[rows, : THICKNESS.nearest]] - graph.points[rows, None]
    offsets = offsets - offsets.mean(1, keepdim=True)
    variances = principal_axes(offsets.mT @ offsets)[0].clamp_min(0).flip(1)
    return variances / variances[:, :1].clamp_min(torch.finfo(variances.dtype).tiny)


def _slopes(graph: Graph) -> Tensor:
    """Logarithms ``(n,)`` of the distance to the last neighbour over that to the one half way down
    the list; NaN where the two are equal but for rounding, as between one-hot rows: there is no
    growth.
    """
    near, far = graph.distances[:, graph.k // 2 - 1], graph.distances[:, -1]
    return torch.where((near > 0) & (far > near * (1 + TIED)), torch.log(far / near), torch.nan)


def _growth(graph: Graph) -> float:
    """Logarithm of how many neighbours lie between the two radii, in units of a length: the
    dimension times theirs.
    """
    growth = math.log(graph.k / max(1, graph.k // 2))
    return 2 * growth if graph.metric == "cosine" else growth  # cosine distance is a squared length
