"""How a cloud was sampled, seen at several scales round some of its points: one table, read by all.

    R_c                    distance to the c-th neighbour                               (m, C)
    s_c = v_2 / v_1        variances of the c nearest: 0 in a line, 1 in a round disc    (m, C)
    sigma_c                deviation from the quadric through the c nearest              (m, C)

A neighbourhood is that of a surface where its points lie on all sides (s_c > 1/2 of what 16 random
points of a disc have) and near one sheet (sigma_c below half of the 1 / sqrt(5) of a ball).  Scan
lines are lines below that scale.  Where 16 neighbours lie on all sides, or no number does, the
cloud is its own sample; else the sample needs 16 neighbours at the first scale that has them.

Outliers: points that lie on no part of the manifold, told by a small network from what lies around.

    r_i = mean distance to the 12 nearest,     b_i = third smallest r among those 12
    p_i = nearest point that is no suspect      its normal n and flatness: those of its 12 nearest
    answer      logit_i = MLP(FEATURES numbers that no rotation, scale or order changes)       (n,)
                trained such that a point of the manifold that is lost counts three outliers left

Only points with r > 1.25 b, a few in a hundred of a random sample, or with twice the median of r
are looked at more closely: outliers of their own kind around them, or a sparse part of a scan.
Those removed no longer hide others in the next round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..errors import warn
from ..neighbors.graph import NEAREST
from ..neighbors.layout import principal_axes
from ..neighbors.search import nearest_rows, query, without_self
from .quadrics import SAMPLES, fit_quadrics

AROUND = 9  # places whose median speaks for one
SCALES = 9  # numbers of neighbours, each sqrt(2) times the one before: a reach of four spacings
ROUND = 0.4  # s_c of half of 16 random points of a disc is above .6, of a tenth of them below .4
FLAT = 0.5 / 5**0.5  # sigma_c / R_c
LEAP = 5.0  # from the distance of one of the nearest to the next one's, past copies; random: 1.4
SPANNED = 9  # neighbours of the sample that span the scale: a ring around each, and a half
WORTH = 0.75  # a sample of a larger share of the cloud is the cloud itself
LEAST = 300  # points of a cloud from which its neighbourhoods are looked at
SAID, REFUSED = 0.02, 0.1  # shares of outliers that are told, and that are for the user to remove
NAMES = {1: "a curve", 2: "a surface", 3: "a solid"}


LISTED = 12
SUSPECT = 1.25  # r / b
SPARSE = 2.0  # r over the median of all
FEATURES = 15
ROUNDS = 3
HIDDEN = 1e-3  # share of points that must go before others can have been hidden by them
SHIPPED = Path(__file__).parent / "weights" / "outliers.safetensors"


@dataclass(frozen=True)
class Inspection:
    """The table at some centres ``(m, d)``: ``counts`` of neighbours ``C``, reach, roundness and
    deviation ``(m, C)``, and how many times each place was sampled.
    """

    centres: Tensor
    counts: Tensor
    reach: Tensor
    roundness: Tensor
    deviation: Tensor
    copies: int

    @cached_property
    def labels(self) -> Tensor:
        """The dimension ``(m,)`` at every centre: 1, 2 or 3."""
        sided, flat = self._lasting.any(1), (self.deviation < FLAT * self.reach).any(1)
        found = torch.where(sided, torch.where(flat, 2, 3), 1)
        return found.clamp_max(self.centres.shape[1])

    @cached_property
    def scale(self) -> Tensor:
        """The place ``(m,)`` in ``counts`` of the first scale that has neighbours on all sides."""
        return self._lasting.int().argmax(1)  # the first of all where none has

    @cached_property
    def spacing(self) -> Tensor:
        """Mean distance ``(m,)`` of samples on the manifold."""
        return self.at(self.reach) * (math.pi / (self.counts[self.scale] + 1)) ** 0.5

    def at(self, values: Tensor) -> Tensor:
        """What a column of the table holds at the scale of each centre ``(m,)``."""
        return values.gather(1, self.scale[:, None])[:, 0]

    def crowding(self, dimension: int) -> Tensor:
        """How many points ``(m,)`` a sample of the cloud has one for: copies of a place, or what
        makes 9 neighbours of the sample span the scale of a surface.
        """
        ones = torch.ones_like(self.spacing)
        if self.copies > 1:
            return self.copies * ones
        coarse = self.scale > 0  # limbs have few such places, scan lines most
        if dimension != 2 or float(coarse.double().mean()) < 0.5:
            return ones
        return torch.where(coarse, (self.counts[self.scale] + 1) / (SPANNED + 1), 1.0)

    def is_sample(self, dimension: int) -> bool:
        """Whether the cloud is its own sample."""
        return float((1 / self.crowding(dimension)).mean()) > WORTH

    def doubt(self, dimension: int) -> str | None:
        """In words, which dimensions the places of a cloud have, where fewer than 3 in 5 agree."""
        shares = {each: float((self.labels == each).double().mean()) for each in NAMES}
        if max(shares.values()) >= 0.6:
            return None
        parts = [f"{NAMES[each]} in {share:.0%}" for each, share in shares.items() if share >= 0.1]
        return (
            f"the cloud looks like {' and like '.join(parts)} of its places, and is taken for "
            f"{NAMES[dimension]}"
        )

    @cached_property
    def _lasting(self) -> Tensor:
        sided = self.roundness > ROUND
        return sided & torch.cat([sided[:, 1:], sided[:, -1:]], 1)

    def facts(self, unit: float = 1.0) -> dict[str, Any]:
        """For people: numbers of the whole cloud, times the unit of its points."""
        labels, spacing = self.labels, unit * float(self.spacing.median())
        thickness = unit * float(self.at(self.deviation).median())
        longer = self.roundness[:, 0].clamp_min(torch.finfo(self.reach.dtype).eps).rsqrt()
        votes = {str(each): round(float((labels == each).double().mean()), 3) for each in NAMES}
        return {
            "spacing": spacing,
            "thickness": thickness,
            "noise_over_spacing": round(thickness / max(spacing, 1e-300), 4),
            "anisotropy": round(float(longer.median()), 2),
            "copies": self.copies,
            "dimension_votes": votes,
        }


@torch.no_grad()
def inspect(points: Tensor, near: Tensor, distances: Tensor) -> Inspection:
    """Look at points ``(n, d)`` in two or three dimensions whose lists of nearest ``(n, k)`` are at
    hand; farther where the lists alone do not show a surface.
    """
    n = len(points)
    rows = torch.arange(0, n, max(1, n // SAMPLES), device=points.device)
    centres = points[rows]
    counts = [round(NEAREST * 2 ** (each / 2)) for each in range(SCALES)]
    found = _table(points, centres, near[rows], distances[rows], counts[:2])
    plain = found.labels == 2
    if found.copies == 1 and float((plain & (found.scale == 0)).double().mean()) > 0.7:
        return found
    wide, lengths = query(points, centres, min(counts[-1], n // 4) + 1)
    return _table(points, centres, wide[:, 1:], lengths[:, 1:], counts)


def _table(
    points: Tensor, centres: Tensor, near: Tensor, distances: Tensor, counts: list[int]
) -> Inspection:
    (m, d), tiny = centres.shape, torch.finfo(points.dtype).tiny
    known = torch.tensor([c for c in counts if c <= near.shape[1]], device=points.device)  # (C,)
    offsets = points[near[:, : known[-1]]] - centres[:, None]
    among = torch.arange(offsets.shape[1], device=points.device) < known[:, None]  # (C, k)
    part = (among[..., None] * offsets[:, None]).flatten(0, 1)  # (m C, k, d)
    mean = part.sum(1) / known.repeat(m)[:, None]
    moment = part.mT @ part / known.repeat(m)[:, None, None] - mean[:, :, None] * mean[:, None]
    values = principal_axes(moment)[0].clamp_min(0).view(m, -1, d)
    reach = distances[:, known - 1]
    deviation = torch.zeros_like(reach)
    if d == 3:
        deviation = fit_quadrics(part, among.repeat(m, 1)).deviation.view_as(reach)
    roundness = values[..., -2] / values[..., -1].clamp_min(tiny)
    around = query(centres, centres, min(AROUND, m))[0]
    found = torch.stack([reach, roundness, deviation])[:, around].median(2).values
    leap = (distances[:, 1:9] / distances[:, :8].clamp_min(tiny)).median(0).values > LEAP
    several = int((leap * torch.arange(1, 1 + len(leap), device=leap.device)).max())
    return Inspection(centres, known, found[0], found[1], found[2], 1 + several)


def outlier_network() -> nn.Sequential:
    """The network, untrained."""
    return nn.Sequential(
        nn.Linear(FEATURES, 24), nn.SiLU(), nn.Linear(24, 24), nn.SiLU(), nn.Linear(24, 1)
    )


@cache
def shipped_network(device: torch.device) -> nn.Sequential:
    """The network that comes with the package."""
    found = outlier_network()
    found.load_state_dict(load_file(SHIPPED))
    return found.to(device).eval().requires_grad_(False)


@torch.no_grad()
def find_outliers(points: Tensor, near: Tensor, distances: Tensor) -> Tensor:
    """Which distinct points ``(n,)`` of a cloud ``(n, d)`` are outliers; ``near`` and ``distances
    (n, k)`` are the nearest of each.
    """
    bad = torch.zeros(len(points), dtype=torch.bool, device=points.device)
    kept = torch.arange(len(points), device=points.device)
    for _ in range(ROUNDS):
        rows, features = describe(points[kept], near, distances)
        found = rows[shipped_network(points.device)(features)[:, 0] > 0] if len(rows) else rows
        bad[kept[found]] = True
        if len(found) < HIDDEN * len(points):
            break
        kept = (~bad).nonzero()[:, 0]
        if len(kept) <= 4 * LISTED:
            break
        near, distances = without_self(*nearest_rows(points[kept], points[kept], LISTED + 1))
    return bad


def describe(x: Tensor, near: Tensor, distances: Tensor) -> tuple[Tensor, Tensor]:
    """The suspects ``(s,)`` among points ``(n, d)``, and their numbers ``(s, FEATURES)``."""
    near, distances = near[:, :LISTED], distances[:, :LISTED]
    tiny = torch.finfo(x.dtype).tiny
    reach = distances.mean(1).clamp_min(tiny)
    around = reach[near]
    usual = around.kthvalue(min(3, near.shape[1]), dim=1).values
    middle = reach.median()
    suspect = (reach > SUSPECT * usual) | (reach > SPARSE * middle)
    rows, good = suspect.nonzero()[:, 0], (~suspect).nonzero()[:, 0]
    if not len(rows) or len(good) < LISTED:
        return rows[:0], x.new_zeros((0, FEATURES)).float()
    foot = good[query(x[good], x[rows], 1)[0][:, 0]]
    chord = x[rows] - x[foot]
    length = chord.norm(dim=1).clamp_min(tiny)
    around_both = x[near[torch.cat([foot, rows])]]
    centred = around_both - around_both.mean(1, keepdim=True)
    values, axes = principal_axes(centred.mT @ centred)
    # Smallest over largest deviation of the nearest of either point.
    flatness = (values[:, 0].clamp_min(0) / values[:, -1].clamp_min(tiny)).sqrt()
    flat_there, flat_here = flatness.split(len(rows))
    normal, own = axes[..., 0].split(len(rows))
    height = (chord * normal).sum(1).abs()
    offsets = x[near[rows]] - x[rows, None]
    above = (offsets.mean(1) * own).sum(1).abs()
    one_sided = (offsets / offsets.norm(dim=2, keepdim=True).clamp_min(tiny)).mean(1).norm(dim=1)
    names = torch.bincount(near.flatten(), minlength=len(x))[rows]
    trusted = torch.bincount(near[good].flatten(), minlength=len(x))[rows]
    r, b = reach[rows], usual[rows]
    numbers = [
        (r / b).log(),
        (r / around[rows].median(1).values).log(),
        height / length,
        (height / reach[foot]).clamp_min(1e-3).log(),
        (length / reach[foot]).log(),
        names / LISTED,
        trusted / LISTED,
        distances[rows, 0] / r,
        above / b,
        flat_here,
        flat_there,
        one_sided,
        (r / middle).log(),
        # Of the whole cloud: how uneven it is, and how much of it looks like this.
        reach.log().std().expand(len(rows)),
        suspect.to(x.dtype).mean().expand(len(rows)),
    ]
    return rows, torch.stack(numbers, 1).float().clamp(-8, 8)


def removable(outliers: Tensor) -> Tensor:
    """The outliers ``(n,)`` that are left out: none where they are too many to be, which is
    said.
    """
    count, n = int(outliers.sum()), len(outliers)
    if count > REFUSED * n:
        warn(
            f"{count} of {n} points ({count / n:.0%}) lie off the rest like outliers: too many to "
            "leave out unasked; remove them and decompose the others"
        )
        return torch.zeros_like(outliers)
    return outliers
