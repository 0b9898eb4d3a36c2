"""The clustering protocol of the paper: its subsets, its scores, its tables, and its recipes."""

from __future__ import annotations

import json
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_blobs

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.training import recipes
from eigenprobe_lab.evaluation.clustering import METRICS, cluster_scores, kmeans_scores, trustworthiness
from eigenprobe_lab.paper import images, images_recipe
from eigenprobe_lab.paper.peers import TsneGradient, embed
from eigenprobe_lab.paper.protocol import Protocol, class_weights, summarise, weighted_subset
from eigenprobe_lab.paper.published import IMAGE_SETTINGS, published_scores

RECIPE = Path(__file__).parents[3] / "src" / "eigenprobe_lab" / "recipes" / "paper_images.yaml"


def test_weights_have_the_wanted_entropy(rng: np.random.Generator) -> None:
    for count in (2, 10, 77):
        for low, high in ((0.01, 0.1), (0.3, 0.3)):
            weights = class_weights(count, rng, (low, high))
            deficit = 1 + (weights * np.log(weights)).sum() / np.log(count)
            assert weights.sum() == pytest.approx(1)
            assert low - 1e-6 <= deficit <= high + 1e-6


def test_classes_that_nearly_tie_get_the_wanted_entropy_too(rng: np.random.Generator) -> None:
    for _ in range(500):  # two normals within .01 of each other are among them
        weights = class_weights(2, rng, (0.1, 0.1))
        assert 1 + (weights * np.log2(weights)).sum() == pytest.approx(0.1, abs=1e-6)


def test_subsets_are_rows_without_repetition(rng: np.random.Generator) -> None:
    labels = np.repeat(np.arange(4), [100, 100, 100, 3])
    rows = weighted_subset(labels, 250, rng)
    assert len(rows) == len(np.unique(rows)) == 250  # the classes that ran out left their share to the others
    assert len(weighted_subset(labels, 303, rng)) == 303
    with pytest.raises(InputError, match="at least as many"):
        weighted_subset(labels, 304, rng)
    repeated = [weighted_subset(labels, 50, np.random.default_rng([0, 1])) for _ in range(2)]
    np.testing.assert_array_equal(*repeated)


def test_scores_of_known_clusterings(rng: np.random.Generator) -> None:
    labels = np.repeat([0, 1, 2], 40)
    assert set(cluster_scores(labels, 2 - labels)) == set(METRICS)
    np.testing.assert_allclose(list(cluster_scores(labels, 2 - labels).values()), 1)
    merged = cluster_scores(labels, np.minimum(labels, 1))
    assert merged["completeness"] == pytest.approx(1) and merged["homogeneity"] < 0.7
    assert merged["nmi"] == pytest.approx(merged["v_measure"])
    noise = cluster_scores(labels, rng.integers(0, 3, 120))
    assert abs(noise["ari"]) < 0.1 and abs(noise["ami"]) < 0.1
    x, y = make_blobs(90, 5, centers=3, cluster_std=0.1, random_state=0)
    assert kmeans_scores(x, y)["ari"] == pytest.approx(1)
    assert trustworthiness(x, x) == pytest.approx(1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    x, y = make_blobs(240, 70, centers=4, cluster_std=4.0, random_state=0)
    np.savez(tmp_path / "blobs.npz", features=x.astype(np.float16), labels=y)
    return tmp_path / "blobs.npz"


@pytest.mark.filterwarnings("ignore")
def test_protocol_runs_and_writes_the_papers_table(tmp_path: Path, table: Path) -> None:
    out = tmp_path / "out"
    methods = ["direct", "network", "laplacian", "pca", "isomap"]
    lines: list[str] = []
    result = images.run(table, Protocol(2, 120, (2, 5), methods), out, say=lines.append)
    assert len((out / "records.csv").read_text().splitlines()) == 1 + 2 * 2 * len(methods) and lines
    assert [(row["k"], row["method"]) for row in result.rows] == [(k, m) for k in (2, 5) for m in methods]
    for row in result.rows:
        assert all(0 <= row[metric] <= 1.0001 for metric in METRICS if metric not in ("ari", "ami"))
        assert row["runs"] == 2 and row["seconds"] > 0 and 0 <= row["trustworthiness"] <= 1
    assert all(path.is_file() and path.stat().st_size for path in result.written)
    names = {path.name for path in result.written}
    assert names == {"images.csv", "images.json", "images.md", "images.tex", "records.csv", "embeddings.png"}
    text = (out / "images.tex").read_text()
    # one best of every metric and k, or more where they tie
    assert text.count(r"\midrule") == 3 and text.count(r"\textbf{") > 2 * len(METRICS)
    assert json.loads((out / "images.json").read_text())["facts"]["classes"] == 4


def test_protocol_does_not_depend_on_the_jobs(table: Path) -> None:
    with np.load(table) as stored:
        x, y = stored["features"], stored["labels"]
    protocol = Protocol(2, 100, (2,), ["direct", "pca"], seed=3)
    with joblib.parallel_config(backend="threading"):  # processes take seconds to start
        first, second = (summarise(protocol.records(x, y, jobs), ["nmi", "ari"]) for jobs in (1, 2))
    assert first == second


def test_protocol_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown method 'magic'"):
        Protocol(methods=["magic"])
    with pytest.raises(InputError, match="must be positive, got 0"):
        Protocol(runs=0)
    np.savez(tmp_path / "bare.npz", features=np.ones((5, 2)))
    with pytest.raises(InputError, match=r"bare\.npz has none"):
        images.run(tmp_path / "bare.npz", Protocol(), tmp_path)


@pytest.mark.parametrize("pair", IMAGE_SETTINGS, ids="-".join)
def test_the_recipe_fills_in_the_papers_settings(pair: tuple[str, str]) -> None:
    loaded = recipes.load_recipe(RECIPE, [f"dataset={pair[0]}", f"extractor={pair[1]}"]).filled()
    assert (loaded.vectors, loaded.probes, loaded.sample, loaded.rate, loaded.accumulate) == (11, 300, 5000, 5e-4, 16)
    assert loaded.width == (256 if pair[1] == "clip" else 128) and loaded.heads in (4, 8)
    assert (loaded.width, loaded.heads, loaded.neighbours, loaded.sigma, loaded.smoothing_steps) == IMAGE_SETTINGS[pair]
    assert published_scores(*pair, 10)["nmi"] > published_scores(*pair, 2)["nmi"] > 0.4


def test_the_recipe_runs_and_embeds_other_rows_in_one_pass(tmp_path: Path, table: Path) -> None:
    changes = [f"features={table}", "dataset=stl10", "sample=100", "steps=3", "accumulate=1", "probes=20"]
    changes += ["width=16", "heads=4", "vectors=4"]
    path = recipes.run_recipe(RECIPE, tmp_path / "run", changes, device="cpu")
    basis = Basis.load(path)
    with np.load(table) as stored:
        rows, labels = stored["features"].astype(np.float32), stored["labels"]
    assert np.asarray(basis(rows)).shape == (240, 4)
    assert np.isfinite(np.asarray(basis(rows))).all()
    coordinates = images_recipe.feed_forward(basis, rows)
    assert coordinates.shape == (240, 3) and np.isfinite(coordinates).all()
    protocol = Protocol(1, 100, (2,), ["paper", "laplacian", "laplacian_sphere"])
    records = protocol.records(rows, labels, fitted=lambda x: images_recipe.feed_forward(basis, x))
    assert [record["method"] for record in records] == list(protocol.methods) and "error" not in str(records)
    assert set(METRICS) <= set(records[0])


def test_rows_of_length_one_are_for_every_method() -> None:
    wide = np.random.default_rng(0).normal(size=(30, 80)) * np.arange(1, 31)[:, None]
    chosen = np.arange(10)
    np.testing.assert_allclose(np.linalg.norm(Protocol().rows(wide, chosen), axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(Protocol(unit=False).rows(wide, chosen), wide[:10], rtol=1e-6)
    np.testing.assert_allclose(Protocol().rows(wide[:, :20], chosen), wide[:10, :20], rtol=1e-6)


def test_recipe_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs its table"):
        recipes.run_recipe(RECIPE, tmp_path)
    with pytest.raises(InputError, match="no key 'sigmma'"):
        recipes.load_recipe(RECIPE, ["sigmma=1"])
    with pytest.raises(InputError, match="expected a whole number or null for heads"):
        recipes.load_recipe(RECIPE, ["heads=many"])
    with pytest.raises(InputError, match=r"kind 'pretrain' has no key|kind is one of"):
        recipes.load_recipe(RECIPE, ["kind=pretrain"])


@pytest.mark.parametrize("k", [2, 5])
def test_the_gradient_of_t_sne_for_all_points_is_that_of_the_library(k):
    from sklearn.manifold import _t_sne

    rng, n = np.random.default_rng(0), 40
    joint, flat = rng.random(n * (n - 1) // 2), rng.normal(size=n * k)
    joint /= 2 * joint.sum()
    gradient = TsneGradient("cpu")
    for factor in (12.0, 1.0):  # exaggerated first
        error, found = gradient(flat, factor * joint, k - 1, n, k)
        expected = _t_sne._kl_divergence(flat, factor * joint, k - 1, n, k)
        assert error == pytest.approx(expected[0])
        np.testing.assert_allclose(found, expected[1], atol=1e-14)


@pytest.mark.parametrize("name", ["pca", "isomap", "laplacian_sphere"])
def test_a_nested_embedding_is_that_of_its_own_size(name):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 5)) * [5, 4, 3, 2, 1]
    both, alone = embed(name, rows, (2, 4), 0)[0], embed(name, rows, (2,), 0)[0]
    sign = np.sign((both[2] * alone[2]).sum(0))
    np.testing.assert_allclose(both[2] * sign, alone[2], atol=1e-4)
