"""Procedural shapes to learn short-cuts from: limbs in contact, points spread as clouds have them, and true labels.

    contacts    q, p near in space, far on the surface (d(q, p) > 2.2 |x_p - x_q|), facing each other:
                x_i <- x_i + w(d(q, i) / R) (x_p + gap u - x_q),     w(t) = (1 - t^2)^2 for t < 1,  u from p to q
    vertices    farthest points by  w_i |(x_i - x_j, beta (n_i - n_j))|,   w_i = exp(waves(x_i) + a |x_i| + s noise_i)
    labels      ratio_ij = (length of the shortest path from i to j over the dense graph) / |x_i - x_j|

A union of solids merges limbs that meet, as no animal does.  Moved along the surface they stay apart on it, whatever
their distance in space.  Vertices of a mesh gather where a surface bends, and across the bend more than along it;
modellers put more of them into faces and hands; no mesh is quite regular.  The dense graph joins the 12 nearest, never
across: not between parts, not between opposed sides of a thin wall, not along the normal.  Lengths by Bellman-Ford
sweeps, all clouds and all sources at once.  `b` clouds of `N` dense points in farthest-point order, with normals, `m`
of them sparse, `S` sources per cloud, `k` neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from eigenprobe.sampling.farthest import farthest_points
from eigenprobe.search.cells import grid_search

from .dense import Dense, DenseShapes

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


@dataclass(frozen=True)
class Fold:
    """How shapes of radius 1 are folded."""

    share: float = 0.7  # of the shapes
    tried: int = 16  # starting points per shape
    most: int = 4  # contacts per shape
    reach: float = 0.7  # longest way that a part moves
    detour: float = 2.2  # over the surface, of the distance in space
    facing: float = 0.3  # cosine between the normals and the way
    gap: tuple[float, float] = (0.006, 0.06)
    wide: tuple[float, float] = (1.5, 5.0)  # radius of the part that moves, of its way
    narrow: float = 0.08  # smallest radius


FOLD = Fold()


@torch.no_grad()
def folded(
    shapes: Dense, graph: tuple[Tensor, Tensor], generator: torch.Generator, fold: Fold = FOLD
) -> tuple[Dense, tuple[Tensor, Tensor]]:
    """Shapes with limbs in contact and their normals, and their links with the new lengths."""
    x, normals = shapes.points.clone(), shapes.normals
    b, n = x.shape[:2]

    def drawn(*size: int) -> Tensor:
        return torch.rand(size, generator=generator, device=x.device)

    sources = (n * drawn(b, fold.tried)).long()
    far = distances(graph, sources, fold.detour * fold.reach)  # (b, N, S)
    left = torch.where(drawn(b) < fold.share, (1 + fold.most * drawn(b)).long(), 0)  # contacts still to be made
    rows = torch.arange(b, device=x.device)
    for turn in range(fold.tried):
        q, d = sources[:, turn], far[..., turn]
        way = x - x[rows, q][:, None]
        length = way.norm(dim=2).clamp_min(1e-9)
        looks = (way * normals[rows, q][:, None]).sum(2) > fold.facing * length
        looks &= (way * normals).sum(2) < -fold.facing * length
        fit = looks & (length < fold.reach) & (d > fold.detour * length)
        near, p = torch.where(fit, length, torch.inf).min(1)
        gap = fold.gap[0] * (fold.gap[1] / fold.gap[0]) ** drawn(b)
        use = (left > 0) & (near > gap) & torch.isfinite(near)
        left -= use.long()
        move = way[rows, p] * (1 - gap / near.clamp_min(1e-9))[:, None]
        low, high = fold.wide
        radius = (near * (low + (high - low) * drawn(b))).clamp_min(fold.narrow)
        radius = torch.minimum(radius, 0.7 * d[rows, p])
        weight = (1 - (d / radius[:, None]).square()).clamp_min(0).square()
        x += torch.where(use[:, None, None], weight[..., None] * move[:, None], 0.0)
    index, old = graph
    ends = x.flatten(0, 1)[(index + (n * rows)[:, None, None]).flatten(0, 1)]
    lengths = (ends - x.flatten(0, 1)[:, None]).norm(dim=2).view_as(old)
    graph = index, torch.where(torch.isfinite(old), lengths.clamp_min(1e-9), torch.inf)
    moved = shapes._replace(points=x)
    return moved._replace(normals=_turned(moved, shapes.points, graph)), graph


def _turned(shapes: Dense, before: Tensor, graph: tuple[Tensor, Tensor]) -> Tensor:
    """Normals of shapes after folding: where points moved, the least principal direction of their neighbours."""
    x, n = shapes.points, shapes.points.shape[1]
    index = (graph[0] + n * torch.arange(len(x), device=x.device)[:, None, None]).flatten(0, 1)
    offset = x.flatten(0, 1)[index] - x.flatten(0, 1)[:, None]
    offset = offset * torch.isfinite(graph[1].flatten(0, 1))[..., None]
    found, size = shapes.normals.flatten(0, 1), offset.square().sum((1, 2))[:, None].clamp_min(1e-12)
    for _ in range(12):  # powers of trace(C) - C
        found = normalize(size * found - (offset * (offset * found[:, None]).sum(2, keepdim=True)).sum(1), dim=1)
    moved = (x - before).norm(dim=2, keepdim=True) > 1e-6
    return torch.where(moved, found.view_as(x), shapes.normals)


@dataclass(frozen=True)
class Spread:
    """How often clouds are sampled in which way, and how strongly meshes vary."""

    even: float = 0.4  # shares of clouds: farthest points ...
    vertices: float = 0.35  # ... vertices; the rest are independent draws, half of them denser on one side
    spare: float = 1.5  # vertices of a mesh per point that is kept, at most
    bend: tuple[float, float] = (0.01, 0.3)  # beta, in radii of the shape
    waves: float = 1.2  # largest amplitude of the smooth variation
    tips: tuple[float, float] = (-0.5, 1.5)  # a
    irregular: float = 0.8  # s, at most


SPREAD = Spread()


@torch.no_grad()
def spread_order(shapes: Dense, count: int, generator: torch.Generator, spread: Spread = SPREAD) -> Tensor:
    """Rows ``(b, spare count)`` of dense points, as a mesh of few or many vertices would have them, in order."""
    x, normals = shapes.points, shapes.normals
    b, n = x.shape[:2]

    def drawn(*size: int) -> Tensor:
        return torch.rand(size, generator=generator, device=x.device)

    low, high = spread.bend
    beta = low * (high / low) ** drawn(b, 1, 1)
    frequency = 3 * torch.randn((b, 3, 3), generator=generator, device=x.device)
    waves = (x @ frequency + 2 * math.pi * drawn(b, 1, 3)).sin().sum(2)
    tips = spread.tips[0] + (spread.tips[1] - spread.tips[0]) * drawn(b, 1)
    noise = torch.randn((b, n), generator=generator, device=x.device)
    weight = spread.waves * drawn(b, 1) * waves + tips * x.norm(dim=2) + spread.irregular * drawn(b, 1) * noise
    most = min(n, int(spread.spare * count))
    return farthest_points(torch.cat([x, beta * normals], 2), most, start=0, weight=weight.exp())


@torch.no_grad()
def spread_rows(points: Tensor, order: Tensor, m: int, generator: torch.Generator, spread: Spread = SPREAD) -> Tensor:
    """Rows ``(b, m)`` of dense points ``(b, N, 3)``, every cloud sampled in its own way.

    A mesh has up to ``spare m`` vertices; the ``m`` that come first in the dense order are nearly its farthest points.
    """
    b = len(points)

    def drawn(*size: int) -> Tensor:
        return torch.rand(size, generator=generator, device=points.device)

    even = torch.arange(m, device=points.device).expand(b, m)
    slope = torch.randn((b, 3, 1), generator=generator, device=points.device) * (drawn(b, 1, 1) < 0.5)
    uneven = torch.multinomial(torch.exp((points @ slope)[..., 0]), m, generator=generator)
    most = min(order.shape[1], int(m * (1 + (spread.spare - 1) * float(drawn(1)))))
    vertices = order[:, :most].sort(1).values[:, :m]
    way = drawn(b, 1)
    return torch.where(way < spread.even, even, torch.where(way < spread.even + spread.vertices, vertices, uneven))


class FoldedShapes:
    """Numbered blocks of dense shapes, the last ``kept`` of which stay in memory."""

    def __init__(
        self,
        shapes: DenseShapes,
        count: int,
        dense: int,
        most: int,
        kept: int,
        fold: Fold = FOLD,
        spread: Spread = SPREAD,
    ) -> None:
        """``count`` shapes of ``dense`` points a block; meshes of up to ``most`` vertices."""
        self.shapes, self.size, self.kept, self.how = shapes, (count, dense, most), kept, (fold, spread)
        self._blocks: dict[int, tuple[Dense, tuple[Tensor, Tensor], Tensor]] = {}

    def block(self, index: int) -> tuple[Dense, tuple[Tensor, Tensor], Tensor]:
        """Shapes, the links between their points, and the order of their vertices were they meshes."""
        if index not in self._blocks:
            (count, dense, most), (fold, spread) = self.size, self.how
            shapes = self.shapes.dense(count, dense, index)
            generator = torch.Generator(shapes.points.device).manual_seed(self.shapes.seed * 1_000_003 + index)
            shapes, graph = folded(shapes, links(shapes), generator, fold)
            self._blocks[index] = shapes, graph, spread_order(shapes, most, generator, spread)
            for old in [i for i in self._blocks if i <= index - self.kept]:
                del self._blocks[old]
        return self._blocks[index]
