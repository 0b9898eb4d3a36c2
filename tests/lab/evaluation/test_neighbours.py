"""The table of neighbours on small meshes: ways side by side, and mesh distances against Dijkstra
over all vertices.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from eigenprobe.errors import InputError
from eigenprobe.io.shapes import Shape, save
from eigenprobe_lab.evaluation.neighbours import (
    WAYS,
    NeighbourMeasure,
    compare_neighbours,
    mesh_distances,
)
from tests.meshes import blob, torus


def test_mesh_distances() -> None:
    vertices, faces = torus(20, 10)
    dense = np.zeros((len(vertices), len(vertices)))
    for a, b in [(0, 1), (1, 2), (2, 0)]:
        length = np.linalg.norm(vertices[faces[:, a]] - vertices[faces[:, b]], axis=1)
        dense[faces[:, a], faces[:, b]] = dense[faces[:, b], faces[:, a]] = length
    exact = dijkstra(csr_array(dense), directed=False)
    rows = np.arange(0, len(vertices), 3)
    neighbours = np.stack([(np.arange(len(rows)) + step) % len(rows) for step in (1, 5, 20)], 1)
    found = mesh_distances(Shape(vertices, faces), rows, neighbours, block=7)
    np.testing.assert_allclose(found, np.take_along_axis(exact[rows], rows[neighbours], 1))


def test_the_table(tmp_path) -> None:
    save(Shape(*torus(30, 14)), tmp_path / "torus.off")
    save(Shape(*blob(9)), tmp_path / "blob.obj")
    report = compare_neighbours([tmp_path], NeighbourMeasure((200,), (0.0, 0.01))).write(
        tmp_path / "out", "neighbours"
    )
    assert len(report.rows) == 2 * 2 * len(WAYS)
    clean = {(row["shape"], row["neighbours"]): row for row in report.rows if not row["noise"]}
    for shape in ("torus", "blob"):  # nothing to cut: the three ways agree
        plain, learned, cut = (clean[shape, way]["cosine_10"] for way in WAYS[:3])
        assert learned == pytest.approx(plain, abs=0.05) and cut == pytest.approx(plain, abs=0.05)
    text = (tmp_path / "out" / "neighbours.md").read_text()
    assert (
        "n = 200, noise 0.01" in text and "worst:" in text and "plain: without the network" in text
    )


def test_bad_input() -> None:
    with pytest.raises(InputError, match="more than 50 points"):
        NeighbourMeasure((40,))
    with pytest.raises(InputError, match="noise of at least 0"):
        NeighbourMeasure((200,), (-0.1,))
