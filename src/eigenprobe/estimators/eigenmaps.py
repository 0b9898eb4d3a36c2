"""Optimal-Approximation Eigenmaps: the basis that best reconstructs smooth probe functions, as an embedding.

    X (n, d) -> graph -> neighbourhood smoother A -> V (n, K), mu (K,)   A q = mu q,  V = M^-1/2 Q,  constant left out
             -> embedding (n, K), by default  u / sqrt(1 + |u|^2),  u = V mu^t

The last step is the central projection of the diffusion coordinates on the sphere: rows of one cluster lie in one
direction from the origin, at a distance that says little, and the projection keeps the direction.
"""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..basis import Basis
from ..cloud import Frame
from ..errors import InputError
from ..graph import Metric
from ..graph.arranged import Arranged, arrange
from ..threads import limited_threads
from .rows import Rows, open_rows
from .solvers import Training, fit_by_network, fit_direct

Array = NDArray[Any]
Coordinates = Literal["sphere", "diffusion", "vectors", "normalized"]
COORDINATES: tuple[Coordinates, ...] = ("sphere", "diffusion", "vectors", "normalized")
COSINE_COLUMNS = 64  # metric="auto": features this wide are nearly always compared by angle
BLOCK = 1 << 16  # rows of a stream in memory at once
SMALL = 2500  # rows up to which one thread is enough
SUBSET, SUBSETS = 5000, 8  # the network's training clouds: the paper's size, and how many


class OptimalApproximationEigenmaps(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Spectral embedding with eigenvalues, mass and an out-of-sample function.

    Parameters
    ----------
    n_components : int, default=2
        Coordinates of the embedding; the constant vector is not one of them.
    solver : {"direct", "network"}, default="direct"
        Closed form, or a network trained to reconstruct the probes.
    metric : {"auto", "cosine", "euclidean"}, default="auto"
        ``auto`` is cosine from 64 columns on (embeddings), Euclidean below (measurements).
    n_neighbors : int, default=12
        Size of the neighbourhoods; at most ``n_samples - 1`` are used.
    coordinates : {"sphere", "diffusion", "vectors", "normalized"}, default="sphere"
        ``V mu^t`` projected on the sphere, ``V mu^t`` itself, ``V``, or ``Q``.
    diffusion_steps : float, default=30
        The power ``t``.
    max_samples : int, default=20000
        Larger data are embedded through a random subset of this size: the subset is fitted, the rest is placed by
        ``transform``, in blocks. The network trains on subsets of 5000 rows whatever the size.
    hidden_layer_sizes, max_iter, learning_rate
        The network and its training (``solver="network"``).
    random_state : int, RandomState or None, default=None
    device : str, default="auto"
        ``auto`` is the GPU where there is one.
    trainer : dict or None, default=None
        Flags of Lightning's Trainer for ``solver="network"``: ``{"devices": 4, "num_nodes": 2, "strategy": "ddp"}``.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
    eigenvalues_ : ndarray of shape (n_components,)
        Ascending; the zero of the constant is left out. Inverse squared lengths with the Euclidean metric (2 and 6 on
        the unit sphere). Cosine distances are half of the squared distances of unit rows, so that inverse cosine
        distances are twice as much (4 and 12), as in `decompose`.
    mass_ : ndarray of shape (n_samples,)
        Sums to 1; copies of a row have equal shares.
    vectors_ : ndarray of shape (n_samples, n_components)
        The unnormalised basis V without its constant.
    basis_ : Basis
        The fitted rows (a subset of large data) as a `Basis`, the constant included: ``basis_.save``, ``basis_(rows)``.
    n_iter_ : int
        Training steps of the network; 1 for the closed form.
    n_features_in_, feature_names_in_

    Notes
    -----
    ``X`` may also be a path (npy, npz, csv, parquet, HDF5), a memory map, an h5py data set or a map-style torch data
    set; these are read in blocks and never held whole.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = OptimalApproximationEigenmaps(n_components=10, random_state=0).fit(X)
    >>> model.embedding_.shape
    (1797, 10)
    >>> bool(np.allclose(model.transform(X[:5]), model.embedding_[:5]))
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        solver: Literal["direct", "network"] = "direct",
        metric: Literal["auto", "cosine", "euclidean"] = "auto",
        n_neighbors: int = 12,
        coordinates: Coordinates = "sphere",
        diffusion_steps: float = 30.0,
        max_samples: int = 20_000,
        hidden_layer_sizes: tuple[int, ...] = (128,),
        max_iter: int = 100,
        learning_rate: float = 3e-3,
        random_state: Any = None,
        device: str = "auto",
        trainer: dict[str, Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.coordinates = coordinates
        self.diffusion_steps = diffusion_steps
        self.max_samples = max_samples
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.random_state = random_state
        self.device = device
        self.trainer = trainer

    def fit(self, X: Any, y: Any = None) -> OptimalApproximationEigenmaps:
        """Fit the embedding of ``X (n_samples, n_features)``; ``y`` is ignored."""
        self._check_parameters()
        rows = self._open(X, reset=True)
        n = rows.shape[0]
        if self.n_components >= n:
            raise InputError(f"n_components must be below n_samples={n}, got {self.n_components}")
        metric = choose_metric(self.metric, rows.shape[1])
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        sample = self._sample(rows, self.max_samples, rng)
        with limited_threads(sample.device, len(sample), single=SMALL + 1):
            self.basis_ = self._solve(sample, rows, metric, rng, seed).numpy()
        if self.basis_.n == n:
            vectors, mass = self.basis_.vectors[:, 1:], self.basis_.mass
        else:
            vectors, mass = self._stream(rows)
        self._total = float(mass.sum(dtype=np.float64))
        self.vectors_, self.mass_ = vectors.astype(self._dtype), (mass / self._total).astype(self._dtype)
        self.eigenvalues_ = self.basis_.eigenvalues[1:]
        self.embedding_ = self.coordinates_of(self.n_components)
        self._n_features_out = self.n_components
        self.n_iter_ = self.max_iter if self.solver == "network" else 1
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """``fit(X).embedding_``."""
        return self.fit(X).embedding_

    def transform(self, X: Any) -> Array:
        """Coordinates of new rows ``(m, n_components)``. Row i depends on row i alone; fitted rows get their values."""
        check_is_fitted(self)
        vectors, mass = self._stream(self._open(X, reset=False))
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else self._dtype
        return self._coordinates(vectors, mass / self._total, self.n_components, dtype)

    def coordinates_of(self, k: int) -> Array:
        """The embedding with the first ``k`` components only, as a fit with ``n_components=k`` would give it."""
        if not 1 <= k <= self.n_components:
            raise InputError(f"k must be between 1 and n_components={self.n_components}, got {k}")
        return self._coordinates(self.vectors_, self.mass_, k, self.vectors_.dtype)

    def _coordinates(self, vectors: Array, mass: Array, k: int, dtype: Any) -> Array:
        factors = 1 - self.basis_.eigenvalues[1 : k + 1] * self.basis_.info["step_time"]
        return coordinates(vectors[:, :k], mass, factors, self.coordinates, self.diffusion_steps).astype(dtype)

    def _solve(self, sample: torch.Tensor, rows: Rows, metric: Metric, rng: np.random.RandomState, seed: int) -> Basis:
        count, n = self.n_components + 1, rows.shape[0]
        frame = Frame.of(sample, metric, centred=False)

        def cloud(given: torch.Tensor) -> Arranged:
            return arrange(given, self.n_neighbors, count, metric, frame=frame, dtype=torch.float32)

        if self.solver == "direct":
            return fit_direct(cloud(sample), count, seed)
        subsets = min(SUBSETS, 1 + n // SUBSET) if n > SUBSET else 0
        clouds = [cloud(self._sample(rows, SUBSET, rng)) for _ in range(subsets)] or [cloud(sample)]
        training = Training(self.hidden_layer_sizes, self.max_iter, self.learning_rate, dict(self.trainer or {}))
        return fit_by_network(clouds, count, seed, training)

    def _sample(self, rows: Rows, size: int, rng: np.random.RandomState) -> torch.Tensor:
        """All rows, or ``size`` random ones, on the device."""
        n = rows.shape[0]
        if n <= size:
            sample = self._checked(np.concatenate(list(rows.blocks(BLOCK))), np.arange(n))
        else:
            chosen = np.sort(rng.permutation(n)[:size])
            sample = self._checked(rows.take(chosen), chosen)
        best = "cuda" if torch.cuda.is_available() else "cpu"
        return sample.to(best if self.device == "auto" else self.device)

    def _stream(self, rows: Rows) -> tuple[Array, Array]:
        """Vectors without the constant ``(n, n_components)`` and mass ``(n,)`` of all rows, block by block."""
        n = rows.shape[0]
        function: Any = self.basis_.extension
        vectors = np.empty((n, self.n_components), np.float32 if n > BLOCK else np.float64)
        mass, done = np.empty(n), 0
        for block in rows.blocks(BLOCK):
            numbers = np.arange(done, done + len(block))
            values, weight = function.with_mass(self._checked(block, numbers))
            vectors[numbers], mass[numbers] = values[:, 1:].cpu().numpy(), weight.cpu().numpy()
            done += len(block)
        return vectors, mass

    def _checked(self, rows: Array, numbers: Array) -> torch.Tensor:
        """Rows of a source, whose ``numbers`` are for messages."""
        finite = np.isfinite(rows).all(1)
        if not finite.all():
            raise InputError(f"features must be finite, row {numbers[np.argmin(finite)]} has NaN or infinity")
        return torch.from_numpy(np.array(rows, order="C"))  # a copy: the basis keeps it

    def _open(self, X: Any, reset: bool) -> Rows:
        """Arrays by scikit-learn's rules; paths, large memory maps and data sets by rows."""
        streamed = isinstance(X, (str, os.PathLike, torch.utils.data.Dataset, Rows))
        streamed |= type(X).__module__.startswith("h5py") or (isinstance(X, np.memmap) and len(X) > self.max_samples)
        if not streamed:
            X = X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else X
            least = 2 if reset else 1
            X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=least)
            if reset:
                self._dtype = X.dtype
            return open_rows(X)
        rows = open_rows(X)
        if reset:
            self._dtype = np.dtype(np.float32)
            self.n_features_in_ = rows.shape[1]
            if rows.shape[0] < 2:
                raise InputError(f"at least 2 rows are needed, got {rows.shape[0]}")
        elif rows.shape[1] != self.n_features_in_:
            raise InputError(f"expected {self.n_features_in_} columns, as in fit, got {rows.shape[1]}")
        return rows

    def _check_parameters(self) -> None:
        if self.solver not in ("direct", "network"):
            raise InputError(f"solver must be 'direct' or 'network', got {self.solver!r}")
        if self.coordinates not in COORDINATES:
            raise InputError(f"coordinates must be one of {', '.join(COORDINATES)}, got {self.coordinates!r}")
        for name in ("n_components", "n_neighbors", "max_iter"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise InputError(f"{name} must be a positive integer, got {value!r}")
        if self.max_samples <= max(self.n_components, self.n_neighbors):
            raise InputError(f"max_samples must exceed n_components and n_neighbors, got {self.max_samples}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def choose_metric(metric: str, columns: int) -> Metric:
    """``auto`` is cosine for wide tables and Euclidean for narrow ones."""
    if metric not in ("auto", "euclidean", "cosine"):
        raise InputError(f"metric must be 'auto', 'euclidean' or 'cosine', got {metric!r}")
    return "cosine" if metric == "cosine" or (metric == "auto" and columns >= COSINE_COLUMNS) else "euclidean"


def coordinates(vectors: Array, mass: Array, factors: Array, kind: Coordinates, steps: float) -> Array:
    """The embedding ``(m, K)`` of vectors ``(m, K)``, mass ``(m,)`` and eigenvalues mu ``(K,)`` of the smoother."""
    if kind == "vectors":
        return vectors
    if kind == "normalized":
        return vectors * np.sqrt(mass)[:, None]
    spread = vectors * np.maximum(factors, 0) ** steps
    return spread if kind == "diffusion" else spread / np.sqrt(1 + (spread**2).sum(1, keepdims=True))
