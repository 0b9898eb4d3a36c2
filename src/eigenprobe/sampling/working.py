"""The working sample: an even, averaged subset of a cloud at a scale where it is a manifold.

    h' = max( h,  l / 2.2,  (sigma h^(dim/2) / c)^(1 / (1 + dim/2)) )      l: distance of scan lines, sigma: noise
    |z_a - z_b| >= h' (about)          a maximal set of points at that distance, then means of their cells, twice
    rows[i]                            the cell of given point i;    shares[i]  what i has of the mass of its cell

The third term makes the noise that is left after averaging, sigma (h / h')^(dim/2), a share c of the new spacing.  The
spacing that is asked for changes slowly in space.  Strays take no part: they lie in the nearest cell and have no mass.
On a clean even cloud nothing is to be done, and the sample is the cloud.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..errors import InputError, warn
from ..search.neighbours import nearest_rows, query
from .cleaning import clean
from .farthest import farthest_points
from .quality import FIRST_LOOK, Glance, Quality, find_strays, may_have_strays, survey

Resolution = Literal["auto", "all"] | int


@dataclass(frozen=True)
class SampleRule:
    """Constants, chosen on development shapes."""

    least: int = 300  # points below which a cloud is taken as it is
    left: float = 0.09  # c: noise that is left, of the spacing; half of it loses thin limbs, twice it leaves a bias
    layers: float = 5.0  # least spacing over sigma: nearer cells would lie on top of each other in a noisy sheet
    left_cleaned: float = 0.2  # the same after cleaning, which takes most of it
    noisy: tuple[float, float, float] = (0.15, 0.25, 0.6)  # sigma / h that may be noise, that is; its evenness
    lined: float = 0.35  # share of centres in scan lines above which there are some
    across: float = 1.75  # cells per reach that sees the next scan lines: two fifths of the points at 8 : 1
    grade: float = 0.35  # the spacing asked for changes by so much per length
    smallest: int = 400  # points of a working sample, if there are as many
    light: float = 0.1  # of the usual number of points in a cell of the grid: fewer may be strays
    within: float = 0.999  # share of points that are nearer to their mean than a stray is to any
    sure: float = 2.5  # logit of a mean that is a stray: those of the tails of noise have 0 to 2
    most: int = 20_000  # averaged points of very many: hundreds of them per wave of the fiftieth vector
    narrow: float = 0.6  # share of places that agree on a dimension, below which it is said
    judged: int = 1000  # points from which it is
    agreed: float = 0.97  # share of the places of a first look that agree on a clean curve or a solid
    worth: float = 0.75  # a sample of a larger share of the cloud is the cloud itself
    packing: tuple[float, ...] = (1.25, 1.1, 1.0, 0.9)  # least distances of sampled points over the one asked for
    rounds: int = 2  # of means of cells
    plenty: int = 2500  # averaged points from which a cleaned cloud is averaged too: misregistered sheets meet
    cleaned: int = 50_000  # points of a noisy surface up to which a network moves them back onto it
    passes: float = 1e8  # distances of a farthest-point order, which is more even than a maximal set of points
    large: int = 200_000  # points from which a grid thins them before anything is asked of every point
    crowded: float = 1.2  # more than so many times the points asked for are thinned once more
    voxels: float = 3.0  # a cloud with more points per spacing is thinned by a grid first


RULE = SampleRule()


@dataclass(frozen=True)
class WorkingSample:
    """Sampled ``points (m, d)``, and for every ``given (n, d)`` point its cell and its share of that cell's mass."""

    given: Tensor
    points: Tensor
    rows: Tensor  # (n,)
    shares: Tensor  # (n,), those of a cell sum to 1; 0 for strays
    strays: Tensor  # (n,) bool
    facts: dict[str, Any]

    @property
    def one_to_one(self) -> bool:
        """Whether every sampled point stands for one given point."""
        return len(self.points) == int((self.shares > 0).sum())

    def without(self, left_out: Tensor) -> WorkingSample:
        """The sample without some of its points ``(m,)`` bool: what was in their cells has no share any more."""
        kept = (~left_out).nonzero()[:, 0]
        place = torch.empty_like(left_out, dtype=torch.int64)
        place[kept] = torch.arange(len(kept), device=place.device)
        lost = left_out[self.rows]
        rows = place[self.rows]
        given = self.given[lost]
        rows[lost] = query(self.points[kept], given, 1)[0][:, 0]
        shares = self.shares.masked_fill(lost, 0.0)
        return replace(self, points=self.points[kept], rows=rows, shares=shares)

    @classmethod
    def whole(cls, points: Tensor) -> WorkingSample:
        """The cloud itself."""
        n, device = len(points), points.device
        nothing = torch.zeros(n, dtype=torch.bool, device=device)
        return cls(points, points, torch.arange(n, device=device), torch.ones_like(points[:, 0]), nothing, {})

    def collect(self, values: Tensor) -> Tensor:
        """Values ``(n, ...)`` at given points as means ``(m, ...)`` over cells."""
        weight = self.shares.to(values).view(-1, *[1] * (values.ndim - 1))
        return values.new_zeros((len(self.points), *values.shape[1:])).index_add_(0, self.rows, weight * values)


def is_even(
    points: Tensor, near: Tensor, distances: Tensor, seen: Callable[[], Glance], dimension: float | None = None
) -> bool:
    """Whether a cloud is its own working sample, as far as its lists of nearest points ``(n, k)`` tell at once.

    What does not look like an even surface may be a clean curve or a solid: a few centres tell both.
    """
    n, d = points.shape
    if d not in (2, 3) or n < RULE.least or near.shape[1] < 12:
        return True
    even, strays = seen().even, may_have_strays(near, distances)
    if even or dimension is not None or n > 2 * FIRST_LOOK.dense:
        return even and not strays
    few = survey(points, scales=FIRST_LOOK)
    if few.votes[few.dimension] < RULE.agreed or few.copies > 1:
        return False
    quiet = float((few.noise / few.spacing).median()) < RULE.noisy[0] / 2
    if few.dimension == 1 and quiet and strays:  # random points of a curve have wide gaps: a closer look
        strays = bool(find_strays(points, (near, distances)).any())
    return few.dimension == 3 or (few.dimension == 1 and quiet and not strays)


@torch.no_grad()
def working_sample(
    points: Tensor, resolution: Resolution = "auto", seed: int = 0, dimension: float | None = None
) -> WorkingSample | None:
    """The working sample of a cloud ``(n, d)``, or None where it is the cloud itself; its ``dimension``, if known."""
    n, d = points.shape
    known = None if dimension is None else min(max(1, round(dimension)), d)
    if resolution == "all" or d not in (2, 3) or n < RULE.least:
        if isinstance(resolution, int):
            _check(resolution, n)
            needed = "2 or 3 dimensions" if d not in (2, 3) else f"{RULE.least} points or more"
            raise InputError(f"a resolution of {resolution} points needs a cloud of {needed}, got {n} points of {d}")
        return None
    if isinstance(resolution, int):
        _check(resolution, n)
    if resolution == "auto" and n > RULE.large and (found := _of_many(points, seed, known)) is not None:
        return found
    stray = find_strays(points)
    kept = (~stray).nonzero()[:, 0]
    x = points[kept]
    quality = survey(x, seed, dimension=known)
    if quality.dimension == d:  # the tails of a solid are sparse, and have no sheet to stand off
        stray, x, kept = torch.zeros_like(stray), points, torch.arange(n, device=points.device)
    if known is None and n >= RULE.judged and (unsure := quality.narrow(RULE.narrow)):
        warn(f"{unsure}: pass dimension= where it matters")
    places, judged, quality = _cleaned(x, quality)
    stray[kept[judged]] = True
    kept, x = kept[~judged], places[~judged]
    facts = quality.facts(int(stray.sum()), n)
    asked = _spacing(quality, facts, len(x))
    count = float(len(x) * ((quality.spacing / asked) ** quality.dimension).mean())
    if isinstance(resolution, int):
        asked, count = quality.spacing * (len(x) / resolution) ** (1 / quality.dimension), float(resolution)
    elif count < (enough := min(RULE.smallest, len(x))):
        asked, count = asked * (count / enough) ** (1 / quality.dimension), float(enough)
    worth = 1.0 if facts.get("scan_lines") else RULE.worth
    if count > worth * len(x) and not isinstance(resolution, int):
        nothing = not facts.get("cleaned") and not bool(stray.any())
        return None if nothing else _whole(points, x, kept, stray, facts)
    return _in_cells(points, stray, *_even(x, quality, asked, round(count), seed, facts), facts)


def _of_many(points: Tensor, seed: int, known: int | None = None) -> WorkingSample | None:
    """The working sample of very many points through means of the cells of a grid; None where those are as many."""
    quality = survey(points, seed, dimension=known)
    facts = quality.facts(0, len(points))
    asked = _spacing(quality, facts, len(points))
    if float((asked / quality.spacing).median()) <= RULE.voxels:
        return None
    count = round(float(len(points) * ((quality.spacing / asked) ** quality.dimension).mean()))
    if count > RULE.most:
        asked, count = asked * (count / RULE.most) ** (1 / quality.dimension), RULE.most
    x, cells, weight = _by_grid(points, float(asked.quantile(0.1)) / RULE.voxels)
    usual = float(weight.square().sum() / weight.sum())  # points in the cell of a point
    bad = weight < RULE.light * usual  # a cell of many points is no stray ...
    bad &= False if _is_noisy(points, quality) else find_strays(x)  # ... and those of a thick sheet the network knows
    return _in_cells(points, bad[cells], *_even(x[~bad], quality, asked, count, seed, facts, weight[~bad]), facts)


def _in_cells(points: Tensor, stray: Tensor, z: Tensor, bad: Tensor, facts: dict[str, Any]) -> WorkingSample:
    """All points in the cells of ``z (m, d)``; those in ``bad (m,)`` cells and far from all others are strays too."""
    rows, distance = (found[:, 0] for found in query(z, points, 1))
    if bool(bad.any()):
        there = bad[rows].nonzero()[:, 0]
        usual = distance[~bad[rows]]
        nearest, apart = (found[:, 0] for found in query(z[~bad], points[there], 1))
        rows[there] = (~bad).nonzero()[:, 0][nearest]
        stray = stray.clone()
        stray[there] = apart > usual.kthvalue(max(1, round(RULE.within * len(usual)))).values
    used = torch.bincount(rows[~stray], minlength=len(z)) > 0
    if not bool(used.all()):
        z = z[used]
        rows = query(z, points, 1)[0][:, 0]
    counts = torch.bincount(rows[~stray], minlength=len(z))
    shares = torch.where(stray, 0.0, 1 / counts[rows].clamp_min(1).to(points.dtype))
    facts = facts | {"strays": int(stray.sum()), "sampled": len(z)}
    return WorkingSample(points, z, rows, shares, stray, facts)


def _check(resolution: int, n: int) -> None:
    if not 1 < resolution <= n:
        raise InputError(f"resolution must be 'auto', 'all' or a number of points up to {n}, got {resolution}")


def _cleaned(x: Tensor, quality: Quality) -> tuple[Tensor, Tensor, Quality]:
    """Points of a noisy surface moved back onto it, which of them are strays after all, and the quality so far.

    Nothing moves where no network can tell: another dimension, no noise, more points than are quickly cleaned (they are
    averaged). Where the network sees no noise, what deviates from quadrics are thin parts, and no noise is left.
    """
    nothing = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    rough = quality.roughness > RULE.noisy[0]  # whether that is noise the network tells better than its evenness
    if not rough or not _is_surface(x, quality) or len(x) > RULE.cleaned:
        return x, nothing, quality
    places, logits = clean(x)
    if torch.equal(places, x):
        return x, nothing, replace(quality, noise=torch.zeros_like(quality.noise))
    return places, logits > 0, replace(quality, cleaned=True)


def _is_noisy(x: Tensor, quality: Quality) -> bool:
    """Whether these are noisy points of a surface in space."""
    return quality.noisy(*RULE.noisy) and _is_surface(x, quality)


def _is_surface(x: Tensor, quality: Quality) -> bool:
    """Whether these are points of a surface in space, which the cleaning network knows."""
    return x.shape[1] == 3 and quality.dimension == 2


def _whole(points: Tensor, x: Tensor, kept: Tensor, stray: Tensor, facts: dict[str, Any]) -> WorkingSample:
    """Every point but the strays, at the places ``x`` of those that are kept: nothing is averaged."""
    facts = {name: value for name, value in facts.items() if name not in ("averaged", "merged", "scan_lines")}
    rows = torch.empty(len(points), dtype=torch.int64, device=points.device)
    rows[kept] = torch.arange(len(kept), device=points.device)
    rows[stray] = query(x, points[stray], 1)[0][:, 0]
    return WorkingSample(points, x, rows, (~stray).to(points.dtype), stray, facts | {"sampled": len(kept)})


def _spacing(quality: Quality, facts: dict[str, Any], n: int) -> Tensor:
    """The spacing ``h'`` that is asked for at the centres, ``(c,)``; ``facts`` take down why."""
    h, dimension, asked = quality.spacing, quality.dimension, [quality.spacing]
    if float((quality.lines > 0).double().mean()) > RULE.lined:
        asked.append(quality.lines / RULE.across)
        facts["scan_lines"] = True
    if quality.cleaned or quality.noisy(*RULE.noisy):
        power = dimension / 2
        left = RULE.left_cleaned if quality.cleaned else RULE.left
        averaged = (quality.noise * h**power / left) ** (1 / (1 + power))
        averaged = torch.maximum(averaged, h if quality.cleaned else torch.maximum(h, RULE.layers * quality.noise))
        enough = n * float(((h / averaged) ** dimension).mean()) >= RULE.plenty
        if enough or not quality.cleaned:  # a cleaned cloud is averaged where that leaves plenty of points
            asked.append(averaged)
            facts["averaged"] = True
    if quality.copies > 1:
        asked.append(h * quality.copies ** (1 / dimension))
        facts["merged"] = True
    return torch.stack(asked).amax(0)


def _even(
    x: Tensor,
    quality: Quality,
    asked: Tensor,
    count: int,
    seed: int,
    facts: dict[str, Any],
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Points ``(m, d)`` at about the distances asked for at the centres, each the mean of its cell, and strays.

    Means of a noisy sheet are noisy too, if less: they are cleaned, unless the points were, which ``facts`` take down.
    """
    if weight is None and float((asked / quality.spacing).median()) > RULE.voxels:
        x, _, weight = _by_grid(x, float(asked.min()) / RULE.voxels)
    weight = torch.ones_like(x[:, 0]) if weight is None else weight
    near, distances = query(quality.centres, x, min(16, len(quality.centres)))
    closeness = 1 / distances[:, :6].clamp_min(1e-12 * float(asked.max())).square()
    spacing = (closeness * asked[near[:, :6]]).sum(1) / closeness.sum(1)
    spacing = torch.maximum(spacing, (asked[near] - RULE.grade * distances).amax(1))  # no sudden steps
    if len(x) * count <= RULE.passes:
        z = x[farthest_points(x, min(count, len(x)), seed, weight=spacing.square().reciprocal())]
    else:
        z = x[_spread(x, spacing, seed)]
    for _ in range(RULE.rounds):
        z = _means(z, x, weight)
    if len(z) > max(RULE.most, RULE.crowded * count):  # a thick sheet has room for several layers
        z = _means(z[farthest_points(z, RULE.most, seed)], x, weight)
    bad = torch.zeros(len(z), dtype=torch.bool, device=z.device)
    if not quality.cleaned and _is_noisy(z, quality) and len(z) <= RULE.cleaned:
        total = torch.zeros_like(z[:, 0]).index_add_(0, query(z, x, 1)[0][:, 0], weight)
        places, logits = clean(z)
        bad = (logits > RULE.sure) & (total < RULE.light * total.median())
        facts["cleaned"], z = not torch.equal(places, z), places
    return z, bad


def _means(z: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Means of the points ``x`` nearest to each of ``z``, where there are some."""
    rows = query(z, x, 1)[0][:, 0]
    total = torch.zeros_like(z[:, 0]).index_add_(0, rows, weight)
    return torch.zeros_like(z).index_add_(0, rows, weight[:, None] * x)[total > 0] / total[total > 0, None]


def _by_grid(x: Tensor, size: float) -> tuple[Tensor, Tensor, Tensor]:
    """Means of the points in every occupied cell of a cubic grid, the cell of each point, and how many are in each."""
    place = ((x - x.amin(0)) / size).floor().to(torch.int64)
    extent = place.amax(0) + 1
    key = place[:, 0]
    for axis in range(1, x.shape[1]):
        key = key * extent[axis] + place[:, axis]
    _, rows, counts = key.unique(return_inverse=True, return_counts=True)
    weight = counts.to(x.dtype)
    return x.new_zeros((len(counts), x.shape[1])).index_add_(0, rows, x) / weight[:, None], rows, weight


def _spread(x: Tensor, distance: Tensor, seed: int) -> Tensor:
    """Rows of a set of points about as far from each other as the distances ``(n,)`` asked for at them.

    Points far apart are taken first, then those that fill the gaps, as in a farthest-point order: maximal sets of
    points no two of which are nearer than a distance that shrinks.
    """
    near, lengths = nearest_rows(x, x, min(len(x), 48))
    relative = lengths / torch.minimum(distance[:, None], distance[near])
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).to(x.device)
    taken = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    for least in RULE.packing:
        close = relative < least
        close[:, 0] = False
        head, place = close.nonzero(as_tuple=True)
        taken = _maximal(head, near[head, place], order, taken)
    return taken.nonzero()[:, 0]


def _maximal(head: Tensor, tail: Tensor, order: Tensor, taken: Tensor) -> Tensor:
    """A maximal set of points, those ``taken`` among it, no two of which are joined by an edge [Luby 1986].

    A point is taken when it is the first in the ``order`` of all that are left around it.
    """
    n, waiting = len(order), ~taken
    for one, other in ((head, tail), (tail, head)):
        waiting[other[taken[one]]] = False
    waiting &= ~taken
    while bool(waiting.any()):
        alive = waiting[head] & waiting[tail]
        head, tail = head[alive], tail[alive]
        first = torch.full((n,), n, dtype=order.dtype, device=order.device)
        first.scatter_reduce_(0, head, order[tail], "amin").scatter_reduce_(0, tail, order[head], "amin")
        new = waiting & (order < first)
        taken, waiting = taken | new, waiting & ~new
        for one, other in ((head, tail), (tail, head)):
            waiting[other[new[one]]] = False
    return taken
