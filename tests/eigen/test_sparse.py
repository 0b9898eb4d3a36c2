"""Tests of the sparse algebra of `eigen.multigrid`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import eigsh
from torch import Tensor

from eigenprobe.eigen import multigrid as sparse
from eigenprobe.eigen import solve
from eigenprobe.eigen.problem import SparseOperator
from eigenprobe.smoothers import smoother as matrices
from tests.eigen.test_nested import smoother


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """From the call on, everything is done as on a device without scipy."""
    return lambda: [monkeypatch.setattr(each, "on_host", lambda matrix: False) for each in (sparse, matrices)]


def random_sparse(rows: int, columns: int, rng: np.random.Generator) -> Tensor:
    dense = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < 0.1)
    dense[rows // 2] = 0
    return torch.from_numpy(dense).to_sparse_csr()


@pytest.mark.parametrize("device", [False, True])
def test_sparse_algebra_is_dense_algebra(device, anywhere, monkeypatch, rng):
    if device:
        anywhere()
        monkeypatch.setattr(sparse, "PRODUCTS", 50)  # several parts, some of one row
    a, b = random_sparse(60, 40, rng), random_sparse(40, 70, rng)
    left, right = torch.rand(60, dtype=torch.float64), torch.rand(40, dtype=torch.float64)
    torch.testing.assert_close(sparse.multiply(a, b).to_dense(), a.to_dense() @ b.to_dense())
    assert torch.equal(sparse.transpose(a).to_dense(), a.to_dense().mT)
    torch.testing.assert_close(
        sparse.scaled(a, left, right).to_dense(), left[:, None] * a.to_dense() * right, rtol=1e-12, atol=0
    )
    square = random_sparse(50, 50, rng)
    key = torch.from_numpy(rng.permutation(50))
    near = torch.where(square.to_dense() != 0, key, -1).amax(1)
    assert torch.equal(sparse.row_max(square, key), torch.maximum(near, key))


def test_nested_eigenvalues_are_those_of_lanczos(anywhere, rng):
    operator = smoother(12_000, rng)
    laplacian = sparse.as_scipy(SparseOperator(operator.matrix, None, operator.leaving).laplacian())
    exact = np.sort(eigsh(laplacian.tocsc(), 20, sigma=-1e-6, tol=1e-12)[0])[1:]
    for device in (False, True):
        if device:
            anywhere()
        pairs = solve(operator, 20)
        np.testing.assert_allclose(pairs.gaps[1:].numpy(), exact, rtol=1e-6)
        torch.testing.assert_close(
            pairs.vectors.mT @ pairs.vectors, torch.eye(20, dtype=torch.float64), rtol=0, atol=1e-9
        )
        residual = torch.from_numpy(laplacian @ pairs.vectors.numpy()) - pairs.vectors * pairs.gaps
        assert float(residual.norm(dim=0).max()) <= 1e-6
