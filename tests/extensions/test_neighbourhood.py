"""Values at new points from the neighbourhood smoother, against the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.extensions import neighbourhood
from eigenprobe.graph.arranged import arrange
from eigenprobe.smoothers.neighbourhood import neighbourhood_smoother


def test_new_points_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    cloud = arrange(torch.from_numpy(rng.normal(size=(60, 3))), 6, 4)
    smoother = neighbourhood_smoother(cloud.graph)
    mu, u = torch.linalg.eigh(smoother.matrix.to_dense().double())
    extension = neighbourhood.NeighbourhoodExtension.of(cloud, smoother, u[:, -4:], mu[-4:])
    new = torch.from_numpy(rng.normal(size=(9, 3)))
    whole, mass = extension.with_mass(new)
    for block in (1, 30, 100):
        monkeypatch.setattr(neighbourhood, "BLOCK", block)
        values, own = extension.with_mass(new)
        assert torch.equal(values, whole) and torch.equal(own, mass)
