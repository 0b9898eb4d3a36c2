"""Eigenpairs of very many small symmetric matrices: the local covariances of a cloud.

    A (n, d, d) = V diag(v) V^T,   v (n, d) ascending,  V (n, d, d)

Up to three dimensions in closed form, for all matrices at once: LAPACK and cuSOLVER take them one by one.  In three
dimensions the eigenvalue that is farthest from the two others is a root of the characteristic polynomial,

    K = A - tr A / 3,   p^2 = |K|^2 / 6,   x = 2 p cos(arccos(det K / (2 p^3)) / 3 [+ 2 pi / 3])

its vector a product of two rows of K - x, and what is left is a two-dimensional problem, a rotation.
"""

import math

import torch
from torch import Tensor

BATCH = 16384  # cuSOLVER fails on much longer batches
FEW = 64  # matrices for which a device calls cuSOLVER once instead: it takes half a MiB for each, 5 GiB for 10 000


def principal_axes(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues ``(n, d)``, ascending, and eigenvectors ``(n, d, d)`` of symmetric matrices ``(n, d, d)``."""
    d = matrices.shape[-1]
    few = matrices.device.type != "cpu" and len(matrices) <= FEW
    if d not in (2, 3) or few:
        found = [torch.linalg.eigh(part) for part in matrices.split(BATCH)]
        return torch.cat([values for values, _ in found]), torch.cat([vectors for _, vectors in found])
    scale = matrices.abs().amax((1, 2)).clamp_min_(torch.finfo(matrices.dtype).tiny)
    a = matrices.permute(1, 2, 0).contiguous() / scale  # (d, d, n): every number of all matrices
    if d == 2:
        low, high, values = _pair(a, *torch.eye(2, dtype=a.dtype, device=a.device)[..., None])
        axes = torch.stack([low, high])  # (d, d, n)
    else:
        outer, largest = _outermost(a)
        x, y, z = outer
        zero = torch.zeros_like(x)
        first = torch.where(x.abs() > y.abs(), torch.stack([-z, zero, x]), torch.stack([zero, z, -y]))
        first = first / first.square().sum(0).sqrt_()
        low, high, (small, large) = _pair(a, first, _cross(outer, first))
        own = (outer * (a * outer).sum(1)).sum(0)
        axes = torch.where(largest, torch.stack([low, high, outer]), torch.stack([outer, low, high]))
        values = torch.where(largest, torch.stack([small, large, own]), torch.stack([own, small, large]))
    return (values * scale).mT, axes.permute(2, 1, 0)


def canonical_pose(points: Tensor, mass: Tensor) -> Tensor:
    """`(b, 4, 3)` such that `[x, 1] @ pose` is centred, on principal axes (largest first, skew positive), of rms 1.

    Points `(b, n, 3)` and their mass `(b, n)`, which sums to 1; those without mass do not count.
    """
    weight = mass[..., None]
    mean = (weight * points).sum(1, keepdim=True)
    centred = points - mean
    variance, axes = principal_axes(((weight * centred).mT @ centred).double())
    axes = axes.flip(-1).to(points.dtype)
    skew = (weight * (centred @ axes) ** 3).sum(1)
    axes = axes * torch.where(skew < 0, -1.0, 1.0)[:, None]
    axes = axes / variance.sum(-1).clamp_min(1e-20).sqrt().to(points.dtype)[:, None, None]
    return torch.cat([axes, -mean @ axes], 1)


def _pair(a: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The two eigenvectors ``(d, n)`` in the planes of ``p`` and ``q``, and their values ``(2, n)``, ascending."""
    image, other = (a * p).sum(1), (a * q).sum(1)
    here, off, there = (p * image).sum(0), 2 * (p * other).sum(0), (q * other).sum(0)
    apart = there - here
    # The smaller root of t^2 + (apart / a_pq) t - 1 = 0; 0 where there is nothing to do.
    root = torch.hypot(apart, off).copysign_(apart).add_(apart)
    t = torch.where(root == 0, torch.sign(off), off / torch.where(root == 0, 1.0, root))
    c, change = t.square().add_(1).rsqrt_(), t * off / 2
    s = t * c
    one, two, values = c * p - s * q, s * p + c * q, torch.stack([here - change, there + change])
    ascending = values[0] <= values[1]
    first, second = torch.where(ascending, one, two), torch.where(ascending, two, one)
    return first, second, torch.where(ascending, values, values.flip(0))


def _outermost(a: Tensor) -> tuple[Tensor, Tensor]:
    """The unit eigenvector ``(3, n)`` whose eigenvalue is farthest from the others, and whether it is the largest."""
    k = a.clone()
    mean = (k[0, 0] + k[1, 1] + k[2, 2]) / 3
    for i in range(3):
        k[i, i] -= mean
    p = k.square().sum((0, 1)).div_(6).sqrt_()
    k /= torch.where(p == 0, 1.0, p)
    half = (k[0] * _cross(k[1], k[2])).sum(0).div_(2).clamp_(-1, 1)
    largest, angle = half >= 0, half.acos() / 3
    root = 2 * torch.where(largest, angle, angle + 2 * math.pi / 3).cos()
    for i in range(3):
        k[i, i] -= root
    vector = _cross(k[0], k[1])
    length = vector.square().sum(0)
    for i, j in ((0, 2), (1, 2)):
        other = _cross(k[i], k[j])
        size = other.square().sum(0)
        vector, length = torch.where(size > length, other, vector), torch.maximum(size, length)
    return vector / length.sqrt_(), largest


def _cross(x: Tensor, y: Tensor) -> Tensor:
    (a, b, c), (d, e, f) = x, y
    return torch.stack([b * f - c * e, c * d - a * f, a * e - b * d])
