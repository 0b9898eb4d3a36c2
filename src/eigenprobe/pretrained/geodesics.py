"""Which edges of a sparse cloud are short-cuts, by geodesics on a dense cloud of the same shape.

    ratio_ij = (length of the shortest path from i to j over the dense graph) / |x_i - x_j|

The dense graph joins the 12 nearest, never across: not between parts, not between opposed sides of a thin wall, not
along the normal.  Lengths by Bellman-Ford sweeps, all clouds and all sources at once.  `b` clouds of `N` dense points,
`m` of them sparse, `S` sources per cloud, `k` neighbours.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..geometry.procedural.dense import Dense
from ..graph.grid import grid_search

LINKS = 12  # neighbours in the dense graph
AT_ONCE = 1 << 20  # points whose links are compared together
OPPOSED, STEEP = -0.3, 0.92  # cosines between normals, and of an edge with a normal, that no path crosses
LONGEST = 2.5  # ratios beyond this are all alike


@torch.no_grad()
def links(shapes: Dense) -> tuple[Tensor, Tensor]:
    """Neighbours and lengths ``(c, N, 12)`` of dense clouds; a forbidden link is infinitely long."""
    points, normals, part = (values.flatten(0, 1) for values in shapes)
    c, n = shapes.part.shape
    index = grid_search(points, LINKS + 1, (n,) * c)[0][:, 1:]
    length = torch.empty(index.shape, device=points.device)
    for rows in torch.arange(len(points), device=points.device).split(AT_ONCE):
        near = index[rows]
        offset = points[near] - points[rows, None]
        far = offset.norm(dim=2).clamp_min(1e-9)
        facing = (normals[near] * normals[rows, None]).sum(2)
        steep = (offset * normals[rows, None]).sum(2).abs() / far
        allowed = (facing > OPPOSED) & (steep < STEEP) & (part[near] == part[rows, None])
        length[rows] = torch.where(allowed, far, torch.inf)
    index -= (n * torch.arange(c, device=points.device)).repeat_interleave(n)[:, None]
    return index.view(c, n, -1), length.view(c, n, -1)


@torch.no_grad()
def ratios(points: Tensor, graph: tuple[Tensor, Tensor], chosen: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
    """Geodesic over chord ``(b, S, k)``, at most `LONGEST`.

    ``points (b, N, 3)`` and the `links` of the clouds; ``chosen (b, m)`` are the sparse points, ``sources (b, S)`` and
    ``targets (b, S, k)`` count among them.
    """
    b, n = points.shape[:2]
    first = n * torch.arange(b, device=points.device)
    flat, dense = points.flatten(0, 1), chosen + first[:, None]
    start = dense.gather(1, sources)  # (b, S)
    end = dense.gather(1, targets.flatten(1)).view_as(targets)
    chord = (flat[end] - flat[start][:, :, None]).norm(dim=-1).clamp_min(1e-9)
    longest = LONGEST * float(chord.quantile(0.9) if chord.numel() < 1e7 else chord.max())
    reached = distances(graph, chosen.gather(1, sources), longest).flatten(0, 1)
    column = torch.arange(start.shape[1], device=points.device).expand_as(start)
    return (reached[end, column[..., None]] / chord).clamp_max(LONGEST)


@torch.no_grad()
def distances(graph: tuple[Tensor, Tensor], sources: Tensor, longest: float) -> Tensor:
    """Lengths ``(b, N, S)`` of shortest paths from the dense points ``sources (b, S)``, up to about ``longest``."""
    b, n, k = graph[0].shape
    first = n * torch.arange(b, device=sources.device)
    index, length = (graph[0] + first[:, None, None]).flatten(0, 1), graph[1].flatten(0, 1)
    reached = torch.full((b * n, sources.shape[1]), torch.inf, device=sources.device)
    reached[sources + first[:, None], torch.arange(sources.shape[1], device=sources.device)] = 0
    hops = longest / float(length[torch.isfinite(length)].median())
    for _ in range(math.ceil(0.6 * hops) + 4):  # updates in place run ahead of the sweep
        for link in range(k):
            torch.minimum(reached, reached[index[:, link]].add_(length[:, link, None]), out=reached)
    return reached.view(b, n, -1)
