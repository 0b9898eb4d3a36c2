"""A map of the rows to look at: two coordinates made from the graph and the spectral coordinates.

    P = (A - I/2) / sum,   A the neighbourhood smoother (n, n)            affinities: ours, no second search
    y (n, 2): minimise KL(e P || Q(y)),   q_ij ~ 1 / (1 + |y_i - y_j|^2)  e: exaggeration, falling in stages
    start: the two principal directions of the embedding

This is t-SNE by openTSNE [Policar et al.] with other affinities: the first spectral coordinates isolate outliers, the
exaggerated stages pull whole clusters together, and the last gives their insides room. New rows are put at the average
of their fitted neighbours, as their vectors are (`extensions.neighbourhood`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import extra
from ..graph import Graph
from ..smoothers import neighbourhood_smoother

Array = NDArray[Any]


@dataclass(frozen=True)
class Stages:
    """Exaggeration and steps of every stage, chosen on two subsets of each of three tables of features by another seed
    than the reported ones: a late stage below 2.5 loses clusters, above 3 the order within them."""

    early: tuple[float, int] = (12.0, 60)
    middle: tuple[float, int] = (6.0, 150)
    late: tuple[float, int] = (2.5, 80)


STAGES = Stages()
EXACT_TREE = 10_000  # rows up to which a tree of the plane is faster than a grid


def laid_out(graph: Graph, coordinates: Array, seed: int) -> Array:
    """A map ``(n, 2)`` of the points of a graph with spectral ``coordinates (n, K)``."""
    tsne = extra("openTSNE")
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import PCA

    matrix = neighbourhood_smoother(graph).matrix.cpu()
    joint = csr_matrix((matrix.values(), matrix.col_indices(), matrix.crow_indices()), shape=tuple(matrix.shape))
    joint.setdiag(0)
    joint.eliminate_zeros()

    start = coordinates if coordinates.shape[1] == 1 else PCA(2, random_state=seed).fit_transform(coordinates)
    start = np.column_stack([start, np.zeros(len(start))])[:, :2]
    start = tsne.initialization.rescale(start + 1e-6 * np.random.default_rng(seed).normal(size=start.shape))
    few = len(start) < EXACT_TREE
    method, jobs = ("bh", 1) if few else ("fft", max(1, (os.cpu_count() or 2) // 2))
    known = tsne.affinity.PrecomputedAffinities(joint.astype(np.float64))
    placed = tsne.TSNEEmbedding(start, known, negative_gradient_method=method, n_jobs=jobs, random_state=seed)
    for exaggeration, steps in (STAGES.early, STAGES.middle, STAGES.late):
        momentum = 0.5 if exaggeration == STAGES.early[0] else 0.8
        placed.optimize(steps, exaggeration=exaggeration, momentum=momentum, inplace=True)
    return np.asarray(placed, np.float64)
