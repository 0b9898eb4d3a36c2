"""The clustering protocol of the paper: its subsets, its scores, its tables, and its recipes."""

from __future__ import annotations

from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_blobs

from eigenprobe.errors import InputError
from eigenprobe_lab.factory import recipes
from eigenprobe_lab.paper.images import Protocol, class_weights, embed, summarise, weighted_subset

RECIPE = Path(__file__).parents[3] / "src" / "eigenprobe_lab" / "recipes" / "paper_images.yaml"


def test_weights_have_the_wanted_entropy(rng: np.random.Generator) -> None:
    for count in (2, 10, 77):
        for low, high in ((0.01, 0.1), (0.3, 0.3)):
            weights = class_weights(count, rng, (low, high))
            deficit = 1 + (weights * np.log(weights)).sum() / np.log(count)
            assert weights.sum() == pytest.approx(1)
            assert low - 1e-6 <= deficit <= high + 1e-6


def test_subsets_are_rows_without_repetition(rng: np.random.Generator) -> None:
    labels = np.repeat(np.arange(4), [100, 100, 100, 3])
    rows = weighted_subset(labels, 250, rng)
    assert (
        len(rows) == len(np.unique(rows)) == 250
    )  # the classes that ran out left their share to the others
    assert len(weighted_subset(labels, 303, rng)) == 303
    with pytest.raises(InputError, match="at least as many"):
        weighted_subset(labels, 304, rng)
    repeated = [weighted_subset(labels, 50, np.random.default_rng([0, 1])) for _ in range(2)]
    np.testing.assert_array_equal(*repeated)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    x, y = make_blobs(240, 70, centers=4, cluster_std=4.0, random_state=0)
    np.savez(tmp_path / "blobs.npz", features=x.astype(np.float16), labels=y)
    return tmp_path / "blobs.npz"


def test_protocol_does_not_depend_on_the_jobs(table: Path) -> None:
    with np.load(table) as stored:
        x, y = stored["features"], stored["labels"]
    protocol = Protocol(2, 100, (2,), ["direct", "pca"], seed=3)
    with joblib.parallel_config(backend="threading"):  # processes take seconds to start
        first, second = (summarise(protocol.records(x, y, jobs), ["nmi", "ari"]) for jobs in (1, 2))
    assert first == second


def test_rows_of_length_one_are_for_every_method() -> None:
    wide = np.random.default_rng(0).normal(size=(30, 80)) * np.arange(1, 31)[:, None]
    np.testing.assert_allclose(np.linalg.norm(Protocol().rows(wide), axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(Protocol(unit=False).rows(wide), wide, rtol=1e-6)
    np.testing.assert_allclose(Protocol().rows(wide[:, :20]), wide[:, :20], rtol=1e-6)


def test_recipe_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs its table"):
        recipes.run_recipe(RECIPE, tmp_path)
    with pytest.raises(InputError, match="no key 'sigmma'"):
        recipes.load_recipe(RECIPE, ["sigmma=1"])
    with pytest.raises(InputError, match="heads must be a whole number or None"):
        recipes.load_recipe(RECIPE, ["heads=many"])
    with pytest.raises(InputError, match=r"kind 'pretrain' has no key|kind is one of"):
        recipes.load_recipe(RECIPE, ["kind=pretrain"])


def test_protocol_errors() -> None:
    with pytest.raises(InputError, match="unknown method 'magic'"):
        Protocol(methods=["magic"])
    with pytest.raises(InputError, match="must be positive, got 0"):
        Protocol(runs=0)


@pytest.mark.parametrize("name", ["pca", "isomap", "laplacian_sphere"])
def test_a_nested_embedding_is_that_of_its_own_size(name):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 5)) * [5, 4, 3, 2, 1]
    both, alone = embed(name, rows, (2, 4), 0)[0], embed(name, rows, (2,), 0)[0]
    sign = np.sign((both[2] * alone[2]).sum(0))
    np.testing.assert_allclose(both[2] * sign, alone[2], atol=1e-4)
