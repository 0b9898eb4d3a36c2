"""Exact nearest neighbours in at most three dimensions on any device: a grid of cells, for one cloud or many stacked.

    cell_i = floor((x_i - low) / h)        points sorted by (cloud, cell): a row of three cells is one range of them
    found:  distance k <= distance of x_i to the border of the 3^d cells around it                       else h grows

Points x (n, d) -> indices, distances (n, k), the point itself among them.  The first h is taken from the distances of a
few points to their k-th neighbour, so that nearly all are found at once; where the spacing varies, dense parts are
searched with smaller cells first.  No loop over points, and one look from the host per pass.
"""

import math
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from .segments import Segments


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


def grid_search(points: Tensor, k: int, clouds: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
    """The ``k`` nearest points of the same cloud, itself included, ascending: indices and distances ``(n, k)``."""
    n, device = len(points), points.device
    owner = Segments(clouds or (n,), device).owner
    indices = torch.empty((n, k), dtype=torch.int64, device=device)
    distances = torch.empty((n, k), dtype=points.dtype, device=device)
    few, typical = _reach(points, owner, k)
    extent = float((points.amax(0) - points.amin(0)).max())
    finer = max(0, math.ceil(math.log(max(typical / max(few, 1e-300), 1) / CELLS.shrink, CELLS.shrink)))
    size = max(typical * CELLS.wide / CELLS.shrink**finer, extent / CELLS.most)
    waiting = torch.arange(n, device=device)
    while len(waiting):
        grid = _Grid(points, owner, size)
        waiting = grid.search(waiting, k, indices, distances)
        size *= CELLS.shrink if finer > 0 else CELLS.grow
        finer -= 1
    return indices, distances


def _reach(points: Tensor, owner: Tensor, k: int) -> tuple[float, float]:
    """Distance to the k-th neighbour of a few points: that of the densest parts, and one that most need."""
    step = max(1, len(points) // CELLS.sample)
    chosen = torch.arange(step // 2, len(points), step, device=points.device)
    found = []
    for part in chosen.split(max(1, CELLS.entries // len(points))):
        squared = torch.zeros((len(part), len(points)), dtype=points.dtype, device=points.device)
        for x in points.unbind(1):
            squared.add_((x[part, None] - x).square_())
        squared.masked_fill_(owner[part, None] != owner, torch.inf)
        found.append(squared.topk(k, largest=False).values[:, -1].sqrt())
    reach = torch.cat(found)
    few, usual = reach.quantile(reach.new_tensor([0.05, 0.9])).tolist()
    return few, usual


class _Grid:
    """The points of all clouds sorted into cells of one size."""

    def __init__(self, points: Tensor, owner: Tensor, size: float) -> None:
        self.size, self.owner = size, owner
        self.place = (points - points.amin(0)) / size  # in cells
        self.cell = self.place.long() + 1  # an empty layer all around: rows of cells do not run on in the next one
        self.counts = (self.cell.amax(0) + 2).tolist()
        key, self.order = self._key(self.cell, owner).sort()
        self.key, self.sorted = key, [x.contiguous() for x in points[self.order].unbind(1)]
        self.points = points

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
            count = max(1, min(len(ready) - at, CELLS.entries // int(widths[min(at + 4096, len(ready)) - 1])))
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
        """Where the candidates begin in every row of three cells ``(m, 3^(d-1))``, and their running number."""
        cell, owner = self.cell[rows], self.owner[rows]
        first, last = [], []
        for shift in product((-1, 0, 1), repeat=cell.shape[1] - 1):
            moved = cell + torch.tensor([*shift, -1], device=cell.device)
            key = self._key(moved, owner)
            first.append(torch.searchsorted(self.key, key))
            last.append(torch.searchsorted(self.key, key + 2, right=True))
        start, end = torch.stack(first, 1), torch.stack(last, 1)
        return start, (end - start).cumsum(1)

    def _nearest(self, rows: Tensor, first: Tensor, ends: Tensor, width: int, k: int) -> tuple[Tensor, Tensor]:
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
