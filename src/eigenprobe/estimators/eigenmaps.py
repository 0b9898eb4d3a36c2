"""Optimal-Approximation Eigenmaps: the basis that best reconstructs smooth probe functions, as an embedding.

    X (n, d) -> graph -> neighbourhood smoother A -> V (n, K), mu (K,)   A q = mu q,  V = M^-1/2 Q,  constant left out
             -> embedding (n, K), by default  u / sqrt(1 + |u|^2),  u = V mu^t

The last step is the central projection of the diffusion coordinates on the sphere: rows of one cluster lie in one
direction from the origin, at a distance that says little, and the projection keeps the direction. Two or three
coordinates, which are to be looked at, and those that are fewer than the groups are the map of the rows (`layout`).
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..cloud import Frame
from ..errors import InputError, warn
from ..graph.arranged import Arranged, arrange, extend, without_near_copies
from ..host.device import resolved
from ..host.progress import reports_to
from ..host.threads import limited_threads
from ..host.validation import as_array
from ..readers.rows import Rows, checked
from ..search.neighbours import EXACT_POINTS, nearest_sparse
from .coordinates import (
    AFFINITY,
    LEAST,
    PLANE_AND_SPACE,
    SPATIAL,
    Coordinates,
    check_parameters,
    choose_coordinates,
    choose_metric,
    coordinates,
    diffusion_time,
    folding,
    local_averages,
    warn_of_few_columns,
)
from .layout import SMALL, MapMixin, codes, on_cores
from .network import Training, fit_by_network
from .precomputed import AffinityGraph, arranged_by, by_distances, given_neighbours
from .solvers import PARTS_ONLY, fit_direct, largest_gap, spectrum, starting_vectors
from .sources import MOST_SEEDS, PRECOMPUTED, open_table, rows_to_fit, sampled, transformed

Array = NDArray[Any]
BLOCK = 1 << 18  # rows of a stream in memory at once, at most
FEWEST_FOLDED = 4  # coordinates: two or three are asked for to be looked at
MANY_GROUPS = 2.5  # per vector, from which more vectors are folded
MANY_PARTS = 2  # per coordinate, above which a warning says so
SUBSET, SUBSETS = 5000, 8  # the network's training clouds: the paper's size, and how many


class OptimalApproximationEigenmaps(MapMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Spectral embedding with eigenvalues, mass and an out-of-sample function.

    Parameters
    ----------
    n_components : int, default=8
        Coordinates of the embedding; the constant vector is not one of them.
    solver : {"direct", "network"}, default="direct"
        Closed form, or a network trained to reconstruct the probes.
    metric : str or function of two rows, default="auto"
        ``auto`` is cosine from 64 columns on (embeddings, counts), Euclidean below (measurements) and for wide tables
        that vary in fewer than 9 directions (curves, surfaces); `metric_` says which. With ``precomputed`` X is a
        matrix of distances (n_samples, n_samples), whole or sparse with at least ``n_neighbors`` entries per row; with
        ``precomputed_affinity`` X is a symmetric matrix of weights, all of which are used, as by scikit-learn's
        ``SpectralEmbedding(affinity="precomputed")``. Other names are those of scikit-learn and pynndescent. A function
        of two rows serves up to 5000 of them, one compiled by ``numba.njit`` any number.
    metric_kwds : dict or None, default=None
        Further arguments of another metric: ``{"p": 3}`` for ``metric="minkowski"``.
    n_neighbors : int, default=12
        Size of the neighbourhoods; at most ``n_samples - 1`` are used.
    coordinates : {"auto", "sphere", "diffusion", "vectors", "normalized", "map"}, default="auto"
        ``V mu^t`` projected on the sphere, ``V mu^t`` itself, ``V``, ``Q``, or a map, as `layout_` is one, of two or
        more dimensions. ``auto`` is the map where two or three coordinates are asked for, to be looked at (31 to
        100,000 rows in the plane, 10,000 in space, with ``solver="direct"``), and the sphere elsewhere; `coordinates_`
        says which, and a warning how to get eigenvectors: ``vectors`` or ``sphere``. Where at least 4 coordinates
        are asked for and rows have more separate parts than that, (cosine distances) 2.5 times as many groups, or (up
        to 20,000 rows) eigenvalues that hardly grow beyond, and no gap of them says that the groups end about there,
        they are those of a map as well, so that no group is lost; in larger tables, or where ``diffusion_steps`` is
        given, up to 100 vectors are projected and folded into ``n_components`` directions that keep rows apart. Then no
        column belongs to one eigenvalue, and ``sphere`` gives those. Take ``vectors`` where rows
        lie on a curve or a surface and a coordinate is to follow it: the projection serves groups and bends it (rank
        correlation with the first harmonic of a sphere .999 of the vector, .91 to .97 on the sphere).
    diffusion_steps : float or "auto", default="auto"
        The power ``t``. ``auto`` is 30, less on small tables, where the last coordinate would vanish.
    max_samples : int or "auto", default="auto"
        Larger data are embedded through a random subset of this size: the subset is fitted, the rest is placed by
        ``transform``, in blocks. ``auto`` is as many rows as half of the memory holds, two million at most. The network
        trains on subsets of 5000 rows whatever the size.
    hidden_layer_sizes, max_iter, learning_rate
        The network and its training (``solver="network"``).
    map_dimensions : {2, 3}, default=2
        Dimensions of the map `layout_`.
    map_neighbors : int or None, default=None
        Neighbours of a row on the map; None: those of the fit, more are searched. More make groups rounder.
    map_stages : tuple of (exaggeration, steps) or None, default=None
        Stages of the map; None: ``((12, 80), (4, 50), (1, 60), (2, 50))``, in more than three dimensions
        ``((2, 100),)``. A last stage of 1 gives the insides of groups more room, one of 4 gathers them.
    target_weight : float, default=0
        How much labels ``y`` of `fit`, -1 where unknown, pull equal rows together on the map; UMAP's default is .5.
        Such a map shows the labels as well as the rows; vectors and eigenvalues do not depend on them.
    n_jobs : int or None, default=None
        Cores to use, -1 for all; None: all for the search, half of them for the rest.
    random_state : int, RandomState or None, default=None
    device : str, default="auto"
        ``auto`` is the GPU where there is one.
    verbose : bool, default=False
        Whether a fit prints its stages, the metric that ``auto`` chose and the solver, and every two seconds how far
        it has come.
    trainer : dict or None, default=None
        Flags of Lightning's Trainer for ``solver="network"``: ``{"devices": 4, "num_nodes": 2, "strategy": "ddp"}``.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
    coordinates_ : str
        The coordinates that it has: one of the names above, not ``auto``.
    eigenvalues_ : ndarray of shape (n_components,)
        Ascending; the zero of the constant is left out. Inverse squared lengths with the Euclidean metric (2 and 6 on
        the unit sphere; each within about a tenth, since the density of random rows is not divided out: `decompose`
        gives those of a shape). Cosine distances are half of the squared distances of unit rows, so that inverse cosine
        distances are twice as much (4 and 12), as in `decompose`.
    metric_ : str
        The metric that was used.
    mass_ : ndarray of shape (n_samples,)
        Sums to 1; copies of a row have equal shares.
    vectors_ : ndarray of shape (n_samples, n_components)
        The unnormalised basis V without its constant.
    basis_ : Basis
        The fitted rows (a subset of large data) as a `Basis`, the constant included: ``basis_.save``, ``basis_(rows)``.
    suggest_components_ : int
        How many coordinates the rows have, from the widest gap of `spectrum_`, the eigenvalues mu ``(up to 100,)``;
        `plot_spectrum` draws the gaps.
    layout_ : ndarray of shape (n_samples, map_dimensions)
        A map of the fitted rows to look at, made from the graph and the embedding by openTSNE when first asked for;
        `place` puts new rows on it.
    affinities_ : sparse matrix of shape (n_samples, n_samples)
        Of neighbours on the map, for finding clusters on a graph (Leiden).
    n_iter_ : int
        Training steps of the network; 1 for the closed form.
    n_features_in_, feature_names_in_

    Notes
    -----
    ``X`` may also be a path or an address that fsspec reads (npy, npz, csv, parquet, HDF5), a memory map, an h5py data
    set or a map-style torch data set; these are read in blocks. Of a dask array or data frame a sample is fitted, which
    the fitted attributes then describe, and ``transform`` returns a lazy dask array. Sparse matrices of more than 1024
    columns are kept as a random projection on 1024; up to 50,000 rows are compared exactly when fitted. Metrics other
    than cosine and Euclidean need dense rows; those of presence and absence (``jaccard``, ``dice``) take entries other
    than 0 for 1, ``hamming`` refuses real numbers. NaN and masked entries are refused. Tensors give tensors; fitted
    attributes are arrays.

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
        n_components: int = 8,
        *,
        solver: Literal["direct", "network"] = "direct",
        metric: str | Callable[..., float] = "auto",
        metric_kwds: dict[str, Any] | None = None,
        n_neighbors: int = 12,
        coordinates: Coordinates = "auto",
        diffusion_steps: float | Literal["auto"] = "auto",
        max_samples: int | Literal["auto"] = "auto",
        hidden_layer_sizes: tuple[int, ...] = (128,),
        max_iter: int = 100,
        learning_rate: float = 3e-3,
        map_dimensions: int = 2,
        map_neighbors: int | None = None,
        map_stages: tuple[tuple[float, int], ...] | None = None,
        target_weight: float = 0.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: bool = False,
        trainer: dict[str, Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.metric = metric
        self.metric_kwds = metric_kwds
        self.n_neighbors = n_neighbors
        self.coordinates = coordinates
        self.diffusion_steps = diffusion_steps
        self.max_samples = max_samples
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.map_dimensions = map_dimensions
        self.map_neighbors = map_neighbors
        self.map_stages = map_stages
        self.target_weight = target_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.trainer = trainer

    @on_cores
    def fit(self, X: object, y: object = None, *, neighbors: tuple[Any, Any] | None = None) -> Self:
        """Fit the embedding of ``X (n_samples, n_features)``; ``y`` are labels for ``target_weight``, ignored at 0.

        ``neighbors`` are known indices and distances ``(n_samples, k)`` of nearest rows, which are then not searched.
        """
        check_parameters(self)
        if _is_dask(X):
            X = sampled(self, X)
        rows = self._open(X, reset=True)
        n = rows.shape[0]
        if self.n_components >= n:
            raise InputError(f"n_components must be below n_samples={n}, got {self.n_components}")
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(MOST_SEEDS))
        limit = n if neighbors is not None else rows_to_fit(self, rows.shape[1])
        with limited_threads(self._device(), min(n, limit), single=SMALL), self._reports():
            if self.metric in PRECOMPUTED:
                self._searched = False
                self.metric_: str | Callable[..., float] = self.metric
                clouds = [self._precomputed(rows.array)]
            else:
                sample = self._sample(rows, limit, rng)
                self.metric_ = choose_metric(self.metric, sample)
                if self.metric_ == "euclidean":
                    warn_of_few_columns(sample)
                self._blank = sample.mean(0, dtype=torch.float64)
                if neighbors is None:
                    neighbors = self._sparse_neighbours(rows, limit)
                self._searched = neighbors is None
                self._say(f"{len(sample)} of {n} rows, {self.metric_} distances")
                clouds = self._clouds(self._filled(sample), rows, rng, neighbors)
            self._say(f"graph of {self.n_neighbors} neighbours")
            self._solve(clouds, seed)
        self._labels = None if y is None or not self.target_weight else codes(y, self.basis_.n)
        if self.coordinates_ == "map" != self.coordinates and self.n_components in PLANE_AND_SPACE:
            chosen = f"the {self.n_components} coordinates are those of a map"
            warn(f"{chosen}: coordinates='vectors' gives eigenvectors, coordinates='map' this without a warning")
        facts = self.basis_.info
        if "solver" in facts:
            self._say(f"{self.n_components} coordinates by {facts['solver']}, residual {facts['residual']:.0e}")
        if self.basis_.n == n:
            return self._finish(self.basis_.vectors[:, 1:], self.basis_.mass)
        return self._finish(*self._stream(rows), rows)

    def fit_transform(self, X: object, y: object = None, **fit_params: Any) -> Array:
        """``fit(X, y).embedding_``; lazy for dask."""
        self.fit(X, y, **fit_params)
        return self.transform(X) if _is_dask(X) else _like(X, self.embedding_)

    @available_if(lambda self: self.solver == "direct" and self.metric not in PRECOMPUTED)
    @on_cores
    def partial_fit(self, X: object, y: object = None) -> Self:
        """Take in new rows: they join the fitted ones, whose graph (unless a new one is cheaper) and vectors go on.

        The fitted attributes then describe the rows of `basis_` and the new ones, which have no labels. For
        ``solver="direct"``.
        """
        if not hasattr(self, "basis_"):
            return self.fit(X, y)
        rows, old = self._open(X, reset=False), self.basis_.extension
        more = self._filled(self._sample(rows, rows.shape[0], check_random_state(self.random_state)))
        given, known = (torch.as_tensor(each) for each in (self.basis_.points, self.basis_.normalized))
        with limited_threads(more.device, len(given) + len(more), single=SMALL), self._reports():
            grown = None
            if self._graph.metric in SPATIAL and self._graph.n == len(given):
                grown = extend(Arranged(given, old.frame, graph=self._graph), more)  # type: ignore[union-attr]
            if grown is None:  # copies among the rows, or many new ones
                grown = self._clouds(torch.cat([given, more.to(given)]), None, None)[0]
            self._solve([grown], start=starting_vectors(known, grown))
        if self._labels is not None:
            self._labels = np.append(self._labels, np.full(len(more), -1))
        return self._finish(self.basis_.vectors[:, 1:], self.basis_.mass)

    @on_cores
    def transform(self, X: object) -> Array:
        """Coordinates of new rows ``(m, n_components)``. Row i depends on row i alone; fitted rows get their values."""
        check_is_fitted(self)
        if _is_dask(X):
            return transformed(self, X)
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else self._dtype
        if self.coordinates_ == "map":
            return _like(X, self._places(self._open(X, reset=False), self.n_components).astype(dtype))
        vectors, mass = self._stream(self._open(X, reset=False))
        return _like(X, self._coordinates(vectors, mass / self._total, self.n_components, dtype))

    def inverse_transform(self, X: object) -> Array:
        """Rows ``(m, n_features)`` for coordinates ``(m, n_components)``: local averages of the fitted rows."""
        check_is_fitted(self)
        points = self.basis_.points
        if points is None or points.shape[1] != self.n_features_in_:
            raise InputError("inverse_transform needs fitted rows: not for distances or wide sparse matrices")
        places = torch.as_tensor(np.require(as_array(X, np.float64), requirements="W"))
        if places.ndim != 2 or places.shape[1] != self.n_components:
            raise InputError(f"expected coordinates (m, {self.n_components}), got shape {tuple(places.shape)}")
        known = self._mapped(self.n_components) if self.coordinates_ == "map" else self._known()
        return local_averages(known, points, places, self.n_neighbors).astype(self._dtype)

    def coordinates_of(self, k: int) -> Array:
        """The embedding with the first ``k`` vectors only, as a fit with ``n_components=k`` would give it (on the
        sphere, where coordinates are folded or those of the map)."""
        if not 1 <= k <= self.n_components:
            raise InputError(f"k must be between 1 and n_components={self.n_components}, got {k}")
        return self._coordinates(self._wide, self.mass_, k, self._dtype)

    @property
    def coordinates_(self) -> Coordinates:
        """The kind of coordinates: those that were asked for, or the ones that ``auto`` is here."""
        return choose_coordinates(self, self.basis_.n)

    @cached_property
    def spectrum_(self) -> Array:
        """Eigenvalues mu of the smoother of the fitted rows, descending, the constant's left out: up to 100 of them,
        or thrice ``n_components``; computed when first asked for."""
        check_is_fitted(self)
        return spectrum(self._graph, max(100, 3 * self.n_components))

    @property
    def suggest_components_(self) -> int:
        """How many coordinates the rows have, by the widest gap of `spectrum_`: one less than their groups, or than
        their separate parts where these are more."""
        beyond = int(self.basis_.info.get("components", 1)) - 1
        return beyond if beyond >= len(self.spectrum_) else largest_gap(self.spectrum_)

    def plot_spectrum(self, path: str | os.PathLike[str] | None = None) -> Any:
        """The gaps ``1 - mu`` of `spectrum_` as a matplotlib Figure: groups end where they jump."""
        from ..viz.charts import eigenvalue_curves

        title = f"widest gap after {self.suggest_components_}"
        return eigenvalue_curves({"1 - mu": 1 - self.spectrum_}, None if path is None else Path(path), title=title)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted estimator as a folder of safetensors and JSON, without pickle."""
        from .store import write_estimator

        check_is_fitted(self)
        write_estimator(self, folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> OptimalApproximationEigenmaps:
        """Read what `save` wrote."""
        from .store import read_estimator

        return read_estimator(cls, folder)

    def _coordinates(self, vectors: Array, mass: Array, k: int, dtype: Any) -> Array:
        fold = self._fold if k == self.n_components else None
        count = k if fold is None else len(fold)
        factors = np.maximum(1 - self.basis_.eigenvalues[1 : count + 1] * self.basis_.info["step_time"], LEAST)
        steps = diffusion_time(self.diffusion_steps, factors)
        found = coordinates(vectors[:, :count], mass, factors, self.coordinates, steps)
        return (found if fold is None else found @ fold).astype(dtype)

    def _known(self) -> Array:
        """The embedding of the rows of `basis_`, by vectors."""
        mass = self.basis_.mass / self._total
        return self._coordinates(self.basis_.vectors[:, 1:], mass, self.n_components, np.float64)

    def _finish(self, vectors: Array, mass: Array, rows: Rows | None = None) -> Self:
        """The fitted attributes, from vectors without the constant and mass of all rows, which are given where only
        some of them are fitted."""
        self._total = float(mass.sum(dtype=np.float64))
        k = self.n_components
        self._wide, self.mass_ = vectors.astype(self._dtype), (mass / self._total).astype(self._dtype)
        self.vectors_, self.eigenvalues_ = self._wide[:, :k], self.basis_.eigenvalues[1 : k + 1]
        if self.coordinates_ == "map":
            self.embedding_ = (self._mapped(k) if rows is None else self._places(rows, k)).astype(self._dtype)
        else:
            self.embedding_ = self._coordinates(self._wide, self.mass_, k, self._dtype)
        self._n_features_out = self.n_components
        self.n_iter_ = self.max_iter if self.solver == "network" else 1
        return self

    def _clouds(
        self, sample: torch.Tensor, rows: Rows | None, rng: object, neighbors: tuple[Any, Any] | None = None
    ) -> list[Arranged]:
        """The cloud of the sample, or the subsets that the network trains on, all in one frame."""
        count, metric = self.n_components + 1, self.metric_
        if neighbors is not None:
            return [given_neighbours(sample, neighbors, metric)]
        if metric not in SPATIAL:
            return [arranged_by(sample, self.n_neighbors, count, metric, self.metric_kwds)]
        frame = Frame.of(sample, metric, centred=False)
        taken = [sample]
        if self.solver == "network" and rows is not None and (n := rows.shape[0]) > SUBSET:
            taken = [self._sample(rows, SUBSET, rng) for _ in range(min(SUBSETS, 1 + n // SUBSET))]
        made = (arrange(each, self.n_neighbors, count, metric, frame=frame, dtype=torch.float32) for each in taken)  # type: ignore[arg-type]
        return [without_near_copies(cloud) for cloud in made]

    def _precomputed(self, matrix: object) -> Arranged:
        """The cloud of a square matrix instead of rows."""
        if self.metric == AFFINITY:
            return AffinityGraph.of(matrix, self._device()).arranged()
        return by_distances(matrix, self.n_neighbors, self._device())

    def _say(self, message: str) -> None:
        if self.verbose:
            sys.stdout.write(f"[{type(self).__name__}] {time.strftime('%H:%M:%S')} {message}\n")

    def _reports(self) -> Any:
        """A block whose long loops say how far they are."""
        return reports_to((lambda text: self._say(f"  {text}")) if self.verbose else None)

    def _sparse_neighbours(self, rows: Rows, limit: int) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Exact neighbours of sparse rows that are stored as projections, which keep only half of them."""
        n, sparse = rows.shape[0], rows.array
        if getattr(sparse, "projection", None) is None or n > min(limit, EXACT_POINTS) or self.solver == "network":
            return None
        return nearest_sparse(sparse.matrix, min(self.n_neighbors, n - 1), self.metric_)  # type: ignore[arg-type]

    def _filled(self, sample: torch.Tensor) -> torch.Tensor:
        """Rows with those without any entry, which have no direction, at the mean of the fitted ones."""
        if self.metric_ != "cosine" or not bool(self._blank.any()):
            return sample
        empty = ~(sample != 0).any(1)
        if bool(empty.any()):
            warn(f"{int(empty.sum())} of {len(sample)} rows are all zeros: cosine distances put them at the mean")
            sample = torch.where(empty[:, None], self._blank.to(sample), sample)
        return sample

    def _solve(self, clouds: list[Arranged], seed: int = 0, start: torch.Tensor | None = None) -> None:
        count = self.n_components + 1
        if self.solver == "direct":
            many = math.inf
            if self.coordinates == "auto" and self.n_components >= FEWEST_FOLDED:
                many = MANY_GROUPS if self.metric_ == "cosine" else PARTS_ONLY  # otherwise groups may be a shape
            basis = fit_direct(clouds[0], count, seed, start, many, self.diffusion_steps == "auto")
        else:
            training = Training(self.hidden_layer_sizes, self.max_iter, self.learning_rate, dict(self.trainer or {}))
            basis = fit_by_network(clouds, count, seed, training)
        self.basis_, self._graph, self._fold = basis.numpy(), clouds[0].graph, None
        if self.basis_.k > count:
            mass = self.basis_.mass / self.basis_.mass.sum()
            vectors = self.basis_.vectors[:, 1:]
            places = self._coordinates(vectors, mass, vectors.shape[1], np.float64)
            self._fold = folding(places, self.n_components)
            self._say(f"{vectors.shape[1]} vectors are folded into {self.n_components} coordinates")
        self._place, self._kept = clouds[0].rows, clouds[0].kept
        self._maps: dict[int, Array] = {}
        for name in ("layout_", "spectrum_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if basis.info.get("mapped"):
            self._say(f"more groups than {self.n_components} vectors tell apart: coordinates of a map")
        parts, k = int(basis.info.get("components", 1)), self.n_components
        apart = self._fold is not None or self.coordinates_ == "map"  # folded vectors and the map tell them apart
        if parts - 1 > MANY_PARTS * k and not apart:
            warn(f"n_components={k} is far below the {parts} separate parts: {parts - 1} tell them apart")

    def _device(self) -> torch.device:
        return resolved(self.device)

    def _sample(self, rows: Rows, size: int, rng: Any) -> torch.Tensor:
        """All rows, or ``size`` random ones, on the device."""
        if (n := rows.shape[0]) <= size:
            return rows.whole(BLOCK).to(self._device())
        chosen = np.sort(rng.permutation(n)[:size])
        return checked(rows.take(chosen), chosen).to(self._device())

    def _stream(self, rows: Rows, function: Any = None) -> tuple[Array, Array]:
        """Vectors (values of another function) without their first column, and mass ``(n,)`` of all rows, by blocks."""
        n, width = rows.shape[0], self.basis_.k - 1 if function is None else function.values.shape[1] - 1
        function = function or self.basis_.extension
        vectors = np.empty((n, width), np.float32 if n > BLOCK else np.float64)
        mass, done = np.empty(n), 0
        for block in rows.blocks(BLOCK):
            numbers = np.arange(done, done + len(block))
            with limited_threads(self._device(), len(block), single=SMALL):
                values, weight = function.with_mass(self._filled(checked(block, numbers)))
            vectors[numbers], mass[numbers] = values[:, 1:].cpu().numpy(), weight.cpu().numpy()
            done += len(block)
        return vectors, mass

    def _open(self, X: object, reset: bool) -> Rows:
        rows, dtype = open_table(self, X, reset, 0 if self.max_samples == "auto" else self.max_samples)
        if reset:
            self._dtype = dtype
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.metric in PRECOMPUTED
        return tags


def _like(X: object, array: Array) -> Any:
    """A tensor on the device of ``X`` where that is one."""
    return torch.from_numpy(array).to(X.device) if isinstance(X, torch.Tensor) else array


def _is_dask(X: object) -> bool:
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")
