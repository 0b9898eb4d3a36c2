"""Clouds of rows with their neighbours: searched, listed, or those of a matrix instead of rows.

    rows (n, d)                               the k nearest by any metric, copies of one row once
    (indices, distances) (n, k)  ->  D (n, n) sparse
    D (n, n) whole or sparse     ->  the k smallest entries of every row
    affinities W (n, n)          ->  A = (I + R^-1/2 W R^-1/2) / 2,  R: row sums,  M = R / sum R

Distances of metrics other than cosine and Euclidean count as lengths; where there are no
coordinates, what an uneven neighbourhood costs is bounded and not measured
(`smoothers.neighbourhood`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags, identity, issparse
from sklearn.neighbors import NearestNeighbors, sort_graph_by_row_values
from torch import Tensor

from ..cloud.cloud import CloudGraph, distinct
from ..errors import InputError, held_warnings, warn
from ..host.validation import as_array
from ..neighbors.candidates import nearest_others
from ..neighbors.graph import Graph
from ..neighbors.search import BINARY, searcher, without_self
from ..points import Frame
from ..smoothers import Smoother
from ..smoothers.smoother import from_scipy
from .coordinates import AFFINITY, SPATIAL

Metric = str | Callable[..., float]
EQUAL = ("hamming", "matching")  # metrics that count the entries that differ
# of the largest distance: rounding of single precision and of differences of squares is less
SYMMETRIC = 1e-4


def arranged(
    points: Tensor,
    k: int,
    metric: Metric,
    options: dict[str, Any] | None = None,
    frame: Frame | None = None,
) -> CloudGraph:
    """Rows ``(n, d)``, copies of one once, and their ``k`` nearest: by angle, by Euclidean
    distance, by a metric that scikit-learn or pynndescent knows or by a function of two rows.

    Metrics of equal entries want whole numbers or codes; those of presence and absence say what
    counts become.
    """
    frame, x = frame or _frame(points, metric), points
    if metric in EQUAL and bool((x != x.round()).any()):
        raise InputError(f"metric {metric!r} counts entries that differ, and real numbers all do")
    if metric in BINARY:
        if not bool(((x == 0) | (x == 1)).all()):
            warn(
                f"metric {metric!r} knows present and absent only: entries other than 0 count as 1"
            )
        x = x != 0
    x, kept, rows = frame(x, torch.float32), None, None
    with held_warnings():
        if (merged := distinct(x)) is not None:
            kept, rows = merged
            x = x[kept]
    k = min(k, len(x) - 1)
    if metric in SPATIAL:
        indices, distances = nearest_others(x, k)
        distances = distances.square() / 2 if metric == "cosine" else distances
    else:
        try:
            indices, distances = searcher(x, metric=metric, options=options)(x, k + 1)
        except InputError:
            raise
        except (ArithmeticError, LookupError, ValueError, TypeError) as error:
            raise InputError(f"metric {metric!r} cannot compare these rows: {error}") from error
        if not bool((torch.isfinite(distances) & (distances >= -SYMMETRIC)).all()):
            raise InputError(
                f"metric {metric!r} gives NaN, infinite or negative distances of these rows"
            )
        indices, distances = without_self(indices.to(x.device), distances.clamp_min(0).to(x))
    graph = Graph(x, indices, distances, metric, options=options)
    return CloudGraph(points, frame, rows, kept, graph=graph)


def by_distances(
    matrix: Any, k: int | None, points: Tensor, metric: Metric = "precomputed"
) -> CloudGraph:
    """The ``k`` smallest distances of every row (or all that each row has) of a matrix ``(n, n)``,
    whole or sparse; their ``points (n, d)`` have no columns where they are not known."""
    indices, distances = nearest_entries(matrix, k)
    frame = _frame(points, metric)
    distances = distances / (frame.scale if metric == "euclidean" else 1.0)
    lists = (indices.to(points.device), distances.to(points.device))
    return CloudGraph(points, frame, graph=Graph(frame(points, torch.float32), *lists, metric))


def listed(neighbors: tuple[Any, Any], n: int) -> csr_matrix:
    """Lists of neighbours in UMAP's order or in that of scikit-learn (distances, indices), told
    apart by their types, as a sparse matrix ``(n, n)`` of distances."""
    wanted = f"neighbors must be indices and distances, both ({n}, k)"
    try:
        found, lengths = sorted(map(as_array, neighbors), key=lambda each: each.dtype.kind == "f")
        if found.shape != lengths.shape or found.shape[:-1] != (n,):
            raise InputError(f"{wanted}, got {found.shape} and {lengths.shape}")
        first = np.arange(n + 1) * found.shape[1]
        lengths = lengths.astype(float, casting="same_kind")  # no complex ones
        matrix = csr_matrix((lengths.ravel(), found.astype(int).ravel(), first), (n, n))
        matrix.check_format()
    except (TypeError, ValueError) as error:
        raise InputError(f"{wanted}, of rows 0 to {n - 1}: {error}") from error
    alone = matrix.copy()
    alone.sum_duplicates()
    if alone.nnz < matrix.nnz:
        row = int(np.diff(alone.indptr).argmin())
        raise InputError(f"neighbors must differ, row {row} has one twice")
    return matrix


def nearest_entries(matrix: Any, k: int | None = None) -> tuple[Tensor, Tensor]:
    """Columns and values ``(n, k)`` of the smallest entries of every row without its own,
    ascending; without ``k`` as many as every row has."""
    check_entries(matrix, "distances")
    known = abs(matrix)
    if issparse(known):
        known.setdiag(0)  # stored: a row is its own neighbour, which is then left out
        known = sort_graph_by_row_values(known, warn_when_not_sorted=False)
        k = max(1, int(np.diff(known.indptr).min()) - 1) if k is None else k
    try:
        distances, found = (
            NearestNeighbors(n_neighbors=k, metric="precomputed").fit(known).kneighbors()
        )
    except ValueError as error:
        raise InputError(f"every row needs {k} neighbours: {error}") from error
    return torch.from_numpy(found).long(), torch.from_numpy(distances).float()


def check_entries(matrix: Any, name: str) -> None:
    """An error where entries of a matrix, whole or sparse, are not finite or are below 0 by more
    than rounding."""
    values = matrix.data if hasattr(matrix, "tocsr") else np.asarray(matrix)
    if not np.isfinite(values).all() or values.min(initial=0) < -SYMMETRIC * values.max(initial=0):
        raise InputError(
            f"{name} must be finite numbers of at least 0, got NaN, infinity or negative ones"
        )


def check_square(matrix: Any, name: str) -> csr_matrix:
    """A matrix, whole or sparse; an error where it is not symmetric, or not 0 on the diagonal:
    affinities everywhere, distances where they are there in both directions."""
    there = csr_matrix(matrix, dtype=np.float64)
    if there.shape[0] != there.shape[1]:
        raise InputError(f"precomputed {name} must be square, got shape {there.shape}")
    check_entries(there, name)
    known = there
    if name == "distances":
        known = there.multiply(there.T)
        if there.diagonal().max() > SYMMETRIC * there.max():
            raise InputError("precomputed distances must be 0 from a row to itself")
    gap = abs(there - there.T).multiply(known != 0).max()
    if gap > SYMMETRIC * there.max():
        raise InputError(f"{name} must be symmetric, got two directions that differ by {gap:.3g}")
    return there


def by_affinities(matrix: Any, device: torch.device) -> tuple[CloudGraph, Smoother]:
    """A symmetric matrix of affinities of at least 0, whole or sparse, and a step of its walk that
    stays where it is half of the time: eigenvalues are those of ``I - R^-1 W``."""
    weights = check_square(matrix, "affinities")
    weights.data = weights.data.clip(0)
    weights.eliminate_zeros()
    degree = np.asarray(weights.sum(1)).ravel()
    if (alone := degree <= weights.diagonal()).any():
        raise InputError(
            f"every row needs an affinity to another one, row {int(alone.argmax())} has none"
        )
    root = diags(degree**-0.5)
    half = from_scipy(((identity(len(degree)) + root @ weights @ root) / 2).tocsr()).to(device)
    mass = torch.from_numpy(degree / degree.sum()).to(device)
    nothing = torch.empty((len(degree), 0), device=device)
    graph = Graph(nothing, nothing.long(), nothing, AFFINITY)
    smoother = Smoother("affinities", half, graph, mass, 0.5, dimension=1.0)
    return CloudGraph(nothing, _frame(nothing, AFFINITY), graph=graph), smoother


def _frame(points: Tensor, metric: Metric) -> Frame:
    """That of a cloud, or the identity where lengths are those of another metric."""
    if metric in SPATIAL:
        return Frame.of(points, str(metric), centred=False)
    return Frame(torch.zeros(points.shape[1], dtype=torch.float64, device=points.device), 1.0)
