"""The farthest-point order of a cloud: every point chosen is the farthest from all chosen before
it.

    i_{t+1} = argmax_j  w_j min_{s <= t} |x_j - x_{i_s}|^2
    x (n, d) or (b, n, d) -> indices (m,) or (b, m)

A new point can only change the distance of points closer to it than its own current distance ``r``
(all others are within ``r`` of an earlier choice already), so large clouds in few dimensions look
only inside that ball.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..host.device import fused, graphed
from ..host.validation import as_array, validated
from ..io.mesh import Array
from ..points import as_tensor

A = TypeVar("A", NDArray[Any], Tensor)  # a tensor is answered by a tensor, an array by an array
BALL_POINTS = 50_000  # from here on looking inside a ball beats one pass over all points
BALL_DIMENSIONS = 6
# larger clouds are first thinned to this many at random: spacing hardly changes, memory does
THINNED = 2_000_000
PRODUCT_DIMENSIONS = 16  # from here on distances come from a matrix product
# starts on one cloud from which a pass is one kernel on a GPU: compiled once, since its size comes
# again
MANY = 128
HEAD = 64  # the first balls cover most of the cloud: pass over all points instead


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
        ``(N, d)``, or a batch ``(b, N, d)``. Arrays of more than two million points (files too
        large for memory among them) are thinned at random first.
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
    return _choose(
        x, n, None if seed is None else np.random.default_rng(seed), start, weight, valid
    )


def _choose(x: Any, n: int, generator: Any, start: int | None, weight: Any, valid: Any) -> Any:
    """Batches of tensors and everything on a device together; arrays, and single tensors on the
    host, one by one.
    """
    tensor, single = isinstance(x, Tensor), x.ndim == 2
    x = x.detach() if tensor else x
    x, weight, valid = (a[None] if single and a is not None else a for a in (x, weight, valid))
    if tensor and not (single and x.device.type == "cpu"):
        indices = _in_batch(x, n, generator, start, weight, valid)
        return indices[0] if single else indices
    clouds, weights, masks = (
        [None] * len(x) if a is None else as_array(a) if tensor else a for a in (x, weight, valid)
    )
    rows = zip(clouds, weights, masks, strict=True)
    chosen = np.stack([_on_host(cloud, n, generator, start, w, mask) for cloud, w, mask in rows])
    answer = torch.from_numpy(chosen) if tensor else chosen
    return answer[0] if single else answer


def _on_host(
    cloud: Array, n: int, generator: Any, start: int | None, weight: Any, valid: Any
) -> Array:
    """One cloud: the rows that take part first (they may be few of a large file), then the order
    among them.
    """
    kept = None if valid is None else np.flatnonzero(valid)
    count = len(cloud) if kept is None else len(kept)
    enough = max(THINNED, 4 * n)
    if count > enough:
        drawn = np.sort(
            (generator or np.random.default_rng(0)).choice(count, enough, replace=False)
        )
        if start is not None:
            drawn[0], start = start, 0
        kept = drawn if kept is None else kept[drawn]
    points = np.asarray(cloud if kept is None else cloud[kept])
    if not np.isfinite(points).all():
        raise InputError("farthest_points needs finite coordinates, got NaN or infinity")
    if start is not None:
        first = start
    elif generator is not None:
        first = int(generator.integers(len(points)))
    else:
        first = int(((points - points.mean(0)) ** 2).sum(1).argmax())
    if weight is not None and kept is not None:
        weight = weight[kept]
    chosen = _by_passes(np.ascontiguousarray(points, dtype=np.float64), n, first, weight)
    return chosen if kept is None else kept[chosen]


def _by_passes(points: Array, n: int, first: int, weight: Array | None) -> Array:
    few = (
        len(points) >= BALL_POINTS
        and points.shape[1] <= BALL_DIMENSIONS
        and n > HEAD
        and weight is None
    )
    chosen = np.empty(n, np.int64)
    nearest = np.full(len(points), np.inf)  # squared distance to the closest chosen point
    index = first
    centred = points - points.mean(0)
    columns = np.ascontiguousarray(centred.T)  # (d, n): a pass over one coordinate is contiguous
    norms = np.einsum("ij,ij->i", centred, centred)
    total, part = np.empty(len(points)), np.empty(len(points))
    for t in range(HEAD if few else n):
        chosen[t] = index
        if len(columns) >= PRODUCT_DIMENSIONS:
            np.dot(centred, centred[index], out=total)
            total *= -2
            total += norms
            total += norms[index]
            total[index] = 0
        else:
            total.fill(0)
            for column in columns:
                np.subtract(column, column[index], out=part)
                np.multiply(part, part, out=part)
                np.add(total, part, out=total)
        np.minimum(nearest, total, out=nearest)
        index = int(nearest.argmax() if weight is None else (nearest * weight).argmax())
    if few:
        _in_balls(points, chosen, nearest, index)
    return chosen


def _in_balls(points: Array, chosen: Array, nearest: Array, index: int) -> None:
    """Continue a choice after its head. Maxima of blocks replace a pass over all points by one over
    the changed.
    """
    from scipy.spatial import cKDTree

    order = cKDTree(points, leafsize=64).indices  # neighbours in space become neighbours in memory
    points, nearest = points[order], nearest[order]
    index = int(np.flatnonzero(order == index)[0])
    tree = cKDTree(points, leafsize=64)
    width = int(np.sqrt(len(points)))
    padded = np.full(-(-len(points) // width) * width, -np.inf)
    padded[: len(points)] = nearest
    blocks = padded.reshape(-1, width)
    maxima = blocks.max(1)
    for t in range(HEAD, len(chosen)):
        chosen[t] = order[index]
        ball = np.array(tree.query_ball_point(points[index], np.sqrt(padded[index]) * (1 + 1e-12)))
        offset = points[ball] - points[index]
        padded[ball] = np.minimum(padded[ball], np.einsum("ij,ij->i", offset, offset))
        touched = np.unique(ball // width)
        maxima[touched] = blocks[touched].max(1)
        block = int(maxima.argmax())
        index = block * width + int(blocks[block].argmax())


def _advance(nearest: Tensor, index: Tensor, x: Tensor, *weight: Tensor) -> tuple[Tensor, Tensor]:
    """``nearest (b, n)`` after the points ``index (b,)`` were chosen too, and the farthest then; x
    (b or 1, n, d).
    """
    b, d = len(index), x.shape[2]
    current = x.expand(b, -1, -1).gather(1, index[:, None, None].expand(b, 1, d))  # (b, 1, d)
    offset = (x - current).square().sum(2)
    nearest = torch.minimum(nearest, offset * weight[0] if weight else offset)
    return nearest, nearest.argmax(1)


_advance_at_once = fused(_advance)


def _from(n: int, step: Any, nearest: Tensor, index: Tensor, *given: Tensor) -> Tensor:
    """The ``n`` choices ``(b, n)`` that begin with ``index``."""
    chosen = torch.empty((len(index), n), dtype=torch.int64, device=index.device)
    for t in range(n):
        chosen[:, t] = index
        nearest, index = step(nearest, index, *given)
    return chosen


@lru_cache(maxsize=8)
def _kept(*key: Any) -> list[Any]:
    """The place of the CUDA graph of a whole choice, empty at first: each holds memory, and few
    sizes come again.
    """
    return []


def _in_batch(
    x: Tensor, n: int, generator: Any, start: int | None, weight: Any, valid: Tensor | None
) -> Tensor:
    """All clouds of a batch at once: one small pass per point, no transfer to the host inside the
    loop.
    """
    b = x.shape[0]
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    finite = torch.isfinite(x).all(-1)
    if not bool((finite if valid is None else finite | ~valid).all()):
        raise InputError("farthest_points needs finite coordinates, got NaN or infinity")
    # (b, n), squared and weighted
    nearest = torch.full(x.shape[:2], torch.inf, dtype=x.dtype, device=x.device)
    if valid is not None:
        nearest = nearest.masked_fill(~valid, -1.0)
        x = x.masked_fill(~valid[..., None], 0.0)
    if start is None and generator is None:
        share = torch.ones_like(nearest) if valid is None else valid.to(x.dtype)
        offset = x - ((share[..., None] * x).sum(1) / share.sum(1, keepdim=True))[:, None]
        index = offset.square().sum(2).masked_fill(share == 0, -1.0).argmax(1)
    else:
        counts = x.shape[1] if valid is None else valid.sum(1).cpu().numpy()
        drawn = (
            np.full(b, start)
            if generator is None or start is not None
            else generator.integers(counts, size=b)
        )
        index = torch.from_numpy(drawn).to(x.device)
        if valid is not None:  # the place among the valid points to the place in the cloud
            index = (valid.cumsum(1) > index[:, None]).int().argmax(1)
    once = x.stride(0) == 0
    given = (nearest, index, x[:1] if once else x, *(() if weight is None else (weight,)))
    if not (b >= MANY and once and x.is_cuda):
        return _from(n, _advance, *given)
    # many starts on one cloud
    place = _kept(n, x.device, *((each.shape, each.dtype) for each in given))
    if not place:
        chain = partial(_from, n, _advance_at_once)
        place.append(graphed(chain, *(each.clone() for each in given)) or chain)
    return place[0](*given).clone()
