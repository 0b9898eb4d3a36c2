"""Tests of `viz.scene`: from points (n, d) to something a camera can look at."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from eigenprobe.errors import InputError
from eigenprobe.viz.scene import as_faces, display_coordinates, look_at, surface_triangles, thin

from .conftest import make_sphere


def vertex_normals(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    crosses = trimesh.triangles.cross(points[faces])
    return trimesh.geometry.mean_vertex_normals(len(points), faces, crosses)


def test_fewer_rows() -> None:
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


def test_triangles_of_a_sampled_surface_are_turned_alike(rng: np.random.Generator) -> None:
    x = make_sphere(900).points[rng.permutation(900)]
    two = np.concatenate([x, 0.5 * x + [3.0, 0, 0]])
    faces = surface_triangles(two)
    assert faces is not None and len(np.unique(np.sort(faces, 1), axis=0)) == len(faces)
    outwards = (vertex_normals(two, faces) * np.concatenate([x, x])).sum(1).reshape(2, 900)
    assert (np.abs(outwards) > 0.9).all() and (np.ptp(np.sign(outwards), axis=1) == 0).all()
    u, v = rng.uniform(0, 2 * np.pi, (2, 4000))
    outward = np.stack([np.cos(u) * np.cos(v), np.cos(u) * np.sin(v), np.sin(u)], 1)
    torus = np.stack([np.cos(v), np.sin(v), 0 * v], 1) + 0.4 * outward
    faces = surface_triangles(torus)
    assert faces is not None
    share = ((vertex_normals(torus, faces) * outward).sum(1) > 0).mean()
    assert max(share, 1 - share) > 0.99


def test_triangles_of_random_points_leave_no_holes_and_no_outlier_has_any(
    rng: np.random.Generator,
) -> None:
    x = rng.normal(size=(2000, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    faces = surface_triangles(np.concatenate([x, rng.uniform(-3, 3, size=(20, 3))]))
    assert faces is not None and not ((faces >= 2000).any(1) & (faces < 2000).any(1)).any()
    edges = np.sort(faces[(faces < 2000).all(1)][:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    sides = np.unique(edges, axis=0, return_counts=True)[1]
    assert (sides == 1).mean() < 0.02 and len(faces) < 2.2 * 2000  # 2 n - 4 of a closed one


def test_volumes_curves_and_planes_have_no_triangles(rng: np.random.Generator) -> None:
    t = np.linspace(0, 6, 3000)[:, None]
    plane = np.pad(rng.random((300, 2)), ((0, 0), (0, 1)))
    for x in (rng.random((500, 3)), np.hstack([np.cos(t), np.sin(t), 0.1 * t]), plane, np.eye(3)):
        assert surface_triangles(x) is None
