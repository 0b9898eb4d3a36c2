"""Tests of `decomposition.lift`: from the basis of a working sample to one of all points."""

from __future__ import annotations

import numpy as np
import pytest

import eigenprobe as ep
from tests import clouds as c


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_a_lifted_basis_is_one_of_all_points(rng: np.random.Generator) -> None:
    x = c.random_sphere(3000, rng)
    basis = ep.decompose(x, k=9, resolution=1000)
    assert basis.n == 3000 and basis.info["resolution"] < 2000
    v, mass = basis.vectors, basis.mass
    np.testing.assert_allclose(v.T @ (mass[:, None] * v), np.eye(9), atol=1e-8)
    np.testing.assert_allclose(v[:, 0], 1, atol=1e-10)
    span = np.linalg.qr(np.sqrt(mass)[:, None] * x)[0]  # the first harmonics are the coordinates
    share = np.linalg.norm(span.T @ (np.sqrt(mass)[:, None] * v[:, 1:4]), axis=0)
    assert share.min() > 0.99
    np.testing.assert_allclose(basis(x[:20]), v[:20], atol=1e-6)
