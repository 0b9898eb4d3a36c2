"""Tables of dask: a sample of the blocks is fitted, and new rows are placed block by block, when they are asked for.

blocks X_b (n_b, d) -> random rows of every block, about size * n_b / n of each -> fit
transform: X_b -> model.transform(X_b) (n_b, K), a dask array with the chunks of X along the rows
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, extra
from .checks import MOST_SEEDS

if TYPE_CHECKING:
    from .eigenmaps import OptimalApproximationEigenmaps


def _array(table: Any) -> Any:
    """A dask array with known chunks, one along the columns."""
    if not hasattr(table, "chunks"):  # a data frame
        words = [str(name) for name, kind in zip(table.columns, table.dtypes, strict=True) if kind.kind not in "fiub"]
        if words:
            raise InputError(f"features must be numbers, column {words[0]!r} is not (leave labels out)")
        table = table.to_dask_array(lengths=True)
    if table.ndim != 2:
        raise InputError(f"features must be a table (n, d), got shape {table.shape}")
    if np.isnan(table.shape[0]):
        table = table.compute_chunk_sizes()
    return table.rechunk({1: -1})


def sampled(table: Any, size: int, rng: np.random.RandomState) -> Any:
    """At most ``size`` rows ``(s, d)``: from every block random ones, in proportion to its rows."""
    array = _array(table)
    lengths = np.array(array.chunks[0])
    total = int(lengths.sum())
    generator = np.random.default_rng(rng.randint(MOST_SEEDS))
    wanted = lengths if total <= size else generator.multivariate_hypergeometric(lengths, size)
    dask, seeds = extra("dask"), generator.integers(MOST_SEEDS, size=len(lengths))
    parts = [
        dask.delayed(_rows_of)(block, int(count), int(seed))
        for block, count, seed in zip(array.to_delayed()[:, 0], wanted, seeds, strict=True)
        if count
    ]
    return np.concatenate(dask.compute(*parts))


def _rows_of(block: Any, count: int, seed: int) -> Any:
    block = np.asarray(block)
    return block if count == len(block) else block[np.sort(np.random.default_rng(seed).permutation(len(block))[:count])]


def transformed(model: OptimalApproximationEigenmaps, table: Any, columns: int) -> Any:
    """A lazy array ``(n, columns)``; the model travels to the workers once."""
    dask, array = extra("dask"), _array(table)
    if array.shape[1] != model.n_features_in_:
        raise InputError(f"expected {model.n_features_in_} columns, as in fit, got {array.shape[1]}")
    dtype = np.dtype(np.float32) if array.dtype == np.float32 else np.dtype(model._dtype)
    chunks, meta = (array.chunks[0], (columns,)), np.empty((0, 0), dtype)
    return array.map_blocks(_placed, dask.delayed(model), chunks=chunks, dtype=dtype, meta=meta)


def _placed(block: Any, model: OptimalApproximationEigenmaps) -> Any:
    return model.transform(np.asarray(block))
