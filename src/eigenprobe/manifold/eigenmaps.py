"""Optimal-Approximation Eigenmaps: neighbours -> smoother -> eigenvectors, and coordinates by one
layout.

    X (n, d) -> graph -> neighbourhood smoother A -> V (n, K), mu (K,)   A q = mu q,  V = M^-1/2 Q,
    constant left out
             -> embedding (n, K): the layout of the graph, V itself, or V mu^t on a sphere
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..cloud.cloud import CloudGraph
from ..errors import InputError, warn
from ..host.device import resolved
from ..host.progress import reports_to
from ..host.threads import allowed_cores, limited_threads
from ..host.validation import as_array
from ..io.rows import Rows, checked
from ..neighbors.layout import as_scipy
from ..neighbors.search import EXACT_POINTS, nearest_sparse
from ..smoothers import Smoother, neighbourhood_smoother
from .coordinates import (
    AFFINITY,
    PRECOMPUTED,
    SPATIAL,
    Coordinates,
    Scale,
    check_parameters,
    choose_metric,
    choose_spread,
    on_sphere,
)
from .layout import affinities, map_layout
from .precomputed import arranged, by_affinities, by_distances, check_square, listed
from .solvers import fit_by_network, fit_direct
from .sources import MOST_SEEDS, is_dask, open_table, rows_to_fit, sampled, transformed

Array = NDArray[Any]
BLOCK = 1 << 18  # rows of a stream in memory at once, at most
SMALL = 2501  # rows below which one thread is enough


class Eigenmaps(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Maps of tables in any number of dimensions, with eigenvectors, eigenvalues and an
    out-of-sample function.

    Parameters
    ----------
    n_components : int, default=8
        Coordinates of the embedding, and eigenvectors of `vectors_` (without the constant).
    solver : {"direct", "network"}, default="direct"
        Closed form, or a network trained to reconstruct the probes.
    metric : str or function of two rows, default="auto"
        ``auto`` is cosine from 64 columns on (embeddings, counts), Euclidean below (measurements)
        and for wide tables that vary in fewer than 9 directions (curves, surfaces); `metric_` says
        which. With ``precomputed`` X is a matrix of distances (n_samples, n_samples), whole or
        sparse with at least ``n_neighbors`` entries per row; with ``precomputed_affinity`` X is a
        symmetric matrix of weights, all of which are used, as by scikit-learn's
        ``SpectralEmbedding(affinity="precomputed")``. Other names are those of scikit-learn and
        pynndescent. A function of two rows serves up to 5000 of them, one compiled by
        ``numba.njit`` any number.
    metric_kwds : dict or None, default=None
        Further arguments of another metric: ``{"p": 3}`` for ``metric="minkowski"``.
    n_neighbors : int, default=12
        Size of the neighbourhoods; at most ``n_samples - 1`` are used.
    coordinates : {"auto", "map", "sphere", "vectors"}, default="auto"
        ``map``: the layout of the neighbour graph in ``n_components`` dimensions, for groups and to
        look at. ``vectors``: the eigenvectors, which follow a curve or a surface. ``sphere``:
        ``V mu^t`` projected on the sphere. ``auto`` is ``map``, and ``sphere`` with
        ``solver="network"``.
    scale : {"auto", "standard", "none"}, default="auto"
        ``standard`` divides every column by its standard deviation. ``auto`` does so, and says so,
        where rows are compared by Euclidean distance and the widest of more than three columns is
        100 times as wide as the median one: columns of different units.
    mixed : bool, default=False
        Whether columns of a data frame that are no numbers are encoded: one column per category.
    max_samples : int or "auto", default="auto"
        Larger data are embedded through a random subset of this size: the subset is fitted, the
        rest is placed by ``transform``, in blocks. ``auto`` is as many rows as half of the memory
        holds, two million at most, and 5000 with ``solver="network"``.
    hidden_layer_sizes, max_iter, learning_rate
        The network and its training (``solver="network"``).
    map_dimensions : {2, 3}, default=2
        Dimensions of the map `layout_`.
    n_jobs : int or None, default=None
        Cores to use, -1 for all; None: all for the search, half of them for the rest.
    random_state : int, RandomState or None, default=None
    device : str, default="auto"
        ``auto`` is the GPU where there is one.
    verbose : bool, default=False
        Whether a fit prints its stages, the metric that ``auto`` chose and the solver, and every
        two seconds how far it has come.
    trainer : dict or None, default=None
        Flags of Lightning's Trainer for ``solver="network"``: ``{"devices": 4, "num_nodes": 2,
        "strategy": "ddp"}``.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
    coordinates_ : str
        The coordinates that it has: one of the names above, not ``auto``.
    vectors_ : ndarray of shape (n_samples, n_components)
        The eigenvectors V without their constant.
    eigenvalues_ : ndarray of shape (n_components,)
        Ascending; the zero of the constant is left out. Inverse squared lengths with the Euclidean
        metric (2 and 6 on the unit sphere; each within about a tenth, since the density of random
        rows is not divided out: `decompose` gives those of a shape). Cosine distances are half of
        the squared distances of unit rows, so that inverse cosine distances are twice as much (4
        and 12), as in `decompose`.
    metric_ : str
        The metric that was used.
    mass_ : ndarray of shape (n_samples,)
        Sums to 1; copies of a row have equal shares.
    basis_ : Basis
        The fitted rows (a subset of large data; scaled where columns were) as a `Basis`, the
        constant included: ``basis_.save``, ``basis_(rows)``.
    layout_ : ndarray of shape (n_samples, map_dimensions)
        A map of the fitted rows to look at, made when first asked for; `place` puts new rows on it.
    affinities_ : sparse matrix of shape (n_samples, n_samples)
        Of neighbours on the map, for finding clusters on a graph (Leiden).
    n_iter_ : int
        Training steps of the network; 1 for the closed form.
    n_features_in_, feature_names_in_

    Notes
    -----
    ``X`` may also be a path or an address that fsspec reads (npy, npz, csv, parquet, HDF5), a
    memory map, an h5py data set or a map-style torch data set; these are read in blocks. Of a dask
    array or data frame a sample is fitted, which the fitted attributes then describe, and
    ``transform`` returns a lazy dask array. Sparse matrices of more than 1024 columns are kept as a
    random projection on 1024; up to 50,000 rows are compared exactly when fitted. Metrics other
    than cosine and Euclidean need dense rows; those of presence and absence (``jaccard``, ``dice``)
    take entries other than 0 for 1, ``hamming`` refuses real numbers. NaN and masked entries are
    refused. Tensors give tensors; fitted attributes are arrays.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = Eigenmaps(n_components=10, random_state=0).fit(X)
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
        scale: Scale = "auto",
        mixed: bool = False,
        max_samples: int | Literal["auto"] = "auto",
        hidden_layer_sizes: tuple[int, ...] = (128,),
        max_iter: int = 100,
        learning_rate: float = 3e-3,
        map_dimensions: int = 2,
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
        self.scale = scale
        self.mixed = mixed
        self.max_samples = max_samples
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.map_dimensions = map_dimensions
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.trainer = trainer

    def fit(self, X: object, y: object = None, *, neighbors: tuple[Any, Any] | None = None) -> Self:
        """Fit the embedding of a table.

        Parameters
        ----------
        X
            ``(n_samples, n_features)``: an array, a sparse matrix, a data frame, a file and what
            else the notes of the class name.
        y
            Ignored.
        neighbors
            Known indices and distances ``(n_samples, k)`` of nearest rows, which are then not
            searched.

        Returns
        -------
        The estimator.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> Eigenmaps(4, random_state=0).fit(X[:500]).embedding_.shape
        (500, 4)
        """
        check_parameters(self)
        rows = open_table(self, sampled(self, X) if is_dask(X) else X, reset=True)
        n = rows.shape[0]
        if self.n_components >= n:
            raise InputError(f"n_components must be below n_samples={n}, got {self.n_components}")
        rng = check_random_state(self.random_state)
        self._seed = int(rng.randint(MOST_SEEDS))
        limit = n if neighbors is not None else rows_to_fit(self, rows.shape[1])
        self._blank: Any = None
        self._spread: Any = None
        with self._at_work(min(n, limit)):
            self._solve(*self._cloud(rows, limit, rng, neighbors))
            vectors, mass, placed = self.basis_.vectors, self.basis_.mass, None
            if self.basis_.n < n:
                vectors = self._stream(rows, self.basis_.extension)
                known = np.column_stack([mass, self._fitted()])
                mass, placed = np.split(self._averages(rows, known), [1], 1)
                if self.coordinates_ != "map":
                    placed = self._spectral(vectors[:, 1:])
            return self._finish(vectors[:, 1:], mass, placed)

    def fit_transform(self, X: object, y: object = None, **fit_params: Any) -> Array:
        """Fit a table, and its coordinates.

        Parameters
        ----------
        X, y, fit_params
            As in `fit`.

        Returns
        -------
        ``fit(X, y).embedding_``; lazy for dask.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> Eigenmaps(2, random_state=0).fit_transform(X[:500]).shape
        (500, 2)
        """
        self.fit(X, y, **fit_params)
        return self.transform(X) if is_dask(X) else _like(X, self.embedding_)

    @available_if(lambda self: self.solver == "direct" and self.metric not in PRECOMPUTED)
    def partial_fit(self, X: object, y: object = None) -> Self:
        """Take in new rows: a fit of the rows of `basis_` and the new ones, which the fitted
        attributes then describe. For ``solver="direct"``.

        Parameters
        ----------
        X
            ``(m, n_features)``.
        y
            Ignored.

        Returns
        -------
        The estimator.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> Eigenmaps(4, random_state=0).fit(X[:400]).partial_fit(X[400:500]).embedding_.shape
        (500, 4)
        """
        if not hasattr(self, "basis_"):
            return self.fit(X, y)
        rows = open_table(self, X, reset=False)
        more = self._ready(self._sample(rows, rows.shape[0], None))
        every = torch.cat([torch.as_tensor(self.basis_.points).to(more), more])
        with self._at_work(len(every)):
            self._solve(arranged(every, self.n_neighbors, self.metric_, self.metric_kwds))
            return self._finish(self.basis_.vectors[:, 1:], self.basis_.mass)

    def transform(self, X: object) -> Array:
        """Coordinates of new rows. Each depends on its own row alone; fitted rows get their own.

        Parameters
        ----------
        X
            ``(m, n_features)``.

        Returns
        -------
        ``(m, n_components)``.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> model = Eigenmaps(4, random_state=0).fit(X[:500])
        >>> model.transform(X[500:503]).shape
        (3, 4)
        """
        check_is_fitted(self)
        if is_dask(X):
            return transformed(self, X)
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else self._dtype
        rows = open_table(self, X, reset=False)
        if self.coordinates_ == "map":
            return _like(X, self._averages(rows, self._fitted()).astype(dtype))
        vectors = self._stream(rows, self.basis_.extension)[:, 1:]
        return _like(X, self._spectral(vectors).astype(dtype))

    def inverse_transform(self, X: object) -> Array:
        """Rows for coordinates: averages of the nearest fitted rows, by inverse distance.

        Parameters
        ----------
        X
            Coordinates ``(m, n_components)``.

        Returns
        -------
        ``(m, n_features)``; at the coordinates of a fitted row that row, of copies their mean.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> model = Eigenmaps(4, random_state=0).fit(X[:500])
        >>> bool(np.allclose(model.inverse_transform(model.embedding_[:3]), X[:3]))
        True
        """
        check_is_fitted(self)
        points = self.basis_.points
        if points is None or points.shape[1] != self.n_features_in_:
            raise InputError(
                "inverse_transform needs fitted rows: not for distances or wide sparse matrices"
            )
        places = as_array(X, np.float64)
        if places.ndim != 2 or places.shape[1] != self.n_components:
            raise InputError(
                f"expected coordinates (m, {self.n_components}), got shape {tuple(places.shape)}"
            )
        known = self._fitted()
        search = KNeighborsRegressor(
            min(self.n_neighbors, len(known)), weights="distance", algorithm="kd_tree"
        )
        rows = search.fit(known.astype(self._dtype), points).predict(places.astype(self._dtype))
        return (rows if self._spread is None else rows * self._spread).astype(self._dtype)

    @property
    def layout_(self) -> Array:
        """A map of the rows of `basis_`, `map_dimensions` coordinates each."""
        check_is_fitted(self)
        return self._mapped(self.map_dimensions)

    @property
    def affinities_(self) -> Any:
        """Affinities ``(n, n)`` of the rows of `basis_` that the map is made of, sparse; the
        largest is 1.
        """
        check_is_fitted(self)
        found = as_scipy(affinities(self._smoother))
        return (found / found.max())[self._place][:, self._place]

    def place(self, X: object) -> Array:
        """Places of new rows on the map `layout_`: averages over their neighbours; a fitted row
        gets its own.

        Parameters
        ----------
        X
            ``(m, n_features)``.

        Returns
        -------
        ``(m, map_dimensions)``.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> model = Eigenmaps(4, random_state=0).fit(X[:500])
        >>> bool(np.allclose(model.place(X[:5]), model.layout_[:5]))
        True
        """
        check_is_fitted(self)
        return self._averages(open_table(self, X, reset=False), self.layout_)

    def plot(self, labels: Any = None, *, interactive: bool = False, **options: Any) -> Any:
        """The map of the fitted rows as a picture.

        Parameters
        ----------
        labels
            ``(n,)``, which colour it; without them groups that are found on it.
        interactive
            Whether to make the page of `report` instead, for a notebook.
        options
            Of `viz.figures.embeddings`: path, names, side, limit; of an interactive map those of
            `viz.scatter.scatter_page`.

        Returns
        -------
        A matplotlib Figure, or a page in a frame.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> model = Eigenmaps(4, random_state=0).fit(X[:500])
        >>> figure = model.plot(y[:500], names=[f"digit {d}" for d in range(10)])
        >>> figure.legends[0].get_texts()[3].get_text()
        'digit 3'
        """
        if interactive:
            from ..viz.report import InteractiveScene
            from ..viz.scatter import scatter_page

            return InteractiveScene(scatter_page(self, labels, **options), 820)
        from ..viz.colours import find_groups
        from ..viz.figures import embeddings

        if labels is None and (found := find_groups(self.layout_)) is not None:
            labels, options = found.labels, {"names": found.names, **options}
        return embeddings({"": self.layout_[:, :2]}, labels, **{"side": 5.0, **options})

    def report(self, path: str | os.PathLike[str], labels: Any = None, **options: Any) -> None:
        """Write the map as one HTML page to explore.

        Parameters
        ----------
        path
            An html file.
        labels
            ``(n,)``, which colour it; without them groups that are found on it.
        options
            Of `viz.scatter.scatter_page`: names, texts, images, values, title, facts, ...

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> model = Eigenmaps(4, random_state=0).fit(X[:500])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.report(f"{folder}/map.html", y[:500], title="digits")
        """
        from ..viz.scatter import write_scatter

        write_scatter(path, self, labels, **options)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted estimator as a folder of safetensors and JSON, without pickle.

        Parameters
        ----------
        folder
            Which is made.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> model = Eigenmaps(4, random_state=0).fit(X[:500])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(folder)
        ...     same = Eigenmaps.load(folder)
        >>> bool(np.allclose(same.embedding_, model.embedding_))
        True
        """
        from .store import write_estimator

        check_is_fitted(self)
        write_estimator(self, folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Eigenmaps:
        """Read what `save` wrote.

        Parameters
        ----------
        folder
            That was written.

        Returns
        -------
        The fitted estimator.

        Examples
        --------
        >>> import tempfile
        >>> rows = np.random.default_rng(0).normal(size=(200, 20))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Eigenmaps(4, random_state=0).fit(rows).save(folder)
        ...     Eigenmaps.load(folder).embedding_.shape
        (200, 4)
        """
        from .store import read_estimator

        return read_estimator(cls, folder)

    def _spectral(self, vectors: Array) -> Array:
        """Coordinates ``(m, n_components)`` by eigenvectors ``(m, n_components)``."""
        if self.coordinates_ == "vectors":
            return vectors
        return on_sphere(vectors, 1 - self.basis_.eigenvalues[1:] * self.basis_.info["step_time"])

    def _fitted(self) -> Array:
        """The coordinates of the rows of `basis_`."""
        if self.coordinates_ == "map":
            return self._mapped(self.n_components)
        return self._spectral(self.basis_.vectors[:, 1:].astype(np.float64))

    def _mapped(self, dimensions: int) -> Array:
        """The map of the rows of `basis_` in so many dimensions, made when first asked for."""
        if dimensions not in self._maps:
            graph = self._smoother.known_graph
            rows = graph.points
            if graph.metric not in SPATIAL:
                vectors = self.basis_.vectors[self._kept, 1:].astype(np.float64)
                rows = torch.from_numpy(self._spectral(vectors))
            with self._at_work(graph.n):
                found = map_layout(self._smoother, rows.to(graph.device), dimensions, self._seed)
            self._maps[dimensions] = found.numpy(force=True)
        return self._maps[dimensions][self._place]

    def _averages(self, rows: Rows, values: Array) -> Array:
        """Values ``(n, c)`` of the rows of `basis_`, averaged over neighbours of opened rows."""
        known = torch.from_numpy(values[self._kept])
        near = getattr(self.basis_.extension, "inputs", self.basis_.extension)
        return self._stream(rows, lambda block: near.averages(block, known.to(near.values)))

    def _finish(self, vectors: Array, mass: Array, placed: Array | None = None) -> Self:
        """The fitted attributes, from vectors without the constant, mass and coordinates of all
        rows; without the last those of the fitted ones."""
        k = self.n_components
        self.mass_ = (mass / mass.sum(dtype=np.float64)).ravel().astype(self._dtype)
        self.vectors_ = vectors.astype(self._dtype)
        self.eigenvalues_ = self.basis_.eigenvalues[1:]
        self.embedding_ = (self._fitted() if placed is None else placed).astype(self._dtype)
        self._n_features_out = k
        self.n_iter_ = self.max_iter if self.solver == "network" else 1
        return self

    def _cloud(
        self, rows: Rows, limit: int, rng: Any, neighbors: Any
    ) -> tuple[CloudGraph, Smoother | None]:
        """The rows that are fitted with their neighbours, and the walk of given affinities; metric
        and scale are chosen for them."""
        n = rows.shape[0]
        self.metric_: Any = self.metric
        if self.metric in PRECOMPUTED:
            if neighbors is not None:
                raise InputError(f"either neighbors or metric={self.metric!r}, got both")
            if self.metric == AFFINITY:
                return by_affinities(rows.array, resolved(self.device))
            check_square(rows.array, "distances")
            nothing = torch.empty((n, 0), device=resolved(self.device))
            return by_distances(rows.array, min(self.n_neighbors, n - 1), nothing), None
        sample = self._sample(rows, limit, rng)
        sparse = rows.array.matrix if getattr(rows.array, "projection", None) else None
        self.metric_ = choose_metric(self.metric, sample, None if sparse is None else sparse.data)
        self._spread = choose_spread(self.scale, sample, self.metric_)
        self._say(f"{len(sample)} of {n} rows, {self.metric_} distances")
        self._blank = sample.mean(0, dtype=torch.float64).numpy(force=True)
        sample = self._ready(sample)
        exact = sparse is not None and len(sample) == n <= EXACT_POINTS
        if neighbors is None and exact:  # a projection keeps only half of them
            k = min(self.n_neighbors, n - 1)
            neighbors = nearest_sparse(sparse, k, self.metric_)  # type: ignore[arg-type]
        if neighbors is not None:
            return by_distances(listed(neighbors, n), None, sample, self.metric_), None
        return arranged(sample, self.n_neighbors, self.metric_, self.metric_kwds), None

    def _say(self, message: str) -> None:
        if self.verbose:
            sys.stdout.write(f"[{type(self).__name__}] {time.strftime('%H:%M:%S')} {message}\n")

    @contextmanager
    def _at_work(self, rows: int) -> Iterator[None]:
        """A block on the cores that ``n_jobs`` allows, whose long loops say how far they are."""
        say = (lambda text: self._say(f"  {text}")) if self.verbose else None
        threads = limited_threads(resolved(self.device), rows, single=SMALL)
        with allowed_cores(self.n_jobs), threads, reports_to(say):
            yield

    def _ready(self, sample: torch.Tensor) -> torch.Tensor:
        """Rows as they are compared: scaled, and those without any entry, which have no direction,
        at the mean of the fitted ones.
        """
        if self._spread is not None:
            sample = sample / torch.from_numpy(self._spread).to(sample)
        empty = ~(sample != 0).any(1)
        if self.metric_ == "cosine" and bool(empty.any()):
            warn(
                f"{int(empty.sum())} of {len(sample)} rows are all zeros, which have no direction: "
                "they are put at the mean (leave them out, or use metric='euclidean')"
            )
            sample = torch.where(empty[:, None], torch.from_numpy(self._blank).to(sample), sample)
        return sample

    def _solve(self, cloud: CloudGraph, smoother: Smoother | None = None) -> None:
        k, seed = self.n_components, self._seed
        if k >= (distinct := cloud.graph.n):
            raise InputError(f"n_components must be below the {distinct} distinct rows, got {k}")
        self.coordinates_ = self.coordinates
        if self.coordinates == "auto":
            self.coordinates_ = "sphere" if self.solver == "network" else "map"
        self._smoother = smoother or neighbourhood_smoother(cloud.graph)
        self._maps: dict[int, Array] = {}
        if self.solver == "direct":
            basis = fit_direct(cloud, self._smoother, k + 1, seed)
            solved = f"{basis.info['solver']}, residual {basis.info['residual']:.0e}"
            self._say(f"{k} vectors by {solved}")
        else:
            basis = fit_by_network(cloud, self._smoother, k + 1, seed, self)
        time = float(self._smoother.step_time) * cloud.frame.scale**2  # mu = 1 - eigenvalue * it
        parts = self._smoother.components[0]
        basis.info.update(components=parts, step_time=time)
        self.basis_: Any = basis.numpy()
        self._place, self._kept = (
            slice(None) if each is None else each.numpy(force=True)
            for each in (cloud.rows, cloud.kept)
        )
        if parts - 1 > k and self.coordinates_ != "map":
            warn(
                f"{k} vectors do not tell {parts} separate parts apart: n_components={parts - 1} do"
            )

    def _sample(self, rows: Rows, size: int, rng: Any) -> torch.Tensor:
        """All rows, or ``size`` random ones, on the device."""
        if (n := rows.shape[0]) <= size:
            return rows.whole(BLOCK).to(resolved(self.device))
        chosen = np.sort(rng.permutation(n)[:size])
        return checked(rows.take(chosen), chosen).to(resolved(self.device))

    def _stream(self, rows: Rows, function: Callable[[torch.Tensor], torch.Tensor]) -> Array:
        """Values ``(n, K)`` of a function at all rows, by blocks."""
        parts, done, dtype = [], 0, torch.float32 if rows.shape[0] > BLOCK else torch.float64
        for block in rows.blocks(BLOCK):
            local = self._ready(checked(block, np.arange(done, done + len(block))))
            with self._at_work(len(block)):
                parts.append(function(local).to(dtype).numpy(force=True))
            done += len(block)
        return np.concatenate(parts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.metric in PRECOMPUTED
        return tags


def _like(X: object, array: Array) -> Any:
    """A tensor on the device of ``X`` where that is one."""
    return torch.from_numpy(array).to(X.device) if isinstance(X, torch.Tensor) else array
