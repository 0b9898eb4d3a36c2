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

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags

from ..graph import Graph, build_graph
from ..host.progress import report, reporting
from ..host.threads import cores
from ..smoothers import Smoother, neighbourhood_smoother
from .coordinates import SPATIAL
from .precomputed import AffinityGraph, as_scipy

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
