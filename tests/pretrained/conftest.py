"""A tiny model, some clouds, and the mark of tests that need the shipped weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.host.weights import drawing
from eigenprobe.networks.spectral import SpectralConfig, SpectralNetwork
from eigenprobe.networks.store import packaged
from eigenprobe.pretrained.model import SpectralModel
from eigenprobe_lab.shapes import ProceduralShapes

SMALL = SpectralConfig(
    outputs=16, width=32, layers=2, heads=2, feedforward=32, point=(16,), shape=16
)


shipped = pytest.mark.skipif("surface" not in packaged(), reason="the package has no weights yet")


@pytest.fixture(scope="module")
def clouds() -> torch.Tensor:
    return ProceduralShapes(seed=11, families=["quadruped", "tree"]).draw(3, 300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("model") / "tiny"
    with drawing(0):
        network = SpectralNetwork(SMALL)
    SpectralModel(network, {"recipe": {"seed": 3}}).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def model(folder) -> SpectralModel:
    return SpectralModel.from_pretrained(folder)


def ball(n: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True) * rng.random((n, 1)) ** (1 / 3)
