"""Strays: points that lie on no part of the manifold.

    r_i = mean distance to the 12 nearest,   b_i = lower quartile of r among them          crowding
    u_i = |<n, x_i - p>| / |x_i - p|         p: the nearest point that is not suspected, n: its normal
    z_i = |<n_i, x_i - mean of the 12>|      height over the plane of the neighbours

A stray is much farther from its neighbours than they are from each other (r_i > c b_i) *and* stands off their sheet
(u_i large: the sparse side of a step in the sampling lies in the sheet), or it is as high over a sheet that is flat
(z_i above half of b_i and four times what is usual around it).  Points removed in one round no longer hide others in
the next.  Nothing is removed unless some points are far off beyond doubt: random samples of a surface have none.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..search.axes import principal_axes
from ..search.neighbours import nearest_rows, query


@dataclass(frozen=True)
class StrayRule:
    """Constants, chosen on development shapes (even, random, scan lines, steps of density, 2.5 and 5 % strays)."""

    nearest: int = 12
    quartile: float = 0.25
    times: float = 1.5  # r over b of a suspect
    beyond: float = 2.5  # r over b of a point that is far off beyond doubt
    off: float = 0.6  # u: sine of 37 degrees
    height: float = 0.5  # z over b
    unusual: float = 3.0  # z over the median of z around
    few: int = 3  # points beyond doubt, or ...
    share: float = 5e-4  # ... this share of all, below which nothing is removed
    mostly: float = 0.7  # share of bad points among those far from all others; .3 to .6 at steps of the density
    rounds: int = 6


RULE = StrayRule()


def find_strays(points: Tensor, rule: StrayRule = RULE) -> Tensor:
    """Which points ``(n,)`` of a cloud ``(n, d)`` in two or three dimensions are strays."""
    n = len(points)
    stray = torch.zeros(n, dtype=torch.bool, device=points.device)
    for number in range(rule.rounds):
        live = (~stray).nonzero()[:, 0]
        if len(live) < 4 * rule.nearest:
            break
        bad, certain, reach = _suspects(points[live], rule)
        if number == 0 and int(certain.sum()) < max(rule.few, rule.share * n):
            break
        if number == 0 and not _sparse_are_bad(reach, bad, rule):
            break
        if not bool(bad.any()):
            break
        stray[live[bad]] = True
    return stray


def may_have_strays(near: Tensor, distances: Tensor, rule: StrayRule = RULE) -> bool:
    """Whether some points are so far from their nearest ones, ``(n, k)`` each, that a closer look pays."""
    count = min(rule.nearest, near.shape[1])
    reach = distances[:, :count].mean(1)
    around = reach[near[:, :count]].kthvalue(max(1, round(rule.quartile * count)), dim=1).values
    far = reach > rule.beyond * around.clamp_min(torch.finfo(reach.dtype).tiny)
    return int(far.sum()) >= max(rule.few, rule.share * len(near))


def _sparse_are_bad(reach: Tensor, bad: Tensor, rule: StrayRule) -> bool:
    """Whether points far from all others are mostly bad: where many of them are not, one side is sampled sparsely."""
    dense = reach.kthvalue(max(1, round(rule.quartile * len(reach)))).values
    sparse = reach > rule.beyond * dense
    return not bool(sparse.any()) or float(bad[sparse].double().mean()) >= rule.mostly


def _suspects(x: Tensor, rule: StrayRule) -> tuple[Tensor, Tensor, Tensor]:
    """Which of the points are strays as far as can be seen in one round, which beyond doubt, and r ``(n,)``."""
    near, distances = nearest_rows(x, x, rule.nearest + 1)
    near, reach = near[:, 1:], distances[:, 1:].mean(1)
    tiny = torch.finfo(x.dtype).tiny
    around = reach[near].kthvalue(max(1, round(rule.quartile * rule.nearest)), dim=1).values.clamp_min(tiny)
    offsets = x[near] - x[near].mean(1, keepdim=True)
    normal = principal_axes(offsets.mT @ offsets)[1][..., 0]  # (n, d)
    height = ((x - x[near].mean(1)) * normal).sum(1).abs()
    usual = height[near].median(1).values
    high = (height > rule.height * around) & (height > rule.unusual * usual)
    far = reach > rule.times * around
    doubt = far | high
    good = (~doubt).nonzero()[:, 0]
    rows = far.nonzero()[:, 0]
    off = torch.zeros_like(high)
    if len(good) > rule.nearest and len(rows):
        nearest, length = query(x[good], x[rows], 1)
        foot = good[nearest[:, 0]]
        sine = ((x[rows] - x[foot]) * normal[foot]).sum(1).abs() / length[:, 0].clamp_min(tiny)
        off[rows] = sine > rule.off
    bad = high | off
    return bad, off & (reach > rule.beyond * around), reach
