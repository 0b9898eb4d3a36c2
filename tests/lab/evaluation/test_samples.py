"""Samples of meshes: points are vertices, the oracle is read off at them, a file gives them
back.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.io.shapes import Shape
from eigenprobe_lab.evaluation.samples import Sample, agreement
from tests.meshes import blob


def test_a_sample_agrees_with_its_own_oracle_and_comes_back_from_its_file(tmp_path: Path) -> None:
    shape = Shape(*blob(), "blob")
    sample = Sample.on_surface(shape, 150, 6, 0)
    assert sample.indices is not None
    np.testing.assert_array_equal(sample.points, shape.vertices[sample.indices])
    found = agreement(sample.compare(sample.vectors, sample.eigenvalues), (6,))
    assert found["cosine_6"] == pytest.approx(1) and found["discrepancy"] == pytest.approx(
        0, abs=1e-9
    )
    sample.save(tmp_path / "blob.npz")
    again = Sample.of_file(tmp_path / "blob.npz", 0, 4, 0)
    np.testing.assert_allclose(again.points, sample.points, atol=1e-6)
    np.testing.assert_allclose(again.vectors, sample.vectors[:, :4], atol=1e-5)
    np.testing.assert_allclose(again.areas, sample.areas, rtol=1e-5)
    with pytest.raises(InputError, match="holds 6 vectors"):
        Sample.load(tmp_path / "blob.npz", 7)
    with pytest.raises(InputError, match="expected a mesh with faces, got a point cloud"):
        Sample.on_surface(Shape(shape.vertices, None, "cloud"), 50, 4, 0)
