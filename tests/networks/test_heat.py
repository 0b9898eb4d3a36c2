"""The batched heat operator: exact where it can be, the same in both layouts, calibrated on the sphere."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.graph.batched import nearest
from eigenprobe.graph.farthest import farthest_points
from eigenprobe.networks.heat import heat_coefficients, heat_operator
from eigenprobe.networks.spectral import (
    INPUTS,
    SEEDS,
    SpectralConfig,
    SpectralNetwork,
    canonical_pose,
    inputs,
    orthonormal,
    place,
)
from eigenprobe.pretrained.validation import closed_form


@pytest.fixture(scope="module")
def clouds() -> torch.Tensor:
    x = torch.nn.functional.normalize(torch.randn(2, 2400, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    x = x * torch.tensor([[[1.0, 1.0, 1.0]], [[1.5, 0.8, 0.6]]])
    return x.gather(1, farthest_points(x, 600, start=0)[..., None].expand(-1, -1, 3))


@pytest.fixture(scope="module")
def operators(clouds):
    near = nearest(clouds, 12)
    return heat_operator(*near, dense=True), heat_operator(*near, dense=False)


def test_layouts_agree(operators, generator):
    dense, sparse = operators
    x = torch.randn(2, 600, 3, generator=generator)
    torch.testing.assert_close(dense.apply(x), sparse.apply(x), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(dense.moments(), sparse.moments(), atol=5e-2, rtol=1e-3)


def test_the_root_of_the_mass_is_in_the_kernel_and_the_spectrum_bounded(operators):
    dense, _ = operators
    laplacian = 0.5 * (dense.matrix.double() + torch.eye(600))
    assert (laplacian @ dense.mass.double().sqrt()[..., None]).abs().max() < 1e-6
    values = torch.linalg.eigvalsh(laplacian)
    assert values.min() > -1e-6 and values.max() <= 1
    torch.testing.assert_close(dense.mass.sum(1), torch.ones(2))


def test_the_sphere_has_its_eigenvalues(operators):
    _, sparse = operators
    _, values = closed_form(sparse, 9)
    found = values[0] * sparse.bound[0] / sparse.unit[0] ** 2
    expected = torch.tensor([0.0] + [2.0] * 3 + [6.0] * 5, dtype=torch.float64)
    torch.testing.assert_close(found, expected, atol=0.35, rtol=0)


def test_filters_are_heat_kernels_and_times_have_their_traces(operators, generator):
    dense, _ = operators
    values, vectors = torch.linalg.eigh(0.5 * (dense.matrix.double() + torch.eye(600)))
    times = dense.times((40.0, 10.0), dense.moments())
    trace = torch.exp(-times.double()[..., None] * values[:, None]).sum(-1)
    torch.testing.assert_close(trace, torch.tensor([[40.0, 10.0]] * 2, dtype=torch.float64), rtol=0.2, atol=0)
    x = torch.randn(2, 600, 2, generator=generator)
    exact = vectors @ (torch.exp(-times.double()[:, 1:] * values)[..., None] * (vectors.mT @ x.double()))
    found = dense.filter(x, heat_coefficients(times, dense.degree))
    assert found.shape == (2, 2, 600, 2)
    torch.testing.assert_close(found[:, 1].double(), exact, atol=5e-3, rtol=0)
    torch.testing.assert_close(dense.filter(x, heat_coefficients(times[:, 1], dense.degree)), found[:, 1])


def test_the_pose_undoes_rigid_motions_and_scale(clouds, operators, generator):
    _, sparse = operators
    rotation, _ = torch.linalg.qr(torch.randn(3, 3, generator=generator))
    moved = 3 * clouds[1:] @ rotation + torch.tensor([1.0, -2.0, 0.5])
    mass = sparse.mass[1:]
    before, after = place(clouds[1:], canonical_pose(clouds[1:], mass)), place(moved, canonical_pose(moved, mass))
    torch.testing.assert_close(before.abs(), after.abs(), atol=1e-3, rtol=0)  # an ellipsoid has no skewness to sign by
    assert (mass[..., None] * before.square()).sum() == pytest.approx(1, abs=1e-4)


def test_the_crude_basis_is_orthonormal_and_sorted(clouds, operators):
    _, sparse = operators
    seen = inputs(clouds, sparse)
    assert seen.features.shape == (2, 600, INPUTS) and torch.isfinite(seen.features).all()
    gram = seen.crude.mT.double() @ (sparse.mass[..., None] * seen.crude).double()
    assert (gram - torch.eye(SEEDS)).abs()[:, :12, :12].max() < 1e-2
    assert (sparse.mass[..., None] * seen.crude).sum(1).abs().max() < 1e-3, "orthogonal to the constant"


def test_merged_columns_stay_finite():
    mass = torch.full((1, 50), 1 / 50)
    x = torch.randn(1, 50, 2, generator=torch.Generator().manual_seed(0))
    found = orthonormal(torch.cat([x, x], -1), mass)
    assert torch.isfinite(found).all() and found[..., 2:].abs().max() < 1


def test_a_permutation_of_the_points_permutes_the_columns(clouds, operators, generator):
    order = torch.randperm(600, generator=generator)
    network = SpectralNetwork(
        SpectralConfig(outputs=12, width=32, layers=2, heads=2, feedforward=32, point=(16,))
    ).eval()
    with torch.no_grad():
        z = network(clouds[1:], heat_operator(*nearest(clouds[1:], 12), dense=False))
        permuted = network(clouds[1:, order], heat_operator(*nearest(clouds[1:, order], 12), dense=False))
    # Random signs estimate the traces, so times differ by a little, and with them everything.
    error = (z[:, order] - permuted).norm() / z.norm()
    assert error < 0.1


def test_polishing_is_differentiable_and_smooths(clouds, operators):
    _, sparse = operators
    config = SpectralConfig(outputs=6, width=16, layers=1, heads=1, feedforward=16, point=(8,), polish=60.0)
    network = SpectralNetwork(config)
    rough = torch.randn(2, 600, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    smooth = network.polish(rough, sparse, sparse.moments())
    assert smooth.norm() < 0.7 * rough.norm()
    (gradient,) = torch.autograd.grad(smooth.square().sum(), rough)
    step = 1e-3 * gradient / gradient.norm()
    with torch.no_grad():
        change = network.polish(rough + step, sparse, sparse.moments()).square().sum() - smooth.square().sum()
    assert float(change) == pytest.approx(float((gradient * step).sum()), rel=0.1)
