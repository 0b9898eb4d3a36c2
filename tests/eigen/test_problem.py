"""Tests of `eigen.problem`: the eigenproblem that every solver gets, and what it gives back."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.eigen.problem import Eigenpairs, FunctionOperator, Unsuited, null_vectors
from tests.eigen.test_chebyshev import block, generator, problem


def test_blocks_of_a_problem() -> None:
    assert problem().n == 12 and problem().width == 7
    assert problem(wanted=9).width == 11 and problem(c=0, wanted=9).width == 12
    sparse = problem(c=0)
    assert sparse.sparse is sparse.operator
    sparse.operator = FunctionOperator(lambda x: x, 12, torch.device("cpu"))
    with pytest.raises(Unsuited):
        _ = sparse.sparse
    fresh = problem().block()
    assert fresh.shape == (12, 7) and fresh.dtype == torch.float32
    torch.testing.assert_close(fresh, torch.randn(12, 7, generator=generator()))
    start = block(12, 2)
    given = problem(start=start).block()
    torch.testing.assert_close(given[:, :2], start.float())
    torch.testing.assert_close(given[:, 2:], torch.randn(12, 5, generator=generator()) / 12**0.5)
    torch.testing.assert_close(problem(start=block(12, 9)).block(), block(12, 9)[:, :7].float())
    pairs = Eigenpairs(start, torch.tensor([0.0, 0.25]))
    assert pairs.factors.tolist() == [1.0, 0.75]


def test_known_vectors_are_constants_of_the_parts() -> None:
    mass = torch.rand(9, generator=generator(2), dtype=torch.float64)
    mass = mass / mass.sum()
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0, 1])
    for k, width in ((1, 1), (2, 2), (3, 3), (5, 3)):
        found = null_vectors(mass, labels, 3, k)
        assert found.shape == (9, width)
        torch.testing.assert_close(found.T @ found, torch.eye(width, dtype=torch.float64), atol=1e-12, rtol=0)
        torch.testing.assert_close(found[:, 0], mass.sqrt())
        constant = found / mass.sqrt()[:, None]
        for part in range(3):
            inside = constant[labels == part]
            torch.testing.assert_close(inside, inside[:1].expand_as(inside))
    torch.testing.assert_close(null_vectors(mass, torch.zeros(9, dtype=torch.int64), 1, 4), mass.sqrt()[:, None])
