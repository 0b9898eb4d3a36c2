"""Points -> graph: the k nearest neighbours of every point and their distances.

    indices[i, j], distances[i, j]   the j-th nearest neighbour of point i, ascending;  (n, k)

Euclidean distance, or cosine distance ``1 - <x, y>/(|x||y|)``, which is half the squared Euclidean distance of the
normalised points, so that one search serves both. Backends are isolated behind `nearest_rows`: a KD-tree for few
dimensions, blocks of a matrix product for many (any device), and two approximate ones, both optional: an inverted file
(faiss, chosen for more than 50 000 points of many dimensions on the CPU) and neighbour descent (pynndescent).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, extra
from .graph import Graph, Metric
from .order import REORDER, morton_order

Backend = Literal["auto", "kdtree", "torch", "faiss", "pynndescent"]
KDTREE_DIMENSIONS = 12  # above this a KD-tree visits most of its leaves
BLOCK_ENTRIES = 1 << 24  # distances held at once by the torch backend
CACHE_ENTRIES = 1 << 18  # differences held at once: four times as fast from the cache as from memory
BLOCKS_ON_DEVICE = 1 << 15  # points of few dimensions up to which a GPU compares all pairs
EXACT_POINTS = 50_000  # points of many dimensions up to which the CPU compares all pairs
SPARE = 3  # candidates beyond k: rounding in a matrix product may swap near ties
FEW_QUERIES = 1000  # searched in the thread of the caller: threads take longer to start
QUERIES = 1 << 17  # searched between two looks at whether the caller has gone
ROUNDING = 64  # of a squared distance by a matrix product, in units of eps times the squared norms


def build_graph(
    points: Tensor,
    k: int = 15,
    *,
    metric: Metric = "euclidean",
    self_loops: bool = False,
    backend: Backend = "auto",
    ordered: bool = False,
) -> Graph:
    """The ``k`` nearest neighbours of every point, itself excluded unless ``self_loops`` (then it is the first).

    ``ordered`` says that the points already lie in memory as they lie in space (`order.morton_order`).

    >>> x = torch.tensor([[0.0], [1.0], [3.0]])
    >>> build_graph(x, k=1).indices.ravel().tolist()
    [1, 0, 1]
    """
    n = points.shape[0]
    if k + (not self_loops) > n:
        raise InputError(f"a graph of {k} neighbours needs at least {k + (not self_loops)} points, got {n}")
    search = _search_space(points, metric)
    indices, distances = nearest_rows(search, search, k + (not self_loops), backend, ordered)
    indices, distances = _self_first(indices, distances)
    if not self_loops:
        indices, distances = indices[:, 1:].contiguous(), distances[:, 1:].contiguous()
    if metric == "cosine":
        distances = distances.square() / 2
    return Graph(points, indices, distances.to(points.dtype), metric, self_loops, ordered=ordered)


def query(graph: Graph, new_points: Tensor, k: int, backend: Backend = "auto") -> tuple[Tensor, Tensor]:
    """The ``k`` nearest points of ``graph`` for every new point: indices and distances, ``(m, k)``.

    A row depends on its own point alone, ties included: they go to the lower index, or as the tree finds them.
    """
    data, new = _search_space(graph.points, graph.metric), _search_space(new_points, graph.metric)
    indices, distances = nearest_rows(data, new, min(k, graph.n), backend)
    return indices, (distances.square() / 2 if graph.metric == "cosine" else distances).to(graph.points.dtype)


def nearest_rows(
    data: Tensor, queries: Tensor, k: int, backend: Backend = "auto", ordered: bool = False
) -> tuple[Tensor, Tensor]:
    """Euclidean ``k`` nearest rows of ``data`` for every row of ``queries``; one function over all backends."""
    if backend == "auto":
        backend = _choose(data)
    if backend not in SEARCHES:
        raise InputError(f"backend must be 'auto' or one of {', '.join(map(repr, SEARCHES))}, got {backend!r}")
    if backend == "kdtree" and data is queries and not ordered and data.shape[1] <= 3 and len(data) > REORDER:
        # Along a space-filling curve consecutive queries visit the same leaves, which are then in cache.
        order = morton_order(data)
        found, lengths = nearest_rows(sorted_data := data[order], sorted_data, k, backend, ordered=True)
        indices = torch.empty_like(found).index_copy_(0, order, order[found])
        return indices, torch.empty_like(lengths).index_copy_(0, order, lengths)
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

    points = data.detach().cpu().numpy()
    sought = points if data is queries else queries.detach().cpu().numpy()
    found, lengths = tree_query(cKDTree(points, balanced_tree=False), sought, k)
    return torch.from_numpy(found), torch.from_numpy(lengths)


def tree_query(tree: Any, sought: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and distances ``(m, k)`` of the nearest points of a KD-tree, on all processors.

    An interrupt may come at any time. The tree's threads would go on writing into arrays that its exception has freed,
    so that they are started from a thread of their own, which no interrupt reaches, and waited for.
    """
    nearest = np.arange(1, k + 1)
    if len(sought) < FEW_QUERIES:
        lengths, found = tree.query(sought, nearest)
        return found, lengths
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    stopped = threading.Event()

    def search() -> None:
        for start in range(0, len(sought), QUERIES):
            if not stopped.is_set():
                parts.append(tree.query(sought[start : start + QUERIES], nearest, workers=-1))

    with ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(search).result()
        finally:
            stopped.set()
    distances, indices = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    return indices, distances


def _blocks(data: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Exact search by blocks of ``|x|^2 - 2<x, y>``; winners' distances are computed again without cancellation."""
    centre = data.mean(0)
    same = data is queries
    data = data - centre
    queries = data if same else queries - centre
    norms = data.square().sum(1)
    spare = min(k + SPARE, data.shape[0])
    step = max(1, BLOCK_ENTRIES // data.shape[0])
    indices, distances = [], []
    for part in queries.split(step):
        scores = torch.addmm(norms, part, data.T, alpha=-2)
        near = torch.topk(scores, spare, largest=False, sorted=False).indices
        if not same:
            near = near.sort(1).values
        length = _lengths(data, part, near)
        length, place = length.topk(k, largest=False) if same else length.sort(stable=True, dim=1)
        near = near.gather(1, place)
        if not same and spare < data.shape[0]:
            _settle_ties(data, part, scores, near, length, k)
        indices.append(near[:, :k])
        distances.append(length[:, :k])
    return torch.cat(indices), torch.cat(distances)


def _lengths(data: Tensor, part: Tensor, near: Tensor) -> Tensor:
    """Distances ``(m, c)`` of queries ``(m, d)`` to their candidates, as many at once as the cache holds."""
    entries = CACHE_ENTRIES if data.device.type == "cpu" else BLOCK_ENTRIES
    size = max(1, entries // (near.shape[1] * data.shape[1]))
    lengths = torch.empty(near.shape, dtype=data.dtype, device=data.device)
    for out, x, chosen in zip(lengths.split(size), part.split(size), near.split(size), strict=True):
        out.copy_((data[chosen] - x[:, None]).norm(dim=2))
    return lengths


def _settle_ties(data: Tensor, part: Tensor, scores: Tensor, near: Tensor, length: Tensor, k: int) -> None:
    """Rows whose candidates end in a tie, where rounding chose them, choose again among all points that near, in place.

    ``scores (m, n)`` of the queries ``part (m, d)``; candidates ``near`` and ``length (m, k + SPARE)``, ascending.
    """
    own = part.square().sum(1)
    slack = ROUNDING * torch.finfo(data.dtype).eps * (own + data.square().sum(1).max())
    bound = length[:, k - 1].square() + slack
    for row in (length[:, -1].square() <= bound).nonzero()[:, 0].tolist():
        within = (scores[row] <= bound[row] - own[row] + slack[row]).nonzero()[:, 0]
        found, order = (data[within] - part[row]).norm(dim=1).sort(stable=True)
        near[row, :k], length[row, :k] = within[order[:k]], found[:k]


def _faiss(data: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Approximate: an inverted file of about 4 sqrt(n) cells, of which one in sixteen is searched."""
    faiss = extra("faiss")
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
    points = data.detach().cpu().numpy().astype(np.float32)
    index = extra("pynndescent").NNDescent(points, n_neighbors=max(k, 15), random_state=0)
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
