"""Points ``(n, 3)`` drawn from a triangle mesh, vertices ``(v, 3)`` and faces ``(f, 3)``.

surface   face f with probability area_f / area, area_f = |(b - a) x (c - a)| / 2, then
          x = (1 - r) a + r (1 - v) b + r v c,  r = sqrt(u),  u and v uniform
volume    uniform in the bounding box, kept where the winding number of the surface is above 1/2
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cloud.farthest import farthest_points
from ..errors import InputError, extra, warn
from ..host.validation import as_array, validated
from ..io.mesh import Array, Mesh, as_mesh, face_areas, is_closed, vertex_areas
from ..io.shapes import Shape
from ..smoothers.prepared import NEIGHBOURS

MOST = 10**8  # points of one sample: they take 20 GB on the way
DRAWN = 4000  # points at least, where vertices are no sample
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
def sample_surface(
    mesh: Mesh, n: int, seed: int | None = 0, *, density: Array | None = None
) -> Array:
    """Independent points on a mesh, uniform by area.

    Parameters
    ----------
    mesh
        A `Shape`, a ``(vertices, faces)`` pair, or anything with those two attributes.
    n
        How many points.
    seed
        Of the random numbers.
    density
        A number ``(f,)`` per face that its area is multiplied by.

    Returns
    -------
    Array
        ``(n, 3)``.

    Examples
    --------
    >>> vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> sample_surface((vertices, faces), 10).shape
    (10, 3)
    """
    return draw_surface(mesh, n, seed, density=density).points


@validated
def draw_surface(
    mesh: Mesh, n: int, seed: int | None = 0, *, density: Array | None = None
) -> SurfaceSample:
    """The points of `sample_surface` with the faces they lie on, so that functions on the vertices
    can be read off there.

    Parameters
    ----------
    mesh, n, seed, density
        As in `sample_surface`.

    Returns
    -------
    SurfaceSample

    Examples
    --------
    >>> vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> drawn = draw_surface((vertices, faces), 10)
    >>> bool(np.allclose(drawn.interpolate((vertices, faces), vertices), drawn.points))
    True
    """
    _check_count(n)
    vertices, faces = as_mesh(mesh)
    weights = face_areas(vertices, faces)
    if density is not None:
        density = as_array(density, np.float64)
        if density.shape != weights.shape:
            raise InputError(
                f"expected a density per face, {weights.shape}, got shape {density.shape}"
            )
        weights = weights * density
    total = weights.sum()
    if not 0 < total < np.inf or (weights < 0).any():
        raise InputError(
            f"expected a mesh of positive area to draw points from, got total weight {total}"
        )
    generator = np.random.default_rng(seed)
    chosen = generator.choice(len(faces), size=n, p=weights / total)
    root, v = np.sqrt(generator.random(n)), generator.random(n)
    barycentric = np.stack([1 - root, root * (1 - v), root * v], axis=1)
    points = np.einsum("ij,ijk->ik", barycentric, vertices[faces[chosen]])
    return SurfaceSample(points, chosen, barycentric)


def covered(shape: Shape, seed: int = 0) -> Shape:
    """A mesh as it is where its vertices are a sample of its faces, which is what a point cloud is
    taken for; else a cloud of even points drawn on the faces, with a warning.

    A vertex stands for an area ``a`` (`vertex_areas`); of even points the ``k`` nearest lie within
    ``sqrt(k a / pi)``. A face with an edge longer than that, at both of its ends, has corners that
    are not neighbours of each other: the sides of a capsule with vertices on its caps alone. What
    the graph does not see is missing from the operator: its share of the area is the error of the
    mass, and so of eigenvalues, which is said from 10 % on.
    """
    vertices, faces = np.asarray(shape.vertices), shape.faces
    if faces is None:
        return shape
    reach = np.sqrt(NEIGHBOURS["adaptive"] / np.pi * vertex_areas(vertices, faces))
    ends = faces, np.roll(faces, -1, axis=1)
    lengths = np.linalg.norm(vertices[ends[0]] - vertices[ends[1]], axis=2)  # (f, 3)
    unseen = (lengths > np.maximum(reach[ends[0]], reach[ends[1]])).any(1)
    areas = face_areas(vertices, faces)
    share = float(areas[unseen].sum() / areas.sum())
    if share <= 0.1:
        return shape
    count = max(DRAWN, len(vertices))
    warn(
        f"{100 * share:.0f} % of the area of {shape.name} lies between vertices that are far "
        f"apart: {count} points are drawn on its faces (for its vertices pass them as an array, "
        "or --samples 0 to a command)"
    )
    return Shape(spread_surface(shape, count, seed), None, shape.name, shape.repairs)


def spread_surface(mesh: Mesh, n: int, seed: int | None = 0) -> Array:
    """``n`` points (n, 3) on a mesh, thinned to an even spacing from four times as many."""
    dense = sample_surface(mesh, 4 * n, seed)
    return dense[farthest_points(dense, n, seed)]


@validated
def sample_volume(mesh: Mesh, n: int, seed: int | None = 0, *, spread: bool = False) -> Array:
    """Points inside a closed mesh, uniform by volume. A mesh with a boundary has no inside and is
    refused.

    Parameters
    ----------
    mesh, n, seed
        As in `sample_surface`.
    spread
        Draws four times as many and keeps the ``n`` farthest from each other: the same density,
        without the clumps and holes of independent points.

    Returns
    -------
    Array
        ``(n, 3)``.

    Examples
    --------
    >>> vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> points = sample_volume((vertices, faces), 10)
    >>> bool((points > 0).all() and (points.sum(1) < 1).all())
    True
    """
    _check_count(n)
    vertices, faces = closed_mesh(mesh, "sample_volume")
    candidates = 4 * n if spread else n
    low, high = vertices.min(0), vertices.max(0)
    pad = PADDING * (high - low)
    generator = np.random.default_rng(seed)
    kept: list[Array] = []
    found, drawn = 0, 0
    size = min(2 * candidates + 1000, 1_000_000)
    while found < candidates:
        box = generator.uniform(low - pad, high + pad, size=(size, 3))
        kept.append(box[winding_number(vertices, faces, box) > 0.5])
        found, drawn = found + len(kept[-1]), drawn + size
        if not found and drawn >= 200_000:
            raise InputError(
                f"sample_volume found no inside: {drawn} points of the bounding box are all outside"
            )
    points = np.concatenate(kept)[:candidates]
    if spread:
        points = points[np.sort(farthest_points(points, n, start=0))]
    return points


def closed_mesh(mesh: Mesh, needed_by: str) -> tuple[Array, Array]:
    """Vertices ``(v, 3)`` and faces ``(f, 3)`` of a mesh that bounds a solid; an error of
    others.
    """
    vertices, faces = as_mesh(mesh)
    closed, reason = is_closed(faces)
    if not closed:
        raise InputError(f"{needed_by} needs a closed mesh, got one with {reason}")
    return vertices, faces


def _check_count(n: int) -> None:
    if not 1 <= n <= MOST:
        raise InputError(f"expected 1 to {MOST} points, got n={n}")


def winding_number(vertices: Array, faces: Array, queries: Array) -> Array:
    """How often the surface goes round each query point: 1 inside, 0 outside, whichever way the
    faces are turned.
    """
    return np.abs(extra("igl").fast_winding_number(vertices, faces, queries))
