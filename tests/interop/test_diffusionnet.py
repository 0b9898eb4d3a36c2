"""The operators as DiffusionNet takes them: shapes, units, orthonormality, exact gradients, and a
network on them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csc_matrix
from torch import Tensor

import eigenprobe as ep
from eigenprobe.errors import InputError
from eigenprobe.interop import DiffusionNetOperators, diffusionnet_operators
from tests.clouds import fibonacci_sphere


@pytest.fixture(scope="module")
def sphere() -> Tensor:
    return 2 * torch.as_tensor(fibonacci_sphere(800))


@pytest.fixture(scope="module")
def operators(sphere: Tensor) -> DiffusionNetOperators:
    return diffusionnet_operators(sphere, k_eig=20)


def test_shapes_types_and_units(sphere: Tensor, operators: DiffusionNetOperators) -> None:
    frames, mass, L, evals, evecs, gradX, gradY = operators
    assert (
        frames.shape == (800, 3, 3)
        and mass.shape == (800,)
        and evals.shape == (20,)
        and evecs.shape == (800, 20)
    )
    assert all(
        matrix.layout == torch.sparse_coo and matrix.shape == (800, 800)
        for matrix in (L, gradX, gradY)
    )
    assert all(part.dtype == torch.float64 for part in operators)
    assert float(mass.sum()) == pytest.approx(16 * np.pi, rel=0.03), (
        "areas in the units of the points"
    )
    assert evals[1:4].tolist() == pytest.approx([0.5] * 3, rel=0.02), "l (l + 1) / r^2"
    single = diffusionnet_operators(sphere.numpy(), k_eig=4)
    assert all(part.dtype == torch.float32 for part in single)


def test_the_pairs_are_those_of_the_matrices(operators: DiffusionNetOperators) -> None:
    _, mass, L, evals, evecs, *_ = operators
    assert torch.allclose(evecs.T @ (mass[:, None] * evecs), torch.eye(20).double(), atol=1e-8)
    dense = L.to_dense()
    assert torch.allclose(dense, dense.T) and float(dense.sum(1).abs().max()) < 1e-10
    assert float(torch.linalg.eigvalsh(dense).min()) > -1e-10
    assert torch.allclose(L @ evecs, mass[:, None] * evecs * evals, atol=1e-4)


def test_frames_are_tangent_and_right_handed(
    sphere: Tensor, operators: DiffusionNetOperators
) -> None:
    frames = operators.frames
    assert torch.allclose(frames @ frames.mT, torch.eye(3).double().expand(800, 3, 3), atol=1e-10)
    assert torch.allclose(torch.linalg.det(frames), torch.ones(800).double())
    assert float((frames[:, 2] * sphere / 2).sum(1).abs().min()) > np.cos(np.radians(5)), (
        "half of the spacing, 7 degrees"
    )


def test_gradients_are_exact_on_a_plane_and_true_on_a_sphere(
    sphere: Tensor, operators: DiffusionNetOperators
) -> None:
    flat = torch.as_tensor(np.random.default_rng(0).random((400, 2)))
    plane = diffusionnet_operators(torch.cat([flat, torch.zeros(400, 1)], 1), k_eig=4)
    slope = torch.tensor([0.3, -2.0, 0.0]).double()
    values = torch.cat([flat, torch.zeros(400, 1).double()], 1) @ slope
    x, y, _ = plane.frames.unbind(1)
    ambient = (plane.gradX @ values)[:, None] * x + (plane.gradY @ values)[:, None] * y
    assert torch.allclose(ambient, slope.expand(400, 3), atol=1e-6)
    height = sphere[:, 2]
    squared = (operators.gradX @ height) ** 2 + (operators.gradY @ height) ** 2
    assert torch.allclose(squared, 1 - (height / 2) ** 2, atol=0.03), "|grad z|^2 = 1 - z^2 / r^2"
    for energy in (operators.mass @ squared, height @ (operators.L @ height)):
        assert float(energy) == pytest.approx(16 * np.pi * 2 / 3, rel=0.03), (
            "Dirichlet energies of both operators"
        )


def test_other_dimensions_are_refused() -> None:
    with pytest.raises(InputError, match=r"points of shape \(n, 3\), got \(200, 2\)"):
        ep.interop.diffusionnet_operators(np.random.default_rng(0).random((200, 2)), k_eig=4)


def test_the_cache_is_the_one_that_diffusionnet_reads(sphere: Tensor, tmp_path: Path) -> None:
    verts, faces = sphere.float(), torch.zeros(0)  # as get_operators is called on a cloud
    made = diffusionnet_operators(verts, k_eig=12, op_cache_dir=tmp_path)
    digest = hashlib.sha1(verts.numpy().tobytes()).hexdigest()
    path = tmp_path / f"{digest}_0.npz"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    with np.load(path) as stored:  # nothing pickled
        assert np.array_equal(stored["verts"], verts.numpy()) and np.array_equal(
            stored["faces"], faces.numpy()
        )
        assert stored["k_eig"].item() == 12 and stored["evecs"].dtype == np.float32
        for name in ("L", "gradX", "gradY"):
            parts = (stored[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
            matrix = csc_matrix(tuple(parts), shape=stored[f"{name}_shape"])
            np.testing.assert_allclose(
                matrix.toarray(), getattr(made, name).to_dense(), rtol=1e-5, atol=1e-5
            )
    before = path.stat().st_mtime_ns
    again = diffusionnet_operators(verts, k_eig=8, op_cache_dir=tmp_path)
    assert (
        path.stat().st_mtime_ns == before
        and again.evals.shape == (8,)
        and again.evecs.shape == (800, 8)
    )
    assert torch.allclose(again.evecs, made.evecs[:, :8]) and torch.allclose(
        again.L.to_dense(), made.L.to_dense()
    )
    more = diffusionnet_operators(
        verts, k_eig=16, op_cache_dir=tmp_path
    )  # not enough of them: written again
    with np.load(path) as stored:
        assert stored["k_eig"].item() == 16 and more.evals.shape == (16,)
    path.write_bytes(b"PK broken")
    with pytest.raises(InputError, match="npz"):
        diffusionnet_operators(verts, k_eig=8, op_cache_dir=tmp_path)


def test_a_cache_without_a_part_or_of_other_points_is_made_again(
    sphere: Tensor, tmp_path: Path
) -> None:
    verts = sphere.float()
    made = diffusionnet_operators(verts, k_eig=8, op_cache_dir=tmp_path)
    (path,) = tmp_path.iterdir()
    with np.load(path) as stored:
        whole = {name: stored[name] for name in stored}
    for change in ({"evals": None}, {"verts": whole["verts"] + 1}):
        kept = {name: value for name, value in (whole | change).items() if value is not None}
        np.savez(
            path, **(kept | {"mass": 2 * whole["mass"]})
        )  # by which it is known that this one was read
        again = diffusionnet_operators(verts, k_eig=8, op_cache_dir=tmp_path)
        torch.testing.assert_close(again.mass, made.mass)
