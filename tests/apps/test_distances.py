"""Spectral distances from sources against dense n x n formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.apps import distance, heat_kernel, spectral_embedding
from eigenprobe.basis import Basis
from eigenprobe.errors import InputError


def dense(basis: Basis, gain: np.ndarray) -> np.ndarray:
    """All pairs, from the kernel G = V diag(gain) V^T: d^2 = G_xx + G_yy - 2 G_xy."""
    kernel = basis.vectors @ np.diag(gain) @ basis.vectors.T
    diagonal = np.diag(kernel)
    return np.sqrt(np.maximum(diagonal[:, None] + diagonal[None] - 2 * kernel, 0))


@pytest.mark.parametrize("kind", ["diffusion", "commute", "biharmonic"])
def test_distances_match_the_dense_formula(basis: Basis, kind: str) -> None:
    values = basis.eigenvalues
    with np.errstate(divide="ignore"):
        gain = {
            "diffusion": np.exp(-2 * 0.05 * values),
            "commute": 1 / values,
            "biharmonic": 1 / values**2,
        }[kind]
    if kind != "diffusion":
        gain[0] = 0
    time = 0.05 if kind == "diffusion" else None
    expected = dense(basis, gain)
    np.testing.assert_allclose(
        distance(basis, [5, 9], kind, time=time), expected[:, [5, 9]], atol=1e-6
    )
    np.testing.assert_allclose(distance(basis, 5, kind, time=time), expected[:, 5], atol=1e-6)


def test_diffusion_distance_is_the_distance_of_heat_kernels(basis: Basis) -> None:
    kernels = [heat_kernel(basis, i, 0.04) for i in (2, 8)]
    expected = np.sqrt((basis.mass * (kernels[0] - kernels[1]) ** 2).sum())
    np.testing.assert_allclose(distance(basis, 2, "diffusion", time=0.04)[8], expected, rtol=1e-9)


def test_without_a_time_the_first_mode_has_decayed_by_half(basis: Basis) -> None:
    time = np.log(2) / basis.eigenvalues[1]
    np.testing.assert_allclose(
        distance(basis, 2, "diffusion"), distance(basis, 2, "diffusion", time=time)
    )
    embedding = spectral_embedding(basis, "diffusion")
    np.testing.assert_allclose(embedding[:, 1], basis.vectors[:, 1] / 2)


def test_a_metric(basis: Basis) -> None:
    d = distance(basis, np.arange(60), "biharmonic")[:60]
    np.testing.assert_allclose(d, d.T, atol=1e-12)
    assert np.all(np.diag(d) == 0)
    assert np.all(d[:, None, :] <= d[:, :, None] + d[None, :, :].transpose(0, 2, 1) + 1e-9)


def test_types_and_shapes(basis: Basis) -> None:
    assert distance(basis, 3).shape == (basis.n,)
    assert distance(basis, np.int64(3)).shape == (basis.n,)
    assert distance(basis, [3]).shape == (basis.n, 1)
    tensor = distance(basis.torch(), torch.tensor([1, 2]), "commute")
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), distance(basis, [1, 2], "commute"), rtol=1e-12)
    assert spectral_embedding(basis, "commute").shape == (basis.n, basis.k - 1)


def test_bad_input(basis: Basis) -> None:
    with pytest.raises(
        InputError, match="kind must be 'diffusion' or 'commute' or 'biharmonic', got 'geodesic'"
    ):
        distance(basis, 0, "geodesic")
    with pytest.raises(InputError, match="only the diffusion distance has a time"):
        distance(basis, 0, "commute", time=1.0)
    for wrong in (-1, basis.n, [[1, 2]], 1.0, [0.5], [True], "a", []):
        with pytest.raises(InputError, match="expected point indices"):
            distance(basis, wrong)
    with pytest.raises(InputError, match=">= 0"):
        distance(basis, 0, "diffusion", time=-1.0)
