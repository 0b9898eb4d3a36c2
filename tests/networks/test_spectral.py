"""Tests of `networks.spectral`."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.networks.spectral import (
    INPUTS,
    SEEDS,
    SpectralConfig,
    SpectralNetwork,
    diffusion,
    inputs,
    masses,
    orthonormal,
    place,
    trace_moments,
)
from eigenprobe.search.layout import canonical_pose


def test_the_pose_undoes_rigid_motions_and_scale(clouds, smoothers, generator):
    _, sparse = smoothers
    rotation, _ = torch.linalg.qr(torch.randn(3, 3, generator=generator))
    moved = 3 * clouds[1:] @ rotation + torch.tensor([1.0, -2.0, 0.5])
    mass = masses(sparse)[1:]
    before, after = place(clouds[1:], canonical_pose(clouds[1:], mass)), place(moved, canonical_pose(moved, mass))
    torch.testing.assert_close(before.abs(), after.abs(), atol=1e-3, rtol=0)  # an ellipsoid has no skewness to sign by
    assert (mass[..., None] * before.square()).sum() == pytest.approx(1, abs=1e-4)


def test_the_pose_is_the_documented_one(generator):
    """Centred at the mean of the mass, principal axes largest first, third moments positive, of size one."""
    x = torch.randn(3, 200, 3, generator=generator).exp() * torch.tensor([1.0, 3.0, 2.0])  # log-normal: a long tail
    x[1] = -x[1]
    mass = torch.rand(3, 200, generator=generator) + 0.1
    mass = mass / mass.sum(1, keepdim=True)
    posed = place(x, canonical_pose(x, mass))
    weight = mass[..., None]
    torch.testing.assert_close((weight * posed).sum(1), torch.zeros(3, 3), atol=1e-5, rtol=0)
    second = (weight * posed).mT @ posed
    variances = second.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(second, torch.diag_embed(variances), atol=1e-5, rtol=0)
    assert bool((variances.diff(dim=1) <= 0).all())
    torch.testing.assert_close(variances.sum(1), torch.ones(3))
    assert bool(((weight * posed**3).sum(1) > 0).all())


def test_the_seeds_are_orthonormal_and_sorted(clouds, smoothers):
    _, sparse = smoothers
    seen = inputs(clouds, sparse)
    assert seen.features.shape == (2, 600, INPUTS) and torch.isfinite(seen.features).all()
    gram = seen.seeds.mT.double() @ (masses(sparse)[..., None] * seen.seeds).double()
    assert (gram - torch.eye(SEEDS)).abs()[:, :12, :12].max() < 1e-2
    assert (masses(sparse)[..., None] * seen.seeds).sum(1).abs().max() < 1e-3, "orthogonal to the constant"


def test_merged_columns_stay_finite():
    mass = torch.full((1, 50), 1 / 50)
    x = torch.randn(1, 50, 2, generator=torch.Generator().manual_seed(0))
    found = orthonormal(torch.cat([x, x], -1), mass)
    assert torch.isfinite(found).all() and found[..., 2:].abs().max() < 1


def test_a_permutation_of_the_points_permutes_the_columns(clouds, smoothers, generator):
    order = torch.randperm(600, generator=generator)
    network = SpectralNetwork(
        SpectralConfig(outputs=12, width=32, layers=2, heads=2, feedforward=32, point=(16,))
    ).eval()
    with torch.no_grad():
        z = network(clouds[1:], diffusion(clouds[1:]))
        permuted = network(clouds[1:, order], diffusion(clouds[1:, order]))
    # Random signs estimate the traces, so times differ by a little, and with them everything.
    error = (z[:, order] - permuted).norm() / z.norm()
    assert error < 0.1


def test_polishing_is_differentiable_and_smooths(clouds, smoothers):
    _, sparse = smoothers
    config = SpectralConfig(outputs=6, width=16, layers=1, heads=1, feedforward=16, point=(8,), polish=60.0)
    network = SpectralNetwork(config)
    rough = torch.randn(2, 600, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    smooth = network.polish(rough, sparse, trace_moments(sparse))
    assert smooth.norm() < 0.7 * rough.norm()
    (gradient,) = torch.autograd.grad(smooth.square().sum(), rough)
    step = 1e-3 * gradient / gradient.norm()
    with torch.no_grad():
        change = network.polish(rough + step, sparse, trace_moments(sparse)).square().sum() - smooth.square().sum()
    assert float(change) == pytest.approx(float((gradient * step).sum()), rel=0.1)
