"""Balanced weights: a sparse symmetric operator on a cloud of low dimension that is exact for linear functions.

Each point keeps its nearest neighbours up to the first count at which they surround it, so the stencil is as small as
the sampling allows (6 to 8 neighbours on an even cloud, more where it is irregular, and few ties across thin parts).
Every edge gets a geodesic length (a chord that leaves the tangent plane at angle asin(s) spans an arc longer by
asin(s)/s) and a direction in the tangent frame of either end, l_ij = log_i(x_j).  Starting weights

    w_ij = |l_ij|^(dim-2) (1 + |l_ij|^2 / (2 c h_i h_j))^-2        h: local spacing

(on a curve simply 1/|l_ij| to the nearest on either side) are then changed as little as possible,
min sum (w' - w)^2 / w, so that at every interior point

    sum_j w_ij l_ij = 0                                            "balance"

which makes coordinate functions harmonic: the property that gives the cotangent Laplacian its accuracy, here without a
mesh and in any dimension.  On surfaces the second moments are drawn towards roundness as well, sum_j w_ij l_ij l_ij^T
towards a multiple of the identity: neighbours closer in one direction than in the other would otherwise make the
operator anisotropic.  The dual system has one dim-vector a point and is well conditioned (each equation involves
the edges of one point only), so a few conjugate-gradient steps solve it.  Near a boundary the direction across it stays
free.  The mass is the local time, m_i = sum_j w_ij |l_ij|^2 / (2 dim), and the operator M^-1 (R - W) is in the units of
the input with nothing to calibrate.  Arrays: e edges, (e, dim) directions; n points, (n, dim) dual variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

STENCIL = {2: (7, 16, 10), 3: (16, 28, 18)}  # neighbours a point keeps: least, most, and where never surrounded
SURROUNDED = 0.35  # |mean tangential direction| up to which the neighbours surround a point
OUTSIDE, FEW_OUTSIDE = -0.35, 0.03  # cosine with the inward direction, and the share of neighbours beyond it that
#   tells a boundary: about a third inside, none at the boundary, whatever the density does
BANDWIDTH = 2.0  # c above
STEEPEST = 0.8  # sine of the angle beyond which an edge says nothing about an arc
RIDGE, ROUND_RIDGE = 1e-2, 2.0  # how softly balance and roundness are imposed, relative to the moments of the point
ROUNDS, STEPS, TOLERANCE = 3, 30, 1e-2  # Newton rounds, conjugate-gradient steps in each, relative residual
LEAST_FACTOR = 0.3  # a weight loses at most this factor in a round, so it stays positive


@dataclass(frozen=True)
class Edges:
    """Undirected weighted edges ``head < tail`` with squared lengths, and the mass they induce (unnormalised)."""

    head: Tensor  # (e,)
    tail: Tensor  # (e,)
    weight: Tensor  # (e,)
    length2: Tensor  # (e,)
    mass: Tensor  # (n,)


def balanced_edges(points: Tensor, indices: Tensor, distances: Tensor, dimension: int) -> Edges:
    """Balanced weights on the cloud ``points (n, d)`` with its neighbours ``(n, k)``, self excluded, ascending."""
    n = points.shape[0]
    offsets = points[indices] - points[:, None]  # (n, k, d)
    spacing = _spacing(indices, distances)
    frames = tangent_frames(offsets[:, :10], distances[:, :10], dimension)
    keep = _surrounding(offsets, distances, frames) if dimension > 1 else _adjacent(offsets, frames)
    head, tail = _undirected(indices, keep, n)

    chord = points[tail] - points[head]
    chord2 = chord.square().sum(1)
    spread = spacing[head] * spacing[tail]
    if dimension < points.shape[1]:
        frames = _edge_frames(chord, head, tail, torch.exp(-chord2 / (2 * spread)), n, dimension, frames)
        forward, ahead = _logarithm(chord, chord2, frames[head])
        backward, behind = _logarithm(-chord, chord2, frames[tail])
        length2 = (ahead + behind) / 2
    else:
        forward, backward, length2 = chord, -chord, chord2
        frames = torch.eye(dimension, dtype=points.dtype, device=points.device).expand(n, dimension, dimension)

    if dimension == 1:
        weight = length2.rsqrt()
    else:
        weight = length2 ** ((dimension - 2) / 2) * (1 + length2 / (2 * BANDWIDTH * spread)) ** -2
        crossing = _boundary_direction(offsets, frames)
        weight = _balance(weight, forward, backward, length2, head, tail, crossing)
    moment = weight * length2
    mass = _sum_at(moment, head, n) + _sum_at(moment, tail, n)
    return Edges(head, tail, weight, length2, mass / (2 * dimension))


def tangent_frames(offsets: Tensor, distances: Tensor, dimension: int) -> Tensor:
    """Orthonormal tangent frames ``(n, d, dim)``: local principal directions of ``offsets (n, k, d)``."""
    scale = distances[:, -1:].clamp_min(torch.finfo(distances.dtype).tiny)
    weighted = offsets * torch.exp(-(distances / scale).square() / 2)[..., None] / scale[..., None]
    k, d = offsets.shape[1:]
    if d <= k:
        return principal(weighted.mT @ weighted, dimension)
    left = principal(weighted @ weighted.mT, dimension)  # d > k: the small Gram matrix
    frames = weighted.mT @ left
    return frames / frames.norm(dim=1, keepdim=True).clamp_min(torch.finfo(frames.dtype).tiny)


def principal(matrices: Tensor, count: int) -> Tensor:
    """Leading eigenvectors (n, d, count) of many small symmetric matrices (n, d, d)."""
    parts = matrices.split(16384)  # cuSOLVER fails on much longer batches
    return torch.cat([torch.linalg.eigh(part).eigenvectors[..., -count:] for part in parts])


def _spacing(indices: Tensor, distances: Tensor) -> Tensor:
    """Root mean square distance to the nearest six, averaged (in the logarithm) over the point and those six."""
    few = min(6, indices.shape[1])
    own = distances[:, :few].square().mean(1).sqrt().log()
    return ((own + own[indices[:, :few]].sum(1)) / (few + 1)).exp()


def _surrounding(offsets: Tensor, distances: Tensor, frames: Tensor) -> Tensor:
    """Which neighbours each point keeps (n, k): the shortest prefix whose mean tangential direction is small."""
    few, most, otherwise = (min(count, offsets.shape[1]) for count in STENCIL[frames.shape[2]])
    directions = (offsets[:, :most] @ frames) / distances[:, :most, None].clamp_min(torch.finfo(offsets.dtype).tiny)
    count = torch.arange(1, most + 1, device=offsets.device)
    surrounded = directions.cumsum(1).norm(dim=2) <= SURROUNDED * count
    surrounded[:, : few - 1] = False
    first = torch.where(surrounded.any(1), surrounded.int().argmax(1) + 1, otherwise)
    keep = torch.zeros(offsets.shape[:2], dtype=torch.bool, device=offsets.device)
    keep[:, :most] = count <= first[:, None]
    return keep


def _adjacent(offsets: Tensor, frames: Tensor) -> Tensor:
    """On a curve, the nearest neighbour on either side: weights 1/length are then balanced as they stand."""
    side = (offsets @ frames)[..., 0]  # (n, k)
    ahead, behind = side > 0, side < 0
    return (ahead & (ahead.cumsum(1) == 1)) | (behind & (behind.cumsum(1) == 1))


def _undirected(indices: Tensor, keep: Tensor, n: int) -> tuple[Tensor, Tensor]:
    rows = torch.arange(n, device=indices.device)[:, None].expand_as(indices)[keep]
    columns = indices[keep]
    key = torch.unique(torch.minimum(rows, columns) * n + torch.maximum(rows, columns))
    head, tail = key // n, key % n
    count, labels = components(head, tail, n)
    if count > 1:  # a gap wider than the kept stencils: bridge it by whatever the whole graph offers
        crossing = labels[:, None] != labels[indices]
        if bool(crossing.any()):
            return _undirected(indices, keep | crossing, n)
    return head, tail


def components(head: Tensor, tail: Tensor, n: int) -> tuple[int, Tensor]:
    """The number of connected components of a graph given by its edges, and the label of every point."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = (head.cpu().numpy(), tail.cpu().numpy())
    count, labels = connected_components(
        coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(n, n)), directed=False
    )
    return int(count), torch.from_numpy(labels).to(head.device)


def _edge_frames(
    chord: Tensor, head: Tensor, tail: Tensor, weight: Tensor, n: int, dimension: int, fallback: Tensor
) -> Tensor:
    """Frames from the kept edges alone: the covariance of the neighbours about their own mean, (n, d, dim)."""
    d = chord.shape[1]
    if d > 8:
        return fallback  # d x d moments a point would be the largest array of all
    outer = (weight[:, None, None] * chord[:, :, None] * chord[:, None, :]).reshape(-1, d * d)
    second = (_sum_at(outer, head, n) + _sum_at(outer, tail, n)).reshape(n, d, d)
    first = _sum_at(weight[:, None] * chord, head, n) - _sum_at(weight[:, None] * chord, tail, n)
    total = _sum_at(weight, head, n) + _sum_at(weight, tail, n)
    second = second - first[:, :, None] * first[:, None, :] / total[:, None, None]
    size = second.diagonal(dim1=1, dim2=2).sum(1).clamp_min(torch.finfo(second.dtype).tiny)
    return principal(second / size[:, None, None], dimension)


def _logarithm(chord: Tensor, chord2: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
    """Tangential direction of each edge with the length of its arc, (e, dim), and that length squared, (e,)."""
    flat = (chord[:, None] @ frames)[:, 0]
    flat2 = flat.square().sum(1)
    sine = (1 - flat2 / chord2).clamp(1e-8, STEEPEST**2).sqrt()
    length2 = chord2 * (torch.asin(sine) / sine).square()
    return flat * (length2 / flat2.clamp_min(1e-12 * chord2)).sqrt()[:, None], length2


def _boundary_direction(offsets: Tensor, frames: Tensor) -> Tensor:
    """Unit inward direction (n, dim) at points that have next to no neighbours on its other side, zero elsewhere."""
    tiny = torch.finfo(offsets.dtype).tiny
    flat = offsets @ frames
    inward = flat.mean(1)
    inward = inward / inward.norm(dim=1, keepdim=True).clamp_min(tiny)
    cosine = (flat @ inward[:, :, None])[..., 0] / flat.norm(dim=2).clamp_min(tiny)
    outside = (cosine < OUTSIDE).to(offsets.dtype).mean(1)
    return torch.where((outside < FEW_OUTSIDE)[:, None], inward, 0.0)


def _balance(
    weight: Tensor, forward: Tensor, backward: Tensor, length2: Tensor, head: Tensor, tail: Tensor, crossing: Tensor
) -> Tensor:
    """Newton rounds on the dual: (B W B^T + ridge) t = -B w,  w <- w (1 + B^T t);  row i of B holds point i's edges."""
    n, dimension = crossing.shape
    moment = weight * length2
    total = _sum_at(moment, head, n) + _sum_at(moment, tail, n)
    scale = (total / dimension).rsqrt()
    ahead, behind = (
        _free(forward * scale[head, None], crossing[head]),
        _free(backward * scale[tail, None], crossing[tail]),
    )
    ridge = weight.new_full((dimension,), RIDGE)
    if dimension == 2:
        quartic = moment * length2
        scale = total / (_sum_at(quartic, head, n) + _sum_at(quartic, tail, n)).clamp_min(
            torch.finfo(weight.dtype).tiny
        )
        scale = scale.sqrt() * (total / dimension).rsqrt() * (crossing == 0).all(1)  # free at the boundary
        ahead = torch.cat([ahead, _traceless(forward) * scale[head, None]], 1)
        behind = torch.cat([behind, _traceless(backward) * scale[tail, None]], 1)
        ridge = torch.cat([ridge, weight.new_full((2,), ROUND_RIDGE)])
    edges = _Incidence(ahead, behind, head, tail, n)
    ridge = ridge.repeat(n)
    for _ in range(ROUNDS):
        dual = _conjugate_gradients(edges, weight, ridge, -(edges.scatter @ weight))
        weight = weight * (1 + edges.gather @ dual).clamp_min(LEAST_FACTOR)
    return weight


def _traceless(t: Tensor) -> Tensor:
    """The part of ``t t^T`` that is not round, for planar ``t (e, 2)``: ``x^2 - y^2`` and ``2 x y``."""
    return torch.stack([t[:, 0].square() - t[:, 1].square(), 2 * t[:, 0] * t[:, 1]], dim=1)


def _free(t: Tensor, crossing: Tensor) -> Tensor:
    return t - crossing * (crossing * t).sum(1, keepdim=True)


class _Incidence:
    """``B (n dim, e)`` and its transpose, sparse: one column an edge, its directions at both ends.

    The dual matrix ``B W B^T`` is applied as a product of the two; assembled it would have twice their entries.
    """

    def __init__(self, forward: Tensor, backward: Tensor, head: Tensor, tail: Tensor, n: int) -> None:
        count, dimension = forward.shape
        within = torch.arange(dimension, device=head.device)
        ends = torch.cat([head[:, None] * dimension + within, tail[:, None] * dimension + within], 1)
        columns, values = ends.reshape(-1).int(), torch.cat([forward, backward], 1).reshape(-1)
        pointers = torch.arange(0, len(columns) + 1, 2 * dimension, device=head.device).int()
        self.gather = self._csr(pointers, columns, values, (count, n * dimension))  # B^T
        if head.device.type == "cpu":  # a counting sort
            from scipy.sparse import csr_array

            flipped = csr_array((values.numpy(), columns.numpy(), pointers.numpy()), shape=self.gather.shape).tocsc()
            parts = [torch.from_numpy(part) for part in (flipped.indptr, flipped.indices, flipped.data)]
        else:
            order = torch.argsort(columns, stable=True)
            counts = torch.bincount(columns, minlength=n * dimension).cumsum(0)
            parts = [torch.cat([counts.new_zeros(1), counts]).int(), (order // (2 * dimension)).int(), values[order]]
        self.scatter = self._csr(parts[0], parts[1], parts[2], (n * dimension, count))  # B

    @staticmethod
    def _csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
        return torch.sparse_csr_tensor(pointers, columns, values, shape, check_invariants=False)


def _conjugate_gradients(edges: _Incidence, weight: Tensor, ridge: Tensor, right: Tensor) -> Tensor:
    solution, residual, direction = torch.zeros_like(right), right, right
    size = right @ right
    target = TOLERANCE**2 * size
    for _ in range(STEPS):
        if not bool(size > target):
            break
        image = torch.addcmul(edges.scatter @ (weight * (edges.gather @ direction)), ridge, direction)
        step = size / (direction @ image)
        solution = solution + step * direction
        residual = residual - step * image
        size, before = residual @ residual, size
        direction = residual + size / before * direction
    return solution


def _sum_at(values: Tensor, index: Tensor, n: int) -> Tensor:
    return torch.zeros((n, *values.shape[1:]), dtype=values.dtype, device=values.device).index_add_(0, index, values)
