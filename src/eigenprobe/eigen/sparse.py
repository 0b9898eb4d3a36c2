"""Algebra of sparse CSR matrices on the device of their operands: what a hierarchy is built from.

    (A B)[i, j] = sum_k A[i, k] B[k, j]        every product is written out, sorted by (i, j) and summed     any device
                                               row by row in C                                               host: scipy

Values keep their precision, indices have 32 bits where they suffice.  Rows need not be sorted.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..search.layout import as_scipy
from ..smoothers.smoother import csr, rows_of

PRODUCTS = 1 << 27  # written out at once: about four gigabytes


def on_host(matrix: Tensor) -> bool:
    """Whether scipy's kernels work on this matrix: they are several times faster than sorting."""
    return matrix.device.type == "cpu"


def from_scipy(array: Any) -> Tensor:
    """A scipy CSR array as a torch one over the same memory."""
    pointers, columns, values = (torch.from_numpy(part) for part in (array.indptr, array.indices, array.data))
    return csr(pointers, columns, values, array.shape)


def with_values(matrix: Tensor, values: Tensor) -> Tensor:
    """The same pattern with other values."""
    return csr(matrix.crow_indices(), matrix.col_indices(), values, tuple(matrix.shape))  # type: ignore[arg-type]


def scaled(matrix: Tensor, left: Tensor, right: Tensor | None = None) -> Tensor:
    """``diag(left) A diag(right)``."""
    values = matrix.values() * left.repeat_interleave(matrix.crow_indices().diff(), output_size=len(matrix.values()))
    return with_values(matrix, values if right is None else values * right[matrix.col_indices()])


def select_rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """``A[rows]``."""
    pointers = matrix.crow_indices().long()
    counts = pointers.diff()[rows]
    ends = counts.cumsum(0)
    place = torch.arange(int(counts.sum()), device=rows.device)
    place += (pointers[rows] - ends + counts).repeat_interleave(counts, output_size=len(place))
    pointers = torch.cat([ends.new_zeros(1), ends])
    return csr(pointers, matrix.col_indices()[place].long(), matrix.values()[place], (len(rows), matrix.shape[1]))


def transpose(matrix: Tensor) -> Tensor:
    """``A^T``."""
    if on_host(matrix):
        return from_scipy(as_scipy(matrix).T.tocsr())
    columns = matrix.col_indices()
    order = columns.argsort(stable=True)
    pointers = _pointers(columns, matrix.shape[1])
    return csr(pointers, rows_of(matrix)[order], matrix.values()[order], (matrix.shape[1], matrix.shape[0]))


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """``A B`` of two sparse matrices."""
    if on_host(a):
        return from_scipy(as_scipy(a) @ as_scipy(b))
    pointers, columns, values = a.crow_indices().long(), a.col_indices(), a.values()
    width = b.crow_indices().long().diff()[columns]  # products of every entry of A
    before = torch.cat([width.new_zeros(1), width.cumsum(0)])
    ends = before[pointers].cpu()  # products up to every row
    parts, first = [], 0
    while first < a.shape[0]:  # as many rows at once as PRODUCTS allows
        last = int(torch.searchsorted(ends, ends[first] + PRODUCTS, right=True)) - 1
        last = min(max(last, first + 1), a.shape[0])
        entries = slice(int(pointers[first]), int(pointers[last]))
        total = int(ends[last] - ends[first])
        rows = torch.arange(first, last, device=a.device).repeat_interleave(
            pointers[first : last + 1].diff(), output_size=entries.stop - entries.start
        )
        parts.append(_summed(rows, columns[entries], values[entries], width[entries], total, b))
        first = last
    rows, columns, values = (torch.cat(part) for part in zip(*parts, strict=True))
    return csr(_pointers(rows, a.shape[0]), columns, values, (a.shape[0], b.shape[1]))


def _summed(
    rows: Tensor, columns: Tensor, values: Tensor, width: Tensor, total: int, b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and values of the products of some entries of A with the rows of B that they meet."""
    source = torch.arange(len(rows), device=rows.device).repeat_interleave(width, output_size=total)
    start = b.crow_indices().long()[columns] - (width.cumsum(0) - width)
    place = start[source] + torch.arange(total, device=rows.device)
    key, order = (rows[source] * b.shape[1] + b.col_indices()[place]).sort()
    products = (values[source] * b.values()[place])[order]
    del source, place, order
    key, place = torch.unique_consecutive(key, return_inverse=True)
    return key // b.shape[1], key % b.shape[1], products.new_zeros(len(key)).index_add_(0, place, products)


def row_max(matrix: Tensor, key: Tensor) -> Tensor:
    """The largest of the keys of every row's own and its neighbours' ``(n,)``; keys are whole numbers."""
    pointers, columns = matrix.crow_indices(), matrix.col_indices()
    if not on_host(matrix):
        return key.scatter_reduce(0, rows_of(matrix), key[columns], "amax")
    full = pointers.diff().numpy().nonzero()[0]  # reduceat cannot do empty rows
    out = key.numpy().copy()
    out[full] = np.maximum(out[full], np.maximum.reduceat(key.numpy()[columns.numpy()], pointers.numpy()[full]))
    return torch.from_numpy(out)


def _pointers(rows: Tensor, count: int) -> Tensor:
    counts = torch.bincount(rows, minlength=count)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
