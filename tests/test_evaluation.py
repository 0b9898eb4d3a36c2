"""What each measure must say about bases whose relation is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe import Basis
from eigenprobe.errors import InputError
from eigenprobe.evaluation import compare, compare_vectors
from eigenprobe.geometry import oracle
from eigenprobe_lab import evaluation
from tests.meshes import blob


@pytest.fixture(scope="module")
def reference() -> Basis:
    return oracle(*blob(8), 20)


def changed(basis: Basis, rotation: np.ndarray, eigenvalues: np.ndarray | None = None) -> Basis:
    values = basis.eigenvalues if eigenvalues is None else eigenvalues
    return Basis(basis.normalized @ rotation, basis.mass, values, basis.points)


def test_a_basis_agrees_with_itself_up_to_signs(reference) -> None:
    signs = np.diag(np.where(np.arange(20) % 3 == 0, -1.0, 1.0))
    alignment = compare(changed(reference, signs), reference)
    for k in (1, 7, 20, None):
        assert alignment.cosine(k) == pytest.approx(1)
        assert alignment.matched(k) == pytest.approx(1)
        assert alignment.subspace(k) == pytest.approx(1)
    assert alignment.eigenvalue_discrepancy() == 0


def test_a_swap_costs_the_cosine_only(reference) -> None:
    order = np.arange(20)
    order[[3, 4]] = 4, 3
    alignment = compare(changed(reference, np.eye(20)[:, order]), reference)
    assert alignment.cosine(5) == pytest.approx((3 + 2 * alignment.cosines[3]) / 5)
    assert alignment.cosine(5) < 0.7
    assert alignment.matched(5) == pytest.approx(1)
    assert alignment.matched(4) < 0.9  # the partner of vector 4 is outside the first four
    assert alignment.subspace(5) == pytest.approx(1)


def test_a_rotation_costs_both_cosines_but_no_subspace(reference) -> None:
    angle = np.pi / 4
    rotation = np.eye(20)
    rotation[6:8, 6:8] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    alignment = compare(changed(reference, rotation), reference)
    assert alignment.matched(20) < 0.99
    assert alignment.subspace(20) == pytest.approx(1)
    assert alignment.subspace(8) == pytest.approx(1)
    # Half of one of seven directions is lost; at plain inner products only nearly so (the mesh is
    # not quite even).
    assert alignment.subspace(7) == pytest.approx(6.5 / 7, abs=0.02)


def test_eigenvalue_discrepancy_is_the_mean_relative_error(reference) -> None:
    factor = np.r_[1.0, np.linspace(0.9, 1.2, 19)]
    alignment = compare(changed(reference, np.eye(20), reference.eigenvalues * factor), reference)
    assert alignment.eigenvalue_discrepancy() == pytest.approx(np.abs(factor[1:] - 1).mean())
    assert alignment.eigenvalue_discrepancy(3) == pytest.approx(np.abs(factor[1:3] - 1).mean())


def test_against_brute_force(rng) -> None:
    ours, theirs = rng.standard_normal((2, 30, 6))
    alignment = compare_vectors(ours, theirs, np.arange(6.0), np.arange(6.0))
    cosines = [abs(a @ b) / np.sqrt(a @ a * (b @ b)) for a, b in zip(ours.T, theirs.T, strict=True)]
    assert np.allclose(alignment.cosines, cosines)
    ours_span, theirs_span = np.linalg.qr(ours[:, :4])[0], np.linalg.qr(theirs[:, :4])[0]
    angles = np.linalg.svd(ours_span.T @ theirs_span, compute_uv=False)
    assert alignment.subspace(4) == pytest.approx((angles**2).mean())


def test_an_oracle_on_all_vertices_and_a_basis_on_some(reference, rng) -> None:
    indices = rng.permutation(reference.n)[:100]
    some = Basis(reference.normalized[indices], reference.mass[indices], reference.eigenvalues)
    assert compare(some, reference, indices=indices).cosine() == pytest.approx(1)
    assert compare(
        some.torch(), reference, indices=torch.from_numpy(indices)
    ).cosine() == pytest.approx(1)
    with pytest.raises(InputError, match=r"same points, got 100 and \d+ rows"):
        compare(some, reference)


def test_the_smaller_basis_decides_k(reference) -> None:
    alignment = evaluation.compare(reference.truncate(6), reference)
    assert alignment.k == 6
    with pytest.raises(InputError, match="1 <= k <= 6"):
        alignment.cosine(7)
    with pytest.raises(InputError, match="2 <= k"):
        alignment.eigenvalue_discrepancy(1)
    with pytest.raises(InputError, match="finite"):
        compare_vectors(np.full((5, 2), np.nan), np.ones((5, 2)), np.zeros(2), np.zeros(2))
