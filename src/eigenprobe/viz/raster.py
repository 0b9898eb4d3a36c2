"""A small software renderer: one visibility pass for a shape, then any number of colourings of it.

A raster is a sparse matrix B (p, n) with unit row sums: covered pixel p shows the blend
sum_i B_pi f_i of a function f (n,), so another colouring costs one product. B holds the barycentric
coordinates of the nearest sample of a triangle, of a mesh or between neighbours on a sampled
surface (`scene.surface_triangles`); points of other clouds are balls.
Light is a key and a fill lamp plus occlusion from the blurred depth buffer [Luft, Colditz and
Deussen 2006].
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import uniform_filter
from scipy.sparse import csr_matrix

from .colours import Array
from .scene import Camera, Index, ball_radius, surface_triangles

SUPERSAMPLE = 2  # pixels drawn, in each direction, for one of the image
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
        drawn = np.zeros((self.height * self.width, 4))
        drawn[self.pixel, :3] = np.clip(colours * shade[:, None], 0, 1)
        drawn[self.pixel, 3] = 1
        s = SUPERSAMPLE
        image = drawn.reshape(self.height // s, s, self.width // s, s, 4).sum((1, 3))
        image[..., :3] /= np.maximum(image[..., 3:], 1)
        image[..., 3] /= s**2
        return image

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
    points: Array, faces: Index | None, camera: Camera, size: int = 480, window: Array | None = None
) -> Raster:
    """Visibility of display coordinates (n, 3) with or without faces; `size` is the longer side in
    pixels.

    `window` (m, 3) are other points that the picture is as large as, so that several shapes share
    one scale.
    """
    faces = surface_triangles(points) if faces is None else faces
    screen, depth = camera.project(points)
    radius = 0.0
    if faces is None:
        radius = float(np.clip(ball_radius(points) / camera.radius, 0.006, 0.2))
    edge = screen if window is None else camera.project(window)[0]
    low, high = edge.min(0) - radius, edge.max(0) + radius
    extent = np.maximum(high - low, 0.02) * 1.01
    scale = size * SUPERSAMPLE / extent.max()
    width, height = (int(np.ceil(e * scale / SUPERSAMPLE)) * SUPERSAMPLE for e in extent)
    pixels = (screen - (low + high) / 2) * [scale, -scale] + [width / 2, height / 2]
    seen = np.column_stack([pixels, depth])
    if faces is None:
        place, owner, shares = _balls(seen, radius, scale)
    else:
        place, owner, shares = _triangles(seen, faces)
    column, row = place[:, :2].T.astype(np.int64)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    sample, cell, z = np.flatnonzero(inside), (row * width + column)[inside], place[inside, 2]
    nearest = np.full(height * width, -np.inf)
    np.maximum.at(nearest, cell, z)
    front = np.full(height * width, -1)
    front[cell[z == nearest[cell]]] = sample[z == nearest[cell]]
    covered = np.flatnonzero(front >= 0)
    front, nearest = front[covered], nearest[covered]
    if faces is None:
        corners, weights = owner[front, None], np.ones((len(front), 1))
    else:
        b, c = shares[front].T
        corners, weights = faces[owner[front]], np.stack([1 - b - c, b, c], 1)
    starts = np.arange(len(front) + 1) * corners.shape[1]
    entries = weights.ravel(), corners.ravel(), starts
    blend = csr_matrix(entries, (len(front), len(points)))
    if faces is None:
        towards = shares[front]
    else:
        towards = blend @ (_normals(points, faces) @ camera.rotation.T)
    shade = _light(towards) * _occlusion(covered, nearest, height, width)
    return Raster(height, width, covered, blend, shade, faces is not None)


def _triangles(seen: Array, faces: Index) -> tuple[Array, Index, Array]:
    """Samples of triangles, less than a pixel apart: where they are (s, 3), of which triangle, and
    the barycentric coordinates (s, 2) of its second and third corner.
    """
    corners = seen[faces]
    steps = 1 + np.ptp(corners[..., :2], axis=1).max(1).astype(np.int64) * 5 // 4
    found = []
    for count in np.unique(steps):  # of samples along an edge
        shares = np.indices((count + 1, count + 1)).reshape(2, -1).T / count
        shares = shares[shares.sum(1) < 1 + 1e-9]  # (w, 2)
        some = np.flatnonzero(steps == count)
        first, *edges = np.moveaxis(corners[some] - corners[some, :1] * [[0], [1], [1]], 1, 0)
        place = first[:, None] + shares @ np.stack(edges, 1)
        tiled = np.tile(shares, (len(some), 1))
        found.append((place.reshape(-1, 3), np.repeat(some, len(shares)), tiled))
    place, owner, shares = (np.concatenate(column) for column in zip(*found, strict=True))
    return place, owner, shares


def _balls(seen: Array, radius: float, scale: float) -> tuple[Array, Index, Array]:
    """The same of discs that face the eye: where the samples are, of which point, and the normals
    (s, 3) of the front of a ball.
    """
    reach = np.arange(-int(radius * scale) - 1, int(radius * scale) + 2)
    x, y = (each.ravel() / (radius * scale) for each in np.meshgrid(reach, reach))
    up = np.sqrt(np.maximum(1 - x**2 - y**2, 0))
    normals = np.stack([x, -y, up], 1)[x**2 + y**2 <= 1]  # (w, 3)
    place = (seen[:, None] + normals * [radius * scale, -radius * scale, radius]).reshape(-1, 3)
    return place, np.repeat(np.arange(len(seen)), len(normals)), np.tile(normals, (len(seen), 1))


def _normals(points: Array, faces: Index) -> Array:
    """Unit normals (n, 3) at the points, means over their triangles."""
    normals, edges = np.zeros_like(points), np.diff(points[faces], axis=1)
    np.add.at(normals, faces, np.cross(edges[:, 0], edges[:, 1])[:, None])
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)


def _light(normal: Array) -> Array:
    """Two-sided key and fill light for normals (p, 3) in camera coordinates (x right, y up, z to
    the eye).
    """
    unit = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    facing = unit * np.where(unit[:, 2:] < 0, -1.0, 1.0)
    return 0.50 + 0.44 * np.clip(facing @ KEY, 0, 1) + 0.12 * np.clip(facing @ FILL, 0, 1)


def _occlusion(pixel: Index, depth: Array, height: int, width: int) -> Array:
    """Darkening of pixels that lie behind their surroundings, from the blurred depth buffer."""
    layers = np.zeros((2, height * width))  # depth, and where there is any
    layers[:, pixel] = depth, np.ones(len(pixel))
    blurred, box = layers.reshape(2, height, width), 1 + max(height, width) // 15
    for _ in range(2):  # boxes in turn: nearly a Gaussian
        blurred = uniform_filter(blurred, (1, box, box), mode="constant")
    mean, weight = blurred.reshape(2, -1)[:, pixel]
    return 1 - np.clip(1.3 * (mean / np.maximum(weight, 1e-6) - depth), 0, 0.4)
