r"""How the points of a cloud lie on its surface: evenly, independently, denser on one side, or as vertices of a mesh.

    vertices    farthest points by  w_i |(x_i - x_j, beta (n_i - n_j))|,   w_i = exp(waves(x_i) + a |x_i| + s noise_i)

Vertices gather where a surface bends, and across the bend more than along it; modellers put more of them into faces and
hands; no mesh is quite regular.  `b` shapes of `N` dense points in farthest-point order, with normals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..geometry.procedural.dense import Dense
from ..graph.farthest import farthest_points


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
