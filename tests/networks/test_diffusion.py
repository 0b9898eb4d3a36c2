"""Diffusion on batches: exact where it can be, the same in both layouts, calibrated on the
sphere.
"""

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


def test_layouts_agree(smoothers, generator):
    dense, sparse = smoothers
    x = torch.randn(2, 600, 3, generator=generator)
    torch.testing.assert_close(dense.apply(x), sparse.apply(x), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(trace_moments(dense), trace_moments(sparse), atol=5e-2, rtol=1e-3)


def test_the_root_of_the_mass_is_in_the_kernel_and_the_spectrum_bounded(smoothers):
    dense, _ = smoothers
    laplacian = torch.eye(600) - dense.matrix.double()
    assert (laplacian @ masses(dense).double().sqrt()[..., None]).abs().max() < 1e-6
    values = torch.linalg.eigvalsh(laplacian)
    assert values.min() > -1e-6 and values.max() <= 1
    torch.testing.assert_close(masses(dense).sum(1), torch.ones(2))


def test_filters_are_heat_kernels_and_times_have_their_traces(smoothers, generator):
    dense, _ = smoothers
    values, vectors = torch.linalg.eigh(torch.eye(600) - dense.matrix.double())
    times = trace_times((40.0, 10.0), trace_moments(dense), filter_degrees(dense))
    trace = torch.exp(-times.double()[..., None] * values[:, None]).sum(-1)
    torch.testing.assert_close(
        trace, torch.tensor([[40.0, 10.0]] * 2, dtype=torch.float64), rtol=0.2, atol=0
    )
    x = torch.randn(2, 600, 2, generator=generator)
    exact = vectors @ (
        torch.exp(-times.double()[:, 1:] * values)[..., None] * (vectors.mT @ x.double())
    )
    found = smoother_filter(dense, x, heat_coefficients(times, filter_degrees(dense)))
    assert found.shape == (2, 2, 600, 2)
    torch.testing.assert_close(found[:, 1].double(), exact, atol=5e-3, rtol=0)
    one = smoother_filter(dense, x, heat_coefficients(times[:, 1], filter_degrees(dense)))
    torch.testing.assert_close(one, found[:, 1])
