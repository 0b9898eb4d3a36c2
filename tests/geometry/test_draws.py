"""Tests of `geometry.draws`."""

from __future__ import annotations

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe import geometry
from eigenprobe.errors import InputError
from eigenprobe.geometry import draw_surface, sample_surface, sample_volume
from tests.meshes import cube, sphere, torus
from tests.spectra import ball_neumann

N = 3000


def test_the_ball() -> None:
    basis = ep.decompose(sample_volume(sphere(16), N, seed=1, spread=True), k=10)
    exact = ball_neumann(10)
    assert basis.info["dimension"] == pytest.approx(3, abs=0.3)
    assert np.abs(basis.eigenvalues[1:] / exact[1:] - 1).mean() < 0.1


def test_surface_samples_are_uniform_by_area() -> None:
    vertices, faces = cube(1)
    vertices = vertices * [1.0, 2.0, 3.0]  # faces of area 2, 3 and 6, twice each
    points = sample_surface((vertices, faces), 20_000, seed=1)
    assert points.shape == (20_000, 3)
    for axis, side, area in ((0, 1, 6), (1, 2, 3), (2, 3, 2)):
        share = np.isclose(points[:, axis], 0).mean() + np.isclose(points[:, axis], side).mean()
        assert share == pytest.approx(2 * area / 22, abs=0.015)
    top = points[np.isclose(points[:, 2], 3)]
    assert np.abs(top.mean(0) - [0.5, 1, 3]).max() < 0.06
    assert (
        sample_surface((vertices, faces), 10, seed=1)
        == sample_surface((vertices, faces), 10, seed=1)
    ).all()


def test_functions_are_read_off_at_surface_samples() -> None:
    mesh = torus(20, 10)
    drawn = draw_surface(mesh, 500, seed=0)
    assert np.allclose(drawn.interpolate(mesh, mesh[0]), drawn.points)
    assert np.allclose(drawn.interpolate(mesh, mesh[0] @ [1.0, 2, 3]), drawn.points @ [1.0, 2, 3])


def test_density_of_surface_samples() -> None:
    vertices, faces = sphere(8)
    density = np.where(vertices[faces].mean(1)[:, 2] > 0, 10.0, 1.0)
    points = sample_surface((vertices, faces), 11_000, seed=0, density=density)
    assert (points[:, 2] > 0).mean() == pytest.approx(10 / 11, abs=0.02)
    with pytest.raises(InputError, match="positive area"):
        sample_surface((np.zeros((3, 3)), [[0, 1, 2]]), 5)


@pytest.mark.parametrize("spread", [False, True])
def test_volume_samples_fill_the_inside(spread) -> None:
    vertices, faces = cube(2, side=2.0)
    points = sample_volume((vertices + 5, faces), 3000, seed=0, spread=spread)
    assert points.shape == (3000, 3)
    assert points.min() > 5
    assert points.max() < 7
    assert np.abs(points.mean(0) - 6).max() < 0.05
    assert np.abs(points.var(0) - 1 / 3).max() < 0.04


def test_volume_samples_of_either_turning() -> None:
    vertices, faces = torus()
    inside_out = sample_volume((vertices, faces[:, ::-1]), 200, seed=0)
    assert len(inside_out) == 200
    ring = np.hypot(np.hypot(*inside_out[:, :2].T) - 1, inside_out[:, 2])
    assert ring.max() < 0.4


def test_an_open_mesh_has_no_inside() -> None:
    vertices, faces = cube(2)
    with pytest.raises(InputError, match="closed mesh, got one with 3 boundary"):
        sample_volume((vertices, faces[1:]), 10)
    with pytest.raises(InputError, match="expected 1 to 100000000 points, got n=0"):
        sample_volume((vertices, faces), 0)
    with pytest.raises(InputError, match="point cloud"):
        sample_volume(geometry.Shape(vertices), 10)


def test_no_face_is_drawn_less_than_never() -> None:
    vertices, faces = cube()
    density = np.ones(len(faces))
    for lost in (-0.5, -3.0):
        density[3] = lost
        with pytest.raises(InputError, match="expected a mesh of positive area"):
            draw_surface((vertices, faces), 5, density=density)
    density[3] = 0
    assert not bool((draw_surface((vertices, faces), 500, density=density).faces == 3).any())
    with pytest.raises(InputError, match="expected a density per face"):
        draw_surface((vertices, faces), 5, density=density[1:])


def test_points_of_a_face_are_uniform_in_it() -> None:
    """Each barycentric coordinate is beta (1, 2): mean 1/3, variance 1/18, covariance -1/36."""
    drawn = draw_surface((np.eye(3), np.array([[0, 1, 2]])), 20_000, seed=2)
    np.testing.assert_allclose(drawn.barycentric.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(drawn.points, drawn.barycentric, atol=1e-12)
    np.testing.assert_allclose(drawn.barycentric.mean(0), 1 / 3, atol=0.01)
    np.testing.assert_allclose(np.cov(drawn.barycentric.T), np.eye(3) / 12 - 1 / 36, atol=2e-3)
