"""Undirected edges of a graph, sums over them, and connected components.

head[e] < tail[e]                          every edge once;  (e,)
at(values)[i] = sum_{e at i} values[e]     (e, ...) -> (n, ...)
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..search.segments import nearest


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

    @cached_property
    def components(self) -> tuple[int, Tensor]:
        """The number of connected components and the label ``(n,)`` of every point."""
        return components(self.head, self.tail, self.n)


def undirected(indices: Tensor, keep: Tensor | None = None) -> tuple[Edges, Tensor]:
    """Edges that stand in the list of either end, and the edge ``(n k,)`` (or of every kept entry) of each entry.

    >>> edges, place = undirected(torch.tensor([[1], [0], [1]]))
    >>> edges.head.tolist(), edges.tail.tolist(), place.tolist()
    ([0, 1], [1, 2], [0, 0, 1])
    """
    n, k = indices.shape
    rows = torch.arange(n, device=indices.device)[:, None].expand(n, k)
    rows, columns = (rows.reshape(-1), indices.reshape(-1)) if keep is None else (rows[keep], indices[keep])
    key, order = (torch.minimum(rows, columns) * n + torch.maximum(rows, columns)).sort()
    first = torch.ones_like(key, dtype=torch.bool)
    torch.ne(key[1:], key[:-1], out=first[1:])
    place = torch.empty_like(order)
    place[order] = first.cumsum(0) - 1
    key = key[first]
    return Edges(key // n, key % n, n), place


def components(head: Tensor, tail: Tensor, n: int) -> tuple[int, Tensor]:
    """The number of connected components of the graph with these edges, and the label ``(n,)`` of every point."""
    if head.device.type != "cpu":
        return _joined(head, tail, n)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = (head.cpu().numpy(), tail.cpu().numpy())
    matrix = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(n, n))
    count, labels = connected_components(matrix, directed=False)
    return int(count), torch.from_numpy(labels.astype(np.int64)).to(head.device)


def _joined(head: Tensor, tail: Tensor, n: int) -> tuple[int, Tensor]:
    """The same on any device, without a loop over points [FastSV: Zhang, Azad, Buluc 2020].

    Every point names another of its part, in the end the first one: an edge passes on the smaller name of its two ends
    to both and to those that they name, and names of names are taken, so that long chains need few rounds.
    """
    name = torch.arange(n, device=head.device)
    while True:
        before, further = name, name[name]
        for one, other in ((head, tail), (tail, head)):
            smaller = further[other]
            name = name.scatter_reduce(0, before[one], smaller, "amin").scatter_reduce_(0, one, smaller, "amin")
        name = torch.minimum(name, further)
        if bool((name == before).all()):
            first, labels = name.unique(return_inverse=True)
            return len(first), labels


def connected(points: Tensor, k: int = 8) -> Tensor:
    """Share `(b,)` of the points that lie in the largest component of the `k` nearest-neighbour graph."""
    b, n = points.shape[:2]
    first = n * torch.arange(b, device=points.device)[:, None, None]
    heads = torch.arange(b * n, device=points.device).repeat_interleave(k)
    _, labels = components(heads, (nearest(points, k)[1] + first).flatten(), b * n)
    return torch.bincount(labels)[labels].view(b, n).amax(-1) / n
