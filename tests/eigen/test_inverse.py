"""Shift-and-invert: repeated eigenvalues, spacings of all sizes and shifted factors, against LAPACK
and known spectra.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from scipy.sparse import block_diag, csr_array, diags_array

import eigenprobe as ep
from eigenprobe.eigen import smallest_pairs, solve
from eigenprobe.eigen.problem import SparseOperator
from eigenprobe.neighbors.graph import Edges
from eigenprobe.smoothers import Smoother, build_smoother, laplacian_smoother
from tests import clouds as c


def path(n: int, ring: bool = False) -> csr_array:
    """The Laplacian of a path or a ring."""
    off = np.ones(n - 1)
    weights = diags_array([off, off], offsets=[-1, 1]).tolil()
    if ring:
        weights[0, n - 1] = weights[n - 1, 0] = 1
    weights = weights.tocsr()
    return csr_array(diags_array(np.asarray(weights.sum(1)).ravel()) - weights)


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_pairs_are_lapacks(n: int, ring: bool, unit: float) -> None:
    laplacian, known = unit * path(n, ring), np.full((n, 1), n**-0.5)
    exact = np.linalg.eigvalsh(laplacian.toarray())
    for k, pole in (
        (6, -1e-9 * unit),
        (6, float(exact[3:5].mean())),
        (20, float(exact[9:11].mean())),
    ):
        values, found = smallest_pairs(laplacian, k, pole=pole, known=known)
        np.testing.assert_allclose(values, exact[1 : k + 1], rtol=1e-6)
        np.testing.assert_allclose(found.T @ found, np.eye(k), atol=1e-8)
        np.testing.assert_allclose(laplacian @ found, found * values, atol=1e-7 * unit)
        np.testing.assert_allclose(known.T @ found, 0, atol=1e-8)
    values, _ = smallest_pairs(laplacian, 4, pole=-1e-6 * unit)  # nothing known: from zero on
    np.testing.assert_allclose(values, exact[:4].clip(0), rtol=1e-6, atol=1e-12 * unit)


@pytest.mark.parametrize("copies", [3, 5, 8])
@pytest.mark.parametrize("amid", [False, True])
def test_more_copies_of_an_eigenvalue_than_a_block_has_columns(copies: int, amid: bool) -> None:
    matrix = csr_array(block_diag([path(150)] * copies + [2.5 * path(150)]))
    exact = np.linalg.eigvalsh(matrix.toarray()).clip(0)
    for k in (copies + 1, 2 * copies + 3):
        pole = float(exact[k // 2] + 1e-4) if amid else -1e-7
        values, found = smallest_pairs(matrix, k, pole=pole)
        np.testing.assert_allclose(values, exact[:k], rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(found.T @ found, np.eye(k), atol=1e-8)


def test_a_space_that_holds_all_it_can_reach_goes_on() -> None:
    """Three eigenvalues only: a Krylov space of a block ends after nine dimensions."""
    matrix = csr_array(diags_array(np.repeat([1.0, 2.0, 5.0], 60)))
    values, found = smallest_pairs(matrix, 12, pole=-0.01)
    np.testing.assert_allclose(values, 1.0)
    np.testing.assert_allclose(found.T @ found, np.eye(12), atol=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_line_with_spacings_of_all_sizes(seed: int) -> None:
    """Points at t^3: gaps of 1e-21 and less, without a warning."""
    t = np.sort(np.random.default_rng(seed).random(2000)) ** 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        basis = ep.decompose(t[:, None], k=8, dimension=1)
    length = np.ptp(t)
    exact = (np.pi * np.arange(8) / length) ** 2
    np.testing.assert_allclose(basis.eigenvalues, exact, rtol=0.02, atol=1e-3)


def test_many_vectors_of_a_surface(rng: np.random.Generator) -> None:
    smoother = build_smoother(torch.from_numpy(c.random_sphere(1200, rng)))
    operator = SparseOperator(smoother.matrix, None, smoother.degree)
    exact = torch.linalg.eigvalsh(operator.laplacian().to_dense())
    for k in (20, 60, 140):
        pairs = solve(smoother, k)
        assert pairs.solver == "inverse"
        torch.testing.assert_close(pairs.gaps[1:], exact[1:k], rtol=1e-7, atol=0)


def ring(n: int, rng: np.random.Generator, spread: float) -> Smoother:
    """A ring whose masses differ by a factor ``spread``: the gaps are about as much smaller."""
    head, tail = torch.arange(n), torch.roll(torch.arange(n), -1)
    edges = Edges(torch.minimum(head, tail), torch.maximum(head, tail), n)
    mass = torch.from_numpy(np.where(rng.random(n) < 0.1, spread, 1.0))
    return laplacian_smoother(edges, torch.from_numpy(rng.random(n) + 0.5), mass, None, 1.0)


@pytest.mark.parametrize("spread", [1.0, 1e4, 1e8])
def test_gaps_of_masses_that_differ_by_decades(spread: float, rng: np.random.Generator) -> None:
    """Far below the residual of other solvers they are those of LAPACK."""
    smoother = ring(400, rng, spread)
    gap = SparseOperator(smoother.matrix, None, smoother.degree).laplacian().to_dense()
    exact = torch.linalg.eigvalsh(gap)
    for k in (1, 2, 6):
        found = solve(smoother, k)
        assert float(found.gaps[0]) == 0
        tolerance = 1e-3 if spread > 1e6 else 1e-6
        torch.testing.assert_close(found.gaps[1:], exact[1:k], rtol=tolerance, atol=0)
        q = found.vectors
        torch.testing.assert_close(q.T @ q, torch.eye(k).double(), atol=1e-9, rtol=0)
        root = smoother.mass.double().sqrt()
        assert float((q[:, 0] @ root).abs()) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("pole", [1e-7, 1e-6])
def test_a_null_vector_that_nobody_gave(pole: float, rng: np.random.Generator) -> None:
    """Its value of the inverse is thousands of times the others: a second projection is needed."""
    stiffness, mass = ep.laplacian(rng.normal(size=(500, 3)), resolution="all")
    root = diags_array(mass.diagonal() ** -0.5)
    laplacian = csr_array(root @ stiffness @ root)
    scale = float(laplacian.diagonal().max())
    values, vectors = smallest_pairs(laplacian, 50, pole=-pole * scale)
    np.testing.assert_allclose(
        values[1:], np.linalg.eigvalsh(laplacian.toarray())[1:50], rtol=1e-7, atol=0
    )
    assert np.linalg.norm(laplacian @ vectors - vectors * values, axis=0).max() < 1e-8 * scale
