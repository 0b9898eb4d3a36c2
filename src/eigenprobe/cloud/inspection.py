"""How a cloud was sampled, seen at several scales round some of its points: one table, read by all.

    R_c                    distance to the c-th neighbour                               (m, C)
    s_c = v_2 / v_1        variances of the c nearest: 0 in a line, 1 in a round disc    (m, C)

A neighbourhood has points on all sides where s_c is above 1/2 of what 16 random points of a disc
have.  Scan lines are lines below that scale.  Where 16 neighbours lie on all sides, or no number
does, the cloud is its own sample, of the dimension of its graph; else it is a surface, and the
sample needs 16 neighbours at the first scale that has them.

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
from ..neighbors.graph import NEAREST, Graph, place_dimensions
from ..neighbors.layout import principal_axes
from ..neighbors.search import nearest_rows, query, without_self
from .quadrics import SAMPLES

AROUND = 9  # places whose median speaks for one
SCALES = 9  # numbers of neighbours, each sqrt(2) times the one before: a reach of four spacings
ROUND = 0.4  # s_c of half of 16 random points of a disc is above .6, of a tenth of them below .4
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
    """The table at some centres ``(m, d)``: ``counts`` of neighbours ``C``, reach and roundness
    ``(m, C)``; how many times each place was sampled, and the dimension at some, ``labels (s,)``.
    """

    centres: Tensor
    counts: Tensor
    reach: Tensor
    roundness: Tensor
    copies: int
    labels: Tensor

    @cached_property
    def scale(self) -> Tensor:
        """The place ``(m,)`` in ``counts`` of the first scale that has neighbours on all sides."""
        return self._lasting.int().argmax(1)  # the first of all where none has

    @cached_property
    def coarse(self) -> bool:
        """Whether most places are a surface at a larger scale only, as those of scan lines."""
        return float((self.scale > 0).double().mean()) >= 0.5

    @property
    def dimension(self) -> int:
        """That of most places; what is on all sides at a larger scale only is a surface."""
        return 2 if self.coarse else int(self.labels.mode().values)

    @cached_property
    def spacing(self) -> Tensor:
        """Mean distance ``(m,)`` of samples on the manifold."""
        reach = self.reach.gather(1, self.scale[:, None])[:, 0]
        return reach * (math.pi / (self.counts[self.scale] + 1)) ** 0.5

    @cached_property
    def crowding(self) -> Tensor:
        """How many points ``(m,)`` a sample of the cloud has one for: copies of a place, or what
        makes 9 neighbours of the sample span the scale of a surface.
        """
        ones = torch.ones_like(self.spacing)
        if self.copies > 1:
            return self.copies * ones
        if not self.coarse:  # limbs have few such places, scan lines most
            return ones
        return torch.where(self.scale > 0, (self.counts[self.scale] + 1) / (SPANNED + 1), 1.0)

    @property
    def is_sample(self) -> bool:
        """Whether the cloud is its own sample."""
        return float((1 / self.crowding).mean()) > WORTH

    def doubt(self) -> str | None:
        """In words, which dimensions the places of a cloud have, where fewer than 3 in 5 agree."""
        if self.coarse or max(self._votes.values()) >= 0.6:
            return None
        parts = [f"{NAMES[d]} in {share:.0%}" for d, share in self._votes.items() if share >= 0.1]
        return (
            f"the cloud looks like {' and like '.join(parts)} of its places, and is taken for "
            f"{NAMES[self.dimension]}"
        )

    @property
    def _votes(self) -> dict[int, float]:
        return {each: round(float((self.labels == each).double().mean()), 3) for each in NAMES}

    @cached_property
    def _lasting(self) -> Tensor:
        sided = self.roundness > ROUND
        return sided & torch.cat([sided[:, 1:], sided[:, -1:]], 1)

    def facts(self) -> dict[str, Any]:
        """For people: numbers of the whole cloud, in the units of its points."""
        longer = self.roundness[:, 0].clamp_min(torch.finfo(self.reach.dtype).eps).rsqrt()
        return {
            "spacing": float(self.spacing.median()),
            "anisotropy": round(float(longer.median()), 2),
            "copies": self.copies,
            "dimension_votes": {str(each): share for each, share in self._votes.items()},
        }


@torch.no_grad()
def inspect(graph: Graph) -> Inspection:
    """Look at some points of a cloud in two or three dimensions; farther than its lists where they
    alone do not show neighbours on all sides.
    """
    points, labels = graph.points, place_dimensions(graph)[0]
    rows = torch.arange(0, graph.n, max(1, graph.n // SAMPLES), device=points.device)
    near, lengths = graph.indices[rows], graph.distances[rows]
    counts = [round(NEAREST * 2 ** (each / 2)) for each in range(SCALES)]
    found = _table(points, rows, near, lengths, counts[:2], labels)
    if found.copies == 1 and float(found._lasting[:, 0].double().mean()) > 0.7:
        return found
    wide, lengths = query(points, points[rows], min(counts[-1], graph.n // 4) + 1)
    return _table(points, rows, wide[:, 1:], lengths[:, 1:], counts, labels)


def _table(
    points: Tensor, rows: Tensor, near: Tensor, distances: Tensor, counts: list[int], labels: Tensor
) -> Inspection:
    centres, tiny = points[rows], torch.finfo(points.dtype).tiny
    m, d = centres.shape
    known = torch.tensor([c for c in counts if c <= near.shape[1]], device=points.device)  # (C,)
    offsets = points[near[:, : known[-1]]] - centres[:, None]
    # Means over the nearest c of all offsets and their products.
    share = (torch.arange(offsets.shape[1], device=points.device) < known[:, None]) / known[:, None]
    share = share.to(offsets)  # (C, k)
    mean = share @ offsets  # (m, C, d)
    products = (offsets[..., None] * offsets[:, :, None]).flatten(2)  # (m, k, d d)
    moment = (share @ products).unflatten(2, (d, d)) - mean[..., None] * mean[:, :, None]
    values = principal_axes(moment.flatten(0, 1))[0].clamp_min(0).view(m, -1, d)
    roundness = values[..., -2] / values[..., -1].clamp_min(tiny)
    around = query(centres, centres, min(AROUND, m))[0]
    found = torch.stack([distances[:, known - 1], roundness])[:, around].median(2).values
    leap = (distances[:, 1:9] / distances[:, :8].clamp_min(tiny)).median(0).values > LEAP
    several = int((leap * torch.arange(1, 1 + len(leap), device=leap.device)).max())
    return Inspection(centres, known, found[0], found[1], 1 + several, labels)


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
