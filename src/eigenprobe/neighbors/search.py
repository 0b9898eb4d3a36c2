"""Points -> graph: the k nearest neighbours of every point and their distances.

    indices[i, j], distances[i, j]   the j-th nearest neighbour of point i, ascending;  (n, k)

Euclidean distance, or cosine distance ``1 - <x, y>/(|x||y|)``, which is half the squared Euclidean
distance of the normalised points, so that one search serves both. Backends are isolated behind
`searcher`: a KD-tree for few dimensions, blocks of a matrix product for many (any device), and
approximate ones: cells (chosen for more than 50 000 points of many dimensions), neighbour descent
(pynndescent, which has other metrics). On a device clouds of ordinary space are sorted into a grid.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, extra
from ..host.threads import cores, side_by_side
from .grid import Lists, Search, cell_search, grid_search
from .layout import MEMORY, rows_at_once

Metric = Literal["euclidean", "cosine"]
Backend = Literal["auto", "kdtree", "torch", "cells", "pynndescent"]
KDTREE_DIMENSIONS = 12  # above this a KD-tree visits most of its leaves
QUERIES = 2048  # of a KD-tree, that a core takes at once
GROUP = 12  # columns of scores that a minimum stands for
ROWS = 128  # of queries in a block, at least: a matrix product of fewer is slower
BLOCKS_ON_DEVICE = 1 << 15  # points of few dimensions up to which a GPU compares all pairs
EXACT_POINTS = 50_000  # points of many dimensions up to which all pairs are compared ...
EXACT_WORK = 2e11  # ... on a processor: pairs times dimensions (5 s on a core)
FEW_ROWS = 5000  # compared with each other by any metric
BINARY = (
    "dice",
    "jaccard",
    "rogerstanimoto",
    "russellrao",
    "sokalmichener",
    "sokalsneath",
    "yule",
)  # present or not
SPARE = 3  # candidates beyond k: rounding in a matrix product may swap near ties
ROUNDING = 64  # of a squared distance by a matrix product, in units of eps times the squared norms
HARMLESS = 1e-3  # rounding of a squared distance that may choose among a cloud's own points


def query(
    points: Tensor, new: Tensor, k: int, metric: Metric = "euclidean", backend: Backend = "auto"
) -> Lists:
    """The ``k`` nearest of ``points (n, d)`` for every new point: indices and distances, ``(m,
    k)``. A row depends on its own point alone, ties included: they go to the lower index, or as the
    tree finds them.
    """
    data, new = (search_space(each, metric) for each in (points, new))
    near, lengths = nearest_rows(data, new, min(k, len(data)), backend)
    return near, (lengths.square() / 2 if metric == "cosine" else lengths).to(points.dtype)


def nearest_rows(data: Tensor, queries: Tensor, k: int, backend: Backend = "auto") -> Lists:
    """Euclidean ``k`` nearest rows of ``data`` for every row of ``queries``; one function over all
    backends.
    """
    if backend == "auto" and data.device.type != "cpu" and data.shape[1] <= 3:
        if len(data) * len(queries) > MEMORY:  # more pairs than one block holds
            return grid_search(data, k, queries=None if data is queries else queries)
        backend = "torch"
    return searcher(data, backend)(queries, k)


def searcher(
    data: Tensor,
    backend: Backend = "auto",
    metric: str | Callable[..., float] = "euclidean",
    options: dict[str, Any] | None = None,
) -> Search:
    """The search among the rows of ``data``: a function ``(queries (m, d), k) -> indices, distances
    (m, k)``.

    ``metric`` is Euclidean, or another one that scikit-learn (for few rows) or pynndescent knows,
    or a function of two rows; ``options`` are its further arguments.
    """
    if metric != "euclidean":
        return _other(data, metric, options or {})
    if backend == "auto":
        backend = _choose(data)
    if backend not in SEARCHES:
        raise InputError(
            f"backend must be 'auto' or one of {', '.join(map(repr, SEARCHES))}, got {backend!r}"
        )
    return SEARCHES[backend](data)


def _choose(data: Tensor) -> Backend:
    """Few dimensions: a tree on the host, which beats n^2 distances even on a GPU unless the cloud
    is small.
    """
    n, d = data.shape
    small_on_device = data.device.type != "cpu" and n < BLOCKS_ON_DEVICE
    if d <= KDTREE_DIMENSIONS and not small_on_device:
        return "kdtree"
    dear = data.device.type == "cpu" and float(n) * n * d > EXACT_WORK
    return "cells" if n > EXACT_POINTS or dear else "torch"


def search_space(points: Tensor, metric: str) -> Tensor:
    if metric == "euclidean":
        return points
    if metric == "cosine":
        norm = points.norm(dim=1, keepdim=True)
        if len(zero := (norm[:, 0] == 0).nonzero()):
            raise InputError(
                f"cosine distance needs non-zero rows, row {int(zero[0, 0])} is all zeros"
            )
        return points / norm
    raise InputError(f"metric must be 'euclidean' or 'cosine', got {metric!r}")


def without_self(indices: Tensor, distances: Tensor) -> Lists:
    """Lists ``(n, k - 1)`` without the point itself, whose index is its row.

    Where copies fill a list and it is missing, the farthest goes.
    """
    rows = torch.arange(len(indices), device=indices.device)
    if bool((indices[:, 0] == rows).all()):  # nearly always: no copies
        return indices[:, 1:].contiguous(), distances[:, 1:].contiguous()
    own = indices == rows[:, None]
    own[:, -1] |= ~own.any(1)
    shape = (len(indices), indices.shape[1] - 1)
    return indices[~own].reshape(shape), distances[~own].reshape(shape)


def nearest_sparse(matrix: Any, k: int, metric: Metric) -> Lists:
    """The ``k`` nearest other rows of every row of a scipy CSR matrix, exactly: indices and
    distances ``(n, k)``, by sparse products, a block of rows at a time.
    """
    from sklearn import config_context
    from sklearn.neighbors import NearestNeighbors

    # Otherwise every pair of rows is a product of its own.
    with config_context(enable_cython_pairwise_dist=False, working_memory=8 * MEMORY >> 20):
        search = NearestNeighbors(n_neighbors=k, metric=metric, algorithm="brute").fit(matrix)
        lengths, near = search.kneighbors()
    return torch.from_numpy(near), torch.from_numpy(lengths).float()


def _kdtree(data: Tensor) -> Search:
    """On all processors, some queries at a time: the tree's own threads would go on writing into
    arrays that an interrupt of their caller has freed.
    """
    from scipy.spatial import cKDTree

    tree = cKDTree(data.detach().cpu().numpy(), balanced_tree=False)

    def search(queries: Tensor, k: int) -> Lists:
        parts = [part.numpy() for part in queries.detach().cpu().split(QUERIES)]
        found = side_by_side(partial(tree.query, k=np.arange(1, k + 1)), parts)
        arrays = (torch.from_numpy(np.concatenate(each)) for each in zip(*found, strict=True))
        lengths, indices = (each.to(queries.device) for each in arrays)
        return indices, lengths

    return search


def _blocks(data: Tensor, queries: Tensor, k: int) -> Lists:
    """Exact search by blocks of ``|x|^2 - 2<x, y>``; winners' distances are computed again without
    cancellation, and rows where rounding may have chosen are searched in double precision.
    """
    centre, same, single = data.mean(0), data is queries, data.dtype != torch.float64
    data = data - centre
    queries = data if same else queries - centre
    norms = data.square().sum(1)
    widest, rounding = norms.max(), ROUNDING * torch.finfo(data.dtype).eps
    spare = min(k + SPARE, len(data))

    def search(part: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores = torch.addmm(norms, part, data.T, alpha=-2)
        near = _smallest(scores, spare)
        near, length = ranked(data, part, near if same else near.sort(1).values)
        own = part.square().sum(1)
        kth, slack = length[:, k - 1].square(), rounding * (own + widest)
        doubtful = (length[:, -1].square() <= kth + slack) & (spare < len(data))
        if same:  # of tied neighbours any will do
            doubtful &= (slack > HARMLESS * kth) & single
        for row in [] if single else doubtful.nonzero()[:, 0].tolist():
            within = (scores[row] <= kth[row] - own[row] + 2 * slack[row]).nonzero()[:, 0]
            found = ranked(data, part[row : row + 1], within[None])
            near[row, :k], length[row, :k] = (each[0, :k] for each in found)
        return near[:, :k], length[:, :k], doubtful

    step = max(ROWS, rows_at_once(data.device, len(data)))
    found = side_by_side(search, queries.split(step), data.device)
    indices, lengths, doubtful = (torch.cat(each) for each in zip(*found, strict=True))
    rows = doubtful.nonzero()[:, 0]
    if single and len(rows):
        indices[rows], again = _blocks(data.double(), queries[rows].double(), k)
        lengths[rows] = again.to(lengths)
    return indices, lengths


def ranked(data: Tensor, queries: Tensor, near: Tensor) -> Lists:
    """Candidates ``(m, c)`` of queries ``(m, d)`` by their distances ``(m, c)``; ties stay."""
    lengths = torch.empty(near.shape, dtype=data.dtype, device=data.device)
    size = rows_at_once(data.device, near.shape[1] * data.shape[1])
    for out, x, rows in zip(
        lengths.split(size), queries.split(size), near.split(size), strict=True
    ):
        apart = data.index_select(0, rows.flatten()).unflatten(0, rows.shape).sub_(x[:, None])
        out.copy_(apart.norm(dim=2))
    lengths, place = lengths.sort(stable=True, dim=1)
    return near.gather(1, place), lengths


def _smallest(scores: Tensor, k: int) -> Tensor:
    """Columns ``(m, k)`` of the smallest scores ``(m, n)``, in any order: they lie in the ``k``
    groups of columns whose smallest are smallest, and a minimum is several times faster than a
    choice.
    """
    groups = scores.shape[1] // GROUP
    if scores.device.type != "cpu" or groups < 4 * k:
        return torch.topk(scores, k, largest=False, sorted=False).indices
    lowest = scores[:, : groups * GROUP].unflatten(1, (GROUP, groups)).amin(1)
    chosen = torch.topk(lowest, k, largest=False, sorted=False).indices
    members = (chosen[:, None] + torch.arange(0, groups * GROUP, groups)[:, None]).flatten(1)
    rest = torch.arange(groups * GROUP, scores.shape[1]).expand(len(scores), -1)
    members = torch.cat([members, rest], 1)
    return members.gather(
        1, torch.topk(scores.gather(1, members), k, largest=False, sorted=False).indices
    )


def _other(data: Tensor, metric: str | Callable[..., float], options: dict[str, Any]) -> Search:
    """By another metric: all pairs of few rows, neighbour descent among many (which takes a minute
    to compile).
    """
    from sklearn.neighbors import VALID_METRICS, NearestNeighbors

    many, chosen = len(data) > FEW_ROWS, metric
    if isinstance(metric, str):
        known = {name: name for name in VALID_METRICS["brute"]}
        if many or metric not in known:
            known = extra("pynndescent").distances.named_distances
        if metric not in known:
            raise InputError(
                f"metric must be precomputed or one of {', '.join(sorted(known))}, got {metric!r}"
            )
        chosen = known[metric]
    elif many and not hasattr(metric, "py_func"):
        raise InputError(
            f"more than {FEW_ROWS} rows need a metric compiled by numba.njit, got {metric!r}"
        )
    if many:
        return _descent(data, metric, options)

    def entries(rows: Tensor) -> np.ndarray:
        found = rows.detach().cpu().numpy()
        return found != 0 if metric in BINARY else found

    rest = dict(options)
    order = rest.pop("p", 2) if metric == "minkowski" else 2
    settings = {"metric": chosen, "p": order, "metric_params": rest or None}
    index = NearestNeighbors(algorithm="brute", n_jobs=cores(1), **settings).fit(entries(data))

    def search(queries: Tensor, k: int) -> Lists:
        lengths, found = index.kneighbors(entries(queries), k)
        return torch.from_numpy(found), torch.from_numpy(lengths)

    return search


def _descent(
    data: Tensor,
    metric: str | Callable[..., float] = "euclidean",
    options: dict[str, Any] | None = None,
) -> Search:
    """Approximate: neighbour descent, by any metric that pynndescent knows."""
    rows = data.detach().cpu().float().numpy()
    index = extra("pynndescent").NNDescent(
        rows, metric=metric, metric_kwds=options, random_state=0, n_jobs=cores(-1)
    )

    def search(queries: Tensor, k: int) -> Lists:
        found, lengths = index.neighbor_graph
        if queries is data and k <= found.shape[1]:
            found, lengths = found[:, :k], np.ascontiguousarray(lengths[:, :k])
        else:
            found, lengths = index.query(queries.detach().cpu().float().numpy(), k=k)
        indices = torch.from_numpy(found.astype(np.int64))
        return indices.to(data.device), torch.from_numpy(lengths).to(data.device)

    return search


SEARCHES: dict[str, Callable[[Tensor], Search]] = {
    "kdtree": _kdtree,
    "torch": lambda data: partial(_blocks, data),
    "cells": partial(cell_search, exact=_blocks),
    "pynndescent": _descent,
}
