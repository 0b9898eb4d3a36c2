"""Tests of `extensions.pretrained`."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.basis import Basis


@pytest.mark.parametrize("refine", [0, 1])
@pytest.mark.parametrize("smoother", ["adaptive", "heat"])
def test_new_points_each_on_their_own_and_fitted_values_at_fitted_points(model, clouds, smoother, refine):
    points = clouds[1].numpy()
    basis = model.encode(points, k=8, refine=refine, smoother=smoother)
    np.testing.assert_allclose(basis(points[:30]), basis.vectors[:30], atol=2e-4)
    between = 0.5 * (points[:20] + points[20:40])
    values = basis(between)
    np.testing.assert_allclose(basis(between[3:4])[0], values[3], atol=1e-5)
    assert np.isfinite(values).all()


def test_a_saved_basis_finds_its_model_again(model, clouds, tmp_path):
    basis = model.encode(clouds[0].numpy(), k=6)
    basis.save(tmp_path / "basis.safetensors")
    assert (tmp_path / "basis.safetensors").stat().st_size < 200_000, "weights are not copied into every basis"
    loaded = Basis.load(tmp_path / "basis.safetensors")
    new = clouds[0].numpy()[:5] + 0.01
    np.testing.assert_allclose(loaded(new), basis(new), atol=1e-4)


def test_the_network_of_a_saved_basis_has_no_derivatives(model, clouds, tmp_path):
    basis = model.encode(clouds[0], k=5)
    basis.save(path := tmp_path / "b.safetensors")
    network = Basis.load(path).extension.network
    assert not network.training and not any(each.requires_grad for each in network.parameters())
