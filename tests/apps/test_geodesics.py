"""Geodesic distances against great circles, straight lines, a dense solve and another library."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.apps import geodesic_distance
from eigenprobe.errors import InputError
from tests import clouds as c


def off(found: np.ndarray, expected: np.ndarray) -> float:
    """The mean error over the mean distance."""
    return float(np.abs(np.asarray(found) - expected).mean() / expected.mean())


@pytest.mark.parametrize(
    ("sampling", "most", "smoothed"), [("even", 0.01, 0.01), ("random", 0.025, 0.025)]
)
def test_great_circles(
    sampling: str, most: float, smoothed: float, rng: np.random.Generator
) -> None:
    x = c.even(c.random_sphere, 3000, rng) if sampling == "even" else c.random_sphere(3000, rng)
    expected = 3 * np.arccos(np.clip(x @ x[[0, 5]].T, -1, 1))
    found = geodesic_distance(3 * x, [0, 5])
    assert found.shape == (3000, 2) and found[0, 0] == 0 and found[5, 1] == 0
    assert off(found, expected) < most
    assert abs(found[5, 0] - found[0, 1]) < 0.02 * found[5, 0]  # there and back
    assert off(geodesic_distance(3 * x, [0, 5], time=9 * 4 * np.pi / 3000), expected) < smoothed


def test_straight_lines_on_a_curve_a_square_and_in_a_solid(rng: np.random.Generator) -> None:
    x = np.linspace(0, 2, 500)[:, None]
    np.testing.assert_allclose(geodesic_distance(x, 100), np.abs(x[:, 0] - x[100, 0]), atol=1e-3)
    for dimension, most in ((2, 0.01), (3, 0.05)):
        y = c.even(lambda n, r, d=dimension: r.random((n, d)), 2500, rng)
        middle = int(np.argmin(np.abs(y - 0.5).sum(1)))
        expected = np.linalg.norm(y - y[middle], axis=1)
        found = geodesic_distance(ep.decompose(torch.tensor(y), k=3), middle)
        assert isinstance(found, torch.Tensor) and off(found.numpy(), expected) < most
        assert (found.numpy() >= expected - 1e-12).all()


def test_around_a_hole(rng: np.random.Generator) -> None:
    """A disk of radius 1/4 is missing: two tangents of length 3^1/2 / 4 and an arc of pi / 3."""
    y = c.even(lambda n, r: r.random((n, 2)), 6000, rng)
    y = np.concatenate([[[0, 0.5], [1, 0.5]], y[np.linalg.norm(y - 0.5, axis=1) > 0.25]])
    around = 2 * 3**0.5 / 4 + np.pi / 12
    assert geodesic_distance(y, 0)[1] == pytest.approx(around, rel=0.02)


def test_the_same_steps_with_dense_matrices(rng: np.random.Generator) -> None:
    """Heat, its direction and the function that rises along it, from the public operators."""
    x = c.fibonacci_sphere(300)
    stiffness, mass = (matrix.toarray() for matrix in ep.laplacian(x))
    frames, parts = ep.operators.gradient(x)
    heat = np.linalg.solve(mass + 0.02 * stiffness, np.eye(300)[7])
    field = -sum(frames[:, :, a] * (part @ heat)[:, None] for a, part in enumerate(parts))
    field /= np.linalg.norm(field, axis=1, keepdims=True)
    rise = np.einsum("ijd,ijd->ij", field[:, None] + field, x - x[:, None]) / 2
    d = np.linalg.lstsq(stiffness, (stiffness * rise).sum(1), rcond=None)[0]
    found = geodesic_distance(x, 7, time=0.02)
    far = found > np.linalg.norm(x - x[7], axis=1) + 1e-9  # not raised to the chord
    slope, zero = np.polyfit(d[far], found[far], 1)
    np.testing.assert_allclose(found[far], slope * d[far] + zero, rtol=1e-5)


@pytest.mark.parametrize("sampling", ["even", "random"])
def test_nearer_than_potpourri3d(sampling: str, rng: np.random.Generator) -> None:
    potpourri3d = pytest.importorskip("potpourri3d")
    x = c.even(c.random_sphere, 2000, rng) if sampling == "even" else c.random_sphere(2000, rng)
    expected = np.arccos(np.clip(x @ x[0], -1, 1))
    theirs = potpourri3d.PointCloudHeatSolver(x).compute_distance(0)
    assert off(geodesic_distance(x, 0), expected) <= off(theirs, expected)


def test_copies_of_points_are_equally_far(rng: np.random.Generator) -> None:
    y = c.even(lambda n, r: r.random((n, 2)), 900, rng)
    with pytest.warns(ep.EigenprobeWarning, match="coincide"):
        twice = geodesic_distance(np.concatenate([y, y[:300]]), 7)
    np.testing.assert_allclose(twice[:900], geodesic_distance(y, 7), atol=0.01)
    np.testing.assert_allclose(twice[900:], twice[:300], atol=1e-6)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_other_parts_are_infinitely_far(rng: np.random.Generator) -> None:
    x = np.concatenate([c.random_sphere(450, rng), c.random_sphere(450, rng) + [9, 0, 0]])
    for basis in (x, ep.decompose(x, 4, resolution=300, parts="all")):
        found = geodesic_distance(basis, 3)
        assert np.isinf(found[450:]).all() and np.isfinite(found[:450]).all()


def test_all_points_of_a_cloud_with_a_working_sample(rng: np.random.Generator) -> None:
    x = c.random_sphere(1200, rng)
    sources = [7, 700]
    found = geodesic_distance(ep.decompose(x, 4, resolution=400), sources)
    chords = np.linalg.norm(x[:, None] - x[sources], axis=2)
    true = 2 * np.arcsin(np.clip(chords / 2, 0, 1))
    assert found.shape == (1200, 2) and (found >= chords - 1e-12).all()
    assert np.abs(found - true).mean() < 0.05 and (found[sources, [0, 1]] < 0.15).all()


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_far_from_the_source_where_little_heat_is_left(scale: float) -> None:
    x = c.fibonacci_sphere(900)
    exact = scale * np.arccos(np.clip(x @ x[0], -1, 1))
    for time in (0.002, 0.02):
        found = geodesic_distance(scale * x, 0, time=time * scale**2)
        assert found[0] == 0 and off(found, exact) < 0.03, time


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_three_points_and_bad_input(rng: np.random.Generator) -> None:
    assert geodesic_distance(np.eye(3), 0).shape == (3,)
    x = c.random_sphere(100, rng)
    with pytest.raises(InputError, match=r"^k=1 needs at least 3 distinct points, got 2$"):
        geodesic_distance(np.eye(3)[[0, 1, 1, 0]], 0)
    with pytest.raises(InputError, match="point indices in"):
        geodesic_distance(x, 100)
    with pytest.raises(InputError, match="time above 0"):
        geodesic_distance(x, 0, time=0.0)
    with pytest.raises(InputError, match="this basis has none"):
        geodesic_distance(ep.Basis(np.eye(9)[:, :2], np.full(9, 1 / 9), np.arange(2.0)), 0)
