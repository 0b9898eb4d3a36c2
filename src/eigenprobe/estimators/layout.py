"""A map of the rows: t-SNE, in two or three dimensions by openTSNE [Policar et al.], with affinities of neighbours.

    S_ij = w_ij / sum w + u_ij / sum u,    u_ij = [j in N(i)] + [i in N(j)]   N(i): the k nearest of row i
    P = R^-1/2 S R^-1/2 / sum              w: weights of the neighbourhood smoother,   R: the row sums of S
    y (n, d): minimise KL(e P || Q(y)),    q_ij = 1 / Z (1 + |y_i - y_j|^2)   e: exaggeration, in stages
    dKL/dy_i = 4 sum_j (e p_ij - q_ij) Z q_ij (y_i - y_j)                     in more dimensions: sum of p over edges,
                                                                              of q over a few random rows per step

By the smoother's weights alone, which discount hubs, the densest rows of a group gather in crumbs; where all neighbours
pull alike, groups run into each other: half of each does neither. The graph is that of the fit, there is no second
search. The map starts at the principal directions of the rows (of the embedding where there are none), which keep
groups that are near each other near. Exaggerated stages pull whole groups together, a calm one gives their rows room,
so that they gather evenly in the last. In more dimensions, which tell groups apart that as many eigenvectors do not,
one stage is enough; no tree of cells finds the repulsion there, and a sample of rows stands for all. New rows are put
at the average of their fitted neighbours (`extensions`).

Labels pull equal ones together, as UMAP's do: S_ij exp(-2.5 / (1 - target_weight)) where they differ, S_ij / e where
one of them is not known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property, wraps
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from ..errors import InputError
from ..graph import Graph, build_graph
from ..host.progress import report, reporting
from ..host.threads import allowed_cores, cores, limited_threads
from ..search.layout import as_scipy
from ..smoothers import Smoother, neighbourhood_smoother
from ..smoothers.neighbourhood import incidence
from .coordinates import PLANE_AND_SPACE, SPATIAL
from .precomputed import AffinityGraph
from .sources import MOST_SEEDS

Array = NDArray[Any]


@dataclass(frozen=True)
class Stages:
    """Exaggeration and steps of every stage."""

    early: tuple[float, int] = (12.0, 80)
    middle: tuple[float, int] = (4.0, 50)
    calm: tuple[float, int] = (1.0, 60)
    late: tuple[float, int] = (2.0, 50)


STAGES = Stages()
# In more than three dimensions. ARI of k-means in ten on even rows of a development table of 77 classes, uniform and
# class-weighted, and on two tables of 60 groups that overlap: .57, .54, .92, .61 (75 to 150 steps are alike); with
# an exaggeration of 3 at the end, where weak groups collapse, .56, .54, .91, .06; with 12, 4 and 2 .56, .55, .90, .45;
# UMAP .56, .54, .90, .60; folded eigenvectors .53, .56, .87 on the first three.
STAGES_OF_MORE = ((2.0, 100),)
REPELLED = 100  # random rows per step that repel all; 30 to 300 do as well
FIRST_SIZE, MOMENTUM = 0.1, 0.5  # root mean square of the start, and the share of a step that the next one keeps
FAR, UNKNOWN = 2.5, 1.0  # exponents of labels that differ or are not known, those of UMAP
FEWEST_GROUP = 20  # rows per neighbour on the map, at least: small tables have fewer neighbours
SMALL = 2501  # rows below which one thread is enough
SMALL_MAP = 2500  # rows up to which a tree of the plane is faster than a grid


def map_layout(
    graph: Graph,
    coordinates: Array,
    seed: int,
    dimensions: int = 2,
    neighbors: int | None = None,
    stages: Sequence[tuple[float, int]] | None = None,
    target: tuple[Array, float] | None = None,
) -> Array:
    """A map ``(n, dimensions)`` of the points of a graph with spectral ``coordinates (n, K)``.

    ``neighbors``: so many are searched among the points, where there are coordinates. ``stages``: exaggeration and
    steps of each. ``target``: labels and their weight.
    """
    import openTSNE as tsne
    from sklearn.decomposition import PCA

    if neighbors is not None and graph.metric in SPATIAL:
        count = min(neighbors, max(graph.k, graph.n // FEWEST_GROUP))
        if count < graph.k:
            graph = graph.truncate(count)
        elif count > graph.k:
            graph = build_graph(graph.points, count, metric=graph.metric)
    if graph.metric in SPATIAL and graph.points.shape[1] >= dimensions:
        coordinates = graph.points.double().cpu().numpy()
    wanted = min(dimensions, *coordinates.shape)
    start = coordinates if wanted == 1 else PCA(wanted, random_state=seed).fit_transform(coordinates)
    start = np.column_stack([start[:, :wanted], np.zeros((len(start), dimensions - wanted))])
    if dimensions > max(PLANE_AND_SPACE):
        return descend(start, joint(graph, target), stages or STAGES_OF_MORE, np.random.default_rng(seed))
    start = tsne.initialization.rescale(start + 1e-6 * np.random.default_rng(seed).normal(size=start.shape))
    method, jobs = ("bh", 1) if len(start) < SMALL_MAP or dimensions > 2 else ("fft", cores(1))
    known = tsne.affinity.PrecomputedAffinities(joint(graph, target))
    placed = tsne.TSNEEmbedding(start, known, negative_gradient_method=method, n_jobs=jobs, random_state=seed)
    for number, (exaggeration, steps) in enumerate(stages or astuple(STAGES)):
        momentum = 0.8 if number else 0.5
        placed.optimize(steps, exaggeration=exaggeration, momentum=momentum, inplace=True, **_reported(number))
    return np.asarray(placed, np.float64)


def descend(start: Array, joint: csr_matrix, stages: Sequence[tuple[float, int]], rng: np.random.Generator) -> Array:
    """Places ``(n, d)`` in any number of dimensions by gradient descent from a ``start`` that is scaled first."""
    n = len(start)
    places = start - start.mean(0)
    places *= FIRST_SIZE / np.sqrt(max((places**2).sum(1).mean(), np.finfo(float).tiny))
    places = (places + 1e-3 * FIRST_SIZE * rng.normal(size=places.shape)).astype(np.float32)
    pull, ones = csr_matrix(joint, dtype=np.float32), np.ones((n, 1), np.float32)
    rows, columns, shares = np.repeat(np.arange(n), np.diff(pull.indptr)), pull.indices, pull.data
    steady = n / np.maximum(1, n * (pull @ ones))  # rows that are pulled by more than the mean take shorter steps
    velocity = np.zeros_like(places)
    for stage, (exaggeration, steps) in enumerate(stages):
        for step in range(steps):
            apart = places[rows] - places[columns]
            pull = csr_matrix((shares / (1 + np.einsum("ed,ed->e", apart, apart)), columns, pull.indptr), pull.shape)
            attraction = (pull @ ones) * places - pull @ places
            chosen = rng.choice(n, min(n, REPELLED), replace=False)
            others, squares = places[chosen], (places**2).sum(1)
            near = 1 / (1 + np.maximum(squares[:, None] + squares[chosen] - 2 * places @ others.T, 0))
            near[chosen, np.arange(len(chosen))] = 0
            push = near**2 / max(near.sum(), np.finfo(np.float32).tiny)
            repulsion = push.sum(1, keepdims=True) * places - push @ others
            velocity *= MOMENTUM
            velocity += (steady * (repulsion / exaggeration - attraction)).astype(np.float32)
            places += velocity
            report(f"map, stage {stage + 1}, step {step}")
    return places.astype(np.float64)


def _reported(stage: int) -> dict[str, Any]:
    """Options of openTSNE that say how far a stage is."""
    if not reporting():
        return {}

    def call(step: int, error: float, places: Array) -> None:
        report(f"map, stage {stage + 1}, step {step}")

    return {"callbacks": call, "callbacks_every_iters": 10}


def joint(graph: Graph, target: tuple[Array, float] | None = None) -> csr_matrix:
    """The affinities ``P (n, n)`` of a graph, which add up to 1; given ones as they are. ``target``: labels ``(n,)``,
    -1 where they are not known, and their weight."""
    if isinstance(graph, AffinityGraph):
        shares = as_scipy(graph.weights)
        shares.setdiag(0)
        shares = shares if target is None else by_labels(shares, *target)
    else:
        graph = graph.without_loops()
        listed, walked = incidence(graph.indices, graph.n), steps_of_walk(neighbourhood_smoother(graph))
        listed = listed + listed.T
        shares = (listed / listed.sum() + walked / walked.sum()).tocsr()
        shares = shares if target is None else by_labels(shares, *target)
        root = diags(np.asarray(shares.sum(1)).ravel() ** -0.5)
        shares = (root @ shares @ root).tocsr()
    shares.eliminate_zeros()
    return shares / shares.sum()


def by_labels(shares: csr_matrix, labels: Array, weight: float) -> csr_matrix:
    """Affinities that are less between rows of different labels, and of rows without one."""
    pairs = shares.tocoo()
    first, second = labels[pairs.row], labels[pairs.col]
    far = np.exp(-FAR / (1 - weight)) if weight < 1 else 0.0
    less = np.where((first < 0) | (second < 0), np.exp(-UNKNOWN), np.where(first == second, 1.0, far))
    return csr_matrix((pairs.data * less, (pairs.row, pairs.col)), shape=shares.shape)


def codes(y: object, rows: int) -> Array:
    """Labels ``(rows,)`` as numbers from 0 on; -1 stays."""
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise InputError(f"expected labels of the {rows} rows that are fitted, got shape {labels.shape}")
    if type_of_target(labels) not in ("binary", "multiclass"):
        raise InputError(f"target_weight is for labels of classes, got {type_of_target(labels)} ones")
    numbers: Array = np.unique(labels, return_inverse=True)[1]
    return np.where(labels == -1, -1, numbers) if labels.dtype.kind in "if" else numbers


def steps_of_walk(smoother: Smoother) -> csr_matrix:
    """``M^1/2 (A - I/2) M^1/2``: the weights ``w_ij`` of a neighbourhood smoother, up to a factor."""
    matrix, root = as_scipy(smoother.matrix), diags(smoother.mass.cpu().double().sqrt().numpy())
    steps = (root @ matrix.astype(np.float64) @ root).tocsr()
    steps.setdiag(0)
    steps.eliminate_zeros()
    return steps


def on_cores(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of an estimator on the cores that its ``n_jobs`` allows."""

    @wraps(method)
    def call(self: Any, *args: object, **kwargs: Any) -> Any:
        with allowed_cores(self.n_jobs):
            return method(self, *args, **kwargs)

    return call


def _cached(extension: object) -> dict[str, Any]:
    """What an extension has found out about its points."""
    return {name: known for name, known in vars(extension).items() if name.startswith("_")}


class MapMixin:
    """The map of a fitted estimator's rows and of new ones, made when first asked for, as figure and page."""

    @cached_property
    def layout_(self: Any) -> Array:
        """A map of the rows of `basis_`, `map_dimensions` coordinates each."""
        check_is_fitted(self)
        return self._mapped(self.map_dimensions)

    @on_cores
    def _mapped(self: Any, dimensions: int) -> Array:
        """The map of the rows of `basis_` in so many dimensions, made when first asked for."""
        if dimensions not in self._maps:
            self._maps[dimensions] = self._made(dimensions)
        found: Array = self._maps[dimensions]
        return found if self._place is None else found[self._place.cpu().numpy()]

    def _made(self: Any, dimensions: int) -> Array:
        """A map of the rows of the graph."""
        graph_rows = np.arange(self.basis_.n) if self._kept is None else self._kept.cpu().numpy()
        seed = int(check_random_state(self.random_state).randint(MOST_SEEDS))
        neighbors = self.map_neighbors if self._searched else None  # given ones are the graph of the map, too
        target = None if self._labels is None else (self._labels[graph_rows], self.target_weight)
        given = (dimensions, neighbors, self.map_stages, target)
        with limited_threads(self._graph.device, self._graph.n, single=SMALL), self._reports():
            return map_layout(self._graph, self._known()[graph_rows], seed, *given)

    @property
    def affinities_(self: Any) -> Any:
        """Affinities ``(n, n)`` of the rows of `basis_` that the map is made of, sparse; the largest is 1."""
        check_is_fitted(self)
        with limited_threads(self._graph.device, self._graph.n, single=SMALL):
            found = joint(self._graph)
        found = (found / found.max()).astype(np.float32)
        return found if self._place is None else found[self._place.cpu().numpy()][:, self._place.cpu().numpy()]

    @on_cores
    def place(self: Any, X: object) -> Array:
        """Places ``(m, map_dimensions)`` of new rows on the map: averages over their neighbours; a fitted row's own."""
        check_is_fitted(self)
        return self._places(self._open(X, reset=False), self.map_dimensions)

    def _places(self: Any, rows: object, dimensions: int) -> Array:
        """The places of opened rows on the map of so many dimensions."""
        self._mapped(dimensions)
        known = np.pad(self._maps[dimensions], ((0, 0), (1, 0)))  # a stream leaves the first column out
        found: Any = getattr(self.basis_.extension, "context", self.basis_.extension)
        values = torch.from_numpy(known).to(found.values)
        places = replace(found, values=values, factors=values.new_ones(values.shape[1]))
        vars(places).update(_cached(found))
        placed: Array = self._stream(rows, places)[0]
        vars(found).update(_cached(places))  # one search, whichever needs it first
        return placed

    def plot(self: Any, labels: Any = None, **options: Any) -> Any:
        """The map of the fitted rows as a matplotlib Figure, coloured by ``labels (n,)`` or by the groups found.

        ``options`` are those of `viz.charts.embeddings`: path, names, side, limit.
        """
        from ..viz.charts import embeddings
        from ..viz.scatter import find_groups

        if labels is None and (found := find_groups(self.layout_)) is not None:
            labels = found.labels
            options = {"names": [f"group {group + 1}" for group in range(len(found.typical))], **options}
        return embeddings({"": self.layout_[:, :2]}, labels, **{"side": 5.0, **options})

    def report(self: Any, path: str | os.PathLike[str], labels: Any = None, **options: Any) -> None:
        """Write the map as one HTML page to explore; ``labels (n,)`` colour it, without them the groups found.

        ``options`` are those of `viz.scatter.write_scatter`.
        """
        from ..viz.scatter import write_scatter

        write_scatter(path, self, labels, **options)
