r"""Limbs brought into contact: a shape is folded along its surface until two far parts of it nearly touch.

    q, p            near in space, far on the surface (d(q, p) > 2.2 |x_p - x_q|), facing each other
    x_i <- x_i + w(d(q, i) / R) (x_p + gap u - x_q),     w(t) = (1 - t^2)^2 for t < 1,  u from p to q

A union of solids merges limbs that meet, as no animal does.  Moved along the surface they stay apart on it, whatever
their distance in space.  `b` shapes of `N` dense points.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..geometry.procedural.dense import Dense
from .geodesics import distances


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
    """Shapes with limbs in contact, and their links with the new lengths."""
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
    return shapes._replace(points=x), (index, torch.where(torch.isfinite(old), lengths.clamp_min(1e-9), torch.inf))
