"""From vectors to coordinates, back to rows, and to a map to look at; which parameters and metric may be asked for.

    u = V mu^t (n, K)   diffusion coordinates;      sphere: u / sqrt(1 + |u|^2)
    x(z) = sum_j w_j x_j / sum_j w_j,               w_j by distance of z to the coordinates of its nearest fitted rows
    P = M^1/2 (A - I/2) M^1/2 / sum     A (n, n), M (n,): the neighbourhood smoother and its mass, no second search
    y (n, 2): minimise KL(e P || Q(y)),   q_ij ~ 1 / (1 + |y_i - y_j|^2)  e: exaggeration, falling in stages

P_ij is how often a random walk on the graph, left alone for long, steps from i to j: outliers, which it seldom visits,
pull little. This is t-SNE by openTSNE [Policar et al.] with other affinities, started at the principal directions of
the rows (of the embedding where there are none), which keep groups that are near each other near on the map; the
exaggerated stages pull whole clusters together, and the last gives their insides room. New rows are put at the average
of their fitted neighbours (`extensions`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ..errors import InputError, warn
from ..graph import Graph, build_graph
from ..host.validation import as_annotated
from ..search.neighbours import nearest_rows
from ..smoothers import Smoother, neighbourhood_smoother
from ..smoothers.neighbourhood import fuzzy_weights

Array = NDArray[Any]
SPATIAL = ("cosine", "euclidean")


def check_parameters(model: Any) -> None:
    """An error that says which parameter is wrong."""
    as_annotated(type(model).__init__, model.get_params(deep=False))
    if model.solver == "network" and model.metric not in ("auto", *SPATIAL):
        raise InputError(f"solver='network' compares rows by cosine or euclidean, got metric={model.metric!r}")
    for name in ("n_components", "n_neighbors", "max_iter"):
        if (value := getattr(model, name)) < 1:
            raise InputError(f"{name} must be a positive integer, got {value!r}")
    if model.map_dimensions not in (2, 3):
        raise InputError(f"map_dimensions must be 2 or 3, got {model.map_dimensions}")
    if model.max_samples != "auto" and model.max_samples <= max(model.n_components, model.n_neighbors):
        raise InputError(f"max_samples must exceed n_components and n_neighbors, got {model.max_samples}")


def choose_metric(metric: str, rows: torch.Tensor) -> str:
    """``auto`` is cosine for wide tables and Euclidean for narrow ones, and for wide ones that lie, once centred, in a
    few directions only: a curve or a surface, whose angles from the origin mean nothing."""
    if metric != "auto":
        return metric
    return "cosine" if rows.shape[1] >= COSINE_COLUMNS and directions(rows) >= COSINE_DIRECTIONS else "euclidean"


def directions(rows: torch.Tensor) -> float:
    """The effective number of directions of centred rows ``(n, d)``: ``(tr C)^2 / tr C^2``, C the covariance of their
    unit vectors, which a few far rows do not dominate."""
    some = rows[:: max(1, len(rows) // MEASURED)].double()
    some = some - some.mean(0)
    some = some / some.norm(dim=1, keepdim=True).clamp_min(torch.finfo(some.dtype).tiny)
    covariance = some.mT @ some if some.shape[1] <= len(some) else some @ some.mT
    return float(covariance.trace() ** 2 / covariance.square().sum().clamp_min(torch.finfo(some.dtype).tiny))


Coordinates = Literal["sphere", "diffusion", "vectors", "normalized"]
SAME = 1e-5  # relative distance below which coordinates are those of a fitted row, as single precision rounds them
COSINE_COLUMNS = 64  # metric="auto": features this wide are nearly always compared by angle ...
COSINE_DIRECTIONS = 9.0  # ... unless they vary in fewer directions; digits have 13, embeddings 20 to 90, a knot 2.4
MEASURED = 2000  # rows that these are measured on
LEAST = 1e-9  # a factor counts as so much: that of two rows is 0, and a power of it would leave them in one place
VANISHED = 1e-6  # of the first coordinate: a map of it is constant to single precision
MOST_STEPS, LEFT = 30.0, 0.05  # diffusion_steps="auto": so many, or fewer, so that the last coordinate keeps this share


def diffusion_time(steps: float | Literal["auto"], factors: Array) -> float:
    """The power t; ``auto`` falls below 30 where that would leave nothing of the last of the coordinates."""
    if steps != "auto":
        if len(factors) and (kept := float(np.max(factors).clip(0, 1)) ** float(steps)) < VANISHED:
            warn(f"diffusion_steps={steps:g} leaves {kept:.0e} of the first coordinate: fewer, or 'auto'")
        return float(steps)
    last = float(np.clip(factors[-1], LEAST, 1 - LEAST))
    return min(MOST_STEPS, math.log(LEFT) / math.log(last))


def coordinates(vectors: Array, mass: Array, factors: Array, kind: Coordinates, steps: float) -> Array:
    """The embedding ``(m, K)`` of vectors ``(m, K)``, mass ``(m,)`` and eigenvalues mu ``(K,)`` of the smoother."""
    if kind == "vectors":
        return vectors
    if kind == "normalized":
        return vectors * np.sqrt(mass)[:, None]
    spread = vectors * np.maximum(factors, 0) ** steps
    return spread if kind == "diffusion" else spread / np.sqrt(1 + (spread**2).sum(1, keepdims=True))


def local_averages(known: Array, rows: Array, places: torch.Tensor, k: int) -> Array:
    """Averages ``(m, d)`` of ``rows (n, d)`` over the ``k`` nearest of their coordinates ``known`` to every place; at
    the coordinates of a fitted row (of several: their mean) that row."""
    near, lengths = nearest_rows(torch.from_numpy(known), places, min(k, len(known)))
    same = lengths <= SAME * lengths[:, -1:]
    weight = torch.where(same.any(1, keepdim=True), same.to(lengths), fuzzy_weights(lengths))
    return np.einsum("mk,mkd->md", (weight / weight.sum(1, keepdim=True)).numpy(), rows[near.numpy()])


@dataclass(frozen=True)
class Stages:
    """Exaggeration and steps of every stage, chosen on even rows of three tables of features and on digits: a weak
    early stage leaves parts of a cluster apart, a calm one before the last gives their rows room, so that they gather
    evenly in it. Adjusted Rand index of HDBSCAN on digits, banking77, cifar10, imagenette: .83, .36, .25, .72, against
    .66, .28, .17, .58 with 12 neighbours and stages of 20, 6 and 3; of k-means .94, .53, .34, .89 against .86, .54,
    .33, .90. (`benchmarks.maps` reports odd rows.)"""

    early: tuple[float, int] = (12.0, 120)
    middle: tuple[float, int] = (4.0, 100)
    calm: tuple[float, int] = (1.0, 60)
    late: tuple[float, int] = (2.5, 60)


STAGES = Stages()
FEWEST_GROUP = 20  # rows per neighbour on the map, at least: small tables have fewer neighbours
EXACT_TREE = 10_000  # rows up to which a tree of the plane is faster than a grid


def map_layout(
    graph: Graph,
    coordinates: Array,
    seed: int,
    dimensions: int = 2,
    neighbors: int | None = None,
    stages: Sequence[tuple[float, int]] | None = None,
) -> Array:
    """A map ``(n, dimensions)`` of the points of a graph with spectral ``coordinates (n, K)``.

    ``neighbors``: so many are searched among the points, where there are coordinates. ``stages``: exaggeration and
    steps of each.
    """
    import openTSNE as tsne
    from sklearn.decomposition import PCA

    if neighbors is not None and graph.metric in SPATIAL:
        count = min(neighbors, max(graph.k, graph.n // FEWEST_GROUP))
        graph = build_graph(graph.points, count, metric=graph.metric) if count != graph.k else graph  # type: ignore[arg-type]
    joint = _walk(neighbourhood_smoother(graph))
    if graph.metric in SPATIAL and graph.points.shape[1] >= dimensions:
        coordinates = graph.points.double().cpu().numpy()
    wanted = min(dimensions, *coordinates.shape)
    start = coordinates if wanted == 1 else PCA(wanted, random_state=seed).fit_transform(coordinates)
    start = np.column_stack([start[:, :wanted], np.zeros((len(start), dimensions - wanted))])
    start = tsne.initialization.rescale(start + 1e-6 * np.random.default_rng(seed).normal(size=start.shape))
    method, jobs = (
        ("bh", 1) if len(start) < EXACT_TREE or dimensions > 2 else ("fft", max(1, (os.cpu_count() or 2) // 2))
    )
    known = tsne.affinity.PrecomputedAffinities(joint)
    placed = tsne.TSNEEmbedding(start, known, negative_gradient_method=method, n_jobs=jobs, random_state=seed)
    for number, (exaggeration, steps) in enumerate(stages or astuple(STAGES)):
        momentum = 0.8 if number else 0.5
        placed.optimize(steps, exaggeration=exaggeration, momentum=momentum, inplace=True)
    return np.asarray(placed, np.float64)


def _walk(smoother: Smoother) -> csr_matrix:
    """``M^1/2 (A - I/2) M^1/2``, the shares ``(n, n)`` of the steps of a random walk, up to a factor."""
    matrix, root = smoother.matrix.cpu(), smoother.mass.cpu().double().sqrt().numpy()
    head, tail = np.repeat(np.arange(len(root)), np.diff(matrix.crow_indices())), matrix.col_indices().numpy()
    values = np.where(head == tail, 0.0, matrix.values().double().numpy() * root[head] * root[tail])
    joint = csr_matrix((values, (head, tail)), shape=tuple(matrix.shape))
    joint.eliminate_zeros()
    return joint
