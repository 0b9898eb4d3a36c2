"""Tests of `evaluation.clustering`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier

from eigenprobe import EigenprobeWarning, OptimalApproximationEigenmaps
from eigenprobe_lab.evaluation.clustering import METRICS, cluster_scores, kmeans_scores, trustworthiness
from eigenprobe_lab.paper import images
from eigenprobe_lab.paper.images import Protocol
from tests.estimators.test_eigenmaps import _model, _orthonormality

SOLVERS = ("direct", "network")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    x, y = make_blobs(240, 70, centers=4, cluster_std=4.0, random_state=0)
    np.savez(tmp_path / "blobs.npz", features=x.astype(np.float16), labels=y)
    return tmp_path / "blobs.npz"


@pytest.mark.parametrize("solver", SOLVERS)
def test_disconnected_clusters_are_told_apart(solver: str) -> None:
    X, y = make_blobs(90, 3, centers=[[0, 0, 0], [50, 0, 0], [0, 80, 0]], random_state=0)
    model = _model(2, solver=solver)
    with pytest.warns(EigenprobeWarning, match="3 separate parts"):
        model.fit(X)
    assert kmeans_scores(model.embedding_, y)["ari"] == pytest.approx(1)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_more_parts_than_components(rng: np.random.Generator, solver: str) -> None:
    centres = 40 * rng.normal(size=(12, 16))
    X, y = make_blobs(480, centers=centres, random_state=0)
    model = _model(4, solver=solver).fit(X)
    assert kmeans_scores(model.embedding_, y)["ari"] > 0.95
    assert _orthonormality(model) < 1e-5


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


@pytest.mark.filterwarnings("ignore")
def test_protocol_runs_and_writes_the_papers_table(tmp_path: Path, table: Path) -> None:
    out = tmp_path / "out"
    methods = ["direct", "network", "laplacian", "pca", "isomap"]
    result = images.run(table, Protocol(2, 120, (2, 5), methods), out)
    assert len((out / "records.csv").read_text().splitlines()) == 1 + 2 * 2 * len(methods)
    assert [(row["k"], row["method"]) for row in result.rows] == [(k, m) for k in (2, 5) for m in methods]
    for row in result.rows:
        assert all(0 <= row[metric] <= 1.0001 for metric in METRICS if metric not in ("ari", "ami"))
        assert row["runs"] == 2 and row["seconds"] > 0 and 0 <= row["trustworthiness"] <= 1
    assert all(path.is_file() and path.stat().st_size for path in result.written)
    names = {path.name for path in result.written}
    assert names == {"images.csv", "images.json", "images.md", "images.tex", "records.csv", "embeddings.png"}
    text = (out / "images.tex").read_text()
    # one best of every metric and k, or more where they tie
    assert text.count(r"\cline") == 2 and text.count(r"\textbf{") > 2 * len(METRICS)
    assert json.loads((out / "images.json").read_text())["facts"]["classes"] == 4


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("solver", ["direct", "network"])
def test_a_map_of_clusters(tmp_path: Path, solver: str) -> None:
    X, y = make_blobs(500, 12, centers=6, cluster_std=2.0, random_state=0)
    X[490:] = X[:10]  # copies have one place
    y[490:] = y[:10]
    model = OptimalApproximationEigenmaps(5, solver=solver, max_iter=10, random_state=0, device="cpu")
    with pytest.raises(NotFittedError):
        _ = model.layout_
    model.fit(X[:400])
    map_, new = model.layout_, model.place(X[400:])
    assert map_.shape == (400, 2) and new.shape == (100, 2)
    assert kmeans_scores(map_, y[:400])["ari"] > 0.95
    assert trustworthiness(X[:400], map_) > trustworthiness(X[:400], model.coordinates_of(2))
    assert KNeighborsClassifier(5).fit(map_, y[:400]).score(new, y[400:]) > 0.95
    np.testing.assert_allclose(model.place(X[:400]), map_, atol=1e-9)
    np.testing.assert_allclose(new[90:], map_[:10], atol=1e-9)
    model.save(tmp_path / "fitted")
    again = OptimalApproximationEigenmaps.load(tmp_path / "fitted")
    np.testing.assert_allclose(again.place(X[400:420]), new[:20], atol=1e-12)
    whole = model.fit(X).layout_  # a new fit has a new map
    assert whole.shape == (500, 2)
    np.testing.assert_array_equal(whole[490:], whole[:10])
    np.testing.assert_array_equal(OptimalApproximationEigenmaps(**model.get_params()).fit(X).layout_, whole)
