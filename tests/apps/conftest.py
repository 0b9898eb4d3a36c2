"""Bases with known eigenpairs for the applications: no decomposition is run here."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.basis import Basis


def orthonormal_basis(rng: np.random.Generator, n: int = 300, k: int = 24) -> Basis:
    """Random mass, random M-orthonormal vectors whose first is constant, eigenvalues 0 < ...
    rising.
    """
    mass = rng.uniform(0.5, 2.0, n)
    mass /= mass.sum()
    start = np.column_stack([np.sqrt(mass), rng.normal(size=(n, k - 1))])
    normalized = np.linalg.qr(start)[0]
    normalized *= np.sign(normalized[0, 0])
    eigenvalues = np.concatenate([[0.0], np.sort(rng.uniform(1.0, 60.0, k - 1))])
    return Basis(normalized, mass, eigenvalues, rng.normal(size=(n, 3)))


@pytest.fixture
def basis(rng: np.random.Generator) -> Basis:
    return orthonormal_basis(rng)


@pytest.fixture
def other(rng: np.random.Generator) -> Basis:
    return orthonormal_basis(np.random.default_rng(7), n=260)
