"""Tests of `factory.reconstruction`."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eigenprobe.eigen import solve_each
from eigenprobe.eigen.problem import smoother_filter
from eigenprobe.networks.spectral import diffusion, inputs, masses, trace_moments
from eigenprobe_lab.factory.pretrain import PretrainModule
from eigenprobe_lab.factory.reconstruction import (
    covariance_coefficients,
    energies,
    misalignment,
    relative_errors,
)
from eigenprobe_lab.shapes.stream import ShapeStream
from tests.lab.recipes import SHAPES, TINY

LEVELS = (20.0, 6.0)


@pytest.fixture(scope="module")
def clouds() -> torch.Tensor:
    return ShapeStream(SHAPES).at(0)[:3, :100]


def test_energies_are_those_of_the_dense_covariance(clouds, generator):
    smoother = diffusion(clouds)
    moments = trace_moments(smoother)
    z = torch.randn(3, 100, 5, generator=generator, requires_grad=True)
    energy, basis = energies(z, smoother, moments, LEVELS)
    covariance = smoother_filter(
        smoother,
        torch.eye(100).expand(3, 100, 100),
        covariance_coefficients(smoother, moments, LEVELS),
    )
    root = masses(smoother).sqrt()[..., None]

    def brute(z: torch.Tensor) -> torch.Tensor:
        q, _ = torch.linalg.qr(torch.cat([root, root * z], -1).double())
        return q.mT @ covariance.double() @ q

    exact = brute(z)
    torch.testing.assert_close(
        energy.diagonal(dim1=1, dim2=2), exact.diagonal(dim1=1, dim2=2), atol=1e-5, rtol=1e-4
    )
    weights = torch.arange(1.0, 7.0, dtype=torch.float64)
    (found,) = torch.autograd.grad((relative_errors(energy) * weights).sum(), z, retain_graph=True)
    (expected,) = torch.autograd.grad(
        ((1 - exact.diagonal(dim1=1, dim2=2).cumsum(-1)) * weights).sum(), z
    )
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-2)
    assert torch.isfinite(torch.autograd.grad(misalignment(energy, basis).sum(), z)[0]).all()


def test_the_closed_form_has_the_least_loss_and_no_misalignment(clouds, generator):
    smoother = diffusion(clouds)
    moments = trace_moments(smoother)
    vectors, gaps, *_ = solve_each(smoother, 8, generator=generator)
    assert (gaps.diff(dim=-1) > -1e-6).all()
    best = vectors[..., 1:] / masses(smoother).sqrt()[..., None]
    energy, basis = energies(best.float(), smoother, moments, LEVELS)
    assert misalignment(energy, basis).max() < 0.02
    for _ in range(3):
        other = best + 0.3 * torch.randn(best.shape, generator=generator)
        worse, turned = energies(other.float(), smoother, moments, LEVELS)
        assert (relative_errors(worse) > relative_errors(energy) - 1e-6).all()
        assert misalignment(worse, turned).mean() > misalignment(energy, basis).mean()


def test_the_loss_falls(generator):
    settings = replace(TINY, schedule=replace(TINY.schedule, steps=100), alignment=0.0)
    module = PretrainModule(settings)
    optimiser = module.configure_optimizers()
    clouds = ShapeStream(SHAPES).at(0)
    smoother = diffusion(clouds)
    seen = inputs(clouds, smoother)
    losses = []
    for _ in range(25):
        energy, _ = energies(module.columns(seen, smoother), smoother, seen.moments, LEVELS)
        loss = relative_errors(energy).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert min(losses[-5:]) < losses[0]
