"""Orders of the points that keep neighbours near in memory.

Searches and sparse products are bound by memory: at 100k points in random order most accesses miss the cache, and a
product is several times slower than with the points along a space-filling curve (at most three coordinates) or in
reverse Cuthill-McKee order (any graph).
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

REORDER = 8192  # rows below which everything is in cache anyway


def memory_order(matrix: Tensor, points: Tensor | None = None) -> Tensor | None:
    """An order of the rows that keeps neighbours close in memory, or ``None`` where it would not pay."""
    if matrix.shape[0] < REORDER:
        return None
    if points is not None and points.shape[1] <= 3:
        return morton_order(points)
    if matrix.device.type != "cpu":
        return None
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    return torch.from_numpy(reverse_cuthill_mckee(as_scipy(matrix), symmetric_mode=True).astype(np.int64))


def morton_order(points: Tensor) -> Tensor:
    """The order of the points along a Z-shaped space-filling curve; ``points (n, d)``, d at most 3."""
    bits = 20
    low = points.amin(0)
    extent = (points.amax(0) - low).amax().clamp_min(torch.finfo(points.dtype).tiny)
    cells = ((points - low) / extent * (2**bits - 1)).to(torch.int64)
    # Spread the 20 bits of every coordinate to each third bit of one 60-bit key.
    masks = (0x1F00000000FFFF, 0x1F0000FF0000FF, 0x100F00F00F00F00F, 0x10C30C30C30C30C3, 0x1249249249249249)
    for shift, mask in zip((32, 16, 8, 4, 2), masks, strict=True):
        cells = (cells | (cells << shift)) & mask
    key = cells[:, 0].clone()
    for axis in range(1, points.shape[1]):
        key |= cells[:, axis] << axis
    return key.argsort()


def as_scipy(matrix: Tensor) -> Any:
    """The same CSR matrix as a scipy array with 32-bit indices, on the host over the same memory."""
    from scipy.sparse import csr_array

    parts = [part.cpu().numpy() for part in (matrix.values(), matrix.col_indices(), matrix.crow_indices())]
    small = np.int32 if len(parts[1]) < 2**31 else np.int64
    return csr_array((parts[0], *(part.astype(small, copy=False) for part in parts[1:])), shape=tuple(matrix.shape))
