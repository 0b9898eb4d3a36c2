"""Procedural shapes to learn short-cuts from: limbs in contact, points spread as clouds have them,
and true labels.

    contacts    q, p near in space, far on the surface (d(q, p) > 2.2 |x_p - x_q|), facing:
                x_i <- x_i + w(d(q, i) / R) (x_p + gap u - x_q),  w(t) = (1 - t^2)^2 for t < 1,
                u from p to q
    vertices    farthest points by  w_i |(x_i - x_j, beta (n_i - n_j))|,
                w_i = exp(waves(x_i) + a |x_i| + s noise_i)
    labels      ratio_ij = (length of the shortest path over the dense graph) / |x_i - x_j|

A union of solids merges limbs that meet, as no animal does.  Moved along the surface they stay
apart on it, whatever their distance in space.  Vertices of a mesh gather where a surface bends, and
across the bend more than along it; modellers put more of them into faces and hands; no mesh is
quite regular.  The dense graph joins the 12 nearest, never across: not between parts, not between
opposed sides of a thin wall, not along the normal.  Lengths by Bellman-Ford sweeps, all clouds and
all sources at once.  `b` clouds of `N` dense points in farthest-point order, with normals, `m` of
them sparse, `S` sources per cloud, `k` neighbours.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eigenprobe.geometry import farthest_points
from eigenprobe.neighbors.grid import grid_search

from .dense import Dense, DenseShapes
from .fields import Rng, take, unit

LINKS = 12  # neighbours in the dense graph
AT_ONCE = 1 << 20  # points whose links are compared together
OPPOSED, STEEP = (
    -0.3,
    0.92,
)  # cosines between normals, and of an edge with a normal, that no path crosses
LONGEST = 2.5  # ratios beyond this are all alike


@torch.no_grad()
def links(shapes: Dense) -> tuple[Tensor, Tensor]:
    """Neighbours and lengths ``(c, N, 12)`` of dense clouds; a forbidden link is infinitely
    long.
    """
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
def ratios(
    points: Tensor, graph: tuple[Tensor, Tensor], chosen: Tensor, sources: Tensor, targets: Tensor
) -> Tensor:
    """Geodesic over chord ``(b, S, k)``, at most `LONGEST`.

    ``points (b, N, 3)`` and the `links` of the clouds; ``chosen (b, m)`` are the sparse points,
    ``sources (b, S)`` and ``targets (b, S, k)`` count among them.
    """
    start, end = chosen.gather(1, sources), chosen.gather(1, targets.flatten(1))
    ends = take(points, end).view(*targets.shape, 3)
    chord = (ends - take(points, start)[:, :, None]).norm(dim=-1).clamp_min(1e-9)
    longest = LONGEST * float(chord.quantile(0.9) if chord.numel() < 1e7 else chord.max())
    return (distances(graph, start, longest).mT.gather(2, end.view_as(targets)) / chord).clamp_max(
        LONGEST
    )


@torch.no_grad()
def distances(graph: tuple[Tensor, Tensor], sources: Tensor, longest: float) -> Tensor:
    """Lengths ``(b, N, S)`` of shortest paths from the dense points ``sources (b, S)``, up to about
    ``longest``.
    """
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
    rng, rows = Rng(len(x), generator), torch.arange(len(x), device=x.device)
    sources = (x.shape[1] * rng.uniform(0, 1, fold.tried)).long()
    far = distances(graph, sources, fold.detour * fold.reach)  # (b, N, S)
    left = torch.where(
        rng.chance(fold.share), rng.uniform(1, 1 + fold.most).long(), 0
    )  # contacts still to be made
    for turn in range(fold.tried):
        q, d = sources[:, turn], far[..., turn]
        way = x - x[rows, q][:, None]
        length = way.norm(dim=2).clamp_min(1e-9)
        looks = (way * normals[rows, q][:, None]).sum(2) > fold.facing * length
        looks &= (way * normals).sum(2) < -fold.facing * length
        fit = looks & (length < fold.reach) & (d > fold.detour * length)
        near, p = torch.where(fit, length, torch.inf).min(1)
        gap = rng.log_uniform(*fold.gap)
        use = (left > 0) & (near > gap) & torch.isfinite(near)
        left -= use.long()
        move = way[rows, p] * (1 - gap / near.clamp_min(1e-9))[:, None]
        radius = (near * rng.uniform(*fold.wide)).clamp_min(fold.narrow)
        radius = torch.minimum(radius, 0.7 * d[rows, p])
        weight = (1 - (d / radius[:, None]).square()).clamp_min(0).square()
        x += torch.where(use[:, None, None], weight[..., None] * move[:, None], 0.0)
    index, old = graph
    offset = take(x, index.flatten(1)).view(*index.shape, 3) - x[:, :, None]  # (b, N, 12, 3)
    allowed = torch.isfinite(old)
    graph = index, torch.where(allowed, offset.norm(dim=3).clamp_min(1e-9), torch.inf)
    moved = (x - shapes.points).norm(dim=2, keepdim=True) > 1e-6
    normals = torch.where(moved, _least_directions(normals, offset * allowed[..., None]), normals)
    return shapes._replace(points=x, normals=normals), graph


def _least_directions(start: Tensor, offset: Tensor) -> Tensor:
    """The least principal directions ``(b, N, 3)`` of offsets ``(b, N, k, 3)``, by powers of
    trace(C) - C.
    """
    found, size = start, offset.square().sum((2, 3))[..., None].clamp_min(1e-12)
    for _ in range(12):
        found = unit(
            size * found - (offset * (offset * found[:, :, None]).sum(3, keepdim=True)).sum(2)
        )
    return found


@dataclass(frozen=True)
class Spread:
    """How often clouds are sampled in which way, and how strongly meshes vary."""

    even: float = 0.4  # shares of clouds: farthest points ...
    vertices: float = (
        0.35  # ... vertices; the rest are independent draws, half of them denser on one side
    )
    spare: float = 1.5  # vertices of a mesh per point that is kept, at most
    bend: tuple[float, float] = (0.01, 0.3)  # beta, in radii of the shape
    waves: float = 1.2  # largest amplitude of the smooth variation
    tips: tuple[float, float] = (-0.5, 1.5)  # a
    irregular: float = 0.8  # s, at most


SPREAD = Spread()


@torch.no_grad()
def spread_order(
    shapes: Dense, count: int, generator: torch.Generator, spread: Spread = SPREAD
) -> Tensor:
    """Rows ``(b, spare count)`` of dense points, as a mesh of few or many vertices would have them,
    in order.
    """
    (x, normals, _), rng, n = shapes, Rng(len(shapes.points), generator), shapes.points.shape[1]
    beta = rng.log_uniform(*spread.bend, 1, 1)
    waves = (x @ rng.normal(3, 3, 3) + rng.uniform(0, 2 * math.pi, 1, 3)).sin().sum(2)
    tips, noise = rng.uniform(*spread.tips, 1), rng.normal(1, n)
    amplitude, irregular = rng.uniform(0, spread.waves, 1), rng.uniform(0, spread.irregular, 1)
    weight = amplitude * waves + tips * x.norm(dim=2) + irregular * noise
    most = min(n, int(spread.spare * count))
    return farthest_points(torch.cat([x, beta * normals], 2), most, start=0, weight=weight.exp())


@torch.no_grad()
def spread_rows(
    points: Tensor, order: Tensor, m: int, generator: torch.Generator, spread: Spread = SPREAD
) -> Tensor:
    """Rows ``(b, m)`` of dense points ``(b, N, 3)``, every cloud sampled in its own way.

    A mesh has up to ``spare m`` vertices; the ``m`` that come first in the dense order are nearly
    its farthest points.
    """
    rng, even = (
        Rng(len(points), generator),
        torch.arange(m, device=points.device).expand(len(points), m),
    )
    slope = rng.normal(1, 3, 1) * rng.chance(0.5, 1, 1)
    uneven = torch.multinomial(torch.exp((points @ slope)[..., 0]), m, generator=generator)
    most = min(order.shape[1], int(m * float(Rng(1, generator).uniform(1, spread.spare))))
    vertices = order[:, :most].sort(1).values[:, :m]
    way = rng.uniform(0, 1, 1)
    return torch.where(
        way < spread.even, even, torch.where(way < spread.even + spread.vertices, vertices, uneven)
    )


@dataclass
class FoldedShapes:
    """Numbered blocks of ``count`` shapes of ``dense`` points, the last ``kept`` of which stay in
    memory; were they meshes, they would have up to ``most`` vertices."""

    shapes: DenseShapes
    count: int
    dense: int
    most: int
    kept: int
    fold: Fold = FOLD
    spread: Spread = SPREAD
    _blocks: dict[int, tuple[Dense, tuple[Tensor, Tensor], Tensor]] = field(default_factory=dict)

    def block(self, index: int) -> tuple[Dense, tuple[Tensor, Tensor], Tensor]:
        """Shapes, the links between their points, and the order in which a mesh of them would have
        its vertices.
        """
        if index not in self._blocks:
            shapes = self.shapes.dense(self.count, self.dense, index)
            generator = torch.Generator(shapes.points.device).manual_seed(
                self.shapes.seed * 1_000_003 + index
            )
            shapes, graph = folded(shapes, links(shapes), generator, self.fold)
            self._blocks[index] = (
                shapes,
                graph,
                spread_order(shapes, self.most, generator, self.spread),
            )
            for old in [i for i in self._blocks if i <= index - self.kept]:
                del self._blocks[old]
        return self._blocks[index]
