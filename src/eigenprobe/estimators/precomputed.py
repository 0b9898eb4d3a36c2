"""Clouds whose neighbours are not searched among coordinates: known ones, given distances, other metrics.

    (indices, distances) (n, k);   D (n, n) whole or sparse -> the k smallest per row;   rows (n, d) and a metric's name
    affinities W (n, n) -> A = (I + R^-1/2 W R^-1/2) / 2,  R their row sums,  M = R / sum R

Distances of metrics other than cosine and Euclidean count as lengths; where there are no coordinates, what an uneven
neighbourhood costs is bounded and not measured (`smoothers.neighbourhood`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags, identity
from torch import Tensor

from ..cloud import Frame, check_count
from ..errors import InputError, warn
from ..graph import Graph
from ..graph.arranged import Arranged, distinct
from ..host.validation import as_array
from ..search.layout import as_scipy
from ..search.neighbours import BINARY, searcher, without_self
from ..smoothers import Smoother, neighbourhood_smoother
from ..smoothers.smoother import from_scipy
from .coordinates import AFFINITY, SPATIAL

Metric = str | Callable[..., float]
EQUAL = ("hamming", "matching")  # metrics that count the entries that differ
MOST_FRACTIONS = 0.5  # share of entries that are no whole numbers, above which those would differ in all
SMALLEST = 1e-6  # rounding of a distance below 0
SYMMETRIC = 1e-4  # of the largest distance: rounding of single precision and of differences of squares is less


def arranged_by(points: Tensor, k: int, count: int, metric: Metric, options: dict[str, Any] | None = None) -> Arranged:
    """Distinct rows ``(n, d)``, enough for ``count`` vectors, and their nearest by a metric that pynndescent knows or a
    function of two rows."""
    x = points.float()
    check_entries(x, metric)
    if metric in BINARY:
        x = (x != 0).float()
    kept, rows = None, None
    if (merged := distinct(x)) is not None:
        kept, rows = merged
        check_count(len(kept), count, "distinct ")
        x = x[kept]
    try:
        indices, distances = searcher(x, metric=metric, options=options)(x, min(k, len(x) - 1) + 1)
    except InputError:
        raise
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        raise InputError(f"metric {metric!r} cannot compare these rows: {error}") from error
    if not bool((torch.isfinite(distances) & (distances >= -SMALLEST)).all()):
        raise InputError(f"metric {metric!r} gives NaN, infinite or negative distances of these rows")
    indices, distances = without_self(indices.to(x.device), distances.clamp_min(0).to(x))
    return Arranged(points, _identity(x), rows, kept, graph=Graph(x, indices, distances, metric, options=options))


def check_entries(x: Tensor, metric: Metric) -> None:
    """Metrics of equal entries want whole numbers or codes; those of presence and absence say what counts become."""
    if metric in EQUAL and bool((x != x.round()).float().mean() > MOST_FRACTIONS):
        raise InputError(f"metric {metric!r} counts entries that differ, and nearly all real numbers do: use another")
    if metric in BINARY and not bool(((x == 0) | (x == 1)).all()):
        warn(f"metric {metric!r} knows present and absent only: entries other than 0 count as 1")


def by_distances(matrix: Any, k: int, device: torch.device) -> Arranged:
    """A matrix of distances ``(n, n)``, whole or sparse: the ``k`` smallest of every row without its own."""
    n = matrix.shape[0]
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"precomputed distances must be square, got shape {tuple(matrix.shape)}")
    _check_distances(matrix)
    indices, distances = nearest_entries(matrix, min(k, n - 1), own=True)
    graph = Graph(torch.empty((n, 0), device=device), indices.to(device), distances.to(device), "precomputed")
    return Arranged(graph.points, _identity(graph.points.new_empty((0, 1))), graph=graph)


def _check_distances(matrix: Any) -> None:
    """Distances are equal in both directions, where both are there, and 0 from a row to itself."""
    if hasattr(matrix, "tocsr"):
        own, there = np.abs(matrix.diagonal()), matrix.tocsr()
        back = there.T.tocsr()
        apart = abs(there.multiply(back != 0) - back.multiply(there != 0)).max()  # lists of neighbours have one of two
        largest = float(abs(there).max())
    else:
        whole = np.asarray(matrix, np.float64)
        own, apart, largest = np.abs(np.diag(whole)), np.abs(whole - whole.T).max(), float(np.abs(whole).max())
    if not apart <= SYMMETRIC * largest:
        raise InputError(f"precomputed distances must be symmetric, got two directions that differ by {apart:.3g}")
    if not own.max() <= SYMMETRIC * largest:
        raise InputError(
            f"precomputed distances of rows to themselves must be 0, row {own.argmax()} has {own.max():.3g}"
        )


@dataclass(frozen=True)
class AffinityGraph(Graph):
    """Rows joined by given affinities ``weights (n, n)``, sparse CSR, instead of lists of neighbours."""

    weights: Tensor = field(default_factory=lambda: torch.zeros((0, 0)).to_sparse_csr())

    @classmethod
    def of(cls, matrix: object, device: torch.device) -> AffinityGraph:
        """From a symmetric matrix of affinities of at least 0, whole or sparse."""
        weights = csr_matrix(matrix, dtype=np.float64)
        if weights.shape[0] != weights.shape[1]:
            raise InputError(f"precomputed affinities must be square, got shape {weights.shape}")
        if len(weights.data) and not (np.isfinite(weights.data).all() and weights.data.min() >= 0):
            raise InputError("affinities must be finite numbers of at least 0, got NaN, infinity or negative ones")
        weights.eliminate_zeros()
        if abs(weights - weights.T).max() > SMALLEST * weights.max():
            raise InputError("affinities must be symmetric: use (W + W.T) / 2")
        alone = np.asarray(weights.sum(1)).ravel() - weights.diagonal() <= 0
        if alone.any():
            raise InputError(f"every row needs an affinity to another one, row {int(alone.argmax())} has none")
        nothing = torch.empty((weights.shape[0], 0), device=device)
        return cls(nothing, nothing.long(), nothing, AFFINITY, weights=from_scipy(weights).to(device))

    def arranged(self) -> Arranged:
        return Arranged(self.points, _identity(self.points.new_empty((0, 1))), graph=self)

    def smoother(self) -> Smoother:
        """A step of the walk that stays where it is half of the time: eigenvalues are those of ``I - R^-1 W``."""
        weights = as_scipy(self.weights)
        degree = np.asarray(weights.sum(1)).ravel()
        root = diags(degree**-0.5)
        matrix = from_scipy(((identity(self.n) + root @ weights @ root) / 2).tocsr()).to(self.device)
        return Smoother("affinities", matrix, self, torch.from_numpy(degree / degree.sum()).to(self.device), 0.5, 1.0)


def smoother_of(graph: Graph) -> Smoother:
    """The smoother of a graph of neighbours or of given affinities."""
    return graph.smoother() if isinstance(graph, AffinityGraph) else neighbourhood_smoother(graph)


def given_neighbours(points: Tensor, neighbors: tuple[Any, Any], metric: Metric) -> Arranged:
    """Rows ``(n, d)`` with known neighbours, in UMAP's order or in that of scikit-learn (distances, indices), by
    their types; a first column that is the row itself is left out."""
    indices, distances = (torch.as_tensor(np.ascontiguousarray(as_array(each))) for each in neighbors)
    if indices.is_floating_point() and not distances.is_floating_point():
        indices, distances = distances, indices
    found, lengths = indices.long(), distances.float()
    n = len(points)
    if found.ndim != 2 or found.shape != lengths.shape or len(found) != n:
        shapes = f"{tuple(found.shape)} and {tuple(lengths.shape)}"
        raise InputError(f"neighbors must be indices and distances, both ({n}, k), got {shapes}")
    if not bool(((found >= 0) & (found < n)).all()) or not bool(torch.isfinite(lengths).all() and (lengths >= 0).all()):
        raise InputError(f"neighbors must be rows 0 to {n - 1} at finite distances, got others")
    lengths, order = lengths.sort(stable=True, dim=1)
    found = found.gather(1, order)
    if bool((found == torch.arange(n)[:, None]).any()):
        found, lengths = without_self(found, lengths)
    coordinates = metric in SPATIAL
    frame = Frame.of(points, str(metric), centred=False) if coordinates else _identity(points)
    lengths = lengths / (frame.scale if metric == "euclidean" else 1.0)
    graph = Graph(frame(points, torch.float32), found.to(points.device), lengths.to(points.device), metric)
    return Arranged(points, frame, graph=graph)


def nearest_entries(matrix: Any, k: int, own: bool = False) -> tuple[Tensor, Tensor]:
    """Columns and values ``(m, k)`` of the smallest entries of every row, ascending; ``own``: without the diagonal."""
    if not hasattr(matrix, "tocsr"):
        whole = torch.as_tensor(np.asarray(matrix)).float()
        if own:
            whole = whole.clone().fill_diagonal_(float("inf"))
        values, columns = whole.topk(k, largest=False)
        return _proper(columns, values)
    matrix = matrix.tocsr()
    rows, columns, values = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices, matrix.data
    kept = rows != columns if own else np.ones(len(rows), bool)
    rows, columns, values = rows[kept], columns[kept], values[kept]
    counts = np.bincount(rows, minlength=matrix.shape[0])
    if counts.min() < k:
        raise InputError(f"every row needs {k} neighbours, row {counts.argmin()} has {counts.min()} distances")
    order = np.lexsort((values, rows))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])[:, None] + np.arange(k)
    chosen = order[first]
    return _proper(torch.from_numpy(columns[chosen].astype(np.int64)), torch.from_numpy(values[chosen]).float())


def _proper(columns: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    if not bool((torch.isfinite(values) & (values >= 0)).all()):
        raise InputError("distances must be finite numbers of at least 0, got NaN, infinity or negative ones")
    return columns, values


def _identity(points: Tensor) -> Frame:
    return Frame(torch.zeros(points.shape[1], dtype=torch.float64, device=points.device), 1.0)
