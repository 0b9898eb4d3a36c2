"""The virtual scanner against what geometry says that it must see: spheres, squares, grids of
rays.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from eigenprobe.io.mesh import face_areas
from eigenprobe_lab.evaluation import scanner
from eigenprobe_lab.evaluation.scanner import DISTANCE, View
from tests.meshes import sphere

N = 1500


@pytest.fixture(scope="module")
def ball():
    return sphere(24)


def square(z: float, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    vertices = np.array([[low, -1, z], [high, -1, z], [high, 1, z], [low, 1, z]], float)
    return vertices, np.array([[0, 1, 2], [0, 2, 3]])


def two_squares(front: float, back: float, half: bool) -> tuple[np.ndarray, np.ndarray]:
    """Faces 0 and 1 at depth ``front`` (of the left half only, perhaps), 2 and 3 at ``back``, seen
    along z from 0.
    """
    first, second = square(front, -1, 0 if half else 1), square(back, -1, 1)
    return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1] + 4])


def test_a_camera_sees_the_near_cap_of_a_sphere(ball, rng) -> None:
    (view,) = scanner.around(ball, 1, rng)
    assert np.linalg.norm(view.eye) == pytest.approx(DISTANCE, rel=1e-3)
    assert np.allclose(view.axes @ view.axes.T, np.eye(3)) and np.linalg.det(
        view.axes
    ) == pytest.approx(1)
    scan = scanner.scanned(ball, N, [view], rng)
    assert len(scan.points) == pytest.approx(N, rel=0.02) and scan.surface.all()
    radius = np.linalg.norm(scan.points, axis=1)
    assert radius.max() < 1 + 1e-6 and radius.min() > 0.995  # chords of the mesh
    toward = scan.points @ view.eye / np.linalg.norm(view.eye)
    assert toward.min() > 1 / DISTANCE - 0.02  # behind the tangent cone nothing is seen
    assert toward.max() > 0.995
    cosine = ((view.eye - scan.points) * scan.points).sum(1)
    assert cosine.min() > -0.05  # every surface seen faces the eye
    assert np.allclose(scan.points, scan.places, atol=1e-5)


@pytest.mark.parametrize("ratio", [1.0, 2.0, 8.0])
def test_rings_are_so_many_times_as_far_apart(ball, rng, ratio) -> None:
    (view,) = scanner.around(ball, 1, rng, ratio=ratio)
    scan = scanner.scanned(ball, N, [view], rng)
    right, up, forward = ((scan.points - view.eye) @ view.axes.T).T
    azimuth, elevation = np.arctan2(right, forward), np.arctan2(up, np.hypot(right, forward))
    rings = np.unique(elevation.round(4))
    middle = np.abs(elevation - rings[len(rings) // 2]) < 1e-3
    on_ring = np.median(np.diff(np.sort(azimuth[middle])))
    assert np.median(np.diff(rings)) / on_ring == pytest.approx(ratio, rel=0.02)


def test_the_nearest_hit_wins(rng) -> None:
    mesh = two_squares(2.0, 2.5, half=False)
    scan = View(np.zeros(3), np.eye(3)).scan(mesh, 0.03, rng)
    inside = np.abs(scan.points[:, :2] / scan.points[:, 2:]).max(1) < 0.5 - 1e-6
    assert inside.sum() > 500 and set(scan.faces[inside]) == {0, 1}
    assert np.allclose(scan.points[inside, 2], 2, atol=1e-5)
    assert list(scanner.visible(mesh, np.zeros(3))) == [True, True, False, False]
    assert list(scanner.visible(mesh, np.array([0, 0, 9.0]))) == [False, False, True, True]


def test_one_side_is_the_visible_cap(ball, rng) -> None:
    scan = scanner.one_sided(ball, N, rng)
    vertices, faces = scan.mesh
    assert face_areas(vertices, faces).sum() == pytest.approx(
        2 * np.pi * (1 - 1 / DISTANCE), rel=0.02
    )
    assert len(np.unique(faces)) == len(vertices)
    axis = scan.places.mean(0)
    assert (vertices @ axis / np.linalg.norm(axis)).min() > 1 / DISTANCE - 0.05
    assert np.allclose(scan.points, scan.places, atol=1e-5)
    assert N * 0.9 < len(scan.points) < N * 1.05


def test_flying_pixels_lie_between_the_two_depths() -> None:
    mesh = two_squares(1.5, 3.0, half=True)
    view = View(np.zeros(3), np.eye(3), flying=1.0)
    scan = view.scan(mesh, 0.02, np.random.default_rng(5))
    flying = ~scan.surface
    rows = len(np.unique((scan.points[:, 1] / scan.points[:, 2] / 0.02).round()))
    assert 0.3 * rows < flying.sum() <= rows  # one per row of the image that crosses the edge
    assert ((scan.points[flying, 2] > 1.5) & (scan.points[flying, 2] < 3.0)).all()
    assert np.ptp(scan.points[flying, 2]) > 0.5
    assert np.allclose(scan.points[scan.surface], scan.places, atol=1e-5)
    still = View(np.zeros(3), np.eye(3)).scan(mesh, 0.02, np.random.default_rng(5))
    assert still.surface.all() and len(still.points) == len(scan.points)


def test_misregistration_moves_views_as_rigid_bodies(ball, rng) -> None:
    scan = scanner.scanned(ball, 400, scanner.around(ball, 6, rng), rng)
    moved = scanner.misregistered(scan, 0.05, rng)
    shifts = []
    for view in range(6):
        own = scan.views == view
        assert np.allclose(pdist(moved.points[own]), pdist(scan.points[own]))
        shifts.append((moved.points[own] - scan.points[own]).mean(0))
    assert pdist(shifts).min() > 1e-3
    assert np.sqrt(np.square(moved.points - scan.points).sum(1).mean()) < 0.2
    assert np.allclose(scanner.misregistered(scan, 0.0, rng).points, scan.points)
    assert np.array_equal(moved.faces, scan.faces)


def test_voxels_are_centres_of_cubes_at_the_nearest_place(ball, rng) -> None:
    scan = scanner.voxels(ball, 16, rng)
    side = 2 / 16
    assert np.allclose(scan.points / side % 1, 0.5)
    assert len(np.unique(scan.points, axis=0)) == len(scan.points)
    away = np.linalg.norm(scan.points - scan.places, axis=1)
    assert away.max() <= side * np.sqrt(3) / 2 + 1e-9
    aside = np.sqrt(
        np.maximum(away**2 - (np.linalg.norm(scan.points, axis=1) - 1) ** 2, 0)
    )  # of the foot of the normal
    assert aside.mean() < 0.15 * side and aside.max() < 0.5 * side
    assert np.allclose(scan.barycentric.sum(1), 1) and scan.barycentric.min() > -1e-9
    crossed = np.unique(np.floor(ball[0] / side), axis=0)
    assert len(scan.points) >= len(crossed)


def test_a_mesh_that_no_ray_meets(rng) -> None:
    from eigenprobe.errors import InputError

    sliver = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]), np.array([[0, 1, 2]])
    with pytest.raises(InputError, match="no ray"):
        scanner.scanned(sliver, 10, scanner.around(sliver, 6, rng), rng)
