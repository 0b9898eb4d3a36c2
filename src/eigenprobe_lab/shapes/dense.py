r"""Dense clouds with outward sides: shapes whose geodesics can be told from the sampling of
another, sparser cloud.

    points (c, N, 3) in farthest-point order, outward normals (c, N, 3), part (c, N)

The order is exact for the first `EXACT` points.  After them it is that of the cells of a
space-filling curve, a point of each in turn: the cost of exact farthest points is N^2.

Some clouds are two shapes, one turned and moved until it nearly touches the other: limbs and
objects in contact.  No path leads from part to part.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from eigenprobe.geometry import farthest_points
from eigenprobe.neighbors.layout import morton_order

from .fields import Rng, take, unit
from .source import ProceduralShapes, Variation, connected, unit_sphere

SIDE = 2e-3  # step along the normal that a warp carries along with the point
AT_ONCE = 8  # shapes whose fields are evaluated together
EXACT = 4000  # points in exact farthest-point order
CELL = 300  # points kept in a cell of the curve
WIDE = Variation(
    scale=0.4, bend=0.5, twist=0.3, taper=0.3, noise=0, random=0, uneven=0, partial=0.05
)


class Dense(NamedTuple):
    """Clouds, the outward direction at every point, and which of the shapes in contact it belongs
    to.
    """

    points: Tensor  # (c, N, 3)
    normals: Tensor  # (c, N, 3)
    part: Tensor  # (c, N)


class DenseShapes(ProceduralShapes):
    """Seeded draws of dense clouds; `touching` is the share of pairs in contact."""

    def __init__(
        self, seed: int = 0, device: str | torch.device = "cpu", *, touching: float = 0.25
    ) -> None:
        super().__init__(seed, device, variation=WIDE, oversample=2.5)
        self.touching = touching

    @torch.no_grad()
    def dense(self, count: int, n: int, draw: int) -> Dense:
        """`count` clouds of `n` points; a numbered draw is always the same on the same kind of
        device.
        """
        generator = self.generator(draw)
        wanted = int(count * (1 + self.touching)) + 1
        found: list[tuple[Tensor, Tensor]] = []
        while (missing := wanted - sum(len(points) for points, _ in found)) > 0:
            found.append(self._sided(missing + 4, n, generator))
        points, normals = (torch.cat(parts)[:wanted] for parts in zip(*found, strict=True))
        single = Dense(
            points, normals, torch.zeros(points.shape[:2], dtype=torch.int64, device=self.device)
        )
        pairs = min(count, wanted - count)
        first, second, alone = (
            Dense(*(part[rows] for part in single))
            for rows in (slice(pairs), slice(wanted - pairs, None), slice(pairs, count))
        )
        joined = _in_contact(first, second, Rng(pairs, generator))
        return Dense(*(torch.cat(parts) for parts in zip(joined, alone, strict=True)))

    def _sided(self, count: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        points, side, valid = self.surfaces(count, n, generator, AT_ONCE, SIDE)
        if not len(points):
            return points[:, :n], side[:, :n]
        order = _farthest_order(points, valid, n)
        points, side = take(points, order), take(side, order)
        whole = connected(points[:, :2000]) > 0.995
        return points[whole], unit(side - points)[whole]


def _in_contact(first: Dense, second: Dense, rng: Rng) -> Dense:
    """The second shape turned so that a point of it faces a point of the first, at a small
    distance.
    """
    pairs, n = first.points.shape[:2]
    rows = torch.arange(pairs, device=rng.device)
    here, there = rng.integers(0, n - 1), rng.integers(0, n - 1)
    size = rng.log_uniform(0.3, 1.0, 1, 1)
    facing = _frames(second.normals[rows, there], rng).mT
    turn = facing @ _frames(-first.normals[rows, here], rng)
    points, normals = size * second.points @ turn, second.normals @ turn
    gap = rng.log_uniform(0.01, 0.12, 1)
    target = first.points[rows, here] + gap * first.normals[rows, here]
    points = points + (target - points[rows, there])[:, None]
    nearest = torch.cdist(first.points[:, :1200], points[:, :1200]).amin((1, 2))
    through = nearest < 0.4 * gap[:, 0]  # shapes that cut through each other are moved apart
    points = torch.where(
        through[:, None, None], points + 4 * first.normals[rows, here][:, None], points
    )
    both = unit_sphere(torch.cat([first.points, points], 1))
    normals = torch.cat([first.normals, normals], 1)
    part = torch.cat([first.part, second.part + 1], 1)
    order = _farthest_order(both, torch.ones_like(part, dtype=torch.bool), n)
    return Dense(take(both, order), take(normals, order), part.gather(1, order))


def _farthest_order(points: Tensor, valid: Tensor, n: int) -> Tensor:
    """Rows ``(b, n)`` of the valid points ``(b, N, 3)`` in farthest-point order, nearly so after
    the first `EXACT`.
    """
    b, cells = len(points), max(1, n // CELL)
    width = -(-n // cells)  # points kept per cell
    have = max(int(valid.sum(1).min()) // cells, width)
    rows = valid.int().argsort(dim=1, descending=True, stable=True)[:, : have * cells]
    x = take(points, rows)
    curve = torch.stack([morton_order(cloud) for cloud in x])
    rows, x = rows.gather(1, curve), take(x, curve)
    kept = farthest_points(x.view(b * cells, have, 3), width, start=0).view(b, cells, width)
    kept = (kept + have * torch.arange(cells, device=x.device)[:, None]).mT.flatten(1)[:, :n]
    first = farthest_points(take(x, kept), min(n, EXACT), start=0)
    rest = (
        torch.ones((b, n), device=x.device)
        .scatter(1, first, 0.0)
        .argsort(dim=1, descending=True, stable=True)
    )
    order = torch.cat([first, rest[:, : n - first.shape[1]]], 1)
    return rows.gather(1, kept.gather(1, order))


def _frames(first: Tensor, rng: Rng) -> Tensor:
    """Random rotations `(b, 3, 3)` whose first rows are unit vectors."""
    side = unit(torch.linalg.cross(first, rng.direction()))
    return torch.stack([first, side, torch.linalg.cross(first, side)], 1)
