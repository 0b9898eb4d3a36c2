"""The farthest-point order of a cloud: every point chosen is the farthest from all chosen before
it.

    i_{t+1} = argmax_j  w_j min_{s <= t} |x_j - x_{i_s}|^2
    x (n, d) or (b, n, d) -> indices (m,) or (b, m)

All clouds of a batch move on together: one pass over the points for each that is chosen.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..host.validation import as_array, validated
from ..points import as_tensor

A = TypeVar("A", NDArray[Any], Tensor)  # a tensor is answered by a tensor, an array by an array
# An array of more is first thinned at random to so many, or so many for each that is chosen: the
# spacing hardly changes.
THINNED, EACH = 200_000, 16


@validated
def farthest_points(
    x: A,
    n: int,
    seed: int | None = None,
    *,
    start: int | None = None,
    weight: A | None = None,
    valid: A | None = None,
) -> A:
    """Points of a cloud, each the farthest from all chosen before it.

    Parameters
    ----------
    x
        ``(N, d)``, or a batch ``(b, N, d)``. Arrays of more than 200,000 points, and more than 16
        for each that is chosen, are thinned at random first (files too large for memory, too).
    n
        How many are chosen.
    seed, start
        The first is drawn with ``seed``, or is ``start``. With neither it is the point farthest
        from the mean, which does not depend on the order of the points.
    weight
        ``(N,)``, multiplies the squared distances: above 1 asks for more points there.
    valid
        ``(N,)``: the others are left out, as if they were not in the cloud (``start`` counts the
        valid ones).

    Returns
    -------
    Indices ``(n,)`` or ``(b, n)``: a tensor on the same device for a tensor, an array for an array.

    Examples
    --------
    >>> farthest_points(np.array([[0.0], [1.0], [4.0], [9.0]]), 3, start=0)
    array([0, 3, 2])
    """
    if not hasattr(x, "shape"):  # a list, a file, a mesh
        x = as_tensor(x).numpy()  # type: ignore[assignment]
    shape = tuple(x.shape)
    if len(shape) not in (2, 3):
        raise InputError(
            f"farthest_points needs points (n, d) or a batch (b, n, d), got shape {shape}"
        )
    # none of it: a file may be large, a tensor on a device
    if as_array(x[:0]).dtype.kind not in "fiub":
        raise InputError(f"farthest_points needs finite numbers, got {x.dtype}")
    for name, given in (("weight", weight), ("valid", valid)):
        if given is not None and (found := tuple(getattr(given, "shape", ()))) != shape[:-1]:
            raise InputError(
                f"farthest_points needs one {name} per point {shape[:-1]}, got {found}"
            )
    fewest = shape[-2] if valid is None else int(valid.sum(-1).min())
    if not 1 <= n <= fewest:
        raise InputError(f"farthest_points can choose 1 to {fewest} of {fewest} points, got n={n}")
    if start is not None and not 0 <= start < fewest:
        raise InputError(f"start must be an index below {fewest}, got {start}")
    if isinstance(x, Tensor):
        return _order(x, n, seed, start, weight, valid)
    most = max(THINNED, EACH * n)
    rows = None if len(shape) == 3 else _thinned(shape[0], most, seed, start, valid)
    if rows is not None:
        x, valid, start = x[rows], None, None if start is None else 0
        weight = None if weight is None else weight[rows]
    tensors = (None if a is None else torch.from_numpy(as_array(a).copy()) for a in (weight, valid))
    order = _order(torch.from_numpy(as_array(x).copy()), n, seed, start, *tensors).numpy()
    return order if rows is None else rows[order]


def _thinned(
    count: int, most: int, seed: int | None, start: int | None, valid: NDArray[Any] | None
) -> NDArray[Any] | None:
    """Rows of a large cloud, ``most`` of those that take part drawn at random, the one to start
    with first; None of others.
    """
    if count <= most:
        return None
    rows = np.arange(count) if valid is None else np.flatnonzero(valid)
    if len(rows) <= most:
        return rows if start is None else np.roll(rows, -start)
    drawn = np.random.default_rng(seed or 0).choice(len(rows), most, replace=False)
    if start is not None:
        drawn[0] = start
    return rows[drawn]


@torch.no_grad()
def _order(
    x: Tensor,
    n: int,
    seed: int | None,
    start: int | None,
    weight: Tensor | None,
    valid: Tensor | None,
) -> Tensor:
    """The rows ``(n,)`` or ``(b, n)``."""
    if x.ndim == 2:
        stacked = (None if each is None else each[None] for each in (weight, valid))
        return _order(x[None], n, seed, start, *stacked)[0]
    known = torch.isfinite(x).all(2)
    real = torch.ones_like(known) if valid is None else valid
    if not bool((known | ~real).all()):
        raise InputError("farthest_points needs finite coordinates, got NaN or infinity")
    kind = torch.float64 if x.device.type == "cpu" else torch.promote_types(x.dtype, torch.float32)
    b, columns = len(x), (x[:1] if x.stride(0) == 0 else x).to(kind).mT.contiguous()  # (b, d, N)
    columns = columns.masked_fill(~real[: len(columns), None], 0.0)
    if start is None and seed is None:
        share = real.to(kind)[:, None]
        mean = (share * columns).sum(2, keepdim=True) / share.sum(2, keepdim=True)
        index = (columns - mean).square().sum(1).masked_fill(~real, -1.0).argmax(1)
    else:
        counts = real.sum(1).cpu().numpy()
        chance = np.random.default_rng(seed).integers(counts, size=b)
        place = torch.from_numpy(chance if start is None else np.full(b, start)).to(x.device)
        # the place among those that take part, to the place in the cloud
        index = (real.cumsum(1) > place[:, None]).int().argmax(1)
    # squared and weighted distances to what is chosen, (b, N)
    nearest = torch.full(real.shape, torch.inf, dtype=kind, device=x.device).masked_fill(
        ~real, -1.0
    )
    chosen = torch.empty((b, n), dtype=torch.int64, device=x.device)
    for t in range(n):
        chosen[:, t] = index
        own = columns.expand(b, -1, -1).gather(2, index[:, None, None].expand(b, x.shape[2], 1))
        offset = (columns - own).square_().sum(1)
        nearest = torch.minimum(nearest, offset if weight is None else offset * weight)
        index = nearest.argmax(1)
    return chosen
