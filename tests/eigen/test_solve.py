"""Which solver is chosen, and that `solve` takes it."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenprobe.eigen import inverse, multigrid, nested, select_solver, solve
from eigenprobe.eigen.problem import Eigenpairs, Problem, SparseOperator
from eigenprobe.eigen.solve import SOLVERS, _known, _unpack
from eigenprobe.errors import InputError
from eigenprobe.graph import build_graph
from eigenprobe.search import layout
from eigenprobe.smoothers import Smoother, build_smoother, neighbourhood_smoother
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


def _expander(n: int, k: int = 8) -> Smoother:
    rows = np.random.default_rng(0).normal(size=(n, 48)).astype(np.float32)
    return neighbourhood_smoother(build_graph(torch.from_numpy(rows), k))


def test_an_expander_is_left_to_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its coarse levels and factors fill in: they are counted on a few rows, and none is computed."""
    operator = _expander(3000)
    # Entries of a row speak for a small factor, but neighbourhoods grow too fast for one.
    assert select_solver(operator, 5).name != "inverse"
    monkeypatch.setattr(nested, "NESTING", nested.Nesting(points=1000, entries=40))
    computed: list[int] = []
    real = multigrid.multiply
    monkeypatch.setattr(multigrid, "multiply", lambda a, b: computed.append(a.shape[0]) or real(a, b))
    pairs = solve(operator, 5)
    assert pairs.solver == "filtered" and pairs.residual <= 1e-6
    assert sorted(computed)[:-1] == [64, 64]  # and one product for the prolongation
    dense = torch.linalg.eigvalsh(torch.eye(3000, dtype=torch.float64) - operator.matrix.to_dense().double())
    torch.testing.assert_close(pairs.gaps, dense[:5], atol=1e-7, rtol=1e-4)


@pytest.mark.parametrize("fault", ["LinAlgError", "MemoryError", "NaN", "skew", "residual"])
def test_the_next_solver_takes_over(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = build_smoother(_sphere(900))
    exact = torch.linalg.eigvalsh(torch.eye(900, dtype=torch.float64) - operator.matrix.to_dense().double())[:6]

    def broken(problem: Problem) -> Eigenpairs:
        if fault == "LinAlgError":
            raise torch.linalg.LinAlgError("linalg.eigh failed to converge")
        if fault == "MemoryError":
            raise MemoryError
        pairs = inverse.solve(problem)
        if fault == "NaN":
            return pairs._replace(gaps=pairs.gaps * torch.nan)
        if fault == "skew":
            return pairs._replace(vectors=pairs.vectors * 2)
        return pairs._replace(vectors=pairs.vectors.flip(1))

    front = sys.modules["eigenprobe.eigen.solve"]
    table = tuple(s._replace(solve=broken) if s.name == "inverse" else s for s in SOLVERS)
    monkeypatch.setattr(front, "SOLVERS", table)
    pairs = solve(operator, 6)
    assert pairs.solver == "filtered"
    torch.testing.assert_close(pairs.gaps, exact, atol=1e-8, rtol=1e-4)
    monkeypatch.setattr(front, "SOLVERS", tuple(s._replace(solve=broken) for s in SOLVERS))
    if fault != "residual":  # which the last solver warns of
        with pytest.raises(InputError, match="no solver found 6 eigenpairs of this operator on 900 points"):
            solve(operator, 6)


def test_reproducible_and_independent_of_the_order_of_points() -> None:
    import eigenprobe as ep

    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 3))
    x = x / np.linalg.norm(x, axis=1, keepdims=True) * [1.0, 1.4, 2.0]
    first, again = ep.decompose(x, k=6), ep.decompose(x, k=6)
    assert np.array_equal(first.vectors, again.vectors) and np.array_equal(first.eigenvalues, again.eigenvalues)
    order = rng.permutation(600)
    other = ep.decompose(x[order], k=6)
    assert np.allclose(other.eigenvalues, first.eigenvalues, rtol=1e-3, atol=1e-6)
    assert np.allclose(other.vectors, first.vectors[order], atol=2e-2)


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_the_constant_is_known_where_the_matrix_fixes_it(share: float, rng: np.random.Generator) -> None:
    """|A q - q| of at most 1e-4, of whole vectors: an entry of many is always small."""
    smoother = build_smoother(torch.as_tensor(c.random_sphere(150, rng)), "symmetric")
    moved = replace(smoother, matrix=smoother.matrix * (1 - share * 1e-4), leaving=None)
    work = SparseOperator(moved.matrix)
    known = _known(moved, work, None, 3)
    assert known.shape == (150, 1 if share < 1 else 0)
    if share < 1:
        torch.testing.assert_close(known[:, 0].abs(), smoother.mass.sqrt())


def test_rows_without_points_are_ordered_by_their_matrix(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a graph that lies in memory as in space stay; pairs are those of the rows as they were given."""
    monkeypatch.setattr(layout, "REORDER", 50)
    smoother = build_smoother(torch.as_tensor(c.random_sphere(150, rng)), "symmetric")
    bare = replace(smoother, graph=None)
    ordered = replace(smoother, graph=replace(smoother.graph, ordered=True))
    generator = torch.Generator().manual_seed(0)
    assert _unpack(ordered, 3, None, None, generator)[2] is None
    for each in (bare, smoother):
        work, known, order, dtype = _unpack(each, 3, None, None, generator)
        assert order is not None and sorted(order.tolist()) == list(range(150)) and dtype == torch.float64
        torch.testing.assert_close(work.matrix.to_dense(), smoother.matrix.to_dense()[order][:, order])
        torch.testing.assert_close(known[:, 0], smoother.mass.sqrt()[order])
        torch.testing.assert_close(solve(each, 5).gaps, solve(ordered, 5).gaps, atol=1e-9, rtol=1e-6)
