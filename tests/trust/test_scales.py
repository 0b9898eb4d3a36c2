"""Numbers at the ends of their ranges, and rows between which all distances are equal."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import InputError

TIED = {
    "binary": lambda rng: (rng.random((400, 16)) < 0.5).astype(float),
    "integer": lambda rng: rng.integers(0, 3, (400, 14)).astype(float),
    "simplex": lambda rng: np.eye(60) + 0.0,
}


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("name", TIED)
def test_a_basis_has_its_own_values_at_tied_rows(name: str) -> None:
    x = TIED[name](np.random.default_rng(0))
    basis = ep.decompose(x, k=8)
    order = np.random.default_rng(1).permutation(len(x))
    for rows in (np.arange(len(x)), order, order[:7], order[:1]):
        assert (
            np.abs(basis(x[rows]) - basis.vectors[rows]).max() < 1e-6 * np.abs(basis.vectors).max()
        )


@pytest.mark.parametrize("scale", [1e-110, 1e110])
def test_matrices_that_no_number_can_hold_are_refused(scale: float) -> None:
    x = np.random.default_rng(0).normal(size=(200, 3)) * scale
    with pytest.raises(InputError, match="change the unit"):
        ep.laplacian(x)
    assert np.isfinite(ep.decompose(x, k=4).vectors).all()


def test_single_precision_has_a_shorter_range() -> None:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)) * 1e30
    with pytest.raises(InputError, match="beyond the range"):
        ep.laplacian(x)
    stiffness, mass = ep.laplacian(x.numpy().astype(np.float64))
    assert np.isfinite(stiffness.data).all() and np.isfinite(mass.data).all() and mass.sum() > 0


def test_one_vector_by_any_estimator() -> None:
    x = np.random.default_rng(0).normal(size=(60, 3))
    for kind in ("rayleigh", "mean", "worst"):
        assert ep.decompose(x, k=1, eigenvalues=kind).eigenvalues[0] == pytest.approx(0, abs=1e-9)
