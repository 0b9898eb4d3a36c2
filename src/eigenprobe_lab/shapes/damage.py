r"""Samples of dense shapes as scanners measure them, in batches: what networks learn from.

    sample      even, independent, as vertices lie, a step of density, or scan lines
    damage      isotropic noise, noise along the view, misregistered views, voxels

`b` clouds of `N` dense points, `m` of them sampled; lengths are in radii of the shape.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from .contacts import spread_rows
from .fields import Rng, take

VIEWS = 6


@dataclass(frozen=True)
class Damage:
    """Shares of clouds with a damage, and its largest size, of the radius."""

    lines: float = 0.2
    step: float = 0.1  # of density, up to 100:1
    isotropic: float = 0.6
    along: float = 0.2
    shifted: float = 0.35
    voxels: float = 0.25
    noise: float = 0.025
    spacings: float = 1.5  # the noise is at most so many mean spacings
    shift: float = 0.025


DAMAGE = Damage()


@torch.no_grad()
def damaged(
    x: Tensor, normals: Tensor, order: Tensor, m: int, damage: Damage, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows ``(b, m)`` sampled from dense points ``(b, N, 3)``, the points ``y (b, m, 3)`` that a
    scanner makes of them, and which are not copies in the same voxel."""
    (b, n, _), rng = x.shape, Rng(len(x), generator)
    drawn, normal = partial(rng.uniform, 0, 1), partial(rng.normal, 1)
    eyes = rng.direction(VIEWS)
    view = (normals @ eyes.mT + 0.5 * normal(n, VIEWS)).argmax(2)  # that sees the point, (b, N)
    gap = 0.03 * 5 ** drawn(1)
    phase = (x * take(normal(VIEWS, 3), view)).sum(2) / gap
    lines = (phase - phase.round()).abs().argsort(1)[:, :m]
    weight = torch.where((x @ normal(3, 1))[..., 0] > 0.5 * normal(1), 100 ** drawn(1), 1.0)
    steps = torch.multinomial(weight, m, generator=generator)
    order = order if m <= order.shape[1] else torch.arange(n, device=x.device).expand(b, n)
    chosen, kind = spread_rows(x, order, m, generator), drawn(1)
    chosen = torch.where(
        kind < damage.lines, lines, torch.where(kind < damage.lines + damage.step, steps, chosen)
    )
    y, view = take(x, chosen), view.gather(1, chosen)
    eye, spacing = take(eyes, view), 2 / m**0.5  # of a surface of area 4
    most = min(damage.noise, damage.spacings * spacing)
    y = y + most * drawn(1, 1) ** 1.5 * (drawn(1, 1) < damage.isotropic) * normal(m, 3)
    y = y + most * drawn(1, 1) ** 1.5 * (drawn(1, 1) < damage.along) * normal(m, 1) * eye
    shift = damage.shift * drawn(1, 1) * (drawn(1, 1) < damage.shifted)
    move, turn = (take(shift * normal(VIEWS, 3) / 3**0.5, view) for _ in range(2))
    y = y + move + torch.linalg.cross(turn, y)
    size = spacing * (1 + 1.5 * drawn(1, 1))
    cell, voxels = (y / size).floor(), drawn(1) < damage.voxels
    key = ((cell.long() + 512) * torch.tensor([1 << 40, 1 << 30, 1 << 20], device=x.device)).sum(2)
    key = torch.where(voxels, key, torch.arange(m, device=x.device))
    ordered, places = key.sort(dim=1, stable=True)
    first = torch.ones_like(key, dtype=torch.bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    y = torch.where(voxels[..., None], (cell + 0.5) * size, y)
    return chosen, y, torch.empty_like(first).scatter_(1, places, first)
