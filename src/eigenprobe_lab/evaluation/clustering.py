"""How well an embedding separates labelled classes: k-means in it, compared with the labels.

    embedding (n, k) -> k-means with as many clusters as classes -> predicted (n,) -> seven scores

NMI = 2 I(y; p) / (H(y) + H(p)), which is also the V-measure; AMI and ARI are corrected for chance;
homogeneity is I/H(y), completeness I/H(p); FMI is the geometric mean of pairwise precision and
recall.
"""

import numpy as np

from eigenprobe.errors import InputError
from eigenprobe.io.mesh import Array

SCORES = {  # the paper's columns, in its order, and their names in scikit-learn
    "nmi": ("NMI", "normalized_mutual_info_score"),
    "ari": ("ARI", "adjusted_rand_score"),
    "completeness": ("Comp.", "completeness_score"),
    "ami": ("AMI", "adjusted_mutual_info_score"),
    "homogeneity": ("Homo.", "homogeneity_score"),
    "v_measure": ("V-Meas.", "v_measure_score"),
    "fmi": ("FMI", "fowlkes_mallows_score"),
}
METRICS = {name: title for name, (title, _) in SCORES.items()}


def cluster_scores(labels: Array, predicted: Array) -> dict[str, float]:
    """The seven scores of a clustering against labels.

    >>> scores = cluster_scores(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    >>> {round(value, 6) for value in scores.values()}
    {1.0}
    """
    from sklearn import metrics

    if len(labels) != len(predicted):
        raise InputError(
            f"labels and clusters must be of one length, got {len(labels)} and {len(predicted)}"
        )
    return {
        name: float(getattr(metrics, function)(labels, predicted))
        for name, (_, function) in SCORES.items()
    }


def kmeans_scores(
    embedding: Array, labels: Array, *, seed: int = 0, starts: int = 10
) -> dict[str, float]:
    """k-means in the embedding with one cluster per class, then `cluster_scores`."""
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters=len(np.unique(labels)), n_init=starts, random_state=seed)
    return cluster_scores(labels, model.fit_predict(np.asarray(embedding, np.float64)))


def trustworthiness(features: Array, embedding: Array, *, k: int = 10) -> float:
    """One minus the share (by rank) of embedding neighbours that are strangers in the features; 1
    is perfect.
    """
    from sklearn.manifold import trustworthiness as score

    return float(score(features, embedding, n_neighbors=min(k, (len(features) - 1) // 2)))
