"""Tests of `viz.scene`: from points (n, d) to something a camera can look at."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.viz.raster import rasterise
from eigenprobe.viz.scene import as_faces, cloud_normals, display_coordinates, look_at, simplify, thin

from .conftest import Sphere, make_sphere


@pytest.mark.parametrize("mesh", [True, False])
def test_only_the_near_half_of_a_sphere_is_seen(sphere: Sphere, mesh: bool) -> None:
    camera = look_at(sphere.points)
    raster = rasterise(sphere.points, sphere.faces if mesh else None, camera, 200)
    towards_eye = sphere.points @ camera.rotation[2]
    assert raster.interpolate(towards_eye).min() > (-0.02 if mesh else -0.15)
    np.testing.assert_allclose(np.asarray(raster.blend.sum(1)).ravel(), 1.0)
    # The silhouette of a sphere is a disc: it fills pi/4 of its square.
    y, x = np.divmod(raster.pixel, raster.width)
    covered = len(raster.pixel) / ((np.ptp(x) + 1) * (np.ptp(y) + 1))
    assert abs(covered - np.pi / 4) < 0.06


def test_interpolation_reproduces_linear_functions(sphere: Sphere) -> None:
    raster = rasterise(sphere.points, sphere.faces, look_at(sphere.points), 160)
    xyz = raster.interpolate(sphere.points)
    np.testing.assert_allclose(raster.interpolate(sphere.points @ [1.0, 2.0, -3.0]), xyz @ [1.0, 2.0, -3.0], atol=1e-12)
    assert np.all(np.linalg.norm(xyz, axis=1) < 1 + 1e-12)


def test_a_near_triangle_hides_a_far_one() -> None:
    corners = np.array([[-1.0, -1, 0], [1, -1, 0], [0, 1, 0]])
    points = np.concatenate([corners, corners * 0.9 + [0, 0, 0.5]])
    faces = np.array([[0, 1, 2], [3, 4, 5]])
    camera = look_at(points, azimuth=0.0, elevation=0.0, up="y")
    raster = rasterise(points, faces, camera, 120)
    which = raster.interpolate(np.repeat([0.0, 1.0], 3))
    middle = np.linalg.norm(raster.interpolate(points[:, :2]), axis=1) < 0.2
    np.testing.assert_allclose(which[middle], 1.0)


@pytest.mark.parametrize("shape", [(30, 1), (30, 2), (30, 3), (200, 12), (1, 3), (3, 2)])
def test_any_cloud_can_be_drawn(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    xyz = display_coordinates(rng.normal(size=shape))
    raster = rasterise(xyz, None, look_at(xyz), 80)
    image = raster.image(np.array([0.2, 0.4, 0.6]))
    assert image.shape[2] == 4
    assert np.isfinite(image).all()
    assert image[..., 3].max() == 1.0


def test_simplify_keeps_a_closed_looking_mesh(sphere: Sphere) -> None:
    rows, faces = simplify(sphere.points, sphere.faces, 200)
    assert 100 < len(rows) <= 200
    assert faces.max() < len(rows)
    assert len(faces) > 1.5 * len(rows)
    np.testing.assert_array_equal(thin(10, 20), np.arange(10))
    assert len(np.unique(thin(100, 20))) == 20


def test_bad_input_is_told() -> None:
    with pytest.raises(InputError, match=r"points must have shape \(n, d\)"):
        display_coordinates(np.zeros(3))
    with pytest.raises(InputError, match="faces must index 3 points"):
        as_faces([[0, 1, 3]], 3)
    with pytest.raises(InputError, match=r"shape \(f, 3\)"):
        as_faces([[0, 1]], 3)
    with pytest.raises(InputError, match="up must be"):
        look_at(np.eye(3), up="w")


def test_normals_of_a_cloud_point_outwards(rng: np.random.Generator) -> None:
    x = make_sphere(900).points[rng.permutation(900)]
    two = np.concatenate([x, 0.5 * x + [3.0, 0, 0]])
    normals, _ = cloud_normals(two)
    assert (normals * np.concatenate([x, x])).sum(1).min() > 0.9
    u, v = rng.uniform(0, 2 * np.pi, (2, 4000))
    outward = np.stack([np.cos(u) * np.cos(v), np.cos(u) * np.sin(v), np.sin(u)], 1)
    torus = np.stack([np.cos(v), np.sin(v), 0 * v], 1) + 0.4 * outward
    normals, _ = cloud_normals(torus)
    assert ((normals * outward).sum(1) > 0).mean() > 0.999
