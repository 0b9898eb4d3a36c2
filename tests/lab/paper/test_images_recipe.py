"""Tests of `paper.images_recipe`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from eigenprobe.basis import Basis
from eigenprobe_lab.evaluation.clustering import METRICS
from eigenprobe_lab.factory import recipes
from eigenprobe_lab.paper import images_recipe
from eigenprobe_lab.paper.images import Protocol

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
