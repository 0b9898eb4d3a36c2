"""How points lie in memory: many clouds stacked as one, and orders that keep neighbours near.

    values (n, ...), n = n_1 + ... + n_b     sum, mean (b, ...)    spread (b, ...) -> (n, ...)
    padded (b, most, ...)

Whatever is taken within each of the stacked clouds is one operation; no atomic additions: sums are
those of padded rows, the same in every run.  Searches and sparse products are bound by memory: at
100k points in random order most accesses miss the cache, and a product is several times slower than
with the points along a space-filling curve (at most three coordinates) or in reverse Cuthill-McKee
order (any graph).

Eigenpairs of very many small symmetric matrices: the local covariances of a cloud.

    A (n, d, d) = V diag(v) V^T,   v (n, d) ascending,  V (n, d, d)

Up to three dimensions in closed form, for all matrices at once: LAPACK and cuSOLVER take them one
by one.  In three dimensions the eigenvalue that is farthest from the two others is a root of the
characteristic polynomial,

    K = A - tr A / 3,   p^2 = |K|^2 / 6,   x = 2 p cos(arccos(det K / (2 p^3)) / 3 [+ 2 pi / 3])

its vector a product of two rows of K - x, and what is left is a two-dimensional problem, a
rotation.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import warn
from ..points import Frame

SOME = 100  # places of a cloud that speak for all: a share of them is known to .05
REORDER = 8192  # rows below which everything is in cache anyway
CACHE = 1 << 18  # numbers that a processor works on at once: with more it takes up to four times as
MEMORY = 1 << 24  # long; and a device, whose memory several arrays of them have to fit in


def rows_at_once(device: torch.device, width: int) -> int:
    """How many rows of ``width`` numbers are worked on at once."""
    return max(1, (CACHE if device.type == "cpu" else MEMORY) // max(1, width))


@dataclass(frozen=True)
class Segments:
    """Clouds of ``sizes`` one after the other on ``device``."""

    sizes: tuple[int, ...]
    device: torch.device

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def most(self) -> int:
        return max(self.sizes)

    @property
    def equal(self) -> bool:
        return min(self.sizes) == self.most

    @cached_property
    def counts(self) -> Tensor:
        """``(b,)``."""
        return torch.tensor(self.sizes, device=self.device)

    @cached_property
    def first(self) -> Tensor:
        """The row of the first point of every cloud, ``(b,)``."""
        return self.counts.cumsum(0) - self.counts

    @cached_property
    def owner(self) -> Tensor:
        """The cloud of every point, ``(n,)``."""
        each = torch.arange(len(self), device=self.device)
        return each.repeat_interleave(self.counts, output_size=sum(self.sizes))

    @cached_property
    def place(self) -> Tensor:
        """The row of every point ``(n,)`` among those of the padded batch."""
        return self.real.flatten().nonzero()[:, 0]

    @cached_property
    def real(self) -> Tensor:
        """Which rows of the padded batch are points, ``(b, most)``."""
        return torch.arange(self.most, device=self.device) < self.counts[:, None]

    def padded(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """``(b, most, ...)``."""
        if self.equal:
            return values.unflatten(0, (len(self), -1))
        out = values.new_full((len(self) * self.most, *values.shape[1:]), fill)
        return out.index_copy_(0, self.place, values).unflatten(0, (len(self), -1))

    def stacked(self, batch: Tensor) -> Tensor:
        """A padded batch ``(b, most, ...)`` without its padding, ``(n, ...)``."""
        flat = batch.flatten(0, 1)
        return flat if self.equal else flat.index_select(0, self.place)

    def sum(self, values: Tensor) -> Tensor:
        """``(b, ...)``."""
        return self.padded(values).sum(1)

    def inner(self, x: Tensor, y: Tensor) -> Tensor:
        """``(b,)`` of two vectors ``(n,)``."""
        return (x @ y)[None] if len(self) == 1 else self.sum(x * y)

    def mean(self, values: Tensor) -> Tensor:
        """``(b, ...)``."""
        return self.sum(values) / self.counts.view(-1, *[1] * (values.ndim - 1))

    def median(self, values: Tensor) -> Tensor:
        """``(b,)`` of ``values (n,)``; of an even number of points the lower of the two in the
        middle.
        """
        return self.padded(values, torch.nan).nanmedian(1).values

    def spread(self, numbers: Tensor) -> Tensor:
        """A number ``(b, ...)`` per cloud at all of its points."""
        if len(self) == 1:
            return numbers.expand(self.sizes[0], *numbers.shape[1:])
        return numbers.index_select(0, self.owner)

    def parts(self, components: tuple[int, Tensor]) -> list[int]:
        """How many components every cloud has, of all and their labels ``(n,)``; a warning where
        there are several.
        """
        total, labels = components  # which ascend from cloud to cloud
        counts = [b - a for a, b in pairwise([*labels[self.first].tolist(), total])]
        for size, count in zip(self.sizes, counts, strict=True):
            if count > 1:
                about = f"a cloud of {size} points has {count} separate parts"
                warn(f"{about}: {count} eigenvalues are 0, the constant's included")
        return counts


def framed(points: Tensor, each: Segments) -> tuple[Tensor, list[Frame], Tensor]:
    """Stacked points ``(n, d)``, every cloud in its own frame, these frames, and their scales
    ``(b,)``.
    """
    centre = each.mean(points)
    points = points - each.spread(centre)
    scale = each.padded(points.square().sum(1)).amax(1).sqrt()
    frames = [Frame(c, s) for c, s in zip(centre, scale.tolist(), strict=True)]
    return (
        points / each.spread(scale.clamp_min(torch.finfo(points.dtype).tiny))[:, None],
        frames,
        scale,
    )


def memory_order(matrix: Tensor, points: Tensor | None = None) -> Tensor | None:
    """An order of the rows that keeps neighbours close in memory, or ``None`` where it would not
    pay.
    """
    if matrix.shape[0] < REORDER:
        return None
    if points is not None and points.shape[1] <= 3:
        return morton_order(points)
    if matrix.device.type != "cpu":
        return None
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    return torch.from_numpy(
        reverse_cuthill_mckee(as_scipy(matrix), symmetric_mode=True).astype(np.int64)
    )


def morton_order(points: Tensor) -> Tensor:
    """The order of the points along a Z-shaped space-filling curve; ``points (n, d)``, d at most
    3.
    """
    bits = 20
    low = points.amin(0)
    extent = (points.amax(0) - low).amax().clamp_min(torch.finfo(points.dtype).tiny)
    cells = ((points - low) / extent * (2**bits - 1)).to(torch.int64)
    # Spread the 20 bits of every coordinate to each third bit of one 60-bit key.
    masks = (
        0x1F00000000FFFF,
        0x1F0000FF0000FF,
        0x100F00F00F00F00F,
        0x10C30C30C30C30C3,
        0x1249249249249249,
    )
    for shift, mask in zip((32, 16, 8, 4, 2), masks, strict=True):
        cells = (cells | (cells << shift)) & mask
    key = cells[:, 0].clone()
    for axis in range(1, points.shape[1]):
        key |= cells[:, axis] << axis
    return key.argsort(stable=True)  # copies stay in their order


def as_scipy(matrix: Tensor) -> Any:
    """The same CSR matrix as a scipy array with 32-bit indices, on the host over the same
    memory.
    """
    from scipy.sparse import csr_array

    parts = [
        part.cpu().numpy()
        for part in (matrix.values(), matrix.col_indices(), matrix.crow_indices())
    ]
    small = np.int32 if len(parts[1]) < 2**31 else np.int64
    return csr_array(
        (parts[0], *(part.astype(small, copy=False) for part in parts[1:])),
        shape=tuple(matrix.shape),
    )


BATCH = 16384  # cuSOLVER fails on much longer batches


def principal_axes(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues ``(n, d)``, ascending, and eigenvectors ``(n, d, d)`` of symmetric matrices ``(n,
    d, d)``.
    """
    d = matrices.shape[-1]
    at_once = matrices.device.type != "cpu" and len(matrices) <= BATCH  # or a hundred launches
    if d not in (2, 3) or at_once:
        found = [torch.linalg.eigh(part) for part in matrices.split(BATCH)]
        return torch.cat([values for values, _ in found]), torch.cat(
            [vectors for _, vectors in found]
        )
    scale = matrices.abs().amax((1, 2)).clamp_min_(torch.finfo(matrices.dtype).tiny)
    a = matrices.permute(1, 2, 0).contiguous() / scale  # (d, d, n): every number of all matrices
    if d == 2:
        values, axes = _pair(a, *torch.eye(2, dtype=a.dtype, device=a.device)[..., None])
    else:
        outer, largest = _outermost(a)
        x, y, z = outer
        first = torch.where(
            x.abs() > y.abs(), torch.stack([-z, 0 * x, x]), torch.stack([0 * x, z, -y])
        )
        first = first / first.square().sum(0).sqrt()
        values, axes = _pair(a, first, _cross(outer, first))
        own = (outer * (a * outer).sum(1)).sum(0)
        values, axes = (
            torch.where(largest, torch.cat([pair, one[None]]), torch.cat([one[None], pair]))
            for pair, one in ((values, own), (axes, outer))
        )
    return (values * scale).mT, axes.permute(2, 1, 0)


def canonical_pose(points: Tensor, mass: Tensor) -> Tensor:
    """`(b, 4, 3)` such that `[x, 1] @ pose` is centred, on principal axes (largest first, skew
    positive), of rms 1.

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


def _pair(a: Tensor, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """The two eigenvalues ``(2, n)``, ascending, and vectors ``(2, d, n)`` in the planes of ``p``
    and ``q``.
    """
    image, other = (a * p).sum(1), (a * q).sum(1)
    here, off, there = (p * image).sum(0), 2 * (p * other).sum(0), (q * other).sum(0)
    apart = there - here
    # The smaller root of t^2 + (apart / a_pq) t - 1 = 0; 0 where there is nothing to do.
    root = torch.hypot(apart, off).copysign_(apart).add_(apart)
    t = torch.where(root == 0, torch.sign(off), off / root)
    c, change = t.square().add_(1).rsqrt_(), t * off / 2
    s = t * c
    values = torch.stack([here - change, there + change])
    axes = torch.stack([c * p - s * q, s * p + c * q])  # (2, d, n)
    ascending = values[0] <= values[1]
    return torch.where(ascending, values, values.flip(0)), torch.where(
        ascending, axes, axes.flip(0)
    )


def _outermost(a: Tensor) -> tuple[Tensor, Tensor]:
    """The unit eigenvector ``(3, n)`` whose eigenvalue is farthest from the others, and whether it
    is the largest.
    """
    k = a.clone()
    k.diagonal().sub_(k.diagonal().mean(1, keepdim=True))
    p = k.square().sum((0, 1)).div_(6).sqrt_()
    k /= p.clamp_min(torch.finfo(p.dtype).tiny)
    half = (k[0] * _cross(k[1], k[2])).sum(0).div_(2).clamp_(-1, 1)
    largest, angle = half >= 0, half.acos() / 3
    k.diagonal().sub_(2 * torch.where(largest, angle, angle + 2 * math.pi / 3).cos()[:, None])
    found = _cross(k, k.roll(-1, 0), 1)  # of every two rows
    length = found.square().sum(1)
    longest, place = length.max(0)
    vector = found.gather(0, place.expand(1, 3, -1))[0]
    return vector / longest.sqrt_(), largest


def _cross(x: Tensor, y: Tensor, dim: int = 0) -> Tensor:
    if x.device.type != "cpu":
        return torch.linalg.cross(x, y, dim=dim)  # on a processor three times slower than products
    (a, b, c), (d, e, f) = x.unbind(dim), y.unbind(dim)
    products = ((b * f, c, e), (c * d, a, f), (a * e, b, d))
    return torch.stack([torch.addcmul(one, *two, value=-1) for one, *two in products], dim)
