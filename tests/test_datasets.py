"""The sample shape and table: they are there, and what their docstrings say."""

from __future__ import annotations

import numpy as np

import eigenprobe as ep


def test_the_creature_is_a_closed_surface_of_one_part() -> None:
    shape = ep.datasets.creature()
    assert shape.vertices.shape == (2618, 3) and shape.faces.shape == (5232, 3)
    assert ep.geometry.is_closed(shape.faces)[0]
    assert 1.5 < np.ptp(shape.vertices, axis=0).max() < 3
    values = ep.decompose(shape.vertices, k=3).eigenvalues
    assert abs(values[0]) < 1e-6 < 0.5 < values[1]


def test_digits_are_a_table_with_labels() -> None:
    table = ep.datasets.digits()
    assert table.features.shape == (1797, 64) and table.features.max() == 16
    assert np.unique(table.labels).tolist() == list(range(10))
