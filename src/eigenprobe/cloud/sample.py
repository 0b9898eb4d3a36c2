"""The sample that the operator is made on: the cloud itself, wherever possible.

    outliers      left out: they lie in the nearest cell and have no mass
    h'            spacing of the sample: 12 neighbours of it span the first scale at which the cloud
                  is a surface (`inspection`); copies of a place are one
    rows[i]       the cell of given point i (n,)

Where h' is the spacing of the cloud, nothing is averaged.  Else samples lie about h' apart, and
each is the mean of the points nearest to it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..neighbors.search import nearest_rows, query, without_self
from .cloud import Cells
from .farthest import farthest_points
from .inspection import WORTH, Inspection

FEWEST = 400  # points of a sample, if there are as many
PASSES = 1e8  # distances of a farthest-point order; beyond, a maximal set of points
CELLS = 3.0  # a cloud with more points per spacing asked for is averaged over a grid of that first
PACKED = (1.25, 1.1, 1.0, 0.9)  # least distances of a maximal set, over the one asked for


@torch.no_grad()
def working_sample(
    points: Tensor, outliers: Tensor, found: Inspection, dimension: int, count: int | None = None
) -> Cells | None:
    """The sample of a cloud ``(n, d)`` of a dimension without its ``outliers (n,)``, of about
    ``count`` points or of as many as its inspection asks for; None where it is the cloud.
    """
    kept = (~outliers).nonzero()[:, 0]
    x = points[kept]
    if count is not None:
        ratio, wanted = torch.full_like(found.spacing, len(x) / count), count
    else:
        ratio = found.crowding
        wanted = round(len(x) * float((1 / ratio).mean()))
        if found.copies == 1 and wanted < (fewest := min(FEWEST, len(x))):
            ratio, wanted = ratio * wanted / fewest, fewest
        if wanted > WORTH * len(x):
            if len(x) == len(points):
                return None
            rows = (~outliers).cumsum(0) - 1
            rows[outliers] = _nearest(x, points[outliers])
            return Cells(x, rows, outliers, kept)
    z = _spread_evenly(x, found.centres, found.spacing * ratio ** (1 / dimension), wanted)
    rows = _nearest(z, points)
    counts = torch.bincount(rows[kept], minlength=len(z))
    if bool((counts == 0).any()):  # nearest to an outlier alone
        z = z[counts > 0]
        rows = _nearest(z, points)
    return Cells(z, rows, outliers)


def _nearest(z: Tensor, points: Tensor) -> Tensor:
    """The one of ``z (m, d)`` that is nearest to each of some points, ``(n,)``."""
    return query(z, points, 1)[0][:, 0]


def _spread_evenly(x: Tensor, centres: Tensor, asked: Tensor, count: int) -> Tensor:
    """About ``count`` points ``(m, d)`` at the distances asked for at the centres, each the mean of
    its cell.
    """
    weight = torch.ones_like(x[:, 0])
    size = float(asked.quantile(0.1)) / CELLS
    if len(x) * count > PASSES:
        x, weight = _by_grid(x, size)
    near, distances = query(centres, x, min(6, len(centres)))
    closeness = 1 / distances.clamp_min(1e-12 * float(asked.max())).square()
    spacing = (closeness * asked[near]).sum(1) / closeness.sum(1)
    if len(x) * count <= PASSES:
        z = x[farthest_points(x, min(count, len(x)), 0, weight=spacing.square().reciprocal())]
    else:
        z = x[_maximal_set(x, spacing)]
    for _ in range(2):
        z = _means(z, x, weight)
    return z


def _means(z: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Means of the points ``x`` nearest to each of ``z``, where there are some."""
    rows = query(z, x, 1)[0][:, 0]
    total = torch.zeros_like(z[:, 0]).index_add_(0, rows, weight)
    sums = torch.zeros_like(z).index_add_(0, rows, weight[:, None] * x)
    return sums[total > 0] / total[total > 0, None]


def _by_grid(x: Tensor, size: float) -> tuple[Tensor, Tensor]:
    """Means of the points in every occupied cell of a cubic grid, and how many are in each."""
    place = ((x - x.amin(0)) / size).floor().to(torch.int64)
    extent = place.amax(0) + 1
    key = place[:, 0]
    for axis in range(1, x.shape[1]):
        key = key * extent[axis] + place[:, axis]
    _, rows, counts = key.unique(return_inverse=True, return_counts=True)
    sums = x.new_zeros((len(counts), x.shape[1])).index_add_(0, rows, x)
    return sums / counts[:, None], counts.to(x.dtype)


def _maximal_set(x: Tensor, distance: Tensor) -> Tensor:
    """Rows of points about as far from each other as the distances ``(n,)`` asked for at them.

    Points far apart are taken first, then those that fill the gaps, as in a farthest-point order:
    maximal sets of points no two of which are nearer than a distance that shrinks.
    """
    near, lengths = without_self(*nearest_rows(x, x, min(len(x), 48)))
    relative = lengths / torch.minimum(distance[:, None], distance[near])
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0)).to(x.device)
    taken = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    for least in PACKED:
        head, place = (relative < least).nonzero(as_tuple=True)
        taken = _maximal(head, near[head, place], order, taken)
    return taken.nonzero()[:, 0]


def _maximal(head: Tensor, tail: Tensor, order: Tensor, taken: Tensor) -> Tensor:
    """A maximal set of points, those ``taken`` among it, no two of which are joined by an edge
    [Luby 1986].

    A point is taken when it is the first in the ``order`` of all that are left around it: the first
    of all is, so that every round takes at least one.
    """
    n, waiting = len(order), ~taken
    for one, other in ((head, tail), (tail, head)):
        waiting[other[taken[one]]] = False
    waiting &= ~taken
    for _ in range(n):
        if not bool(waiting.any()):
            break
        alive = waiting[head] & waiting[tail]
        head, tail = head[alive], tail[alive]
        first = torch.full((n,), n, dtype=order.dtype, device=order.device)
        first.scatter_reduce_(0, head, order[tail], "amin")
        first.scatter_reduce_(0, tail, order[head], "amin")
        new = waiting & (order < first)
        taken, waiting = taken | new, waiting & ~new
        for one, other in ((head, tail), (tail, head)):
            waiting[other[new[one]]] = False
    return taken
