"""Tests of `evaluation.fitted`: its rows of the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.errors import InputError
from eigenprobe.io.shapes import Shape, save
from eigenprobe_lab.evaluation.fitted import SETTINGS, learn_shape
from eigenprobe_lab.evaluation.samples import Sample, fitted_network
from tests.meshes import blob


def test_rows_of_a_shape(tmp_path) -> None:
    save(Shape(*blob(9)), tmp_path / "blob.obj")
    sample = Sample.of_file(tmp_path / "blob.obj", 200, 6, 0)
    rows, basis = learn_shape(sample, 6, replace(SETTINGS, resamplings=1, size=150, steps=20))
    assert [row["method"] for row in rows] == ["feedforward", "ritz", "closed form"]
    assert basis.k == 6 and basis.n == len(sample.shape.vertices) and rows[0]["steps"] == 20
    assert 0 < rows[0]["optimum"] < rows[0]["loss"]
    assert rows[1]["cosine_6"] > 0.5 and rows[2]["cosine_6"] > 0.9


def test_only_a_fitted_network_is_one() -> None:
    basis = ep.decompose(np.random.default_rng(0).normal(size=(60, 3)), k=3)
    with pytest.raises(
        InputError, match="expected a basis of a fitted network, got one of method 'direct'"
    ):
        fitted_network(basis)
