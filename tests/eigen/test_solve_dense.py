"""Tests of `eigen.solve`: the dense solver."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

from eigenprobe.eigen.problem import FunctionOperator, Problem, SparseOperator
from eigenprobe.eigen.solve import solve_dense, suits_dense
from tests.eigen.test_chebyshev import generator, problem, symmetric

CPU = torch.device("cpu")


def test_lapack_takes_small_problems_and_many_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("eigenprobe.eigen.solve"), "DENSE", 20)
    assert suits_dense(problem(20)) and not suits_dense(problem(24)) and not suits_dense(problem(26))
    assert suits_dense(problem(23)) and not suits_dense(problem(30, 2, 4, 4)) and suits_dense(problem(29, 2, 4, 4))
    a = symmetric()
    known = torch.linalg.eigh(a).eigenvectors[:, [11, 4]]
    asked = Problem(SparseOperator(a.to_sparse_csr()), known, 4, 0, 1e-6, 9, generator())
    values, vectors = torch.linalg.eigh(a)
    rest = [10, 9, 8, 7]
    for operator in (asked.operator, FunctionOperator(lambda x: a @ x, 12, CPU)):
        asked.operator = operator
        pairs = solve_dense(asked)
        torch.testing.assert_close(pairs.gaps, 1 - values[rest])
        torch.testing.assert_close((pairs.vectors * vectors[:, rest]).sum(0).abs(), torch.ones(4, dtype=torch.float64))
