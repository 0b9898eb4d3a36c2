"""An encoded basis at new points."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.basis import Basis


@pytest.mark.parametrize("smoother", ["adaptive", "heat"])
def test_new_points_each_on_their_own_and_in_a_file(model, clouds, smoother, tmp_path) -> None:
    points = clouds[1].numpy()
    basis = model.encode(points, k=8, smoother=smoother)
    np.testing.assert_allclose(basis(points[:30]), basis.vectors[:30], atol=1e-5)
    between = 0.5 * (points[:20] + points[20:40])
    values = basis(between)
    np.testing.assert_allclose(basis(between[3:4])[0], values[3], atol=1e-5)
    basis.save(tmp_path / "basis.safetensors")
    loaded = Basis.load(tmp_path / "basis.safetensors")
    np.testing.assert_allclose(loaded(between), values, atol=1e-5)
