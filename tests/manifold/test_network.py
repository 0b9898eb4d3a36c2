"""The network of an embedding: its function is the fitted one at fitted rows."""

from __future__ import annotations

import numpy as np
import torch

from eigenprobe import Eigenmaps
from eigenprobe.cloud.cloud import arrange
from eigenprobe.manifold import solvers as network
from eigenprobe.smoothers import neighbourhood_smoother


def test_a_network_is_its_vectors_at_fitted_points(rng: np.random.Generator) -> None:
    cloud = arrange(torch.from_numpy(rng.normal(size=(60, 3))), 8, 4)
    smoother = neighbourhood_smoother(cloud.graph)
    model = Eigenmaps(hidden_layer_sizes=(8,), max_iter=2, learning_rate=0.01)
    basis = network.fit_by_network(cloud, smoother, 3, 0, model)
    vectors = basis.normalized / basis.mass.sqrt()[:, None]
    torch.testing.assert_close(basis.extension(cloud.given), vectors, atol=1e-6, rtol=1e-5)
    points = basis.extension.inputs.points * cloud.frame.scale + cloud.frame.centre
    torch.testing.assert_close(points.double(), cloud.given.double(), atol=1e-6, rtol=0)
