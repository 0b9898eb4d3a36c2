"""Filtered sweeps: intervals, degrees, Rayleigh-Ritz in both precisions, blocks of several clouds, warnings."""

from __future__ import annotations

import math
import warnings
from itertools import chain, repeat

import numpy as np
import pytest
import torch

from eigenprobe.eigen import filtered, stacked
from eigenprobe.eigen.filtered import _degree, _Interval, _Pairs, inner, rayleigh_ritz, times, without
from eigenprobe.eigen.problem import FunctionOperator, Problem, SparseOperator, growth
from eigenprobe.errors import EigenprobeWarning
from eigenprobe.graph import stack
from eigenprobe.smoothers import build_smoother
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
    interval, target = _Interval(0.0, 0.5, 1.0), 1e-6
    active = torch.tensor([False, True, True, True, True])

    def degree(found: _Pairs, active: torch.Tensor = active, target: float = target, single: bool = False) -> int:
        return _degree(found, active, interval, target, 3, torch.float32 if single else torch.float64)

    found = pairs([0.1, 0.2, 0.3, 0.4, 0.45], [1e-9, 1e-3, 1e-4, 1.0, 1.0])
    rates = growth(1 - found.gaps, 0.0, 0.5).tolist()
    need = [math.acosh(2 * r / target) / rate for r, rate in ((1e-3, rates[1]), (1e-4, rates[2]))]
    widest = math.log(2e8) / rates[1]
    assert degree(found) == math.ceil(min(max(need), widest))
    assert degree(found, target=1e-2) == 3  # never less than three
    found = pairs([0.1, 0.2, 0.3, 0.4, 0.45], [1e-9, 1e-3, 1e6, 1.0, 1.0])
    assert degree(found) == math.ceil(widest)  # columns stay independent
    assert degree(found, single=True) == math.ceil(math.log(2e4) / rates[1])
    found = pairs([-200.0, 0.49, 0.3, 0.4, 0.45], [1e-9, 1e-3, 1e-3, 1.0, 1.0])
    far = float(growth(torch.tensor([201.0], dtype=torch.float64), 0.0, 0.5))
    limited = torch.tensor([False, True, False, False, True])
    need = math.acosh(2e3) / float(growth(torch.tensor([0.51], dtype=torch.float64), 0.0, 0.5))
    assert 60 / far < need
    assert degree(found, limited, single=True) == math.ceil(60 / far)  # what has converged stays in range
    assert degree(found, limited) == math.ceil(min(need, 480 / far))
    found = pairs([0.1, 0.6, 0.7, 0.8, 0.9], [1e-9, 1.0, 1.0, 1.0, 1.0])  # all at the bottom: as they are
    assert degree(found) == 3


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
def test_sweeps_reach_the_tolerance(tol: float, monkeypatch: pytest.MonkeyPatch) -> None:
    a, work = operator()
    found = filtered.solve(problem(work, 5, tol=tol))
    torch.testing.assert_close(
        found.gaps, torch.linspace(1, 0, 200, dtype=torch.float64).neg()[:5] + 1, atol=tol, rtol=0
    )
    assert float((found.vectors - a @ found.vectors - found.vectors * found.gaps).norm(dim=0).max()) <= tol
    assert found.vectors.shape == (200, 5) and found.vectors.dtype == torch.float64
    for name in ("spectral_bounds", "_degree"):  # a good start needs no sweep and no bounds
        monkeypatch.setattr(filtered, name, lambda *_: pytest.fail("not to be asked"))
    again = filtered.refine(problem(work, 5, tol=tol), found.vectors)
    torch.testing.assert_close(again.gaps, found.gaps, atol=1e-12, rtol=0)


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
    found = filtered.refine(problem(work, 5, start=start), start.clone())
    residuals = (found.vectors - a @ found.vectors - found.vectors * found.gaps).norm(dim=0)
    assert swept[0] == 4 and float(residuals.max()) <= 1e-6
    swept.clear()
    filtered.refine(problem(work, 5), block(200, 7).float(), fresh=True)
    assert swept[0] == 7


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
@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_sweeps_end_where_they_no_longer_gain(
    monkeypatch: pytest.MonkeyPatch, residuals: list[float], sweeps: int
) -> None:
    """Those of single precision; in double precision the pairs have converged at once."""
    a, _ = operator()
    told, precisions = chain(residuals, repeat(1e-9)), []

    class Counted(FunctionOperator):
        def filter(self, x: torch.Tensor, degree: int, lo: float, hi: float) -> torch.Tensor:
            precisions.append(x.dtype)
            return super().filter(x, degree, lo, hi)

    def pretend(_operator: object, given: torch.Tensor) -> tuple[torch.Tensor, _Pairs]:
        return given, pairs([0.0, 0.01, 0.02, 0.03], [next(told)] * 2 + [1.0] * 2)

    monkeypatch.setattr(filtered, "rayleigh_ritz", pretend)
    work = Counted(lambda x: a.to(x.dtype) @ x, 200, CPU)
    filtered.refine(problem(work, 2, max_sweeps=4), block(200, 4).float())
    assert precisions == [torch.float32] * sweeps


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
