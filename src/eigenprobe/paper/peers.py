"""Manifold-learning methods behind one call: ours and the five the paper compares with.

    METHODS[name](features (n, d), ks, seed) -> {k: embedding (n, k)}, seconds of the slowest single k

Every peer runs with its library's defaults; Laplacian Eigenmaps with a nearest-neighbour affinity of 15 neighbours, as
many as UMAP, because scikit-learn's default (n/10) scores lower on every set we tried. Ours fits ``max(ks)``
coordinates once: the leading ones are the smaller embeddings.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

Array = NDArray[Any]
Embeddings = dict[int, Array]
Method = Callable[[Array, Sequence[int], int], tuple[Embeddings, dict[int, float]]]
LAPLACIAN_NEIGHBOURS = 15


def _each(build: Callable[[int, int], Any]) -> Method:
    """A method that must be fitted anew for every k."""

    def run(features: Array, ks: Sequence[int], seed: int) -> tuple[Embeddings, dict[int, float]]:
        embeddings, seconds = {}, {}
        for k in ks:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # peers warn about threads and disconnected graphs at every call
                embeddings[k] = np.asarray(build(k, seed).fit_transform(features))
            seconds[k] = time.perf_counter() - start
        return embeddings, seconds

    return run


def _ours(solver: Literal["direct", "network"]) -> Method:
    def run(features: Array, ks: Sequence[int], seed: int) -> tuple[Embeddings, dict[int, float]]:
        from ..estimators import OptimalApproximationEigenmaps

        start = time.perf_counter()
        model = OptimalApproximationEigenmaps(n_components=max(ks), solver=solver, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(features)
        seconds = time.perf_counter() - start
        return {k: model.coordinates_of(k) for k in ks}, dict.fromkeys(ks, seconds)

    return run


def _pca(k: int, seed: int) -> Any:
    from sklearn.decomposition import PCA

    return PCA(k, random_state=seed)


def _isomap(k: int, seed: int) -> Any:
    from sklearn.manifold import Isomap

    return Isomap(n_components=k)


def _laplacian(k: int, seed: int) -> Any:
    from sklearn.manifold import SpectralEmbedding

    return SpectralEmbedding(
        k, affinity="nearest_neighbors", n_neighbors=LAPLACIAN_NEIGHBOURS, random_state=seed, n_jobs=1
    )


def _tsne(k: int, seed: int) -> Any:
    from sklearn.manifold import TSNE

    # Barnes-Hut trees stop at three dimensions; above, the exact gradient is the only choice
    return TSNE(k, init="pca", random_state=seed, method="barnes_hut" if k < 4 else "exact")


def _umap(k: int, seed: int) -> Any:
    try:
        import umap
    except ImportError as error:
        raise InputError("UMAP needs umap-learn: pip install 'eigenprobe[peers]'") from error
    return umap.UMAP(n_components=k, random_state=seed, n_jobs=1)


METHODS: dict[str, Method] = {
    "direct": _ours("direct"),
    "network": _ours("network"),
    "laplacian": _each(_laplacian),
    "pca": _each(_pca),
    "umap": _each(_umap),
    "tsne": _each(_tsne),
    "isomap": _each(_isomap),
}
TITLES = {
    "direct": "Opt. App. Eigenmaps (direct)",
    "network": "Opt. App. Eigenmaps (network)",
    "laplacian": "Laplacian Eigenmaps",
    "pca": "PCA",
    "umap": "UMAP",
    "tsne": "t-SNE",
    "isomap": "Isomap",
}


def check_methods(names: Sequence[str]) -> list[str]:
    """The names, or an error that lists the known ones."""
    for name in names:
        if name not in METHODS:
            raise InputError(f"unknown method {name!r}, known are {', '.join(METHODS)}")
    return list(names)
