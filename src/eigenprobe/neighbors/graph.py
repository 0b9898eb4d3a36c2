"""Who is a neighbour of whom: ``indices[i, j]`` is the j-th nearest neighbour of point i,
``distances[i, j]`` how far.

    head[e] < tail[e]                          undirected: every edge once;  (e,)
    at(values)[i] = sum_{e at i} values[e]     (e, ...) -> (n, ...)

Several clouds may share one graph: their points are stacked, ``clouds`` holds their sizes, and no
edge joins two.

The intrinsic dimension of a cloud: that of most of its places.

    r_a = variance a of the 16 nearest neighbours / the first,  a = 2, 3      (d,) per point
    e   = min_i (second largest of <x - y_i, y_j - x> / |y_i - x| |y_j - x|)  the emptiest side

In ordinary space a place has one dimension and one more for each r_a above 1/4, medians of the
points around it; the third only where a quarter of those points are surrounded (e large: no side
is empty).  Each number alone fails: r_3 is large on a thin plate, whose two sides share
neighbourhoods, but every point of a plate has an empty side; e is large on a noisy surface, but its
neighbourhoods are still flat.  A curve or a surface with noise below the spacing keeps its
dimension; noise well above the spacing makes a curve a tube and a surface a slab, which no
statistic can tell from solids of that thickness.  Above three dimensions it is the growth of the
number of neighbours, k ~ r^dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..host.validation import validated
from ..points import as_tensor
from .grid import grid_search
from .layout import SOME, Segments, principal_axes, rows_at_once
from .search import Backend, Metric, nearest_rows, search_space, without_self

FRAME = 10  # neighbours that span a tangent plane
RING = 6  # neighbours round a point of an even surface, whose distances are the spacing


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
        vectors ``(e, d)`` at either end."""
        d = ahead.shape[1]
        size = rows_at_once(weight.device, d**2)
        total = weight.new_zeros((self.n, d * d))
        for ends, vectors in ((self.head, ahead), (self.tail, behind)):
            parts = (each.split(size) for each in (ends, weight, vectors))
            for at, w, v in zip(*parts, strict=True):
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
    rows, columns = torch.arange(n, device=indices.device).repeat_interleave(k), indices.flatten()
    if keep is not None:
        kept = keep.flatten().nonzero()[:, 0]
        rows, columns = rows[kept], columns[kept]
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
    for _ in range(n):  # each round passes the first name on by an edge or more
        before, further = name, name[name]
        for one, other in ((head, tail), (tail, head)):
            smaller = further[other]
            name = name.scatter_reduce(0, before[one], smaller, "amin").scatter_reduce_(
                0, one, smaller, "amin"
            )
        name = torch.minimum(name, further)
        if bool((name == before).all()):
            break
    first, labels = name.unique(return_inverse=True)
    return len(first), labels


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
        squared = self.distances[:, :RING].square().mean(1)
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
        return self._map(lambda values: torch.as_tensor(values).numpy(force=True))

    def _map(self, convert: Callable[[Any], Any]) -> Graph:
        names = ("points", "indices", "distances")
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
            rows = slice(start, start + size)
            arrays = (self.points[rows], self.indices[rows] - start, self.distances[rows])
            found.append(Graph(*arrays, self.metric, self.self_loops, (), self.ordered))
        return found

    def components(self) -> tuple[int, Tensor]:
        """The number of connected components and the label of every point (edges count both
        ways).
        """
        indices = self.torch().indices
        heads = torch.arange(self.n, device=indices.device).repeat_interleave(self.k)
        count, labels = components(heads, indices.reshape(-1), self.n)
        return count, labels if indices is self.indices else labels.numpy()  # type: ignore


def local_spacing(indices: Tensor, distances: Tensor) -> Tensor:
    """Root mean square distance ``(n,)`` to the nearest six, averaged (in the logarithm) over the
    point and those six.
    """
    around = indices[:, :RING]
    own = distances[:, :RING].square().mean(1).sqrt().log()
    return ((own + own[around].sum(1)) / (around.shape[1] + 1)).exp()


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
    """The nearest neighbours of every point.

    Parameters
    ----------
    points
        ``(n, d)``: a tensor gives a graph of tensors on its device; an array, a list, a file or a
        mesh one of numpy arrays.
    k
        How many neighbours.
    metric
        ``"euclidean"`` or ``"cosine"``.
    self_loops
        Whether every point is its own first neighbour, too.
    backend
        How they are searched: ``"auto"`` or a backend of the search.
    ordered
        Whether points that are near in space are near in memory already.
    clouds
        Sizes of stacked clouds, each of which is searched in itself.

    Returns
    -------
    Graph
        With ``points (n, d)``, ``indices (n, k)`` and ``distances (n, k)``.

    Examples
    --------
    >>> x = torch.tensor([[0.0], [1.0], [3.0]])
    >>> build_graph(x, k=1).indices.ravel().tolist()
    [1, 0, 1]
    """
    given, points = points, as_tensor(points)
    sizes = clouds or (len(points),)
    count = k + (not self_loops)
    if k < 1 or min(sizes) < count:
        raise InputError(
            f"a graph of {k} neighbours needs at least {max(k, 1) + (not self_loops)} points, "
            f"got {min(sizes)}"
        )
    space = search_space(points, metric)
    if clouds and points.device.type != "cpu" and points.shape[1] <= 3:
        indices, distances = grid_search(space, count, clouds)
    else:
        found = [nearest_rows(x, x, count, backend) for x in space.split(list(sizes))]
        first = Segments(sizes, points.device).first
        indices = torch.cat([near + start for (near, _), start in zip(found, first, strict=True)])
        distances = torch.cat([lengths for _, lengths in found])
    indices, distances = without_self(indices, distances)
    if self_loops:
        own = torch.arange(len(points), device=points.device)[:, None]
        indices = torch.cat([own, indices], 1)
        distances = torch.nn.functional.pad(distances, (1, 0))
    if metric == "cosine":
        distances = distances.square() / 2
    graph = Graph(points, indices, distances.to(points.dtype), metric, self_loops, clouds, ordered)
    return graph if isinstance(given, Tensor) else graph.numpy()


TIED = 1e-6  # relative difference of distances that are equal but for rounding
# neighbours whose variances are compared, in as many columns at most: two rings and more
NEAREST = 16
AROUND = 3  # every third neighbour speaks for the surroundings of a place
# r_a of a further dimension, and the share of surrounded points around a place in a solid
QUARTER = 0.25
OPEN = 0.45  # e of a point that is surrounded


def estimate_dimension(graph: Graph) -> float:
    """The intrinsic dimension of the whole cloud: in ordinary space that of most of its places."""
    graph, d = graph.without_loops(), graph.points.shape[1]
    if graph.metric == "euclidean" and 0 < d <= NEAREST:
        if d <= 3:
            return cloud_dimensions(graph)[0]
        axes = int((_variances(graph, _centres(graph).flatten()).median(0).values > QUARTER).sum())
        if axes <= 2:
            return float(max(1, axes))
    near, far = graph.distances[:, graph.k // 2 - 1], graph.distances[:, -1]
    # Where the two are equal but for rounding, as between one-hot rows, there is no growth.
    slope = (far / near).log()[(near > 0) & (far > near * (1 + TIED))]
    if not len(slope):
        return 1.0
    growth = math.log(graph.k / max(1, graph.k // 2))
    power = 2 if graph.metric == "cosine" else 1  # a cosine distance is a squared length
    return min(float(d or math.inf), max(1.0, power * growth / float(slope.mean())))


def cloud_dimensions(graph: Graph) -> list[float]:
    """The dimension of every one of the stacked clouds of a graph, in three dimensions or fewer."""
    return place_dimensions(graph).mode(1).values.double().tolist()


def place_dimensions(graph: Graph) -> Tensor:
    """The dimension at some places of every cloud, ``(b, s)``, in three dimensions or fewer."""
    rows = _centres(graph)
    return _ordinary(graph, rows.flatten()).view(rows.shape)


def _centres(graph: Graph) -> Tensor:
    """Rows ``(b, SOME)`` spread over every cloud."""
    share = torch.arange(SOME, device=graph.device)
    return share * graph.each.counts[:, None] // SOME + graph.each.first[:, None]


def _ordinary(graph: Graph, centres: Tensor) -> Tensor:
    """The dimension at ``centres (s,)`` of a cloud in at most three dimensions: 1, 2 or 3."""
    around = torch.cat([centres[:, None], graph.indices[centres, ::AROUND]], 1)
    rows, place = around.unique(return_inverse=True)
    typical = _variances(graph, rows)[place].median(1).values  # (s, d)
    label = 1 + (typical[:, 1:2] > QUARTER).sum(1)
    if typical.shape[1] == 3:
        thick = ((label == 2) & (typical[:, 2] > QUARTER)).nonzero()[:, 0]
        rows, place = around[thick].unique(return_inverse=True)
        label[thick] += _surrounded(graph, rows)[place].mean(1) > QUARTER
    return label


def _surrounded(graph: Graph, rows: Tensor) -> Tensor:
    """1 where at least two neighbours of a point lie opposite to each of them, else 0; ``(r,)``."""
    result = [graph.points.new_zeros(0)]
    for part in rows.split(rows_at_once(rows.device, graph.k**2)):
        offsets = graph.points[graph.indices[part]] - graph.points[part, None]
        units = offsets / graph.distances[part, :, None].clamp_min(torch.finfo(offsets.dtype).tiny)
        second = ((units @ -units.mT) > OPEN).sum(1).amin(1) > 1
        result.append(second.to(offsets.dtype))
    return torch.cat(result)


def _variances(graph: Graph, rows: Tensor) -> Tensor:
    """Variances of the nearest neighbours of ``rows`` along their principal axes over the first,
    descending.
    """
    offsets = graph.points[graph.indices[rows, :NEAREST]] - graph.points[rows, None]
    offsets = offsets - offsets.mean(1, keepdim=True)
    variances = principal_axes(offsets.mT @ offsets)[0].clamp_min(0).flip(1)
    return variances / variances[:, :1].clamp_min(torch.finfo(variances.dtype).tiny)
