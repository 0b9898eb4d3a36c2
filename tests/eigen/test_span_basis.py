"""Ritz rotation, refinement sweeps and bases from spans, against their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenprobe.eigen import orthonormalise, ritz, rotate, solve, sweep
from eigenprobe.eigen.span import small_ritz
from eigenprobe.smoothers import Smoother, build_smoother
from tests import clouds as c


def cloud(n: int, seed: int = 0) -> Tensor:
    x = torch.randn((n, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x / x.norm(dim=1, keepdim=True) * torch.tensor([1.0, 1.3, 0.8], dtype=torch.float64)


def start(n: int, k: int, seed: int = 1) -> Tensor:
    return orthonormalise(
        torch.randn((n, k), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    )[0]


def turned(q: Tensor, smoother: Smoother) -> tuple[Tensor, Tensor]:
    gaps, rotation = ritz(q, smoother)
    return q.double() @ rotation, 1 - gaps


@pytest.mark.parametrize("kind", ["symmetric", "adaptive"])
def test_sweeps_climb_to_the_optimum(kind):
    smoother = build_smoother(cloud(800), kind)
    best = solve(smoother, 10).factors.sum()
    q, mu = turned(start(800, 10), smoother)
    for _ in range(4):
        before = mu.sum()
        q, mu = turned(sweep(q, smoother, 4), smoother)
        assert before < mu.sum() <= best + 1e-10
    assert torch.allclose(q.mT @ q, torch.eye(10, dtype=q.dtype), atol=1e-10)
    for _ in range(200):
        q, mu = turned(sweep(q, smoother, 16), smoother)
    assert torch.allclose(mu[:5], solve(smoother, 5).factors, rtol=0, atol=1e-3 * float(1 - mu[4]))
    assert torch.allclose(q[:, 0].abs(), smoother.mass.sqrt(), atol=1e-3)


def test_a_span_of_the_optimum_gives_the_optimum():
    smoother = build_smoother(cloud(500))
    pairs = solve(smoother, 12)
    columns = torch.cat([pairs.vectors[:, :1], pairs.vectors[:, 1:] @ start(11, 11)], 1)
    found = rotate(columns, smoother, 12)
    assert torch.allclose(
        found.eigenvalues, pairs.gaps.clamp_min(0) / smoother.step_time, atol=1e-8
    )
    within = torch.linalg.lstsq(columns, found.q).solution
    assert torch.allclose(columns @ within, found.q, atol=1e-9)
    v = found.vectors
    assert torch.allclose(
        v.mT @ (smoother.mass[:, None] * v), torch.eye(12, dtype=v.dtype), atol=1e-9
    )
    assert torch.allclose(v[:, 0], torch.ones(500, dtype=v.dtype), atol=1e-9)
    third = (smoother.mass[:, None] * v**3).sum(0)
    size = (smoother.mass[:, None] * v.abs() ** 3).sum(0)
    assert bool((third > -1e-3 * size).all())


def test_repeated_zeros_do_not_mix_with_the_constant():
    """Two far parts: mu = 1 twice. The constant stays the first vector and the basis
    orthonormal.
    """
    x = torch.cat([cloud(150), cloud(150, seed=1) + 20])
    smoother = build_smoother(x)
    generator = torch.Generator().manual_seed(3)
    columns = torch.cat([smoother.mass.sqrt()[:, None], solve(smoother, 9).vectors[:, 1:]], 1)
    columns[:, 1:] = columns[:, 1:] @ torch.randn((8, 8), generator=generator, dtype=torch.float64)
    columns[:, 1:] += smoother.mass.sqrt()[:, None]
    found = rotate(columns, smoother, 9)
    assert torch.allclose(found.q.mT @ found.q, torch.eye(9, dtype=torch.float64), atol=1e-9)
    assert float(found.eigenvalues[1]) < 1e-8 < float(found.eigenvalues[2])


def test_dependent_directions_of_a_small_problem_are_left_out():
    """``small u = g gram u`` with a Gram matrix of rank three: the three pairs of the span,
    whatever the scales.
    """
    g = torch.Generator().manual_seed(0)
    span = torch.linalg.qr(torch.randn(9, 3, generator=g, dtype=torch.float64))[0]
    operator = torch.diag(torch.arange(1.0, 10, dtype=torch.float64))
    columns = (
        span
        @ torch.randn(3, 5, generator=g, dtype=torch.float64)
        * torch.logspace(-3, 3, 5, dtype=torch.float64)
    )
    values, vectors = small_ritz(columns.T @ operator @ columns, columns.T @ columns)
    torch.testing.assert_close(values, torch.linalg.eigvalsh(span.T @ operator @ span))
    found = columns @ vectors
    torch.testing.assert_close(
        found.T @ found, torch.eye(3, dtype=torch.float64), atol=1e-8, rtol=0
    )


@pytest.mark.parametrize("known", [0, 1])
def test_ritz_gives_ascending_gaps_and_their_vectors(known: int) -> None:
    sphere = c.sphere_smoother()
    mu, u = torch.linalg.eigh(sphere.matrix.to_dense().double())
    mu, u = mu.flip(0)[:6], u.flip(1)[:, :6]
    turn = torch.linalg.qr(
        torch.randn(
            6 - known, 6 - known, generator=torch.Generator().manual_seed(0), dtype=torch.float64
        )
    ).Q
    q = torch.cat([u[:, :known], u[:, known:] @ turn], 1)
    gaps, rotation = ritz(q, sphere, known=known)
    torch.testing.assert_close(gaps, 1 - mu, atol=1e-7, rtol=1e-6)
    vectors = q @ rotation
    image = sphere.apply(vectors.to(sphere.dtype)).double()
    torch.testing.assert_close(image, (1 - gaps) * vectors, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(
        vectors.mT @ vectors, torch.eye(6, dtype=torch.float64), atol=1e-8, rtol=1e-8
    )
