"""Diffusion on batches: exact where it can be, calibrated on the sphere."""

from __future__ import annotations

import torch

from eigenprobe.eigen.problem import smoother_filter
from eigenprobe.networks.spectral import (
    filter_degrees,
    heat_coefficients,
    masses,
    trace_moments,
    trace_times,
)


def blocks(smoother):
    """The matrices `(2, n, n)` of two stacked clouds."""
    whole = smoother.matrix.to_dense().double()
    return torch.stack([whole[:600, :600], whole[600:, 600:]])


def test_the_root_of_the_mass_is_in_the_kernel_and_the_spectrum_bounded(smoother):
    laplacian = torch.eye(600) - blocks(smoother)
    assert (laplacian @ masses(smoother).double().sqrt()[..., None]).abs().max() < 1e-6
    values = torch.linalg.eigvalsh(laplacian)
    assert values.min() > -1e-6 and values.max() <= 1
    torch.testing.assert_close(masses(smoother).sum(1), torch.ones(2))


def test_filters_are_heat_kernels_and_times_have_their_traces(smoother, generator):
    values, vectors = torch.linalg.eigh(torch.eye(600) - blocks(smoother))
    times = trace_times((40.0, 10.0), trace_moments(smoother), filter_degrees(smoother))
    trace = torch.exp(-times.double()[..., None] * values[:, None]).sum(-1)
    torch.testing.assert_close(
        trace, torch.tensor([[40.0, 10.0]] * 2, dtype=torch.float64), rtol=0.2, atol=0
    )
    x = torch.randn(2, 600, 2, generator=generator)
    exact = vectors @ (
        torch.exp(-times.double()[:, 1:] * values)[..., None] * (vectors.mT @ x.double())
    )
    found = smoother_filter(smoother, x, heat_coefficients(times, filter_degrees(smoother)))
    assert found.shape == (2, 2, 600, 2)
    torch.testing.assert_close(found[:, 1].double(), exact, atol=5e-3, rtol=0)
    one = smoother_filter(smoother, x, heat_coefficients(times[:, 1], filter_degrees(smoother)))
    torch.testing.assert_close(one, found[:, 1])
