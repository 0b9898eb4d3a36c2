"""Tests of `paper.images_recipe`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from eigenprobe.basis import Basis
from eigenprobe.probes.objective import expected_errors, first_mass
from eigenprobe.training import RunSettings
from eigenprobe_lab.evaluation.clustering import METRICS
from eigenprobe_lab.evaluation.samples import fitted_network
from eigenprobe_lab.factory import recipes
from eigenprobe_lab.paper import images_recipe
from eigenprobe_lab.paper.images import Protocol
from eigenprobe_lab.paper.images_recipe import ImagesRecipe, closed_form, learn_rows
from eigenprobe_lab.paper.overfit import covariance

RECIPE = Path(__file__).parents[3] / "src" / "eigenprobe_lab" / "recipes" / "paper_images.yaml"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    x, y = make_blobs(240, 70, centers=4, cluster_std=4.0, random_state=0)
    np.savez(tmp_path / "blobs.npz", features=x.astype(np.float16), labels=y)
    return tmp_path / "blobs.npz"


def test_the_recipe_runs_and_embeds_other_rows_in_one_pass(tmp_path: Path, table: Path) -> None:
    changes = [
        f"features={table}",
        "dataset=stl10",
        "sample=100",
        "steps=3",
        "accumulate=1",
        "probes=20",
    ]
    changes += ["width=16", "heads=4", "vectors=4"]
    path = recipes.run_recipe(RECIPE, tmp_path / "run", changes, device="cpu")
    basis = Basis.load(path)
    with np.load(table) as stored:
        rows, labels = stored["features"].astype(np.float32), stored["labels"]
    assert np.asarray(basis(rows)).shape == (240, 4)
    assert np.isfinite(np.asarray(basis(rows))).all()
    coordinates = images_recipe.feed_forward(basis, rows)
    assert coordinates.shape == (240, 3) and np.isfinite(coordinates).all()
    recipe, scores = images_recipe.tune(images_recipe.ImagesRecipe(vectors=4), rows, labels)
    assert len(scores) == len(images_recipe.GRID) and max(row["nmi"] for row in scores) > 0.9
    given = {
        "paper": partial(images_recipe.feed_forward, basis),
        "probes": partial(images_recipe.closed_form, recipe),
    }
    protocol = Protocol(1, 100, (2,), ["paper", "probes", "laplacian", "laplacian_sphere"])
    records = protocol.records(rows, labels, fitted=given)
    assert [record["method"] for record in records] == list(
        protocol.methods
    ) and "error" not in str(records)
    assert set(METRICS) <= set(records[0])


def test_training_lowers_the_loss_towards_that_of_the_closed_form() -> None:
    x, _ = make_blobs(150, 70, centers=4, cluster_std=4.0, random_state=0)
    x = torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True))
    sizes = {"width": 32, "heads": 4, "vectors": 5, "probes": 40, "sample": 150, "accumulate": 1}
    recipe = ImagesRecipe(neighbours=8, sigma=0.4, smoothing_steps=10, steps=60, rate=3e-3, **sizes)
    exact = covariance(x, recipe.probe_distribution())

    def loss(features: torch.Tensor) -> float:
        errors = expected_errors(features, exact.matmul, exact.trace(), first_mass(features))
        return float(errors.mean() / exact.trace())

    def learned(recipe: ImagesRecipe) -> float:
        basis = learn_rows(recipe, x.float(), RunSettings(device="cpu", logs=False))
        function = fitted_network(basis)
        with torch.no_grad():
            return loss(function.network(function.inputs(x.float())[None])[0].double())

    vectors = torch.from_numpy(closed_form(recipe, x.numpy()))
    best = loss(torch.cat([torch.ones_like(vectors[:, :1]), vectors], 1))
    untrained, trained = learned(replace(recipe, steps=0)), learned(recipe)
    assert untrained - trained > 0.8 * (untrained - best) > 0
