"""Graph -> smoother for embeddings: neighbours weighted by distance and by how many neighbours they share.

    p_ij = exp(-(d_ij - rho_i)/s_i)     rho_i: nearest distance;  s_i such that  sum_j p_ij = log2 k
    J_ij = |N[i] & N[j]| / |N[i] | N[j]|       N[i]: the k neighbours of i, and i itself
    w_ij = max(p_ij, p_ji) J_ij,   A = (I + R^-1/2 W R^-1/2)/2,   M = R / sum R
    step_time = sum_i <x_i, (A^t - A^(t+1)) x_i>_M / dim       x_i: the coordinates, whose |gradient|^2 add up to dim

In hundreds of dimensions distances say little and a few points (hubs) are near everything. A scale of its own at every
point levels the density, and shared neighbours discount the hubs. The density is not divided out (alpha = 0): it
carries cluster information. Edges never vanish, since i and j are both in N[i] and N[j] wherever they are joined.
p is the kernel of UMAP [McInnes et al. 2018], J the weight of shared neighbours [Jarvis, Patrick 1973].

The time of a step is measured after t steps: weights as uneven as these conduct less than their mean, and the first
steps are spent on the disorder, not on the manifold.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError
from ..graph import Graph, estimate_dimension, undirected
from .smoother import Smoother, symmetric_matrix


@dataclass(frozen=True)
class Neighbourhood:
    """Constants of the smoother of embeddings; `docs/constants.md` has their derivation or ablation."""

    rounds: int = 40  # bisection steps for the scales: 2^-40 of the range
    smallest: float = 1e-3  # smallest scale, of the mean distance: where many points coincide
    settled: int = 8  # steps after which the time of one step is measured
    directions: int = 16  # random directions that stand for the coordinates in that measurement
    block: int = 1 << 22  # neighbours compared at once


SETTINGS = Neighbourhood()


def neighbourhood_smoother(graph: Graph) -> Smoother:
    """The smoother of a Euclidean graph; ``A`` has eigenvalues in [0, 1]."""
    graph = graph.without_loops()
    edges, place = undirected(graph.indices)
    directed = fuzzy_weights(graph.distances)
    weight = torch.zeros(len(edges), dtype=directed.dtype, device=graph.device)
    weight.scatter_reduce_(0, place, directed.reshape(-1), "amax")
    closed = closed_neighbours(graph.indices)
    for part in torch.arange(len(edges), device=graph.device).split(max(1, SETTINGS.block // closed.shape[1])):
        common = count_shared(closed[edges.head[part]], closed[edges.tail[part]]).to(weight.dtype)
        weight[part] *= common / (2 * closed.shape[1] - common)
    degree = edges.at(weight)
    off = weight * (degree[edges.head] * degree[edges.tail]).rsqrt() / 2
    matrix = symmetric_matrix(edges, off, torch.full_like(degree, 0.5))
    dimension = estimate_dimension(graph)
    mass = degree / degree.sum()
    return Smoother("neighbourhood", matrix, graph, mass, _step_time(matrix, mass, graph.points, dimension), dimension)


def _step_time(matrix: Tensor, mass: Tensor, points: Tensor, dimension: float) -> float:
    """``sum_i <x_i, (A^t - A^(t+1)) x_i>_M / dim`` over random directions instead of all coordinates."""
    generator = torch.Generator().manual_seed(0)
    d, count = points.shape[1], SETTINGS.directions
    if d > count:
        turn = torch.randn((d, count), generator=generator, dtype=torch.float64) / count**0.5
        points = points @ turn.to(points)
    root = mass.sqrt()[:, None]
    x = root * (points - (mass[:, None] * points).sum(0))
    start = x
    for _ in range(SETTINGS.settled):
        x = matrix @ x
    time = float((start * (x - matrix @ x)).double().sum() / dimension)
    if not time > 0:
        raise InputError("all rows are equal: there is nothing to embed")
    return time


def fuzzy_weights(distances: Tensor) -> Tensor:
    """``exp(-(d - rho)/s)`` with ``s`` by bisection, for ascending distances ``(n, k)``."""
    k = distances.shape[1]
    beyond = distances - distances[:, :1]
    target = torch.log2(torch.tensor(float(max(k, 2)), dtype=distances.dtype, device=distances.device))
    floor = SETTINGS.smallest * distances.mean(1, keepdim=True).clamp_min(torch.finfo(distances.dtype).tiny)
    low, high = floor, beyond.amax(1, keepdim=True).clamp_min(floor) * 64
    for _ in range(SETTINGS.rounds):
        scale = (low * high).sqrt()
        many = torch.exp(-beyond / scale).sum(1, keepdim=True) > target
        low, high = torch.where(many, low, scale), torch.where(many, scale, high)
    return torch.exp(-beyond / (low * high).sqrt())


def closed_neighbours(indices: Tensor) -> Tensor:
    """``N[i]``: the point itself and its neighbours, ``(n, k + 1)``."""
    own = torch.arange(indices.shape[0], device=indices.device)[:, None]
    return torch.cat([own, indices], 1)


def count_shared(left: Tensor, right: Tensor) -> Tensor:
    """How many entries two lists of distinct indices have in common; ``(..., a), (..., b) -> (...)``."""
    shape = torch.broadcast_shapes(left.shape[:-1], right.shape[:-1])
    left = left.sort(-1).values.expand(*shape, -1).contiguous()
    right = right.expand(*shape, -1).contiguous()
    place = torch.searchsorted(left, right).clamp_max_(left.shape[-1] - 1)
    return (left.gather(-1, place) == right).sum(-1)
