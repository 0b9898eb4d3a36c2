"""Points -> graph: the k nearest neighbours of every point and their distances.

    indices[i, j], distances[i, j]   the j-th nearest neighbour of point i, ascending;  (n, k)

Euclidean distance, or cosine distance ``1 - <x, y>/(|x||y|)``, which is half the squared Euclidean distance of the
normalised points, so that one search serves both. Backends are isolated in `neighbours`: a KD-tree for few
dimensions on the CPU, blocks of a matrix product otherwise (any device).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from .errors import InputError

Metric = Literal["euclidean", "cosine"]
Backend = Literal["auto", "kdtree", "torch", "faiss", "pynndescent"]
KDTREE_DIMENSIONS = 12  # above this a KD-tree visits most of its leaves
BLOCK_ENTRIES = 1 << 24  # distances held at once by the torch backend


@dataclass(frozen=True)
class Graph:
    """A directed k-nearest-neighbour graph: ``points`` (n, d), ``indices`` and ``distances`` (n, k).

    ``distances`` are in the chosen metric, ascending. With ``self_loops`` the first column is the point itself.
    """

    points: Tensor
    indices: Tensor
    distances: Tensor
    metric: Metric = "euclidean"
    self_loops: bool = False

    @property
    def n(self) -> int:
        return self.indices.shape[0]

    @property
    def k(self) -> int:
        return self.indices.shape[1]

    @property
    def device(self) -> torch.device:
        return self.indices.device

    def truncate(self, k: int) -> Graph:
        """The graph of the ``k`` nearest neighbours only."""
        return Graph(self.points, self.indices[:, :k], self.distances[:, :k], self.metric, self.self_loops)

    def components(self) -> tuple[int, Tensor]:
        """The number of connected components and the label of every point (edges count both ways)."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        columns = self.indices.cpu().numpy()
        pointers = np.arange(0, columns.size + 1, columns.shape[1])
        matrix = csr_array((np.ones(columns.size, np.int8), columns.ravel(), pointers), shape=(self.n, self.n))
        count, labels = connected_components(matrix, directed=True, connection="weak")
        return int(count), torch.from_numpy(labels.astype(np.int64)).to(self.device)


def build_graph(
    points: Tensor,
    k: int = 15,
    *,
    metric: Metric = "euclidean",
    self_loops: bool = False,
    backend: Backend = "auto",
) -> Graph:
    """The ``k`` nearest neighbours of every point, itself excluded unless ``self_loops`` (then it is the first).

    >>> x = torch.tensor([[0.0], [1.0], [3.0]])
    >>> build_graph(x, k=1).indices.ravel().tolist()
    [1, 0, 1]
    """
    n = points.shape[0]
    if k + (not self_loops) > n:
        raise InputError(f"a graph of {k} neighbours needs at least {k + (not self_loops)} points, got {n}")
    search = _search_space(points, metric)
    indices, distances = neighbours(search, search, k + (not self_loops), backend)
    indices, distances = _self_first(indices, distances)
    if not self_loops:
        indices, distances = indices[:, 1:].contiguous(), distances[:, 1:].contiguous()
    if metric == "cosine":
        distances = distances.square() / 2
    return Graph(points, indices, distances.to(points.dtype), metric, self_loops)


def query(graph: Graph, new_points: Tensor, k: int, backend: Backend = "auto") -> tuple[Tensor, Tensor]:
    """The ``k`` nearest points of ``graph`` for every new point: indices and distances, ``(m, k)``."""
    data, new = _search_space(graph.points, graph.metric), _search_space(new_points, graph.metric)
    indices, distances = neighbours(data, new, min(k, graph.n), backend)
    return indices, (distances.square() / 2 if graph.metric == "cosine" else distances).to(graph.points.dtype)


def neighbours(data: Tensor, queries: Tensor, k: int, backend: Backend = "auto") -> tuple[Tensor, Tensor]:
    """Euclidean ``k`` nearest rows of ``data`` for every row of ``queries``; one function over all backends."""
    if backend == "auto":
        low = data.shape[1] <= KDTREE_DIMENSIONS
        backend = "kdtree" if low and data.device.type == "cpu" else "torch"
    if backend == "kdtree":
        return _kdtree(data, queries, k)
    if backend == "torch":
        return _blocks(data, queries, k)
    raise InputError(f"backend must be 'auto', 'kdtree' or 'torch', got {backend!r}")


def _search_space(points: Tensor, metric: Metric) -> Tensor:
    if metric == "euclidean":
        return points
    if metric == "cosine":
        norm = points.norm(dim=1, keepdim=True)
        if bool((norm == 0).any()):
            row = int((norm[:, 0] == 0).nonzero()[0, 0])
            raise InputError(f"cosine distance needs non-zero rows, row {row} is all zeros")
        return points / norm
    raise InputError(f"metric must be 'euclidean' or 'cosine', got {metric!r}")


def _self_first(indices: Tensor, distances: Tensor) -> tuple[Tensor, Tensor]:
    """Put the point itself in column 0. Duplicates tie at distance zero, so it may stand later or be missing."""
    rows = torch.arange(indices.shape[0], device=indices.device)
    own = indices == rows[:, None]
    place = torch.where(own.any(1), own.int().argmax(1), indices.shape[1] - 1)
    indices, distances = indices.clone(), distances.clone()
    moved = indices[:, 0].clone()
    swap = place > 0
    indices[rows[swap], place[swap]] = moved[swap]
    distances[rows[swap], place[swap]] = distances[swap, 0]
    indices[:, 0], distances[:, 0] = rows, 0
    return indices, distances


def _kdtree(data: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    from scipy.spatial import cKDTree

    tree = cKDTree(data.detach().cpu().numpy(), balanced_tree=False, compact_nodes=False)
    distances, indices = tree.query(queries.detach().cpu().numpy(), k=np.arange(1, k + 1), workers=-1)
    return torch.from_numpy(indices).to(data.device), torch.from_numpy(distances).to(data.device)


def _blocks(data: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Exact search by blocks of ``|x|^2 - 2<x, y>``; distances of the winners are computed again without cancellation."""
    centre = data.mean(0)
    data, queries = data - centre, queries - centre
    norms = data.square().sum(1)
    step = max(1, BLOCK_ENTRIES // data.shape[0])
    indices = torch.cat([torch.topk(norms - 2 * q @ data.T, k, largest=False).indices for q in queries.split(step)])
    distances = torch.cat(
        [(data[j] - q[:, None]).norm(dim=2) for q, j in zip(queries.split(step), indices.split(step), strict=True)]
    )
    distances, order = distances.sort(1)
    return indices.gather(1, order), distances
