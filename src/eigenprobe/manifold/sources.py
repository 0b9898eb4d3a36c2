"""What a fit takes: arrays by scikit-learn's rules, tables read by rows, sparse rows, dask's
blocks.

open_table(estimator, source) -> Rows and the precision of the answer, after scikit-learn's checks
of arrays dask: blocks X_b (n_b, d) -> random rows of every block, about size * n_b / n of each ->
fit
      X_b -> model.transform(X_b) (n_b, K), a dask array with the chunks of X along the rows
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils import check_random_state

from ..errors import InputError, extra
from ..host.validation import as_array
from ..io.mesh import Array
from ..io.rows import Rows, SparseRows, checked, open_rows
from ..points import strided
from .coordinates import PRECOMPUTED
from .precomputed import check_matrix

if TYPE_CHECKING:
    from .eigenmaps import Eigenmaps

LINEAR = ("auto", "cosine", "euclidean")  # metrics that a projection keeps
DENSE = 1 << 28  # numbers up to which sparse rows are made dense for other metrics
MOST_SEEDS = 2**31 - 1  # that are drawn from a random state
LEAST_ROWS, MOST_ROWS = 20_000, 2_000_000  # fitted at once, however small or large the memory


def encoded(model: Any, X: Any, reset: bool) -> Any:
    """A data frame as it is compared: a lazy one collected, categories as columns where ``mixed``
    asks for them, missing entries named."""
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):  # polars' LazyFrame
        try:
            X = X.collect()
        except extra("polars").exceptions.PolarsError as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"the lazy frame cannot be collected: {reason}") from error
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
    if not model.mixed:
        for name, column in frame.items():
            try:
                column.astype(float)
            except (ValueError, TypeError) as error:
                raise InputError(
                    f"features must be numbers, column {name!r} is not: make numbers of times, "
                    "leave labels out, or encode categories (mixed=True)"
                ) from error
        return X
    found = extra("pandas").get_dummies(frame, dtype=float)
    if not reset:
        found = found.reindex(columns=list(model.feature_names_in_), fill_value=0.0)
    return found


def open_table(estimator: Any, X: object, reset: bool, mapped: int) -> tuple[Rows, Any]:
    """Arrays by scikit-learn's rules; paths, memory maps of more than ``mapped`` rows and data sets
    by rows.
    """
    from sklearn.utils.validation import validate_data

    streamed = isinstance(X, (str, os.PathLike, torch.utils.data.Dataset, Rows))
    streamed |= type(X).__module__.startswith("h5py") or (
        isinstance(X, np.memmap) and len(X) > mapped
    )
    if not streamed:
        if isinstance(X, np.ma.MaskedArray):
            if missing := int(np.ma.getmaskarray(X).sum()):
                raise InputError(
                    f"{missing} entries of a masked array are missing: fill them in first"
                )
            X = X.data
        if isinstance(X, torch.Tensor):
            X = as_array(strided(X))
        options: dict[str, Any] = {
            "accept_sparse": "csr",
            "dtype": [np.float64, np.float32],
            "reset": reset,
        }
        options |= {"ensure_min_samples": 2 if reset else 1, "ensure_all_finite": False}
        try:
            found = validate_data(estimator, X, **options)
        except (ValueError, TypeError) as error:
            kind = InputError if isinstance(error, ValueError) else InputTypeError
            raise kind(error) from error
        distances = estimator.metric == "precomputed"
        if estimator.metric in PRECOMPUTED:
            check_matrix(found, "distances" if distances else "affinities")
        if issparse(found) and not (estimator.metric in PRECOMPUTED and reset):
            if len(bad := np.flatnonzero(~np.isfinite(found.data))):
                row = int(np.searchsorted(found.indptr, bad[0], side="right")) - 1
                place = f"row {row} has NaN or infinity in column {found.indices[bad[0]]}"
                raise InputError(f"features must be finite, {place}")
            if distances and int(np.diff(found.indptr).min()) < estimator._graph.k:
                raise InputError(
                    f"every row needs {estimator._graph.k} distances to fitted rows, one has fewer"
                )
            linear = estimator.metric in LINEAR
            if not linear and not distances and found.shape[0] * found.shape[1] > DENSE:
                raise InputError(
                    f"metric {estimator.metric!r} needs dense rows: {found.shape[0]} of "
                    f"{found.shape[1]} columns are too many (cosine and euclidean take sparse ones)"
                )
            found = SparseRows(found, np.finfo(found.dtype).max / 1e6 if distances else 0.0, linear)
        return Rows(found), found.matrix.dtype if isinstance(found, SparseRows) else found.dtype
    rows = open_rows(X)
    if reset:
        estimator.n_features_in_ = rows.shape[1]
        if rows.shape[0] < 2:
            raise InputError(f"at least 2 rows are needed, got {rows.shape[0]}")
    elif rows.shape[1] != estimator.n_features_in_:
        raise InputError(
            f"expected {estimator.n_features_in_} columns, as in fit, got {rows.shape[1]}"
        )
    return rows, np.dtype(np.float32)


class InputTypeError(InputError, TypeError):
    """What scikit-learn's conventions want to be a TypeError."""


def rows_to_fit(model: Eigenmaps, columns: int) -> int:
    """``max_samples``; ``auto``: for a network enough for its frame, else what half of the memory
    holds, fitted. At a million rows of 128 columns a row takes 12 bytes per number, 400 per
    neighbour, 60 per component (measured).
    """
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


def _array(table: Any) -> Any:
    """A dask array with known chunks, one along the columns."""
    if table.ndim != 2:
        came = f"shape {table.shape}" if hasattr(table, "chunks") else type(table).__name__
        raise InputError(f"features must be a table (n, d), got {came}")
    if hasattr(table, "columns"):  # a data frame
        words = [
            str(name)
            for name, kind in zip(table.columns, table.dtypes, strict=True)
            if kind.kind not in "fiub"
        ]
        if words:
            raise InputError(
                f"features must be numbers, column {words[0]!r} is not (leave labels out)"
            )
        table = table.to_dask_array(lengths=True)
    if np.isnan(table.shape[0]):
        table = table.compute_chunk_sizes()
    return table.rechunk({1: -1})


def sampled(model: Eigenmaps, table: object) -> Any:
    """As many rows ``(s, d)`` as are fitted: from every block random ones, in proportion to its
    rows.
    """
    array, names = _array(table), getattr(table, "columns", None)
    lengths, size = np.array(array.chunks[0]), rows_to_fit(model, array.shape[1])
    generator = np.random.default_rng(check_random_state(model.random_state).randint(MOST_SEEDS))
    wanted = (
        lengths if lengths.sum() <= size else generator.multivariate_hypergeometric(lengths, size)
    )
    dask, seeds = extra("dask"), generator.integers(MOST_SEEDS, size=len(lengths))
    blocks = zip(array.to_delayed()[:, 0], wanted.tolist(), seeds.tolist(), strict=True)
    parts = [dask.delayed(_rows_of)(*each) for each in blocks if each[1]]
    found = np.concatenate([np.empty((0, array.shape[1]), array.dtype), *dask.compute(*parts)])
    return found if names is None else extra("pandas").DataFrame(found, columns=names)


def _rows_of(block: object, count: int, seed: int) -> Any:
    block = _dense(block)
    return (
        block
        if count == len(block)
        else block[np.sort(np.random.default_rng(seed).permutation(len(block))[:count])]
    )


def transformed(model: Eigenmaps, table: object) -> Any:
    """A lazy array ``(n, n_components)``; the model travels to the workers once."""
    dask, array = extra("dask"), _array(table)
    if array.shape[1] != model.n_features_in_:
        raise InputError(
            f"expected {model.n_features_in_} columns, as in fit, got {array.shape[1]}"
        )
    names, fitted = (
        list(getattr(table, "columns", ())),
        list(getattr(model, "feature_names_in_", ())),
    )
    if names and fitted and names != fitted:
        raise InputError(
            f"expected the columns {fitted[:5]}... in the order of fit, got {names[:5]}..."
        )
    dtype = np.dtype(np.float32) if array.dtype == np.float32 else np.dtype(model._dtype)
    chunks, meta = (array.chunks[0], (model.n_components,)), np.empty((0, 0), dtype)
    return array.map_blocks(_placed, dask.delayed(model), chunks=chunks, dtype=dtype, meta=meta)


def _placed(block: object, model: Eigenmaps, block_info: Any = None) -> Any:
    block, first = _dense(block), block_info[0]["array-location"][0][0]
    checked(
        block, np.arange(first, first + len(block))
    )  # the numbers of rows are those of the whole table
    return model.transform(Rows(block)).astype(block_info[None]["dtype"], copy=False)


def _dense(block: Any) -> Array:
    return block.toarray() if issparse(block) else np.asarray(block)
