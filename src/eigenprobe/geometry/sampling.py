"""Choosing points: farthest points of a cloud, uniform points on a surface, uniform points inside a closed surface.

    farthest   i_{t+1} = argmax_j  min_{s <= t} |x_j - x_{i_s}|         (n, d) or (b, n, d) -> indices (m,) or (b, m)
    surface    face f with probability area_f / area, then x = a + (1 - sqrt(u)) (b - a) + sqrt(u) v (c - a)
    volume     uniform in the bounding box, kept where the winding number of the surface is above one half

A new farthest point can only change the distance of points closer to it than its own current distance ``r`` (all
others are within ``r`` of an earlier choice already), so large clouds in few dimensions look only inside that ball.
"""

from __future__ import annotations

from typing import Any, NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from .mesh import Mesh, as_mesh, face_areas, is_closed

Array = NDArray[Any]
BALL_POINTS = 50_000  # from here on looking inside a ball beats one pass over all points
BALL_DIMENSIONS = 6
THINNED = 2_000_000  # larger clouds are first thinned to this many at random: spacing hardly notices, memory does
PRODUCT_DIMENSIONS = 16  # from here on distances come from a matrix product
HEAD = 64  # the first balls cover most of the cloud: pass over all points instead
PADDING = 0.05  # of the bounding box, as the paper's volume sampling does


class SurfaceSample(NamedTuple):
    """Points on a mesh, the face each lies on and its barycentric coordinates there."""

    points: Array  # (n, 3)
    faces: Array  # (n,)
    barycentric: Array  # (n, 3)

    def interpolate(self, mesh: Mesh, values: Array) -> Array:
        """Per-vertex ``values`` (v, ...) at the sampled points (n, ...), linear on every face."""
        corners = np.asarray(values)[as_mesh(mesh)[1][self.faces]]  # (n, 3, ...)
        return np.einsum("ij,ij...->i...", self.barycentric, corners)


@overload
def farthest_points(x: Tensor, n: int, seed: int | None = None, *, start: int | None = None) -> Tensor: ...
@overload
def farthest_points(x: Array, n: int, seed: int | None = None, *, start: int | None = None) -> Array: ...
def farthest_points(x: Any, n: int, seed: int | None = None, *, start: int | None = None) -> Any:
    """Indices of ``n`` points of ``x``, each the farthest from all chosen before it.

    The first is drawn with ``seed``; or ``start``, if given; or, with neither, the point farthest from the mean of
    the cloud, which does not depend on the order of the points. A ``(b, n, d)`` batch gives ``(b, n)`` indices. A
    tensor is answered by a tensor on its device, an array by an array. Arrays of more than two million points (files
    too large for memory among them) are thinned at random first.

    >>> farthest_points(np.array([[0.0], [1.0], [4.0], [9.0]]), 3, start=0)
    array([0, 3, 2])
    """
    shape = tuple(x.shape)
    if len(shape) not in (2, 3):
        raise InputError(f"farthest_points needs points (n, d) or a batch (b, n, d), got shape {shape}")
    if not 1 <= n <= shape[-2]:
        raise InputError(f"farthest_points can choose 1 to {shape[-2]} of {shape[-2]} points, got n={n}")
    if start is not None and not 0 <= start < shape[-2]:
        raise InputError(f"start must be an index below {shape[-2]}, got {start}")
    generator = None if seed is None else np.random.default_rng(seed)
    if isinstance(x, Tensor) and (x.device.type != "cpu" or len(shape) == 3):
        batch = x.detach() if len(shape) == 3 else x.detach()[None]
        if not bool(torch.isfinite(batch).all()):
            raise InputError("farthest_points needs finite coordinates, got NaN or infinity")
        chosen = _farthest_batch(batch, n, generator, start)
        return chosen if len(shape) == 3 else chosen[0]
    points = x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x)
    if len(shape) == 2 and shape[0] > max(THINNED, 4 * n):
        kept = np.sort((generator or np.random.default_rng(0)).choice(shape[0], max(THINNED, 4 * n), replace=False))
        if start is not None:
            kept[0] = start
        inner = farthest_points(np.asarray(points[kept]), n, seed, start=None if start is None else 0)
        return torch.from_numpy(kept[inner]) if isinstance(x, Tensor) else kept[inner]
    if not np.isfinite(points).all():
        raise InputError("farthest_points needs finite coordinates, got NaN or infinity")
    clouds = points if len(shape) == 3 else points[None]
    indices = np.stack([_farthest(cloud, n, _first(cloud, generator, start)) for cloud in clouds])
    answer = indices if len(shape) == 3 else indices[0]
    return torch.from_numpy(answer) if isinstance(x, Tensor) else answer


def _first(points: Array, generator: np.random.Generator | None, start: int | None) -> int:
    if start is not None:
        return start
    if generator is not None:
        return int(generator.integers(len(points)))
    return int(((points - points.mean(0)) ** 2).sum(1).argmax())


def _farthest(points: Array, n: int, first: int) -> Array:
    points = np.ascontiguousarray(points, dtype=np.float64)
    few = len(points) >= BALL_POINTS and points.shape[1] <= BALL_DIMENSIONS and n > HEAD
    chosen = np.empty(n, np.int64)
    nearest = np.full(len(points), np.inf)  # squared distance to the closest chosen point
    index = first
    head = HEAD if few else n
    centred = points - points.mean(0)
    columns = np.ascontiguousarray(centred.T)  # (d, n): a pass over one coordinate is contiguous
    norms = np.einsum("ij,ij->i", centred, centred)
    total, part = np.empty(len(points)), np.empty(len(points))
    for t in range(head):
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
        index = int(nearest.argmax())
    if few:
        _farthest_in_balls(points, chosen, nearest, index)
    return chosen


def _farthest_in_balls(points: Array, chosen: Array, nearest: Array, index: int) -> None:
    """Continue a choice after its head. Maxima of blocks replace a pass over all points by one over the changed."""
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


def _farthest_batch(x: Tensor, n: int, generator: np.random.Generator | None, start: int | None) -> Tensor:
    """All clouds of a batch at once: one small pass a point, no transfer to the host inside the loop."""
    b = x.shape[0]
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    if start is not None:
        index = torch.full((b,), start, device=x.device)
    elif generator is not None:
        index = torch.from_numpy(generator.integers(x.shape[1], size=b)).to(x.device)
    else:
        index = (x - x.mean(1, keepdim=True)).square().sum(2).argmax(1)
    chosen = torch.empty((b, n), dtype=torch.int64, device=x.device)
    nearest = torch.full(x.shape[:2], torch.inf, dtype=x.dtype, device=x.device)  # (b, n)
    for t in range(n):
        chosen[:, t] = index
        current = x.gather(1, index[:, None, None].expand(b, 1, x.shape[2]))  # (b, 1, d)
        nearest = torch.minimum(nearest, (x - current).square().sum(2))
        index = nearest.argmax(1)
    return chosen


def sample_surface(mesh: Mesh, n: int, seed: int | None = 0, *, density: Array | None = None) -> Array:
    """``n`` independent points (n, 3), uniform by area, or by ``density`` (one number a face) times area.

    ``mesh`` is a `Shape`, a ``(vertices, faces)`` pair, or anything with those two attributes.
    """
    return draw_surface(mesh, n, seed, density=density).points


def draw_surface(mesh: Mesh, n: int, seed: int | None = 0, *, density: Array | None = None) -> SurfaceSample:
    """The same points with the faces they lie on, so that functions on the vertices can be read off there."""
    vertices, faces = as_mesh(mesh)
    weights = face_areas(vertices, faces)
    if density is not None:
        weights = weights * np.asarray(density, dtype=np.float64)
    total = weights.sum()
    if not np.isfinite(total) or total <= 0 or (weights < 0).any():
        raise InputError(f"expected a mesh of positive area to draw points from, got total weight {total}")
    generator = np.random.default_rng(seed)
    chosen = generator.choice(len(faces), size=n, p=weights / total)
    root, v = np.sqrt(generator.random(n)), generator.random(n)
    barycentric = np.stack([1 - root, root * (1 - v), root * v], axis=1)
    points = np.einsum("ij,ijk->ik", barycentric, vertices[faces[chosen]])
    return SurfaceSample(points, chosen, barycentric)


def sample_volume(
    mesh: Mesh, n: int, seed: int | None = 0, *, surface_vertices: bool = False, spread: bool = False
) -> Array:
    """``n`` points inside a closed mesh, uniform by volume; with ``surface_vertices`` all its vertices come after.

    ``spread`` draws four times as many and keeps the ``n`` farthest from each other: the same density, without the
    clumps and holes of independent points. A mesh with a boundary has no inside and is refused.
    """
    vertices, faces = as_mesh(mesh)
    closed, reason = is_closed(faces)
    if not closed:
        raise InputError(f"sample_volume needs a closed mesh, got one with {reason}")
    candidates = 4 * n if spread else n
    low, high = vertices.min(0), vertices.max(0)
    pad = PADDING * (high - low)
    generator = np.random.default_rng(seed)
    kept: list[Array] = []
    found, drawn = 0, 0
    while found < candidates:
        share = max(found / drawn, 1e-3) if drawn else 0.3
        size = min(int(1.1 * (candidates - found) / share) + 100, 1_000_000)
        box = generator.uniform(low - pad, high + pad, size=(size, 3))
        inside = box[winding_number(vertices, faces, box) > 0.5]
        kept.append(inside)
        found, drawn = found + len(inside), drawn + size
        if not found and drawn >= 200_000:
            raise InputError(f"sample_volume found no inside: {drawn} points of the bounding box are all outside")
    points = np.concatenate(kept)[:candidates]
    if spread:
        points = points[np.sort(farthest_points(points, n, start=0))]
    return np.concatenate([points, vertices]) if surface_vertices else points


def winding_number(vertices: Array, faces: Array, queries: Array) -> Array:
    """How often the surface goes round each query point: 1 inside, 0 outside, whichever way the faces are turned."""
    import igl

    corners = vertices[faces] - vertices.mean(0)
    signed_volume = np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6
    turns = np.asarray(igl.fast_winding_number(vertices, np.ascontiguousarray(faces, dtype=np.int64), queries))
    return turns if signed_volume >= 0 else -turns
