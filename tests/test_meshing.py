"""Tests of `benchmarks.meshing`."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.meshing import mesh_field
from eigenprobe.geometry import is_closed
from eigenprobe_lab.shapes import Builder
from tests.lab.shapes.test_source import rng


def test_a_field_becomes_a_closed_mesh_of_its_zero_set():
    draw = rng(1)
    builder = Builder(draw)
    builder.capsule(draw.point(1, 0, 0), draw.point(1, 0, 1e-4), 0.4, revolved=True)
    field = builder.build(blend=1e-3)
    box = np.array([1.6, 1.6, 0.6])
    vertices, faces = mesh_field(field, -box, box, 24)
    assert is_closed(faces) == (True, "")
    assert len(vertices) - len(faces) * 3 // 2 + len(faces) == 0, "a torus"
    distance = np.hypot(np.hypot(*vertices[:, :2].T) - 1, vertices[:, 2])
    np.testing.assert_allclose(distance, 0.4, atol=2e-3)
    corners = vertices[faces]
    volume = np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6
    assert volume == pytest.approx(2 * np.pi**2 * 0.4**2, rel=0.03), "outward and of the right size"
    again = mesh_field(field, -box, box, 24)
    assert (again[0] == vertices).all() and (again[1] == faces).all()
