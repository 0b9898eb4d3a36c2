"""Tests of `search.layout`: orders of the points that keep neighbours near in memory."""

from __future__ import annotations

import pytest
import torch
from tests.neighbors.test_graph import points

from eigenprobe.neighbors.layout import memory_order, morton_order
from eigenprobe.smoothers import build_smoother


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
