"""Gaps far below the residual of other solvers: from a shifted factor they are those of LAPACK."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenprobe.eigen import inverse, solve_shifted
from eigenprobe.eigen.problem import SparseOperator
from eigenprobe.graph.graph import Edges
from eigenprobe.smoothers import Smoother, laplacian_smoother


def ring(n: int, rng: np.random.Generator, spread: float) -> Smoother:
    """A ring whose masses differ by a factor ``spread``: the gaps are about as much smaller."""
    tail = torch.roll(torch.arange(n), -1)
    head = torch.arange(n)
    edges = Edges(torch.minimum(head, tail), torch.maximum(head, tail), n)
    mass = torch.from_numpy(np.where(rng.random(n) < 0.1, spread, 1.0))
    return laplacian_smoother(edges, torch.from_numpy(rng.random(n) + 0.5), mass, None, 1.0)


@pytest.mark.parametrize("spread", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("rough", [1.0, 100.0])
def test_gaps_are_those_of_lapack(spread: float, rough: float, rng: np.random.Generator) -> None:
    smoother = ring(150, rng, spread)
    gap = SparseOperator(smoother.matrix, None, smoother.leaving).laplacian().to_dense()
    exact, vectors = torch.linalg.eigh(gap)
    found = solve_shifted(smoother, 6, rough * float(exact[1]))
    assert found is not None and found.solver == "shifted"
    torch.testing.assert_close(found.gaps[1:], exact[1:6], rtol=1e-3 if spread > 1e6 else 1e-6, atol=0)
    left = (gap @ found.vectors - found.vectors * found.gaps).norm(dim=0).max()
    assert found.residual == pytest.approx(float(left), rel=1e-3, abs=1e-14) and found.residual < 1e-9
    torch.testing.assert_close(found.vectors.T @ found.vectors, torch.eye(6).double(), atol=1e-9, rtol=0)
    if exact[6] > 1.01 * exact[5]:  # the same space
        torch.testing.assert_close((vectors[:, :6].T @ found.vectors).norm(), torch.tensor(6.0).double().sqrt())


def test_one_pair_alone(rng: np.random.Generator) -> None:
    smoother = ring(60, rng, 1e6)
    found = solve_shifted(smoother, 1, 1e-8)
    assert found is not None and found.gaps.shape == (1,) and float(found.gaps[0]) < 1e-12
    root = smoother.mass.sqrt() / smoother.mass.sum().sqrt()
    assert float((found.vectors[:, 0] @ root.double()).abs()) == pytest.approx(1, abs=1e-6)


def test_what_it_does_not_take(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    smoother = ring(60, rng, 1.0)
    assert solve_shifted(smoother, 59, 1e-3) is None  # Lanczos needs room
    monkeypatch.setattr(inverse, "INVERSION", replace(inverse.INVERSION, shifted=50))
    assert solve_shifted(smoother, 4, 1e-3) is None


@pytest.mark.parametrize("k", [2, 3])
def test_few_pairs_settle(k: int, rng: np.random.Generator) -> None:
    """By the second gap: the first one is 0, of which no share is a change."""
    smoother = ring(60, rng, 1e6)
    gap = SparseOperator(smoother.matrix, None, smoother.leaving).laplacian().to_dense()
    exact = torch.linalg.eigvalsh(gap)
    found = solve_shifted(smoother, k, float(exact[1]))
    assert found is not None
    torch.testing.assert_close(found.gaps[1:], exact[1:k], rtol=1e-3, atol=0)
