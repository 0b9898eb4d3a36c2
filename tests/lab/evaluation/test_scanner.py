"""The virtual scanner against what geometry says that it must see: spheres, squares, grids of rays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

from eigenprobe.readers.mesh import face_areas
from eigenprobe_lab.evaluation import scanner
from eigenprobe_lab.evaluation.scanner import DISTANCE, View
from tests.meshes import blob, sphere

N = 1500


@pytest.fixture(scope="module")
def ball():
    return sphere(24)


def square(z: float, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    vertices = np.array([[low, -1, z], [high, -1, z], [high, 1, z], [low, 1, z]], float)
    return vertices, np.array([[0, 1, 2], [0, 2, 3]])


def two_squares(front: float, back: float, half: bool) -> tuple[np.ndarray, np.ndarray]:
    """Faces 0 and 1 at depth ``front`` (of the left half only, perhaps), 2 and 3 at ``back``, seen along z from 0."""
    first, second = square(front, -1, 0 if half else 1), square(back, -1, 1)
    return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1] + 4])


def test_a_camera_sees_the_near_cap_of_a_sphere(ball, rng) -> None:
    (view,) = scanner.around(ball, 1, rng)
    assert np.linalg.norm(view.eye) == pytest.approx(DISTANCE, rel=1e-3)
    assert np.allclose(view.axes @ view.axes.T, np.eye(3)) and np.linalg.det(view.axes) == pytest.approx(1)
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


def test_a_camera_is_a_square_grid_of_its_image(ball, rng) -> None:
    (view,) = scanner.around(ball, 1, rng)
    scan = view.scan(ball, 0.02, rng)
    right, up, forward = ((scan.points - view.eye) @ view.axes.T).T
    for pixel in (right / forward / 0.02, up / forward / 0.02):
        away = pixel - pixel[0]
        assert np.allclose(away, away.round(), atol=1e-3)


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


def test_six_views_cover_a_sphere(ball, rng) -> None:
    scan = scanner.scanned(ball, N, scanner.around(ball, 6, rng), rng)
    assert len(scan.points) == pytest.approx(N, rel=0.02)
    assert set(scan.views) == set(range(6))
    spacing = np.sqrt(4 * np.pi / N)
    assert cKDTree(scan.points).query(ball[0])[0].max() < 2 * spacing


def test_areas_sum_to_the_area(ball, rng) -> None:
    scan = scanner.scanned(ball, N, scanner.around(ball, 6, rng, ratio=4.0), rng)
    areas = scan.areas()
    assert areas.shape == (len(scan.points),) and areas.min() >= 0
    assert areas.sum() == pytest.approx(face_areas(*ball).sum())
    assert areas @ scan.places == pytest.approx(np.zeros(3), abs=0.02)  # the centre of the sphere


def test_one_side_is_the_visible_cap(ball, rng) -> None:
    scan = scanner.one_sided(ball, N, rng)
    vertices, faces = scan.mesh
    assert face_areas(vertices, faces).sum() == pytest.approx(2 * np.pi * (1 - 1 / DISTANCE), rel=0.02)
    assert len(np.unique(faces)) == len(vertices)
    axis = scan.places.mean(0)
    assert (vertices @ axis / np.linalg.norm(axis)).min() > 1 / DISTANCE - 0.05
    assert np.allclose(scan.points, scan.places, atol=1e-5)
    assert N * 0.9 < len(scan.points) < N * 1.05


def test_one_side_keeps_the_largest_piece(rng) -> None:
    one, other = sphere(8), sphere(8)
    both = np.concatenate([one[0], 0.3 * other[0] + [0, 0, 2.5]]), np.concatenate([one[1], other[1] + len(one[0])])
    scan = scanner.one_sided(both, 400, rng, ratio=2.0)
    assert np.linalg.norm(scan.mesh[0], axis=1).max() < 1 + 1e-9
    assert np.linalg.norm(scan.points, axis=1).max() < 1 + 1e-5


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


def test_noise_is_in_radii(rng) -> None:
    vertices, faces = sphere(12)
    scan = scanner.drawn((7 * vertices + 3, faces), 4000, rng)
    offsets = scanner.noisy(scan, 0.01, rng).points - scan.points
    assert offsets.std(0) == pytest.approx(np.full(3, 0.07), rel=0.05)
    assert scanner.centre_and_radius(scan.mesh[0])[1] == pytest.approx(7, rel=1e-3)


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


def test_a_step_of_density(rng) -> None:
    scan = scanner.stepped(sphere(24), 20_000, 100.0, rng)
    middle = scan.points.mean(0)
    dense = (scan.points @ middle > 0).mean()
    assert dense == pytest.approx(100 / 101, abs=0.01)


def test_even_points_are_spread(ball, rng) -> None:
    scan, loose = scanner.even(ball, 800, rng), scanner.drawn(ball, 800, rng)
    nearest = [cKDTree(each.points).query(each.points, 2)[0][:, 1].min() for each in (scan, loose)]
    assert nearest[0] > 0.5 * np.sqrt(4 * np.pi / 800) > 3 * nearest[1]


def test_what_is_added_is_on_no_surface(rng) -> None:
    mesh = blob(8)
    scan = scanner.drawn(mesh, 500, rng)
    centre, radius = scanner.centre_and_radius(mesh[0])
    low, high = mesh[0].min(0), mesh[0].max(0)
    added = {
        "strays": (scanner.with_strays(scan, 0.1, rng), 50),
        "blobs": (scanner.with_blobs(scan, rng), 80),
        "floor": (scanner.with_floor(scan, rng), 2000),
    }
    for damaged, count in added.values():
        assert len(damaged.points) == 500 + count and damaged.surface.sum() == 500
        assert np.array_equal(damaged.places, scan.places)
    extra = {name: damaged.points[500:] for name, (damaged, _) in added.items()}
    assert (np.abs(extra["strays"] - (low + high) / 2) <= 0.55 * (high - low) + 1e-12).all()
    assert np.linalg.norm(extra["blobs"] - centre, axis=1).min() > radius
    assert np.ptp(extra["blobs"][:40], axis=0).max() < 0.3 * radius
    assert np.allclose(extra["floor"][:, 1], low[1])
    order = rng.permutation(580)
    mixed = added["blobs"][0].take(order)
    assert np.array_equal(mixed.surface, order < 500)
    assert np.allclose(mixed.interpolate(mesh[0]), mixed.points[mixed.surface])


def test_a_floor_can_be_removed(rng) -> None:
    vertices, faces = sphere(12)
    standing = scanner.with_floor(scanner.even((vertices + [0, 0.2, 0], faces), 600, rng), rng)
    left = scanner.without_plane(standing)
    assert left.surface.all()  # no point of the floor is left ...
    assert 500 < len(left.points) <= 600  # ... and of the ball no more is gone than what is near the floor
    gone = set(map(tuple, standing.points[standing.surface])) - set(map(tuple, left.points))
    assert all(point[1] < 0.2 - 0.8 for point in gone)


def test_a_mesh_that_no_ray_meets(rng) -> None:
    from eigenprobe.errors import InputError

    sliver = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]), np.array([[0, 1, 2]])
    with pytest.raises(InputError, match="no ray"):
        scanner.scanned(sliver, 10, scanner.around(sliver, 6, rng), rng)
