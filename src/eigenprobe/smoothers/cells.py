"""How much length, area or volume a cloud covers, from the Voronoi cells of its points in their tangent planes.

    r_i(u) = min_j |l_ij|^2 / (2 u.l_ij)     the cell of point i seen from the point in direction u;  l_ij (n, k, dim)
    |cell_i| = mean_u  V_dim r_i(u)^dim      V_dim: volume of the unit ball;  u: evenly spread directions (D, dim)

A cell that its neighbours do not close lies at the boundary, and ends there: at the plane through the point that has
the neighbours on its other side.  A smoother knows the relative sizes of its points (the mass); their sum is fixed by
the cells of a sample of them, as the ratio of two sums.
"""

import math

import torch
from torch import Tensor

from ..errors import InputError
from ..graph import Graph
from ..graph.dimension import sphere_directions
from ..graph.graph import components
from .smoother import Smoother
from .stencil import SELECTION, tangent_frames

CELL_DIMENSIONS = 3  # above, directions and neighbours are too few for cells: balls of k neighbours instead
SAMPLE = 8192  # cells that are measured: their sizes vary by half, so the ratio is good to .6 per cent
BLOCK = 1024  # points at a time: (1024, k, D) numbers
GAP = 0.7 * math.pi  # between directions to neighbours: pi at a straight edge, pi / 2 at most inside an even sheet
LINKED = 10  # nearest points that continue a chain
CHAIN = 8  # points of the shortest chain
DIRECTIONS = {1: 2, 2: 64, 3: 200}


def covered(smoother: Smoother) -> Tensor:
    """Length, area or volume (``length^dim``) of the cloud of a smoother in its measure, in the units of its graph.

    A number, with derivatives where the points of the graph and the mass have them.
    """
    graph, mass = smoother.graph, smoother.mass
    if graph is None or not smoother.symmetric or graph.metric != "euclidean":
        raise InputError("a volume needs a symmetric smoother on a Euclidean graph")
    graph, dimension = graph.without_loops(), max(1, round(smoother.dimension))
    rows = torch.arange(0, graph.n, max(1, -(-graph.n // SAMPLE)), device=graph.device)
    if dimension > CELL_DIMENSIONS:
        # n balls of k neighbours cover the volume k times over, whatever the density.
        sizes = _ball(dimension) * graph.distances[rows, -1] ** dimension / graph.k
    else:
        sizes = torch.cat([_cells(graph, part, dimension)[0] for part in rows.split(BLOCK)])
    if smoother.density is not None:
        sizes = sizes * smoother.density[rows]
    return sizes.sum() / mass[rows].double().sum() * mass.double().sum()


def at_boundary(smoother: Smoother) -> Tensor:
    """Which points ``(n,)`` lie at the boundary: the nearest neighbours leave their cells open.

    The boundary of a surface is made of loops: points alone or in small groups are gaps of a noisy or sparse sheet.
    """
    dimension = max(1, round(smoother.dimension))
    if smoother.graph is None or smoother.graph.metric != "euclidean" or dimension > CELL_DIMENSIONS:
        raise InputError("a boundary is found in Euclidean clouds of up to three dimensions: give a bool mask instead")
    graph = smoother.graph.without_loops()
    found = open_cells(graph, torch.arange(graph.n, device=graph.device), dimension)
    return found & _in_loops(graph) if dimension == 2 and bool(found.any()) else found


def open_cells(graph: Graph, rows: Tensor, dimension: int) -> Tensor:
    """Which of some points ``(rows,)`` of a graph without self-loops have a cell that their neighbours do not close."""
    return torch.cat([_cells(graph, part, dimension)[1] for part in rows.split(BLOCK)])


def _in_loops(graph: Graph) -> Tensor:
    """Which points ``(n,)`` are beside a chain of points with a wide gap in the directions to all their neighbours."""
    offsets = graph.points[graph.indices] - graph.points[:, None]
    flat = offsets @ tangent_frames(offsets, graph.distances, 2) if graph.points.shape[1] > 2 else offsets
    angle = torch.atan2(flat[..., 1], flat[..., 0]).sort(dim=1).values
    gaps = torch.cat([angle.diff(dim=1), angle[:, :1] + 2 * math.pi - angle[:, -1:]], 1).amax(1)
    wide = gaps > GAP
    near = graph.indices[:, :LINKED]
    head, place = (wide[:, None] & wide[near]).nonzero(as_tuple=True)
    _, labels = components(head, near[head, place], graph.n)
    chained = wide & (torch.bincount(labels)[labels] >= CHAIN)
    return chained | chained[near].any(1)


def _cells(graph: Graph, rows: Tensor, dimension: int) -> tuple[Tensor, Tensor]:
    """Sizes ``(rows,)`` of the cells of some points, and whether the neighbours leave a cell open."""
    points, indices, distances = graph.points, graph.indices, graph.distances
    tiny = torch.finfo(points.dtype).tiny
    offsets, length = points[indices[rows]] - points[rows, None], distances[rows].clamp_min(tiny)
    if dimension < points.shape[1]:
        few = slice(0, SELECTION.frame)
        offsets = offsets @ tangent_frames(offsets[:, few], length[:, few], dimension)
        if dimension == 2:  # the directions start at the nearest neighbour: no frame is better than another
            x, y = (offsets[:, :1] / offsets[:, :1].norm(dim=2, keepdim=True).clamp_min(tiny)).unbind(2)
            u, v = offsets.unbind(2)
            offsets = torch.stack([x * u + y * v, x * v - y * u], 2)
        # Chords that leave the tangent plane keep their length: near enough to an arc's.
        offsets = offsets * (length / offsets.norm(dim=2).clamp_min(tiny))[..., None]
    directions = even_directions(dimension).to(points)
    closing = (2 * (offsets @ directions.T) / length.square()[..., None]).amax(1)  # 1 / r, (rows, D)
    farthest = 1 / length.amax(1, keepdim=True)
    outward = -(offsets / length[..., None]).mean(1)
    is_open = closing.amin(1) < farthest[:, 0]
    beyond = is_open[:, None] & (outward @ directions.T > 0)
    radius = torch.where(beyond, 0.0, 1 / torch.maximum(closing, farthest))
    return _ball(dimension) * (radius**dimension).mean(1), is_open


def even_directions(dimension: int) -> Tensor:
    """Unit vectors ``(D, dim)`` spread evenly: both ways, a ring, or a Fibonacci sphere."""
    count = DIRECTIONS[dimension]
    place = torch.arange(count, dtype=torch.float64)
    if dimension == 1:
        return 1 - 2 * place[:, None]
    if dimension == 2:
        angle = 2 * math.pi * place / count
        return torch.stack([angle.cos(), angle.sin()], 1)
    return sphere_directions(count)


def _ball(dimension: int) -> float:
    return math.pi ** (dimension / 2) / math.gamma(dimension / 2 + 1)
