"""Eigenpairs of many small matrices against LAPACK, degenerate ones included."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.search.layout import principal_axes


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
