"""One Gaussian for the whole cloud.

    row         S = D^-1 W,   w_ij = exp(-d_ij^2 / sigma^2) on the directed graph     [P]
                d_ij in the metric of the graph, cosine distances too
    symmetric   W <- max(W, W^T),   W <- D^-alpha W D^-alpha,
                A = R^-1/2 W R^-1/2,   M = R / sum R                       [Coifman, Lafon 2006]

sigma is the median distance to the tenth neighbour unless it is given.
"""

import torch
from torch import Tensor

from ..errors import InputError
from ..neighbors.graph import Graph, undirected
from .smoother import RowSmoother, Smoother, csr, symmetric_matrix

TENTH = 10  # the neighbour whose median distance is sigma: [P] uses 10 to 15 neighbours


def row_smoother(graph: Graph, bandwidth: float | None, dimension: float) -> RowSmoother:
    """The paper's directed average ``S``."""
    squared, n = graph.distances.square(), graph.n
    # The nearest neighbour has weight 1 before normalisation, so that no row underflows to 0 / 0.
    nearest = squared[:, :1] if not graph.self_loops else torch.zeros_like(squared[:, :1])
    weight = torch.exp(-(squared - nearest) / _sigma2(graph, squared, bandwidth))
    weight = weight / weight.sum(1, keepdim=True)
    time = float((weight * graph.squared).sum(1).mean() / (2 * dimension))
    pointers = torch.arange(0, n * graph.k + 1, graph.k, device=graph.device)
    columns, order = graph.indices.sort(1)
    matrix = csr(pointers, columns.reshape(-1), weight.gather(1, order).reshape(-1), (n, n))
    return RowSmoother("row", matrix, graph, torch.full_like(weight[:, 0], 1 / n), time, dimension)


def symmetric_smoother(
    graph: Graph, bandwidth: float | None, dimension: float, alpha: float = 1.0
) -> Smoother:
    """The symmetrised kernel; ``alpha`` is the power of the density that is divided out."""
    sigma2, n = _sigma2(graph, graph.squared, bandwidth), graph.n
    bare = graph.without_loops()
    edges, place = undirected(bare.indices)
    squared = torch.zeros(len(edges), dtype=bare.distances.dtype, device=graph.device)
    squared[place] = bare.squared.reshape(-1)  # both ends give the same distance
    weight = torch.exp(-squared / sigma2).clamp_min(torch.finfo(squared.dtype).tiny ** 0.25)
    loops = torch.full((n,), float(graph.self_loops), dtype=weight.dtype, device=weight.device)
    density = (edges.at(weight) + loops) ** -alpha
    weight, loops = weight * density[edges.head] * density[edges.tail], loops * density.square()
    degree = edges.at(weight) + loops
    time = float(2 * (weight * squared).sum() / degree.sum() / (2 * dimension))
    off = weight * (degree[edges.head] * degree[edges.tail]).rsqrt()
    matrix = symmetric_matrix(edges, off, loops / degree)
    return Smoother("symmetric", matrix, graph, degree / degree.sum(), time, dimension)


def _sigma2(graph: Graph, squared: Tensor, bandwidth: float | None) -> Tensor:
    tenth = squared[:, min(TENTH - 1 + graph.self_loops, graph.k - 1)].median()
    sigma2 = (
        tenth
        if bandwidth is None
        else torch.tensor(bandwidth**2, dtype=squared.dtype, device=squared.device)
    )
    if not bool(sigma2 > 0):
        raise InputError("the bandwidth chosen from the data is zero: most points coincide")
    return sigma2
