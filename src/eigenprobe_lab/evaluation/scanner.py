"""A virtual scanner: a mesh as instruments measure it, each point with the place on the mesh that
it comes from.

    depth camera       rays through a square grid of the image plane,     d ~ (u, v, 1)
    spinning scanner   rings of elevation e, steps of azimuth a on them,  d = (sin a cos e, sin e,
    cos a cos e) a hit              x = eye + t d on the face of least t > 0,          x = sum_c b_c
    v_c with b (3,) barycentric

``n`` points ``(n, 3)``. Lengths are given in radii: the largest distance of a vertex from the mean
of the vertices. Everything random comes from the generator that is passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from eigenprobe.cloud.farthest import farthest_points
from eigenprobe.errors import InputError, extra
from eigenprobe.geometry.draws import draw_surface
from eigenprobe.io.mesh import Array, Mesh, as_mesh, face_areas

from .areas import nearest_sample_areas

Generator = np.random.Generator
DISTANCE = 3.0  # radii from the centre to the eye
CLOSE = 0.02  # a grid of rays is accepted when it gives the wanted number of points to this share
# of making the grid finer or coarser; each squares the error, for hits go with the square of the
# step
ROUNDS = 6
# of the window of a view: the edges of faces are arcs in angles, and bulge over their ends
MARGIN = 0.05
JUMP = 10.0  # neighbouring pixels this many footprints apart in depth lie on two surfaces
DRAWS = (
    40  # draws per square of a voxel's side: only voxels that the surface hardly touches are missed
)
PER_ROW = ("points", "faces", "barycentric", "views")
FINER = 8  # faces per point from which the visible part of a mesh has edges finer than the scan


@dataclass(frozen=True)
class Scan:
    """Measured points and where they truly are on a mesh."""

    mesh: tuple[
        Array, Array
    ]  # vertices (v, 3) and triangles (f, 3): the surface that was there to be measured
    points: Array  # (n, 3), as measured
    faces: Array  # (n,), -1 for points of no surface: strays, flying pixels, the floor
    barycentric: Array  # (n, 3) of the true place on that face
    views: Array  # (n,), which of several views a point belongs to

    @property
    def surface(self) -> Array:
        """Which rows are measurements of the surface, (n,) of bool."""
        return self.faces >= 0

    @property
    def places(self) -> Array:
        """The true places (m, 3) of the rows on the surface."""
        return self.interpolate(self.mesh[0])

    def interpolate(self, values: Array) -> Array:
        """Values at vertices (v, ...) read at the true places of the rows on the surface (m,
        ...).
        """
        corners = np.asarray(values)[self.mesh[1][self.faces[self.surface]]]
        return np.einsum("ij,ij...->i...", self.barycentric[self.surface], corners)

    def areas(self) -> Array:
        """The area of the mesh nearest to each true place (m,); sums to the area of the mesh."""
        return nearest_sample_areas(self.mesh, self.places)

    def take(self, rows: Array) -> Scan:
        """Some rows, in another order perhaps."""
        return Scan(self.mesh, *(getattr(self, name)[rows] for name in PER_ROW))

    def beside(self, points: Array) -> Scan:
        """With ``points`` (e, 3) that are on no surface."""
        nowhere = np.full(len(points), -1)
        return joined([self, Scan(self.mesh, points, nowhere, np.zeros_like(points), nowhere)])


def joined(scans: Sequence[Scan]) -> Scan:
    """The rows of several scans of one mesh."""
    return Scan(
        scans[0].mesh,
        *(np.concatenate([getattr(scan, name) for scan in scans]) for name in PER_ROW),
    )


def centre_and_radius(vertices: Array) -> tuple[Array, float]:
    """The mean of the vertices (3,) and the largest distance from it."""
    centre = vertices.mean(0)
    return centre, float(np.linalg.norm(vertices - centre, axis=1).max())


# --- clouds of a surface ---


def drawn(mesh: Mesh, n: int, rng: Generator, density: Array | None = None) -> Scan:
    """Independent points, uniform by area or by ``density`` (one number per face) times area."""
    vertices, faces = as_mesh(mesh)
    found = draw_surface((vertices, faces), n, int(rng.integers(2**31)), density=density)
    return Scan((vertices, faces), found.points, found.faces, found.barycentric, np.zeros(n, int))


def even(mesh: Mesh, n: int, rng: Generator) -> Scan:
    """The ``n`` points farthest from each other of eight times as many."""
    dense = drawn(mesh, 8 * n, rng)
    return dense.take(farthest_points(dense.points, n, start=0))


def stepped(mesh: Mesh, n: int, ratio: float, rng: Generator) -> Scan:
    """``ratio`` times as dense on one side of a plane in a random direction, half of the faces on
    either side.
    """
    vertices, faces = as_mesh(mesh)
    height = vertices[faces].mean(1) @ rng.normal(size=3)
    return drawn(mesh, n, rng, np.where(height > np.median(height), ratio, 1.0))


def voxels(mesh: Mesh, cells: int, rng: Generator) -> Scan:
    """Centres of the cubes that the surface crosses, ``cells`` of them along the longest side of
    the bounding box.
    """
    vertices, faces = as_mesh(mesh)
    side = float(np.ptp(vertices, axis=0).max()) / cells
    dense = drawn(mesh, int(DRAWS * face_areas(vertices, faces).sum() / side**2), rng)
    centres = (np.unique(np.floor(dense.points / side), axis=0) + 0.5) * side
    nearest = dense.take(
        cKDTree(dense.points).query(centres)[1]
    )  # of the surface, to a tenth of a side
    return replace(nearest, points=centres)


# --- instruments ---


@dataclass(frozen=True)
class View:
    """An instrument at ``eye`` (3,), its right, up and forward axes as the rows of ``axes`` (3, 3).

    ``ratio`` None is a depth camera; a number a spinning scanner with rings that many times as far
    apart as the points on them. ``flying`` is the share of pixels at an edge in depth that measure
    a mixture of the two depths.
    """

    eye: Array
    axes: Array
    ratio: float | None = None
    flying: float = 0.0

    def scan(self, mesh: tuple[Array, Array], step: float, rng: Generator, index: int = 0) -> Scan:
        """What one sweep measures; ``step`` is the angle between rays (its geometric mean over the
        two directions).
        """
        directions = self.rays(mesh[0], step, rng)
        faces, depth, barycentric = first_hits(mesh, self.eye, directions.reshape(-1, 3))
        image = depth.reshape(directions.shape[:2])
        right = np.pad(
            image[:, 1:], ((0, 0), (0, 1)), constant_values=np.inf
        )  # the depth of the next pixel
        with np.errstate(invalid="ignore"):  # infinity less infinity, where nothing is hit
            jump = (right - image).ravel()
        edge = np.isfinite(jump) & (np.abs(jump) > JUMP * step * depth)
        mixed = edge & (rng.random(len(edge)) < self.flying)
        depth = depth + np.where(mixed, rng.random(len(edge)) * jump, 0.0)
        hit = faces >= 0
        points = self.eye + depth[hit, None] * directions.reshape(-1, 3)[hit]
        return Scan(
            mesh,
            points,
            np.where(mixed, -1, faces)[hit],
            barycentric[hit],
            np.full(len(points), index),
        )

    def rays(self, vertices: Array, step: float, rng: Generator) -> Array:
        """Unit directions (rows, columns, 3) that cover the vertices; where the grid begins is
        random.
        """
        right, up, forward = ((vertices - self.eye) @ self.axes.T).T
        if self.ratio is None:
            window = right / forward, up / forward
        else:
            window = np.arctan2(right, forward), np.arctan2(up, np.hypot(right, forward))
        stretch = np.sqrt(self.ratio or 1.0)
        u, v = np.meshgrid(
            _ticks(window[0], step / stretch, rng), _ticks(window[1], step * stretch, rng)
        )
        if self.ratio is not None:  # the same direction, with 1 forward
            u, v = np.tan(u), np.tan(v) / np.cos(u)
        local = np.stack([u, v, np.ones_like(u)], -1)
        return local / np.linalg.norm(local, axis=-1, keepdims=True) @ self.axes


def _ticks(window: Array, step: float, rng: Generator) -> Array:
    """Places ``step`` apart that cover a window and its margin."""
    margin = MARGIN * np.ptp(window)
    return np.arange(
        window.min() - margin - rng.random() * step, window.max() + margin + step, step
    )


def first_hits(
    mesh: tuple[Array, Array], eye: Array, directions: Array
) -> tuple[Array, Array, Array]:
    """Of each ray (r, 3) the face it meets first or -1 (r,), the depth or infinity (r,),
    barycentric (r, 3).
    """
    vertices, faces = mesh
    tree = extra("igl").AABB()
    tree.init(vertices, faces)
    origins = np.repeat(np.asarray(eye, float)[None], len(directions), 0)
    hit, depth, uv = tree.intersect_ray_first(
        vertices, faces, origins, np.ascontiguousarray(directions)
    )
    uv[hit < 0] = 0.0  # what libigl leaves there is not set
    return hit, np.where(hit >= 0, depth, np.inf), np.column_stack([1 - uv.sum(1), uv])


def around(mesh: Mesh, count: int, rng: Generator, **instrument: Any) -> list[View]:
    """Up to six views of a mesh from the ends of three random perpendicular axes."""
    centre, radius = centre_and_radius(as_mesh(mesh)[0])
    frame = Rotation.random(random_state=rng).as_matrix()
    forward, right = np.concatenate([frame, -frame]), np.tile(np.roll(frame, 1, axis=0), (2, 1))
    axes = np.stack([right, np.cross(forward, right), forward], 1)[:count]
    return [View(centre - DISTANCE * radius * own[2], own, **instrument) for own in axes]


def scanned(mesh: Mesh, n: int, views: Sequence[View], rng: Generator) -> Scan:
    """About ``n`` points of all views together: the step of the rays is the same in all and made to
    fit.
    """
    surface = as_mesh(mesh)
    step = 1 / (DISTANCE * np.sqrt(n))
    for _ in range(ROUNDS):
        parts = [view.scan(surface, step, rng, index) for index, view in enumerate(views)]
        found = sum(len(part.points) for part in parts)
        if not found:
            raise InputError("no ray of the scanner meets the mesh")
        if abs(found / n - 1) <= CLOSE:
            break
        step *= np.sqrt(found / n)
    return joined(parts)


def merged(mesh: Mesh, n: int, rng: Generator, **instrument: Any) -> Scan:
    """Six views together."""
    return scanned(mesh, n, around(mesh, 6, rng, **instrument), rng)


def one_sided(mesh: Mesh, n: int, rng: Generator, **instrument: Any) -> Scan:
    """One view, with the part of the mesh that it sees as the true surface: open, of one piece.

    Faces are divided until they are finer than the scan; those whose centre another face hides are
    left out, then all but the largest piece. Points on what is left out are not in the scan.
    """
    import trimesh

    vertices, faces = as_mesh(mesh)
    while len(faces) < FINER * n:
        vertices, faces = trimesh.remesh.subdivide(vertices, faces)
    surface = as_mesh((vertices, faces))
    (view,) = around(surface, 1, rng, **instrument)
    scan = scanned(surface, n, [view], rng)
    seen = np.flatnonzero(visible(surface, view.eye))
    _, pieces = extra("igl").facet_components(np.ascontiguousarray(faces[seen]))
    kept = seen[pieces == np.bincount(pieces, face_areas(vertices, faces)[seen]).argmax()]
    used, triangles = np.unique(faces[kept], return_inverse=True)
    number = np.full(len(faces) + 1, -1)  # of faces; the last is that of flying pixels
    number[kept] = np.arange(len(kept))
    part = replace(scan, mesh=(vertices[used], triangles.reshape(-1, 3)), faces=number[scan.faces])
    return part.take(part.surface | ~scan.surface)


def visible(mesh: tuple[Array, Array], eye: Array) -> Array:
    """Which faces (f,) have a centre that can be seen from ``eye``."""
    centres = mesh[0][mesh[1]].mean(1)
    rays = centres - eye
    distance = np.linalg.norm(rays, axis=1)
    depth = first_hits(mesh, eye, rays / distance[:, None])[1]
    return np.greater(depth, distance * (1 - 1e-5))  # depths come in single precision


# --- damage ---


def noisy(scan: Scan, level: float, rng: Generator) -> Scan:
    """Independent normal noise, ``level`` radii in each coordinate."""
    radius = centre_and_radius(scan.mesh[0])[1]
    return replace(scan, points=scan.points + level * radius * rng.normal(size=scan.points.shape))


def misregistered(scan: Scan, level: float, rng: Generator) -> Scan:
    """Every view is turned by a normal angle of ``level`` and shifted by ``level`` radii (root mean
    square).
    """
    centre, radius = centre_and_radius(scan.mesh[0])
    axes, angles, shifts = (rng.normal(size=(scan.views.max() + 1, size)) for size in (3, 1, 3))
    turns = Rotation.from_rotvec(
        level * angles * axes / np.linalg.norm(axes, axis=1, keepdims=True)
    )
    turned = turns[scan.views].apply(scan.points - centre) + centre
    return replace(scan, points=turned + level * radius * shifts[scan.views] / np.sqrt(3))


def with_strays(scan: Scan, share: float, rng: Generator) -> Scan:
    """``share`` as many uniform points in the bounding box, a tenth larger than that of the
    mesh.
    """
    low, high = scan.mesh[0].min(0), scan.mesh[0].max(0)
    pad = 0.05 * (high - low)
    return scan.beside(rng.uniform(low - pad, high + pad, size=(int(share * len(scan.points)), 3)))


def with_blobs(scan: Scan, rng: Generator) -> Scan:
    """Two clusters of 40 points off the shape, 1.35 radii from its centre and .03 radii wide."""
    centre, radius = centre_and_radius(scan.mesh[0])
    direction = rng.normal(size=(2, 1, 3))
    points = 1.35 * direction / np.linalg.norm(direction, axis=2, keepdims=True)
    points = points + 0.03 * rng.normal(size=(2, 40, 3))
    return scan.beside(centre + radius * points.reshape(-1, 3))


def with_floor(scan: Scan, rng: Generator) -> Scan:
    """2000 points of a square floor under the lowest vertex, twice as wide as the mesh is large."""
    low, high = scan.mesh[0].min(0), scan.mesh[0].max(0)
    points = (low + high) / 2 + rng.uniform(-1, 1, size=(2000, 3)) * (high - low).max()
    points[:, 1] = low[1]
    return scan.beside(points)
