"""A small software renderer: one visibility pass for a shape, then any number of colourings of it.

A raster stores, for every covered pixel p, the three points it shows and their weights (a triangle's barycentric
coordinates; one point of weight 1 on a cloud), so a function f (n,) becomes the image  sum_j w_pj f(i_pj)  without
touching the geometry again. Fragments are sorted by depth and written far to near, which is an exact z-buffer.
Light is a key and a fill lamp plus occlusion from the blurred depth buffer (Luft, Colditz and Deussen 2006).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .scene import Array, Camera, cloud_normals, vertex_normals

Index = NDArray[np.int64]
CHUNK = 2_000_000  # fragments tested at once


@dataclass(frozen=True)
class Raster:
    """Visible surface of a shape: `pixel` (p,) flat indices into (height, width), with what each of them shows."""

    height: int
    width: int
    supersample: int
    pixel: Index
    ids: Index  # (p, 3)
    weights: Array  # (p, 3)
    depth: Array  # (p,)
    shade: Array  # (p,)
    smooth: bool

    def interpolate(self, values: Array) -> Array:
        """Per-point values (n,) or (n, c) at the covered pixels."""
        weights = self.weights if values.ndim == 1 else self.weights[..., None]
        return np.asarray((values[self.ids] * weights).sum(1))

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
        level, depth = level.reshape(self.height, self.width), depth.reshape(self.height, self.width)
        out = np.zeros_like(level)
        for axis in (0, 1):
            a, b = (level[:-1], level[1:]) if axis == 0 else (level[:, :-1], level[:, 1:])
            da, db = (depth[:-1], depth[1:]) if axis == 0 else (depth[:, :-1], depth[:, 1:])
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


def _triangle_fragments(screen: Array, depth: Array, faces: Index, height: int, width: int) -> tuple[Index, Array, Index, Array]:
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
    screen: Array, depth: Array, normal: Array, radius: Array, unit: float, height: int, width: int
) -> tuple[Index, Array, Index, Array]:
    """All (pixel, depth, point, offset in the disc) covered by one small disc per point, tilted by its normal."""
    side = int(np.ceil(radius.max())) * 2 + 1
    half = side // 2
    dx, dy = (g.ravel() for g in np.meshgrid(np.arange(side) - half, np.arange(side) - half))
    base = np.floor(screen).astype(np.int64)
    pixels, depths, owners, offsets = [], [], [], []
    for part in np.array_split(np.arange(len(screen)), max(1, len(screen) * side * side // CHUNK)):
        x, y = base[part, 0, None] + dx, base[part, 1, None] + dy
        ox = (x + 0.5 - screen[part, 0, None]) / radius[part, None]
        oy = (y + 0.5 - screen[part, 1, None]) / radius[part, None]
        inside = (ox**2 + oy**2 <= 1) & (x >= 0) & (x < width) & (y >= 0) & (y < height)
        row, _ = np.nonzero(inside)
        i, ox, oy = part[row], ox[inside], oy[inside]
        nz = np.maximum(np.abs(normal[i, 2]), 0.35)
        tilt = -(normal[i, 0] * ox - normal[i, 1] * oy) * np.sign(normal[i, 2]) / nz
        bulge = np.sqrt(np.maximum(0, 1 - ox**2 - oy**2))  # cuts overlapping discs half-way, as a Voronoi cell would
        pixels.append(y[inside] * width + x[inside])
        depths.append(depth[i] + (tilt + 0.7 * bulge) * radius[i] * unit)
        owners.append(i)
        offsets.append(np.stack([ox, oy], 1))
    return np.concatenate(pixels), np.concatenate(depths), np.concatenate(owners), np.concatenate(offsets)


def _lambert(normal: Array) -> Array:
    """Two-sided key and fill light for unit normals (p, 3) in camera coordinates (x right, y up, z to the eye)."""
    facing = normal * np.where(normal[:, 2:] < 0, -1.0, 1.0)
    key = np.clip(facing @ (np.array([-0.45, 0.65, 0.72]) / 1.069), 0, 1)
    fill = np.clip(facing @ (np.array([0.7, 0.1, 0.7]) / 0.995), 0, 1)
    return np.asarray(0.50 + 0.44 * key + 0.12 * fill)


def rasterise(
    points: Array, faces: Index | None, camera: Camera, size: int = 480, *, supersample: int = 2, bounds: Array | None = None
) -> Raster:
    """Visibility of display coordinates (n, 3) with or without faces; `size` is the longer side in pixels.

    `bounds` (2, 2) fixes the window in camera units (rows low, high), so that several shapes share one scale.
    """
    screen, depth = camera.project(points)
    if bounds is None:
        bounds = np.stack([screen.min(0), screen.max(0)])
    normal, spacing = (vertex_normals(points, faces), 0.0) if faces is not None else cloud_normals(points)
    normal = normal @ camera.rotation.T
    extent = np.maximum(bounds[1] - bounds[0], 0.02)
    # A splat of 0.9 spacings closes the surface; never smaller than a readable dot, never a blob on tiny clouds.
    splat = np.clip(0.9 * spacing / camera.radius, 0.004, 0.06) if faces is None else 0.01
    extent = extent + 2.5 * splat
    scale = size * supersample / extent.max()
    width, height = (int(np.ceil(e * scale / supersample)) * supersample for e in extent)
    middle = bounds.mean(0)
    pixels = (screen - middle) * [scale, -scale] + [width / 2, height / 2]
    if faces is not None:
        pixel, z, owner, weights = _triangle_fragments(pixels, depth, faces, height, width)
        ids = faces[owner]
    else:
        radius = splat * scale / (1 - depth / 5.0)
        pixel, z, owner, offset = _disc_fragments(pixels, depth, normal, radius, 1 / scale, height, width)
        ids, weights = np.repeat(owner[:, None], 3, 1), np.broadcast_to([1.0, 0.0, 0.0], (len(owner), 3))
    order = np.argsort(z, kind="stable")
    top = np.full(height * width, -1)
    top[pixel[order]] = order  # repeated indices keep the last, that is the nearest
    covered = np.flatnonzero(top >= 0)
    chosen = top[covered]
    ids, weights, z = ids[chosen], weights[chosen], z[chosen]
    shown = (normal[ids] * weights[..., None]).sum(1)
    if faces is None:
        ball = np.column_stack([offset[chosen, 0], -offset[chosen, 1], np.sqrt(np.maximum(0, 1 - (offset[chosen] ** 2).sum(1)))])
        has_normal = np.linalg.norm(shown, axis=1, keepdims=True) > 0.5
        shown = shown * np.where(shown[:, 2:] < 0, -1, 1)
        shown = np.where(has_normal, 0.93 * shown + 0.18 * ball, ball)
    shown = shown / np.maximum(np.linalg.norm(shown, axis=1, keepdims=True), 1e-30)
    shade = _lambert(shown) * _occlusion(covered, z, height, width)
    return Raster(height, width, supersample, covered, ids, np.asarray(weights), z, shade, faces is not None)


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
