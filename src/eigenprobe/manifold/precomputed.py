"""Clouds whose neighbours are not searched among coordinates: known ones, given distances, other
metrics.

    (indices, distances) (n, k);   D (n, n) whole or sparse -> the k smallest per row;   rows (n, d)
    and a metric's name affinities W (n, n) -> A = (I + R^-1/2 W R^-1/2) / 2,  R their row sums,  M
    = R / sum R

Distances of metrics other than cosine and Euclidean count as lengths; where there are no
coordinates, what an uneven neighbourhood costs is bounded and not measured
(`smoothers.neighbourhood`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags, identity
from sklearn.neighbors import sort_graph_by_row_values
from torch import Tensor

from ..cloud.arranged import Arranged, groups
from ..errors import InputError, warn
from ..host.validation import as_array
from ..neighbors.candidates import nearest_others
from ..neighbors.graph import Graph
from ..neighbors.layout import as_scipy
from ..neighbors.search import BINARY, searcher, without_self
from ..points import Frame
from ..smoothers import Smoother, neighbourhood_smoother
from ..smoothers.smoother import from_scipy
from .coordinates import AFFINITY, SPATIAL

Metric = str | Callable[..., float]
EQUAL = ("hamming", "matching")  # metrics that count the entries that differ
# share of entries that are no whole numbers, above which those would differ in all
MOST_FRACTIONS = 0.5
# of the largest distance: rounding of single precision and of differences of squares is less
SYMMETRIC = 1e-4


def arranged(
    points: Tensor,
    k: int,
    metric: Metric,
    options: dict[str, Any] | None = None,
    frame: Frame | None = None,
) -> Arranged:
    """Rows ``(n, d)``, copies of one once, and their ``k`` nearest: by angle, by Euclidean
    distance, by a metric that pynndescent knows or by a function of two rows."""
    if metric in SPATIAL:
        frame = frame or Frame.of(points, str(metric), centred=False)
        x = frame(points, torch.float32)
    else:
        frame, x = _identity(points), points.float()
        check_entries(x, metric)
        x = (x != 0).float() if metric in BINARY else x
    kept, rows = None, None
    if (place := groups(x)) is not None:
        first, rows = _first_copies(place)
        kept, x = first, x[first]
    k = min(k, len(x) - 1)
    if metric in SPATIAL:
        indices, distances = nearest_others(x, k)
        distances = distances.square() / 2 if metric == "cosine" else distances
    else:
        indices, distances = without_self(*_nearest_by(x, k + 1, metric, options))
    graph = Graph(x, indices, distances.to(x), metric, options=options)
    return Arranged(points, frame, rows, kept, graph=graph)


def _first_copies(place: Tensor) -> tuple[Tensor, Tensor]:
    """The first row of every group of equal ones ``(n,)``, ascending, and the one that stands for
    each row."""
    _, first, group = np.unique(place.numpy(force=True), return_index=True, return_inverse=True)
    order = np.argsort(first)
    kept, rows = first[order], np.argsort(order)[group.ravel()]
    return torch.from_numpy(kept).to(place.device), torch.from_numpy(rows).to(place.device)


def _nearest_by(
    x: Tensor, k: int, metric: Metric, options: dict[str, Any] | None
) -> tuple[Tensor, Tensor]:
    try:
        indices, distances = searcher(x, metric=metric, options=options)(x, k)
    except InputError:
        raise
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        raise InputError(f"metric {metric!r} cannot compare these rows: {error}") from error
    if not bool((torch.isfinite(distances) & (distances >= -SYMMETRIC)).all()):
        raise InputError(
            f"metric {metric!r} gives NaN, infinite or negative distances of these rows"
        )
    return indices.to(x.device), distances.clamp_min(0).to(x)


def check_entries(x: Tensor, metric: Metric) -> None:
    """Metrics of equal entries want whole numbers or codes; those of presence and absence say what
    counts become.
    """
    if metric in EQUAL and bool((x != x.round()).float().mean() > MOST_FRACTIONS):
        raise InputError(
            f"metric {metric!r} counts entries that differ, and nearly all real numbers do"
        )
    if metric in BINARY and not bool(((x == 0) | (x == 1)).all()):
        warn(f"metric {metric!r} knows present and absent only: entries other than 0 count as 1")


def by_distances(matrix: Any, k: int, device: torch.device) -> Arranged:
    """A matrix of distances ``(n, n)``, whole or sparse: the ``k`` smallest of every row without
    its own.
    """
    n = matrix.shape[0]
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"precomputed distances must be square, got shape {tuple(matrix.shape)}")
    indices, distances = nearest_entries(matrix, min(k, n - 1))
    _check_distances(matrix)
    graph = Graph(
        torch.empty((n, 0), device=device), indices.to(device), distances.to(device), "precomputed"
    )
    return Arranged(graph.points, _identity(graph.points.new_empty((0, 1))), graph=graph)


def _check_distances(matrix: Any) -> None:
    """Distances are equal in both directions, where both are there, and 0 from a row to itself."""
    there = csr_matrix(matrix)
    back, largest = there.T.tocsr(), float(abs(there).max())
    apart = there.multiply(back != 0) - back.multiply(there != 0)  # lists have one of two
    for gap, what in (
        (abs(apart), "symmetric, got two directions that differ by"),
        (abs(there.diagonal()), "0 from a row to itself, got"),
    ):
        if not gap.max() <= SYMMETRIC * largest:
            raise InputError(f"precomputed distances must be {what} {gap.max():.3g}")


@dataclass(frozen=True)
class AffinityGraph(Graph):
    """Rows joined by given affinities ``weights (n, n)``, sparse CSR, instead of lists of
    neighbours.
    """

    weights: Tensor = field(default_factory=lambda: torch.zeros((0, 0)).to_sparse_csr())

    @classmethod
    def of(cls, matrix: object, device: torch.device) -> AffinityGraph:
        """From a symmetric matrix of affinities of at least 0, whole or sparse."""
        weights = csr_matrix(matrix, dtype=np.float64)
        if weights.shape[0] != weights.shape[1]:
            raise InputError(f"precomputed affinities must be square, got shape {weights.shape}")
        check_matrix(weights, "affinities")
        weights.data = weights.data.clip(0)
        weights.eliminate_zeros()
        if abs(weights - weights.T).max() > SYMMETRIC * weights.max():
            raise InputError("affinities must be symmetric: use (W + W.T) / 2")
        alone = np.asarray(weights.sum(1)).ravel() - weights.diagonal() <= 0
        if alone.any():
            raise InputError(
                f"every row needs an affinity to another one, row {int(alone.argmax())} has none"
            )
        nothing = torch.empty((weights.shape[0], 0), device=device)
        return cls(
            nothing, nothing.long(), nothing, AFFINITY, weights=from_scipy(weights).to(device)
        )

    def arranged(self) -> Arranged:
        return Arranged(self.points, _identity(self.points.new_empty((0, 1))), graph=self)

    def smoother(self) -> Smoother:
        """A step of the walk that stays where it is half of the time: eigenvalues are those of ``I
        - R^-1 W``.
        """
        weights = as_scipy(self.weights)
        degree = np.asarray(weights.sum(1)).ravel()
        root = diags(degree**-0.5)
        matrix = from_scipy(((identity(self.n) + root @ weights @ root) / 2).tocsr()).to(
            self.device
        )
        return Smoother(
            "affinities",
            matrix,
            self,
            torch.from_numpy(degree / degree.sum()).to(self.device),
            0.5,
            1.0,
        )


def smoother_of(graph: Graph) -> Smoother:
    """The smoother of a graph of neighbours or of given affinities."""
    return graph.smoother() if isinstance(graph, AffinityGraph) else neighbourhood_smoother(graph)


def given_neighbours(points: Tensor, neighbors: tuple[Any, Any], metric: Metric) -> Arranged:
    """Rows ``(n, d)`` with known neighbours, in UMAP's order or in that of scikit-learn (distances,
    indices), by their types; a first column that is the row itself is left out."""
    n = len(points)
    wanted = f"neighbors must be indices and distances, both ({n}, k)"
    try:
        pair = [torch.as_tensor(np.ascontiguousarray(as_array(each))) for each in neighbors]
        found, lengths = sorted(pair, key=torch.is_floating_point)
    except (TypeError, ValueError) as error:
        raise InputError(f"{wanted}, got something else: {error}") from error
    if found.ndim != 2 or found.shape != lengths.shape or len(found) != n or not found.shape[1]:
        raise InputError(f"{wanted}, got {tuple(found.shape)} and {tuple(lengths.shape)}")
    if found.is_complex() or lengths.is_complex():
        raise InputError(f"{wanted}, got complex numbers")
    found, lengths = found.double(), lengths.float()
    bad = (found < 0) | (found >= n) | (found != found.round()) | ~torch.isfinite(lengths)
    if bool((bad := bad | (lengths < 0)).any()):
        row, column = (int(each) for each in bad.nonzero()[0])
        entry = f"{found[row, column]:g} at {lengths[row, column]:g}"
        raise InputError(
            f"neighbors must be rows 0 to {n - 1} at finite distances, row {row} has {entry}"
        )
    found = found.long()
    lengths, order = lengths.sort(stable=True, dim=1)
    found = found.gather(1, order)
    ascending = found.sort(dim=1).values
    if bool((twice := (ascending[:, 1:] == ascending[:, :-1]).any(1)).any()):
        raise InputError(f"neighbors must differ, row {int(twice.nonzero()[0])} has one twice")
    if bool((found == torch.arange(n)[:, None]).any()):
        found, lengths = without_self(found, lengths)
    if not found.shape[1]:
        raise InputError("neighbors must be other rows, every row has only itself")
    coordinates = metric in SPATIAL
    frame = Frame.of(points, str(metric), centred=False) if coordinates else _identity(points)
    lengths = lengths / (frame.scale if metric == "euclidean" else 1.0)
    graph = Graph(
        frame(points, torch.float32), found.to(points.device), lengths.to(points.device), metric
    )
    return Arranged(points, frame, graph=graph)


def nearest_entries(matrix: Any, k: int) -> tuple[Tensor, Tensor]:
    """Columns and values ``(n, k)`` of the smallest entries of every row without its own,
    ascending."""
    check_matrix(matrix, "distances")
    if hasattr(matrix, "tocsr"):
        entries = matrix.tocoo()
        other = entries.row != entries.col
        pairs = (entries.row[other], entries.col[other])
        rows = csr_matrix((entries.data[other], pairs), shape=matrix.shape)
        counts = np.diff(rows.indptr)
        if counts.min() < k:
            few = f"row {counts.argmin()} has {counts.min()} distances"
            raise InputError(f"every row needs {k} neighbours, {few}")
        rows = sort_graph_by_row_values(rows, warn_when_not_sorted=False)
        first = rows.indptr[:-1, None] + np.arange(k)
        found = torch.from_numpy(rows.indices[first]), torch.from_numpy(rows.data[first])
    else:
        whole = torch.tensor(matrix).fill_diagonal_(float("inf"))
        found = whole.topk(k, largest=False)[::-1]
    return found[0].long(), found[1].float().clamp_min(0)


def check_matrix(matrix: Any, name: str) -> None:
    """An error where entries of a matrix, whole or sparse, are not finite or are below 0 by more
    than rounding."""
    values = matrix.data if hasattr(matrix, "tocsr") else np.asarray(matrix)
    if not np.isfinite(values).all() or values.min(initial=0) < -SYMMETRIC * values.max(initial=0):
        raise InputError(
            f"{name} must be finite numbers of at least 0, got NaN, infinity or negative ones"
        )


def _identity(points: Tensor) -> Frame:
    return Frame(torch.zeros(points.shape[1], dtype=torch.float64, device=points.device), 1.0)
