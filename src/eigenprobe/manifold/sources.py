"""What a fit takes: arrays by scikit-learn's rules, tables read by rows, sparse rows, dask's
blocks.

open_table(estimator, source) -> Rows, after scikit-learn's checks of arrays
dask: random rows of a lazy table -> fit
      blocks X_b (n_b, d) -> model.transform(X_b) (n_b, K), lazy, in chunks of X along the rows
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ..errors import InputError, extra
from ..host.device import resolved
from ..host.validation import as_array
from ..io.rows import Rows, SparseRows, checked, open_rows
from ..points import strided
from .coordinates import PRECOMPUTED
from .precomputed import check_entries

if TYPE_CHECKING:
    from .eigenmaps import Eigenmaps

LINEAR = ("auto", "cosine", "euclidean")  # metrics that a projection keeps
MOST_SEEDS = np.iinfo(np.int32).max  # that are drawn from a random state
SUBSET = 5000  # rows that a network is trained on: the paper's size
LEAST_ROWS = 20_000  # fitted at once, however small the memory ...
MOST_ROWS = 2_000_000  # ... and however large


class InputTypeError(InputError, TypeError):
    """What scikit-learn's conventions want to be a TypeError."""


def is_dask(X: object) -> bool:
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def encoded(model: Any, X: Any, reset: bool) -> Any:
    """A data frame as it is compared: a lazy one collected, categories as columns where ``mixed``
    asks for them, missing entries and words named."""
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):  # polars' LazyFrame
        try:
            X = X.collect()
        except extra("polars").exceptions.PolarsError as error:
            raise InputError(f"the lazy frame cannot be collected: {error}") from error
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        if model.mixed:
            raise InputError(f"mixed=True encodes columns of a data frame, got {type(X).__name__}")
        return X
    frame = X.to_pandas() if hasattr(X, "to_pandas") else X
    if (missing := np.asarray(frame.isna())).any():
        row, column = np.argwhere(missing)[0]
        raise InputError(
            f"{int(missing.sum())} entries are missing, the first in row {row}, column "
            f"{frame.columns[column]!r}: fill them in (sklearn.impute) or leave the rows out"
        )
    if model.mixed:
        found = extra("pandas").get_dummies(frame, dtype=float)
        known = found.columns if reset else model.feature_names_in_
        return found.reindex(columns=list(known), fill_value=0.0)
    check_numbers(frame)
    return X


def check_numbers(frame: Any) -> None:
    """An error where a column of a data frame is no number."""
    words = frame.infer_objects().select_dtypes(exclude=["number", "bool"]).columns
    if len(words):
        raise InputError(
            f"features must be numbers, column {words[0]!r} is not: make numbers of times, "
            "leave labels out, or encode categories (mixed=True)"
        )


def open_table(model: Any, X: Any, reset: bool) -> Rows:
    """Arrays by scikit-learn's rules; paths, memory maps and data sets by rows. The model keeps the
    precision of the answer.
    """
    lazy = (str, os.PathLike, torch.utils.data.Dataset, Rows, np.memmap)
    if isinstance(X, lazy) or type(X).__module__.startswith("h5py"):
        rows = open_rows(X)
        if reset:
            model.n_features_in_, model._dtype = rows.shape[1], "float32"
        check_width(model, rows.shape[1])
        return rows
    X = encoded(model, X, reset)
    if isinstance(X, np.ma.MaskedArray):
        if missing := int(np.ma.getmaskarray(X).sum()):
            raise InputError(f"{missing} entries of a masked array are missing: fill them in first")
        X = X.data
    X = as_array(strided(X)) if isinstance(X, torch.Tensor) else X
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
    options |= {"ensure_min_samples": 2 if reset else 1, "ensure_all_finite": False}
    found = by_sklearn(model, X, reset=reset, **options)
    square = model.metric in PRECOMPUTED
    if reset:
        model._dtype = found.dtype.name
    if square:
        check_entries(found, "affinities" if "affinity" in model.metric else "distances")
    if not issparse(found) or (square and reset):
        return Rows(found)
    entries = found.tocoo()
    if (bad := ~np.isfinite(entries.data)).any():
        row, column = entries.row[bad][0], entries.col[bad][0]
        raise InputError(
            f"features must be finite, row {row} has NaN or infinity in column {column}"
        )
    if model.metric == "precomputed":
        if np.diff(found.indptr).min() < (k := model._smoother.known_graph.k):
            raise InputError(f"every row needs {k} distances to fitted rows, one has fewer")
        return Rows(SparseRows(found, float(np.finfo(found.dtype).max) / 1e6))  # far from any
    return Rows(SparseRows(found, linear=model.metric in LINEAR))


def by_sklearn(model: Any, X: Any, **options: Any) -> Any:
    """A table after scikit-learn's checks, whose errors become our own."""
    try:
        return validate_data(model, X, **options)
    except (ValueError, TypeError) as error:
        kind = InputError if isinstance(error, ValueError) else InputTypeError
        raise kind(error) from error


def check_width(model: Any, columns: int) -> None:
    """An error where a table has another number of columns than the fitted one."""
    if columns != model.n_features_in_:
        raise InputError(f"expected {model.n_features_in_} columns, as in fit, got {columns}")


def rows_to_fit(model: Eigenmaps, columns: int) -> int:
    """``max_samples``; ``auto``: for a network a subset, else what half of the memory holds,
    fitted. At a million rows of 128 columns a row takes 12 bytes per number, 400 per neighbour, 60
    per component (measured).
    """
    if model.max_samples != "auto":
        return model.max_samples
    if model.solver == "network":
        return SUBSET
    if (device := resolved(model.device)).type == "cuda":
        memory = torch.cuda.mem_get_info(device)[0]
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    row = 16 * columns + 400 * model.n_neighbors + 60 * (model.n_components + 10)
    return int(min(MOST_ROWS, max(LEAST_ROWS, memory / 2 / row)))


def _array(model: Eigenmaps, table: Any, reset: bool) -> Any:
    """A dask array with known chunks, one along the columns; of a data frame its columns are
    checked before any work."""
    if table.ndim != 2:
        came = f"shape {table.shape}" if hasattr(table, "chunks") else type(table).__name__
        raise InputError(f"features must be a table (n, d), got {came}")
    if hasattr(table, "columns"):
        check_numbers(table._meta)
        by_sklearn(model, table._meta, reset=reset, skip_check_array=True)
        table = table.to_dask_array(lengths=True)
    if np.isnan(table.shape[0]):
        table = table.compute_chunk_sizes()
    return table.rechunk({1: -1})


def sampled(model: Eigenmaps, table: Any) -> Any:
    """As many random rows ``(s, d)`` of a dask table as are fitted, in their order."""
    array = _array(model, table, True)
    n, size = len(array), rows_to_fit(model, array.shape[1])
    if n > size:
        seed = check_random_state(model.random_state).randint(MOST_SEEDS)
        chosen = np.random.default_rng(seed).choice(n, size, replace=False, shuffle=False)
        array = array[np.sort(chosen)]
    found = array.compute()
    if not hasattr(table, "columns"):
        return found
    return extra("pandas").DataFrame(found, columns=table.columns)


def transformed(model: Eigenmaps, table: Any) -> Any:
    """A lazy array ``(n, n_components)``; the model travels to the workers once."""
    array, k = _array(model, table, False), model.n_components
    check_width(model, array.shape[1])
    dtype = np.dtype(np.float32) if array.dtype == np.float32 else np.dtype(model._dtype)
    options: dict[str, Any] = {"dtype": dtype, "meta": np.empty((0, 0), dtype)}
    options["chunks"] = (array.chunks[0], (k,))
    return array.map_blocks(_placed, extra("dask").delayed(model), **options)


def _placed(block: Any, model: Eigenmaps, block_info: Any = None) -> Any:
    block = block.toarray() if issparse(block) else np.asarray(block)
    first = block_info[0]["array-location"][0][0]  # rows are numbered in the whole table
    checked(block, np.arange(first, first + len(block)))
    dtype = block_info[None]["dtype"]
    if not len(block):
        return np.empty((0, model.n_components), dtype)
    return model.transform(Rows(block)).astype(dtype, copy=False)
