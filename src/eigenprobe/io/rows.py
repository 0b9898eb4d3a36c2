"""Tables of features row by row (whole files: `tables`), and lazily, block by block.

    open_rows(source) -> Rows: `shape`, `take(rows)` and `blocks(size)`; nothing else is ever in
    memory

A source is an array (also a memory map), a path or an address (fsspec) of npy, npz, csv, parquet or
HDF5, an h5py data set, a sparse matrix, or a map-style torch data set whose items are rows or
tuples that start with one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse

from ..errors import InputError, extra
from ..host.files import check_size, reading
from .mesh import Array
from .tables import chosen_array, read_table, table_path

PROJECTED = 1024  # columns of a wider sparse matrix: distances change by one over its root, 3 %
ENTRIES = 1 << 25  # numbers of a block in memory


def open_rows(source: object, labels: str | None = None, key: str | None = None) -> Rows:
    """A view of ``source`` by rows, without loading it (npz and csv excepted, which have no random
    access).

    ``labels`` and ``key`` are those of `read_table`: the column that is no feature, and the array
    of several.
    """
    if isinstance(source, Rows):
        return source
    if isinstance(source, (str, os.PathLike)):
        path = table_path(source)
        suffix = path.suffix.lower()
        with reading(path):
            if suffix in (".h5", ".hdf5"):
                file = extra("h5py").File(path)
                return Rows(chosen_array(file, key), path)
            if suffix == ".parquet":
                return Rows(ParquetColumns(path, labels), path)
        features = read_table(path, labels, key).features
        return Rows(SparseRows(features) if issparse(features) else features)
    return Rows(source if hasattr(source, "shape") else Items(source))


class Rows:
    """Random access to the rows of anything with a ``shape`` and ``[rows]``: an array, a memory
    map, an h5py data set, `Items` or `ParquetColumns`; ``path`` is the file it is read from.
    """

    def __init__(self, array: Any, path: Path | None = None) -> None:
        if len(array.shape) != 2 or not array.shape[1]:
            raise InputError(f"features must be a table (n, d), got shape {tuple(array.shape)}")
        self.array, self.path = array, path
        self.shape = (int(array.shape[0]), int(array.shape[1]))

    def take(self, rows: Array) -> Array:
        # HDF5 wants ascending rows, and a disk reads them faster.
        order = np.argsort(rows, kind="stable")
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
        parts, numbers = [], np.arange(self.shape[0])
        for block in self.blocks(size):
            parts.append(checked(block, numbers))
            numbers = numbers[len(block) :]
        return torch.cat(parts)

    def _read(self, rows: object) -> Array:
        with nullcontext() if self.path is None else reading(self.path):
            return np.asarray(self.array[rows])


class SparseRows:
    """Rows of a sparse matrix, dense: as they are, or one random projection of wide ones on 1024
    columns.

    ``missing`` is what entries that are not stored stand for. ``linear``: they are compared by a
    metric that a projection keeps, cosine or Euclidean.
    """

    def __init__(self, matrix: Any, missing: float = 0.0, linear: bool = True) -> None:
        self.matrix, self.missing, self.projection = matrix, missing, None
        if matrix.shape[1] > PROJECTED and missing == 0 and linear:
            from sklearn.random_projection import SparseRandomProjection

            drawn = SparseRandomProjection(PROJECTED, dense_output=True, random_state=0)
            self.projection = drawn.fit(matrix[:1])
        self.shape = (matrix.shape[0], matrix.shape[1] if self.projection is None else PROJECTED)

    def __getitem__(self, rows: object) -> Array:
        part = self.matrix[rows]
        if self.projection is not None:
            return self.projection.transform(part).astype(part.dtype, copy=False)
        dense = np.full(part.shape, self.missing, part.dtype)
        part = part.tocoo()
        dense[part.row, part.col] = part.data
        return dense


def checked(rows: Array, numbers: Array) -> torch.Tensor:
    """Rows of a source as a tensor of their own; ``numbers`` are theirs, for messages."""
    if rows.dtype.kind not in "fiub":
        raise InputError(f"features must be numbers, got {rows.dtype}")
    wrong = ~np.isfinite(rows)
    if wrong.any():
        (row, column), count = np.argwhere(wrong)[0], int(wrong.any(1).sum())
        raise InputError(
            f"features must be finite, row {numbers[row]} has NaN or infinity in column {column}"
            + f", {count - 1} more rows too" * (count > 1)
        )
    return torch.from_numpy(np.array(rows, order="C"))  # a copy: the basis keeps it


class Items:
    """A map-style torch data set as an array; items are rows, or tuples that start with one."""

    def __init__(self, dataset: Any) -> None:
        if not hasattr(dataset, "__len__") or len(dataset) == 0:
            raise InputError(
                f"the data set is empty, or its items have no number: got {type(dataset).__name__}"
            )
        self.dataset = dataset
        self.shape = (len(dataset), len(self._row(0)))

    def __getitem__(self, rows: Any) -> Array:
        found = [self._row(int(row)) for row in np.arange(self.shape[0])[rows]]
        if lengths := {len(row) for row in found} - {self.shape[1]}:
            raise InputError(
                f"expected rows of {self.shape[1]} numbers, as the first item has, "
                f"got {min(lengths)}"
            )
        return np.stack(found)

    def _row(self, index: int) -> Array:
        item = self.dataset[index]
        return np.asarray(item[0] if isinstance(item, (tuple, list)) else item).ravel()


class ParquetColumns:
    """The numeric columns of a Parquet file as an array; one row group is in memory at a time."""

    def __init__(self, path: Path, without: str | None = None) -> None:
        self.file = extra("pyarrow.parquet").ParquetFile(path)
        facts, empty = self.file.metadata, self.file.schema_arrow.empty_table().to_pandas()
        self.columns = [name for name in empty.select_dtypes("number") if name != without]
        if not self.columns:
            raise InputError("it has no numeric column")
        self.shape = (facts.num_rows, len(self.columns))
        check_size(path, 8.0 * facts.num_rows * len(self.columns))
        counts = [facts.row_group(i).num_rows for i in range(facts.num_row_groups)]
        self.starts = np.cumsum([0, *counts])
        self.group = lru_cache(maxsize=1)(self._group)

    def __getitem__(self, rows: Any) -> Array:
        """``rows`` ascend: a slice or indices."""
        rows = np.arange(self.shape[0])[rows]
        groups = np.searchsorted(self.starts, rows, side="right") - 1
        parts = [self.group(int(g))[rows[groups == g] - self.starts[g]] for g in np.unique(groups)]
        return np.concatenate(parts)

    def _group(self, index: int) -> Array:
        table = self.file.read_row_group(index, columns=self.columns)
        return np.stack([table.column(name).to_numpy() for name in self.columns], axis=1)
