"""Nearest neighbours by cells: exact in at most three dimensions (`grid_search`), nearly so in many
(`cell_search`).

    cell_i = floor((x_i - low) / h)        points sorted by (cloud, cell): a row of three cells is
    one range of them found:  distance k <= distance of x_i to the border of the 3^d cells around it
    else h grows

Points x (n, d) of one cloud or many stacked, on any device -> indices, distances (n, k), the point
itself among them; or those of one cloud that are nearest to other points (m, d).
The first h is taken from the distances of a few points to their k-th neighbour, so that nearly all
are found at once; where the spacing varies, dense parts are searched with smaller cells first.  No
loop over points, and one look from the host per pass.

    centres (c, d) by k-means of a sample;   cell(x) = argmin |x - centre|;   searched: rows of the
    cells nearest to it

Every query of a cell is compared with the same rows, so that a cell is one matrix product: for a
million rows of 128 columns it computes one distance in a hundred. Of the 13 nearest among 100
thousand rows 8192 hold all in clusters and .86 without any structure; where too few of them are
found, twice as many rows are searched. Which rows a query sees depends on the query alone.
"""

import math
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from ..host.threads import side_by_side
from .layout import SOME, Segments, rows_at_once

Lists = tuple[Tensor, Tensor]  # indices and distances (m, k)
Search = Callable[[Tensor, int], Lists]

STEP = 1.7  # from one size of the cells to the next
MOST = 1e5  # cells along an axis: their numbers, of thousands of clouds too, are below 2^63

ROWS = 256  # of a cell of many columns, on average
ROWS_ON_DEVICE = 2048  # a GPU takes longer to start a product than to do it
SEARCHED = 8192  # rows that a query is compared with, at least
SAMPLE = 24  # rows per centre that the centres are means of
ROUNDS = 4  # of k-means
NEIGHBOURS = 12  # that are to be found
RECALL = 0.9  # in this share of places; rows without groups, in many dimensions, have .3


def grid_search(
    points: Tensor, k: int, clouds: tuple[int, ...] = (), queries: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The ``k`` nearest points of the same cloud, itself included, ascending: indices and distances
    ``(n, k)``; or the points of one cloud that are nearest to ``queries (m, d)``."""
    owner = Segments(clouds or (len(points),), points.device).owner
    own = owner if queries is None else owner.new_zeros(len(queries))
    sought = points if queries is None else queries
    indices = torch.zeros((len(sought), k), dtype=torch.int64, device=points.device)
    distances = points.new_full((len(sought), k), torch.inf)
    low = torch.minimum(points.amin(0), sought.amin(0))
    extent = float((torch.maximum(points.amax(0), sought.amax(0)) - low).max()) or 1.0
    few, usual = (max(each, extent / MOST) for each in _reach(points, owner, sought, own, k))
    size = usual / STEP ** int(math.log(usual / few, STEP))
    waiting = torch.arange(len(sought), device=points.device)
    while len(waiting) and size < 2 * STEP * extent:  # cells of the extent leave no point out
        grid = _Grid(points, owner, sought, own, low, size)
        waiting = grid.search(waiting, k, indices, distances)
        size *= STEP
    return indices, distances


def _reach(
    points: Tensor, owner: Tensor, sought: Tensor, own: Tensor, k: int
) -> tuple[float, float]:
    """Distance to the k-th neighbour of a few points: that of the densest parts, and one that most
    need.
    """
    step = max(1, len(sought) // SOME)
    chosen = torch.arange(step // 2, len(sought), step, device=points.device)
    found = []
    for part in chosen.split(rows_at_once(points.device, len(points))):
        squared = torch.zeros((len(part), len(points)), dtype=points.dtype, device=points.device)
        for x, y in zip(points.unbind(1), sought[part].unbind(1), strict=True):
            squared.add_((y[:, None] - x).square_())
        squared.masked_fill_(own[part, None] != owner, torch.inf)
        found.append(squared.topk(k, largest=False).values[:, -1].sqrt())
    reach = torch.cat(found)
    few, usual = reach.quantile(reach.new_tensor([0.05, 0.9])).tolist()
    return few, usual


class _Grid:
    """The points of all clouds sorted into cells of one size, and the cells of the points ``sought
    (m, d)``.
    """

    def __init__(
        self, points: Tensor, owner: Tensor, sought: Tensor, own: Tensor, low: Tensor, size: float
    ) -> None:
        """Points and their clouds ``owner (n,)``, which are sorted, and those that are sought; no
        point is below ``low``.
        """
        self.points, self.owner, self.size = sought, own, size
        self.place = (sought - low) / size  # in cells
        # An empty layer all around: rows of cells do not run on in the next one.
        self.cell = self.place.long() + 1
        cell = self.cell if sought is points else ((points - low) / size).long() + 1
        self.counts = (torch.maximum(self.cell.amax(0), cell.amax(0)) + 2).tolist()
        self.key, self.order = self._key(cell, owner).sort()
        self.sorted = [x.contiguous() for x in points[self.order].unbind(1)]

    def _key(self, cell: Tensor, owner: Tensor) -> Tensor:
        key = owner
        for axis, count in enumerate(self.counts):
            key = key * count + cell[:, axis]
        return key

    def search(self, rows: Tensor, k: int, indices: Tensor, distances: Tensor) -> Tensor:
        """Fill in what can be found at this cell size; the rows that are still waiting."""
        first, ends = self._ranges(rows)
        total = ends[:, -1]
        whole = max(self.counts) <= 4  # of at most two cells along each axis none is left out
        ready = (total >= k).nonzero()[:, 0]
        ready = ready[total[ready].argsort(descending=True)]
        widths, failed, at = total[ready].cpu(), [rows[total < k]], 0
        while at < len(ready):  # in order of their number of candidates, so that little is padding
            width = int(widths[at])
            part = ready[at : at + rows_at_once(rows.device, width)]
            found, near = self._nearest(rows[part], first[part], ends[part], width, k)
            inside = self.place[rows[part]].frac()
            border = self.size * (1 + torch.minimum(inside, 1 - inside).amin(1))
            done = (near[:, -1] <= border * (1 - 1e-9)) | whole
            sure = done.nonzero()[:, 0]
            indices[rows[part[sure]]], distances[rows[part[sure]]] = found[sure], near[sure]
            failed.append(rows[part[~done]])
            at += len(part)
        return torch.cat(failed)

    def _ranges(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Where the candidates begin in every row of three cells ``(m, 3^(d-1))``, and their
        running number.
        """
        cell, owner = self.cell[rows], self.owner[rows]
        first, last = [], []
        for shift in product((-1, 0, 1), repeat=cell.shape[1] - 1):
            moved = cell + torch.tensor([*shift, -1], device=cell.device)
            key = self._key(moved, owner)
            first.append(torch.searchsorted(self.key, key))
            last.append(torch.searchsorted(self.key, key + 2, right=True))
        start, end = torch.stack(first, 1), torch.stack(last, 1)
        return start, (end - start).cumsum(1)

    def _nearest(
        self, rows: Tensor, first: Tensor, ends: Tensor, width: int, k: int
    ) -> tuple[Tensor, Tensor]:
        """The nearest ``k`` of at most ``width`` candidates."""
        number = torch.arange(width, device=rows.device).expand(len(rows), width).contiguous()
        row = torch.searchsorted(ends, number, right=True).clamp_max_(ends.shape[1] - 1)
        shift = first - torch.nn.functional.pad(ends[:, :-1], (1, 0))
        place = (number + shift.gather(1, row)).clamp_max_(len(self.key) - 1)
        squared = torch.zeros(place.shape, dtype=self.points.dtype, device=rows.device)
        for axis, x in enumerate(self.sorted):
            squared.add_((x[place] - self.points[rows, axis, None]).square_())
        squared.masked_fill_(number >= ends[:, -1:], torch.inf)
        near, chosen = squared.topk(k, largest=False)
        return self.order[place.gather(1, chosen)], near.sqrt()


def cell_search(data: Tensor, exact: Callable[[Tensor, Tensor, int], Lists]) -> Search:
    """The search among rows ``data (n, d)`` in cells; ``exact(rows, queries, k)`` is that among the
    rows of a few cells.
    """
    n = len(data)
    count = max(1, n // (ROWS if data.device.type == "cpu" else ROWS_ON_DEVICE))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    sample = data[order[: SAMPLE * count].to(data.device)]
    centres = sample[:count].clone()

    def cells(rows: Tensor) -> Tensor:
        norms = centres.square().sum(1)
        parts = rows.split(rows_at_once(rows.device, count))

        def nearest(part: Tensor) -> Tensor:
            return torch.addmm(norms, part, centres.T, alpha=-2).argmin(1)

        return torch.cat(side_by_side(nearest, parts, rows.device))

    for _ in range(ROUNDS):
        cell = cells(sample)
        sizes = torch.bincount(cell, minlength=count)[:, None]
        means = torch.zeros_like(centres).index_add_(0, cell, sample) / sizes
        centres = torch.where(sizes > 0, means, centres)
    known = cells(data)
    sizes = torch.bincount(known, minlength=count).cpu()
    members = known.argsort(stable=True).split(sizes.tolist())

    def search(queries: Tensor, k: int) -> Lists:
        """The ``k`` nearest rows of every query among those of the nearest cells, or among all
        where they are few.
        """
        if searched >= n:
            return exact(data, queries, k)
        cell = known if queries is data else cells(queries)
        parts = cell.argsort(stable=True).split(torch.bincount(cell, minlength=count).tolist())
        indices = torch.empty((len(queries), k), dtype=torch.int64, device=queries.device)
        distances = torch.empty((len(queries), k), dtype=queries.dtype, device=queries.device)

        def fill(number: int) -> None:
            nearest = (centres - centres[number]).square().sum(1).argsort().cpu()
            few = int((sizes[nearest].cumsum(0) < max(searched, 4 * k)).sum()) + 1
            rows = torch.cat([members[each] for each in nearest[:few].tolist()])
            found, lengths = exact(data.index_select(0, rows), queries[parts[number]], k)
            indices[parts[number]], distances[parts[number]] = rows[found], lengths

        filled = [number for number, part in enumerate(parts) if len(part)]
        side_by_side(fill, filled, queries.device)
        return indices, distances

    searched = SEARCHED
    some = data[:: max(1, n // SOME)]
    true = exact(data, some, min(n, NEIGHBOURS))[0]
    while searched < n:
        found = search(some, NEIGHBOURS)[0]
        if float((found[:, :, None] == true[:, None]).any(1).double().mean()) >= RECALL:
            break
        searched *= 2
    return search
