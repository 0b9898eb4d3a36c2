"""The area that every sample of a mesh stands for, and coordinates rebuilt from ``k`` vectors.

    area_i = area of { x on the mesh : |x - p_i| <= |x - p_j| for all j },   (n,)
    x_k = V_k V_k^T M x,     error(k) = sqrt( sum_i area_i |x_i - x_k,i|^2 / sum_i area_i )

Every face is cut into s^2 congruent pieces, s as small as gives ``PIECES`` pieces per sample; the
area of a piece goes to the sample nearest its centroid. ``M`` is the mass the method itself
estimated: what a user of `Basis.project` gets. The oracle's vectors are no longer exactly
orthonormal at the samples: it gets the best area-weighted coefficients.
"""

import numpy as np
from scipy.spatial import cKDTree

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.io.mesh import Array, Mesh, as_mesh, face_areas

PIECES = 50
BLOCK = 1 << 20


def nearest_sample_areas(mesh: Mesh, points: Array) -> Array:
    """The area of the mesh nearest to each of ``points`` (n, 3): ``(n,)``, summing to the total
    area.
    """
    vertices, faces = as_mesh(mesh)
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 3:
        raise InputError(f"expected points of shape (n, 3), got {points.shape}")
    cuts = max(1, int(np.ceil(np.sqrt(PIECES * len(points) / len(faces)))))
    weights = _piece_centroids(cuts)  # (s^2, 3) barycentric
    share = face_areas(vertices, faces) / len(weights)
    tree = cKDTree(points)
    areas = np.zeros(len(points))
    step = max(1, BLOCK // len(weights))
    for start in range(0, len(faces), step):
        corners = vertices[faces[start : start + step]]  # (f, 3, 3)
        centroids = np.einsum("sc,fcd->fsd", weights, corners).reshape(-1, 3)
        nearest = tree.query(centroids)[1]
        pieces = np.repeat(share[start : start + step], len(weights))
        areas += np.bincount(nearest, weights=pieces, minlength=len(points))
    return areas


def _piece_centroids(cuts: int) -> Array:
    """Barycentric centroids of the s^2 congruent pieces of a triangle: s(s+1)/2 upright, s(s-1)/2
    turned over.
    """
    upright = [(i + 1 / 3, j + 1 / 3) for i in range(cuts) for j in range(cuts - i)]
    turned = [(i + 2 / 3, j + 2 / 3) for i in range(cuts - 1) for j in range(cuts - 1 - i)]
    uv = np.array(upright + turned) / cuts
    return np.column_stack([1 - uv.sum(1), uv])


def mass_correlation(mass: Array, areas: Array) -> float:
    """Pearson correlation of estimated mass and true area; NaN where either is constant."""
    mass, areas = np.asarray(mass, dtype=np.float64), np.asarray(areas, dtype=np.float64)
    if mass.shape != areas.shape:
        raise InputError(f"expected one area per mass, got {areas.shape} and {mass.shape}")
    if np.ptp(mass) <= 1e-12 * np.abs(mass).max() or np.ptp(areas) <= 1e-12 * np.abs(areas).max():
        return float("nan")
    return float(np.corrcoef(mass, areas)[0, 1])


def rebuild(basis: Basis, f: Array, k: int) -> Array:
    """``f`` (n, m) from the first ``k`` vectors of ``basis`` in its own mass."""
    basis = basis.truncate(k).numpy()
    return np.asarray(basis.reconstruct(basis.project(f)), dtype=np.float64)


def rebuild_weighted(vectors: Array, f: Array, k: int, areas: Array) -> Array:
    """``f`` (n, m) from the first ``k`` columns of any ``vectors`` with the best area-weighted
    coefficients.
    """
    root = np.sqrt(areas)[:, None]
    coefficients = np.linalg.lstsq(root * vectors[:, :k], root * f, rcond=None)[0]
    return vectors[:, :k] @ coefficients


def weighted_error(f: Array, rebuilt: Array, areas: Array) -> float:
    """Root of the area-weighted mean squared distance."""
    return float(np.sqrt((areas[:, None] * (f - rebuilt) ** 2).sum() / areas.sum()))
