"""Graph -> smoother for embeddings: neighbours weighted by distance and by how many neighbours they
share.

    p_ij = exp(-(d_ij - rho_i)/s_i)     rho_i: nearest distance;  s_i such that  sum_j p_ij = log2 k
    J_ij = |N[i] & N[j]| / |N[i] | N[j]|       N[i]: the k neighbours of i, and i itself
    w_ij = max(p_ij, p_ji) J_ij,   A = (I + R^-1/2 W R^-1/2)/2,   M = R / sum R
    step_time = (1 - delta)^4 sum_c <x_c, (I - A) x_c>_M / dim
    x_c: coordinates, whose |gradient|^2 add up to dim

In hundreds of dimensions distances say little and a few points (hubs) are near everything. A scale
of its own at every point levels the density, and shared neighbours discount the hubs. The density
is not divided out (alpha = 0): it carries cluster information. Edges never vanish, since i and j
are both in N[i] and N[j] wherever they are joined. p is the kernel of UMAP [McInnes et al. 2018], J
the weight of shared neighbours [Jarvis, Patrick 1973].

Uneven weights conduct less than their mean. delta is what a step loses to unbalanced neighbours:
the measured share |(I - A) x|^2 / <x, (I - A) x>, at most what independent random positions would
give, sum w_ij^2 d_ij^2 / r_i over sum w_ij d_ij^2 (more than that is a boundary or the edge of a
cluster). The power is measured: 3.8 to 4.7 gives the exact eigenvalues of random spheres, tori and
sheets of dimension 2 to 5 with 12 to 100 neighbours; grids have delta near 0 and need none. On a
curve everything has to pass every gap, nothing goes around it: 6.5 (30 neighbours) to 10 (12). A
cosine graph is that of the unit rows, in units of the cosine distance, half a squared length.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError
from ..neighbors.graph import NEAREST, Graph, build_graph, estimate_dimension, undirected
from ..neighbors.layout import rows_at_once
from .smoother import Smoother, symmetric_matrix


@dataclass(frozen=True)
class Neighbourhood:
    """Constants of the smoother of embeddings."""

    smallest: float = 1e-3  # smallest scale, of the mean distance: where many points coincide
    disorder: float = 4.0  # power of 1 - delta
    disorder_of_curves: float = 8.0  # the same in one dimension
    least: float = 0.1  # of 1 - delta, which is 0 for two rows: no neighbours on other sides
    directions: int = 16  # random directions that stand for the coordinates in delta


SETTINGS = Neighbourhood()


def neighbourhood_smoother(graph: Graph) -> Smoother:
    """The smoother of a graph; ``A`` has eigenvalues in [0, 1]."""
    graph = graph.without_loops()
    edges, place = undirected(graph.indices)
    directed = fuzzy_weights(graph.squared.sqrt())
    weight = torch.zeros(len(edges), dtype=directed.dtype, device=graph.device)
    weight.scatter_reduce_(0, place, directed.reshape(-1), "amax")
    own = torch.arange(graph.n, device=graph.device)[:, None]
    closed = torch.cat([own, graph.indices], 1)  # N[i]
    common = overlaps(closed, closed, edges.head, edges.tail).to(weight.dtype)
    weight *= common / (2 * closed.shape[1] - common)
    degree = edges.at(weight)
    off = weight * (degree[edges.head] * degree[edges.tail]).rsqrt() / 2
    matrix = symmetric_matrix(edges, off, torch.full_like(degree, 0.5))
    mass, chords = degree / degree.sum(), graph
    if graph.metric == "cosine":
        unit = graph.points / graph.points.norm(dim=1, keepdim=True)
        chords = Graph(unit, graph.indices, (2 * graph.distances).sqrt())
    energy = torch.empty_like(weight)
    energy[place] = graph.squared.reshape(-1)  # both ends give the same
    energy *= weight  # w_ij d_ij^2
    random = energy * weight * (1 / degree[edges.head] + 1 / degree[edges.tail])
    if not bool(energy.sum() > 0):
        raise InputError("all rows are equal: there is nothing to embed")
    delta = float(random.sum() / energy.sum() / 2)
    # otherwise there are no coordinates
    if graph.metric in ("euclidean", "cosine") and chords.points.shape[1]:
        delta = min(delta, _imbalance(matrix, mass, chords.points))
    n, d = chords.points.shape
    # In space fewer neighbours take a cube for a surface.
    if chords.metric == "euclidean" and d == 3 and chords.k < NEAREST < n:
        chords = build_graph(chords.points, NEAREST, ordered=chords.ordered)
    dimension = estimate_dimension(chords)
    kept = max(1 - delta, SETTINGS.least)
    power = SETTINGS.disorder_of_curves if round(dimension) == 1 else SETTINGS.disorder
    lost = max(kept**power, SETTINGS.least**SETTINGS.disorder)
    time = float(energy.sum() / degree.sum()) / (2 * dimension) * lost
    return Smoother("neighbourhood", matrix, graph, mass, time, dimension)


def _imbalance(matrix: Tensor, mass: Tensor, points: Tensor) -> float:
    """``|(I - A) x|^2 / <x, (I - A) x>`` over random directions instead of all coordinates."""
    d, count = points.shape[1], SETTINGS.directions
    if d > count:
        turn = torch.randn(
            (d, count), generator=torch.Generator().manual_seed(0), dtype=torch.float64
        )
        points = points @ turn.to(points)
    x = mass.sqrt()[:, None] * (points - (mass[:, None] * points).sum(0))
    step = x - matrix @ x
    energy = float((x * step).double().sum())
    rounding = 8 * torch.finfo(x.dtype).eps * float(points.abs().max())
    if not energy > x.shape[1] * rounding**2:  # masses add up to 1: however many rows there are
        raise InputError("all rows are equal: there is nothing to embed")
    return float(step.double().square().sum()) / energy


def fuzzy_weights(distances: Tensor) -> Tensor:
    """``exp(-(d - rho)/s)`` with ``s`` by bisection, for ascending distances ``(n, k)`` in any
    unit.
    """
    k = distances.shape[1]
    beyond = distances - distances[:, :1]
    target = torch.log2(
        torch.tensor(float(max(k, 2)), dtype=distances.dtype, device=distances.device)
    )
    least = torch.finfo(distances.dtype).tiny ** 0.5  # whose square is not 0: all distances may be
    floor = (SETTINGS.smallest * distances.mean(1, keepdim=True)).clamp_min(least)
    low, high = floor, beyond.amax(1, keepdim=True).clamp_min(floor) * 64
    for _ in range(round(-math.log2(torch.finfo(distances.dtype).eps))):  # bisections
        scale = (low * high).sqrt()
        many = torch.exp(-beyond / scale).sum(1, keepdim=True) > target
        low, high = torch.where(many, low, scale), torch.where(many, scale, high)
    return torch.exp(-beyond / (low * high).sqrt())


def overlaps(left: Tensor, right: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """How many entries ``left[rows[e]]`` and ``right[columns[e]]`` have in common, for pairs ``e``:
    ``(e,)``.

    Lists ``left (m, a)`` and ``right (n, b)`` hold distinct indices: each is sought in a sorted
    one.
    """
    right = right.int().sort(1).values
    size = rows_at_once(left.device, left.shape[1])
    counts = torch.empty_like(rows)
    for out, first, second in zip(
        counts.split(size), rows.split(size), columns.split(size), strict=True
    ):
        sought, among = left[first].int(), right[second]
        place = torch.searchsorted(among, sought).clamp_max_(right.shape[1] - 1)
        out.copy_((among.gather(1, place) == sought).sum(1))
    return counts
