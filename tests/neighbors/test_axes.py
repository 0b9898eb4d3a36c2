"""Eigenpairs of many small matrices against LAPACK, degenerate ones included."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.neighbors.layout import canonical_pose, principal_axes


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
    assert (
        float(((matrices @ vectors - vectors * values[:, None]).abs().amax((1, 2)) / size).max())
        < close
    )
    assert float((vectors.mT @ vectors - torch.eye(d, dtype=dtype)).abs().max()) < close


def test_the_canonical_pose(generator):
    """Centred, on principal axes with the largest first, skew positive, of rms 1; weighted by the
    mass.
    """
    x = (
        torch.randn(6, 80, 3, generator=generator, dtype=torch.float64).exp()
        * torch.tensor([1.0, 3.0, 2.0])
        + 5
    )
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
    assert bool(
        torch.isfinite(canonical_pose(point, torch.full((1, 5), 0.2, dtype=torch.float64))).all()
    )
