"""Orthonormalisation, signs, and what a basis does with functions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.basis import Basis
from eigenprobe.eigen.span import canonical_signs, orthonormalise
from eigenprobe.errors import InputError
from eigenprobe.extensions import KernelExtension


def random_basis(n: int = 30, k: int = 6, seed: int = 0) -> Basis:
    """An arbitrary but valid basis: q_1 = sqrt(mass), the rest orthonormal to it."""
    rng = np.random.default_rng(seed)
    mass = rng.random(n) + 0.2
    mass /= mass.sum()
    q, _ = np.linalg.qr(np.concatenate([np.sqrt(mass)[:, None], rng.normal(size=(n, k - 1))], 1))
    q[:, 0] = np.sqrt(mass)
    return Basis(q, mass, np.arange(k) * 1.5, rng.normal(size=(n, 3)))


def test_orthonormalise_is_differentiable(generator: torch.Generator) -> None:
    x = torch.randn(7, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: orthonormalise(t), (x,))


def test_signs_follow_the_function_not_its_order(generator: torch.Generator) -> None:
    v = torch.randn(40, 5, dtype=torch.float64, generator=generator)
    sign = canonical_signs(v)
    order = torch.randperm(40, generator=generator)
    assert torch.equal(canonical_signs(v[order]), sign)
    assert torch.equal(canonical_signs(-v), -sign)
    assert torch.equal(canonical_signs(v * sign), torch.ones_like(sign))


def test_projection_identities() -> None:
    basis = random_basis()
    f = np.random.default_rng(1).normal(size=(30, 4))
    v, m = basis.vectors, np.diag(basis.mass)
    np.testing.assert_allclose(v[:, 0], 1, atol=1e-12)
    np.testing.assert_allclose(v.T @ m @ v, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(basis.project(f), v.T @ m @ f, atol=1e-12)
    once = basis.reconstruct(basis.project(f))
    np.testing.assert_allclose(basis.reconstruct(basis.project(once)), once, atol=1e-12)
    np.testing.assert_allclose(basis.project(f[:, 0]), basis.project(f)[:, 0], atol=1e-12)
    errors = [
        np.sum(basis.mass[:, None] * (f - basis.reconstruct(basis.project(f)[:k])) ** 2)
        for k in range(1, basis.k + 1)
    ]
    assert np.all(np.diff(errors) <= 1e-12)


def test_a_filter_by_a_name_is_told_what_to_do() -> None:
    basis = ep.decompose(np.random.default_rng(0).normal(size=(60, 3)), k=3)
    with pytest.raises(InputError, match=r"or 3 numbers, got 'heat': ep.apps.response makes"):
        basis.filter(np.ones(60), "heat")


def test_filter_and_operator_agree_with_dense_matrices() -> None:
    basis = random_basis()
    f = np.random.default_rng(2).normal(size=30)
    v, m, lam = basis.vectors, np.diag(basis.mass), basis.eigenvalues
    np.testing.assert_allclose(
        basis.filter(f, lambda x: np.exp(-x)), v @ np.diag(np.exp(-lam)) @ v.T @ m @ f, atol=1e-12
    )
    np.testing.assert_allclose(
        basis.filter(f, np.ones(6)), basis.reconstruct(basis.project(f)), atol=1e-12
    )
    plain = basis.filter(f, lam)
    np.testing.assert_allclose(plain, v @ np.diag(lam) @ v.T @ m @ f, atol=1e-12)
    np.testing.assert_allclose(basis.filter(v, lam), v * lam, atol=1e-10)
    normalised = basis.operator()
    np.testing.assert_allclose(
        np.asarray(normalised), basis.normalized @ np.diag(lam) @ basis.normalized.T, atol=1e-12
    )
    plain = basis.operator(normalized=False)
    np.testing.assert_allclose(plain.to_dense(), v @ np.diag(lam) @ v.T @ m, atol=1e-12)
    np.testing.assert_allclose(plain @ f, plain.to_dense() @ f, atol=1e-12)
    np.testing.assert_allclose(plain @ v, v * lam, atol=1e-10)
    assert plain.shape == (30, 30)


def test_numpy_and_torch_views_are_the_same_basis() -> None:
    basis = random_basis()
    other = basis.torch()
    f = np.random.default_rng(3).normal(size=(30, 2))
    assert isinstance(other.vectors, torch.Tensor)
    np.testing.assert_allclose(
        other.filter(torch.as_tensor(f), lambda x: 1 / (1 + x)).numpy(),
        basis.filter(f, lambda x: 1 / (1 + x)),
    )
    assert isinstance(other.numpy().vectors, np.ndarray)
    np.testing.assert_array_equal(basis.truncate(3).vectors, basis.vectors[:, :3])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.project(np.zeros(7)), r"shape \(30,\) or \(30, m\), got \(7,\)"),
        (lambda b: b.reconstruct(np.zeros(9)), r"at most 6 coefficients .*, got shape \(9,\)"),
        (lambda b: b.filter(np.zeros(30), np.ones(3)), "response of 6 numbers"),
        (lambda b: b.truncate(0), "1 <= k <= 6, got 0"),
        (lambda b: b(np.zeros((2, 3))), "no values at new points"),
        (
            lambda b: Basis(b.normalized, b.mass[:-1], b.eigenvalues),
            r"got shapes \[\(30, 6\), \(29,\), \(6,\)\]",
        ),
    ],
)
def test_misuse_says_what_was_expected(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(random_basis())  # type: ignore[operator]


def test_save_and_load_keep_everything(tmp_path: Path) -> None:
    plain = random_basis()
    extension = KernelExtension(torch.as_tensor(plain.points), torch.as_tensor(plain.vectors))
    basis = Basis(
        plain.normalized,
        plain.mass,
        plain.eigenvalues,
        plain.points,
        {"method": "direct"},
        extension,
    )
    path = tmp_path / "basis.safetensors"
    basis.save(path)
    again = ep.Basis.load(path)
    for name in ("normalized", "mass", "eigenvalues", "points"):
        np.testing.assert_array_equal(getattr(again, name), getattr(basis, name))
    assert again.info == {"method": "direct"}
    new = np.random.default_rng(4).normal(size=(5, 3))
    np.testing.assert_array_equal(again(new), basis(new))
    assert [p.name for p in tmp_path.iterdir()] == ["basis.safetensors"]


def test_loading_something_else_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such basis file"):
        ep.Basis.load(tmp_path / "missing.safetensors")
    junk = tmp_path / "junk.safetensors"
    junk.write_text(json.dumps({"not": "a basis"}))
    with pytest.raises(InputError, match="expected a basis written by eigenprobe"):
        ep.Basis.load(junk)
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(3)}, tmp_path / "foreign.safetensors")
    with pytest.raises(InputError, match="expected a basis written by eigenprobe"):
        ep.Basis.load(tmp_path / "foreign.safetensors")


def test_a_truncated_basis_has_the_first_vectors_at_new_points(rng: np.random.Generator) -> None:
    basis = ep.decompose(rng.random((80, 2)), k=6)
    new = rng.random((7, 2))
    np.testing.assert_array_equal(basis.truncate(3)(new), basis(new)[:, :3])


def test_new_points_are_checked() -> None:
    basis = ep.decompose(np.random.default_rng(0).random((60, 2)), k=4)
    with pytest.raises(InputError, match=r"shape \(m, 2\), got \(3, 3\)"):
        basis(np.zeros((3, 3)))
    with pytest.raises(
        InputError, match=r"expected finite new points, got 1 .*, the first in row 1"
    ):
        basis(np.array([[0.1, 0.2], [np.nan, 0.0]]))


def test_a_basis_equals_itself_and_nothing_else() -> None:
    one, two = (ep.decompose(np.random.default_rng(0).normal(size=(60, 3)), k=4) for _ in range(2))
    assert one == one and one != two and len({one, two}) == 2


def test_other_formats_are_refused(tmp_path: Path) -> None:
    basis = ep.decompose(np.random.default_rng(0).normal(size=(60, 3)), k=4)
    with pytest.raises(
        InputError, match=r"written as .safetensors, .ply, .vtk, .vtu, .npz, .mat, .csv, got .*x.h5"
    ):
        basis.save(tmp_path / "x.h5")
    assert not list(tmp_path.iterdir())


def test_faces_and_rows_are_kept(tmp_path: Path) -> None:
    basis = ep.decompose(np.random.default_rng(0).normal(size=(60, 3)), k=4)
    marked = replace(basis, faces=np.array([[0, 1, 2]]), rows=np.arange(60) * 2)
    marked.torch().save(tmp_path / "b.safetensors")
    again = ep.Basis.load(tmp_path / "b.safetensors")
    assert np.array_equal(again.faces, [[0, 1, 2]]) and np.array_equal(
        again.rows, np.arange(60) * 2
    )


def test_a_saved_basis_is_an_ordinary_file(tmp_path) -> None:
    """Others may read it as they may read any new file: the writer of safetensors leaves a private
    one.
    """
    ep.decompose(np.random.default_rng(0).random((50, 2)), k=3).save(tmp_path / "b.safetensors")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "b.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode
