"""The map of an embedding: clusters apart, neighbours kept, new rows beside their kind, the same on every call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier

from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.cli import main
from eigenprobe.estimators import eigenmaps
from eigenprobe.estimators.coordinates import _walk
from eigenprobe.extensions import neighbourhood as extensions
from eigenprobe.graph.graph import build_graph
from eigenprobe.smoothers import neighbourhood_smoother
from eigenprobe.smoothers.neighbourhood import fuzzy_weights
from eigenprobe_lab.evaluation.clustering import kmeans_scores, trustworthiness


def test_affinities_are_the_steps_of_a_random_walk() -> None:
    """Row sums are the mass, and entries the weights of the graph as its definition has them."""
    X = np.random.default_rng(0).normal(size=(80, 3))
    graph = build_graph(torch.from_numpy(X), 6)
    smoother = neighbourhood_smoother(graph)
    joint = _walk(smoother).toarray()
    assert np.allclose(joint.sum(1), smoother.mass.double().numpy() / 2, rtol=1e-5)
    directed = np.zeros((80, 80))
    np.put_along_axis(directed, graph.indices.numpy(), fuzzy_weights(graph.distances).double().numpy(), 1)
    near = (directed > 0) | np.eye(80, dtype=bool)
    common = near.astype(float) @ near.T
    weight = np.maximum(directed, directed.T) * common / (near.sum(1)[:, None] + near.sum(1) - common)
    assert np.allclose(joint / joint.sum(), weight / weight.sum(), rtol=1e-4, atol=1e-9)


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


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_embed_writes_the_map(tmp_path: Path) -> None:
    X, y = make_blobs(150, 6, centers=3, random_state=0)
    np.savez(tmp_path / "table.npz", features=X[:120], labels=y[:120])
    np.save(tmp_path / "new.npy", X[120:])
    words = f"embed {tmp_path}/table.npz -k 4 --new {tmp_path}/new.npy --layout --device cpu --out {tmp_path}/o".split()
    assert main(words) == 0
    found = np.load(tmp_path / "o" / "embedding.npz")
    assert found["layout"].shape == (120, 2) and found["new_layout"].shape == (30, 2)
    assert (tmp_path / "o" / "report.html").is_file()


def test_places_are_found_by_the_search_of_the_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of the fitted rows is made once, whatever is asked of them and however often."""
    X = np.random.default_rng(0).normal(size=(150, 3))
    model = OptimalApproximationEigenmaps(2, random_state=0, device="cpu").fit(X[:120])
    made, real = [0][:0], extensions.searcher
    monkeypatch.setattr(extensions, "searcher", lambda data, **options: made.append(len(data)) or real(data, **options))
    model.transform(X[120:])
    places = [model.place(X[i:]) for i in (120, 130)]
    assert made == [120]
    np.testing.assert_array_equal(places[0][10:], places[1])


def test_the_map_of_a_network_is_drawn_from_the_graph_of_its_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    """It trains on several subsets, of which the first is the one that is described."""
    monkeypatch.setattr(eigenmaps, "SUBSET", 60)
    x = np.random.default_rng(0).normal(size=(200, 3))
    model = OptimalApproximationEigenmaps(3, solver="network", max_iter=2, random_state=0).fit(x)
    assert model.basis_.n == 60
    rows = torch.as_tensor(model.basis_.points)
    expected = torch.cdist(rows.double(), rows.double()).fill_diagonal_(torch.inf).argmin(1)
    assert torch.equal(model._graph.indices[:, 0], expected)
