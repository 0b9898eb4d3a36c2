"""How a cloud was sampled, seen at several scales round a few hundred of its points.

    C_c (d, d)     covariance of the c nearest, c = 12, 16, 24, ..., 256;  v_1 >= v_2 >= v_3 its eigenvalues
    surface        v_2 / v_1 above `round`: points on all sides, not in a line
    sigma_c        deviation from the quadric fitted to the c nearest: noise, where the surface is smooth
    R_c            distance to the c-th

The scale at which a cloud is a surface is the smallest at which neighbours lie on all sides (scan lines are lines below
it) and their deviation from a quadric is well below their reach (noise is a solid below it).  What is found there is
local: the spacing h, the distance of scan lines, the noise; each is the median over neighbouring centres.

Strays: points that lie on no part of the manifold.

    r_i = mean distance to the 12 nearest,   b_i = lower quartile of r among them          crowding
    u_i = |<n, x_i - p>| / |x_i - p|         p: the nearest point that is not suspected, n: its normal
    z_i = |<n_i, x_i - mean of the 12>|      height over the plane of the neighbours

A stray is much farther from its neighbours than they are from each other (r_i > c b_i) *and* stands off their sheet
(u_i large: the sparse side of a step in the sampling lies in the sheet), or it is as high over a sheet that is flat
(z_i above half of b_i and four times what is usual around it).  Points removed in one round no longer hide others in
the next.  Nothing is removed unless some points are far off beyond doubt: random samples of a surface have none.
Where points far from all others lie on one side of the rest, that side is sampled sparsely, and they are no strays;
where they lie all around an even cloud, those farthest away are strays whatever is near them (`_sampling`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..search.layout import principal_axes
from ..search.neighbours import nearest_rows, query


@dataclass(frozen=True)
class Scales:
    """Constants of the survey, chosen on development shapes and on curves, surfaces and solids with known spectra."""

    centres: int = 1200  # points that are looked at
    counts: tuple[int, ...] = (12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # c
    around: int = 9  # centres whose median speaks for one
    round: float = 0.4  # v_2 / v_1 of a surface: .5 to 1 for random samples of a disc, below .1 in a scan line
    flat: float = 0.25  # sigma / R up to which neighbours are a surface and not a solid; .45 in a ball
    lined: float = 0.3  # share of samples that look like a line where some others are not worth a survey
    rough: float = 0.13  # sigma over h of half of the samples from which there may be noise
    sheets: float = 1.9  # kurtosis of deviations: 1.1 to 1.5 for both sides of a plate, 2.1 for voxels, 2.6 for noise
    many: int = 1000  # points below which edges and corners cannot be told from noise
    dense: int = 20_000  # points among which noise of a hundredth of the size is seen
    glance: int = 400  # samples of a first look
    copies: float = 0.01  # of the volume that holds sixteen: points in so little of it are copies


SCALES = Scales()
FIRST_LOOK = Scales(centres=64, counts=(16, 32, 64, 128, 256))  # tells a clean curve or a solid


@dataclass(frozen=True)
class Quality:
    """What was found at the centres ``(c, d)``: all but the shares ``(c,)``, in units of the points."""

    centres: Tensor
    dimension: int  # of most centres: 1, 2 or 3
    votes: dict[int, float]  # share of the centres by dimension
    spacing: Tensor  # mean distance of samples on the manifold, h
    lines: Tensor  # distance of scan lines; 0 where samples lie on all sides of each other
    noise: Tensor  # sigma; of a solid 0
    copies: int  # how many times each place was sampled
    cleaned: bool = False  # whether points were moved back onto their surface since

    @property
    def roughness(self) -> float:
        """The median deviation from quadrics over the spacing: noise, or details and thin parts."""
        return float((self.noise / self.spacing).median())

    def noisy(self, least: float, certain: float, even: float) -> bool:
        """Whether deviations are noise: large everywhere, or larger than details of a shape ever are.

        Noise has one level, details have not: a fifth of the centres sees less than half of the median of them.
        """
        relative, middle = self.noise / self.spacing, self.roughness
        return middle > certain or (middle > least and float(relative.quantile(0.2)) > even * middle)

    def narrow(self, least: float) -> str | None:
        """In words, which dimensions the places of the cloud have, where fewer than a share agree; None where not."""
        if max(self.votes.values()) >= least:
            return None
        names = {1: "a curve", 2: "a surface", 3: "a solid"}
        parts = [f"{names[each]} in {share:.0%}" for each, share in self.votes.items() if share >= 0.1]
        return (
            f"the cloud looks like {' and like '.join(parts)} of its places, and is taken for {names[self.dimension]}"
        )

    def facts(self, strays: int, n: int) -> dict[str, Any]:
        """For people: numbers of the whole cloud."""
        spacing = float(self.spacing.median())
        lined = self.lines > 0
        ratio = (self.lines / self.spacing)[lined]
        return {
            "spacing": spacing,
            "thickness": float(self.noise.median()),
            "noise_over_spacing": round(self.roughness, 4),
            "anisotropy": round(float(ratio.median()), 2) if len(ratio) > 0.3 * len(lined) else 1.0,
            "copies": self.copies,
            "cleaned": self.cleaned,
            "strays": strays,
            "stray_share": round(strays / n, 5),
            "dimension_votes": {str(name): round(share, 3) for name, share in self.votes.items()},
        }


@dataclass(frozen=True)
class Glance:
    """What a few hundred samples of a cloud and their nearest points ``(n, k)``, ascending, tell at once."""

    even: bool  # most have neighbours on all sides, none stands for copies, and quadrics pass through them
    spacing: float
    thickness: float
    anisotropy: float  # of the nearest sixteen: the ratio of their two longest axes, 1 where most are round

    def facts(self, scale: float) -> dict[str, Any]:
        """For people, in units of which the points' own are ``scale``."""
        return {
            "spacing": scale * self.spacing,
            "thickness": scale * self.thickness,
            "noise_over_spacing": round(self.thickness / max(self.spacing, 1e-300), 4),
            "anisotropy": round(self.anisotropy, 2),
            "copies": 1,
            "cleaned": False,
            "strays": 0,
            "stray_share": 0.0,
        }


@torch.no_grad()
def glance(points: Tensor, near: Tensor, distances: Tensor, scales: Scales = SCALES) -> Glance:
    """Look at some points of a cloud ``(n, d)`` whose lists of nearest are at hand."""
    n = len(points)
    rows = torch.arange(0, n, max(1, n // scales.glance), device=points.device)
    count = min(16, near.shape[1])
    offsets, radius = points[near[rows, :count]] - points[rows, None], distances[rows, count - 1]
    values, axes = _axes(offsets)
    lined = values[:, -2] < scales.round * values[:, -1]
    spacing = radius * (math.pi / (count + 1)) ** 0.5
    deviation, kurtosis = _residual(offsets, axes, radius, 2)
    rough = (deviation > scales.rough * spacing) & (kurtosis > scales.sheets) & (n >= scales.many)
    several = (distances[rows, :count] < scales.copies**0.5 * radius[:, None]).sum(1)
    few = lined.double().mean() < scales.lined
    even = bool(few and rough.double().mean() < 0.5 and several.double().median() < 1)
    longer = (values[:, -1] / values[:, -2].clamp_min(torch.finfo(values.dtype).tiny)).sqrt()
    return Glance(even, float(spacing.median()), float(deviation.median()), 1.0 if few else float(longer.median()))


def survey(points: Tensor, seed: int = 0, scales: Scales = SCALES, dimension: int | None = None) -> Quality:
    """Look at a cloud ``(n, d)`` in two or three dimensions, of at least a few hundred points.

    ``dimension`` is the one that is known; None leaves it to the votes.

    Noise far above the spacing fills the neighbourhoods that are looked at: of very many points some are looked at
    alone as well, whose neighbours reach farther.
    """
    whole = _survey(points, seed, scales, dimension)
    n, most = len(points), scales.dense
    if n <= 2 * most:
        return whole
    some = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:most].to(points.device)
    part = _survey(points[some], seed, scales, dimension)
    if part.dimension >= whole.dimension and float(part.noise.median()) <= 1.3 * float(whole.noise.median()):
        return whole
    spacing = part.spacing * (most / n) ** (1 / part.dimension)
    return replace(part, spacing=spacing, lines=torch.zeros_like(spacing), copies=whole.copies)


@torch.no_grad()
def _survey(points: Tensor, seed: int, scales: Scales, known: int | None) -> Quality:
    n, d = points.shape
    counts = torch.tensor([c for c in scales.counts if c <= n // 4], device=points.device)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(n, generator=generator)[: scales.centres].sort().values.to(points.device)
    centres = points[chosen]
    near, distances = query(points, centres, int(counts[-1]) + 1)
    offsets = points[near] - centres[:, None]
    reach, roundness, residual, fourth, frames = [], [], [], [], []
    for count in counts.tolist():
        part, length = offsets[:, : count + 1], distances[:, count]
        values, axes = _axes(part)
        roundness.append(values[:, -2] / values[:, -1].clamp_min(torch.finfo(values.dtype).tiny))
        spread, peaked = _residual(part, axes, length, 2)
        residual.append(spread)
        fourth.append(peaked)
        reach.append(length)
        frames.append(axes)
    around = query(centres, centres, min(scales.around, len(centres)))[0]

    def usual(each: list[Tensor]) -> Tensor:
        return torch.stack(each, 1)[around].median(1).values  # (c, counts)

    sides, deviation, radius, kurtosis = (usual(each) for each in (roundness, residual, reach, fourth))
    flat = (deviation <= scales.flat * radius) if d == 3 else torch.ones_like(sides, dtype=torch.bool)
    all_sides = sides >= scales.round
    lasting = all_sides & torch.cat([all_sides[:, 1:], all_sides[:, -1:]], 1)
    label = torch.where(lasting.any(1), torch.where(flat.any(1), 2, 3), 1)
    if d == 2:
        label = label.clamp_max(2)
    votes = {each: float((label == each).float().mean()) for each in (1, 2, 3)}
    dimension = max(votes, key=lambda each: votes[each]) if known is None else known
    first = lasting.int().argmax(1) if dimension > 1 else torch.zeros_like(label)
    rows = torch.arange(len(centres), device=points.device)
    ball = math.pi if dimension == 2 else 4 * math.pi / 3 if dimension == 3 else 2.0
    volume = ball * radius[rows, first] ** dimension / (counts[first] + 1)
    spacing = volume ** (1 / dimension)
    lined = (first > 0) & (dimension == 2) & (n >= scales.many)
    lines = torch.where(lined, radius[rows, first], 0.0)
    noise = torch.zeros_like(spacing)
    if dimension < min(d, 3) or (dimension == 2 and d == 3):
        thickness = deviation
        if dimension == 1:
            looks = zip(counts.tolist(), frames, reach, strict=True)
            thickness = usual([_residual(offsets[:, : count + 1], axes, far, 1)[0] for count, axes, far in looks])
        thin = thickness <= scales.flat * radius
        scale = torch.maximum(torch.where(thin.any(1), thin.int().argmax(1), len(counts) - 1), first)
        after = (scale + 1).clamp_max(len(counts) - 1)
        noise = torch.minimum(thickness[rows, scale], thickness[rows, after])
        if dimension == 2:
            noise = torch.where((kurtosis[rows, scale] > scales.sheets) & (n >= scales.many), noise, 0.0)
    sixteenth = distances[:, min(16, distances.shape[1] - 1), None]
    near_by = scales.copies ** (1 / dimension)  # holds a sixth of a point on average where places differ
    copies = int((distances < near_by * sixteenth).sum(1).float().median())
    return Quality(centres, dimension, votes, spacing, lines, noise, max(1, copies))


def _axes(offsets: Tensor) -> tuple[Tensor, Tensor]:
    centred = offsets - offsets.mean(1, keepdim=True)
    values, axes = principal_axes(centred.mT @ centred / offsets.shape[1])
    return values.clamp_min(0), axes


def _residual(offsets: Tensor, axes: Tensor, radius: Tensor, dimension: int) -> tuple[Tensor, Tensor]:
    """Root mean square distance ``(c,)`` from the quadric (on a curve: parabola) fitted to ``offsets (c, k, d)``.

    And the kurtosis of the distances: 3 for Gaussian noise, 1 for two sheets side by side.
    """
    if offsets.shape[2] == dimension:
        return torch.zeros_like(radius), torch.full_like(radius, 3.0)
    local = (offsets @ axes) / radius[:, None, None].clamp_min(torch.finfo(radius.dtype).tiny)
    if dimension == 1:
        x, rest = local[..., -1], local[..., :-1]
        terms = torch.stack([torch.ones_like(x), x, x * x], -1)
    else:
        x, y, rest = local[..., -1], local[..., -2], local[..., :-2]
        terms = torch.stack([torch.ones_like(x), x, y, x * x, x * y, y * y], -1)
    normal = terms.mT @ terms + 1e-9 * torch.eye(terms.shape[-1], dtype=terms.dtype, device=terms.device)
    found = torch.linalg.solve(normal, terms.mT @ rest)
    squared = (rest - terms @ found).square().sum(2)
    mean = squared.mean(1)
    freedom = squared.shape[1] / max(1, terms.shape[1] - terms.shape[2]) / rest.shape[-1]
    kurtosis = squared.square().mean(1) / mean.square().clamp_min(torch.finfo(mean.dtype).tiny)
    return (freedom * mean).sqrt() * radius, kurtosis


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
    mostly: float = 0.7  # share of bad points among those far from all others
    some: float = 0.25  # the same where flying pixels are among those that a view grazes; up to .2 in a random curve
    certainly: float = 0.4  # share of points beyond doubt among them: .5 to 1 of strays, less at steps of the density
    many: float = 0.65  # points beyond doubt over the root of all: .7 and more with 3 % of strays, .5 at steps
    alone: float = 5.0  # distances of dense points from which a point of an even cloud is a stray, whatever is near it
    grazing: float = 3.5  # distances of dense points at good ones that a view grazes: 3 in a depth image, 4 at a step
    noisy: float = 4.0  # bad points per one beyond doubt from which the sheet is thick; up to 1.6 in a thin one
    several: int = 10  # points far from all others: so many random strays lie on one side of a shape once in 300
    beside: float = 0.9  # share of them, and of the rest, on either side of a plane where that side is sampled sparsely
    rounds: int = 6


RULE = StrayRule()


def find_strays(points: Tensor, lists: tuple[Tensor, Tensor] | None = None, rule: StrayRule = RULE) -> Tensor:
    """Which points ``(n,)`` of a cloud ``(n, d)`` in two or three dimensions are strays; ``lists`` are the nearest of
    each and their distances ``(n, k)``, where they are at hand."""
    n, alone = len(points), torch.inf
    stray, thick = torch.zeros(n, dtype=torch.bool, device=points.device), False
    for number in range(rule.rounds):
        live = (~stray).nonzero()[:, 0]
        if len(live) < 4 * rule.nearest:
            break
        bad, certain, reach = _suspects(points[live], lists if number == 0 else None, rule)
        if number == 0:
            if int(certain.sum()) < max(rule.few, rule.share * n):
                break
            dense = float(reach.kthvalue(max(1, round(rule.quartile * n))).values)
            sampled = _sampling(points, reach / max(dense, torch.finfo(reach.dtype).tiny), bad, certain, rule)
            if sampled == "sparse":
                break
            thick = sampled == "grazed" or int(bad.sum()) > rule.noisy * int(certain.sum())
            alone = rule.alone * dense if sampled == "even" else alone
        if thick:
            bad = certain  # many points of the sheet lie above the plane of their neighbours, or are far from them
        bad = bad | (reach > alone)  # strays with strays for neighbours
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


def _sampling(
    x: Tensor, far: Tensor, bad: Tensor, certain: Tensor, rule: StrayRule
) -> Literal["sparse", "grazed", "even"]:
    """What most points are that lie ``far (n,)`` from all others, in distances of dense ones: a side that is sampled
    sparsely, one that a view grazes, or strays of an even cloud.

    Strays lie all around; they are mostly bad and many of them beyond doubt, or, where they have strays for neighbours
    of their own, very many are.
    """
    sparse = far > rule.beyond
    if not bool(sparse.any()):
        return "even"
    if _on_one_side(x, sparse, rule):
        return "sparse"
    share, beyond_doubt = (float(each[sparse].double().mean()) for each in (bad, certain))
    if int(certain.sum()) > rule.many * len(x) ** 0.5 or (share >= rule.mostly and beyond_doubt >= rule.certainly):
        return "even"
    good = far[sparse & ~bad]
    return "grazed" if share >= rule.some and len(good) and float(good.median()) < rule.grazing else "sparse"


def _on_one_side(x: Tensor, some: Tensor, rule: StrayRule) -> bool:
    """Whether a plane (Fisher's discriminant) has some points ``(n,)`` on one side, and the others on the other."""
    if int(some.sum()) < rule.several:
        return False
    groups = [x[some].double(), x[~some].double()]
    offsets = [group - group.mean(0) for group in groups]
    scatter = torch.stack([offset.T @ offset / len(offset) for offset in offsets]).sum(0)
    normal = torch.linalg.pinv(scatter, hermitian=True) @ (groups[0].mean(0) - groups[1].mean(0))
    one, other = groups[0] @ normal, -groups[1] @ normal
    least = [values.kthvalue(max(1, round((1 - rule.beside) * len(values)))).values for values in (one, other)]
    return bool(least[0] > -least[1])


def _suspects(x: Tensor, lists: tuple[Tensor, Tensor] | None, rule: StrayRule) -> tuple[Tensor, Tensor, Tensor]:
    """Which of the points are strays as far as can be seen in one round, which beyond doubt, and r ``(n,)``."""
    near, distances = (part[:, 1:] for part in nearest_rows(x, x, rule.nearest + 1)) if lists is None else lists
    near, reach = near[:, : rule.nearest], distances[:, : rule.nearest].mean(1)
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
