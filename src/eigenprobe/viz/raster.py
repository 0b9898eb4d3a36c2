"""A small software renderer: one visibility pass for a shape, then any number of colourings of it.

A raster is a sparse matrix B (p, n) with unit row sums: covered pixel p shows the blend  sum_i B_pi f_i  of a function
f (n,), so another colouring costs one product. On a mesh B holds the barycentric coordinates of the nearest triangle.
On a cloud every point is a small disc tilted by its normal, and B blends the discs within their own radius of the
nearest one with Gaussian weights (surface splatting, Zwicker et al. 2001); a point without a normal is an opaque ball.
Light is a key and a fill lamp plus occlusion from the blurred depth buffer (Luft, Colditz and Deussen 2006).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter
from scipy.sparse import csr_matrix

from .scene import EYE_DISTANCE, Array, Camera, cloud_normals, splat_sizes, vertex_normals

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
CHUNK = 2_000_000  # fragments tested at once
SUPERSAMPLE = 2  # pixels drawn, in each direction, for one of the image
INSIDE = -0.3  # a normal that points away by more is of a surface seen from inside; less, of the outline


@dataclass(frozen=True)
class Raster:
    """Visible surface of a shape: `pixel` (p,) flat indices into (height, width), with what each of them shows."""

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
        """RGBA (h, w, 4) from colours of the covered pixels (p, 3) or (3,); `lines` (p,) in [0, 1] darkens contours."""
        lit = np.broadcast_to(colours, (len(self.pixel), 3)) * self.shade[:, None]
        # A little of the lamp's white on the brightest parts: saturated colours keep their shading there.
        lit = lit + 0.10 * np.clip(self.shade - 0.97, 0, 1)[:, None]
        if lines is not None:
            lit = lit * (1 - 0.55 * lines[:, None])
        sums = np.asarray(self.shrink @ np.column_stack([np.clip(lit, 0, 1), np.ones(len(lit))]))
        sums[:, :3] /= np.maximum(sums[:, 3:], 1)
        sums[:, 3] /= SUPERSAMPLE**2
        return sums.reshape(self.height // SUPERSAMPLE, self.width // SUPERSAMPLE, 4)

    @cached_property
    def shrink(self) -> csr_matrix:
        """Sums of the covered pixels within each pixel of the image: (h w, p) of zeros and ones."""
        s, p = SUPERSAMPLE, len(self.pixel)
        y, x = np.divmod(self.pixel, self.width)
        cell = (y // s) * (self.width // s) + x // s
        return csr_matrix((np.ones(p), (cell, np.arange(p))), shape=(self.height * self.width // s**2, p))

    def contours(self, values: Array, step: float) -> Array:
        """Lines (p,) in [0, 1] at the multiples of `step` of per-pixel values (p,), strongest at zero; on surfaces."""
        shape = self.height, self.width
        layers = np.full((2, self.height * self.width), np.nan)
        layers[:, self.pixel] = np.floor(values / step), self.depth
        (levels, depths), out = layers.reshape(2, *shape), np.zeros(shape)
        for a, z, line in ((levels, depths, out), (levels.T, depths.T, out.T)):  # down, then across
            with np.errstate(invalid="ignore"):
                crossing = (a[:-1] != a[1:]) & (np.abs(z[:-1] - z[1:]) < 0.04)
                nodal = crossing & (np.maximum(a[:-1], a[1:]) == 0)
            mark = np.where(nodal, 1.0, np.where(crossing, 0.4, 0.0))
            line[:-1] = np.maximum(line[:-1], mark)
            line[1:] = np.maximum(line[1:], mark * (mark == 1.0))
        return out.ravel()[self.pixel]


class Primitives(NamedTuple):
    """Triangles or discs on the screen: a point p has coordinates (a, b) = A (p - o) and depth z + g . (a, b) on it."""

    origin: Array  # o (m, 2), in pixels
    inverse: Array  # A (m, 2, 2)
    depth: Array  # z (m,)
    slope: Array  # g (m, 2)
    corner: Index  # (m, 2): the first pixel of a square window that holds it
    side: Index  # (m,): pixels of that window


class Fragments(NamedTuple):
    """What may be seen: one row per pixel and primitive."""

    pixel: Index
    depth: Array
    owner: Index
    place: Array  # (p, 2): a, b


def _triangles(screen: Array, depth: Array, faces: Index) -> Primitives:
    """Faces (m, 3), with a, b the barycentric coordinates of the second and third corner."""
    corners, z = screen[faces], depth[faces]  # (m, 3, 2), (m, 3)
    edges = corners[:, 1:] - corners[:, :1]
    low = np.floor(corners.min(1)).astype(np.int64)
    side = (np.ceil(corners.max(1)).astype(np.int64) - low).max(1) + 1
    return Primitives(corners[:, 0], np.linalg.inv(edges.transpose(0, 2, 1)), z[:, 0], z[:, 1:] - z[:, :1], low, side)


def _discs(screen: Array, depth: Array, lean: Array, radius: Array, scale: float) -> Primitives:
    """Discs of a radius (m,) in pixels, with a, b in units of it; `lean` (m, 2) is how their plane rises."""
    reach = np.ceil(radius).astype(np.int64)
    inverse = np.array([[1.0, 0], [0, -1]]) / radius[:, None, None]
    corner = np.floor(screen).astype(np.int64) - reach[:, None]
    return Primitives(screen, inverse, depth, lean * (radius / scale)[:, None], corner, 2 * reach + 1)


def _fragments(shapes: Primitives, inside: Callable[[Index, Array, Array], Mask], height: int, width: int) -> Fragments:
    """The pixels of an image that lie in a primitive: `inside` says it of primitives (g,) and their a, b (g, w)."""
    found = [Fragments(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), np.zeros((0, 2)))]
    for size in np.unique(shapes.side):
        across, down = (axis.ravel() for axis in np.meshgrid(np.arange(size), np.arange(size)))
        members = np.flatnonzero(shapes.side == size)
        for part in np.array_split(members, max(1, len(members) * len(across) // CHUNK)):
            x, y = shapes.corner[part, 0, None] + across, shapes.corner[part, 1, None] + down  # (g, w)
            dx, dy = x + 0.5 - shapes.origin[part, 0, None], y + 0.5 - shapes.origin[part, 1, None]
            a, b = (row[part, 0, None] * dx + row[part, 1, None] * dy for row in shapes.inverse.transpose(1, 0, 2))
            seen = inside(part, a, b) & (x >= 0) & (x < width) & (y >= 0) & (y < height)
            i, place = part[np.nonzero(seen)[0]], np.stack([a[seen], b[seen]], 1)
            depth = shapes.depth[i] + (shapes.slope[i] * place).sum(1)
            found.append(Fragments(y[seen] * width + x[seen], depth, i, place))
    return Fragments(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _front(found: Fragments, count: int) -> tuple[Index, Index]:
    """The covered pixels (p,) and the nearest fragment of each (p,)."""
    order = np.argsort(found.depth, kind="stable")
    top = np.full(count, -1)
    top[found.pixel[order]] = order  # repeated indices keep the last, that is the nearest
    covered = np.flatnonzero(top >= 0)
    return covered, top[covered]


def _in_triangle(_: Index, a: Array, b: Array) -> Mask:
    return (a >= -1e-6) & (b >= -1e-6) & (a + b <= 1 + 1e-6)


def _in_disc(lean: Array, part: Index, a: Array, b: Array) -> Mask:
    return a**2 + b**2 + (lean[part, 0, None] * a + lean[part, 1, None] * b) ** 2 <= 1


def _facing(normal: Array, least: float = INSIDE) -> Array:
    """The sign (n,) that turns normals in camera coordinates to the eye."""
    return np.where(normal[:, 2] < least, -1.0, 1.0)


def lambert(normal: Array) -> Array:
    """Two-sided key and fill light for unit normals (p, 3) in camera coordinates (x right, y up, z to the eye)."""
    facing = normal * _facing(normal, 0.0)[:, None]
    key = np.clip(facing @ (np.array([-0.45, 0.65, 0.72]) / 1.069), 0, 1)
    fill = np.clip(facing @ (np.array([0.7, 0.1, 0.7]) / 0.995), 0, 1)
    return np.asarray(0.50 + 0.44 * key + 0.12 * fill)


def rasterise(
    points: Array, faces: Index | None, camera: Camera, size: int = 480, bounds: Array | None = None
) -> Raster:
    """Visibility of display coordinates (n, 3) with or without faces; `size` is the longer side in pixels.

    `bounds` (2, 2) fixes the window in camera units (rows low, high), so that several shapes share one scale.
    """
    screen, depth = camera.project(points)
    if bounds is None:
        bounds = np.stack([screen.min(0), screen.max(0)])
    splat = np.full(len(points), 0.004)
    if faces is not None:
        normal = vertex_normals(points, faces)
    else:
        normal, spacing = cloud_normals(points)
        splat = np.clip(splat_sizes(normal, spacing) / camera.radius, 0.006, 0.2)
    margin = 1.4 if normal.any() else 2.2  # a disc at the outline is seen edge on, a ball is not
    normal = normal @ camera.rotation.T
    extent = np.maximum(bounds[1] - bounds[0], 0.02) + margin * np.median(splat)
    scale = size * SUPERSAMPLE / extent.max()
    width, height = (int(np.ceil(e * scale / SUPERSAMPLE)) * SUPERSAMPLE for e in extent)
    pixels = (screen - bounds.mean(0)) * [scale, -scale] + [width / 2, height / 2]
    if faces is not None:
        edges = pixels[faces[:, 1:]] - pixels[faces[:, :1]]
        faces = faces[np.abs(np.linalg.det(edges)) > 1e-9]
        found = _fragments(_triangles(pixels, depth, faces), _in_triangle, height, width)
        covered, top = _front(found, height * width)
        weights = np.column_stack([1 - found.place[top].sum(1), found.place[top]])
        entries = weights.ravel(), (np.repeat(np.arange(len(covered)), 3), faces[found.owner[top]].ravel())
        blend = csr_matrix(entries, shape=(len(covered), len(points)))
        shown = blend @ normal
    else:
        radius = splat * scale / (1 - depth / EYE_DISTANCE)
        lean = -normal[:, :2] / (np.maximum(np.abs(normal[:, 2]), 0.25) * _facing(normal))[:, None]
        discs = _discs(pixels, depth, lean, radius, scale)
        found = _fragments(discs, partial(_in_disc, lean), height, width)
        ball = np.asarray(~normal.any(1))
        bulge = np.sqrt(np.maximum(0, 1 - (found.place**2).sum(1))) * (radius / scale)[found.owner]
        found = found._replace(depth=found.depth + np.where(ball[found.owner], bulge, 0.0))
        covered, top = _front(found, height * width)
        blend, shown = _splatted(found, covered, top, normal, splat)
    shown = shown / np.maximum(np.linalg.norm(shown, axis=1, keepdims=True), 1e-30)
    shade = lambert(shown) * _occlusion(covered, found.depth[top], height, width)
    return Raster(height, width, covered, blend, found.depth[top], shade, bool(normal.any()))


def _splatted(found: Fragments, covered: Index, top: Index, normal: Array, splat: Array) -> tuple[csr_matrix, Array]:
    """The blend (p, n) of the discs near the front one of every covered pixel, and the normals (p, 3) seen there."""
    row = np.full(int(found.pixel.max(initial=-1)) + 1, -1)
    row[covered] = np.arange(len(covered))
    row = row[found.pixel]
    front = found.depth[top][row]
    ball = np.asarray(~normal.any(1))
    near = np.where(ball[found.owner], 0.0, 1.2 * splat[found.owner])
    keep = (found.depth >= front - near) & (~ball[found.owner[top]][row] | (found.depth == front))
    weight = np.exp(-4 * (found.place[keep] ** 2).sum(1))
    blend = csr_matrix((weight, (row[keep], found.owner[keep])), shape=(len(covered), len(normal)))
    blend.data /= np.repeat(np.asarray(blend.sum(1)).ravel(), np.diff(blend.indptr))
    shown = blend @ (normal * _facing(normal)[:, None])
    lens = found.place[top]
    round_normal = np.column_stack([lens, np.sqrt(np.maximum(0, 1 - (lens**2).sum(1)))])
    return blend, np.where(shown.any(1, keepdims=True), shown, round_normal)


def _occlusion(pixel: Index, depth: Array, height: int, width: int) -> Array:
    """Darkening of pixels that lie behind their surroundings, from the depth buffer blurred at two scales."""
    layers = np.zeros((2, height * width), np.float32)  # depth, and where there is any
    layers[:, pixel] = depth, np.ones(len(pixel))
    shade = np.ones(len(pixel))
    for blur, strength in ((max(height, width) / 60, 1.3), (max(height, width) / 18, 0.6)):
        blurred = layers.reshape(2, height, width)
        for _ in range(3):  # boxes in turn: nearly a Gaussian, at a cost that does not grow with its width
            blurred = uniform_filter(blurred, (1, 2 * round(blur) + 1, 2 * round(blur) + 1), mode="constant")
        mean, weight = blurred.reshape(2, -1)[:, pixel]
        shade *= 1 - np.clip(strength * (mean / np.maximum(weight, 1e-6) - depth), 0, 0.35)
    return shade
