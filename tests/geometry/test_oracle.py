"""The cotangent oracle against known spectra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.geometry import oracle
from eigenprobe.geometry.oracle import cotangent, point_cloud, smallest_eigenpairs
from tests.meshes import blob, sphere, tetrahedron


def test_the_sphere_has_l_times_l_plus_one() -> None:
    basis = oracle(*sphere(16), 16)
    exact = np.repeat([0, 2, 6, 12], [1, 3, 5, 7])
    assert np.allclose(basis.eigenvalues, exact, rtol=0.02, atol=1e-8)
    assert basis.info["area"] == pytest.approx(4 * np.pi, rel=0.01)


def test_no_copy_of_a_repeated_eigenvalue_is_missed() -> None:
    """The grid Laplacian of a torus of squares has eigenvalues of multiplicity up to eight."""
    n = 24
    ring = scipy.sparse.diags_array(
        [2.0, -1, -1, -1, -1], offsets=[0, 1, -1, n - 1, 1 - n], shape=(n, n)
    )
    stiffness = scipy.sparse.kronsum(ring, ring, format="csc")
    exact = np.sort(np.add.outer(*2 * [2 - 2 * np.cos(2 * np.pi * np.arange(n) / n)]).ravel())
    for k in (5, 12, 21, 33, 50):
        values, vectors = smallest_eigenpairs(stiffness, np.ones(n * n), k)
        assert np.allclose(values, exact[:k], atol=1e-8)
        assert np.allclose(vectors.T @ vectors, np.eye(k), atol=1e-8)
        assert np.allclose(stiffness @ vectors, vectors * values, atol=1e-6)


def test_the_basis_is_orthonormal_in_its_mass() -> None:
    basis = oracle(*blob(8), 12)
    assert basis.mass.sum() == pytest.approx(1)
    gram = basis.vectors.T @ (basis.mass[:, None] * basis.vectors)
    assert np.allclose(gram, np.eye(12), atol=1e-9)
    assert np.allclose(basis.vectors[:, 0], 1)
    assert (np.diff(basis.eigenvalues) >= 0).all()
    stiffness, mass = cotangent(*blob(8))
    residual = stiffness @ basis.vectors - mass[:, None] * basis.vectors * basis.eigenvalues
    assert np.abs(residual).max() < 1e-8


def test_eigenvalues_scale_as_length_to_the_minus_two() -> None:
    vertices, faces = blob(6)
    small, large = (oracle(vertices, faces, 8), oracle(vertices * 50, faces, 8))
    assert np.allclose(large.eigenvalues * 2500, small.eigenvalues, rtol=1e-8, atol=1e-9)
    assert np.allclose(large.vectors, small.vectors, atol=1e-6)


def test_small_meshes_and_all_vectors() -> None:
    assert oracle(*tetrahedron(), 3).k == 3
    with pytest.raises(InputError, match="1 to 3 vectors, got k=4"):
        oracle(*tetrahedron(), 4)
    with pytest.raises(InputError, match="1 of 5 do not"):
        oracle(np.concatenate([tetrahedron()[0], [[1.0, 1, 1]]]), tetrahedron()[1], 2)
    with pytest.raises(InputError, match="kind must be"):
        oracle(*tetrahedron(), 2, kind="magic")


def test_a_bad_mesh_falls_back_to_the_robust_laplacian() -> None:
    vertices, faces = sphere(6)
    vertices = np.concatenate(
        [vertices, [vertices[faces[0, 0]]]]
    )  # a face of no area, on a vertex of its own
    faces = np.concatenate([faces, [[faces[0, 0], faces[0, 1], len(vertices) - 1]]])
    with pytest.warns(EigenprobeWarning, match="robust Laplacian instead"):
        basis = oracle(vertices, faces, 9)
    assert basis.info["method"] == "robust"
    assert np.allclose(basis.eigenvalues[1:4], 2, rtol=0.1)
    with pytest.raises(InputError, match="cannot be used"):
        oracle(vertices, faces, 9, kind="cotangent")


def test_the_peer_without_a_mesh() -> None:
    basis = point_cloud(sphere(10)[0], 9)
    assert np.allclose(basis.eigenvalues, np.repeat([0, 2, 6], [1, 3, 5]), rtol=0.05, atol=1e-6)


def test_signs_are_canonical_in_the_mass_of_the_mesh() -> None:
    """Third moments of the functions themselves, whatever the areas of the vertices."""
    vertices, faces = sphere(2)
    vertices = (
        vertices * np.exp(vertices[:, :1]) * [1.0, 1.4, 0.8] + 0.1 * vertices[:, [2, 0, 1]] ** 2
    )
    basis = oracle(vertices, faces, 12)
    cubes = (basis.mass[:, None] * basis.vectors**3).sum(0)
    size = (basis.mass[:, None] * np.abs(basis.vectors) ** 3).sum(0)
    clear = np.abs(cubes) > 2e-3 * size
    assert (
        clear.sum() >= 8
        and bool((cubes[clear] > 0).all())
        and bool((basis.vectors[:, 0] > 0).all())
    )


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_areas_are_compared_with_their_mean(unit: float) -> None:
    """In any unit: 1e-12 of it is none."""
    vertices, faces = sphere(3)
    stiffness, mass = cotangent(unit * vertices, faces)
    np.testing.assert_allclose(mass, unit**2 * cotangent(vertices, faces)[1], rtol=1e-9)
    np.testing.assert_allclose(
        stiffness.toarray(), cotangent(vertices, faces)[0].toarray(), atol=1e-9
    )
    with pytest.raises(ArithmeticError, match="1 vertices have no area"):
        cotangent(unit * np.concatenate([np.zeros((1, 3)), vertices]), faces + 1)


@pytest.mark.parametrize("shift", [None, -0.5])
def test_pairs_of_a_problem_with_a_mass(shift: float | None, rng: np.random.Generator) -> None:
    """``L v = lambda M v`` against the dense solver, whatever the pole."""
    stiffness, mass = cotangent(*blob(3))
    mass = mass * rng.uniform(0.5, 2, len(mass))
    values, vectors = smallest_eigenpairs(stiffness, mass, 5, shift)
    exact = scipy.linalg.eigh(stiffness.toarray(), np.diag(mass), eigvals_only=True)[:5]
    np.testing.assert_allclose(values, exact, atol=1e-8)
    found = vectors / np.sqrt(mass)[:, None]
    np.testing.assert_allclose(stiffness @ found, mass[:, None] * found * values, atol=1e-7)
