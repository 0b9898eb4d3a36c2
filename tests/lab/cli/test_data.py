"""The commands that prepare data: oracles of meshes, features of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.cli.conftest import Run, done
from tests.playground import write_vision_model


def test_cache(run: Run) -> None:
    assert "2 prepared" in done(run("cache meshes -k 8 --jobs 1 --out oracles"))
    assert "2 already there" in done(run("cache meshes -k 8 --jobs 1 --out oracles"))


def test_features(run: Run) -> None:
    write_vision_model(Path("weights"))
    out = done(run("features photos --model weights --batch 4 --out f"), "f/features.npz")
    assert "eigenprobe embed f/features.npz" in out
    with np.load("f/features.npz") as arrays:
        assert arrays["features"].shape == (6, 32) and arrays["labels"].shape == (6,)
