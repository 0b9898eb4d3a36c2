"""Graded samples have the density they are asked for, and the result forgives it."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.evaluation import resampling
from eigenprobe.evaluation.resampling import graded_sample
from eigenprobe.geometry import Shape, save
from tests.geometry.meshes import blob, cube


@pytest.mark.parametrize("spaced", [True, False])
def test_density_grows_along_the_longest_axis(spaced) -> None:
    vertices, faces = cube(8)
    shape = Shape(vertices * [1, 1, 6], faces)
    drawn = graded_sample(shape, 3000, 10.0, spaced=spaced)
    height = drawn.points[:, 2][(drawn.points[:, 2] > 0.3) & (drawn.points[:, 2] < 5.7)]
    low, high = ((height < 1.2).sum(), (height > 4.8).sum())
    assert high / low == pytest.approx(10 ** (4.5 / 6), rel=0.3)
    assert np.allclose(drawn.interpolate(shape, shape.vertices), drawn.points)


def test_spaced_samples_have_no_clumps() -> None:
    from scipy.spatial import cKDTree

    shape = Shape(*blob(10))
    gaps = [
        cKDTree(points).query(points, k=2)[0][:, 1]
        for points in (graded_sample(shape, 800, 1.0, spaced=spaced).points for spaced in (True, False))
    ]
    assert gaps[0].min() > 10 * gaps[1].min()


def test_uneven_rows(tmp_path) -> None:
    save(Shape(*blob(14)), tmp_path / "blob.off")
    row = resampling.run([tmp_path / "blob.off"], n=1200, k=10)[0]
    assert row["cosine_even"] > 0.97
    assert row["loss"] < 0.03
    assert row["mass_uneven"] > 0.9


def test_resampling_refuses(tmp_path) -> None:
    with pytest.raises(InputError, match="density ratio of at least 1"):
        graded_sample(Shape(*blob(3)), 10, 0.5)
    with pytest.raises(InputError, match="point cloud"):
        graded_sample(Shape(blob(3)[0]), 10)
    np.save(tmp_path / "cloud.npy", blob(3)[0])
    with pytest.raises(InputError, match="point cloud"):
        resampling.run([tmp_path / "cloud.npy"])
