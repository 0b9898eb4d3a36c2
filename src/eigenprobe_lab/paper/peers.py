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
from typing import Any, cast

import numpy as np
import torch
from scipy.spatial.distance import squareform
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE, Isomap, SpectralEmbedding
from sklearn.manifold._t_sne import _gradient_descent

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
TINY = float(np.finfo(float).eps)


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
                    model = OptimalApproximationEigenmaps(k, solver=cast(Any, name), random_state=seed).fit(features)
                else:
                    model = PEERS[kind](k, seed)
                    found = np.asarray(model.fit_transform(features))
                seconds[k] = time.perf_counter() - start
            seconds.setdefault(k, seconds[max(ks)])
            embeddings[k] = model.coordinates_of(k) if name in ("direct", "network") else found[:, :k]
            if sphere:
                embeddings[k] = _on_sphere(embeddings[k], model.affinity_matrix_)
    return embeddings, seconds


def _tsne(k: int, seed: int) -> TSNE:
    if torch.cuda.is_available():
        return DeviceTsne(k, init="pca", random_state=seed, method="exact")
    return TSNE(k, init="pca", random_state=seed, method="barnes_hut" if k < 4 else "exact")  # trees stop at three


LAPLACIAN = {"affinity": "nearest_neighbors", "n_neighbors": 15, "n_jobs": 1}
PEERS: dict[str, Callable[[int, int], Any]] = {  # of the number of coordinates and the seed
    "umap": lambda k, seed: extra("umap").UMAP(n_components=k, random_state=seed, n_jobs=1),
    "pca": lambda k, seed: PCA(k, random_state=seed),
    "isomap": lambda k, seed: Isomap(n_components=k),
    "tsne": _tsne,
    "laplacian": lambda k, seed: SpectralEmbedding(k, random_state=seed, **LAPLACIAN),
}


class TsneGradient:
    """The gradient of scikit-learn's exact t-SNE for all points at once, on a GPU; theirs is a loop over points.

    grad_i = 2 (f + 1) / f sum_j (p_ij - q_ij) w_ij (y_i - y_j),   w = (1 + |y_i - y_j|^2 / f)^(-(f + 1) / 2)
    """

    def __init__(self, device: str = "cuda") -> None:
        self.device, self.first, self.joint = device, 0.0, torch.empty(0)

    def __call__(
        self, flat: Array, joint: Array, f: float, n: int, k: int, skip_num_points: int = 0, compute_error: bool = True
    ) -> tuple[float, Array]:
        """KL divergence of ``joint`` (condensed) from the kernel ``w`` of the embedding ``(n k,)``, and gradient."""
        if self.first != joint[0]:  # exaggerated at first, not later; never zero
            self.first, self.joint = joint[0], torch.as_tensor(squareform(joint), device=self.device)
        y, p = torch.as_tensor(flat.reshape(n, k), device=self.device).double(), self.joint
        w = (1 + torch.cdist(y, y).square_() / f).pow_(-(f + 1) / 2).fill_diagonal_(0)
        q = (w / w.sum()).clamp_min_(TINY)
        error = float((p * (p.clamp_min(TINY) / q).log_()).sum()) if compute_error else np.nan
        pull = (p - q).mul_(w)
        gradient = 2 * (f + 1) / f * (pull.sum(1, keepdim=True) * y - pull @ y)
        return error, gradient.cpu().numpy().ravel().astype(flat.dtype)


class DeviceTsne(TSNE):  # type: ignore[misc]
    """scikit-learn's exact t-SNE in its two stages, by the gradient above; the test compares it with the library's."""

    device = "cuda"

    def _tsne(self, joint: Array, f: float, n: int, X_embedded: Array, **_: Any) -> Array:
        options: dict[str, Any] = {"n_iter_check": self._N_ITER_CHECK, "min_grad_norm": self.min_grad_norm}
        options |= {"learning_rate": self.learning_rate_, "args": [joint, f, n, self.n_components]}
        first: dict[str, Any] = {"momentum": 0.5, "n_iter_without_progress": self._EXPLORATION_MAX_ITER}
        then: dict[str, Any] = {"momentum": 0.8, "n_iter_without_progress": self.n_iter_without_progress}
        gradient, most = TsneGradient(self.device), self._EXPLORATION_MAX_ITER
        joint *= self.early_exaggeration
        flat, _, last = _gradient_descent(gradient, X_embedded.ravel(), 0, most, **options, **first)
        joint /= self.early_exaggeration
        flat, error, last = _gradient_descent(gradient, flat, last + 1, self.max_iter, **options, **then)
        self.n_iter_, self.kl_divergence_ = last, error
        return flat.reshape(n, self.n_components)


def _on_sphere(vectors: Array, affinity: Any) -> Array:
    """Eigenvectors ``(n, k)`` of the random walk of an affinity, diffused and projected as ours are."""
    degree = np.asarray(affinity.sum(1)).ravel()
    mass = degree / degree.sum()
    vectors = vectors / np.sqrt((mass[:, None] * vectors**2).sum(0))
    factors = (vectors * (affinity @ vectors)).sum(0) / (degree[:, None] * vectors**2).sum(0)
    usual = OptimalApproximationEigenmaps()
    return coordinates(vectors, mass, factors, "sphere", diffusion_time(usual.diffusion_steps, factors))
