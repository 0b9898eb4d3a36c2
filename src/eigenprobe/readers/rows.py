"""Tables of features row by row (whole files: `tables`), and lazily, block by block.

    open_rows(source) -> Rows: `shape`, `take(rows)` and `blocks(size)`; nothing else is ever in memory
    open_table(estimator, source) -> Rows and the precision of the answer, after scikit-learn's checks of arrays
    dask: blocks X_b (n_b, d) -> random rows of every block, about size * n_b / n of each -> fit
          X_b -> model.transform(X_b) (n_b, K), a dask array with the chunks of X along the rows

A source is an array (also a memory map), a path or an address (fsspec) of npy, npz, csv, parquet or HDF5, an h5py data
set, a sparse matrix, or a map-style torch data set whose items are rows or tuples that start with one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils import check_random_state

from ..cloud import strided
from ..errors import InputError, extra
from ..host.files import check_size, load_npy, reading
from ..host.validation import as_array
from .mesh import Array
from .tables import existing, features_of, open_archive, read_table

if TYPE_CHECKING:
    from ..estimators.eigenmaps import OptimalApproximationEigenmaps

PROJECTED = 1024  # columns of a wider sparse matrix: distances change by 3 % (one over the root of it)
PRECOMPUTED = ("precomputed", "precomputed_affinity")  # metrics of square matrices instead of rows
LINEAR = ("auto", "cosine", "euclidean")  # metrics that a projection keeps
DENSE = 1 << 28  # numbers up to which sparse rows are made dense for other metrics
ENTRIES = 1 << 25  # numbers of a block in memory
MOST_SEEDS = 2**31 - 1  # that are drawn from a random state
LEAST_ROWS, MOST_ROWS = 20_000, 2_000_000  # fitted at once, however small or large the memory


def open_rows(source: Any, labels: str | None = None, key: str | None = None) -> Rows:
    """A view of ``source`` by rows, without loading it (npz and csv excepted, which have no random access).

    ``labels`` and ``key`` are those of `read_table`: the column that is no feature, and the array of several.
    """
    if isinstance(source, Rows):
        return source
    if isinstance(source, (str, os.PathLike)):
        path = existing(source)
        suffix = path.suffix.lower()
        if suffix == ".npy":
            return Rows(load_npy(path, mapped=True))
        if suffix in (".h5", ".hdf5"):
            with reading(path):
                return Rows(features_of(open_archive(path), path, key), path)
        if suffix == ".parquet":
            return Rows(ParquetColumns(path, labels), path)
        features = read_table(path, labels, key).features
        return Rows(SparseRows(features) if issparse(features) else features)
    return Rows(source if hasattr(source, "shape") else Items(source))


class Rows:
    """Random access to the rows of anything with a ``shape`` and ``[rows]``: an array, a memory map, an h5py data set,
    `Items` or `ParquetColumns`; ``path`` is the file it is read from."""

    def __init__(self, array: Any, path: Path | None = None) -> None:
        if len(array.shape) != 2 or not array.shape[1]:
            raise InputError(f"features must be a table (n, d), got shape {tuple(array.shape)}")
        self.array, self.path = array, path
        self.shape = (int(array.shape[0]), int(array.shape[1]))

    def take(self, rows: Array) -> Array:
        order = np.argsort(rows, kind="stable")  # HDF5 wants ascending rows, and a disk reads them faster
        found = self._read(rows[order])
        result = np.empty_like(found)
        result[order] = found
        return result

    def blocks(self, size: int) -> Iterator[Array]:
        size = max(1, min(size, ENTRIES // self.shape[1]))
        for start in range(0, self.shape[0], size):
            yield self._read(slice(start, start + size))

    def whole(self, size: int) -> torch.Tensor:
        """All rows, checked, as a tensor of their own; read in blocks."""
        result, done = torch.empty(0), 0
        for block in self.blocks(size):
            part = checked(block, np.arange(done, done + len(block)))
            if len(part) == self.shape[0]:
                return part
            result = result if done else part.new_empty(self.shape)
            result[done : done + len(part)] = part
            done += len(part)
        return result

    def _read(self, rows: Any) -> Array:
        with nullcontext() if self.path is None else reading(self.path):
            return np.asarray(self.array[rows])


class SparseRows:
    """Rows of a sparse matrix, dense: as they are, or one random projection of wide ones on 1024 columns.

    ``missing`` is what entries that are not stored stand for. ``linear``: they are compared by a metric that a
    projection keeps, cosine or Euclidean.
    """

    def __init__(self, matrix: Any, missing: float = 0.0, linear: bool = True) -> None:
        self.matrix, self.missing, self.projection = matrix, missing, None
        if matrix.shape[1] > PROJECTED and missing == 0 and linear:
            from sklearn.random_projection import SparseRandomProjection

            self.projection = SparseRandomProjection(PROJECTED, dense_output=True, random_state=0).fit(matrix[:1])
        self.shape = (matrix.shape[0], matrix.shape[1] if self.projection is None else PROJECTED)

    def __getitem__(self, rows: Any) -> Array:
        part = self.matrix[rows]
        if self.projection is not None:
            return self.projection.transform(part).astype(part.dtype, copy=False)
        dense = np.full(part.shape, self.missing, part.dtype)
        part = part.tocoo()
        dense[part.row, part.col] = part.data
        return dense


def open_table(estimator: Any, X: Any, reset: bool, mapped: int) -> tuple[Rows, Any]:
    """Arrays by scikit-learn's rules; paths, memory maps of more than ``mapped`` rows and data sets by rows."""
    from sklearn.utils.validation import validate_data

    streamed = isinstance(X, (str, os.PathLike, torch.utils.data.Dataset, Rows))
    streamed |= type(X).__module__.startswith("h5py") or (isinstance(X, np.memmap) and len(X) > mapped)
    if not streamed:
        if isinstance(X, np.ma.MaskedArray):
            if missing := int(np.ma.getmaskarray(X).sum()):
                raise InputError(
                    f"{missing} entries of a masked array are missing: fill them in (sklearn.impute) first"
                )
            X = X.data
        if isinstance(X, torch.Tensor):
            X = as_array(strided(X))
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "reset": reset}
        options |= {"ensure_min_samples": 2 if reset else 1, "ensure_all_finite": False}
        try:
            found = validate_data(estimator, X, **options)
        except (ValueError, TypeError) as error:
            kind = InputError if isinstance(error, ValueError) else InputTypeError
            raise (_not_a_number(X) or kind(error)) from error
        distances = estimator.metric == "precomputed"
        if issparse(found) and not (estimator.metric in PRECOMPUTED and reset):
            checked(found.data[:, None], None)
            if distances and int(np.diff(found.indptr).min()) < estimator._graph.k:
                raise InputError(f"every row needs {estimator._graph.k} distances to fitted rows, one has fewer")
            linear = estimator.metric in LINEAR
            if not linear and not distances and found.shape[0] * found.shape[1] > DENSE:
                raise InputError(
                    f"metric {estimator.metric!r} needs dense rows: {found.shape[0]} of {found.shape[1]} columns are "
                    "too many (metric='cosine' or 'euclidean' compares sparse rows, or reduce the columns first)"
                )
            found = SparseRows(found, np.finfo(found.dtype).max / 1e6 if distances else 0.0, linear)
        return Rows(found), found.matrix.dtype if isinstance(found, SparseRows) else found.dtype
    rows = open_rows(X)
    if reset:
        estimator.n_features_in_ = rows.shape[1]
        if rows.shape[0] < 2:
            raise InputError(f"at least 2 rows are needed, got {rows.shape[0]}")
    elif rows.shape[1] != estimator.n_features_in_:
        raise InputError(f"expected {estimator.n_features_in_} columns, as in fit, got {rows.shape[1]}")
    return rows, np.dtype(np.float32)


class InputTypeError(InputError, TypeError):
    """What scikit-learn's conventions want to be a TypeError."""


def _not_a_number(frame: Any) -> InputError | None:
    """What is wrong with a data frame that has a column of words, labels say."""
    for name in getattr(frame, "columns", ()):
        try:
            np.asarray(frame[name], dtype=float)
        except (ValueError, TypeError):
            return InputError(f"features must be numbers, column {name!r} is not (leave labels out, or pass them as y)")
    return None


def checked(rows: Array, numbers: Array | None) -> torch.Tensor:
    """Rows of a source as a tensor of their own; ``numbers`` are theirs, for messages."""
    if rows.dtype.kind not in "fiub":
        raise InputError(f"features must be numbers, got {rows.dtype}")
    # A sum needs no array of truth values.
    if not np.isfinite(rows.sum(dtype=np.float64)) and not (finite := np.isfinite(rows).all(1)).all():
        first = int(np.argmin(finite))
        where = "got" if numbers is None else f"row {numbers[first]} has"
        place = "" if numbers is None else f" in column {int(np.argmin(np.isfinite(rows[first])))}"
        count = int((~finite).sum())
        others = f", {count - 1} more rows too" if count > 1 and numbers is not None else ""
        raise InputError(f"features must be finite, {where} NaN or infinity{place}{others}")
    return torch.from_numpy(np.array(rows, order="C"))  # a copy: the basis keeps it


def rows_to_fit(model: OptimalApproximationEigenmaps, columns: int) -> int:
    """``max_samples``; ``auto``: for a network enough for its frame, else what half of the memory holds, fitted. At a
    million rows of 128 columns a row takes 12 bytes per number, 400 per neighbour, 60 per component (measured)."""
    if model.max_samples != "auto":
        return model.max_samples
    if model.solver == "network":
        return LEAST_ROWS
    if (device := model._device()).type == "cuda":
        memory = torch.cuda.mem_get_info(device)[0]
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    row = 16 * columns + 400 * model.n_neighbors + 60 * (model.n_components + 10)
    return int(min(MOST_ROWS, max(LEAST_ROWS, memory / 2 / row)))


class Items:
    """A map-style torch data set as an array; items are rows, or tuples that start with one."""

    def __init__(self, dataset: Any) -> None:
        if not hasattr(dataset, "__len__") or len(dataset) == 0:
            raise InputError(f"the data set is empty, or its items have no number: got {type(dataset).__name__}")
        self.dataset = dataset
        self.shape = (len(dataset), len(self._row(0)))

    def __getitem__(self, rows: Any) -> Array:
        found = [self._row(int(row)) for row in np.arange(self.shape[0])[rows]]
        if lengths := {len(row) for row in found} - {self.shape[1]}:
            raise InputError(f"expected rows of {self.shape[1]} numbers, as the first item has, got {min(lengths)}")
        return np.stack(found)

    def _row(self, index: int) -> Array:
        item = self.dataset[index]
        return np.asarray(item[0] if isinstance(item, (tuple, list)) else item).ravel()


class ParquetColumns:
    """The numeric columns of a Parquet file as an array; one row group is in memory at a time."""

    def __init__(self, path: Path, without: str | None = None) -> None:
        from pyarrow import types
        from pyarrow.parquet import ParquetFile

        with reading(path):
            file = ParquetFile(path)
            facts, schema = file.metadata, file.schema_arrow
        numeric = [f.name for f in schema if types.is_floating(f.type) or types.is_integer(f.type)]
        columns = [name for name in numeric if name != without]
        if not columns:
            raise InputError(f"{path} has no numeric column")
        check_size(path, 8.0 * facts.num_rows * len(columns))
        self.starts = np.cumsum([0, *(facts.row_group(i).num_rows for i in range(file.num_row_groups))])
        self.shape = (int(self.starts[-1]), len(columns))

        @lru_cache(maxsize=1)
        def group(index: int) -> Array:
            table = file.read_row_group(index, columns=columns)
            return np.stack([table.column(name).to_numpy() for name in columns], axis=1)

        self.group = group

    def __getitem__(self, rows: Any) -> Array:
        """``rows`` ascend: a slice or indices."""
        rows = np.arange(self.shape[0])[rows]
        groups = np.searchsorted(self.starts, rows, side="right") - 1
        return np.concatenate([self.group(int(g))[rows[groups == g] - self.starts[g]] for g in np.unique(groups)])


def _array(table: Any) -> Any:
    """A dask array with known chunks, one along the columns."""
    if table.ndim != 2:
        came = f"shape {table.shape}" if hasattr(table, "chunks") else type(table).__name__
        raise InputError(f"features must be a table (n, d), got {came}")
    if hasattr(table, "columns"):  # a data frame
        words = [str(name) for name, kind in zip(table.columns, table.dtypes, strict=True) if kind.kind not in "fiub"]
        if words:
            raise InputError(f"features must be numbers, column {words[0]!r} is not (leave labels out)")
        table = table.to_dask_array(lengths=True)
    if np.isnan(table.shape[0]):
        table = table.compute_chunk_sizes()
    return table.rechunk({1: -1})


def sampled(model: OptimalApproximationEigenmaps, table: Any) -> Any:
    """As many rows ``(s, d)`` as are fitted: from every block random ones, in proportion to its rows."""
    array, names = _array(table), getattr(table, "columns", None)
    lengths, size = np.array(array.chunks[0]), rows_to_fit(model, array.shape[1])
    generator = np.random.default_rng(check_random_state(model.random_state).randint(MOST_SEEDS))
    wanted = lengths if lengths.sum() <= size else generator.multivariate_hypergeometric(lengths, size)
    dask, seeds = extra("dask"), generator.integers(MOST_SEEDS, size=len(lengths))
    blocks = zip(array.to_delayed()[:, 0], wanted.tolist(), seeds.tolist(), strict=True)
    parts = [dask.delayed(_rows_of)(*each) for each in blocks if each[1]]
    found = np.concatenate([np.empty((0, array.shape[1]), array.dtype), *dask.compute(*parts)])
    return found if names is None else extra("pandas").DataFrame(found, columns=names)


def _rows_of(block: Any, count: int, seed: int) -> Any:
    block = _dense(block)
    return block if count == len(block) else block[np.sort(np.random.default_rng(seed).permutation(len(block))[:count])]


def transformed(model: OptimalApproximationEigenmaps, table: Any) -> Any:
    """A lazy array ``(n, n_components)``; the model travels to the workers once."""
    dask, array = extra("dask"), _array(table)
    if array.shape[1] != model.n_features_in_:
        raise InputError(f"expected {model.n_features_in_} columns, as in fit, got {array.shape[1]}")
    names, fitted = list(getattr(table, "columns", ())), list(getattr(model, "feature_names_in_", ()))
    if names and fitted and names != fitted:
        raise InputError(f"expected the columns {fitted[:5]}... in the order of fit, got {names[:5]}...")
    dtype = np.dtype(np.float32) if array.dtype == np.float32 else np.dtype(model._dtype)
    chunks, meta = (array.chunks[0], (model.n_components,)), np.empty((0, 0), dtype)
    return array.map_blocks(_placed, dask.delayed(model), chunks=chunks, dtype=dtype, meta=meta)


def _placed(block: Any, model: OptimalApproximationEigenmaps, block_info: Any = None) -> Any:
    block, first = _dense(block), block_info[0]["array-location"][0][0]
    checked(block, np.arange(first, first + len(block)))  # the numbers of rows are those of the whole table
    return model.transform(Rows(block)).astype(block_info[None]["dtype"], copy=False)


def _dense(block: Any) -> Array:
    return block.toarray() if issparse(block) else np.asarray(block)
