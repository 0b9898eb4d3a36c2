"""Visibility and interpolation of the software renderer, on shapes where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.viz.raster import rasterise
from eigenprobe.viz.scene import display_coordinates, look_at

from .conftest import Sphere


@pytest.mark.parametrize("mesh", [True, False])
def test_only_the_near_half_of_a_sphere_is_seen(sphere: Sphere, mesh: bool) -> None:
    camera = look_at(sphere.points)
    raster = rasterise(sphere.points, sphere.faces if mesh else None, camera, 200, sphere.points)
    towards_eye = sphere.points @ camera.rotation[2]
    assert raster.interpolate(towards_eye).min() > (-0.02 if mesh else -0.05)
    np.testing.assert_allclose(np.asarray(raster.blend.sum(1)).ravel(), 1.0)
    # The silhouette of a sphere is a disc: it fills pi/4 of its square.
    y, x = np.divmod(raster.pixel, raster.width)
    covered = len(raster.pixel) / ((np.ptp(x) + 1) * (np.ptp(y) + 1))
    assert abs(covered - np.pi / 4) < 0.06


def test_interpolation_reproduces_linear_functions(sphere: Sphere) -> None:
    raster = rasterise(sphere.points, sphere.faces, look_at(sphere.points), 160, sphere.points)
    xyz = raster.interpolate(sphere.points)
    np.testing.assert_allclose(
        raster.interpolate(sphere.points @ [1.0, 2.0, -3.0]), xyz @ [1.0, 2.0, -3.0], atol=1e-12
    )
    assert np.all(np.linalg.norm(xyz, axis=1) < 1 + 1e-12)


def test_a_near_triangle_hides_a_far_one() -> None:
    corners = np.array([[-1.0, -1, 0], [1, -1, 0], [0, 1, 0]])
    points = np.concatenate([corners, corners * 0.9 + [0, 0, 0.5]])
    faces = np.array([[0, 1, 2], [3, 4, 5]])
    camera = look_at(points, azimuth=0.0, elevation=0.0, up="y")
    raster = rasterise(points, faces, camera, 120, points)
    which = raster.interpolate(np.repeat([0.0, 1.0], 3))
    middle = np.linalg.norm(raster.interpolate(points[:, :2]), axis=1) < 0.2
    np.testing.assert_allclose(which[middle], 1.0)


@pytest.mark.parametrize("shape", [(30, 1), (30, 2), (30, 3), (200, 12), (1, 3), (3, 2)])
def test_any_cloud_can_be_drawn(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    xyz = display_coordinates(rng.normal(size=shape))
    raster = rasterise(xyz, None, look_at(xyz), 80, xyz)
    image = raster.image(np.array([0.2, 0.4, 0.6]))
    assert image.shape[2] == 4
    assert np.isfinite(image).all()
    assert image[..., 3].max() == 1.0
