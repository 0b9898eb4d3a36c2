"""From points (n, d) to something a camera can look at.

display coordinates (n, 3):  d = 3 as given; d < 3 padded with zeros; d > 3 the first three principal components
camera:  y = R (x - c) / r with rows of R = (right, up, towards the eye), then the mild perspective y / (1 - y_z / D)
normals (n, 3):  area-weighted face normals on a mesh; least principal direction of the neighbours on a cloud
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from ..basis import Basis
from ..errors import InputError
from ..readers.mesh import check_faces, to_numpy
from .colours import Array

EYE_DISTANCE = 5.0  # in units of the shape's radius: close enough for depth, far enough not to distort


def as_faces(faces: ArrayLike | None, n: int) -> NDArray[np.int64] | None:
    """Faces as (f, 3) int64, checked against the number of points; None stays None, and no faces become None."""
    array = to_numpy([] if faces is None else faces, np.int64)
    return check_faces(array, n, "points") if array.size else None


def display_coordinates(points: ArrayLike) -> Array:
    """Points (n, d) as (n, 3) for drawing."""
    x = to_numpy(points)
    if x.ndim != 2 or len(x) == 0:
        raise InputError(f"points must have shape (n, d) with n > 0, got {x.shape}")
    if x.shape[1] < 3:
        return np.pad(x, ((0, 0), (0, 3 - x.shape[1])))
    if x.shape[1] == 3:
        return x
    centred = x - x.mean(0)
    if x.shape[1] <= 2048:
        axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :3]
    else:
        axes = np.linalg.svd(centred, full_matrices=False)[2][:3].T
    return centred @ axes


@dataclass(frozen=True)
class Camera:
    """The eye: `rotation` rows are right, up and towards it; `centre` and `radius` normalise the shape."""

    rotation: Array
    centre: Array
    radius: float

    def project(self, points: Array) -> tuple[Array, Array]:
        """Screen position (n, 2), y up, and depth (n,), larger is nearer, both in units of the radius."""
        y = (points - self.centre) / self.radius @ self.rotation.T
        return y[:, :2] / (1 - y[:, 2:] / EYE_DISTANCE), y[:, 2]


def look_at(points: Array, *, azimuth: float | None = None, elevation: float = 12.0, up: str = "auto") -> Camera:
    """A camera around display coordinates (n, 3); angles in degrees.

    Without an azimuth the shape is turned about `up` to its broadest silhouette and 25 degrees beyond, which shows both
    its outline and its depth. A flat shape is seen face on.
    """
    if up not in ("x", "y", "z", "auto"):
        raise InputError(f"up must be 'x', 'y', 'z' or 'auto', got {up!r}")
    low, high = points.min(0), points.max(0)
    centre = (low + high) / 2
    radius = float(np.linalg.norm(points - centre, axis=1).max()) or 1.0
    flat = (high - low) <= 1e-9 * radius
    if flat[2] and not flat[:2].all():
        return Camera(np.eye(3), centre, radius)
    axis = "xyz".index(standing_axis(points) if up == "auto" else up)
    # Rows (right, up, towards the eye) of the view at azimuth 0, a right-handed frame for every choice of `up`.
    frame = np.roll(np.eye(3), axis - 1, axis=1)
    if azimuth is None:
        horizontal = (points - points.mean(0)) @ frame[[0, 2]].T
        spread, axes = np.linalg.eigh(horizontal.T @ horizontal)
        broad = axes[:, 1] * (np.sign(axes[0, 1]) or 1.0)
        round_plan = spread[0] > 0.7 * spread[1]
        azimuth = (0.0 if round_plan else -float(np.degrees(np.arctan2(broad[1], broad[0])))) + 25.0
    a, e = np.radians(azimuth), np.radians(elevation)
    turn = np.array([[np.cos(a), 0, -np.sin(a)], [0, 1, 0], [np.sin(a), 0, np.cos(a)]])
    tilt = np.array([[1, 0, 0], [0, np.cos(e), -np.sin(e)], [0, np.sin(e), np.cos(e)]])
    return Camera(tilt @ turn @ frame, centre, radius)


def standing_axis(points: Array) -> str:
    """'z' when the shape clearly stands on its lowest z (feet or a flat base, and no match above), else 'y'."""
    reach = 0.02 * np.ptp(points, axis=0).max()
    base = ((points - points.min(0)) < reach).mean(0)
    top = ((points.max(0) - points) < reach).mean(0)
    return "z" if base[2] > 1.3 * base[1] and base[2] > 4 * top[2] else "y"


def basis_points(basis: Basis, points: ArrayLike | None, what: str) -> tuple[ArrayLike, Array]:
    """The points of a basis, or those given for it, and their display coordinates (n, 3)."""
    points = basis.points if points is None else points
    if points is None:
        raise InputError(f"{what} needs points: the basis carries none and none were given")
    xyz = display_coordinates(points)
    if len(xyz) != basis.n:
        raise InputError(f"expected {basis.n} points for the basis, got {len(xyz)}")
    return points, xyz


def display_rows(
    xyz: Array, faces: NDArray[np.int64] | None, limit: int
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """At most `limit` rows to draw, and the faces between them: a vertex left out is merged with the nearest of them.

    The rows are some of the shape's own, so any function on it can still be shown exactly.
    """
    rows = thin(len(xyz), limit)
    if faces is None or len(rows) == len(xyz):
        return rows, faces
    merged = cKDTree(xyz[rows]).query(xyz)[1][faces]
    a, b, c = merged.T
    return rows, np.unique(merged[(a != b) & (b != c) & (a != c)], axis=0)


def vertex_normals(points: Array, faces: NDArray[np.int64]) -> Array:
    """Area-weighted unit normals (n, 3)."""
    a, b, c = (points[faces[:, i]] for i in range(3))
    normal = np.cross(b - a, c - a)
    total = np.zeros_like(points)
    np.add.at(total, faces, normal[:, None])
    return total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-30)


def cloud_normals(points: Array) -> tuple[Array, Array]:
    """Outward unit normals (n, 3) of a cloud and its local spacing (n,), the distance to the sixth neighbour halved.

    Where most neighbourhoods are flat the cloud is a surface and every point has a normal. Otherwise it is a volume or
    a curve: all normals are zero and its points are drawn as balls. So are those of a cloud in the plane, where a
    closed sheet would hide how it was sampled.
    """
    k = min(12, len(points) - 1)
    if k < 3:
        return np.zeros_like(points), np.full(len(points), 0.05 * float(np.ptp(points, axis=0).max() or 1.0))
    distance, index = cKDTree(points).query(points, k + 1)
    offsets = points[index] - points[index].mean(1, keepdims=True)
    spread, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", offsets, offsets))
    flat = (spread[:, 0] < 0.35 * spread[:, 1]) & (spread[:, 1] > 1e-3 * spread[:, 2])
    surface = bool(flat.mean() > 0.6 and np.ptp(points, axis=0).min() > 0)
    sixth = distance[:, min(6, k)]
    normals = _outward(points, axes[:, :, 0], index) if surface else np.zeros_like(points)
    return normals, 0.5 * np.maximum(sixth, 0.5 * np.median(sixth))


def _outward(points: Array, normals: Array, index: NDArray[np.int64]) -> Array:
    """Unit normals (n, 3) signed alike along a tree of the flattest edges (Hoppe et al. 1992), outwards at the top."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

    n, k = index.shape
    i, j = np.repeat(np.arange(n), k), index.ravel()
    weight = 1.001 - np.abs((normals[i] * normals[j]).sum(1))
    tree = minimum_spanning_tree(coo_matrix((weight, (i, j)), shape=(n, n)).tocsr())
    normals = normals.copy()
    _, part = connected_components(tree, directed=False)
    order = np.argsort(-points[:, 2], kind="stable")
    for top in order[np.unique(part[order], return_index=True)[1]]:  # the highest point of each component
        normals[top] *= 1.0 if normals[top, 2] >= 0 else -1.0
        reached, before = breadth_first_order(tree, top, directed=False)
        signs = np.ones(n)
        turned = (normals[reached[1:]] * normals[before[reached[1:]]]).sum(1) < 0
        for node, flip in zip(reached[1:], turned, strict=True):
            signs[node] = -signs[before[node]] if flip else signs[before[node]]
        normals[reached] *= signs[reached, None]
    return normals


def splat_sizes(normals: Array, spacing: Array) -> Array:
    """Radius (n,) of the disc that draws each point, in the units of `spacing`.

    The discs of neighbours must overlap to close the surface; balls must not, or a volume looks like one solid.
    """
    middle = np.median(spacing)
    return np.where(normals.any(1), 2.0 * np.minimum(spacing, 2 * middle), 0.6 * middle)


def thin(count: int, limit: int) -> NDArray[np.int64]:
    """Sorted indices of at most `limit` of `count` points, drawn without replacement."""
    if count <= limit:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, limit, replace=False))
