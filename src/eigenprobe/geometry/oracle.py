"""The reference that knows the mesh: eigenpairs of its cotangent Laplacian, ``L v = lambda M v``.

    L_ij = -(cot a_ij + cot b_ij)/2,  L_ii = -sum_j L_ij,   M = diag(Voronoi areas),
    V^T M V / area = I

The smallest ``k`` pairs come from shift-and-invert about a small negative number.
Eigenvalues are in the units of the input (length^-2); the `Basis` has mass ``M / area``, which sums
to 1. Meshes the cotangent formula cannot serve (zero or non-finite weights, a solver that fails) go
to the tufted-cover Laplacian of `robust_laplacian`, with a warning.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse
import torch

from ..basis import Basis
from ..eigen import canonical_signs, smallest_pairs
from ..errors import InputError, extra, warn
from ..host.validation import validated
from ..io.mesh import Array, check_mesh

Kind = Literal["auto", "cotangent", "robust"]
SHIFT = -1e-3  # times 1/area, far below the first positive eigenvalue of any usual shape


@validated
def oracle(vertices: Any, faces: Any, k: int = 50, *, kind: Kind = "auto") -> Basis[Array]:
    """The first ``k`` eigenvectors of the mesh Laplacian at all vertices, as a `Basis` of float64
    numpy arrays.

    Parameters
    ----------
    vertices, faces
        The mesh, ``(v, 3)`` and ``(f, 3)``.  Vertices no face uses have no mass, hence no values:
        `load` drops them, here they are an error.
    k
        How many vectors, fewer than vertices.
    kind
        ``"auto"`` is the cotangent Laplacian where it is usable and the robust one elsewhere.

    Returns
    -------
    Basis

    Examples
    --------
    >>> import trimesh
    >>> ball = trimesh.creation.icosphere(3)
    >>> oracle(ball.vertices, ball.faces, k=5).eigenvalues.round(1).tolist()[1:]
    [2.0, 2.0, 2.0, 6.0]
    """
    vertices, faces = check_mesh(vertices, faces)
    n = len(vertices)
    if not 1 <= k < n:
        raise InputError(f"the oracle of {n} vertices has 1 to {n - 1} vectors, got k={k}")
    if unused := n - len(np.unique(faces)):
        raise InputError(f"every vertex must belong to a face, {unused} of {n} do not")
    if kind != "robust":
        try:
            return _basis(vertices, *cotangent(vertices, faces), k, "cotangent")
        except (ArithmeticError, RuntimeError) as error:  # numpy, SuperLU and ARPACK failures
            if kind == "cotangent":
                raise InputError(
                    f"the cotangent Laplacian of this mesh cannot be used: {error}"
                ) from error
            warn(f"using the robust Laplacian instead of cotangents: {error}")
    try:
        matrices = extra("robust_laplacian").mesh_laplacian(vertices, faces)
        return _basis(vertices, *_positive(*matrices), k, "robust")
    except (ArithmeticError, RuntimeError) as error:
        raise InputError(f"no Laplacian of this mesh can be solved: {error}") from error


def cotangent(vertices: Array, faces: Array) -> tuple[Any, Array]:
    """Positive semi-definite cotangent stiffness matrix (v, v) and Voronoi areas (v,)."""
    igl = extra("igl")
    stiffness = -igl.cotmatrix(vertices, faces)
    mass = np.asarray(igl.massmatrix(vertices, faces, igl.MASSMATRIX_TYPE_VORONOI).diagonal())
    if count := int((~np.isfinite(stiffness.data)).sum()):
        raise ArithmeticError(f"{count} cotangent weights are not finite")
    if count := int((~(mass > 1e-12 * mass.mean())).sum()):
        raise ArithmeticError(f"{count} vertices have no area")
    return stiffness.tocsc(), mass


def point_cloud(points: Array, k: int) -> Basis:
    """The peer that has no mesh either: `robust_laplacian`'s point-cloud Laplacian and
    ``eigsh``.
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    matrices = extra("robust_laplacian").point_cloud_laplacian(points)
    return _basis(points, *_positive(*matrices), k, "robust point cloud")


def _positive(stiffness: Any, mass: Any) -> tuple[Any, Array]:
    """Stiffness and areas of an intrinsic tufted cover, which serves any triangle soup with used
    vertices.
    """
    areas = np.asarray(mass.diagonal())
    # Isolated or folded vertices may get none at all.
    return stiffness.tocsc(), np.maximum(areas, 1e-10 * areas.mean())


def smallest_eigenpairs(
    stiffness: Any, mass: Array, k: int, shift: float | None = None
) -> tuple[Array, Array]:
    """``L v = lambda M v`` for the ``k`` smallest: eigenvalues (k,) ascending and ``sqrt(M) v`` (v,
    k), orthonormal.
    """
    # The standard problem for sqrt(M) v converges more safely.
    scale = scipy.sparse.diags_array(1 / np.sqrt(mass))
    normalised = (scale @ stiffness @ scale).tocsc()
    return smallest_pairs(normalised, k, pole=SHIFT / mass.sum() if shift is None else shift)


def _basis(points: Array, stiffness: Any, mass: Array, k: int, kind: str) -> Basis:
    values, vectors = smallest_eigenpairs(stiffness, mass, k)
    if not (np.isfinite(values).all() and np.isfinite(vectors).all()):
        raise ArithmeticError("the eigensolver returned non-finite values")
    area = float(mass.sum())
    weights = mass / area
    unnormalised = torch.from_numpy(vectors / np.sqrt(weights)[:, None])
    signs = canonical_signs(unnormalised, torch.from_numpy(weights)).numpy()
    normalized = np.ascontiguousarray(vectors * signs)
    return Basis(normalized, weights, values, points, {"method": kind, "area": area})
