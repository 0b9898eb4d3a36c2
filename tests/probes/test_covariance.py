"""Covariances against dense matrices: matrix-free, dense, batched, traces."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.probes import covariance as covariances
from eigenprobe.probes.covariance import Covariance, visible_scales
from eigenprobe.smoothers import build_smoother
from tests.clouds import fibonacci_sphere


def dense_smoother(n: int = 20, symmetric: bool = True, seed: int = 0) -> SimpleNamespace:
    """The interface of a smoother on a dense matrix."""
    w = torch.rand(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    w = w @ w.T if symmetric else w
    r = w.sum(1)
    a = w / (r[:, None] * r).sqrt() if symmetric else w / r[:, None]
    return SimpleNamespace(
        n=n,
        symmetric=symmetric,
        matrix=a,
        device=a.device,
        dtype=a.dtype,
        apply=lambda x: a @ x,
        apply_transpose=lambda x: a.T @ x,
        apply_symmetric=lambda x, t: (
            torch.linalg.matrix_power(a, t) @ (torch.linalg.matrix_power(a.T, t) @ x)
        ),
    )


def reference(a: torch.Tensor, power: int, symmetric: bool) -> torch.Tensor:
    if symmetric:
        return torch.linalg.matrix_power(a, power)
    half = torch.linalg.matrix_power(a, power // 2)
    return half @ half.T


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("terms", [{6: 1.0}, [2, 4, 8], 12])
def test_apply_trace_and_dense_agree_with_the_definition(symmetric, terms):
    smoother = dense_smoother(symmetric=symmetric)
    a = smoother.matrix
    if terms == 12:
        terms = dict.fromkeys(range(0, 12, 1 if symmetric else 2), 1.0)
    if isinstance(terms, dict):
        exact = sum(weight * reference(a, power, symmetric) for power, weight in terms.items())
    else:
        powers = [reference(a, power, symmetric) for power in terms]
        exact = sum(p / p.trace() for p in powers) / len(powers)
    covariance = Covariance(smoother, terms)
    x = torch.randn(20, 3, dtype=torch.float64)
    torch.testing.assert_close(covariance(x), exact @ x)
    torch.testing.assert_close(covariance.trace(), exact.trace())
    torch.testing.assert_close(covariance.dense().matrix, exact)
    torch.testing.assert_close(covariance.dense().trace(), exact.trace())


def test_hutchinson_is_close_and_deflation_makes_it_closer():
    """On more points than are summed column by column; A^100 keeps little but its first vectors."""
    smoother = build_smoother(torch.from_numpy(fibonacci_sphere(2100)))
    values, vectors = torch.linalg.eigh(smoother.matrix.to_dense())
    covariance, g, top = Covariance(smoother, {100: 1.0}), torch.Generator(), vectors[:, -300:]
    traces = [
        [covariance.trace(g.manual_seed(i), deflate=d) for i in range(3)] for d in (None, top)
    ]
    exact = values.pow(100).sum()
    plain, deflated = ((torch.stack(each) - exact).abs() for each in traces)
    assert float(plain.max()) < 0.5 * exact and float(deflated.sum()) < 0.2 * float(plain.sum())


@pytest.mark.parametrize("k", [2, 5, 11, 30])
def test_visible_scales_are_the_powers_whose_trace_is_nearest_to_k(k):
    """On a diagonal matrix random signs give the trace exactly, so that the answer is known."""
    mu = torch.linspace(0.02, 0.999, 60, dtype=torch.float64) ** 2
    step = torch.diag(mu)
    smoother = SimpleNamespace(
        n=60, symmetric=True, device=mu.device, dtype=mu.dtype, apply=lambda x: step @ x
    )
    powers = [2**j for j in range(1, 15)]
    distance = [
        abs(float((mu**p).sum().log()) - torch.tensor(float(k)).log().item()) for p in powers
    ]
    best = powers[distance.index(min(distance))]
    assert visible_scales(smoother, k) == (best, 4 * best, 16 * best)
    assert visible_scales(smoother, k, spread=(1,)) == (best,)
    assert visible_scales(smoother, k, spread=(1,), most=2) == (2,)  # no longer than asked for
    smoother.symmetric, smoother.apply_transpose = False, smoother.apply
    assert visible_scales(smoother, k, spread=(1,)) == (best,)


def test_settings_at_their_limits():
    smoother = dense_smoother()
    for good in ({0: 1.0}, [0], [1]):
        Covariance(smoother, good)
    for wrong in ({-2: 1.0}, [-1], [2, 2], []):
        with pytest.raises(InputError, match="distinct powers of at least 0"):
            Covariance(smoother, wrong)
    row = dense_smoother(symmetric=False)
    with pytest.raises(InputError, match="even power"):
        Covariance(row, {3: 1.0})
    torch.testing.assert_close(Covariance(row, {0: 1.0})(row.matrix), row.matrix)


@pytest.mark.parametrize(
    "terms",
    [{600: 1.0}, {600: 1.0, 3: 0.5, 0: -0.2}, {513: 0.3, 700: 2.0, 1: 1.0}, {512: 1.0, 2: 1}],
)
def test_high_powers_are_those_of_the_matrix(terms):
    """By Clenshaw's recurrence above 512 steps, by Horner's rule below; of a block of vectors."""
    smoother = dense_smoother(24)
    vectors = torch.linalg.eigh(smoother.matrix)[1]
    matrix = (
        vectors @ torch.diag(torch.linspace(-0.999, 0.9999, 24, dtype=torch.float64)) @ vectors.T
    )
    smoother.apply = lambda x: matrix @ x
    x = torch.randn(24, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = sum(
        weight * torch.linalg.matrix_power(matrix, power) @ x for power, weight in terms.items()
    )
    torch.testing.assert_close(
        covariances.polynomial(smoother, x, terms), expected, rtol=1e-8, atol=1e-9
    )


def test_bad_input():
    smoother = dense_smoother()
    with pytest.raises(InputError, match="even power"):
        Covariance(dense_smoother(symmetric=False), [3])
    with pytest.raises(InputError, match="rows"):
        Covariance(smoother, {2: 1.0})(torch.ones(5, 2).double())
