"""Tests of `networks.spectral`."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.neighbors.layout import canonical_pose
from eigenprobe.networks.spectral import (
    INPUTS,
    SEEDS,
    SpectralConfig,
    SpectralNetwork,
    diffusion,
    inputs,
    masses,
    place,
    trace_moments,
)


def test_the_pose_undoes_rigid_motions_and_scale(clouds, smoother, generator):
    rotation, _ = torch.linalg.qr(torch.randn(3, 3, generator=generator))
    moved = 3 * clouds[1:] @ rotation + torch.tensor([1.0, -2.0, 0.5])
    mass = masses(smoother)[1:]
    before, after = (
        place(clouds[1:], canonical_pose(clouds[1:], mass)),
        place(moved, canonical_pose(moved, mass)),
    )
    torch.testing.assert_close(
        before.abs(), after.abs(), atol=1e-3, rtol=0
    )  # an ellipsoid has no skewness to sign by
    assert (mass[..., None] * before.square()).sum() == pytest.approx(1, abs=1e-4)


def test_the_seeds_are_orthonormal_and_sorted(clouds, smoother):
    seen = inputs(clouds, smoother)
    assert seen.features.shape == (2, 600, INPUTS) and torch.isfinite(seen.features).all()
    gram = seen.seeds.mT.double() @ (masses(smoother)[..., None] * seen.seeds).double()
    assert (gram - torch.eye(SEEDS)).abs()[:, :12, :12].max() < 1e-2
    assert (masses(smoother)[..., None] * seen.seeds).sum(1).abs().max() < 1e-3, (
        "orthogonal to the constant"
    )


def test_a_permutation_of_the_points_permutes_the_columns(clouds, smoother, generator):
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


def test_polishing_is_differentiable_and_smooths(clouds, smoother):
    config = SpectralConfig(
        outputs=6, width=16, layers=1, heads=1, feedforward=16, point=(8,), polish=60.0
    )
    network = SpectralNetwork(config)
    rough = torch.randn(2, 600, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    smooth = network.polish(rough, smoother, trace_moments(smoother))
    assert smooth.norm() < 0.7 * rough.norm()
    (gradient,) = torch.autograd.grad(smooth.square().sum(), rough)
    step = 1e-3 * gradient / gradient.norm()
    with torch.no_grad():
        change = (
            network.polish(rough + step, smoother, trace_moments(smoother)).square().sum()
            - smooth.square().sum()
        )
    assert float(change) == pytest.approx(float((gradient * step).sum()), rel=0.1)
