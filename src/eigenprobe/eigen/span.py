"""Orthonormal columns and their signs."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..errors import InputError, RankError


def orthonormalise(x: Tensor, method: Literal["qr", "cholesky"] = "qr", *, check: bool = True) -> tuple[Tensor, Tensor]:
    """``x = Q R`` with orthonormal ``Q`` and upper triangular ``R``, ``diag R > 0``; batched and differentiable.

    The two methods agree to rounding: Householder QR, and Cholesky-QR done twice with the Gram matrix in float64
    (in float32 it is not positive definite at K = 50 in practice). ``RankError`` when the columns are dependent;
    ``check=False`` skips that test and its device synchronisation.

    >>> q, r = orthonormalise(torch.eye(3)[:, :2] * 2)
    >>> r.diagonal().tolist()
    [2.0, 2.0]
    """
    n, k = x.shape[-2:]
    if n < k:
        raise RankError(f"{k} independent columns need at least {k} rows, got {n}")
    if method == "qr":
        q, r = torch.linalg.qr(x)
        sign = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(x.dtype)
        q, r = q * sign[..., None, :], r * sign[..., :, None]
    elif method == "cholesky":
        q, r = _cholesky_qr(x, check)
        q, again = _cholesky_qr(q, check)
        r = (again @ r).to(x.dtype)
    else:
        raise InputError(f"method must be 'qr' or 'cholesky', got {method!r}")
    if check:
        with torch.no_grad():
            relative = r.diagonal(dim1=-2, dim2=-1) / r.norm(dim=-2)  # R's columns have the norms of x's columns
            lowest = float(relative.nan_to_num(0.0, posinf=0.0).min())
            if not lowest > 4 * torch.finfo(x.dtype).eps:
                raise RankError(f"expected {k} independent columns, got a numerical rank below {k}")
    return q, r


def _cholesky_qr(x: Tensor, check: bool) -> tuple[Tensor, Tensor]:
    wide = x.double()
    scale = wide.norm(dim=-2, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    wide = wide / scale  # unit columns: the Gram matrix is then as well conditioned as a diagonal scaling can make it
    factor, failed = torch.linalg.cholesky_ex(wide.mT @ wide)
    if check and bool(failed.any()):
        raise RankError(f"expected {x.shape[-1]} independent columns, got a numerical rank below {x.shape[-1]}")
    q = torch.linalg.solve_triangular(factor.mT, wide, upper=True, left=False)
    return q.to(x.dtype), factor.mT * scale


def canonical_signs(vectors: Tensor, weights: Tensor | None = None) -> Tensor:
    """``+1`` or ``-1`` for every column: the third moment becomes positive, or, where it vanishes (a symmetric
    function), the entry of largest magnitude does. Depends on neither the order nor the pose of the points."""
    cubes = vectors**3 if weights is None else vectors**3 * weights[..., None]
    cube, size = cubes.sum(-2), cubes.abs().sum(-2)
    largest = vectors.gather(-2, vectors.abs().argmax(-2, keepdim=True)).squeeze(-2)
    decisive = torch.where(cube.abs() > 1e-3 * size, cube, largest)
    return torch.where(decisive < 0, -1.0, 1.0).to(vectors.dtype)
