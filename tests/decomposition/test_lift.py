"""Tests of `decomposition.lift`: from the basis of a working sample to one of all points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.decomposition.lift import _make_orthonormal
from tests import clouds as c


def test_functions_become_orthonormal_with_the_least_change(rng: np.random.Generator) -> None:
    """``V G^-1/2`` is the orthonormal system nearest to V, by the singular values of M^1/2 V."""
    mass = torch.from_numpy(rng.random(40) + 0.2)
    mass = mass / mass.sum()
    values = torch.from_numpy(np.column_stack([np.ones(40), rng.normal(size=(40, 3))]))
    found = values.clone()
    turn = _make_orthonormal(found, mass)
    torch.testing.assert_close(found.mT @ (mass[:, None] * found), torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(values @ turn, found)
    centred = mass.sqrt()[:, None] * (values[:, 1:] - mass @ values[:, 1:])
    left, _, right = torch.linalg.svd(centred, full_matrices=False)
    torch.testing.assert_close(mass.sqrt()[:, None] * found[:, 1:], left @ right)  # the polar factor


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


def test_functions_that_depend_on_each_other_stay_finite(rng: np.random.Generator) -> None:
    """Two that are equal leave a direction without a size: it is not divided by rounding."""
    one, two = rng.normal(size=(2, 40))
    values = torch.from_numpy(np.column_stack([np.ones(40), one, two, one]))
    mass = torch.full((40,), 1 / 40, dtype=torch.float64)
    found = values.clone()
    turn = _make_orthonormal(found, mass)
    assert float(turn.abs().max()) < 2e6  # 1 over the root of 1e-12 of the largest
    torch.testing.assert_close(values @ turn, found, atol=1e-6, rtol=0)
    gram = found.mT @ (mass[:, None] * found)
    shared = torch.tensor([1.0, 0, 1], dtype=torch.float64)[:, None] / 2**0.5  # what the equal ones share
    torch.testing.assert_close(shared.mT @ gram[1:, 1:] @ shared, torch.ones(1, 1, dtype=torch.float64))
