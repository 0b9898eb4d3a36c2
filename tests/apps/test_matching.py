"""Functional maps against pyFM on the same eigenpairs, and against a known map."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.apps import functional_map, map_from_points, match, point_map, zoomout
from eigenprobe.basis import Basis
from eigenprobe.errors import InputError


def permuted(basis: Basis, order: np.ndarray, signs: np.ndarray) -> Basis:
    """The same shape with its points in another order and its vectors with other signs."""
    return Basis((basis.normalized * signs)[order], basis.mass[order], basis.eigenvalues)


@pytest.fixture
def pair(basis: Basis, rng: np.random.Generator) -> tuple[Basis, Basis, np.ndarray]:
    order = rng.permutation(basis.n)
    signs = rng.choice([-1.0, 1.0], basis.k)
    signs[0] = 1.0
    return basis, permuted(basis, order, signs), order


def test_a_known_map_comes_back(pair: tuple[Basis, Basis, np.ndarray]) -> None:
    source, target, order = pair
    exact = map_from_points(source, target, order)
    np.testing.assert_allclose(np.abs(exact), np.eye(source.k), atol=1e-10)
    np.testing.assert_array_equal(point_map(exact, source, target), order)


def test_fit_recovers_a_map_from_functions(
    pair: tuple[Basis, Basis, np.ndarray], rng: np.random.Generator
) -> None:
    source, target, order = pair
    functions = source.vectors @ rng.normal(size=(source.k, 40))
    fitted = functional_map(source, target, functions, functions[order], weight=1e-6)
    np.testing.assert_allclose(fitted, map_from_points(source, target, order), atol=1e-5)


def test_fit_is_a_stationary_point_of_pyfms_energy(
    basis: Basis, other: Basis, rng: np.random.Generator
) -> None:
    """pyFM minimises the same energy by L-BFGS; its gradient vanishes at our closed form, and its
    minimiser is ours.
    """
    energies = pytest.importorskip(
        "pyFM.optimize.base_functions", reason="pyfmaps is not installed"
    )
    from scipy.optimize import fmin_l_bfgs_b

    weight, k_source, k_target, count = 0.05, 9, 11, 15
    f, g = rng.normal(size=(basis.n, count)), rng.normal(size=(other.n, count))
    ours = functional_map(basis, other, f, g, k=(k_source, k_target), weight=weight)
    a, b = basis.project(f)[:k_source], other.project(g)[:k_target]
    scale = np.linalg.norm(a, axis=0)
    top = max(basis.eigenvalues[k_source - 1], other.eigenvalues[k_target - 1])
    mask = ((other.eigenvalues[:k_target, None] - basis.eigenvalues[None, :k_source]) / top) ** 2
    arguments = (1 / count, weight, 0.0, 0.0, a / scale, b / scale, [], [], mask)
    _, gradient = energies.energy_and_grad_std(ours.ravel(), *arguments)
    assert np.abs(gradient).max() < 1e-8
    start = np.zeros(ours.size)
    start[0] = 1.0  # both keep the first column, the image of the constant
    theirs = fmin_l_bfgs_b(
        energies.energy_and_grad_std, start, args=arguments, factr=1e-2, pgtol=1e-14, maxiter=5000
    )[0]
    np.testing.assert_allclose(ours, theirs.reshape(ours.shape), atol=1e-5)


def test_conversion_and_zoomout_match_pyfm(
    basis: Basis, other: Basis, rng: np.random.Generator
) -> None:
    spectral = pytest.importorskip("pyFM.spectral", reason="pyfmaps is not installed")
    refine = pytest.importorskip("pyFM.refine")
    start = rng.integers(0, basis.n, other.n)
    ours = map_from_points(basis, other, start, k=8)
    theirs = spectral.p2p_to_FM(start, basis.vectors[:, :8], other.vectors[:, :8], A2=other.mass)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_array_equal(
        point_map(ours, basis, other), spectral.FM_to_p2p(theirs, basis.vectors, other.vectors)
    )
    refined = zoomout(ours, basis, other, k=18, step=2)
    expected = refine.zoomout_refine(
        theirs, basis.vectors, other.vectors, nit=5, step=2, A2=other.mass
    )
    np.testing.assert_allclose(refined, expected, atol=1e-5)


def test_match_with_landmarks_and_torch(pair: tuple[Basis, Basis, np.ndarray]) -> None:
    source, target, order = pair
    landmarks = np.stack([order[:4], np.arange(4)], 1)
    points, matrix = match(source, target, landmarks=landmarks, k=10)
    assert matrix.shape == (source.k, source.k)
    assert (points == order).mean() > 0.95
    tensors, _ = match(source.torch(), target.torch(), landmarks=torch.as_tensor(landmarks), k=10)
    assert isinstance(tensors, torch.Tensor)
    assert (tensors.numpy() == points).mean() > 0.99


def test_bad_input(basis: Basis, other: Basis) -> None:
    with pytest.raises(InputError, match="expected step >= 1"):
        zoomout(np.eye(4), basis, other, step=0)
    with pytest.raises(InputError, match="map sizes"):
        zoomout(np.eye(3), basis, other, k=99)
    with pytest.raises(InputError, match="for each of 260 target points"):
        map_from_points(basis, other, [1, 2])
    with pytest.raises(InputError, match=r"functions of shape \(300, m\)"):
        functional_map(basis, other, np.ones((4, 2)), np.ones((other.n, 2)))
    with pytest.raises(InputError, match="as many functions"):
        functional_map(basis, other, np.ones((basis.n, 2)), np.ones((other.n, 3)))
    with pytest.raises(InputError, match="at most"):
        point_map(np.ones((40, 40)), basis, other)
    with pytest.raises(InputError, match="landmarks"):
        match(basis, other, landmarks=[1, 2])
