"""The operators that DiffusionNet (Sharp et al. 2022) takes, of a bare cloud.

frames (n, 3, 3)   rows X, Y, N: a right-handed orthonormal tangent frame and the normal, unoriented
mass (n,)          areas;  L (n, n) positive semi-definite, L v = lambda diag(mass) v
evals (k,), evecs (n, k)        the first k pairs, evecs^T diag(mass) evecs = I
gradX, gradY (n, n)             derivatives along X and Y, exact for linear functions, on the neighbours of L
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..cloud import Array, check_points
from ..decomposition import opened, smoothed
from ..eigen import Span, basis_from_span, solve
from ..errors import InputError
from ..operators import gradients, matrices
from ..threads import limited_threads


class DiffusionNetOperators(NamedTuple):
    """In the order in which DiffusionNet's ``get_operators`` returns them."""

    frames: Tensor  # (n, 3, 3)
    mass: Tensor  # (n,)
    L: Tensor  # (n, n) sparse COO
    evals: Tensor  # (k,)
    evecs: Tensor  # (n, k)
    gradX: Tensor  # (n, n) sparse COO
    gradY: Tensor  # (n, n) sparse COO


def diffusionnet_operators(points: Array, k_eig: int = 128, *, neighbours: Any = None) -> DiffusionNetOperators:
    """``frames, mass, L, evals, evecs, gradX, gradY`` of a surface sampled by ``points (n, 3)``, as torch tensors.

    Tensors give tensors of their precision on their device, numpy arrays float32 on the host (what DiffusionNet
    computes in). ``neighbours`` as in `decompose`, whose operator with ``dimension=2`` this is.

    >>> sphere = np.random.default_rng(0).normal(size=(500, 3))
    >>> sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    >>> operators = diffusionnet_operators(sphere, k_eig=16)
    >>> round(float(operators.mass.sum() / np.pi))
    4
    """
    x, origin = check_points(opened(points)[0], k_eig)
    if x.shape[1] != 3:
        raise InputError(f"DiffusionNet takes points of shape (n, 3), got {tuple(x.shape)}")
    with limited_threads(x.device, len(x)):
        cloud, smoother = smoothed(x, k_eig, neighbours=neighbours, dimension=2.0)
        smoother.warn_of_parts()
        pairs = solve(smoother, k_eig)
        basis = basis_from_span(Span(pairs.vectors, pairs.gaps), smoother, k_eig, cloud).numpy()
        stiffness, area = matrices(cloud, smoother)
        tangent, (along, across) = gradients(cloud, smoother)
    forward, left = tangent[:, :, 0], tangent[:, :, 1]
    frames, mass = np.stack([forward, left, np.cross(forward, left)], 1), area.diagonal()
    dtype = torch.float32 if origin.numpy else origin.dtype

    def dense(array: np.ndarray) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(array)).to(origin.device, dtype)

    evecs = basis.normalized / np.sqrt(mass)[:, None]
    L, gradX, gradY = (_sparse(matrix).to(origin.device, dtype) for matrix in (stiffness, along, across))
    return DiffusionNetOperators(dense(frames), dense(mass), L, dense(basis.eigenvalues), dense(evecs), gradX, gradY)


def _sparse(matrix: Any) -> Tensor:
    entries = matrix.tocoo()
    places = torch.as_tensor(np.stack([entries.row, entries.col]).astype(np.int64))
    return torch.sparse_coo_tensor(
        places, torch.as_tensor(entries.data), entries.shape, check_invariants=False
    ).coalesce()
