"""Tests of `viz.scene`: from points (n, d) to something a camera can look at."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.viz.scene import as_faces, cloud_normals, display_coordinates, display_rows, look_at, thin

from .conftest import Sphere, make_sphere


def test_fewer_rows_keep_a_closed_looking_mesh(sphere: Sphere) -> None:
    rows, faces = display_rows(sphere.points, sphere.faces, 200)
    assert faces is not None
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
