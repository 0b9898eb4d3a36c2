"""How well a basis agrees with an oracle sampled at the same points.

    cosine(k)     mean over i <= k of  |<v_i, u_i>| / (|v_i| |u_i|)                      the paper's metric, by index
    matched(k)    the same after the best one-to-one assignment of the first k to the first k (Hungarian)
    subspace(k)   sum of squared cosines of the principal angles between span(V_k) and span(U_k), over k
    eigenvalue_discrepancy(k)   mean over 2 <= i <= k of  |lambda_i - l_i| / l_i         (the first is 0 on both sides)

``V`` (n, K) are the unnormalised vectors of the basis and ``U`` (n, K) those of the oracle. Inner products are plain
sums over the samples. The constant first vector counts, as one of the paper's 50 outputs (leaving it out lowers a mean
over k <= 10 by about .002 where it is .98 and by .015 where it is .88). An oracle on all vertices of a mesh is compared
with a basis on a subset through ``indices``. The estimated mass is compared with the true area of every sample, and the
coordinates with those rebuilt from ``k`` vectors:

    area_i = area of { x on the mesh : |x - p_i| <= |x - p_j| for all j },   sum_i area_i = area of the mesh;  (n,)
    x_k = V_k V_k^T M x                     error(k) = sqrt( sum_i area_i |x_i - x_k,i|^2 / sum_i area_i )

Every face is cut into s^2 congruent pieces, s as small as gives ``PIECES`` pieces per sample; the area of a piece goes
to the sample nearest its centroid. ``M`` is the mass the method itself estimated: what a user of `Basis.project` gets.
The oracle's vectors are no longer exactly orthonormal at the samples: it gets the best area-weighted coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from .basis import Basis
from .errors import InputError
from .host.tables import html_table
from .host.validation import validated
from .readers.mesh import Array, Mesh, as_mesh, face_areas, to_numpy

PIECES = 50
BLOCK = 1 << 20


@dataclass(frozen=True, repr=False)
class Alignment:
    """Agreement of two bases. Every measure takes ``k`` (default: all) and returns one number."""

    cross: Array  # (K, K): V^T U of unit columns, the cosine of basis vector i (row) and oracle vector j (column)
    basis_gram: Array  # (K, K): V^T V
    oracle_gram: Array  # (K, K): U^T U
    eigenvalues: Array  # (K,)
    oracle_eigenvalues: Array  # (K,)

    @property
    def k(self) -> int:
        """How many vectors can be compared."""
        return len(self.eigenvalues)

    @property
    def cosines(self) -> Array:
        """|cosine| of vector i with oracle vector i, (K,)."""
        return np.abs(np.diagonal(self.cross))

    @property
    def discrepancies(self) -> Array:
        """Relative eigenvalue errors of vectors 2 to K, (K - 1,)."""
        reference = self.oracle_eigenvalues[1:]
        floor = 1e-9 * max(float(self.oracle_eigenvalues[-1]), np.finfo(float).tiny)  # extra zeros of many components
        return np.abs(self.eigenvalues[1:] - reference) / np.maximum(reference, floor)

    def __repr__(self) -> str:
        return f"Alignment(k={self.k}, cosine={self.cosine():.3f}, subspace={self.subspace():.3f})"

    def _repr_html_(self) -> str:
        shown = [k for k in (10, 20, 50) if k < self.k] + [self.k]
        measures = {"|cosine|": self.cosine, "matched": self.matched, "subspace": self.subspace}
        if self.k > 1:
            measures["eigenvalue discrepancy"] = self.eigenvalue_discrepancy
        facts = {name: " / ".join(f"{measure(k):.3f}" for k in shown) for name, measure in measures.items()}
        return html_table("Alignment", {"vectors, up to": " / ".join(map(str, shown)), **facts})

    def cosine(self, k: int | None = None) -> float:
        """Mean |cosine| by index over the first ``k`` vectors."""
        return float(self.cosines[: self._up_to(k)].mean())

    def matched(self, k: int | None = None) -> float:
        """Mean |cosine| under the best assignment within the first ``k``: order swaps of close pairs cost nothing."""
        from scipy.optimize import linear_sum_assignment

        k = self._up_to(k)
        block = np.abs(self.cross[:k, :k])
        rows, columns = linear_sum_assignment(block, maximize=True)
        return float(block[rows, columns].mean())

    def subspace(self, k: int | None = None) -> float:
        """Mean squared cosine of the ``k`` principal angles: 1 for equal spans, k/n for unrelated ones."""
        k = self._up_to(k)
        left = np.linalg.cholesky(self.basis_gram[:k, :k] + 1e-12 * np.eye(k))
        right = np.linalg.cholesky(self.oracle_gram[:k, :k] + 1e-12 * np.eye(k))
        angles = np.linalg.solve(left, np.linalg.solve(right, self.cross[:k, :k].T).T)
        return float(np.square(angles).sum() / k)

    def eigenvalue_discrepancy(self, k: int | None = None) -> float:
        """Mean relative eigenvalue error over vectors 2 to ``k``."""
        return float(self.discrepancies[: self._up_to(k, 2) - 1].mean())

    def eigenvalue_deviation(self, k: int | None = None) -> float:
        """Standard deviation of the relative eigenvalue errors over vectors 2 to ``k``."""
        return float(self.discrepancies[: self._up_to(k, 2) - 1].std())

    def _up_to(self, k: int | None, lowest: int = 1) -> int:
        k = self.k if k is None else k
        if not lowest <= k <= self.k:
            raise InputError(f"expected {lowest} <= k <= {self.k} compared vectors, got k={k}")
        return k


@validated
def compare(basis: Basis, oracle: Basis, indices: Any = None) -> Alignment:
    """Measure ``basis`` against ``oracle``; ``indices`` are the oracle's rows at the basis's points, if not all.

    The number of vectors compared is that of the smaller basis.
    """
    vectors, reference = to_numpy(basis.vectors), to_numpy(oracle.vectors)
    if indices is not None:
        chosen = to_numpy(indices, None)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool and chosen.shape == (oracle.n,) else chosen
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or not ((chosen >= -oracle.n) & (chosen < oracle.n)).all():
            raise InputError(f"expected indices (n,) of {oracle.n} points, got {chosen.dtype} of shape {chosen.shape}")
        reference = reference[chosen]
    return compare_vectors(vectors, reference, to_numpy(basis.eigenvalues), to_numpy(oracle.eigenvalues))


@validated
def compare_vectors(vectors: Array, reference: Array, eigenvalues: Array, reference_eigenvalues: Array) -> Alignment:
    """The same from arrays: vectors (n, K) and (n, K'), eigenvalues (K,) and (K',)."""
    vectors, reference = to_numpy(vectors), to_numpy(reference)
    if vectors.ndim != 2 or reference.ndim != 2 or not np.ndim(eigenvalues) == np.ndim(reference_eigenvalues) == 1:
        raise InputError(f"expected vectors (n, K) and eigenvalues (K,), got {vectors.shape} and {reference.shape}")
    if len(vectors) != len(reference):
        raise InputError(
            f"expected a basis and an oracle at the same points, got {len(vectors)} and {len(reference)} rows "
            "(indices= picks the oracle's rows at the basis's points)"
        )
    k = min(vectors.shape[1], reference.shape[1])
    ours, theirs = _unit(vectors[:, :k]), _unit(reference[:, :k])
    values = (to_numpy(each)[:k] for each in (eigenvalues, reference_eigenvalues))
    return Alignment(ours.T @ theirs, ours.T @ ours, theirs.T @ theirs, *values)


def _unit(vectors: Array) -> Array:
    if not np.isfinite(vectors).all():
        raise InputError("expected finite vectors to compare, got NaN or infinity")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=0), np.finfo(float).tiny)


def nearest_sample_areas(mesh: Mesh, points: Array) -> Array:
    """The area of the mesh nearest to each of ``points`` (n, 3): ``(n,)``, summing to the total area."""
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
    """Barycentric centroids of the s^2 congruent pieces of a triangle: s(s+1)/2 upright, s(s-1)/2 turned over."""
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
    """``f`` (n, m) from the first ``k`` columns of any ``vectors`` with the best area-weighted coefficients."""
    root = np.sqrt(areas)[:, None]
    coefficients = np.linalg.lstsq(root * vectors[:, :k], root * f, rcond=None)[0]
    return vectors[:, :k] @ coefficients


def weighted_error(f: Array, rebuilt: Array, areas: Array) -> float:
    """Root of the area-weighted mean squared distance."""
    return float(np.sqrt((areas[:, None] * (f - rebuilt) ** 2).sum() / areas.sum()))
