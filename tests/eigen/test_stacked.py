"""Tests of `eigen.stacked`."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigenprobe.eigen import stacked
from eigenprobe.eigen.problem import FunctionOperator
from eigenprobe.errors import EigenprobeWarning
from eigenprobe.graph import stack
from eigenprobe.smoothers import Smoother, build_smoother
from tests import clouds as c
from tests.eigen.test_filtered import CPU, block, generator


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
    """The guess of the last gap: 1.0 of it on an even sphere, 1.7 on a random one, whose small cells leave often."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 3))
    shapes = [torch.from_numpy(s) for s in (c.fibonacci_sphere(1200), x / np.linalg.norm(x, axis=1)[:, None])]
    smoother = build_smoother(stack([build_smoother(s, dimension=2).graph for s in shapes]), dimension=2)
    padded, at = stacked._Padded(smoother), 0
    for guess, n in zip(padded.guessed_gap(64).tolist(), smoother.clouds, strict=True):
        exact = 1 - torch.linalg.eigvalsh(smoother.matrix.to_dense()[at : at + n, at : at + n]).flip(0)[64]
        assert 0.8 < guess / float(exact) < (1.2 if n == 1200 else 1.9)
        at += n


def test_small_eigenproblems_of_many_clouds() -> None:
    small = block(35, 7).reshape(5, 7, 7)
    values, vectors = stacked._eigh(small)
    both = (small + small.mT) / 2
    torch.testing.assert_close(values, torch.linalg.eigvalsh(both))
    torch.testing.assert_close(vectors @ torch.diag_embed(values) @ vectors.mT, both)


def test_a_stacked_solver_that_is_stopped_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "STACKING", stacked.Stacking(most_sweeps=1))
    with pytest.warns(EigenprobeWarning, match=r"direct solver stopped after 1 sweeps with a residual of"):
        stacked.solve_each(clouds(), 4, tol=1e-13, generator=generator())


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


def test_stacked_sweeps_end_below_the_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine tenths of it, in every cloud: a residual of just the tolerance is swept once more."""
    smoother, left = clouds(), [1.5, 0.95, 0.91, 0.89, 0.1]
    count = [0]

    def rotated(self: object, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        count[0] += 1
        gaps = torch.linspace(0.01, 0.3, x.shape[2], dtype=torch.float64).expand(3, -1)
        return x, gaps, torch.full_like(gaps, 1e-6 * left[count[0] - 1])

    monkeypatch.setattr(stacked._Padded, "rotated", rotated)
    stacked.solve_each(smoother, 6, tol=1e-6, generator=generator(1))
    assert count == [4]


def test_stacked_filters_damp_what_lies_beyond_the_last_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first rotation on: all up to 1 minus the gap of the last column of every cloud."""
    damped: list[torch.Tensor] = []
    gaps = torch.tensor([[0.2], [0.3], [0.4]]).double() * torch.linspace(0.1, 1, stacked.columns(5)).double()
    left, real = iter([1e-3, 1e-9]), stacked._Padded.filter

    def spy(self: object, x: torch.Tensor, lowest: torch.Tensor, *given: object) -> torch.Tensor:
        damped.append(lowest)
        return real(self, x, lowest, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(stacked._Padded, "filter", spy)
    monkeypatch.setattr(stacked._Padded, "rotated", lambda self, x: (x, gaps, torch.full_like(gaps, next(left))))
    found = stacked.solve_each(clouds(), 5, tol=1e-6, generator=generator(2))
    later = damped[stacked.STACKING.blind :]
    assert later
    for lowest in later:
        torch.testing.assert_close(lowest, torch.tensor([0.8, 0.7, 0.6]).double())
    torch.testing.assert_close(found.gaps, torch.cat([torch.zeros(3, 1).double(), gaps[:, :4]], 1))
