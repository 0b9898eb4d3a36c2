"""Tests of `smoothers.smoother` and `smoothers.balanced` on small graphs: separate parts, blocks of the balance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from eigenprobe.errors import EigenprobeWarning
from eigenprobe.graph.graph import Edges
from eigenprobe.search.layout import Segments
from eigenprobe.smoothers import build_smoother, laplacian_smoother
from eigenprobe.smoothers.balanced import _Incidence
from eigenprobe.smoothers.stencil import BALANCE


def test_blocks_of_the_dual_matrix_are_inverted(rng: np.random.Generator) -> None:
    edges = Edges(torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 3, 3]), 4)
    forward, backward = torch.from_numpy(rng.standard_normal((2, 4, 3)))
    weight, ridge = (torch.from_numpy(rng.random(shape)) + 0.1 for shape in ((4,), (4, 3)))
    incidence = _Incidence(forward, backward, edges, weight, ridge)
    b = torch.zeros((4, 3, 4), dtype=torch.float64)  # (points, width, edges)
    for e, (i, j) in enumerate(zip(edges.head, edges.tail, strict=True)):
        b[i, :, e], b[j, :, e] = forward[e], backward[e]
    torch.testing.assert_close(incidence.to_points.to_dense(), b.flatten(0, 1))
    blocks = (b * weight) @ b.mT + torch.diag_embed(ridge)
    torch.testing.assert_close(incidence.nearly.to_dense(), torch.block_diag(*torch.linalg.inv(blocks)))


def test_parts_are_said_with_their_sizes(rng: np.random.Generator) -> None:
    def parts(sizes: list[int]) -> Any:
        heads = [torch.arange(size - 1) + sum(sizes[:i]) for i, size in enumerate(sizes)]
        head = torch.cat(heads)
        edges = Edges(head, head + 1, sum(sizes))
        ones = torch.ones(len(head), dtype=torch.float64)
        return laplacian_smoother(edges, ones, torch.ones(sum(sizes), dtype=torch.float64), None, 1.0)

    with pytest.warns(EigenprobeWarning, match=r"has 2 separate parts \(5, 3 points\): 2 eigenvalues are 0"):
        assert parts([3, 5]).warn_of_parts() == 2
    with pytest.warns(EigenprobeWarning, match=r"6 separate parts \(7, 6, 5, 4, 3, \.\.\. points\)"):
        assert parts([2, 3, 4, 5, 6, 7]).warn_of_parts() == 6
    with pytest.warns(EigenprobeWarning, match=r"5 separate parts \(6, 5, 4, 3, 2 points\)"):
        parts([2, 3, 4, 5, 6]).warn_of_parts()
    assert parts([9]).warn_of_parts() == 1
    stacked = replace(parts([4, 5]), clouds=(4, 5))  # as many as there are clouds
    assert stacked.warn_of_parts() == 2
    assert replace(stacked, edges=None).components[0] == 2


@pytest.mark.parametrize("k", [1, 2, 5])
def test_rows_of_the_directed_average_are_those_of_the_lists(k: int, rng: np.random.Generator) -> None:
    """``S_ij = exp(-d^2 / sigma^2)`` of the ``k`` nearest, of sum 1; one neighbour has it all."""
    x = rng.normal(size=(40, 3))
    smoother = build_smoother(x, "row", k=k, bandwidth=0.8)
    found = smoother.matrix.to_dense().numpy()
    distance = np.linalg.norm(x[:, None] - x, axis=2)
    np.fill_diagonal(distance, np.inf)
    far = np.sort(distance, 1)[:, k - 1 : k]
    kernel = np.where(distance <= far, np.exp(-(np.minimum(distance, 9) ** 2) / 0.8**2), 0)
    np.testing.assert_allclose(found, kernel / kernel.sum(1, keepdims=True), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1e-6, 0.3, 1e6])
def test_a_solve_starts_from_the_best_multiple_of_what_is_known(size: float, rng: np.random.Generator) -> None:
    """A multiple of the answer ends it at once, for each cloud; without one a step is not enough."""
    ring = torch.arange(12)
    edges = Edges(torch.cat([ring[:-1], ring[:-1] + 12]), torch.cat([ring[1:], ring[1:] + 12]), 24)
    forward, backward = torch.from_numpy(rng.standard_normal((2, 22, 2)))
    weight, ridge = (torch.from_numpy(rng.random(shape)) + 0.1 for shape in ((22,), (24, 2)))
    incidence = _Incidence(forward, backward, edges, weight, ridge)
    b = incidence.to_points.to_dense()
    right = torch.from_numpy(rng.normal(size=48))
    exact = torch.linalg.solve((b * weight) @ b.mT + torch.diag(ridge.flatten()), right)
    clouds = Segments((24, 24), right.device)  # two directions of every point
    before = size * exact * torch.tensor([1.0, -3.0]).double().repeat_interleave(24)
    one = replace(BALANCE, steps=1, tolerance=1e-9)
    torch.testing.assert_close(incidence._inverse(weight, one, clouds, right, before), exact)
    nothing = incidence._inverse(weight, one, clouds, right, 0 * before)  # as without
    torch.testing.assert_close(nothing, incidence._inverse(weight, one, clouds, right))
    assert float((nothing - exact).norm() / exact.norm()) > 0.01
    many = replace(BALANCE, steps=200, tolerance=1e-10)
    torch.testing.assert_close(incidence._inverse(weight, many, clouds, right), exact)
    wrong = torch.from_numpy(rng.normal(size=48))
    torch.testing.assert_close(incidence._inverse(weight, many, clouds, right, wrong), exact)
