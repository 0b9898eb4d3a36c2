"""A small software renderer: one visibility pass for a shape, then any number of colourings of it.

A raster is a sparse matrix B (p, n) with unit row sums: covered pixel p shows the blend
sum_i B_pi f_i of a function f (n,), so another colouring costs one product. B holds the barycentric
coordinates of the nearest triangle: of a mesh, between neighbours on a sampled surface
(`scene.surface_triangles`), or of the balls that draw other clouds.
Light is a key and a fill lamp plus occlusion from the blurred depth buffer [Luft, Colditz and
Deussen 2006].
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import uniform_filter
from scipy.sparse import csr_matrix

from .colours import Array
from .scene import Camera, Index, ball_radius, surface_triangles

CHUNK = 2_000_000  # pixels of triangles tested at once
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
    depth: Array  # (p,)
    shade: Array  # (p,)
    smooth: bool

    def interpolate(self, values: Array) -> Array:
        """Per-point values (n,) or (n, c) at the covered pixels."""
        return np.asarray(self.blend @ values)

    def image(self, colours: Array, lines: Array | None = None) -> Array:
        """RGBA (h, w, 4) from colours of the covered pixels (p, 3) or (3,); `lines` (p,) in [0, 1]
        darkens contours.
        """
        lit = np.broadcast_to(colours, (len(self.pixel), 3)) * self.shade[:, None]
        # A little of the lamp's white on the brightest parts: saturated colours keep their shading.
        lit = lit + 0.10 * np.clip(self.shade - 0.97, 0, 1)[:, None]
        if lines is not None:
            lit = lit * (1 - 0.55 * lines[:, None])
        drawn = np.zeros((self.height * self.width, 4))
        drawn[self.pixel] = np.column_stack([np.clip(lit, 0, 1), np.ones(len(lit))])
        s = SUPERSAMPLE
        image = drawn.reshape(self.height // s, s, self.width // s, s, 4).sum((1, 3))
        image[..., :3] /= np.maximum(image[..., 3:], 1)
        image[..., 3] /= s**2
        return image

    def contours(self, values: Array, step: float) -> Array:
        """Lines (p,) in [0, 1] at the multiples of `step` of per-pixel values (p,), strongest at
        zero.
        """
        layers = np.full((2, self.height * self.width), np.nan)
        # A function that is constant at a multiple has no line there, whatever was rounded.
        layers[:, self.pixel] = np.floor(values / step + 1e-6), self.depth
        levels, depths = layers.reshape(2, self.height, self.width)
        out = np.zeros_like(levels)
        for a, z, line in ((levels, depths, out), (levels.T, depths.T, out.T)):  # down, then across
            crossing = (a[:-1] != a[1:]) & (np.abs(z[:-1] - z[1:]) < 0.04)
            nodal = crossing & (np.maximum(a[:-1], a[1:]) == 0)
            line[:-1] = np.maximum(line[:-1], 0.4 * crossing + 0.6 * nodal)
            line[1:] = np.maximum(line[1:], nodal)
        return out.ravel()[self.pixel]


def rasterise(
    points: Array, faces: Index | None, camera: Camera, size: int = 480, bounds: Array | None = None
) -> Raster:
    """Visibility of display coordinates (n, 3) with or without faces; `size` is the longer side in
    pixels.

    `bounds` (2, 2) fixes the window in camera units (rows low, high), so that several shapes share
    one scale.
    """
    vertices, owner = points, np.arange(len(points))  # (v,): the point whose value a vertex shows
    if faces is None:
        faces = surface_triangles(points)
    smooth = faces is not None
    if faces is not None:
        normals, edges = np.zeros_like(points), np.diff(points[faces], axis=1)
        np.add.at(normals, faces, np.cross(edges[:, 0], edges[:, 1])[:, None])
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    else:
        radius = np.clip(ball_radius(points), 0.006 * camera.radius, 0.2 * camera.radius)
        vertices, normals, faces, owner = _balls(points, radius, camera)
    screen, depth = camera.project(vertices)
    if bounds is None:
        bounds = np.stack([screen.min(0), screen.max(0)])
    extent = np.maximum(bounds[1] - bounds[0], 0.02) * 1.01
    scale = size * SUPERSAMPLE / extent.max()
    width, height = (int(np.ceil(e * scale / SUPERSAMPLE)) * SUPERSAMPLE for e in extent)
    pixels = (screen - bounds.mean(0)) * [scale, -scale] + [width / 2, height / 2]
    covered, corners, weights = _visible(pixels, depth, faces, height, width)
    starts = np.arange(0, 3 * len(covered) + 1, 3)
    blend = csr_matrix((weights.ravel(), corners.ravel(), starts), (len(covered), len(vertices)))
    nearest = blend @ depth
    shade = _light(blend @ (normals @ camera.rotation.T))
    shade *= _occlusion(covered, nearest, height, width)
    shown = csr_matrix(
        (weights.ravel(), owner[corners.ravel()], starts), (len(covered), len(points))
    )
    return Raster(height, width, covered, shown, nearest, shade, smooth)


def _balls(points: Array, radius: float, camera: Camera) -> tuple[Array, Array, Index, Index]:
    """Discs that face the eye with the normals of balls: vertices, normals, faces and owners."""
    angle = np.arange(12) * np.pi / 6
    rim = np.stack([np.cos(angle), np.sin(angle), np.full(12, 0.25)], 1) @ camera.rotation
    normals = np.concatenate([camera.rotation[2:], rim])  # (13, 3)
    offsets = normals - [0.25 * camera.rotation[2]]
    n, ring = len(points), np.arange(1, 13)
    vertices = points[:, None] + radius * offsets
    fan = np.stack([np.zeros(12, int), ring, np.roll(ring, -1)], 1)
    faces = (fan + 13 * np.arange(n)[:, None, None]).reshape(-1, 3)
    return vertices.reshape(-1, 3), np.tile(normals, (n, 1)), faces, np.repeat(np.arange(n), 13)


def _visible(
    screen: Array, depth: Array, faces: Index, height: int, width: int
) -> tuple[Index, Index, Array]:
    """The covered pixels (p,), the corners (p, 3) of the nearest face there and its barycentric
    coordinates (p, 3).
    """
    edges = screen[faces[:, 1:]] - screen[faces[:, :1]]
    faces, edges = (each[np.abs(np.linalg.det(edges)) > 1e-9] for each in (faces, edges))
    corners, inverse = screen[faces], np.linalg.inv(edges.transpose(0, 2, 1))
    low = np.floor(corners.min(1)).astype(np.int64)
    side = (np.ceil(corners.max(1)).astype(np.int64) - low).max(1) + 1
    found = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3)))]
    for size in np.unique(side):  # of the square of pixels around a face
        window = np.stack(np.meshgrid(np.arange(size), np.arange(size)), -1).reshape(-1, 2)
        members = np.flatnonzero(side == size)
        for part in np.array_split(members, max(1, len(members) * len(window) // CHUNK)):
            x, y = np.moveaxis(low[part, None] + window, 2, 0)  # (g, w) each
            place = np.stack([x, y], 2) + 0.5 - corners[part, None, 0]
            b, c = np.moveaxis(np.einsum("gij,gwj->gwi", inverse[part], place), 2, 0)
            inside = (b >= -1e-6) & (c >= -1e-6) & (b + c <= 1 + 1e-6)
            inside &= (x >= 0) & (x < width) & (y >= 0) & (y < height)
            face, b, c = part[np.nonzero(inside)[0]], b[inside], c[inside]
            found.append((y[inside] * width + x[inside], face, np.stack([1 - b - c, b, c], 1)))
    pixel, face, weights = (np.concatenate(column) for column in zip(*found, strict=True))
    front = np.full(height * width, -1)
    order = np.argsort((depth[faces[face]] * weights).sum(1), kind="stable")
    front[pixel[order]] = order  # repeated indices keep the last, that is the nearest
    covered = np.flatnonzero(front >= 0)
    return covered, faces[face[front[covered]]], weights[front[covered]]


def _light(normal: Array) -> Array:
    """Two-sided key and fill light for normals (p, 3) in camera coordinates (x right, y up, z to
    the eye).
    """
    unit = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    facing = unit * np.where(unit[:, 2:] < 0, -1.0, 1.0)
    return 0.50 + 0.44 * np.clip(facing @ KEY, 0, 1) + 0.12 * np.clip(facing @ FILL, 0, 1)


def _occlusion(pixel: Index, depth: Array, height: int, width: int) -> Array:
    """Darkening of pixels that lie behind their surroundings, from the depth buffer blurred at two
    scales.
    """
    layers = np.zeros((2, height * width), np.float32)  # depth, and where there is any
    layers[:, pixel] = depth, np.ones(len(pixel))
    shade = np.ones(len(pixel))
    for share, strength in ((60, 1.3), (18, 0.6)):
        blurred, box = layers.reshape(2, height, width), 2 * round(max(height, width) / share) + 1
        for _ in range(3):  # boxes in turn: nearly a Gaussian
            blurred = uniform_filter(blurred, (1, box, box), mode="constant")
        mean, weight = blurred.reshape(2, -1)[:, pixel]
        shade *= 1 - np.clip(strength * (mean / np.maximum(weight, 1e-6) - depth), 0, 0.35)
    return shade
