"""A map of the rows to look at: t-SNE by openTSNE [Policar et al.] with affinities of neighbours.

    S_ij = w_ij / sum w + u_ij / sum u,    u_ij = [j in N(i)] + [i in N(j)]   N(i): the k nearest of row i
    P = R^-1/2 S R^-1/2 / sum              w: weights of the neighbourhood smoother,   R: the row sums of S
    y (n, 2): minimise KL(e P || Q(y)),    q_ij ~ 1 / (1 + |y_i - y_j|^2)     e: exaggeration, in stages

By the smoother's weights alone, which discount hubs, the densest rows of a group gather in crumbs; where all neighbours
pull alike, groups run into each other: half of each does neither. The graph is that of the fit, there is no second
search. The map starts at the principal directions of the rows (of the embedding where there are none), which keep
groups that are near each other near. Exaggerated stages pull whole groups together, a calm one gives their rows room,
so that they gather evenly in the last. New rows are put at the average of their fitted neighbours (`extensions`).
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
from sklearn.utils.validation import check_is_fitted

from ..graph import Graph, build_graph
from ..host.progress import report, reporting
from ..host.threads import allowed_cores, cores, limited_threads
from ..search.layout import as_scipy
from ..smoothers import Smoother, neighbourhood_smoother
from .coordinates import SPATIAL
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
) -> Array:
    """A map ``(n, dimensions)`` of the points of a graph with spectral ``coordinates (n, K)``.

    ``neighbors``: so many are searched among the points, where there are coordinates. ``stages``: exaggeration and
    steps of each.
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
    start = tsne.initialization.rescale(start + 1e-6 * np.random.default_rng(seed).normal(size=start.shape))
    method, jobs = ("bh", 1) if len(start) < SMALL_MAP or dimensions > 2 else ("fft", cores(1))
    known = tsne.affinity.PrecomputedAffinities(joint(graph))
    placed = tsne.TSNEEmbedding(start, known, negative_gradient_method=method, n_jobs=jobs, random_state=seed)
    for number, (exaggeration, steps) in enumerate(stages or astuple(STAGES)):
        momentum = 0.8 if number else 0.5
        placed.optimize(steps, exaggeration=exaggeration, momentum=momentum, inplace=True, **_reported(number))
    return np.asarray(placed, np.float64)


def _reported(stage: int) -> dict[str, Any]:
    """Options of openTSNE that say how far a stage is."""
    if not reporting():
        return {}

    def call(step: int, error: float, places: Array) -> None:
        report(f"map, stage {stage + 1}, step {step}")

    return {"callbacks": call, "callbacks_every_iters": 10}


def joint(graph: Graph) -> csr_matrix:
    """The affinities ``P (n, n)`` of a graph, which add up to 1; given ones as they are."""
    if isinstance(graph, AffinityGraph):
        shares = as_scipy(graph.weights)
        shares.setdiag(0)
    else:
        graph = graph.without_loops()
        near = graph.indices.cpu()
        first = torch.arange(0, near.numel() + 1, near.shape[1])
        listed = csr_matrix((np.ones(near.numel()), near.reshape(-1).numpy(), first.numpy()), shape=(graph.n,) * 2)
        listed, walked = listed + listed.T, steps_of_walk(neighbourhood_smoother(graph))
        shares = (listed / listed.sum() + walked / walked.sum()).tocsr()
        root = diags(np.asarray(shares.sum(1)).ravel() ** -0.5)
        shares = (root @ shares @ root).tocsr()
    shares.eliminate_zeros()
    return shares / shares.sum()


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
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with allowed_cores(self.n_jobs):
            return method(self, *args, **kwargs)

    return call


class MapMixin:
    """The map of a fitted estimator's rows and of new ones, made when first asked for, as figure and page."""

    @cached_property
    @on_cores
    def layout_(self: Any) -> Array:
        """A map of the rows of `basis_`, `map_dimensions` coordinates each."""
        check_is_fitted(self)
        graph_rows = np.arange(self.basis_.n) if self._kept is None else self._kept.cpu().numpy()
        seed = int(check_random_state(self.random_state).randint(MOST_SEEDS))
        neighbors = self.map_neighbors if self._searched else None  # given ones are the graph of the map, too
        given = (self.map_dimensions, neighbors, self.map_stages)
        with limited_threads(self._graph.device, self._graph.n, single=SMALL), self._reports():
            self._map = map_layout(self._graph, self._known()[graph_rows], seed, *given)
        return self._map if self._place is None else self._map[self._place.cpu().numpy()]

    @property
    def affinities_(self: Any) -> Any:
        """Affinities ``(n, n)`` of the rows of `basis_` that the map is made of, sparse; the largest is 1."""
        check_is_fitted(self)
        with limited_threads(self._graph.device, self._graph.n, single=SMALL):
            found = joint(self._graph)
        found = (found / found.max()).astype(np.float32)
        return found if self._place is None else found[self._place.cpu().numpy()][:, self._place.cpu().numpy()]

    @on_cores
    def place(self: Any, X: Any) -> Array:
        """Places ``(m, map_dimensions)`` of new rows on the map: averages over their neighbours; a fitted row's own."""
        rows, _ = self._open(X, reset=False), self.layout_
        found: Any = getattr(self.basis_.extension, "context", self.basis_.extension)
        values = torch.from_numpy(np.column_stack([np.zeros(len(self._map)), self._map])).to(found.values)
        places = replace(found, values=values, factors=values.new_ones(values.shape[1]))
        vars(places).update({name: known for name, known in vars(found).items() if name.startswith("_")})  # its search
        return self._stream(rows, places)[0]

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
