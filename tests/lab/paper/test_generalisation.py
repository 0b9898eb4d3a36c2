"""Tests of `paper.generalisation`: the paper's network on unseen shapes, trained its own way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from eigenprobe.probes.probes import Probes
from eigenprobe.readers.shapes import Shape
from eigenprobe.training.recipes import run_recipe
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.paper.generalisation import GeneralisationRecipe, ProbedClouds, framed_sample

SMALL = {"clouds": 2, "points": 80, "k": 4, "chunk": 4, "renew": 2, "preset": "tiny"}


def test_batches_are_clouds_with_probes_of_their_own() -> None:
    source = ProbedClouds(GeneralisationRecipe(probes=Probes(30, steps=3, k=6, sigma=0.3, self_loops=True), **SMALL))
    batch, again = source.at(0), source.at(0)
    assert batch.points.shape == (2, 80, 3) and torch.equal(batch.points, again.points)
    first, same, other = (batch.probes(torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert first.shape == (2, 80, 30) and torch.equal(first, same) and not torch.equal(first, other)
    assert not torch.equal(first[0], first[1])


def test_a_sample_is_seen_in_the_unit_sphere(rng: np.random.Generator) -> None:
    x = 7 + rng.normal(size=(50, 3))
    sample = Sample(Shape(x, None, "cloud"), x, rng.normal(size=(50, 4)), np.arange(4.0), np.arange(50), np.ones(50))
    batch, vectors = framed_sample(sample)
    assert float(batch.points.norm(dim=-1).max()) == 1 and float(batch.points.mean(1).abs().max()) < 1e-6
    np.testing.assert_array_equal(vectors.numpy(), sample.vectors)


def test_the_recipe_writes_its_network(tmp_path: Path) -> None:
    from safetensors import safe_open

    changes = ["steps=2", "accumulate=1", *(f"{name}={value}" for name, value in SMALL.items())]
    result = run_recipe("paper_generalisation", tmp_path, changes, device="cpu")
    with safe_open(result, "pt") as file:
        facts = json.loads(file.metadata()["network"])
    assert facts["outputs"] == 4 and facts["kind"] == "transformer" and (tmp_path / "history.json").is_file()
