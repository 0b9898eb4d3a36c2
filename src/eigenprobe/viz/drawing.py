"""Shapes as triangles that matplotlib draws with a colour at every corner, the farthest first.

A surface is drawn by its faces, or by those between neighbours of a sampled one
(`scene.surface_triangles`). Points of other clouds are small cones that face the eye, lit as balls
are. The light is that of the report's page (`assets/scene.js`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import trimesh
from matplotlib.axes import Axes
from matplotlib.collections import TriMesh
from matplotlib.tri import Triangulation
from numpy.typing import ArrayLike

from .colours import Array
from .scene import (
    Camera,
    Index,
    as_faces,
    ball_radius,
    display_coordinates,
    look_at,
    surface_triangles,
)

KEY = np.array([-0.421, 0.608, 0.673])
FILL = np.array([0.704, 0.100, 0.704])
RIM = 8  # corners of a ball


@dataclass(frozen=True)
class Drawing:
    """A shape before its camera, ready for any number of colourings."""

    places: Array  # (m, 2), of corners on the screen
    triangles: Index  # (t, 3), the nearest last
    light: Array  # (m,)
    owner: Index  # (m,), the point that a corner belongs to
    window: Array  # (2, 2), lower left and upper right

    def draw(self, axes: Axes, colours: Array) -> None:
        """With the colours (n, 3) of its points."""
        x, y = self.places.T
        shown = TriMesh(Triangulation(x, y, self.triangles), rasterized=True)
        lit: Any = np.clip(colours[self.owner] * self.light[:, None], 0, 1)
        shown.set_facecolor(lit)
        axes.add_collection(shown)
        (left, low), (right, high) = self.window
        axes.set(xlim=(left, right), ylim=(low, high), aspect="equal")


def drawing(
    points: ArrayLike,
    *,
    faces: ArrayLike | None = None,
    like: Array | None = None,
    azimuth: float | None = None,
    elevation: float = 12.0,
    up: str = "auto",
) -> Drawing:
    """A shape, seen and scaled as display coordinates ``like`` (m, 3) would be; angles in
    degrees.
    """
    xyz = display_coordinates(points)
    camera = look_at(xyz if like is None else like, azimuth=azimuth, elevation=elevation, up=up)
    owner, triangles = np.arange(len(xyz)), as_faces(faces, len(xyz))
    if triangles is None:
        triangles = surface_triangles(xyz)
    if triangles is not None:
        crosses = trimesh.triangles.cross(xyz[triangles])
        normals = trimesh.geometry.mean_vertex_normals(len(xyz), triangles, crosses)
    else:
        owner = np.repeat(owner, 1 + RIM)
        xyz, triangles, normals = _balls(xyz, camera)
    places, depth = camera.project(xyz)
    nearest_last = triangles[np.argsort(depth[triangles].mean(1), kind="stable")]
    light = _light(normals @ camera.rotation.T, depth)
    edge = places if like is None else camera.project(like)[0]
    middle = (edge.min(0) + edge.max(0)) / 2
    reach = 1.01 * np.maximum(np.ptp(edge, axis=0) / 2, 0.01)
    return Drawing(places, nearest_last, light, owner, np.stack([middle - reach, middle + reach]))


def _balls(points: Array, camera: Camera) -> tuple[Array, Index, Array]:
    """Corners, triangles and normals of a cone around each point, its top towards the eye."""
    radius = np.clip(ball_radius(points), 0.006 * camera.radius, 0.2 * camera.radius)
    turns = np.arange(RIM)
    angles = 2 * np.pi * turns / RIM
    rim = np.column_stack([np.cos(angles), np.sin(angles), 0.4 + 0 * angles])
    normals = np.vstack([[0, 0, 1], rim]) @ camera.rotation
    fan = np.column_stack([0 * turns, 1 + turns, 1 + np.roll(turns, -1)])
    corners = points[:, None] + radius * normals
    triangles = (1 + RIM) * np.arange(len(points))[:, None, None] + fan
    return corners.reshape(-1, 3), triangles.reshape(-1, 3), np.tile(normals, (len(points), 1))


def _light(normals: Array, depth: Array) -> Array:
    """Two-sided key and fill light for normals (m, 3) in camera coordinates (x right, y up, z to
    the eye), darker behind and towards the outline.
    """
    unit = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    facing = unit * np.where(unit[:, 2:] < 0, -1.0, 1.0)
    lamps = 0.50 + 0.44 * np.clip(facing @ KEY, 0, 1) + 0.12 * np.clip(facing @ FILL, 0, 1)
    near, frontal = np.clip((depth + 1) / 1.4, 0, 1), np.clip(facing[:, 2] / 0.45, 0, 1)
    return lamps * (0.86 + 0.14 * near) * (0.72 + 0.28 * frontal)
