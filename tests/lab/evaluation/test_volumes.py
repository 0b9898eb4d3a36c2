"""Interior samples: dimension three, the Neumann spectra of cube and ball, and the evaluation of solids."""

from __future__ import annotations

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.geometry import sample_volume
from eigenprobe.readers.shapes import Shape, save
from eigenprobe_lab.evaluation import surfaces
from eigenprobe_lab.evaluation.surfaces import Measure
from tests.meshes import blob, cube
from tests.spectra import cube_neumann

N = 3000


@pytest.fixture(scope="module")
def cube_points() -> np.ndarray:
    return sample_volume(cube(1), N, seed=0, spread=True)


def test_the_cube(cube_points) -> None:
    basis = ep.decompose(cube_points, k=11)
    exact = cube_neumann(11)
    assert basis.info["dimension"] == pytest.approx(3, abs=0.3)
    assert np.abs(basis.eigenvalues[1:] / exact[1:] - 1).mean() < 0.1
    # Three, three, one, three vectors share an eigenvalue: compare as subspaces.
    one, two = np.cos(np.pi * cube_points), np.cos(2 * np.pi * cube_points)
    pairs = np.stack([one[:, a] * one[:, b] for a, b in ((0, 1), (0, 2), (1, 2))], axis=1)
    groups = ((1, 4, one), (4, 7, pairs), (7, 8, one.prod(1, keepdims=True)), (8, 11, two))
    for start, stop, waves in groups:
        ours, theirs = np.linalg.qr(basis.vectors[:, start:stop])[0], np.linalg.qr(waves)[0]
        assert np.linalg.svd(ours.T @ theirs, compute_uv=False).min() > 0.95, (start, stop)


def test_the_evaluation_of_a_solid(tmp_path) -> None:
    save(Shape(*blob(10)), tmp_path / "blob.off")
    vertices, faces = cube(2)
    save(Shape(vertices, faces[1:]), tmp_path / "open.off")
    tables = [
        surfaces.run([tmp_path], Measure(["direct"], 1500, 10, volume=True, seed=seed)).write(
            tmp_path / "out", "volumes"
        )
        for seed in range(4)
    ]
    found = tables[0]
    # Single samples have .87 to .97.
    assert np.mean([table.rows[0]["cosine_10"] for table in tables]) > 0.91
    assert found.rows[0]["dimension"] == pytest.approx(3, abs=0.3)
    assert "closed mesh" in found.failed["open.off"]
    assert (tmp_path / "out" / "volumes.json").exists()
