"""Eigenpairs of many small matrices against LAPACK, degenerate ones included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.search.layout import _outermost, canonical_pose, principal_axes


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_against_lapack(d, dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((5000, d, d), generator=generator, dtype=dtype)
    matrices = x @ x.mT
    matrices[:10], matrices[10:20] = torch.eye(d, dtype=dtype), 0
    matrices[20:30] *= 1e-20
    matrices[30:40] = x[30:40, :, :1] @ x[30:40, :, :1].mT
    values, vectors = principal_axes(matrices)
    size = matrices.abs().amax((1, 2)).clamp_min(1e-30)
    close = 30 * torch.finfo(dtype).eps
    assert float(((values - torch.linalg.eigvalsh(matrices)).abs().amax(1) / size).max()) < close
    assert float(((matrices @ vectors - vectors * values[:, None]).abs().amax((1, 2)) / size).max()) < close
    assert float((vectors.mT @ vectors - torch.eye(d, dtype=dtype)).abs().max()) < close


def test_a_device_solves_many_matrices_in_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuSOLVER takes half a MiB for each: 5 GiB for a cloud of ten thousand points."""
    monkeypatch.setattr(torch.linalg, "eigh", lambda _: pytest.fail("one by one"))
    values, vectors = principal_axes(torch.empty((1000, 3, 3), dtype=torch.float64, device="meta"))
    assert values.shape == (1000, 3) and vectors.shape == (1000, 3, 3)


def test_the_canonical_pose(generator):
    """Centred, on principal axes with the largest first, skew positive, of rms 1; weighted by the mass."""
    x = torch.randn(6, 80, 3, generator=generator, dtype=torch.float64).exp() * torch.tensor([1.0, 3.0, 2.0]) + 5
    mass = torch.rand(6, 80, generator=generator, dtype=torch.float64)
    mass[:, 70:] = 0
    mass = mass / mass.sum(1, keepdim=True)
    for sign in (1, -1):  # a mirrored cloud has its skew turned round
        given = sign * x
        y = torch.cat([given, torch.ones(6, 80, 1)], 2).double() @ canonical_pose(given, mass)
        weight = mass[..., None]
        assert float((weight * y).sum(1).abs().max()) < 1e-12
        covariance = (weight * y).mT @ y
        variances = covariance.diagonal(dim1=1, dim2=2)
        assert float((covariance - torch.diag_embed(variances)).abs().max()) < 1e-12
        torch.testing.assert_close(variances.sum(1), torch.ones(6, dtype=torch.float64))
        assert bool((variances.diff(dim=1) <= 0).all()) and bool(((weight * y**3).sum(1) > 0).all())
        distances = torch.cdist(y, y) / torch.cdist(given, given).clamp_min(1e-300)  # one scale
        assert float((distances[:, 0, 1:] / distances[:, :1, 1] - 1).abs().max()) < 1e-9
    point = torch.ones(1, 5, 3, dtype=torch.float64)
    assert bool(torch.isfinite(canonical_pose(point, torch.full((1, 5), 0.2, dtype=torch.float64))).all())


@pytest.mark.parametrize("values", [(1.0, 1.0, 0.0), (0.0, 0.0, 1.0), (3.0, 3.0, 2.9)])
def test_two_equal_eigenvalues_leave_the_third_axis(values: tuple[float, ...], rng: np.random.Generator) -> None:
    """The cosine of three times the angle is then 1 or -1 but for rounding, which must not leave its range."""
    turn = np.linalg.qr(rng.normal(size=(3000, 3, 3)))[0]
    a = torch.from_numpy(turn * np.array(values) @ turn.transpose(0, 2, 1)).permute(1, 2, 0).contiguous()
    vector, largest = _outermost(a)
    assert bool(torch.isfinite(vector).all())
    cosine = (vector.T * torch.from_numpy(turn[:, :, 2])).sum(1).abs()
    assert float(cosine.min()) > 1 - 1e-6
    assert bool((largest == (values[2] > values[0])).all())


@pytest.mark.parametrize("d", [2, 3, 4])
def test_small_matrices_need_no_lapack(d: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of two and three rows are solved in closed form, whatever their number; others one after the other."""
    half = torch.from_numpy(rng.normal(size=(50, 6, d)))
    matrices = half.mT @ half
    expected, called = torch.linalg.eigh(matrices), []
    real = torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda part: called.append(len(part)) or real(part))
    values, vectors = principal_axes(matrices)
    assert called == ([50] if d == 4 else [])
    torch.testing.assert_close(values, expected[0])
    torch.testing.assert_close((vectors * expected[1]).sum(1).abs(), torch.ones(50, d, dtype=torch.float64))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_pose_is_that_of_any_unit(scale: float, rng: np.random.Generator) -> None:
    """Centred, of root mean square one, on axes of descending variance with positive skew."""
    x = torch.from_numpy(scale * (rng.normal(size=(2, 50, 3)) ** 3 * [3.0, 2.0, 1.0] + 5))
    mass = torch.from_numpy(rng.random((2, 50)))
    mass = mass / mass.sum(1, keepdim=True)
    pose = canonical_pose(x, mass)
    local = x @ pose[:, :3] + pose[:, 3:]
    weight = mass[..., None]
    torch.testing.assert_close((weight * local).sum(1), torch.zeros(2, 3, dtype=x.dtype), atol=1e-8, rtol=0)
    moments = (weight * local).mT @ local
    torch.testing.assert_close(moments.diagonal(dim1=1, dim2=2).sum(1), torch.ones(2, dtype=x.dtype))
    torch.testing.assert_close(moments, torch.diag_embed(moments.diagonal(dim1=1, dim2=2)), atol=1e-8, rtol=0)
    assert bool((moments.diagonal(dim1=1, dim2=2).diff(dim=1) < 0).all())
    assert bool(((weight * local**3).sum(1) > 0).all())
