"""Points -> graph: the k nearest neighbours of every point and their distances.

    indices[i, j], distances[i, j]   the j-th nearest neighbour of point i, ascending;  (n, k)

Euclidean distance, or cosine distance ``1 - <x, y>/(|x||y|)``, which is half the squared Euclidean distance of the
normalised points, so that one search serves both. Backends are isolated behind `neighbours`: a KD-tree for few
dimensions, blocks of a matrix product for many (any device), and two approximate ones, both optional: an inverted file
(faiss, chosen for more than 50 000 points of many dimensions on the CPU) and neighbour descent (pynndescent).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from .order import REORDER, morton_order

Metric = Literal["euclidean", "cosine"]
Backend = Literal["auto", "kdtree", "torch", "faiss", "pynndescent"]
KDTREE_DIMENSIONS = 12  # above this a KD-tree visits most of its leaves
BLOCK_ENTRIES = 1 << 24  # distances held at once by the torch backend
BLOCKS_ON_DEVICE = 1 << 15  # points of few dimensions up to which a GPU compares all pairs
EXACT_POINTS = 50_000  # points of many dimensions up to which the CPU compares all pairs
SPARE = 3


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
        backend = _choose(data)
    if backend not in SEARCHES:
        raise InputError(f"backend must be 'auto' or one of {', '.join(map(repr, SEARCHES))}, got {backend!r}")
    indices, distances = SEARCHES[backend](data, queries, k)
    return indices.to(data.device), distances.to(data.device)


def _choose(data: Tensor) -> Backend:
    """Few dimensions: a tree on the host, which beats n^2 distances even on a GPU unless the cloud is small."""
    n, d = data.shape
    small_on_device = data.device.type != "cpu" and n < BLOCKS_ON_DEVICE
    if d <= KDTREE_DIMENSIONS and not small_on_device:
        return "kdtree"
    approximate = data.device.type == "cpu" and n > EXACT_POINTS
    return "faiss" if approximate and find_spec("faiss") is not None else "torch"


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

    order = None
    if data is queries and data.shape[1] <= 3 and data.shape[0] > REORDER:
        # Along a space-filling curve consecutive queries visit the same leaves, which are then in cache.
        order = morton_order(data).cpu()
    points = data.detach().cpu()
    points = points if order is None else points[order]
    tree = cKDTree(points.numpy(), balanced_tree=False)
    sought = points if data is queries else queries.detach().cpu()
    found, lengths = tree.query(sought.numpy(), k=np.arange(1, k + 1), workers=-1)[::-1]
    indices, distances = torch.from_numpy(found), torch.from_numpy(lengths)
    if order is None:
        return indices, distances
    indices = torch.empty_like(indices).index_copy_(0, order, order[indices])
    return indices, torch.empty_like(distances).index_copy_(0, order, distances)


def _blocks(data: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Exact search by blocks of ``|x|^2 - 2<x, y>``; winners' distances are computed again without cancellation."""
    centre = data.mean(0)
    same = data is queries
    data = data - centre
    queries = data if same else queries - centre
    norms = data.square().sum(1)
    step = max(1, BLOCK_ENTRIES // data.shape[0])
    spare = min(k + SPARE, data.shape[0])  # cancellation may swap near ties, so a few more than k compete
    indices, distances = [], []
    for part in queries.split(step):
        scores = torch.addmm(norms, part, data.T, alpha=-2)
        near = torch.topk(scores, spare, largest=False, sorted=False).indices
        length = (data[near] - part[:, None]).norm(dim=2)
        length, place = length.topk(k, largest=False)
        indices.append(near.gather(1, place))
        distances.append(length)
    return torch.cat(indices), torch.cat(distances)


def _faiss(data: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Approximate: an inverted file of about 4 sqrt(n) cells, of which one in sixteen is searched."""
    import faiss

    points = np.ascontiguousarray(data.detach().cpu().numpy(), np.float32)
    sought = points if data is queries else np.ascontiguousarray(queries.detach().cpu().numpy(), np.float32)
    n, d = points.shape
    cells = max(1, min(int(4 * n**0.5), n // 40))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, cells)
    index.cp.niter, index.cp.seed, index.cp.max_points_per_centroid = 8, 0, 64
    index.train(points)
    index.add(points)
    index.nprobe = max(8, cells // 16)
    squared, found = index.search(sought, k)
    if (found < 0).any():  # cells that held fewer than k points: those queries are searched exactly
        rows = np.nonzero((found < 0).any(1))[0]
        fixed, lengths = _blocks(data.cpu(), torch.from_numpy(sought[rows]).to(data.dtype), k)
        found[rows], squared[rows] = fixed.numpy(), lengths.square().numpy()
    return torch.from_numpy(found), torch.from_numpy(squared).clamp_min(0).sqrt()


def _pynndescent(data: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Approximate: neighbour descent."""
    from pynndescent import NNDescent

    points = data.detach().cpu().numpy().astype(np.float32)
    index = NNDescent(points, n_neighbors=max(k, 15), random_state=0)
    if data is queries:
        found, lengths = (part[:, :k] for part in index.neighbor_graph)
    else:
        found, lengths = index.query(queries.detach().cpu().numpy().astype(np.float32), k=k)
    return torch.from_numpy(found.astype(np.int64)), torch.from_numpy(np.ascontiguousarray(lengths))


SEARCHES: dict[str, Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]] = {
    "kdtree": _kdtree,
    "torch": _blocks,
    "faiss": _faiss,
    "pynndescent": _pynndescent,
}
