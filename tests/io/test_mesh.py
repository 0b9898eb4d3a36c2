"""Areas, closedness, checks."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.geometry import face_areas, is_closed, vertex_areas
from eigenprobe.io.mesh import as_mesh
from tests.meshes import cube, sphere, tetrahedron, torus


def test_areas_of_a_cube() -> None:
    vertices, faces = cube(3, side=2.0)
    assert face_areas(vertices, faces).sum() == pytest.approx(24)
    assert vertex_areas(vertices, faces).sum() == pytest.approx(24)
    assert len(vertices) == 6 * 9 + 2


@pytest.mark.parametrize("mesh", [tetrahedron(), cube(2), sphere(3), torus(12, 8)])
def test_closed_meshes_are_closed(mesh) -> None:
    vertices, faces = mesh
    assert is_closed(faces) == (True, "")
    corners = vertices[faces]
    volume = np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum()
    assert volume > 0, "faces are turned outward"


def test_a_hole_and_a_turned_face_are_found() -> None:
    faces = cube(2)[1]
    closed, reason = is_closed(faces[1:])
    assert not closed
    assert "3 boundary" in reason
    turned = faces.copy()
    turned[0] = turned[0, ::-1]
    assert not is_closed(turned)[0]
    # Two closed surfaces that share vertices are closed all the same.
    assert is_closed(np.concatenate([faces, faces]))[0]


@pytest.mark.parametrize(
    ("vertices", "faces", "message"),
    [
        (np.zeros((3, 2)), [[0, 1, 2]], r"vertices must have shape \(v, 3\), got \(3, 2\)"),
        (np.zeros((3, 3)), np.zeros((0, 3), int), "at least one face"),
        (np.zeros((3, 3)), [[0.0, 1.0, 2.0]], "must be integers"),
        (np.zeros((3, 3)), [[0, 1, 3]], "indices 0 to 3"),
        (np.full((3, 3), np.nan), [[0, 1, 2]], "vertex 0 is"),
        (np.zeros((3, 3)), None, "point cloud"),
    ],
)
def test_bad_meshes_are_named(vertices, faces, message) -> None:
    with pytest.raises(InputError, match=message):
        as_mesh((vertices, faces))


def test_not_a_mesh_at_all() -> None:
    with pytest.raises(
        InputError, match="a mesh, or an object with vertices, points or pos, got int"
    ):
        as_mesh(3)
