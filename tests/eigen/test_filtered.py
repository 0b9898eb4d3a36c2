"""Chebyshev-filtered subspace iteration on spectra that are hard for it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

from eigenprobe.eigen import solve
from eigenprobe.errors import EigenprobeWarning
from tests import clouds as c


@pytest.mark.parametrize("outlier", [0.45, -0.5])
def test_a_missed_lowest_eigenvalue(outlier: float) -> None:
    """An isolated one, that the bounds may miss, neither stalls the solver nor shows."""
    n, k = 2000, 12
    path = scipy.sparse.diags_array([0.125, 0.75, 0.125], offsets=[-1, 0, 1], shape=(n, n)).tolil()
    path[0, 0] = path[n - 2, n - 2] = 0.875  # a path of n - 1 points ...
    path[n - 1, :] = path[:, n - 1] = 0
    path[n - 1, n - 1] = outlier  # ... and a point of its own
    found = path.tocsr()
    parts = (torch.from_numpy(each) for each in (found.indptr, found.indices, found.data))
    matrix = torch.sparse_csr_tensor(*parts, (n, n))
    exact = 0.75 + 0.25 * np.cos(np.pi * np.arange(k) / (n - 1))
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        pairs = solve(lambda x: matrix.to(x) @ x, k, n=n, generator=generator)
        assert np.allclose(pairs.factors.numpy(), exact, atol=1e-9)
        left = matrix @ pairs.vectors - pairs.vectors * pairs.factors
        assert float(left.norm(dim=0).max()) < 2e-6


@pytest.mark.parametrize("rank", [4, 40])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_a_covariance_of_low_rank(rank: int, scale: float, rng: np.random.Generator) -> None:
    factor = (
        torch.from_numpy(rng.standard_normal((900, rank))) * torch.logspace(0, -2, rank).double()
    )
    factor = factor * (scale / 900) ** 0.5
    pairs = solve(lambda x: factor.to(x) @ (factor.mT.to(x) @ x), 8, n=900, tol=1e-6 * scale)
    exact = torch.zeros(8).double()
    values = torch.linalg.svdvals(factor).square()[:8]
    exact[: len(values)] = values
    torch.testing.assert_close(pairs.factors, exact, rtol=1e-6, atol=1e-7 * scale)


@pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-11])
def test_residuals_reach_the_tolerance(tol: float) -> None:
    smoother = c.sphere_smoother()
    matrix = smoother.matrix.double()
    big = torch.block_diag(matrix.to_dense(), 0.5 * torch.eye(700).double())
    pairs = solve(lambda x: big.to(x) @ x, 6, n=len(big), tol=tol)
    left = big @ pairs.vectors - pairs.vectors * pairs.factors
    assert float(left.norm(dim=0).max()) <= tol
    exact = torch.linalg.eigvalsh(big).flip(0)[:6]
    torch.testing.assert_close(pairs.factors, exact, atol=tol, rtol=0)


def test_what_was_not_reached_is_said() -> None:
    mu = 1 - torch.linspace(0, 1, 1500).double() ** 4
    with pytest.warns(EigenprobeWarning, match=r"stopped after \d+ sweeps with a residual of"):
        solve(lambda x: mu[:, None].to(x) * x, 5, n=1500, tol=1e-20)
