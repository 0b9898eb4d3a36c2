"""Tests of `search.layout`: orders of the points that keep neighbours near in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.search.layout import memory_order, morton_order
from eigenprobe.smoothers import build_smoother
from tests.graph.test_graph import points


@pytest.mark.parametrize("d", [1, 2, 3])
def test_morton_order_keeps_neighbours_close(d):
    x = torch.rand((20000, d), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    order = morton_order(x)
    assert torch.equal(order.sort().values, torch.arange(20000))
    steps = (x[order].diff(dim=0)).norm(dim=1).median()
    assert float(steps) < 3 * 20000 ** (-1 / d)


def test_memory_order_is_a_permutation_for_any_cloud():
    for d in (2, 4, 5):
        smoother = build_smoother(points(9000, d), "symmetric", k=6)
        assert smoother.graph is not None
        order = memory_order(smoother.matrix, smoother.graph.points)
        assert order is not None and torch.equal(order.sort().values, torch.arange(9000))
        along = morton_order(smoother.graph.points) if d <= 3 else None
        narrow = memory_order(smoother.matrix)  # by edges alone
        assert narrow is not None and torch.equal(order, narrow if along is None else along)
        assert torch.equal(narrow.sort().values, torch.arange(9000))
    assert memory_order(build_smoother(points(500, 2), "symmetric", k=6).matrix) is None


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_curve_interleaves_the_bits_of_cells(d):
    """Along it points of a grid of 8 cells each way come in the order of their keys: bit b of axis a is bit 3 b + a."""
    axes = torch.meshgrid(*[torch.arange(8.0)] * d, indexing="ij")
    grid = torch.stack(axes, -1).reshape(-1, d).double()
    cells = [[int(v / 7 * (2**20 - 1)) for v in row] for row in grid.tolist()]
    keys = [sum(((v >> b) & 1) << (3 * b + a) for a, v in enumerate(row) for b in range(20)) for row in cells]
    order = morton_order(3 * grid - 11)
    assert order.tolist() == sorted(range(len(keys)), key=keys.__getitem__)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_every_bit_of_a_cell_has_its_place(d: int, rng: np.random.Generator) -> None:
    """Whole coordinates up to 2^20 - 1, of all sizes and near each other: bit b of axis a is bit 3 b + a of the key."""
    last = (1 << 20) - 1
    powers = [rng.integers(1 << bits, size=(60, d)) for bits in range(1, 21)]
    near = [value + rng.integers(4, size=(8, d)) for value in rng.integers(last - 4, size=(40, d))]
    cells = np.unique(np.concatenate([*powers, *near, np.zeros((1, d), int), np.full((1, d), last)]), axis=0)
    keys = [sum(((int(x) >> b) & 1) << (3 * b + a) for a, x in enumerate(cell) for b in range(20)) for cell in cells]
    order = morton_order(torch.from_numpy(cells.astype(float)))
    assert order.tolist() == np.argsort(keys, kind="stable").tolist()
