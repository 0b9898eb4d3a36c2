"""What the live viewer shows, without the viewer: a basis and a choice in, coordinates and colours out.

    eigenfunction j       v_j, signed                       mass          n * mass
    filtered shape        X' = V g(lambda) V^T M X + o (X - V V^T M X), coordinates X (n, 3), gain o of the rest
    from a point y        heat kernel h_t(y, .), or a diffusion, commute-time or biharmonic distance to y

Also the binary glTF that carries a coloured mesh to the browser.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..basis import Basis
from ..errors import InputError
from . import colours
from .scene import Array, as_faces, basis_points, cloud_normals, few, look_at, splat_sizes, to_numpy, vertex_normals

MODES = ("Eigenfunction", "Mass", "Filtered shape", "From a point")
FIELDS = ("heat kernel", "diffusion distance", "commute distance", "biharmonic distance")
FILTERS = ("lowpass", "heat", "band")


@dataclass
class Choice:
    """The state of the controls. `reach` in [0, 1] is a time on a log scale, from the finest to the coarsest mode."""

    mode: str = MODES[0]
    index: int = 2
    filter: str = FILTERS[0]
    low: int = 1
    high: int = 20
    outside: float = 0.0
    field: str = FIELDS[0]
    reach: float = 0.4
    point: int = 0


class Panel:
    """One basis with the points it is drawn on, thinned to `limit` for display; numbers come from all points."""

    def __init__(
        self, basis: Basis, points: Any = None, faces: Any = None, *, name: str = "", limit: int = 20_000
    ) -> None:
        basis = basis.numpy()
        _, xyz = basis_points(basis, points, "the viewer")
        camera = look_at(xyz)
        self.basis, self.name = basis, name or str(basis.info.get("method", "basis"))
        self.xyz = (xyz - camera.centre) / camera.radius @ camera.rotation.T  # upright, facing +z
        self.triangles = as_faces(faces, basis.n)  # of all points
        self.rows, self.faces = few(self.xyz, self.triangles, limit)
        self.vectors = to_numpy(basis.vectors)
        self.signs = np.ones(basis.k)
        self.spacing, self.discs = 0.01, None
        if self.faces is None:
            normals, spacing = cloud_normals(self.xyz[self.rows])
            self.spacing = float(np.median(spacing))
            if normals.any():
                self.discs, self.faces = _discs(normals, splat_sizes(normals, spacing))

    def align(self, other: Panel) -> None:
        """Give shared eigenfunctions the signs they have in `other`, where both know the same points."""
        if other.basis.n == self.basis.n:
            k = min(self.basis.k, other.basis.k)
            products = np.einsum("nk,n,nk->k", self.vectors[:, :k], self.basis.mass, other.vectors[:, :k])
            self.signs[:k] = np.where(products < 0, -1.0, 1.0)

    def time(self, reach: float) -> float:
        """Log-interpolation between the times at which the finest and the coarsest known modes fade."""
        values = to_numpy(self.basis.eigenvalues)
        values = values[values > 1e-6 * values.max()]
        fine, coarse = 0.5 / values.max(), 2.0 / values.min()
        return float(fine * (coarse / fine) ** reach)

    def nearest(self, position: Array) -> int:
        """Row of the point nearest to a position (3,) in display coordinates."""
        return int(np.argmin(((self.xyz - position) ** 2).sum(1)))

    def hit(self, origin: Array, direction: Array) -> int | None:
        """The shown point at which a ray first meets the shape, as a row of the basis; None when it misses."""
        direction = direction / np.linalg.norm(direction)
        shown = self.xyz[self.rows]
        if self.faces is None:
            offset = shown - origin
            along = offset @ direction
            away = np.linalg.norm(offset - along[:, None] * direction, axis=1)
            cost = np.where((away < max(2.5 * self.spacing, 0.03)) & (along > 0), along + 2 * away, np.inf)
            return int(self.rows[np.argmin(cost)]) if np.isfinite(cost).any() else None
        corners = shown if self.discs is None else (shown[:, None] + self.discs).reshape(-1, 3)
        a, b, c = (corners[self.faces[:, i]] for i in range(3))
        # Moeller and Trumbore: origin + t direction = a + u (b - a) + v (c - a), by Cramer's rule.
        ab, ac, start = b - a, c - a, origin - a
        cross = np.cross(direction, ac)
        determinant = (ab * cross).sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            u = (start * cross).sum(1) / determinant
            other = np.cross(start, ab)
            v = (other @ direction) / determinant
            t = (ac * other).sum(1) / determinant
            t = np.where((u >= 0) & (v >= 0) & (u + v <= 1) & (t > 0), t, np.inf)
        face = int(np.argmin(t))
        if not np.isfinite(t[face]):
            return None
        corner = self.faces[face, int(np.argmax([1 - u[face] - v[face], u[face], v[face]]))]
        return int(self.rows[corner if self.discs is None else corner // 6])

    def show(self, choice: Choice) -> tuple[Array, Array, str]:
        """Coordinates (r, 3), colours (r, 3) and a line to read; a cloud of discs has six rows for every point."""
        xyz, rgb, text = self._show(choice)
        if self.discs is None:
            return xyz, rgb, text
        return (xyz[:, None] + self.discs).reshape(-1, 3), np.repeat(rgb, 6, axis=0), text

    def _show(self, choice: Choice) -> tuple[Array, Array, str]:
        rows, basis = self.rows, self.basis
        if choice.mode == "Eigenfunction":
            j = min(choice.index, basis.k) - 1
            values = self.vectors[:, j] * self.signs[j]
            flat = np.ptp(values) < 1e-3 * np.abs(values).max()
            shown = np.zeros(len(rows)) if flat else values[rows] / colours.symmetric_limit(values)
            return self.xyz[rows], colours.diverging(shown, 1.0), f"λ = {_short(basis.eigenvalues[j])}"
        if choice.mode == "Mass":
            share = to_numpy(basis.mass) * basis.n
            low, high = colours.robust_range(share)
            return self.xyz[rows], colours.sequential(share[rows], low, high), f"{low:.2f} to {high:.2f} × 1/n"
        if choice.mode == "Filtered shape":
            return self._filtered(choice)
        if choice.mode == "From a point":
            return self._from_point(choice)
        raise InputError(f"mode must be one of {', '.join(MODES)}, got {choice.mode!r}")

    def _filtered(self, choice: Choice) -> tuple[Array, Array, str]:
        from ..apps import apply_filter

        values = to_numpy(self.basis.eigenvalues)
        at = [float(values[min(max(i, 1), self.basis.k) - 1]) * (1 + 1e-9) for i in (choice.low, choice.high)]
        parameters: dict[str, float] = {
            "lowpass": {"cutoff": at[1]},
            "heat": {"time": self.time(choice.reach)},
            "band": {"low": at[0] * (1 - 1e-8), "high": at[1]},
        }[choice.filter]
        moved = apply_filter(self.basis, self.xyz, choice.filter, outside=choice.outside, **parameters)
        error = float(np.sqrt((to_numpy(self.basis.mass)[:, None] * (moved - self.xyz) ** 2).sum()))
        shade = np.broadcast_to(colours.CLAY, (len(self.rows), 3))
        return moved[self.rows], shade, f"moved by {100 * error:.2f} % of the radius"

    def _from_point(self, choice: Choice) -> tuple[Array, Array, str]:
        from ..apps import distance, heat_kernel

        time = self.time(choice.reach)
        kind = choice.field.split()[0]
        if choice.field == "heat kernel":
            values = np.maximum(heat_kernel(self.basis, choice.point, time), 0.0)
            text = f"point {choice.point}, t = {_short(time)}"
        else:
            values = distance(self.basis, choice.point, kind, time=time if kind == "diffusion" else None)
            values = values.max() - values  # strong is near, as for the kernel
            text = f"point {choice.point}, farthest {_short(values.max())}"
        top = float(np.quantile(values, 0.999)) or 1.0
        return self.xyz[self.rows], colours.diverging(values[self.rows], top), text


def _discs(normals: Array, radius: Array) -> tuple[Array, NDArray[np.int64]]:
    """One hexagon per point, across its normal: corner offsets (r, 6, 3) and faces (4 r, 3)."""
    helper = np.where(np.abs(normals[:, :1]) < 0.7, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
    first = np.cross(normals, helper)
    first /= np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-30)
    second = np.cross(normals, first)
    angle = np.arange(6) * math.pi / 3
    corners = np.cos(angle)[None, :, None] * first[:, None] + np.sin(angle)[None, :, None] * second[:, None]
    fan = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]])
    return corners * radius[:, None, None], (fan[None] + 6 * np.arange(len(normals))[:, None, None]).reshape(-1, 3)


def _short(value: float) -> str:
    return f"{float(value):.4g}"


def glb(vertices: Array, faces: NDArray[np.int64], rgb: Array) -> bytes:
    """A binary glTF of a coloured mesh; glTF colours are linear, so sRGB (r, 3) is converted."""
    # Three quarters: the viewer's lamps add up to more than one, and would saturate the pale colours.
    linear = 0.72 * np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    parts = [
        np.asarray(vertices, "<f4"),
        np.asarray(vertex_normals(np.asarray(vertices, float), faces), "<f4"),
        np.asarray(np.column_stack([linear, np.ones(len(linear))]) * 65535, "<u2"),
        np.asarray(faces.ravel(), "<u4"),
    ]
    views, start = [], 0
    for part, target in zip(parts, (34962, 34962, 34962, 34963), strict=True):
        views.append({"buffer": 0, "byteOffset": start, "byteLength": part.nbytes, "target": target})
        start += part.nbytes
    count, low, high = len(vertices), parts[0].min(0).tolist(), parts[0].max(0).tolist()
    attributes = {"POSITION": 0, "NORMAL": 1, "COLOR_0": 2}
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": attributes, "indices": 3, "material": 0}]}],
        "materials": [{"doubleSided": True, "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 0.75}}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": count, "type": "VEC3", "min": low, "max": high},
            {"bufferView": 1, "componentType": 5126, "count": count, "type": "VEC3"},
            {"bufferView": 2, "componentType": 5123, "count": count, "type": "VEC4", "normalized": True},
            {"bufferView": 3, "componentType": 5125, "count": faces.size, "type": "SCALAR"},
        ],
        "bufferViews": views,
        "buffers": [{"byteLength": start}],
    }
    header = json.dumps(document).encode()
    header += b" " * (-len(header) % 4)
    body = b"".join(part.tobytes() for part in parts)
    body += b"\0" * (-len(body) % 4)
    chunks = struct.pack("<I4s", len(header), b"JSON") + header + struct.pack("<I4s", len(body), b"BIN\0") + body
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def side_by_side(count: int) -> list[Array]:
    """Offsets (3,) that put `count` panels in a row about the origin."""
    step = 2.1
    return [np.array([(i - (count - 1) / 2) * step, 0.0, 0.0]) for i in range(count)]


def viewing_distance(count: int, field_of_view: float = math.radians(40)) -> float:
    """How far the camera stands to see `count` panels."""
    return (1.0 + 0.75 * (count - 1)) / math.tan(field_of_view / 2)
