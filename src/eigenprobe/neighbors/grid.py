"""Nearest neighbours by cells: exact in at most three dimensions (`grid_search`), nearly so in many
(`CellIndex`).

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
thousand rows it found all in clusters and .86 without any structure. Which rows a query sees
depends on the query alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from ..host.threads import side_by_side
from .layout import Segments


@dataclass(frozen=True)
class Cells:
    """Sizes of the search."""

    sample: int = 64  # points whose neighbours are measured first
    wide: float = 1.05  # first cell over the distance that nine in ten of them need
    shrink: float = 2.0  # from one cell size to the next smaller one for dense parts
    grow: float = 1.5  # to the next larger one for what is left
    entries: int = 1 << 25  # distances held at once
    most: float = 1e6  # cells along an axis


CELLS = Cells()


def grid_search(
    points: Tensor, k: int, clouds: tuple[int, ...] = (), queries: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The ``k`` nearest points of the same cloud, itself included, ascending: indices and distances
    ``(n, k)``; or the points of one cloud that are nearest to ``queries (m, d)``."""
    owner = Segments(clouds or (len(points),), points.device).owner
    own = owner if queries is None else owner.new_zeros(len(queries))
    sought = points if queries is None else queries
    indices = torch.empty((len(sought), k), dtype=torch.int64, device=points.device)
    distances = torch.empty((len(sought), k), dtype=points.dtype, device=points.device)
    few, typical = _reach(points, owner, sought, own, k)
    bounds = torch.stack([*torch.aminmax(points, dim=0), *torch.aminmax(sought, dim=0)])
    low, extent = bounds.amin(0), float((bounds.amax(0) - bounds.amin(0)).max())
    finer = max(
        0, math.ceil(math.log(max(typical / max(few, 1e-300), 1) / CELLS.shrink, CELLS.shrink))
    )
    size = max(typical * CELLS.wide / CELLS.shrink**finer, extent / CELLS.most)
    waiting = torch.arange(len(sought), device=points.device)
    while len(waiting):
        grid = _Grid((points, owner), (sought, own), low, size)
        waiting = grid.search(waiting, k, indices, distances)
        size *= CELLS.shrink if finer > 0 else CELLS.grow
        finer -= 1
    return indices, distances


def _reach(
    points: Tensor, owner: Tensor, sought: Tensor, own: Tensor, k: int
) -> tuple[float, float]:
    """Distance to the k-th neighbour of a few points: that of the densest parts, and one that most
    need.
    """
    step = max(1, len(sought) // CELLS.sample)
    chosen = torch.arange(step // 2, len(sought), step, device=points.device)
    found = []
    for part in chosen.split(max(1, CELLS.entries // len(points))):
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
        self, data: tuple[Tensor, Tensor], sought: tuple[Tensor, Tensor], low: Tensor, size: float
    ) -> None:
        """Points and their clouds, those that are sorted and those that are sought; no point is
        below ``low``.
        """
        (points, owner), (self.points, self.owner) = data, sought
        self.size, self.place = size, (self.points - low) / size  # in cells
        self.cell = (
            self.place.long() + 1
        )  # an empty layer all around: rows of cells do not run on in the next one
        cell = self.cell if self.points is points else ((points - low) / size).long() + 1
        self.counts = (torch.maximum(self.cell.amax(0), cell.amax(0)) + 2).tolist()
        key, self.order = self._key(cell, owner).sort()
        self.key, self.sorted = key, [x.contiguous() for x in points[self.order].unbind(1)]

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
        ready = ready[total[ready].argsort()]
        widths, failed = total[ready].cpu(), [rows[total < k]]
        at = 0
        while at < len(ready):  # in order of their number of candidates, so that little is padding
            count = max(
                1,
                min(len(ready) - at, CELLS.entries // int(widths[min(at + 4096, len(ready)) - 1])),
            )
            width = int(widths[at + count - 1])
            count = max(1, min(count, CELLS.entries // width))
            part = ready[at : at + count]
            at += count
            width = int(widths[at - 1])
            found, near = self._nearest(rows[part], first[part], ends[part], width, k)
            done = (near[:, -1] <= self._border(rows[part])) | whole
            sure = done.nonzero()[:, 0]
            indices[rows[part[sure]]], distances[rows[part[sure]]] = found[sure], near[sure]
            failed.append(rows[part[~done]])
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

    def _border(self, rows: Tensor) -> Tensor:
        """The distance of every point to the border of the cells around its own."""
        inside = self.place[rows].frac()
        return (1 + torch.minimum(inside, 1 - inside).amin(1)) * self.size * (1 - 1e-9)


NEIGHBOURS = 12  # that the recall is that of


@dataclass(frozen=True)
class Division:
    """Constants of the cells."""

    rows: int = 256  # of a cell, on average
    searched: int = 8192  # rows that a query is compared with, at least
    sample: int = 24  # rows per centre that the centres are means of
    rounds: int = 4  # of k-means
    block: int = 1 << 24  # distances to centres in memory at once
    tried: int = (
        128  # rows whose neighbours are compared with the true ones before the rest is searched
    )
    recall: float = 0.9  # of these, at least; rows without groups, in many dimensions, have .3
    # pairs times columns up to which all are compared where it is less: a minute on two cores
    exact: float = 1e12
    wider: int = 4  # above that: so many times the rows are searched


HOST, DEVICE = (
    Division(),
    Division(rows=2048, searched=16384),
)  # a GPU takes longer to start a product than to do it


class CellIndex:
    """Rows ``data (n, d)`` in cells; ``exact(rows, queries, k)`` is the search among the rows of a
    few cells.
    """

    def __init__(
        self,
        data: Tensor,
        exact: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]],
        division: Division | None = None,
    ) -> None:
        division = division or (HOST if data.device.type == "cpu" else DEVICE)
        self.data, self.exact, self.division = data, exact, division
        n, generator = len(data), torch.Generator().manual_seed(0)
        count = max(1, n // division.rows)
        sample = data[
            torch.randperm(n, generator=generator)[: division.sample * count].to(data.device)
        ]
        self.centres = sample[:count].clone()
        for _ in range(division.rounds):
            cell = self._cell(sample)
            sizes = torch.bincount(cell, minlength=count)
            means = (
                torch.zeros_like(self.centres).index_add_(0, cell, sample) / sizes[:, None]
            )  # of none: not taken
            self.centres = torch.where(sizes[:, None] > 0, means, self.centres)
        self.cell = self._cell(data)
        self.order = self.cell.argsort(stable=True)
        self.sizes = torch.bincount(self.cell, minlength=count).cpu()
        self.starts = self.sizes.cumsum(0) - self.sizes
        self.whole = False
        if n > division.searched and self._recall() < division.recall:
            self.whole = float(n) * n * data.shape[1] <= division.exact
            self.division = replace(division, searched=division.wider * division.searched)

    def _recall(self) -> float:
        """The share of true neighbours that are found, of a few rows."""
        some = self.data[:: max(1, len(self.data) // self.division.tried)][: self.division.tried]
        found, true = (
            self._in_cells(some, NEIGHBOURS)[0],
            self.exact(self.data, some, NEIGHBOURS)[0],
        )
        return float((found[:, :, None] == true[:, None]).any(1).double().mean())

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The ``k`` nearest rows of every query among those of the nearest cells, or among all
        where cells find too few of them: indices and distances ``(m, k)``."""
        return self.exact(self.data, queries, k) if self.whole else self._in_cells(queries, k)

    def _in_cells(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        cell = self.cell if queries is self.data else self._cell(queries)
        parts = cell.argsort(stable=True).split(
            torch.bincount(cell, minlength=len(self.centres)).tolist()
        )
        indices = torch.empty((len(queries), k), dtype=torch.int64, device=queries.device)
        distances = torch.empty((len(queries), k), dtype=queries.dtype, device=queries.device)

        def fill(number: int) -> None:
            rows, part = self._rows(number, k), parts[number]
            found, lengths = self.exact(self.data.index_select(0, rows), queries[part], k)
            indices[part], distances[part] = rows[found], lengths

        side_by_side(
            fill, [number for number, part in enumerate(parts) if len(part)], queries.device
        )
        return indices, distances

    def _rows(self, number: int, k: int) -> Tensor:
        """The rows of the nearest cells, enough of them."""
        nearest = (self.centres - self.centres[number]).square().sum(1).argsort().cpu()
        enough = int((self.sizes[nearest].cumsum(0) < max(self.division.searched, 4 * k)).sum()) + 1
        parts = [
            self.order[self.starts[i] : self.starts[i] + self.sizes[i]]
            for i in nearest[:enough].tolist()
        ]
        return torch.cat(parts)

    def _cell(self, rows: Tensor) -> Tensor:
        norms, step = self.centres.square().sum(1), max(1, self.division.block // len(self.centres))

        def nearest(part: Tensor) -> Tensor:
            return torch.addmm(norms, part, self.centres.T, alpha=-2).argmin(1)

        return torch.cat(side_by_side(nearest, rows.split(step), rows.device))
