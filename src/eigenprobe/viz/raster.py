"""A small software renderer: one visibility pass for a shape, then any number of colourings of it.

A raster is a sparse matrix B (p, n) with unit row sums: covered pixel p shows the blend
sum_i B_pi f_i of a function f (n,), so another colouring costs one product. B holds the barycentric
coordinates of the nearest sample of a triangle, of a mesh or between neighbours on a sampled
surface (`scene.surface_triangles`); points of other clouds are balls. Light is that of the report's
page (`assets/scene.js`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from .colours import Array
from .scene import Camera, Index, ball_radius, surface_triangles

KEY = np.array([-0.421, 0.608, 0.673])
FILL = np.array([0.704, 0.100, 0.704])


@dataclass(frozen=True)
class Raster:
    """Visible surface of a shape: `pixel` (p,) flat indices into (height, width), with what each of
    them shows.
    """

    height: int
    width: int
    pixel: Index
    blend: csr_matrix  # (p, n)
    shade: Array  # (p,)
    smooth: bool

    def interpolate(self, values: Array) -> Array:
        """Per-point values (n,) or (n, c) at the covered pixels."""
        return np.asarray(self.blend @ values)

    def image(self, colours: Array, lines: Array | None = None) -> Array:
        """RGBA (h, w, 4) from colours of the covered pixels (p, 3) or (3,); `lines` (p,) in [0, 1]
        darkens contours.
        """
        shade = self.shade if lines is None else self.shade * (1 - 0.55 * lines)
        drawn = np.ones((self.height * self.width, 4)) * [1, 1, 1, 0]
        drawn[self.pixel, :3] = np.clip(colours * shade[:, None], 0, 1)
        drawn[self.pixel, 3] = 1
        return drawn.reshape(self.height, self.width, 4)

    def contours(self, values: Array, step: float) -> Array:
        """Lines (p,) in [0, 1] at the multiples of `step` of per-pixel values (p,), strongest at
        zero; none at an outline, where values jump.
        """
        level = np.full((self.height, self.width), np.nan)
        level.flat[self.pixel] = values / step
        slope, nearest = np.hypot(*np.gradient(level)), np.rint(level)
        crossing = (np.abs(level - nearest) < slope) & (slope < 0.2)
        return (crossing * np.where(nearest == 0, 1, 0.35)).ravel()[self.pixel]


def rasterise(
    points: Array, faces: Index | None, camera: Camera, size: int, window: Array
) -> Raster:
    """Visibility of display coordinates (n, 3) with or without faces; `size` is the longer side in
    pixels.

    The picture is as large as the points `window` (m, 3), so that several shapes share one scale.
    """
    faces = surface_triangles(points) if faces is None else faces
    radius = 0.0
    if faces is None:
        radius = float(np.clip(ball_radius(points) / camera.radius, 0.006, 0.2))
    screen, depth = camera.project(points)
    edge, _ = camera.project(window)
    low, high = edge.min(0) - radius, edge.max(0) + radius
    extent = np.maximum(high - low, 0.02) * 1.01
    scale = size / extent.max()
    width, height = np.ceil(extent * scale).astype(int).tolist()
    flat = (screen - (low + high) / 2) * [scale, -scale] + [width / 2, height / 2]
    seen = np.column_stack([flat, depth])
    if faces is None:
        place, owner, towards = _balls(seen, radius, scale)
        shares, faces = np.ones((len(owner), 1)), np.arange(len(points))[:, None]
    else:
        place, owner, shares = _triangles(seen, faces)
        normals = _normals(points, faces) @ camera.rotation.T
    order = np.argsort(place[:, 2])  # the nearest is written last
    column, row = place[order, :2].T.astype(np.int64)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    front = np.full(height * width, -1)
    front[(row * width + column)[inside]] = order[inside]
    pixel = np.flatnonzero(front >= 0)
    front = front[pixel]
    corners = faces[owner[front]]
    entries = shares[front].ravel(), corners.ravel(), np.arange(0, corners.size + 1, faces.shape[1])
    blend = csr_matrix(entries, (len(front), len(points)))
    towards = towards[front] if radius else blend @ normals
    return Raster(height, width, pixel, blend, _light(towards, place[front, 2]), not radius)


def _triangles(seen: Array, faces: Index) -> tuple[Array, Index, Array]:
    """Samples of triangles, less than a pixel apart: where they are (s, 3), of which triangle, and
    their barycentric coordinates (s, 3).
    """
    corners = seen[faces]
    steps = 1 + np.ptp(corners[..., :2], axis=1).max(1).astype(np.int64) * 5 // 4
    found = []
    for count in np.unique(steps):  # of samples along an edge
        b, c = np.indices((count + 1, count + 1)).reshape(2, -1) / count
        shares = np.stack([1 - b - c, b, c], 1)[b + c < 1 + 1e-9]  # (w, 3)
        some = np.flatnonzero(steps == count)
        place = (shares @ corners[some]).reshape(-1, 3)
        found.append((place, np.repeat(some, len(shares)), np.tile(shares, (len(some), 1))))
    place, owner, shares = (np.concatenate(column) for column in zip(*found, strict=True))
    return place, owner, shares


def _balls(seen: Array, radius: float, scale: float) -> tuple[Array, Index, Array]:
    """The same of discs that face the eye: where the samples are, of which point, and the normals
    (s, 3) of the front of a ball.
    """
    reach = np.arange(-int(radius * scale) - 1, int(radius * scale) + 2)
    x, y = np.stack(np.meshgrid(reach, reach)).reshape(2, -1) / (radius * scale)
    up = np.sqrt(np.maximum(1 - x**2 - y**2, 0))
    normals = np.stack([x, -y, up], 1)[x**2 + y**2 <= 1]  # (w, 3)
    place = (seen[:, None] + normals * [radius * scale, -radius * scale, radius]).reshape(-1, 3)
    return place, np.repeat(np.arange(len(seen)), len(normals)), np.tile(normals, (len(seen), 1))


def _normals(points: Array, faces: Index) -> Array:
    """Unit normals (n, 3) at the points, means over their triangles."""
    normals, edges = np.zeros_like(points), np.diff(points[faces], axis=1)
    np.add.at(normals, faces, np.cross(edges[:, 0], edges[:, 1])[:, None])
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)


def _light(normal: Array, depth: Array) -> Array:
    """Two-sided key and fill light for normals (p, 3) in camera coordinates (x right, y up, z to
    the eye), darker behind and towards the outline.
    """
    unit = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    facing = unit * np.where(unit[:, 2:] < 0, -1.0, 1.0)
    lamps = 0.50 + 0.44 * np.clip(facing @ KEY, 0, 1) + 0.12 * np.clip(facing @ FILL, 0, 1)
    near, frontal = np.clip((depth + 1) / 1.4, 0, 1), np.clip(facing[:, 2] / 0.45, 0, 1)
    return lamps * (0.86 + 0.14 * near) * (0.72 + 0.28 * frontal)
