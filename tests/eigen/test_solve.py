"""Which solver is chosen, and that `solve` takes it."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from eigenprobe.eigen import select_solver, solve
from eigenprobe.eigen.solve import SOLVERS
from eigenprobe.errors import InputError
from eigenprobe.smoothers import build_smoother
from tests import clouds as c


def _sphere(n: int) -> torch.Tensor:
    return torch.from_numpy(c.random_sphere(n, np.random.default_rng(0)))


def test_choice_by_size_and_kind() -> None:
    assert select_solver(build_smoother(_sphere(400)), 10).name == "dense"
    assert select_solver(build_smoother(_sphere(900)), 400).name == "dense"  # nearly as many vectors as points
    surface = build_smoother(_sphere(2000))
    assert select_solver(surface, 10).name == "inverse"
    start = torch.randn(2000, 10, dtype=torch.float64)
    assert select_solver(surface, 10, start=start).name == "filtered"
    assert select_solver(surface.apply, 10, n=2000).name == "filtered"
    assert select_solver(build_smoother(_sphere(700), "row"), 10).name == "filtered"
    assert [solver.name for solver in SOLVERS] == ["dense", "inverse", "nested", "filtered"]
    assert all(solver.chosen_for for solver in SOLVERS)
    with pytest.raises(InputError, match="expected between 1 and 2000"):
        select_solver(surface, 2001)


def test_solve_takes_the_chosen_one(monkeypatch: pytest.MonkeyPatch) -> None:
    surface, used = build_smoother(_sphere(700)), []
    table = tuple(s._replace(solve=lambda p, s=s: used.append(s.name) or s.solve(p)) for s in SOLVERS)
    monkeypatch.setattr(sys.modules["eigenprobe.eigen.solve"], "SOLVERS", table)
    solve(surface, 5)
    assert used == [select_solver(surface, 5).name]
