"""Learning one manifold: quality against the closed form, new points, the paper's loss, saving."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from eigenprobe.basis import Basis
from eigenprobe.eigen.solve import solve
from eigenprobe.errors import InputError
from eigenprobe.probes.probes import Probes
from eigenprobe.smoothers import build_smoother
from eigenprobe.training import FitSettings, Optimisation, ProbeSettings, fit_network


def sphere(n: int, seed: int | None = None) -> torch.Tensor:
    if seed is not None:
        x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return x / x.norm(dim=1, keepdim=True)
    i = torch.arange(n, dtype=torch.float64) + 0.5
    height, angle = 1 - 2 * i / n, np.pi * (1 + 5**0.5) * i
    ring = (1 - height.square()).sqrt()
    return torch.stack([ring * angle.cos(), ring * angle.sin(), height], 1)


def potato(n: int) -> torch.Tensor:
    """A sphere with bumps and no symmetry: every eigenvalue is simple."""
    x = sphere(n)
    directions = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    directions = directions / directions.norm(dim=1, keepdim=True)
    heights = torch.tensor([0.9, -0.4, 0.7, 0.5, -0.3, 1.0], dtype=torch.float64)
    return (
        x
        * (1 + torch.exp(6 * (x @ directions.T - 1)) @ heights)[:, None]
        * torch.tensor([1.0, 0.8, 0.6])
    )


@cache
def fitted() -> tuple[torch.Tensor, Basis]:
    points = potato(1500)
    return points, fit_network(points, 20, steps=150, seed=0)


def cosines(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.T @ b).diagonal().abs() / (a.norm(dim=0) * b.norm(dim=0))


def test_the_network_finds_the_closed_form():
    points, basis = fitted()
    smoother = build_smoother(points)
    best, mu = (pairs := solve(smoother, 20)).vectors, pairs.factors
    agreement = cosines(basis.normalized, best)
    assert float(agreement[:10].mean()) >= 0.99 and float(agreement.mean()) >= 0.97
    torch.testing.assert_close(
        basis.eigenvalues[1:], ((1 - mu) / smoother.step_time)[1:], rtol=0.02, atol=0
    )
    assert abs(float(basis.eigenvalues[0])) < 1e-6
    # conventions of a basis
    identity = torch.eye(20, dtype=torch.float64)
    torch.testing.assert_close(basis.normalized.T @ basis.normalized, identity, atol=1e-8, rtol=0)
    assert float(basis.mass.sum()) == pytest.approx(1) and float(basis.vectors[:, 0].std()) < 1e-6
    assert bool((basis.eigenvalues.diff() >= 0).all())


def test_new_points_are_their_own_and_fitted_points_keep_their_values(tmp_path):
    points, basis = fitted()
    values = basis(points[:50])
    torch.testing.assert_close(values, basis.vectors[:50], atol=1e-6, rtol=1e-6)
    for i in (0, 17, 49):
        torch.testing.assert_close(basis(points[i : i + 1])[0], values[i], atol=1e-5, rtol=1e-5)
    basis.save(tmp_path / "basis.safetensors")
    loaded = Basis.load(tmp_path / "basis.safetensors")
    new = potato(1511)[:40].numpy()
    np.testing.assert_allclose(loaded(new), basis(torch.from_numpy(new)).numpy(), atol=1e-6)
    assert loaded.info["method"] == "network"


def test_a_learned_sphere_extends_to_unseen_points():
    basis = fit_network(sphere(3000), 9, steps=120, resamplings=2, seed=0)
    new = sphere(1000, seed=1)
    x, y, z = new.T
    harmonics = torch.stack(
        [torch.ones_like(x), x, y, z, x * y, y * z, z * x, x * x - y * y, 3 * z * z - 1], 1
    )
    span = torch.linalg.qr(harmonics).Q
    values = basis(new)
    captured = (span.T @ values).norm(dim=0) / values.norm(
        dim=0
    )  # correlation with the analytic span
    assert float(captured.min()) >= 0.99
    target = torch.tensor([2.0] * 3 + [6.0] * 5, dtype=torch.float64)
    assert float((basis.eigenvalues[1:] / target - 1).abs().max()) < 0.05


def test_the_papers_probes_and_a_transformer_over_resamplings():
    paper = Probes(50, steps=8, k=10, sigma=(0.05, 0.3))
    settings = FitSettings(
        smoother="row",
        loss="sampled",
        probes=ProbeSettings(paper=paper, smoother={"k": 10}),
        preset="tiny",
        steps=40,
        optimisation=Optimisation(rate=3e-3),
        size=200,
        resamplings=2,
    )
    basis = fit_network(potato(400), 4, settings=settings, ritz=False)
    assert basis.info["samplings"] == 2 and not basis.info["ritz"]
    assert basis.n == 400 and float(basis.mass.sum()) == pytest.approx(1)
    torch.testing.assert_close(basis(potato(400)[:5]), basis.vectors[:5], atol=1e-5, rtol=1e-5)


def test_bad_input():
    points = potato(100)
    with pytest.raises(InputError, match="k=100 needs at least 101 points"):
        fit_network(points, 100)
    with pytest.raises(InputError, match="sampling size"):
        fit_network(points, 5, size=200)
    with pytest.raises(InputError, match="distinct points"):
        fit_network(torch.ones(30, 3), 5)
