"""Manifold-learning methods behind one call: ours and the five the paper compares with.

    embed(name, features (n, d), ks, seed) -> {k: embedding (n, k)}, {k: seconds}

Every peer runs with its library's defaults; Laplacian Eigenmaps with a nearest-neighbour affinity of 15 neighbours, as
many as UMAP, because scikit-learn's default (n/10) scores lower on every set we tried, and a second time with the
post-processing of ours (diffusion, sphere). Ours fits ``max(ks)`` coordinates once: the leading ones are the smaller
embeddings; so does a function that is passed as ``fitted``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, extra
from ..estimators import OptimalApproximationEigenmaps
from ..estimators.coordinates import coordinates

Array = NDArray[Any]
Function = Callable[[Array], Array]
METHODS = {
    "direct": "Opt. App. Eigenmaps (direct)",
    "network": "Opt. App. Eigenmaps (network)",
    "paper": "Opt. App. Eigenmaps (the paper's way)",
    "laplacian": "Laplacian Eigenmaps",
    "laplacian_sphere": "Laplacian Eigenmaps, our coordinates",
    "pca": "PCA",
    "umap": "UMAP",
    "tsne": "t-SNE",
    "isomap": "Isomap",
}
LAPLACIAN_NEIGHBOURS = 15


def embed(
    name: str, features: Array, ks: Sequence[int], seed: int, fitted: Function | None = None
) -> tuple[dict[int, Array], dict[int, float]]:
    """Embeddings of each size by one of `METHODS`, and the seconds that each took; ``fitted`` is the paper's way."""
    embeddings, seconds = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers warn about threads and disconnected graphs at every call
        start = time.perf_counter()
        if name in ("direct", "network"):
            model = OptimalApproximationEigenmaps(max(ks), solver=cast(Any, name), random_state=seed).fit(features)
            spent = time.perf_counter() - start
            return {k: model.coordinates_of(k) for k in ks}, dict.fromkeys(ks, spent)
        if name == "paper":
            if fitted is None:
                raise InputError("the paper's way needs its trained network: see --way paper")
            found = fitted(features)
            return {k: found[:, :k] for k in ks}, dict.fromkeys(ks, time.perf_counter() - start)
        for k in ks:
            start = time.perf_counter()
            model = _peer(name.partition("_")[0], k, seed)
            embeddings[k] = np.asarray(model.fit_transform(features))
            if name == "laplacian_sphere":
                embeddings[k] = _on_sphere(embeddings[k], model.affinity_matrix_)
            seconds[k] = time.perf_counter() - start
    return embeddings, seconds


def _peer(name: str, k: int, seed: int) -> Any:
    if name == "umap":
        return extra("umap").UMAP(n_components=k, random_state=seed, n_jobs=1)
    from sklearn import decomposition, manifold

    if name == "pca":
        return decomposition.PCA(k, random_state=seed)
    if name == "isomap":
        return manifold.Isomap(n_components=k)
    if name == "tsne":  # Barnes-Hut trees stop at three dimensions; above, the exact gradient is the only choice
        return manifold.TSNE(k, init="pca", random_state=seed, method="barnes_hut" if k < 4 else "exact")
    neighbours = {"affinity": "nearest_neighbors", "n_neighbors": LAPLACIAN_NEIGHBOURS}
    return manifold.SpectralEmbedding(k, random_state=seed, n_jobs=1, **neighbours)


def _on_sphere(vectors: Array, affinity: Any) -> Array:
    """Eigenvectors ``(n, k)`` of the random walk of an affinity, diffused and projected as ours are."""
    degree = np.asarray(affinity.sum(1)).ravel()
    mass = degree / degree.sum()
    vectors = vectors / np.sqrt((mass[:, None] * vectors**2).sum(0))
    factors = (vectors * (affinity @ vectors)).sum(0) / (degree[:, None] * vectors**2).sum(0)
    usual = OptimalApproximationEigenmaps()
    return coordinates(vectors, mass, factors, usual.coordinates, usual.diffusion_steps)


def check_methods(names: Sequence[str]) -> None:
    """An error that lists the known ones where a name is not among them."""
    for name in names:
        if name not in METHODS:
            raise InputError(f"unknown method {name!r}, known are {', '.join(METHODS)}")
