"""Facts about a triangle mesh, vertices ``(v, 3)`` and faces ``(f, 3)``, and points ``(n, 3)`` drawn from it.

area_f = |(b - a) x (c - a)| / 2         closed: every directed edge (i, j) is matched by exactly one (j, i)
surface    face f with probability area_f / area, then x = a + (1 - sqrt(u)) (b - a) + sqrt(u) v (c - a)
volume     uniform in the bounding box, kept where the winding number of the surface is above one half
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import InputError, extra
from ..host.validation import as_array, validated
from ..readers.mesh import Array, Mesh, as_mesh, face_areas, is_closed, signed_volume
from ..sampling.farthest import farthest_points

MOST = 10**8  # points of one sample: they take 20 GB on the way
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


@validated
def sample_surface(mesh: Mesh, n: int, seed: int | None = 0, *, density: Array | None = None) -> Array:
    """``n`` independent points (n, 3), uniform by area, or by ``density`` (one number per face) times area.

    ``mesh`` is a `Shape`, a ``(vertices, faces)`` pair, or anything with those two attributes.
    """
    return draw_surface(mesh, n, seed, density=density).points


@validated
def draw_surface(mesh: Mesh, n: int, seed: int | None = 0, *, density: Array | None = None) -> SurfaceSample:
    """The same points with the faces they lie on, so that functions on the vertices can be read off there."""
    _check_count(n)
    vertices, faces = as_mesh(mesh)
    weights = face_areas(vertices, faces)
    if density is not None:
        density = as_array(density, np.float64)
        if density.shape != weights.shape:
            raise InputError(f"expected a density per face, {weights.shape}, got shape {density.shape}")
        weights = weights * density
    total = weights.sum()
    if not np.isfinite(total) or total <= 0 or (weights < 0).any():
        raise InputError(f"expected a mesh of positive area to draw points from, got total weight {total}")
    generator = np.random.default_rng(seed)
    chosen = generator.choice(len(faces), size=n, p=weights / total)
    root, v = np.sqrt(generator.random(n)), generator.random(n)
    barycentric = np.stack([1 - root, root * (1 - v), root * v], axis=1)
    points = np.einsum("ij,ijk->ik", barycentric, vertices[faces[chosen]])
    return SurfaceSample(points, chosen, barycentric)


@validated
def sample_volume(
    mesh: Mesh, n: int, seed: int | None = 0, *, surface_vertices: bool = False, spread: bool = False
) -> Array:
    """``n`` points inside a closed mesh, uniform by volume; with ``surface_vertices`` all its vertices come after.

    ``spread`` draws four times as many and keeps the ``n`` farthest from each other: the same density, without the
    clumps and holes of independent points. A mesh with a boundary has no inside and is refused.
    """
    _check_count(n)
    vertices, faces = closed_mesh(mesh, "sample_volume")
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


def closed_mesh(mesh: Mesh, needed_by: str) -> tuple[Array, Array]:
    """Vertices ``(v, 3)`` and faces ``(f, 3)`` of a mesh that bounds a solid; an error of others."""
    vertices, faces = as_mesh(mesh)
    closed, reason = is_closed(faces)
    if not closed:
        raise InputError(f"{needed_by} needs a closed mesh, got one with {reason}")
    return vertices, faces


def _check_count(n: int) -> None:
    if not 1 <= n <= MOST:
        raise InputError(f"expected 1 to {MOST} points, got n={n}")


def winding_number(vertices: Array, faces: Array, queries: Array) -> Array:
    """How often the surface goes round each query point: 1 inside, 0 outside, whichever way the faces are turned."""
    igl = extra("igl")
    turns = np.asarray(igl.fast_winding_number(vertices, np.ascontiguousarray(faces, dtype=np.int64), queries))
    return turns if signed_volume(vertices, faces) >= 0 else -turns
