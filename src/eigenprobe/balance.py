"""Balanced weights: a sparse symmetric operator on a cloud of low dimension that is exact for linear functions.

Each point keeps its nearest neighbours up to the first count at which they surround it, so the stencil is as small as
the sampling allows (6 to 8 neighbours on an even cloud, more where it is irregular, and few ties across thin parts).
Every edge gets a geodesic length (a chord that leaves the tangent plane at angle asin(s) spans an arc longer by
asin(s)/s) and a direction in the tangent frame of either end, l_ij = log_i(x_j).  Starting weights

    w_ij = |l_ij|^(dim-2) (1 + |l_ij|^2 / (2 c h_i h_j))^-2        h: local spacing

are then changed as little as possible, min sum (w' - w)^2 / w, so that at every interior point

    sum_j w_ij l_ij = 0                                            "balance"

which makes coordinate functions harmonic: the property that gives the cotangent Laplacian its accuracy, here without a
mesh and in any dimension.  The dual system has one dim-vector a point and is well conditioned (each equation involves
the edges of one point only), so a few conjugate-gradient steps solve it.  Near a boundary the direction across it stays
free.  The mass is the local time, m_i = sum_j w_ij |l_ij|^2 / (2 dim), and the operator M^-1 (R - W) is in the units of
the input with nothing to calibrate.  Arrays: e edges, (e, dim) directions; n points, (n, dim) dual variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

FEWEST, MOST, UNBALANCED = 7, 16, 10  # neighbours a point keeps: least, most, and where it is never surrounded
SURROUNDED = 0.35  # |mean tangential direction| up to which the neighbours surround a point
BOUNDARY = 0.5  # |mean offset| / mean distance of the wide neighbourhood: 0.64 on a straight boundary, 0 inside
BANDWIDTH = 1.0  # c above
STEEPEST = 0.8  # sine of the angle beyond which an edge says nothing about an arc
RIDGE = 1e-2  # how softly balance is imposed, relative to the second moment of the point
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
    frames = tangent_frames(offsets[:, :UNBALANCED], distances[:, :UNBALANCED], dimension)
    keep = _surrounding(offsets, distances, frames)
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

    floor = (0.1 * spread).to(length2.dtype)  # pairs much closer than the spacing must not dominate in one dimension
    weight = torch.maximum(length2, floor) ** ((dimension - 2) / 2) * (1 + length2 / (2 * BANDWIDTH * spread)) ** -2
    crossing = _boundary_direction(offsets, distances, frames)
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
        return torch.linalg.eigh(weighted.mT @ weighted).eigenvectors[..., -dimension:]
    left = torch.linalg.eigh(weighted @ weighted.mT).eigenvectors[..., -dimension:]  # d > k: the small Gram matrix
    frames = weighted.mT @ left
    return frames / frames.norm(dim=1, keepdim=True).clamp_min(torch.finfo(frames.dtype).tiny)


def _spacing(indices: Tensor, distances: Tensor) -> Tensor:
    """Root mean square distance to the nearest six, averaged (in the logarithm) over the point and those six."""
    few = min(6, indices.shape[1])
    own = distances[:, :few].square().mean(1).sqrt().log()
    return ((own + own[indices[:, :few]].sum(1)) / (few + 1)).exp()


def _surrounding(offsets: Tensor, distances: Tensor, frames: Tensor) -> Tensor:
    """Which neighbours each point keeps (n, k): the shortest prefix whose mean tangential direction is small."""
    most = min(MOST if frames.shape[2] > 1 else offsets.shape[1], offsets.shape[1])
    few = min(FEWEST, most)
    otherwise = min(UNBALANCED, most) if frames.shape[2] > 1 else most  # on a curve a wide gap hides the other side
    directions = (offsets[:, :most] @ frames) / distances[:, :most, None].clamp_min(torch.finfo(offsets.dtype).tiny)
    count = torch.arange(1, most + 1, device=offsets.device)
    surrounded = directions.cumsum(1).norm(dim=2) <= SURROUNDED * count
    surrounded[:, : few - 1] = False
    first = torch.where(surrounded.any(1), surrounded.int().argmax(1) + 1, otherwise)
    keep = torch.zeros(offsets.shape[:2], dtype=torch.bool, device=offsets.device)
    keep[:, :most] = count <= first[:, None]
    return keep


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
    count, labels = connected_components(coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(n, n)), directed=False)
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
    return torch.linalg.eigh(second / size[:, None, None]).eigenvectors[..., -dimension:]


def _logarithm(chord: Tensor, chord2: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
    """Tangential direction of each edge with the length of its arc, (e, dim), and that length squared, (e,)."""
    flat = (chord[:, None] @ frames)[:, 0]
    flat2 = flat.square().sum(1)
    sine = (1 - flat2 / chord2).clamp(1e-8, STEEPEST**2).sqrt()
    length2 = chord2 * (torch.asin(sine) / sine).square()
    return flat * (length2 / flat2.clamp_min(1e-12 * chord2)).sqrt()[:, None], length2


def _boundary_direction(offsets: Tensor, distances: Tensor, frames: Tensor) -> Tensor:
    """Unit inward direction (n, dim) at points near a boundary, zero elsewhere."""
    mean = (offsets @ frames).mean(1)
    size = mean.norm(dim=1)
    near = size > BOUNDARY * distances.mean(1)
    return torch.where(near[:, None], mean / size.clamp_min(torch.finfo(mean.dtype).tiny)[:, None], 0.0)


def _balance(
    weight: Tensor, forward: Tensor, backward: Tensor, length2: Tensor, head: Tensor, tail: Tensor, crossing: Tensor
) -> Tensor:
    n, dimension = crossing.shape
    moment = weight * length2
    scale = ((_sum_at(moment, head, n) + _sum_at(moment, tail, n)) / dimension).rsqrt()
    forward, backward = forward * scale[head, None], backward * scale[tail, None]

    def free(t: Tensor) -> Tensor:
        return t - crossing * (crossing * t).sum(1, keepdim=True)

    def imbalance(w: Tensor) -> Tensor:  # B w
        return free(_sum_at(w[:, None] * forward, head, n) + _sum_at(w[:, None] * backward, tail, n))

    def spread(t: Tensor) -> Tensor:  # B^T t
        t = free(t)
        return (t[head] * forward).sum(1) + (t[tail] * backward).sum(1)

    for _ in range(ROUNDS):
        residual = -imbalance(weight)
        dual, direction = torch.zeros_like(residual), residual.clone()
        size = residual.square().sum()
        target = TOLERANCE**2 * size
        for _ in range(STEPS):
            if not bool(size > target):
                break
            image = imbalance(weight * spread(direction)) + RIDGE * direction
            step = size / (direction * image).sum()
            dual += step * direction
            residual -= step * image
            size, before = residual.square().sum(), size
            direction = residual + size / before * direction
        weight = weight * (1 + spread(dual)).clamp_min(LEAST_FACTOR)
    return weight


def _sum_at(values: Tensor, index: Tensor, n: int) -> Tensor:
    return torch.zeros((n, *values.shape[1:]), dtype=values.dtype, device=values.device).index_add_(0, index, values)
