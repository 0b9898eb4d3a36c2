"""From points (n, d) to something a camera can look at.

display coordinates (n, 3)   d = 3 as given; d < 3 padded with zeros; d > 3 the first three
                             principal components
camera                       y = R (x - c) / r with rows of R = (right, up, towards the eye), then
                             the mild perspective y / (1 - y_z / D)
triangles (t, 3)             of a sampled surface: three points that are neighbours in the operator
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, triu
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from ..basis import Basis
from ..cloud.inspection import find_outliers
from ..decomposition import OperatorSettings
from ..errors import InputError, held_warnings
from ..io.mesh import check_faces, to_numpy
from .colours import Array

Index = NDArray[np.int64]
EYE_DISTANCE = 5.0  # in units of the shape's radius
LEAST = 25  # points of a cloud that may be a surface


def as_faces(faces: ArrayLike | None, n: int) -> Index | None:
    """Faces as (f, 3) int64, checked against the number of points; None where there are none."""
    array = to_numpy([] if faces is None else faces, np.int64)
    return check_faces(array, n, "points") if array.size else None


def display_coordinates(points: ArrayLike) -> Array:
    """Points (n, d) as (n, 3) for drawing."""
    x = to_numpy(points)
    if x.ndim != 2 or len(x) == 0:
        raise InputError(f"points must have shape (n, d) with n > 0, got {x.shape}")
    if x.shape[1] > 3:
        from sklearn.decomposition import PCA

        x = PCA(min(3, len(x)), random_state=0).fit_transform(x)
    return np.pad(x, ((0, 0), (0, 3 - x.shape[1])))


@dataclass(frozen=True)
class Camera:
    """The eye: `rotation` rows are right, up and towards it; `centre` and `radius` normalise the
    shape.
    """

    rotation: Array
    centre: Array
    radius: float

    def project(self, points: Array) -> tuple[Array, Array]:
        """Screen position (n, 2), y up, and depth (n,), larger is nearer, in radii."""
        y = (points - self.centre) / self.radius @ self.rotation.T
        return y[:, :2] / (1 - y[:, 2:] / EYE_DISTANCE), y[:, 2]


def look_at(
    points: Array, *, azimuth: float | None = None, elevation: float = 12.0, up: str = "auto"
) -> Camera:
    """A camera around display coordinates (n, 3); angles in degrees.

    Without an azimuth the shape is turned about `up` to its broadest silhouette and 25 degrees
    beyond, which shows both its outline and its depth. A flat shape is seen face on.
    """
    if up not in ("x", "y", "z", "auto"):
        raise InputError(f"up must be 'x', 'y', 'z' or 'auto', got {up!r}")
    low, high = points.min(0), points.max(0)
    centre = (low + high) / 2
    radius = float(np.linalg.norm(points - centre, axis=1).max()) or 1.0
    flat = high - low <= 1e-9 * radius
    if flat[2] and not flat[:2].all():
        return Camera(np.eye(3), centre, radius)
    if up == "auto":  # z where the shape clearly stands on its lowest z, on feet or a flat base
        reach = 0.02 * (high - low).max()
        base, top = ((points - low) < reach).mean(0), ((high - points) < reach).mean(0)
        up = "z" if base[2] > 1.3 * base[1] and base[2] > 4 * top[2] else "y"
    axis = "xyz".index(up)
    # Rows (right, up, towards the eye) of the view at azimuth 0, right-handed for every `up`.
    frame = np.roll(np.eye(3), axis - 1, axis=1)
    if azimuth is None:
        plan = (points - points.mean(0)) @ frame[[0, 2]].T
        spread, axes = np.linalg.eigh(plan.T @ plan)
        azimuth = 25.0
        if spread[0] <= 0.7 * spread[1]:  # of a round plan no side is broadest
            azimuth -= (np.degrees(np.arctan2(axes[1, 1], axes[0, 1])) + 90) % 180 - 90
    turn = Rotation.from_euler("yx", [-azimuth, elevation], degrees=True).as_matrix()
    return Camera(turn @ frame, centre, radius)


def basis_points(basis: Basis, points: ArrayLike | None) -> tuple[ArrayLike, Array]:
    """The points of a basis, or those given for it, and their display coordinates (n, 3)."""
    points = basis.points if points is None else points
    if points is None:
        raise InputError("a report needs points: the basis carries none and none were given")
    xyz = display_coordinates(points)
    if len(xyz) != basis.n:
        raise InputError(f"expected {basis.n} points for the basis, got {len(xyz)}")
    return points, xyz


def thin(count: int, limit: int) -> Index:
    """Sorted indices of at most `limit` of `count` points, drawn without replacement."""
    if count <= limit:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, limit, replace=False))


def surface_triangles(points: Array) -> Index | None:
    """Triangles (t, 3), all turned alike, between the points of a sampled surface: any three that
    are neighbours in the operator of the cloud, whose edges are those of Voronoi cells, and none of
    them an outlier.

    None of volumes and curves, and of a cloud in the plane, where a closed sheet would hide how it
    was sampled: those are drawn as balls.
    """
    if len(points) < LEAST or not np.ptp(points, axis=0).all():
        return None
    with held_warnings():  # nothing new is said in a picture
        made = OperatorSettings(resolution="all", parts="all").prepare(points)
    smoother = made.smoother_as_given
    if smoother.dimension != 2:
        return None
    row, column, _ = (each.numpy() for each in smoother.entries())
    joined = csr_matrix((row != column, (row, column)))
    i, j = triu(joined, 1).nonzero()
    edge, k = joined[i].multiply(joined[j]).nonzero()
    triangles = np.unique(np.sort(np.stack([i[edge], j[edge], k], 1), axis=1), axis=0)
    graph = made.graph
    outliers = find_outliers(graph.points, graph.indices, graph.distances).numpy()
    triangles = triangles[~outliers[triangles].any(1)]
    kept = np.arange(len(points)) if made.cloud.kept is None else np.sort(made.cloud.kept)
    a, b, c = (points[kept][corner] for corner in triangles.T)
    frames = graph.frames(2).numpy()
    normals = _turned_alike(np.cross(*np.moveaxis(frames, 2, 0)), joined)
    turned = (np.cross(b - a, c - b) * normals[triangles[:, 0]]).sum(1) < 0
    triangles[turned] = triangles[turned, ::-1]
    return kept[triangles]


def ball_radius(points: Array) -> float:
    """Radius of the balls that draw a cloud: they must not touch, or a volume looks like one
    solid.
    """
    reach = cKDTree(points).query(points, min(7, len(points)))[0].reshape(len(points), -1)[:, -1]
    return float(0.3 * np.median(reach)) or 0.03 * float(np.ptp(points, axis=0).max()) or 0.03


def _turned_alike(normals: Array, joined: csr_matrix) -> Array:
    """Normals (n, 3) with the same side of the surface at all points of a component: signs pass
    along a tree of the flattest edges [Hoppe et al. 1992].
    """
    i, j = joined.nonzero()
    weight = 1.001 - np.abs((normals[i] * normals[j]).sum(1))
    tree = minimum_spanning_tree(csr_matrix((weight, (i, j)), joined.shape))
    for root in np.unique(connected_components(tree, directed=False)[1], return_index=True)[1]:
        reached, before = breadth_first_order(tree, root, directed=False)
        for node in reached[1:]:
            normals[node] *= 1 if normals[node] @ normals[before[node]] >= 0 else -1
    return normals
