"""Eigenpairs of very many small symmetric matrices: the local covariances of a cloud.

    A (n, d, d) = V diag(v) V^T,   v (n, d) ascending,  V (n, d, d)

Up to three dimensions by Jacobi's rotations, each done for all matrices at once: LAPACK and cuSOLVER take them one by
one.  The rotations converge quadratically; five rounds reach rounding in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDS = 5
CACHED = 4096  # matrices at once on the host: their numbers stay in the cache
BATCH = 16384  # cuSOLVER fails on much longer batches


def principal_axes(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues ``(n, d)``, ascending, and eigenvectors ``(n, d, d)`` of symmetric matrices ``(n, d, d)``."""
    host = matrices.device.type == "cpu"
    small = 2 <= matrices.shape[-1] <= 3 and (host or len(matrices) > BATCH)  # few are one call of cuSOLVER
    parts = matrices.split((CACHED if host else max(len(matrices), 1)) if small else BATCH)
    found = [_jacobi(part) if small else torch.linalg.eigh(part) for part in parts]
    return torch.cat([values for values, _ in found]), torch.cat([vectors for _, vectors in found])


def _jacobi(matrices: Tensor) -> tuple[Tensor, Tensor]:
    n, d = matrices.shape[:2]
    a = {(i, j): matrices[:, i, j].clone() for i in range(d) for j in range(i, d)}
    identity = torch.eye(d, dtype=matrices.dtype, device=matrices.device)
    v = [column[:, None].repeat(1, n) for column in identity]  # d columns (d, n)
    for _ in range(1 if d == 2 else ROUNDS):
        for p in range(d - 1):
            for q in range(p + 1, d):
                _rotate(a, v, p, q)
    values, order = torch.stack([a[i, i] for i in range(d)], 1).sort(1)
    vectors = torch.stack(v, 2).transpose(0, 1)  # (n, d, d)
    return values, vectors.gather(2, order[:, None].expand(-1, d, -1))


def _rotate(a: dict[tuple[int, int], Tensor], v: list[Tensor], p: int, q: int) -> None:
    """Make ``a[p, q]`` zero in all matrices, in place."""
    off, apart = 2 * a[p, q], a[q, q] - a[p, p]
    # The smaller root of t^2 + (apart / a_pq) t - 1 = 0; 0 where there is nothing to do.
    root = torch.hypot(apart, off).copysign_(apart).add_(apart)
    t = torch.where(root == 0, torch.sign(off), off / torch.where(root == 0, 1.0, root))
    c = t.square().add_(1).rsqrt_()
    s = t * c
    change = t * a[p, q]
    a[p, p], a[q, q], a[p, q] = a[p, p] - change, a[q, q] + change, torch.zeros_like(off)
    for r in range(len(v)):
        if r not in (p, q):
            one, two = (min(r, p), max(r, p)), (min(r, q), max(r, q))
            a[one], a[two] = c * a[one] - s * a[two], s * a[one] + c * a[two]
    v[p], v[q] = c * v[p] - s * v[q], s * v[p] + c * v[q]
