"""A map of the rows to look at: two coordinates made from the graph and the spectral coordinates.

    P = M^1/2 (A - I/2) M^1/2 / sum     A (n, n), M (n,): the neighbourhood smoother and its mass, no second search
    y (n, 2): minimise KL(e P || Q(y)),   q_ij ~ 1 / (1 + |y_i - y_j|^2)  e: exaggeration, falling in stages
    start: the two principal directions of the embedding

P_ij is how often a random walk on the graph, left alone for long, steps from i to j: outliers, which it seldom visits,
pull little. This is t-SNE by openTSNE [Policar et al.] with other affinities: the first spectral coordinates isolate
outliers, the exaggerated stages pull whole clusters together, and the last gives their insides room. New rows are put
at the average of their fitted neighbours, as their vectors are (`extensions`).
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ..graph import Graph
from ..smoothers import Smoother, neighbourhood_smoother

Array = NDArray[Any]


@dataclass(frozen=True)
class Stages:
    """Exaggeration and steps of every stage, chosen on even rows of three tables of features and on digits: a weak
    early stage leaves parts of a cluster apart, a late one below 2.5 loses clusters, above 3.5 the order within them.
    (`benchmarks.maps` reports odd rows.)"""

    early: tuple[float, int] = (20.0, 150)
    middle: tuple[float, int] = (6.0, 100)
    late: tuple[float, int] = (3.0, 80)


STAGES = Stages()
EXACT_TREE = 10_000  # rows up to which a tree of the plane is faster than a grid


def laid_out(graph: Graph, coordinates: Array, seed: int) -> Array:
    """A map ``(n, 2)`` of the points of a graph with spectral ``coordinates (n, K)``."""
    import openTSNE as tsne
    from sklearn.decomposition import PCA

    joint = _walk(neighbourhood_smoother(graph))

    start = coordinates if coordinates.shape[1] == 1 else PCA(2, random_state=seed).fit_transform(coordinates)
    start = np.column_stack([start, np.zeros(len(start))])[:, :2]
    start = tsne.initialization.rescale(start + 1e-6 * np.random.default_rng(seed).normal(size=start.shape))
    few = len(start) < EXACT_TREE
    method, jobs = ("bh", 1) if few else ("fft", max(1, (os.cpu_count() or 2) // 2))
    known = tsne.affinity.PrecomputedAffinities(joint)
    placed = tsne.TSNEEmbedding(start, known, negative_gradient_method=method, n_jobs=jobs, random_state=seed)
    for exaggeration, steps in (STAGES.early, STAGES.middle, STAGES.late):
        momentum = 0.5 if exaggeration == STAGES.early[0] else 0.8
        placed.optimize(steps, exaggeration=exaggeration, momentum=momentum, inplace=True)
    return np.asarray(placed, np.float64)


def _walk(smoother: Smoother) -> csr_matrix:
    """``M^1/2 (A - I/2) M^1/2``, the shares ``(n, n)`` of the steps of a random walk, up to a factor."""
    assert smoother.mass is not None
    matrix, root = smoother.matrix.cpu(), smoother.mass.cpu().double().sqrt().numpy()
    head, tail = np.repeat(np.arange(len(root)), np.diff(matrix.crow_indices())), matrix.col_indices().numpy()
    values = np.where(head == tail, 0.0, matrix.values().double().numpy() * root[head] * root[tail])
    joint = csr_matrix((values, (head, tail)), shape=tuple(matrix.shape))
    joint.eliminate_zeros()
    return joint
