"""A transform for PyTorch Geometric, with the real package."""

from __future__ import annotations

import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import InputError
from tests.clouds import fibonacci_sphere

pyg = pytest.importorskip("torch_geometric", reason="pip install 'eigenprobe[pyg]'")


def data(n: int, scale: float = 1.0) -> object:
    return pyg.data.Data(pos=scale * torch.as_tensor(fibonacci_sphere(n), dtype=torch.float32))


def test_a_cloud_gets_its_basis() -> None:
    transform = pyg.transforms.Compose(
        [pyg.transforms.NormalizeScale(), ep.interop.SpectralBasis(k=9)]
    )
    given = data(300)
    result = transform(given)
    assert (
        "spectral" not in given
        and result.spectral.shape == (300, 9)
        and result.spectral.dtype == torch.float32
    )
    gram = result.spectral.T @ (result.spectral_mass[:, None] * result.spectral)
    assert torch.allclose(gram, torch.eye(9), atol=1e-4)
    assert torch.allclose(result.spectral[:, 0], torch.ones(300), atol=1e-4)
    basis = ep.decompose(result.pos, k=9)
    assert torch.allclose(result.spectral, basis.vectors) and torch.equal(
        result.spectral_eigenvalues[0], basis.eigenvalues
    )


def test_batches_before_and_after() -> None:
    transform = ep.interop.SpectralBasis(k=4)
    parts = [data(150), data(200, 2.0)]
    after = pyg.data.Batch.from_data_list([transform(part) for part in parts])
    before = transform(pyg.data.Batch.from_data_list(parts))
    assert after.spectral.shape == (350, 4) and after.spectral_eigenvalues.shape == (2, 4)
    assert torch.allclose(before.spectral, after.spectral) and torch.allclose(
        before.spectral_mass, after.spectral_mass
    )
    assert float(after.spectral_eigenvalues[1, 1]) == pytest.approx(0.5, rel=0.05)


def test_without_positions() -> None:
    with pytest.raises(InputError, match=r"needs data.pos, got Data\(x="):
        ep.interop.SpectralBasis()(pyg.data.Data(x=torch.zeros(3, 3)))
