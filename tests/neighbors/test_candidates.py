"""Neighbours by candidates: those of a search in all columns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from eigenprobe.neighbors.candidates import nearest_others


@pytest.mark.parametrize("spectrum", ["steep", "flat"])
def test_neighbours_are_those_of_all_columns(spectrum: str, rng: np.random.Generator) -> None:
    """Also where a projection keeps nothing of them: then all columns are searched."""
    power = {"steep": -0.7, "flat": 0.0}[spectrum]
    x = (rng.normal(size=(5200, 210)) * np.arange(1, 211) ** power).astype(np.float32)
    near, lengths = nearest_others(torch.from_numpy(x), 8)
    exact, found = (
        NearestNeighbors(n_neighbors=9).fit(x).kneighbors(x[:400])[0][:, 1:],
        lengths[:400],
    )
    assert near.shape == lengths.shape == (5200, 8)
    assert bool((near != torch.arange(5200)[:, None]).all())
    assert np.mean(found.numpy() <= exact * 1.001 + 1e-3) > 0.98
