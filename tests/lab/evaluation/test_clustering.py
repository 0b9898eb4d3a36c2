"""Tests of `evaluation.clustering`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from eigenprobe_lab.evaluation.clustering import (
    METRICS,
    cluster_scores,
    kmeans_scores,
    trustworthiness,
)
from eigenprobe_lab.paper import images
from eigenprobe_lab.paper.images import Protocol
from tests.manifold.test_eigenmaps import _model

SOLVERS = ("direct", "network")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    x, y = make_blobs(240, 70, centers=4, cluster_std=4.0, random_state=0)
    np.savez(tmp_path / "blobs.npz", features=x.astype(np.float16), labels=y)
    return tmp_path / "blobs.npz"


@pytest.mark.parametrize("solver", SOLVERS)
def test_disconnected_clusters_are_told_apart(solver: str) -> None:
    X, y = make_blobs(90, 3, centers=[[0, 0, 0], [50, 0, 0], [0, 80, 0]], random_state=0)
    model = _model(2, solver=solver).fit(X)
    assert kmeans_scores(model.embedding_, y)["ari"] == pytest.approx(1)


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
    with np.load(table) as kept:
        x, y = kept["features"], kept["labels"]
    result = images.run("blobs", x, y, Protocol(2, 120, (2, 5), methods), out)
    assert len((out / "records.csv").read_text().splitlines()) == 1 + 2 * 2 * len(methods)
    assert [(row["k"], row["method"]) for row in result.rows] == [
        (k, m) for k in (2, 5) for m in methods
    ]
    for row in result.rows:
        assert all(0 <= row[metric] <= 1.0001 for metric in METRICS if metric not in ("ari", "ami"))
        assert row["runs"] == 2 and row["seconds"] > 0 and 0 <= row["trustworthiness"] <= 1
    assert all(path.is_file() and path.stat().st_size for path in result.written)
    names = {path.name for path in result.written}
    assert names == {"images.csv", "images.json", "images.md", "records.csv", "embeddings.png"}
    assert json.loads((out / "images.json").read_text())["facts"]["classes"] == 4
