"""Tests of `geometry.draws`."""

from __future__ import annotations

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe import geometry
from eigenprobe.errors import InputError
from eigenprobe.geometry.draws import draw_surface, sample_surface, sample_volume, winding_number
from eigenprobe.readers.mesh import signed_volume
from eigenprobe.sampling.farthest import farthest_points
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
    assert (sample_surface((vertices, faces), 10, seed=1) == sample_surface((vertices, faces), 10, seed=1)).all()


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


def test_volume_samples_with_vertices_and_either_turning() -> None:
    vertices, faces = torus()
    inside_out = sample_volume((vertices, faces[:, ::-1]), 200, seed=0, surface_vertices=True)
    assert len(inside_out) == 200 + len(vertices)
    assert (inside_out[200:] == vertices).all()
    ring = np.hypot(np.hypot(*inside_out[:200, :2].T) - 1, inside_out[:200, 2])
    assert ring.max() < 0.4


def test_winding_number_counts_turns() -> None:
    vertices, faces = sphere(6)
    queries = np.array([[0.0, 0, 0], [0.5, 0.2, 0.1], [2, 0, 0], [0, -3, 1]])
    assert np.allclose(winding_number(vertices, faces, queries), [1, 1, 0, 0], atol=0.02)


def test_an_open_mesh_has_no_inside() -> None:
    vertices, faces = cube(2)
    with pytest.raises(InputError, match="closed mesh, got one with 3 boundary"):
        sample_volume((vertices, faces[1:]), 10)
    with pytest.raises(InputError, match="point cloud"):
        sample_volume(geometry.Shape(vertices), 10)


def test_one_point_is_enough_and_none_is_refused() -> None:
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    (point,) = sample_volume((vertices, faces), 1)
    assert bool((point > 0).all()) and point.sum() < 1
    assert sample_surface((vertices, faces), 1).shape == (1, 3)
    with pytest.raises(InputError, match="expected 1 to"):
        sample_volume((vertices, faces), 0)


def test_spread_points_are_the_farthest_of_four_times_as_many() -> None:
    mesh = cube()
    many = sample_volume(mesh, 400, seed=3)
    few = sample_volume(mesh, 100, spread=True, seed=3)
    np.testing.assert_array_equal(few, many[np.sort(farthest_points(many, 100, start=0))])


def test_a_needle_along_the_diagonal_of_its_box_is_filled() -> None:
    """A ten-thousandth of the box lies inside, so the first draws find nothing."""
    start, end = np.zeros(3), np.ones(3)
    sides = 0.006 * np.linalg.svd(end[None])[2][1:]
    corners = np.array([sides[0], sides[1], -sides[0] - sides[1]])
    vertices = np.concatenate([start + corners, end + corners])
    faces = [[0, 2, 1], [3, 4, 5]]
    for i in range(3):
        j = (i + 1) % 3
        faces += [[i, j, 3 + j], [i, 3 + j, 3 + i]]
    faces = np.array(faces)
    if not geometry.is_closed(faces)[0] or signed_volume(vertices, faces) < 0:
        faces = faces[:, ::-1].copy()
    for seed in range(3):
        found = geometry.sample_volume((vertices, faces), 2, seed=seed)
        along = found @ end / 3
        assert np.linalg.norm(found - along[:, None] * end, axis=1).max() < 0.02 and (np.abs(along - 0.5) < 0.51).all()


def test_a_solid_without_an_inside_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 200,000 points of its box, none of which is inside; one that is goes on."""
    drawn: list[int] = []

    def outside(vertices: np.ndarray, faces: np.ndarray, points: np.ndarray) -> np.ndarray:
        drawn.append(len(points))
        return np.zeros(len(points))

    monkeypatch.setattr("eigenprobe.geometry.draws.winding_number", outside)
    with pytest.raises(InputError, match="sample_volume found no inside"):
        sample_volume(cube(), 50_000, seed=0)
    assert sum(drawn) >= 200_000 > sum(drawn[:-1])
    few = lambda vertices, faces, points: (np.arange(len(points)) < 3).astype(float)  # noqa: E731
    monkeypatch.setattr("eigenprobe.geometry.draws.winding_number", few)
    assert sample_volume(cube(), 9, seed=0).shape == (9, 3)


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


@pytest.mark.parametrize("turned", [False, True])
def test_turns_of_a_surface_that_is_inside_out(turned: bool) -> None:
    vertices, faces = sphere(6)
    queries = np.array([[0.0, 0, 0], [2, 0, 0]])
    found = winding_number(vertices, faces[:, ::-1] if turned else faces, queries)
    np.testing.assert_allclose(found, [1, 0], atol=0.02)


def test_how_many_points_of_the_box_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth more than are missing by the share found so far, .3 at first and .001 at least, and 100; a million at
    most. The box is five hundredths larger on either side."""
    sizes: list[int] = []

    def few(vertices: np.ndarray, faces: np.ndarray, points: np.ndarray) -> np.ndarray:
        sizes.append(len(points))
        low, high = points.min(0), points.max(0)
        assert (low >= 4.9 - 1e-12).all() and (high <= 7.1 + 1e-12).all()
        assert (low < 4.99).all() and (high > 7.01).all()
        return (np.arange(len(points)) % 1000 < (1 if len(sizes) < 3 else 900)).astype(float)

    monkeypatch.setattr("eigenprobe.geometry.draws.winding_number", few)
    vertices, faces = cube(1, side=2.0)
    assert sample_volume((vertices + 5, faces), 600, seed=0).shape == (600, 3)
    found = drawn = 0
    for number, size in enumerate(sizes):
        share = max(found / drawn, 1e-3) if drawn else 0.3
        assert size == min(int(1.1 * (600 - found) / share) + 100, 1_000_000)
        found += int((np.arange(size) % 1000 < (1 if number < 2 else 900)).sum())
        drawn += size
    assert len(sizes) == 2 or found >= 600


def test_the_most_points_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigenprobe.geometry.draws.MOST", 7)
    assert len(sample_surface(cube(), 7)) == 7
    for n in (0, 8):
        with pytest.raises(InputError, match=f"expected 1 to 7 points, got n={n}"):
            sample_surface(cube(), n)
