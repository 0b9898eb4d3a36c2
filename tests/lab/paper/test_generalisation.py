"""Tests of `paper.generalisation`: the paper's network on unseen shapes, trained its own way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.io.shapes import Shape
from eigenprobe.probes import Probes, nested_basis, prefix_errors
from eigenprobe.training import RunSettings
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.factory.recipes import run_recipe
from eigenprobe_lab.paper.generalisation import (
    GeneralisationRecipe,
    ProbedClouds,
    amortise,
    framed_sample,
)
from eigenprobe_lab.paper.overfit import best_of_probes
from tests.lab.paper.test_meshes import icosahedron

SMALL = {"clouds": 2, "points": 80, "k": 4, "chunk": 4, "renew": 2, "preset": "tiny"}


def test_batches_are_clouds_with_probes_of_their_own() -> None:
    source = ProbedClouds(
        GeneralisationRecipe(probes=Probes(30, steps=3, k=6, sigma=0.3, self_loops=True), **SMALL)
    )
    batch, again = source.at(0), source.at(0)
    assert batch.points.shape == (2, 80, 3) and torch.equal(batch.points, again.points)
    first, same, other = (batch.probes(torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert first.shape == (2, 80, 30) and torch.equal(first, same) and not torch.equal(first, other)
    assert not torch.equal(first[0], first[1])


def test_a_sample_is_seen_in_the_unit_sphere(rng: np.random.Generator) -> None:
    x = 7 + rng.normal(size=(50, 3))
    sample = Sample(
        Shape(x, None, "cloud"),
        x,
        rng.normal(size=(50, 4)),
        np.arange(4.0),
        np.arange(50),
        np.ones(50),
    )
    batch, vectors = framed_sample(sample)
    assert (
        float(batch.points.norm(dim=-1).max()) == 1
        and float(batch.points.mean(1).abs().max()) < 1e-6
    )
    np.testing.assert_array_equal(vectors.numpy(), sample.vectors)


def recipe_run(folder: Path, *changes: str) -> dict[str, Any]:
    """The recipe that a tiny run has written beside its weights."""
    from safetensors import safe_open

    small = [f"{name}={value}" for name, value in SMALL.items()]
    words = ["steps=2", "accumulate=1", *small, *changes]
    result = run_recipe("paper_generalisation", folder, words, device="cpu")
    assert (folder / "history.json").is_file()
    with safe_open(result, "pt") as file:
        return json.loads(file.metadata()["recipe"])


def test_the_recipe_writes_its_network(tmp_path: Path) -> None:
    facts = recipe_run(tmp_path / "a")
    assert facts["k"] == 4 and facts["norm"] == "after" and facts["even"] is True
    assert recipe_run(tmp_path / "b", "norm=before", "even=false")["norm"] == "before"
    with pytest.raises(InputError, match="another run"):
        recipe_run(tmp_path / "a", "norm=before", "steps=3")


def test_it_trains_on_a_file_of_meshes_and_goes_on(tmp_path: Path) -> None:
    vertices, faces = icosahedron()
    np.savez(tmp_path / "meshes.npz", **{"ball/v": vertices, "ball/f": faces})
    words = [f"training={tmp_path / 'meshes.npz'}"]
    assert recipe_run(tmp_path / "run", *words)["training"].endswith("meshes.npz")
    recipe_run(tmp_path / "run", *words, "steps=4")  # from the weights and moments of step 2
    state = torch.load(tmp_path / "run" / "last.ckpt", weights_only=True)
    assert state["global_step"] == 4


def test_training_lowers_the_loss_of_clouds_it_has_not_seen() -> None:
    """Towards that of the closed form of the probes."""
    probes = Probes(60, steps=10, k=8, sigma=0.4, self_loops=True)
    sizes = SMALL | {"points": 100, "k": 5, "clouds": 4, "chunk": 8, "renew": 4}
    recipe = GeneralisationRecipe(
        80, rate=0.01, probes=probes, accumulate=1, validate_every=0, **sizes
    )
    module, _ = amortise(recipe, RunSettings(device="cpu", logs=False))
    batch = ProbedClouds(replace(recipe, seed=1)).at(0)
    drawn = batch.probes(torch.Generator().manual_seed(0)).double()

    def loss(features: torch.Tensor) -> float:
        q = nested_basis(features.double())
        errors = prefix_errors(q, drawn, q[..., 0].square()).mean()
        return float(errors / drawn.square().sum(-2).mean())

    with torch.no_grad():
        untrained, trained = (loss(f(batch.points)) for f in (recipe.network(1), module.network))
    best = loss(torch.stack([best_of_probes(x, probes, 5) for x in batch.points]))
    assert untrained - trained > 0.1 * (untrained - best) > 0
