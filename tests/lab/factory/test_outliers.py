"""Training of the network that tells outliers, on meshes that the test makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigenprobe_lab.factory.outliers import SAMPLINGS, examples, outliers, street, surface, train
from tests.meshes import blob, torus


@pytest.fixture(scope="module")
def meshes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("meshes") / "meshes.npz"
    shapes = {"blob": blob(9), "torus": torus(30, 14)}
    arrays = {f"{name}/{key}": a for name, pair in shapes.items() for key, a in zip("vf", pair)}
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("kind", SAMPLINGS[:6])
def test_every_sampling_lies_on_the_mesh(kind: str, rng: np.random.Generator) -> None:
    """Points of a sphere have its radius, but for noise."""
    v, f = blob(9)
    v = v / np.linalg.norm(v, axis=1, keepdims=True)
    x = surface(v, f, kind, 300, rng)
    radius = np.linalg.norm(x, axis=1)
    assert x.shape == (300, 3)
    assert radius.max() < (1.1 if kind == "noise" else 1 + 1e-9) and radius.min() > 0.85


def test_a_street_thins_out_with_distance(rng: np.random.Generator) -> None:
    x = street([rng.random((500, 3))] * 3, 2000, rng)
    assert np.isfinite(x).all() and np.ptp(x, axis=0).max() == pytest.approx(1)


def test_outliers_are_a_few_percent(rng: np.random.Generator) -> None:
    x = rng.random((1000, 3))
    assert 3 <= len(outliers(x, rng)) <= 60


def test_training_learns_what_is_off_the_surface(meshes: Path) -> None:
    """More than nine in ten of the suspects are told rightly after a short training."""
    inputs, labels = examples(meshes, False, 16, 0)
    found = train(inputs, labels, epochs=30)
    with torch.no_grad():
        told = found(inputs)[:, 0] > 0
    assert bool((labels > 0).any()) and float((told == (labels > 0)).double().mean()) > 0.9
