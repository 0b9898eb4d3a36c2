"""Operators and distances of a basis are those of the graph and the smoother that made it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import InputError
from tests import clouds as c

SIDE = 17
N = 2 * SIDE**2


@pytest.fixture(scope="module")
def plates() -> np.ndarray:
    """Two parallel plates, nearer to each other than they are wide: the number of neighbours
    decides what is joined.
    """
    grid = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), -1).reshape(-1, 2)
    plane = (grid + 0.2 * np.random.default_rng(0).random(grid.shape)) / SIDE
    return np.concatenate(
        [np.c_[plane, np.zeros(N // 2)], np.c_[plane[::-1], np.full(N // 2, 0.22)]]
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"neighbours": 12},
        {"neighbours": "plain", "dimension": 2.0},
        {"smoother": "symmetric"},
        {"measure": 0.5},
    ],
)
def test_laplacian_of_a_basis(plates: np.ndarray, settings: dict[str, Any]) -> None:
    basis = ep.decompose(plates, k=6, **settings)
    for own, expected in zip(ep.laplacian(basis), ep.laplacian(plates, **settings), strict=True):
        assert abs(own - expected).max() <= 1e-12 * abs(expected).max()
    laplacian, mass = ep.laplacian(basis)
    v = basis.vectors
    assert np.abs(laplacian @ v - mass @ v * basis.eigenvalues).max() < 1e-4 * abs(laplacian).max()


def test_laplacian_of_a_basis_with_a_potential(plates: np.ndarray) -> None:
    potential = 5 * plates[:, 0]
    laplacian, _ = ep.laplacian(ep.decompose(plates, k=6, potential=potential))
    expected, _ = ep.laplacian(plates, potential=potential)
    assert abs(laplacian - expected).max() <= 1e-12 * abs(expected).max()
    with pytest.raises(InputError, match="dimension is not taken"):
        ep.laplacian(ep.decompose(plates, k=6), dimension=2.0)


def test_kind_of_array_and_derivatives() -> None:
    points = torch.as_tensor(c.random_sphere(300, np.random.default_rng(0))).requires_grad_()
    basis = ep.decompose(points, k=4)
    laplacian, mass = ep.laplacian(basis)
    expected, expected_mass = ep.laplacian(points)
    assert laplacian.requires_grad and mass.requires_grad
    assert torch.allclose(laplacian.to_dense(), expected.to_dense())
    assert torch.allclose(mass.to_dense(), expected_mass.to_dense())
    single = ep.decompose(points.detach().float(), k=4)
    assert ep.laplacian(single)[0].dtype == torch.float32


def test_gradient_of_a_basis(plates: np.ndarray) -> None:
    basis = ep.decompose(plates, k=6, neighbours=9, dimension=2.0, boundary=plates[:, 0] < 0.05)
    frames, parts = ep.operators.gradient(basis)
    expected_frames, expected = ep.operators.gradient(plates, neighbours=9, dimension=2.0)
    assert np.allclose(frames, expected_frames)
    assert all(abs(own - other).max() < 1e-9 for own, other in zip(parts, expected, strict=True))


@pytest.mark.parametrize("time", [None, 0.01])
def test_distances_along_the_graph_of_the_basis(plates: np.ndarray, time: float | None) -> None:
    """With 8 neighbours the plates are apart, with 60 they are joined everywhere: the basis knows
    which it was.
    """
    apart = ep.apps.geodesic_distance(
        ep.decompose(plates, k=6, neighbours=8, dimension=2.0), 0, time=time
    )
    joined = ep.apps.geodesic_distance(
        ep.decompose(plates, k=6, neighbours=60, dimension=2.0), 0, time=time
    )
    assert np.isinf(apart[N // 2 :]).all() and np.isfinite(apart[: N // 2]).all()
    assert np.isfinite(joined).all()


def test_distances_do_not_know_of_potential_boundary_and_kind(plates: np.ndarray) -> None:
    plate = plates[: N // 2]
    expected = ep.apps.geodesic_distance(ep.decompose(plate, k=4, neighbours=12), [0, 7])
    for more in (
        {"boundary": plate[:, 0] < 0.1},
        {"potential": plate[:, 1]},
        {"measure": 0.0},
        {"smoother": "row"},
    ):
        found = ep.apps.geodesic_distance(ep.decompose(plate, k=4, neighbours=12, **more), [0, 7])
        assert np.allclose(found, expected)


def test_distances_of_a_basis_that_knows_nothing(plates: np.ndarray) -> None:
    basis = ep.Basis(np.eye(N)[:, :2], np.full(N, 1 / N), np.arange(2.0), points=plates)
    assert np.allclose(ep.apps.geodesic_distance(basis, 3), ep.apps.geodesic_distance(plates, 3))
