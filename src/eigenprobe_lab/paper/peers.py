"""Manifold-learning methods behind one call: ours and the five the paper compares with.

    embed(name, features (n, d), ks, seed) -> {k: embedding (n, k)}, {k: seconds}

Every peer runs with its library's defaults; Laplacian Eigenmaps with a nearest-neighbour affinity of 15 neighbours, as
many as UMAP, because scikit-learn's default (n/10) scores lower on every set we tried, and a second time with the
post-processing of ours (diffusion, sphere). Where the leading columns of an embedding are the smaller ones (all but
t-SNE and UMAP) ``max(ks)`` are fitted once.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE, Isomap, SpectralEmbedding

from eigenprobe.errors import InputError, extra
from eigenprobe.estimators import OptimalApproximationEigenmaps
from eigenprobe.estimators.coordinates import coordinates, diffusion_time
from eigenprobe.readers.mesh import Array

Function = Callable[[Array], Array]
Fitted = Mapping[str, Function]  # by method
METHODS = {
    "direct": "Opt. App. Eigenmaps (direct)",
    "network": "Opt. App. Eigenmaps (network)",
    "paper": "Opt. App. Eigenmaps (the paper's way)",
    "untrained": "the paper's network, untrained",
    "probes": "closed form of the paper's probes",
    "laplacian": "Laplacian Eigenmaps",
    "laplacian_sphere": "Laplacian Eigenmaps, our coordinates",
    "pca": "PCA",
    "umap": "UMAP",
    "tsne": "t-SNE",
    "isomap": "Isomap",
}
FITTED = ("paper", "untrained", "probes")  # functions that are given


def embed(
    name: str, features: Array, ks: Sequence[int], seed: int, fitted: Fitted | None = None
) -> tuple[dict[int, Array], dict[int, float]]:
    """Embeddings of each size by one of `METHODS`, and the seconds that each took; `FITTED` are given."""
    if name in FITTED and (fitted is None or name not in fitted):
        raise InputError(f"{METHODS[name]} has to be given: see --way paper")
    embeddings, seconds, (kind, _, sphere) = {}, {}, name.partition("_")
    with warnings.catch_warnings(action="ignore"):  # peers warn about threads and disconnected graphs at every call
        for k in sorted(ks, reverse=True):
            if k == max(ks) or kind in ("tsne", "umap"):  # of the others the leading columns are the smaller embedding
                start = time.perf_counter()
                if fitted is not None and name in fitted:
                    found = fitted[name](features)
                elif name in ("direct", "network"):
                    shown = "sphere" if k < 4 else "auto"  # which would be the map of two or three coordinates
                    options: Any = {"solver": name, "coordinates": shown, "random_state": seed}
                    model = OptimalApproximationEigenmaps(k, **options).fit(features)
                else:
                    model = PEERS[kind](k, seed)
                    found = np.asarray(model.fit_transform(features))
                seconds[k] = time.perf_counter() - start
            seconds.setdefault(k, seconds[max(ks)])
            if name in ("direct", "network"):
                embeddings[k] = model.embedding_ if k == max(ks) else model.coordinates_of(k)
            else:
                embeddings[k] = found[:, :k]
            if sphere:
                embeddings[k] = _on_sphere(embeddings[k], model.affinity_matrix_)
    return embeddings, seconds


LAPLACIAN = {"affinity": "nearest_neighbors", "n_neighbors": 15, "n_jobs": 1}
PEERS: dict[str, Callable[[int, int], Any]] = {  # of the number of coordinates and the seed
    "umap": lambda k, seed: extra("umap").UMAP(n_components=k, random_state=seed, n_jobs=1),
    "pca": lambda k, seed: PCA(k, random_state=seed),
    "isomap": lambda k, seed: Isomap(n_components=k),
    "tsne": lambda k, seed: TSNE(k, init="pca", random_state=seed, method="barnes_hut" if k < 4 else "exact"),
    "laplacian": lambda k, seed: SpectralEmbedding(k, random_state=seed, **LAPLACIAN),
}


def _on_sphere(vectors: Array, affinity: Any) -> Array:
    """Eigenvectors ``(n, k)`` of the random walk of an affinity, diffused and projected as ours are."""
    degree = np.asarray(affinity.sum(1)).ravel()
    mass = degree / degree.sum()
    vectors = vectors / np.sqrt((mass[:, None] * vectors**2).sum(0))
    factors = (vectors * (affinity @ vectors)).sum(0) / (degree[:, None] * vectors**2).sum(0)
    usual = OptimalApproximationEigenmaps()
    return coordinates(vectors, mass, factors, "sphere", diffusion_time(usual.diffusion_steps, factors))
