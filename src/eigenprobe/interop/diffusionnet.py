"""The operators that DiffusionNet (Sharp et al. 2022) takes, of a bare cloud.

    frames (n, 3, 3)   rows X, Y, N: a right-handed orthonormal tangent frame and the normal, unoriented
    mass (n,)          areas;  L (n, n) positive semi-definite, L v = lambda diag(mass) v
    evals (k,), evecs (n, k)        the first k pairs, evecs^T diag(mass) evecs = I
    gradX, gradY (n, n)             derivatives along X and Y:   g_i = (sum_j w t t^T)^-1 sum_j w t (f_j - f_i)

``t = (X, Y) (x_j - x_i)`` are the tangent coordinates of the neighbours of L and ``w = -L_ij`` their weights, so that
gradients are exact for linear functions and built on the same neighbours as L.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..cloud import Array, check_points
from ..decomposition import decompose
from ..errors import InputError
from ..operators import laplacian

RIDGE = 1e-9  # of the trace: a point whose neighbours lie on a line has no derivative across it


class DiffusionNetOperators(NamedTuple):
    """In the order in which DiffusionNet's ``get_operators`` returns them."""

    frames: Tensor  # (n, 3, 3)
    mass: Tensor  # (n,)
    L: Tensor  # (n, n) sparse COO
    evals: Tensor  # (k,)
    evecs: Tensor  # (n, k)
    gradX: Tensor  # (n, n) sparse COO
    gradY: Tensor  # (n, n) sparse COO


def diffusionnet_operators(points: Array, k_eig: int = 128, **options: Any) -> DiffusionNetOperators:
    """``frames, mass, L, evals, evecs, gradX, gradY`` of a surface sampled by ``points (n, 3)``, as torch tensors.

    Tensors give tensors of their precision on their device, numpy arrays float32 on the host (what DiffusionNet
    computes in). ``options`` are those that `laplacian` and `decompose` share: neighbours, dimension, smoother, metric.

    >>> angle = np.random.default_rng(0).normal(size=(500, 3))
    >>> sphere = angle / np.linalg.norm(angle, axis=1, keepdims=True)
    >>> operators = diffusionnet_operators(sphere, k_eig=16)
    >>> round(float(operators.mass.sum() / np.pi))
    4
    """
    x, origin = check_points(points, k_eig)
    if x.shape[1] != 3:
        raise InputError(f"DiffusionNet takes points of shape (n, 3), got {tuple(x.shape)}")
    xyz = x.cpu().numpy()
    stiffness, area = laplacian(xyz, **options)
    basis = decompose(xyz, k_eig, **options)
    mass = area.diagonal()
    frames, derivatives = _gradients(xyz, stiffness)
    dense = (frames, mass, basis.eigenvalues, basis.normalized / np.sqrt(mass)[:, None])
    dtype = torch.float32 if origin.numpy else origin.dtype
    frames, mass, evals, evecs = (torch.as_tensor(np.ascontiguousarray(a)).to(origin.device, dtype) for a in dense)
    L, gradX, gradY = (_sparse(matrix).to(origin.device, dtype) for matrix in (stiffness, *derivatives))
    return DiffusionNetOperators(frames, mass, L, evals, evecs, gradX, gradY)


def _gradients(points: np.ndarray, stiffness: Any) -> tuple[Any, list[Any]]:
    """Frames (n, 3, 3) and the two derivatives as CSR, on the neighbours of ``stiffness``."""
    from scipy.sparse import csr_matrix

    n, matrix = len(points), stiffness.tocsr()
    rows, columns = np.repeat(np.arange(n), np.diff(matrix.indptr)), matrix.indices
    weight = np.where(rows == columns, 0.0, -matrix.data).clip(0)
    offset = points[columns] - points[rows]  # (e, 3); every row holds at least its diagonal entry
    weight = weight / np.add.reduceat(weight * (offset**2).sum(1), matrix.indptr[:-1]).clip(1e-300)[rows]
    moments = np.add.reduceat(weight[:, None, None] * offset[:, :, None] * offset[:, None, :], matrix.indptr[:-1])
    axes = np.linalg.eigh(moments)[1]  # ascending: the normal first
    x, normal = axes[:, :, 2], axes[:, :, 0]
    frames = np.stack([x, np.cross(normal, x), normal], 1)
    t = np.einsum("eij,ej->ei", frames[rows, :2], offset)  # (e, 2)
    square = np.add.reduceat(weight[:, None, None] * t[:, :, None] * t[:, None, :], matrix.indptr[:-1])
    inverse = np.linalg.inv(square + RIDGE * np.eye(2))
    slopes = weight[:, None] * np.einsum("eij,ej->ei", inverse[rows], t)
    derivatives = []
    for along in slopes.T:
        values = along.copy()
        values[rows == columns] = -np.add.reduceat(along, matrix.indptr[:-1])
        derivatives.append(csr_matrix((values, columns, matrix.indptr), shape=(n, n)))
    return frames, derivatives


def _sparse(matrix: Any) -> Tensor:
    entries = matrix.tocoo()
    places = torch.as_tensor(np.stack([entries.row, entries.col]).astype(np.int64))
    return torch.sparse_coo_tensor(
        places, torch.as_tensor(entries.data), entries.shape, check_invariants=False
    ).coalesce()
