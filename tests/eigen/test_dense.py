"""Tests of `eigen.dense`."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.eigen import dense
from eigenprobe.eigen.chebyshev import FunctionOperator, SparseOperator
from eigenprobe.eigen.problem import Problem
from tests.eigen.test_chebyshev import generator, problem, symmetric

CPU = torch.device("cpu")


def test_lapack_takes_small_problems_and_many_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "LARGEST", 20)
    assert dense.suits(problem(20)) and not dense.suits(problem(24)) and not dense.suits(problem(26))
    assert dense.suits(problem(23)) and not dense.suits(problem(30, 2, 4, 4)) and dense.suits(problem(29, 2, 4, 4))
    a = symmetric()
    known = torch.linalg.eigh(a).eigenvectors[:, [11, 4]]
    asked = Problem(SparseOperator(a.to_sparse_csr()), known, 4, 0, 1e-6, 9, generator())
    values, vectors = torch.linalg.eigh(a)
    rest = [10, 9, 8, 7]
    for operator in (asked.operator, FunctionOperator(lambda x: a @ x, 12, CPU)):
        asked.operator = operator
        pairs = dense.solve(asked)
        torch.testing.assert_close(pairs.gaps, 1 - values[rest])
        torch.testing.assert_close((pairs.vectors * vectors[:, rest]).sum(0).abs(), torch.ones(4, dtype=torch.float64))
