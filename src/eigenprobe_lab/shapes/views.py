r"""Dense shapes as a scanner sees them from a few places, and clouds without short-cuts.

    visible     nearest in its pixel, up to the depth of a pixel;  not at a grazing angle
    returns     drawn with weights  cos(angle) / range^2,  in scan lines on some clouds
    damage      noise along the ray that grows with the range, a rigid error per view, holes
    clutter     branches with leaves, and wires: thinner than the distance of the points on them

`b` clouds of `N` dense points, `m` of them measured in `VIEWS` views; lengths are in radii of the
shape.  One dense point may be measured in several views, which are then not quite in register.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .dense import Dense
from .fields import Rng, take, unit

VIEWS = 6
PIXELS = 256  # of a view, along each side
PIXEL = 1.8  # spacings of dense points in a pixel: no ray passes between them
SEGMENTS = 40  # of a tree, or wires


@dataclass(frozen=True)
class Scanner:
    """Where the views are, and their largest errors, in radii of the shape."""

    near: float = 1.5  # of a view, from the centre
    far: float = 6.0
    grazing: float = 0.12  # cosine of the angle beyond which nothing is measured
    lines: float = 0.3  # share of clouds in scan lines
    holes: float = 0.4  # share of clouds with holes
    shifted: float = 0.5  # share of clouds of misregistered views
    shift: float = 0.02
    noise: float = 0.01


SCANNER = Scanner()


class Scan(NamedTuple):
    """What was measured, and where it could have been."""

    chosen: Tensor  # (b, m) dense points
    points: Tensor  # (b, m, 3) as measured
    measured: Tensor  # (b, m) the first ones; the rest are no returns
    seen: Tensor  # (b, N) dense points that some view sees


@torch.no_grad()
def scanned(
    shapes: Dense,
    graph: tuple[Tensor, Tensor],
    m: int,
    generator: torch.Generator,
    scanner: Scanner = SCANNER,
) -> Scan:
    """``m`` returns of every shape; ``graph`` are its links."""
    points, normals, both = shapes.points, shapes.normals, (shapes.part > 0).all(1)
    b, n, _ = points.shape
    length = torch.where(torch.isfinite(graph[1]), graph[1], torch.nan).nanmean(2).nan_to_num()
    spacing = length.quantile(0.9, dim=1)  # (b,)
    rng = Rng(b, generator)
    eyes = rng.direction(VIEWS) * rng.log_uniform(scanner.near, scanner.far, VIEWS, 1)
    used = torch.arange(VIEWS, device=points.device) < rng.integers(1, VIEWS)[:, None]  # (b, V)
    ray = points[:, None] - eyes[:, :, None]  # (b, V, N, 3)
    depth = ray.norm(dim=3)
    ray = ray / depth[..., None]
    facing = -(ray * normals[:, None]).sum(3)
    facing = torch.where(both[:, None, None], facing.abs(), facing)
    axis = -unit(eyes)
    side = unit(torch.linalg.cross(axis, unit(rng.direction(VIEWS))))
    up = torch.linalg.cross(axis, side)
    ahead = (ray * axis[:, :, None]).sum(3)
    u, w = ((ray * each[:, :, None]).sum(3) / ahead for each in (side, up))
    pixel = PIXEL * spacing[:, None] / (eyes.norm(dim=2) - 0.8)  # as wide as at the nearest points
    cell = [(x / pixel[..., None] + PIXELS / 2).long().clamp(0, PIXELS - 1) for x in (u, w)]
    key = cell[0] * PIXELS + cell[1]
    front = torch.full((b, VIEWS, PIXELS**2), torch.inf, device=points.device)
    front = front.scatter_reduce(2, key, depth, "amin").gather(2, key)
    slope = 1 / facing.clamp_min(0.2)
    visible = depth < front + PIXEL * spacing[:, None, None] * slope
    visible &= (facing > scanner.grazing) & used[..., None] & ~_holes(points, rng, scanner)[:, None]
    weight = facing.clamp_min(1e-6).log() - 2 * depth.log()
    gap = rng.log_uniform(2, 6, 1, 1) * pixel[..., None]
    off = (w / gap - (w / gap).round()).abs()
    weight = weight - 40 * off.square() * rng.chance(scanner.lines, 1, 1)
    noise = -torch.log(-torch.log(rng.uniform(1e-12, 1, VIEWS, n)))  # the largest are a draw
    score = torch.where(visible, weight + noise, -torch.inf).flatten(1)
    found, flat = score.topk(m, dim=1)
    view, chosen = flat // n, flat % n
    y = take(points, chosen)
    own = ray.flatten(1, 2)
    size = scanner.noise * rng.uniform(0, 1, 1, 1).square()
    reach = (depth.flatten(1).gather(1, flat)[..., None] / scanner.far).square()
    y = y + size * (0.3 + reach) * rng.normal(1, m, 1) * take(own, flat)
    shift = scanner.shift * rng.uniform(0, 1, 1, 1) * rng.chance(scanner.shifted, 1, 1)
    move, turn = (take(shift * rng.normal(1, VIEWS, 3) / 3**0.5, view) for _ in range(2))
    y = y + move + torch.linalg.cross(turn, y)
    return Scan(chosen, y, torch.isfinite(found), visible.any(1))


def _holes(points: Tensor, rng: Rng, scanner: Scanner) -> Tensor:
    """Points ``(b, N)`` in a few balls that return nothing."""
    centres = take(points, (points.shape[1] * rng.uniform(0, 1, 3)).long())
    radius = rng.uniform(0.02, 0.25, 3) * rng.chance(scanner.holes, 1)
    return (torch.cdist(points, centres) < radius[:, None]).any(2)


@torch.no_grad()
def clutter(b: int, m: int, generator: torch.Generator) -> Tensor:
    """Trees and bundles of wires ``(b, m, 3)`` in the unit ball: not surfaces, and nothing in them
    is to be cut."""
    rng = Rng(b, generator)
    wires = rng.chance(0.4, 1)
    start, way = [0.2 * rng.normal(1, 3)], [unit(rng.normal(1, 3))]
    rows = torch.arange(b, device=rng.device)
    for i in range(1, SEGMENTS):
        parent = (i * rng.uniform(0, 1)).long().clamp_max(i - 1)
        before, base = torch.stack(way, 1)[rows, parent], torch.stack(start, 1)[rows, parent]
        length = before.norm(dim=1, keepdim=True) * rng.uniform(0.5, 0.95, 1)
        branch = length * unit(unit(before) + 0.9 * rng.normal(1, 3))
        line = way[0] + 0.15 * rng.normal(1, 3)
        start.append(torch.where(wires, rng.normal(0.3, 3), base + rng.uniform(0.3, 1, 1) * before))
        way.append(torch.where(wires, line, branch))
    starts, ways = torch.stack(start, 1), torch.stack(way, 1)
    chosen = torch.multinomial(ways.norm(dim=2), m, replacement=True, generator=generator)
    share = rng.uniform(0, 1, m, 1)
    sag = 0.4 * rng.uniform(0, 1, 1, 1) * share * (share - 1) * wires[..., None]
    x = take(starts, chosen) + share * take(ways, chosen)
    x = x + sag * torch.tensor([0.0, 0.0, 1.0], device=x.device)
    thick = rng.log_uniform(0.002, 0.03, 1, 1) * (1 - 0.7 * share)
    leaves = rng.chance(0.4, m, 1) & ~wires[..., None] & (chosen > SEGMENTS // 3)[..., None]
    size = torch.where(leaves, rng.log_uniform(0.03, 0.12, 1, 1), thick)
    x = x + size * rng.normal(1, m, 3) / math.sqrt(3)
    x = x - x.mean(1, keepdim=True)
    return x / x.norm(dim=2).amax(1)[:, None, None]
