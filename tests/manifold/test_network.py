"""Tests of `estimators.network`: context features and the training of an embedding."""

from __future__ import annotations

import numpy as np
import torch

from eigenprobe.cloud.arranged import arrange
from eigenprobe.manifold import network


def test_a_network_of_several_subsets_is_defined_on_the_first(rng: np.random.Generator) -> None:
    clouds = [arrange(torch.from_numpy(rng.normal(size=(n, 3))), 8, 4) for n in (60, 45)]
    basis = network.fit_by_network(clouds, 3, 0, network.Training((8,), 2, 0.01, {}))
    assert basis.n == 60 and basis.info["subsets"] == 2
    vectors = basis.normalized / basis.mass.sqrt()[:, None]
    torch.testing.assert_close(basis.extension(clouds[0].given), vectors, atol=1e-6, rtol=1e-5)
    points = basis.extension.context.points * clouds[0].frame.scale + clouds[0].frame.centre
    torch.testing.assert_close(points.double(), clouds[0].given.double(), atol=1e-6, rtol=0)
