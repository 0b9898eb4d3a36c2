"""Groups of a map without labels: k-means, with as many groups as separate best, and their typical rows.

    x (n, k) -> labels (n,), the largest group first;  s(c) = mean silhouette of c groups on a sample of rows
    typical rows of a group = those nearest to its centre

Where there is a map they are those of the map: its groups do not depend on how many coordinates were asked for (digits:
10 groups on the map, 12 to 20 in 8 to 50 coordinates).
"""

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .scene import Array

COUNTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20)  # numbers of groups that are compared
SAMPLE = 3000  # rows that are enough to compare them
TYPICAL = 3  # rows that stand for a group


class Groups(NamedTuple):
    """A group per row (n,), and the rows nearest to the centre of every group."""

    labels: NDArray[np.int64]
    typical: list[list[int]]


def find_groups(x: Array, seed: int = 0) -> Groups | None:
    """Groups of the rows of ``x (n, k)``; None where there are too few rows to speak of groups."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import silhouette_score

    if len(np.unique(x, axis=0)) <= 2 * COUNTS[0]:
        return None
    rows = x[np.random.default_rng(seed).permutation(len(x))[:SAMPLE]]
    most = len(np.unique(rows, axis=0)) // 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than groups: another count is better
        fits = [KMeans(count, n_init=4, random_state=seed).fit(rows) for count in COUNTS if count <= most]
    best = max(fits, key=lambda fit: silhouette_score(rows, fit.labels_))
    found = best.predict(x)
    order = np.argsort(-np.bincount(found, minlength=best.n_clusters), kind="stable")
    place = np.argsort(order)
    centres, labels = best.cluster_centers_[order], place[found]
    typical = []
    for group, centre in enumerate(centres):
        members = np.flatnonzero(labels == group)
        typical.append(members[np.argsort(((x[members] - centre) ** 2).sum(1), kind="stable")[:TYPICAL]].tolist())
    return Groups(labels, typical)
