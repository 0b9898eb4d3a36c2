"""Filtered sweeps: intervals, degrees, Rayleigh-Ritz in both precisions, blocks of several clouds, warnings."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

from eigenprobe.eigen import filtered, stacked
from eigenprobe.eigen.chebyshev import growth
from eigenprobe.eigen.filtered import _Interval, _Pairs, _Sweeper, inner, rayleigh_ritz, times, without
from eigenprobe.eigen.problem import FunctionOperator, Problem, SparseOperator
from eigenprobe.errors import EigenprobeWarning
from eigenprobe.graph import stack
from eigenprobe.smoothers import Smoother, build_smoother
from tests import clouds as c

CPU = torch.device("cpu")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def block(n: int, p: int, seed: int = 5) -> torch.Tensor:
    return torch.randn(n, p, generator=generator(seed), dtype=torch.float64)


def operator(n: int = 200, seed: int = 0, lowest: float = 0.0) -> tuple[torch.Tensor, FunctionOperator]:
    """A dense symmetric matrix with eigenvalues from 1 down to the lowest, and the operator that applies it."""
    turn = torch.linalg.qr(block(n, n, seed)).Q
    a = turn @ torch.diag(torch.linspace(1, lowest, n, dtype=torch.float64)) @ turn.T
    return a, FunctionOperator(lambda x: a.to(x.dtype) @ x, n, CPU)


def problem(work: FunctionOperator, wanted: int, **options: object) -> Problem:
    none = torch.empty((work.n, 0), dtype=torch.float64)
    given = {"tol": 1e-6, "max_sweeps": 100, "known": none, **options}
    return Problem(work, wanted=wanted, guard=8, generator=generator(), **given)  # type: ignore[arg-type]


def pairs(gaps: list[float], residuals: list[float]) -> _Pairs:
    return _Pairs(torch.tensor(gaps, dtype=torch.float64), torch.tensor(residuals, dtype=torch.float64))


def test_the_interval_ends_at_the_lowest_ritz_value() -> None:
    interval = _Interval(-0.2, 0.5, 1.0)
    found = interval.below(pairs([0.1, 0.3, 0.6], [0.0] * 3))
    assert (found.lo, found.hi, found.top) == (-0.2, pytest.approx(0.4), 1.0)
    room = interval.below(pairs([0.1, 1.2 - 1e-9], [0.0] * 2))  # at the bottom: room of a hundred-thousandth
    assert room.hi == pytest.approx(-0.2 + 1e-5 * 1.2) and room.lo == -0.2
    assert interval.below(pairs([0.0, 0.0], [0.0] * 2)).hi == pytest.approx(1 - 1e-12, abs=1e-15)
    wider = interval.below(pairs([0.1, 1.5], [0.0, 0.03]))  # below what Lanczos said: the interval grows
    assert wider.lo == pytest.approx(-0.5 - 0.03 - 1.5 / 16) and wider.hi == 0.5


def test_degrees_are_enough_and_not_too_much() -> None:
    _, work = operator()
    sweeper = _Sweeper(problem(work, 3), torch.zeros(200, 5, dtype=torch.float64))
    sweeper.interval = _Interval(0.0, 0.5, 1.0)
    sweeper.pairs = pairs([0.1, 0.2, 0.3, 0.4, 0.45], [1e-9, 1e-3, 1e-4, 1.0, 1.0])
    rates = growth(1 - sweeper.pairs.gaps, 0.0, 0.5).tolist()
    active = torch.tensor([False, True, True, True, True])
    target = 1e-6
    need = [math.acosh(2 * r / target) / rate for r, rate in ((1e-3, rates[1]), (1e-4, rates[2]))]
    widest = math.log(2e8) / rates[1]
    assert sweeper._degree(active, target) == math.ceil(min(max(need), widest))
    assert sweeper._degree(active, 1e-2) == 3  # never less than three
    sweeper.pairs = pairs([0.1, 0.2, 0.3, 0.4, 0.45], [1e-9, 1e-3, 1e6, 1.0, 1.0])
    assert sweeper._degree(active, target) == math.ceil(widest)  # columns stay independent
    sweeper.block = sweeper.block.float()
    assert sweeper._degree(active, target) == math.ceil(math.log(2e4) / rates[1])
    sweeper.pairs = pairs([-200.0, 0.49, 0.3, 0.4, 0.45], [1e-9, 1e-3, 1e-3, 1.0, 1.0])
    far = float(growth(torch.tensor([201.0], dtype=torch.float64), 0.0, 0.5))
    limited = torch.tensor([False, True, False, False, True])
    need = math.acosh(2e3) / float(growth(torch.tensor([0.51], dtype=torch.float64), 0.0, 0.5))
    assert 60 / far < need
    assert sweeper._degree(limited, target) == math.ceil(60 / far)  # what has converged stays in range
    sweeper.block = sweeper.block.double()
    assert sweeper._degree(limited, target) == math.ceil(min(need, 480 / far))
    sweeper.pairs = pairs([0.1, 0.6, 0.7, 0.8, 0.9], [1e-9, 1.0, 1.0, 1.0, 1.0])  # all at the bottom: as they are
    assert sweeper._degree(active, target) == 3


def test_sweeps_stall_near_the_floor_of_their_precision() -> None:
    for now, before, floor, end in (
        *((15.9e-7, 3.1e-6, 1e-7, True), (15.9e-7, 3.3e-6, 1e-7, False)),  # half is the least gain
        *((16.1e-7, 1.7e-6, 1e-7, False), (16.1e-7, 1.7e-6, 1.01e-7, True), (1e-7, math.inf, 1e-7, False)),
    ):
        assert filtered.stalled(now, before, floor) == end


@pytest.mark.parametrize("known", [False, True])
def test_the_first_sweep_damps_three_quarters_of_the_spectrum(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of degree eight; where vectors of mu = 1 are known nothing is above, whatever Lanczos says."""
    a, _ = operator()
    seen: list[tuple[int, float, float]] = []

    class Watched(FunctionOperator):
        def filter(self, x: torch.Tensor, degree: int, lo: float, hi: float) -> torch.Tensor:
            seen.append((degree, lo, hi))
            return super().filter(x, degree, lo, hi)

    work = Watched(lambda x: a.to(x.dtype) @ x, 200, CPU)
    monkeypatch.setattr(filtered, "spectral_bounds", lambda *_: (-0.2, 1.1))
    more = {"known": torch.linalg.eigh(a).eigenvectors[:, -1:]} if known else {}
    found = filtered.solve(problem(work, 3, **more))
    assert seen[0] == (8, -0.2, pytest.approx((-0.2 + 3 * (1.0 if known else 1.1)) / 4))
    torch.testing.assert_close(found.gaps, torch.arange(known, 3 + known) / 199.0, atol=1e-6, rtol=0, check_dtype=False)


def test_rayleigh_ritz_of_any_block() -> None:
    a, work = operator()
    x = block(200, 6) * torch.tensor([1.0, 1e-6, 1.0, 50.0, 1.0, 1.0])
    q = torch.linalg.qr(x).Q
    exact = torch.linalg.eigvalsh(q.T @ (q - a @ q))
    nearly = torch.cat([x[:, :5], x[:, :1] + 1e-5 * x[:, 2:3]], 1)  # a Gram matrix that cannot be used as it is
    for given in (x, x.float(), nearly):
        vectors, found = rayleigh_ritz(work, given)
        assert vectors.dtype == given.dtype
        gram = vectors.double().T @ vectors.double()
        torch.testing.assert_close(gram, torch.eye(6, dtype=torch.float64), atol=2e-6, rtol=0)
        wide = vectors.double()
        residuals = (wide - a @ wide - wide * found.gaps).norm(dim=0)
        torch.testing.assert_close(found.residuals, residuals, atol=1e-5, rtol=1e-5)
        assert bool((found.gaps.diff() >= 0).all())
        if given is not nearly:
            torch.testing.assert_close(found.gaps, exact, atol=1e-5, rtol=1e-5)
            span = torch.linalg.qr(given.double()).Q
            torch.testing.assert_close(span @ (span.T @ wide), wide, atol=1e-5, rtol=0)
    assert bool(rayleigh_ritz(work, torch.cat([x[:, :2], 0 * x[:, :1]], 1))[0].isfinite().all())


def test_products_and_projections() -> None:
    x, y = block(50, 3), block(50, 2, 1)
    torch.testing.assert_close(inner(x, y), x.T @ y)
    assert inner(x.float(), y.float()).dtype == torch.float64
    torch.testing.assert_close(times(x, y[:3]), x @ y[:3])
    assert times(x.float(), y[:3]).dtype == torch.float32
    known = torch.linalg.qr(x).Q
    rest = without(y, known)
    torch.testing.assert_close(rest, y - known @ (known.T @ y))
    torch.testing.assert_close(known.T @ rest, torch.zeros(3, 2, dtype=torch.float64), atol=1e-14, rtol=0)
    assert without(y, known[:, :0]) is y


def test_products_of_a_device_are_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device may multiply single precision in less: there products are double, some rows at a time."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda self: True), raising=False)
    monkeypatch.setattr("eigenprobe.eigen.problem.WIDENED", 7)
    x, y = block(50, 3).float(), block(50, 2, 1).float()
    torch.testing.assert_close(inner(x, y), x.double().T @ y.double(), rtol=1e-12, atol=1e-12)
    small = block(3, 4)
    torch.testing.assert_close(times(x, small), (x.double() @ small).float(), rtol=1e-7, atol=0)
    torch.testing.assert_close(inner(x.double(), y.double()), x.double().T @ y.double())


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
def test_sweeps_reach_the_tolerance(tol: float) -> None:
    a, work = operator()
    found = filtered.solve(problem(work, 5, tol=tol))
    torch.testing.assert_close(
        found.gaps, torch.linspace(1, 0, 200, dtype=torch.float64).neg()[:5] + 1, atol=tol, rtol=0
    )
    assert float((found.vectors - a @ found.vectors - found.vectors * found.gaps).norm(dim=0).max()) <= tol
    assert found.vectors.shape == (200, 5) and found.vectors.dtype == torch.float64
    asked = problem(work, 5, tol=tol)
    sweeper = _Sweeper(asked, found.vectors)
    sweeper.run(torch.float64, False)
    assert sweeper.sweeps == 0 and sweeper.interval is None  # a good start needs no sweep and no bounds


def test_a_solver_that_is_stopped_says_so() -> None:
    _, work = operator()
    with pytest.warns(EigenprobeWarning, match=r"stopped after 3 sweeps with a residual of .*, above 1\.0e-10"):
        found = filtered.solve(problem(work, 5, tol=1e-10, max_sweeps=3))
    assert found.vectors.shape == (200, 5)


def test_an_isolated_lowest_eigenvalue_and_known_vectors() -> None:
    a, work = operator(lowest=0.3)
    values, vectors = torch.linalg.eigh(a)
    bent = a - 4 * vectors[:, :1] @ vectors[:, :1].T  # far below the others
    low = FunctionOperator(lambda x: bent.to(x.dtype) @ x, 200, CPU)
    torch.testing.assert_close(filtered.solve(problem(low, 4)).gaps, 1 - values.flip(0)[:4], atol=1e-6, rtol=0)
    known = vectors.flip(1)[:, :2]
    found = filtered.solve(problem(work, 3, known=known))
    torch.testing.assert_close(found.gaps, 1 - values.flip(0)[2:5], atol=1e-6, rtol=0)
    assert float((known.T @ found.vectors).abs().max()) < 1e-8


def test_only_what_has_not_converged_is_swept() -> None:
    a, _ = operator()
    swept: list[int] = []

    class Counted(FunctionOperator):
        def filter(self, x: torch.Tensor, degree: int, lo: float, hi: float) -> torch.Tensor:
            swept.append(x.shape[1])
            return super().filter(x, degree, lo, hi)

    work = Counted(lambda x: a.to(x.dtype) @ x, 200, CPU)
    exact = torch.linalg.eigh(a).eigenvectors.flip(1)
    start = torch.cat([exact[:, :3], block(200, 4)], 1)
    asked = problem(work, 5, start=start)
    sweeper = _Sweeper(asked, start.clone())
    sweeper.run(torch.float64, False)
    assert swept[0] == 4 and float(sweeper.pairs.residuals[:5].max()) <= 1e-6  # type: ignore[union-attr]
    swept.clear()
    fresh = _Sweeper(problem(work, 5), block(200, 7))
    fresh.run(torch.float64, True)
    assert swept[0] == 7 and fresh.interval is not None


def test_columns_of_stacked_blocks() -> None:
    """Those wanted beside the constant and a quarter of guards, eight at least, in full eights."""
    for k in range(2, 70):
        need = k - 1 + max(8, k // 4)
        assert stacked.columns(k) == 8 * math.ceil(need / 8)


def clouds() -> Smoother:
    graphs = [build_smoother(torch.from_numpy(c.fibonacci_sphere(n)), dimension=2).graph for n in (130, 90, 150)]
    return build_smoother(stack(graphs), dimension=2)


def test_stacked_clouds_are_solved_each() -> None:
    smoother = clouds()
    found = stacked.solve_each(smoother, 6, generator=generator(1))
    assert found.vectors.shape == (3, 150, 6) and found.gaps.shape == (3, 6)
    whole, at = smoother.matrix.to_dense(), 0
    for i, n in enumerate(smoother.clouds):
        a, v = whole[at : at + n, at : at + n], found.vectors[i, :n]
        exact = 1 - torch.linalg.eigvalsh(a).flip(0)[:6]
        torch.testing.assert_close(found.gaps[i], exact, atol=1e-9, rtol=1e-6)
        torch.testing.assert_close(v.T @ v, torch.eye(6, dtype=torch.float64), atol=1e-10, rtol=0)
        assert float((v - a @ v - v * found.gaps[i]).norm(dim=0).max()) <= 1e-6
        assert float(found.vectors[i, n:].abs().sum()) == 0
        torch.testing.assert_close(v[:, 0], smoother.mass[at : at + n].sqrt())
        at += n
    with pytest.MonkeyPatch.context() as patch:  # sweeps aim at three tenths of the tolerance
        real, aims = stacked._need, [0.0][:0]
        patch.setattr(stacked, "_need", lambda *given: aims.append(given[3]) or real(*given))
        stacked.solve_each(smoother, 6, tol=1e-9, generator=generator(1))
        assert aims == [pytest.approx(0.3e-9)] * len(aims) and aims
    precise = stacked.solve_each(smoother, 6, tol=1e-11, generator=generator(1))
    v = precise.vectors[0, :130]
    assert float((v - whole[:130, :130] @ v - v * precise.gaps[0]).norm(dim=0).max()) <= 1e-11


def test_stacked_filters_and_rotations_are_those_of_every_cloud() -> None:
    smoother = clouds()
    padded = stacked._Padded(smoother)
    x = padded.clouds.padded(block(370, 10))
    lowest = torch.tensor([0.5, 0.7, 0.9], dtype=torch.float64)
    degrees = [5, 0, 3]  # of which products go as far as the last cloud that needs more
    found, whole, at = padded.filter(x, lowest, degrees, torch.float64), smoother.matrix.to_dense(), 0
    turned, gaps, residuals = padded.rotated(x)
    for i, n in enumerate(smoother.clouds):
        a = whole[at : at + n, at : at + n]
        work = FunctionOperator(lambda y, a=a: a @ y, n, CPU)
        torch.testing.assert_close(found[i, :n], work.filter(x[i, :n], degrees[i], 0.0, float(lowest[i])))
        falling = padded.filter(x, lowest, [7, 4, 2], torch.float64)[i, :n]
        torch.testing.assert_close(falling, work.filter(x[i, :n], [7, 4, 2][i], 0.0, float(lowest[i])))
        root = smoother.mass[at : at + n].sqrt()[:, None]
        rest = x[i, :n] - root @ (root.T @ x[i, :n])
        q = torch.linalg.qr(rest).Q
        torch.testing.assert_close(gaps[i], torch.linalg.eigvalsh(q.T @ (q - a @ q)), atol=1e-10, rtol=1e-9)
        v = turned[i, :n]
        torch.testing.assert_close(residuals[i], (v - a @ v - v * gaps[i]).norm(dim=0), atol=1e-10, rtol=1e-8)
        torch.testing.assert_close(v.T @ v, torch.eye(10, dtype=torch.float64), atol=1e-10, rtol=0)
        at += n


def test_degrees_of_stacked_sweeps() -> None:
    """What each cloud needs, what keeps its columns apart, and both rounded up to few steps from the highest."""
    gaps = torch.tensor([[0.1, 0.2, 0.5], [0.05, 0.3, 0.6]], dtype=torch.float64)
    residuals = torch.tensor([[1e-3, 1e-2, 1.0], [1e-4, 1e-5, 1.0]], dtype=torch.float64)
    found = stacked._need(gaps, residuals, 2, 1e-6)
    for i, each in enumerate(found.tolist()):
        b = FunctionOperator(lambda y, i=i: (1 - gaps[i])[:, None] * y, 3, CPU)  # the filter itself, on eigenvectors
        for degree, enough in ((math.ceil(each), True), (math.floor(each) - 1, False)):
            grown = b.filter(torch.ones(3, 1, dtype=torch.float64), degree, 0.0, float(1 - gaps[i, -1]))[:2, 0]
            assert bool((residuals[i, :2] / grown <= 1.05e-6).all()) == enough
    last = torch.tensor([0.01, 0.3], dtype=torch.float64)
    for dtype, spread in ((torch.float32, 2e5), (torch.float64, 1e8)):
        for gap, most in zip(last.tolist(), stacked._most(last, dtype).tolist(), strict=True):
            growth = math.cosh(most * math.acosh((1 - (1 - gap) / 2) / ((1 - gap) / 2)))
            assert growth == pytest.approx(spread, rel=1e-6)
    degrees = stacked._levels(torch.tensor([50.0, 41.0, 39.0, 7.0, 0.0, 0.4]))
    assert degrees == [50, 50, 40, math.ceil(50 / 1.25**8), 0, 3]


def test_degrees_at_the_ends_of_the_spectrum() -> None:
    """No residual is below three quarters of the target, and a block that reaches the bottom leaves a thousandth."""
    gaps = torch.tensor([[0.1, 0.5], [0.98, 0.9999]], dtype=torch.float64)
    rates = [math.acosh(1 + 2 * 0.4 / 0.5), math.acosh(1 + 2 * 0.0199 / 1e-3)]
    found = stacked._need(gaps, torch.zeros(2, 2, dtype=torch.float64), 1, 1e-3)
    assert found.tolist() == pytest.approx([math.acosh(1.5) / rate for rate in rates])
    for wanted, rate in ((1, rates[0]), (2, math.acosh(1 + 1e-12))):  # the last column has no growth to speak of
        found = stacked._need(gaps[:1], torch.ones(1, 2, dtype=torch.float64), wanted, 1e-3)
        assert found.tolist() == pytest.approx([math.acosh(2e3) / rate], rel=1e-3)
    for dtype, spread in ((torch.float32, 2e5), (torch.float64, 1e8)):
        found = stacked._most(gaps[:, 1], dtype).tolist()
        grown = [math.acosh(1 + 2 * 0.5 / 0.5), math.acosh(1 + 2 * 0.9999 / 1e-3)]
        assert found == pytest.approx([math.log(2 * spread) / rate for rate in grown])


def test_the_guessed_gap_is_its_formula() -> None:
    smoother = clouds()
    padded, own = stacked._Padded(smoother), smoother.matrix.to_dense().diagonal().split(list(smoother.clouds))
    for width in (8, 40):
        expected = [min(0.5, 3.6 * width / float((1 / (1 - each)).sum())) for each in own]
        assert padded.guessed_gap(width).tolist() == pytest.approx(expected)
    assert padded.guessed_gap(10**6).tolist() == [0.5] * 3
    for entry, gap in ((1.0, 3.6 * 8 * 1e-6), (0.25, 3.6 * 8 * 0.75)):  # a point that never leaves, or often
        padded.values = torch.where(padded.diagonal > 0, entry, padded.values)
        expected = [min(0.5, max(1e-6, gap / n)) for n in smoother.clouds]
        assert padded.guessed_gap(8).tolist() == pytest.approx(expected)


def test_the_first_sweeps_of_stacked_clouds_go_by_weyls_law() -> None:
    """The guess of the last gap, on even and random surfaces, of which it is about one; few rotations are left."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 3))
    shapes = [torch.from_numpy(s) for s in (c.fibonacci_sphere(1200), x / np.linalg.norm(x, axis=1)[:, None])]
    smoother = build_smoother(stack([build_smoother(s, dimension=2).graph for s in shapes]), dimension=2)
    padded, at = stacked._Padded(smoother), 0
    for guess, n in zip(padded.guessed_gap(64).tolist(), smoother.clouds, strict=True):
        exact = 1 - torch.linalg.eigvalsh(smoother.matrix.to_dense()[at : at + n, at : at + n]).flip(0)[64]
        assert 0.8 < guess / float(exact) < 1.4
        at += n


def test_small_eigenproblems_of_many_clouds() -> None:
    small = block(35, 7).reshape(5, 7, 7)
    values, vectors = stacked._eigh(small)
    both = (small + small.mT) / 2
    torch.testing.assert_close(values, torch.linalg.eigvalsh(both))
    torch.testing.assert_close(vectors @ torch.diag_embed(values) @ vectors.mT, both)


@pytest.mark.parametrize(("decades", "told"), [(1, False), (4, True)])
def test_spacings_that_a_residual_does_not_resolve_are_told(decades: int, told: bool) -> None:
    """Disks with radii of several decades: gaps far below a residual of 1e-6 were wrong without a word."""
    rng, graphs = np.random.default_rng(0), []
    for _ in range(2):
        radius, angle = 10 ** (-decades * rng.random(700)), 2 * np.pi * rng.random(700)
        disk = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle], 1)
        graphs.append(build_smoother(torch.from_numpy(disk), dimension=2).graph)
    alone = build_smoother(graphs[0], dimension=2)
    both = build_smoother(stack(graphs), dimension=2)
    assert alone.mass is not None
    work = SparseOperator(alone.matrix, None, alone.leaving)
    asked = problem(work, 5, known=alone.mass.sqrt()[:, None])  # type: ignore[arg-type]
    for run in (lambda: filtered.solve(asked), lambda: stacked.solve_each(both, 6, generator=generator())):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", EigenprobeWarning)
            run()
        assert any("not resolved by the residual" in str(each.message) for each in seen) == told


@pytest.mark.parametrize(("gap", "residual", "told"), [(1e-9, 2e-5, True), (1e-9, 5e-6, False), (7e-15, 1e-6, False)])
def test_what_a_residual_resolves(gap: float, residual: float, told: bool) -> None:
    """The error of a gap is at most about r^2 over the last of them, 0.1; 7e-15 is a separate part."""
    gaps = torch.tensor([[gap, 0.05, 0.1], [0.01, 0.05, 0.1]], dtype=torch.float64)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", EigenprobeWarning)
        filtered.warn_of_unresolved(gaps, torch.full_like(gaps, residual), 2)
    assert [str(each.message)[:28] for each in seen] == ["eigenvalues 1 - mu of 1e-09 "] * told


def test_a_stacked_solver_that_is_stopped_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "STACKING", stacked.Stacking(most_sweeps=1))
    with pytest.warns(EigenprobeWarning, match=r"direct solver stopped after 1 sweeps with a residual of"):
        stacked.solve_each(clouds(), 4, tol=1e-13, generator=generator())


def test_filters_of_a_sparse_matrix_reach_lapack() -> None:
    smoother = build_smoother(torch.from_numpy(c.fibonacci_sphere(700)), dimension=2)
    work = SparseOperator(smoother.matrix, None, smoother.leaving)
    known = smoother.mass.sqrt()[:, None]
    asked = Problem(work, known, 8, 10, 1e-7, 100, generator())
    found = filtered.solve(asked)
    exact = np.linalg.eigvalsh(np.eye(700) - smoother.matrix.to_dense().numpy())[1:9]
    np.testing.assert_allclose(found.gaps.numpy(), exact, rtol=1e-7)


@pytest.mark.parametrize(
    ("residuals", "sweeps"),
    [
        ([1e-3, 9e-6, 5e-6, 1e-9], 2),  # near what single precision can, and no longer halved
        ([1e-3, 9e-6, 4e-6, 5e-7, 1e-9], 3),  # halved: goes on until it has converged
        ([1e-3, 9.9e-6, 9.8e-6, 5e-7], 3),  # not near yet
        ([1e-9], 0),
        ([1e-3] * 9, 4),  # never: the limit of sweeps
    ],
)
def test_sweeps_end_where_they_no_longer_gain(
    monkeypatch: pytest.MonkeyPatch, residuals: list[float], sweeps: int
) -> None:
    _, work = operator()
    told = iter(residuals)

    def pretend(_operator: object, given: torch.Tensor, _settings: object) -> tuple[torch.Tensor, _Pairs]:
        return given, pairs([0.0, 0.01, 0.02, 0.03], [next(told)] * 2 + [1.0] * 2)

    monkeypatch.setattr(filtered, "rayleigh_ritz", pretend)
    sweeper = _Sweeper(problem(work, 2, max_sweeps=4), block(200, 4))
    sweeper.run(torch.float32, False)
    assert sweeper.sweeps == sweeps


@pytest.mark.parametrize("known", [False, True])
def test_the_first_interval_damps_three_quarters_of_the_spectrum(known: bool) -> None:
    a, _ = operator(lowest=-0.5)
    asked: list[tuple[int, float, float]] = []

    class Seen(FunctionOperator):
        def filter(self, x: torch.Tensor, degree: int, lo: float, hi: float) -> torch.Tensor:
            asked.append((degree, lo, hi))
            return super().filter(x, degree, lo, hi)

    vectors = torch.linalg.eigh(0.9 * a).eigenvectors[:, -1:] if known else torch.empty((200, 0), dtype=torch.float64)
    work = Seen(lambda x: 0.9 * a.to(x.dtype) @ x, 200, CPU)
    found = filtered.solve(problem(work, 3, known=vectors))
    degree, lo, hi = asked[0]
    top = 1.0 if known else 0.9
    assert degree == 8 and lo == pytest.approx(-0.45, abs=0.05) and hi == pytest.approx((lo + 3 * top) / 4, abs=0.02)
    first = 0.9 * torch.linspace(1, -0.5, 200, dtype=torch.float64)
    torch.testing.assert_close(1 - found.gaps, first[int(known) : 3 + int(known)], atol=1e-6, rtol=0)


def test_large_columns_stay_in_range() -> None:
    _, work = operator()
    vectors, found = rayleigh_ritz(work, 1e25 * block(200, 4).float())
    assert bool(vectors.isfinite().all()) and bool((found.gaps >= -1e-6).all())


@pytest.mark.parametrize(
    ("residuals", "precisions"),
    [
        ([1e-3, 9e-6, 5e-6, 1e-9], ["32", "32", "32", "64"]),  # single precision no longer gains
        ([1e-3, 9e-6, 4e-6, 1e-9], ["32", "32", "32", "32"]),
        ([1e-3, 9.9e-6, 9.8e-6, 1e-9], ["32", "32", "32", "32"]),
    ],
)
def test_stacked_sweeps_change_to_double_where_single_no_longer_gains(
    monkeypatch: pytest.MonkeyPatch, residuals: list[float], precisions: list[str]
) -> None:
    told, seen = iter(residuals), []
    real = stacked._Padded.filter

    def filtered_as(
        self: object, x: torch.Tensor, lowest: torch.Tensor, degree: int, dtype: torch.dtype
    ) -> torch.Tensor:
        seen.append(str(dtype)[-2:])
        return real(self, x, lowest, degree, dtype)  # type: ignore[arg-type]

    def pretend(self: object, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        gaps = torch.linspace(0.01, 0.3, x.shape[2], dtype=torch.float64).expand(3, -1)
        return x, gaps, torch.full((3, x.shape[2]), next(told), dtype=torch.float64)

    monkeypatch.setattr(stacked._Padded, "filter", filtered_as)
    monkeypatch.setattr(stacked._Padded, "rotated", pretend)
    found = stacked.solve_each(clouds(), 4, tol=1e-6, generator=generator())
    assert seen == ["32"] * (stacked.STACKING.blind - 1) + precisions and found.gaps.shape == (3, 4)


def test_stacked_sweeps_without_end_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards that equal the last wanted value: no degree is enough, and a rotation looks again after a few sweeps."""
    told, calls, real = iter([1e-3, 1e-9]), [], stacked._Padded.filter

    def counted(self: object, *given: object) -> torch.Tensor:
        calls.append(1)
        return real(self, *given)  # type: ignore[arg-type]

    def pretend(self: object, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        gaps = torch.full((3, x.shape[2]), 0.3, dtype=torch.float64)
        return x, gaps, torch.full((3, x.shape[2]), next(told), dtype=torch.float64)

    monkeypatch.setattr(stacked._Padded, "filter", counted)
    monkeypatch.setattr(stacked._Padded, "rotated", pretend)
    stacked.solve_each(clouds(), 4, generator=generator())
    assert len(calls) == stacked.STACKING.blind + stacked.STACKING.at_once
