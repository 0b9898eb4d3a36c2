"""Nested iteration from coarse to fine: against Lanczos, and on graphs that it must leave."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse.linalg import eigsh

from eigenprobe.eigen import solve
from eigenprobe.eigen.problem import SparseOperator
from eigenprobe.neighbors.layout import as_scipy
from eigenprobe.smoothers import build_smoother
from tests import clouds as c


def test_eigenvalues_are_those_of_lanczos(rng: np.random.Generator) -> None:
    points = c.random_sphere(7000, rng) * rng.random((7000, 1)) ** (1 / 3) * [1.0, 1.2, 2.0]
    smoother = build_smoother(torch.from_numpy(points))
    laplacian = as_scipy(SparseOperator(smoother.matrix, None, smoother.degree).laplacian())
    exact = np.sort(eigsh(laplacian.tocsc(), 20, sigma=-1e-6, tol=1e-12)[0])[1:]
    pairs = solve(smoother, 20)
    assert pairs.solver == "nested"
    np.testing.assert_allclose(pairs.gaps[1:].numpy(), exact, rtol=1e-6)
    q = pairs.vectors
    torch.testing.assert_close(q.mT @ q, torch.eye(20).double(), rtol=0, atol=1e-9)
    left = torch.from_numpy(laplacian @ q.numpy()) - q * pairs.gaps
    assert float(left.norm(dim=0).max()) <= 1e-6
