"""Graph -> smoother for embeddings: neighbours weighted by distance and by how many neighbours they share.

    p_ij = exp(-(d_ij - rho_i)/s_i)     rho_i: nearest distance;  s_i such that  sum_j p_ij = log2 k
    J_ij = |N[i] & N[j]| / |N[i] | N[j]|       N[i]: the k neighbours of i, and i itself
    w_ij = max(p_ij, p_ji) J_ij,   A = (I + R^-1/2 W R^-1/2)/2,   M = R / sum R

In hundreds of dimensions distances say little and a few points (hubs) are near everything. A scale of its own at every
point levels the density, and shared neighbours discount the hubs. The density is not divided out (alpha = 0): it
carries cluster information. Edges never vanish, since i and j are both in N[i] and N[j] wherever they are joined.

Outside the cloud: the same p and J towards the k nearest fitted points, v(x) = sum_j w_j v_j / (mu sum_j w_j).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from ..graph.dimension import estimate_dimension
from ..graph.neighbours import Graph
from .smoother import Smoother, symmetric_matrix

ROUNDS = 40  # bisection steps for the scales
SMALLEST_SCALE = 1e-3  # of the mean distance: where many points coincide
LEAST_FACTOR = 0.1  # Nystrom divides by mu, which must not blow noise up
SPARE = 6  # candidates beyond k, so that rounding in the search cannot change the neighbours of a point
SAME = 1e-5  # relative distance below which a new point is a fitted one
CHUNK = 1 << 14  # edges or rows at once


def neighbourhood_smoother(graph: Graph) -> Smoother:
    """The smoother of a Euclidean graph without self-loops; ``A`` has eigenvalues in [0, 1]."""
    if graph.self_loops:
        graph = Graph(graph.points, graph.indices[:, 1:], graph.distances[:, 1:], graph.metric)
    n, k = graph.n, graph.k
    directed = fuzzy_weights(graph.distances)
    rows = torch.arange(n, device=graph.device)[:, None].expand(n, k)
    key = (torch.minimum(rows, graph.indices) * n + torch.maximum(rows, graph.indices)).reshape(-1)
    key, place = torch.unique(key, return_inverse=True)
    head, tail = key // n, key % n
    weight = torch.zeros(key.shape, dtype=directed.dtype, device=graph.device)
    weight.scatter_reduce_(0, place, directed.reshape(-1), "amax")
    distance = torch.zeros_like(weight)
    distance[place] = graph.distances.reshape(-1)  # both ends give the same distance
    closed = closed_neighbours(graph.indices)
    for edges in torch.arange(len(head), device=graph.device).split(CHUNK):
        common = shared(closed[head[edges]], closed[tail[edges]]).to(weight.dtype)
        weight[edges] *= common / (2 * (k + 1) - common)
    degree = torch.zeros(n, dtype=weight.dtype, device=graph.device)
    degree = degree.index_add_(0, head, weight).index_add_(0, tail, weight)
    dimension = estimate_dimension(graph)
    time = float((weight * distance.square()).sum() / degree.sum() / (2 * dimension))
    if not time > 0:
        raise InputError("all rows are equal: there is nothing to embed")
    off = weight * (degree[head] * degree[tail]).rsqrt() / 2
    matrix = symmetric_matrix(head, tail, off, torch.full_like(degree, 0.5))
    return Smoother("neighbourhood", matrix, graph, degree / degree.sum(), time, dimension)


def fuzzy_weights(distances: Tensor) -> Tensor:
    """``exp(-(d - rho)/s)`` with ``s`` by bisection, for ascending distances ``(n, k)``."""
    k = distances.shape[1]
    beyond = distances - distances[:, :1]
    target = torch.log2(torch.tensor(float(max(k, 2)), dtype=distances.dtype, device=distances.device))
    floor = SMALLEST_SCALE * distances.mean(1, keepdim=True).clamp_min(torch.finfo(distances.dtype).tiny)
    low, high = floor, beyond.amax(1, keepdim=True).clamp_min(floor) * 64
    for _ in range(ROUNDS):
        scale = (low * high).sqrt()
        many = torch.exp(-beyond / scale).sum(1, keepdim=True) > target
        low, high = torch.where(many, low, scale), torch.where(many, scale, high)
    return torch.exp(-beyond / (low * high).sqrt())


def closed_neighbours(indices: Tensor) -> Tensor:
    """``N[i]``: the point itself and its neighbours, ``(n, k + 1)``."""
    own = torch.arange(indices.shape[0], device=indices.device)[:, None]
    return torch.cat([own, indices], 1)


def shared(left: Tensor, right: Tensor) -> Tensor:
    """How many entries two lists of distinct indices have in common; ``(..., a), (..., b) -> (...)``."""
    return (left.unsqueeze(-1) == right.unsqueeze(-2)).sum((-1, -2))
