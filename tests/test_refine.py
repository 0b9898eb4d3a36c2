"""Ritz rotation and refinement sweeps against their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenprobe.eigen.refine import refine, ritz, sweep
from eigenprobe.eigen.solve import solve
from eigenprobe.eigen.span import orthonormalise
from eigenprobe.errors import InputError
from eigenprobe.smoothers.smoother import block_diagonal, build_smoother


def cloud(n: int, seed: int = 0) -> Tensor:
    x = torch.randn((n, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x / x.norm(dim=1, keepdim=True) * torch.tensor([1.0, 1.3, 0.8], dtype=torch.float64)


def start(n: int, k: int, seed: int = 1) -> Tensor:
    return orthonormalise(torch.randn((n, k), generator=torch.Generator().manual_seed(seed), dtype=torch.float64))[0]


@pytest.mark.parametrize("kind", ["symmetric", "adaptive", "row"])
def test_ritz_rotates_within_the_span(kind):
    smoother, q = build_smoother(cloud(300), kind), start(300, 12)
    rotated, mu = ritz(q, smoother)
    assert torch.allclose(rotated @ rotated.mT, q @ q.mT, atol=1e-10)
    assert bool((mu.diff() <= 1e-12).all())
    again, same = ritz(rotated, smoother)
    assert torch.allclose(mu, same, atol=1e-10)
    assert torch.allclose((again * rotated).sum(0).abs(), torch.ones(12, dtype=torch.float64), atol=1e-6)
    assert float(rotated[:, 0].sum()) >= 0


def test_ritz_diagonalises():
    smoother, q = build_smoother(cloud(300)), start(300, 12)
    rotated, mu = ritz(q, smoother)
    assert torch.allclose(rotated.mT @ smoother.apply(rotated), torch.diag(mu), atol=1e-10)


@pytest.mark.parametrize("kind", ["symmetric", "adaptive"])
def test_sweeps_climb_to_the_optimum(kind):
    smoother = build_smoother(cloud(800), kind)
    best = solve(smoother, 10)[1].sum()
    q, mu = ritz(start(800, 10), smoother)
    for _ in range(4):
        before = mu.sum()
        q, mu = sweep(q, smoother, 4)
        assert before < mu.sum() <= best + 1e-10
    assert torch.allclose(q.mT @ q, torch.eye(10, dtype=q.dtype), atol=1e-10)
    polished, values = refine(q, smoother, sweeps=12, steps=16)
    assert torch.allclose(values[:5], solve(smoother, 5)[1], rtol=0, atol=1e-3 * float(1 - values[4]))
    assert torch.allclose(polished[:, 0], smoother.mass.sqrt(), atol=1e-3)


def test_row_sweeps_raise_the_energy_of_the_covariance():
    smoother = build_smoother(cloud(300), "row")
    q, mu = ritz(start(300, 6), smoother)
    _, better = sweep(q, smoother, 4)
    assert better.sum() > mu.sum()


def test_stacked_clouds_are_refined_one_by_one():
    smoothers = [build_smoother(cloud(200, seed=s)) for s in range(3)]
    q = torch.stack([start(200, 8, seed=s) for s in range(3)])
    together, mu = refine(q, block_diagonal(smoothers), sweeps=2)
    for i, smoother in enumerate(smoothers):
        alone, values = refine(q[i], smoother, sweeps=2)
        assert torch.allclose(values, mu[i], atol=1e-10)
        assert torch.allclose(alone, together[i] * torch.sign((alone * together[i]).sum(0)), atol=1e-6)


def test_float32_keeps_small_gaps():
    smoother = build_smoother(cloud(2000))
    q, mu = solve(smoother, 10)
    single, values = ritz(q.float(), smoother.to(dtype=torch.float32))
    assert single.dtype == torch.float32 and values.dtype == torch.float64
    assert torch.allclose(1 - values[1:], 1 - mu[1:], rtol=1e-2)


def test_bad_input():
    smoother = build_smoother(cloud(100))
    with pytest.raises(InputError, match="100 rows"):
        ritz(start(99, 3), smoother)
    with pytest.raises(InputError, match="at least 1"):
        sweep(start(100, 3), smoother, 0)
