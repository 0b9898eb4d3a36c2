"""A small software renderer: one visibility pass for a shape, then any number of colourings of it.

A raster is a sparse matrix B (p, n) with unit row sums: covered pixel p shows the blend  sum_i B_pi f_i  of a function
f (n,), so another colouring costs one product. On a mesh B holds the barycentric coordinates of the nearest triangle.
On a cloud every point is a small disc tilted by its normal, and B blends the discs within their own radius of the
nearest one with Gaussian weights (surface splatting, Zwicker et al. 2001); a point without a normal is an opaque ball.
Light is a key and a fill lamp plus occlusion from the blurred depth buffer (Luft, Colditz and Deussen 2006).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from .scene import EYE_DISTANCE, Array, Camera, cloud_normals, splat_sizes, vertex_normals

Index = NDArray[np.int64]
CHUNK = 2_000_000  # fragments tested at once


@dataclass(frozen=True)
class Raster:
    """Visible surface of a shape: `pixel` (p,) flat indices into (height, width), with what each of them shows."""

    height: int
    width: int
    supersample: int
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
        # A touch of the lamp's white on the brightest parts keeps saturated colours from looking like cut paper.
        lit = lit + 0.10 * np.clip(self.shade - 0.97, 0, 1)[:, None]
        if lines is not None:
            lit = lit * (1 - 0.55 * lines[:, None])
        flat = np.zeros((self.height * self.width, 4))
        flat[self.pixel, :3] = np.clip(lit, 0, 1)
        flat[self.pixel, 3] = 1.0
        s = self.supersample
        full = flat.reshape(self.height // s, s, self.width // s, s, 4)
        alpha = full[..., 3].mean((1, 3))
        rgb = full[..., :3].sum((1, 3)) / np.maximum(full[..., 3:].sum((1, 3)), 1)
        return np.dstack([rgb, alpha])

    def contours(self, values: Array, step: float) -> Array:
        """Lines (p,) in [0, 1] at the multiples of `step` of per-pixel values (p,), strongest at zero; meshes only."""
        level = np.full(self.height * self.width, np.nan)
        level[self.pixel] = np.floor(values / step)
        depth = np.full(self.height * self.width, np.nan)
        depth[self.pixel] = self.depth
        levels, depths = level.reshape(self.height, self.width), depth.reshape(self.height, self.width)
        out = np.zeros((self.height, self.width))
        for axis in (0, 1):
            a, b = (levels[:-1], levels[1:]) if axis == 0 else (levels[:, :-1], levels[:, 1:])
            da, db = (depths[:-1], depths[1:]) if axis == 0 else (depths[:, :-1], depths[:, 1:])
            with np.errstate(invalid="ignore"):
                crossing = (a != b) & (np.abs(da - db) < 0.04)
                nodal = crossing & (np.maximum(a, b) == 0)
            mark = np.where(nodal, 1.0, np.where(crossing, 0.4, 0.0))
            if axis == 0:
                out[:-1] = np.maximum(out[:-1], mark)
                out[1:] = np.maximum(out[1:], mark * (mark == 1.0))
            else:
                out[:, :-1] = np.maximum(out[:, :-1], mark)
                out[:, 1:] = np.maximum(out[:, 1:], mark * (mark == 1.0))
        return out.ravel()[self.pixel]


def _triangle_fragments(
    screen: Array, depth: Array, faces: Index, height: int, width: int
) -> tuple[Index, Array, Index, Array]:
    """All (pixel, depth, face, barycentric) covered by triangles; triangles of one bounding-box size go together."""
    corners = screen[faces]  # (f, 3, 2)
    low = np.floor(corners.min(1)).astype(np.int64)
    size = np.ceil(corners.max(1)).astype(np.int64) - low + 1
    edge1, edge2 = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = edge1[:, 0] * edge2[:, 1] - edge1[:, 1] * edge2[:, 0]
    seen = (np.abs(area) > 1e-9) & (low < [width, height]).all(1) & (low + size > 0).all(1)
    bucket = np.ceil(np.log2(np.maximum(size.max(1), 2))).astype(int)
    pixels, depths, owners, weights = [], [], [], []
    for b in np.unique(bucket[seen]):
        side = 1 << b
        dx, dy = (g.ravel() for g in np.meshgrid(np.arange(side), np.arange(side)))
        members = np.flatnonzero(seen & (bucket == b))
        for part in np.array_split(members, max(1, len(members) * side * side // CHUNK)):
            x = low[part, 0, None] + dx
            y = low[part, 1, None] + dy
            px = x + 0.5 - corners[part, 0, 0, None]
            py = y + 0.5 - corners[part, 0, 1, None]
            w1 = (px * edge2[part, 1, None] - py * edge2[part, 0, None]) / area[part, None]
            w2 = (py * edge1[part, 0, None] - px * edge1[part, 1, None]) / area[part, None]
            inside = (w1 >= -1e-6) & (w2 >= -1e-6) & (w1 + w2 <= 1 + 1e-6)
            inside &= (x >= 0) & (x < width) & (y >= 0) & (y < height)
            row, _ = np.nonzero(inside)
            weight = np.stack([1 - w1[inside] - w2[inside], w1[inside], w2[inside]], 1)
            pixels.append(y[inside] * width + x[inside])
            owners.append(part[row])
            weights.append(weight)
            depths.append((depth[faces[part[row]]] * weight).sum(1))
    if not pixels:
        return np.zeros(0, int), np.zeros(0), np.zeros(0, int), np.zeros((0, 3))
    return np.concatenate(pixels), np.concatenate(depths), np.concatenate(owners), np.concatenate(weights)


def _disc_fragments(
    screen: Array, depth: Array, normal: Array, radius: Array, scale: float, height: int, width: int
) -> tuple[Index, Array, Index, Array]:
    """All (pixel, depth, point, offset in the disc) covered by one disc per point; discs of one size go together."""
    base = np.floor(screen).astype(np.int64)
    reach = np.ceil(radius).astype(int)
    flat = np.asarray(normal.any(1))
    facing = np.where(normal[:, 2] < 0, -1.0, 1.0)
    pixels, depths, owners, offsets = [], [], [], []
    for half in np.unique(reach):
        dx, dy = (g.ravel() for g in np.meshgrid(np.arange(-half, half + 1), np.arange(-half, half + 1)))
        members = np.flatnonzero(reach == half)
        for part in np.array_split(members, max(1, len(members) * len(dx) // CHUNK)):
            x, y = base[part, 0, None] + dx, base[part, 1, None] + dy
            ox = (x + 0.5 - screen[part, 0, None]) / radius[part, None]
            oy = (screen[part, 1, None] - y - 0.5) / radius[part, None]
            lean = -normal[part, :2] * (facing[part] / np.maximum(np.abs(normal[part, 2]), 0.25))[:, None]
            rise = lean[:, 0, None] * ox + lean[:, 1, None] * oy  # of the disc's plane above its centre
            square = ox**2 + oy**2 + rise**2
            inside = (square <= 1) & (x >= 0) & (x < width) & (y >= 0) & (y < height)
            i = part[np.nonzero(inside)[0]]
            bulge = np.where(flat[i], 0.0, np.sqrt(np.maximum(0, 1 - square[inside])))
            pixels.append(y[inside] * width + x[inside])
            depths.append(depth[i] + (bulge + rise[inside]) * radius[i] / scale)
            owners.append(i)
            offsets.append(np.stack([ox[inside], oy[inside]], 1))
    return np.concatenate(pixels), np.concatenate(depths), np.concatenate(owners), np.concatenate(offsets)


def _front(pixel: Index, depth: Array, count: int) -> Index:
    """For every pixel the index of its nearest fragment, -1 where there is none."""
    order = np.argsort(depth, kind="stable")
    top = np.full(count, -1)
    top[pixel[order]] = order  # repeated indices keep the last, that is the nearest
    return top


def lambert(normal: Array) -> Array:
    """Two-sided key and fill light for unit normals (p, 3) in camera coordinates (x right, y up, z to the eye)."""
    facing = normal * np.where(normal[:, 2:] < 0, -1.0, 1.0)
    key = np.clip(facing @ (np.array([-0.45, 0.65, 0.72]) / 1.069), 0, 1)
    fill = np.clip(facing @ (np.array([0.7, 0.1, 0.7]) / 0.995), 0, 1)
    return np.asarray(0.50 + 0.44 * key + 0.12 * fill)


def rasterise(
    points: Array,
    faces: Index | None,
    camera: Camera,
    size: int = 480,
    *,
    supersample: int = 2,
    bounds: Array | None = None,
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
    margin = 0.8 if normal.any() else 2.2  # a disc at the outline is seen edge on, a ball is not
    normal = normal @ camera.rotation.T
    extent = np.maximum(bounds[1] - bounds[0], 0.02) + margin * np.median(splat)
    scale = size * supersample / extent.max()
    width, height = (int(np.ceil(e * scale / supersample)) * supersample for e in extent)
    pixels = (screen - bounds.mean(0)) * [scale, -scale] + [width / 2, height / 2]
    if faces is not None:
        pixel, z, owner, weights = _triangle_fragments(pixels, depth, faces, height, width)
        top = _front(pixel, z, height * width)
        covered = np.flatnonzero(top >= 0)
        nearest = z[top[covered]]
        rows = np.repeat(np.arange(len(covered)), 3)
        blend = csr_matrix(
            (weights[top[covered]].ravel(), (rows, faces[owner[top[covered]]].ravel())),
            shape=(len(covered), len(points)),
        )
        shown = blend @ normal
    else:
        radius = splat * scale / (1 - depth / EYE_DISTANCE)
        pixel, z, owner, offset = _disc_fragments(pixels, depth, normal, radius, scale, height, width)
        top = _front(pixel, z, height * width)
        covered = np.flatnonzero(top >= 0)
        nearest = z[top[covered]]
        row = np.full(height * width, -1)
        row[covered] = np.arange(len(covered))
        row = row[pixel]
        ball = np.asarray(~normal.any(1))
        near = np.where(ball[owner], 0.0, 1.2 * splat[owner])
        keep = (z >= nearest[row] - near) & (~ball[owner[top[covered]]][row] | (z == nearest[row]))
        weight = np.exp(-4 * (offset[keep] ** 2).sum(1))
        blend = csr_matrix((weight, (row[keep], owner[keep])), shape=(len(covered), len(points)))
        blend.data /= np.repeat(np.asarray(blend.sum(1)).ravel(), np.diff(blend.indptr))
        shown = blend @ (normal * np.where(normal[:, 2:] < 0, -1.0, 1.0))
        lens = offset[top[covered]]
        round_normal = np.column_stack([lens, np.sqrt(np.maximum(0, 1 - (lens**2).sum(1)))])
        shown = np.where(shown.any(1, keepdims=True), shown, round_normal)
    shown = shown / np.maximum(np.linalg.norm(shown, axis=1, keepdims=True), 1e-30)
    shade = lambert(shown) * _occlusion(covered, nearest, height, width)
    return Raster(height, width, supersample, covered, blend, nearest, shade, faces is not None)


def _occlusion(pixel: Index, depth: Array, height: int, width: int) -> Array:
    """Darkening of pixels that lie behind their surroundings, from the depth buffer blurred at two scales."""
    from scipy.ndimage import gaussian_filter

    full, mask = np.zeros(height * width), np.zeros(height * width)
    full[pixel], mask[pixel] = depth, 1.0
    shade = np.ones(len(pixel))
    for blur, strength in ((max(height, width) / 60, 1.3), (max(height, width) / 18, 0.6)):
        weight = gaussian_filter(mask.reshape(height, width), blur)
        mean = gaussian_filter(full.reshape(height, width), blur) / np.maximum(weight, 1e-6)
        shade *= 1 - np.clip(strength * (mean.ravel()[pixel] - depth), 0, 0.35)
    return shade
