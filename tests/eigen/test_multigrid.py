"""The hierarchy of coarser problems and its sparse algebra, against dense algebra."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenprobe.eigen import multigrid
from eigenprobe.eigen.multigrid import aggregate, cycle, hierarchy, inverse
from eigenprobe.eigen.problem import SparseOperator, null_vectors
from eigenprobe.smoothers import build_smoother
from eigenprobe.smoothers import smoother as matrices
from tests import clouds as c


def random_sparse(rows: int, columns: int, rng: np.random.Generator) -> Tensor:
    dense = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < 0.1)
    dense[rows // 2] = 0
    return torch.from_numpy(dense).to_sparse_csr()


@pytest.mark.parametrize("device", [False, True])
def test_sparse_algebra_is_dense_algebra(device, monkeypatch, rng) -> None:
    if device:  # as on one without scipy; several parts, some of one row
        for module in (multigrid, matrices):
            monkeypatch.setattr(module, "on_host", lambda matrix: False)
        monkeypatch.setattr(multigrid, "PRODUCTS", 50)
    a, b = random_sparse(60, 40, rng), random_sparse(40, 70, rng)
    left, right = torch.rand(60).double(), torch.rand(40).double()
    torch.testing.assert_close(multigrid.multiply(a, b).to_dense(), a.to_dense() @ b.to_dense())
    torch.testing.assert_close(
        multigrid.scaled(a, left, right).to_dense(), left[:, None] * a.to_dense() * right
    )
    square = random_sparse(50, 50, rng)
    key = torch.from_numpy(rng.permutation(50))
    near = torch.where(square.to_dense() != 0, key, -1).amax(1)
    assert torch.equal(multigrid.row_max(square, key), torch.maximum(near, key))


def test_aggregates_are_connected_and_cover_all(rng) -> None:
    smoother = build_smoother(torch.from_numpy(c.random_sphere(500, rng)))
    labels, count = aggregate(smoother.matrix)
    assert sorted(set(labels.tolist())) == list(range(count)) and count < 250
    dense = smoother.matrix.to_dense() != 0
    for group in range(count):
        inside = (labels == group).nonzero()[:, 0]
        assert bool(dense[inside].all(0).any() or dense[inside][:, inside].all(1).any())


def test_levels_keep_null_vectors_and_cycles_invert(rng) -> None:
    """The coarse problem is ``P^T S P``, null vectors come back exactly, a cycle contracts."""
    smoother = build_smoother(torch.from_numpy(c.random_sphere(3000, rng)))
    operator = SparseOperator(smoother.matrix, None, smoother.degree)
    known = null_vectors(smoother, 1)[0]
    levels = hierarchy(operator.laplacian(), known, 10)
    assert len(levels) > 1 and len(levels[-1].known) < len(levels[0].known) / 3
    for fine, coarse in pairwise(levels):
        up = fine.up.to_dense().double()
        exact = up.mT @ fine.scaled.to_dense().double() @ up
        torch.testing.assert_close(coarse.laplacian.to_dense(), exact, atol=1e-5, rtol=1e-4)
        raised = fine.prolong(coarse.known.float()).double()
        torch.testing.assert_close(raised, fine.known, atol=1e-5, rtol=1e-4)
    level = levels[0]
    null = (known / level.scale.double()).float()
    right = torch.randn(3000, 4, generator=torch.Generator().manual_seed(0))
    right = right - null @ (null.mT @ right) / null.square().sum()
    left = (right - level.scaled @ cycle(levels, right)).norm() / right.norm()
    twice = (right - level.scaled @ inverse(levels, right)).norm() / right.norm()
    assert float(left) < 0.35 and float(twice) < 0.5 * float(left)
