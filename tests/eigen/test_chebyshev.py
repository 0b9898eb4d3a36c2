"""The operators, filters and problems that solvers share, against dense matrices and numpy's Chebyshev polynomials."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch
from numpy.polynomial.chebyshev import chebval

from eigenprobe.eigen import solve
from eigenprobe.eigen.problem import (
    FunctionOperator,
    Problem,
    SparseOperator,
    growth,
    last_term,
    smoother_filter,
    spectral_bounds,
    terms,
)
from eigenprobe.errors import InputError
from eigenprobe.graph import stack
from eigenprobe.search.layout import memory_order
from eigenprobe.smoothers import Smoother, build_smoother
from tests import clouds as c

CPU = torch.device("cpu")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def symmetric(n: int = 12, seed: int = 0) -> torch.Tensor:
    a = torch.randn(n, n, generator=generator(seed), dtype=torch.float64) * (
        torch.rand(n, n, generator=generator(seed + 1)) < 0.4
    )
    a = a + a.T
    a.fill_diagonal_(0)
    return a / torch.linalg.eigvalsh(a).abs().max()


def block(n: int, p: int, seed: int = 5) -> torch.Tensor:
    return torch.randn(n, p, generator=generator(seed), dtype=torch.float64)


def chebyshev(a: torch.Tensor, degree: int, lo: float = -1.0, hi: float = 1.0) -> torch.Tensor:
    """``T_degree((a - c) / e)`` by its eigenvectors."""
    values, vectors = np.linalg.eigh(a.numpy())
    position = (2 * values - hi - lo) / (hi - lo)
    return torch.from_numpy(vectors @ np.diag(chebval(position, [0] * degree + [1])) @ vectors.T)


@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_terms_of_the_recurrence(degree: int) -> None:
    a, x = symmetric(), block(12, 2)

    def step(now: torch.Tensor, before: torch.Tensor | None) -> torch.Tensor:
        return a @ now if before is None else 2 * a @ now - before

    found = [term.clone() for term in terms(step, x, degree)]
    assert len(found) == degree + 1
    for j, term in enumerate(found):
        torch.testing.assert_close(term, chebyshev(a, j) @ x)
    torch.testing.assert_close(last_term(step, x, degree), found[-1])


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_a_sparse_operator_is_its_matrix_reordered(diagonal: bool, ordered: bool) -> None:
    a, x = symmetric(), block(12, 3)
    if diagonal:
        a = a + torch.diag(torch.linspace(0.1, 0.5, 12, dtype=torch.float64))
    order = torch.randperm(12, generator=generator(3)) if ordered else None
    leaving = 1 - a.diagonal()
    turned = a if order is None else a[order][:, order]
    operator = SparseOperator(a.to_sparse_csr(), order, leaving if diagonal else None)
    assert operator.n == 12 and operator.device == CPU
    torch.testing.assert_close(operator.matrix.to_dense(), turned)
    assert operator.entries == int(((a != 0) | torch.eye(12, dtype=torch.bool)).sum())
    torch.testing.assert_close(operator.apply(x), turned @ x)
    assert operator.apply(x.float()).dtype == torch.float32
    torch.testing.assert_close(operator.apply(x.float()), (turned @ x).float(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(operator.laplacian().to_dense(), torch.eye(12, dtype=torch.float64) - turned)
    known = SparseOperator(a.to_sparse_csr(), order, torch.full((12,), 7.0))  # what the smoother knows counts
    torch.testing.assert_close(known.laplacian().to_dense().diagonal(), torch.full((12,), 7.0, dtype=torch.float64))
    function = FunctionOperator(lambda y: turned @ y, 12, CPU)
    for degree in (0, 1, 4):
        exact = chebyshev(turned, degree, -0.3, 0.6) @ x
        torch.testing.assert_close(operator.filter(x, degree, -0.3, 0.6), exact)
        torch.testing.assert_close(function.filter(x, degree, -0.3, 0.6), exact)
        single = operator.filter(x.float(), degree, -0.3, 0.6)
        torch.testing.assert_close(single, exact.float(), atol=1e-3, rtol=1e-3)


def test_a_matrix_with_as_many_entries_as_rows_and_no_diagonal() -> None:
    """Pairs, each the other's only neighbour: what is stored is not the diagonal, though it is as long."""
    pairs = torch.block_diag(*[torch.tensor([[0.0, 0.5], [0.5, 0.0]], dtype=torch.float64)] * 3)
    work = SparseOperator(pairs.to_sparse_csr())
    torch.testing.assert_close(work.laplacian().to_dense(), torch.eye(6, dtype=torch.float64) - pairs)
    torch.testing.assert_close(work.filter(torch.eye(6, dtype=torch.float64), 1, -1.0, 0.0), 2 * pairs + torch.eye(6))


@pytest.mark.parametrize("batched", [False, True])
def test_filters_on_smoothers(batched: bool) -> None:
    graphs = [build_smoother(torch.from_numpy(c.fibonacci_sphere(n)), k=9, dimension=2).graph for n in (40, 40)]
    smoother = build_smoother(stack(graphs), dimension=2, balance=False)
    x = torch.stack([block(40, 3), block(40, 3, 6)])
    coefficients = torch.tensor([[0.5, -1.0, 0.25, 2.0], [1.0, 0.0, 3.0, -0.5]], dtype=torch.float64)
    whole = smoother.matrix.to_dense()
    exact = []
    for i in range(2):
        a = 2 * whole[40 * i : 40 * i + 40, 40 * i : 40 * i + 40] - torch.eye(40, dtype=torch.float64)
        exact.append(sum(w * chebyshev(a, j) @ x[i] for j, w in enumerate(coefficients[i])))
    operator = smoother.dense() if batched else smoother
    torch.testing.assert_close(smoother_filter(operator, x, coefficients), torch.stack(exact))
    several = smoother_filter(operator, x, torch.stack([coefficients, 2 * coefficients], 1))
    torch.testing.assert_close(several, torch.stack([torch.stack(exact), 2 * torch.stack(exact)], 1))


def test_filters_on_clouds_of_different_sizes() -> None:
    """Padded to the largest, each cloud is filtered as alone, and the padding stays 0."""
    graphs = [build_smoother(torch.from_numpy(c.fibonacci_sphere(n)), k=9, dimension=2).graph for n in (40, 25)]
    smoother = build_smoother(stack(graphs), dimension=2, balance=False)
    x = torch.stack([block(40, 3), torch.cat([block(25, 3, 6), torch.zeros(15, 3, dtype=torch.float64)])])
    coefficients = torch.rand(2, 2, 5, dtype=torch.float64, generator=generator(7))
    found, one = smoother_filter(smoother, x, coefficients), smoother_filter(smoother, x, coefficients[:, 0])
    whole, first = smoother.matrix.to_dense(), 0
    for i, n in enumerate((40, 25)):
        a = whole[first : first + n, first : first + n]
        b = 2 * a - torch.eye(n, dtype=torch.float64)
        for f in range(2):
            exact = sum(w * chebyshev(b, j) @ x[i, :n] for j, w in enumerate(coefficients[i, f]))
            torch.testing.assert_close(found[i, f, :n], exact)
        torch.testing.assert_close(one[i], found[i, 0])
        torch.testing.assert_close(smoother.apply(x)[i, :n], a @ x[i, :n])
        assert not found[i, :, n:].any() and not smoother.apply(x)[i, n:].any()
        first += n


def test_growth_outside_an_interval() -> None:
    values = torch.tensor([0.9, 0.5, 0.2, -0.3], dtype=torch.float64)
    expected = [math.acosh((v - 0.2) / 0.3) if v > 0.5 else 0.0 for v in values.tolist()]
    torch.testing.assert_close(growth(values, -0.1, 0.5), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("steps", [3, 12])
def test_bounds_hold_the_spectrum(steps: int) -> None:
    a = symmetric(60)
    values = torch.linalg.eigvalsh(a)
    lo, hi = spectral_bounds(FunctionOperator(lambda x: a @ x, 60, CPU), generator(1), steps)
    assert lo <= float(values[0]) + 1e-9 and hi >= float(values[-1]) - 1e-9
    assert hi - lo < (4.0 if steps == 3 else 2.3)
    small = symmetric(6)  # as many steps as points: exact
    values = torch.linalg.eigvalsh(small)
    lo, hi = spectral_bounds(FunctionOperator(lambda x: small @ x, 6, CPU), generator(1))
    assert (lo, hi) == pytest.approx((float(values[0]), float(values[-1])), abs=1e-7)
    # Lanczos by hand, of the same start: diagonal and off-diagonal of the matrix seen from its Krylov space.
    start = torch.randn(60, 1, generator=generator(1), dtype=torch.float64)
    krylov = torch.linalg.qr(torch.cat([torch.linalg.matrix_power(a, j) @ start for j in range(4)], 1)).Q
    tri = krylov.T @ a @ krylov
    small_values, vectors = torch.linalg.eigh(tri[:3, :3])
    slack = float(tri[3, 2].abs()) * vectors[-1].abs()
    lo, hi = spectral_bounds(FunctionOperator(lambda x: a @ x, 60, CPU), generator(1), 3)
    assert lo == pytest.approx(float(small_values[0] - slack[0]), abs=1e-8)
    assert hi == pytest.approx(float(small_values[-1] + slack[-1]), abs=1e-8)


def problem(n: int = 12, c: int = 1, wanted: int = 3, guard: int = 4, **options: object) -> Problem:
    known = torch.linalg.qr(block(n, c)).Q if c else torch.empty((n, 0), dtype=torch.float64)
    operator = SparseOperator(symmetric(n).to_sparse_csr())
    return Problem(operator, known, wanted, guard, 1e-6, 50, generator(), **options)  # type: ignore[arg-type]


def solved_order(a: torch.Tensor) -> torch.Tensor | None:
    return memory_order(a.to_sparse_csr())


def test_what_the_front_door_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    a = symmetric(30)
    exact = 1 - torch.linalg.eigvalsh(a).flip(0)[:4]
    for operator, more in ((a, {}), (a.to_sparse_csr(), {}), (lambda x: a.to(x.dtype) @ x, {"n": 30})):
        pairs = solve(operator, 4, **more)  # type: ignore[arg-type]
        torch.testing.assert_close(pairs.gaps, exact, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(a @ pairs.vectors, (1 - pairs.gaps) * pairs.vectors, atol=1e-6, rtol=0)
        assert pairs.vectors.dtype == torch.float64
    assert solve(lambda x: a.to(x.dtype) @ x, 2, n=30, start=block(30, 2).float()).vectors.dtype == torch.float32
    assert solve(a.float(), 2).vectors.dtype == torch.float32 and solve(a, 30).gaps.shape == (30,)
    for k in (0, 31):
        with pytest.raises(InputError, match=f"between 1 and 30 eigenpairs for 30 points, got k={k}"):
            solve(a, k)
    for wrong, match in (
        (a[:, :9], r"expected a square matrix, got shape \(30, 9\)"),
        (a[0], r"expected a square matrix, got shape \(30,\)"),
        (lambda x: x, "needs the number of points n"),
        ("word", "expected a smoother, a square tensor or a function, got str"),
    ):
        with pytest.raises(InputError, match=match):
            solve(wrong, 2)  # type: ignore[arg-type]
    seen: list[Problem] = []
    front = sys.modules[solve.__module__]
    real = front.SOLVERS[0]
    spy = real._replace(solve=lambda asked: seen.append(asked) or real.solve(asked))
    monkeypatch.setattr(front, "SOLVERS", (spy, *front.SOLVERS[1:]))
    for k, guard, given in ((3, None, 10), (30, None, 10), (29, 7, 7)):
        solve(a, k, guard=guard)
        assert (seen[-1].guard, seen[-1].wanted, seen[-1].bounded) == (given, k, False)
    solve(torch.eye(70, dtype=torch.float64), 60)
    assert seen[-1].guard == 20 and (seen[-1].tol, seen[-1].max_sweeps) == (1e-6, 200)
    smoother = build_smoother(torch.from_numpy(c.fibonacci_sphere(60)), k=9, dimension=2)
    solve(smoother, 5)
    assert seen[-1].bounded and seen[-1].wanted == 4 and seen[-1].known.shape == (60, 1)
    unfixed = Smoother("adaptive", smoother.matrix, smoother.graph, smoother.mass.roll(1), 1.0, 2.0)
    solve(unfixed, 5)  # the matrix does not fix the mass that it came with
    assert seen[-1].wanted == 5
    vanished = Smoother("adaptive", smoother.matrix, smoother.graph, smoother.mass, 1.0, 2.0, lowest=0.0)
    solve(vanished, 5)
    assert seen[-1].wanted == 5  # what counts from another value does not fix the constant
    near = torch.linalg.eigh(a).eigenvectors.flip(1)[:, :4]
    solve(a, 4, start=near)
    order = solved_order(a)
    torch.testing.assert_close(seen[-1].start, near if order is None else near[order])
    row = build_smoother(torch.from_numpy(c.fibonacci_sphere(60)), "row", k=9, dimension=2)
    power = torch.linalg.matrix_power(row.matrix.to_dense(), 20)
    exact = torch.linalg.eigvalsh(power @ power.T).flip(0)[:3]
    torch.testing.assert_close(solve(row, 3).factors, exact, atol=1e-7, rtol=1e-7)
    assert not seen[-1].bounded
