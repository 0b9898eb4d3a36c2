"""Tests of `paper.variants`."""

from __future__ import annotations

import torch

from eigenprobe.probes import nested_basis
from eigenprobe_lab.paper.variants import EvenFirst, PostNorm


def test_a_cloud_keeps_its_features_when_its_points_are_reordered() -> None:
    torch.manual_seed(0)
    network = PostNorm(5, (8,), width=16, layers=2, heads=2, head=(12,)).eval()
    x, order = torch.randn(2, 30, 3), torch.randperm(30)
    assert network(x).shape == (2, 30, 5)
    torch.testing.assert_close(network(x[:, order]), network(x)[:, order])


def test_the_first_vector_is_even() -> None:
    torch.manual_seed(0)
    network = EvenFirst(PostNorm(4, (8,), width=16, layers=1, heads=2))
    q = nested_basis(network(torch.randn(1, 30, 3))[0])
    torch.testing.assert_close(q[:, 0].abs(), torch.full((30,), 30**-0.5, dtype=q.dtype))
