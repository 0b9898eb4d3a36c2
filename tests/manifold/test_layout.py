"""The map: its affinities against their definition, and what a reader finds on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from eigenprobe import Eigenmaps
from eigenprobe.smoothers.neighbourhood import fuzzy_weights


def _model(k: int = 2, **options: Any) -> Eigenmaps:
    return Eigenmaps(k, **{"random_state": 0, "device": "cpu"} | options)


def test_affinities_are_those_of_neighbours_and_of_the_smoother(rng: np.random.Generator) -> None:
    x = rng.normal(size=(80, 3))
    lengths, near = NearestNeighbors(n_neighbors=6).fit(x).kneighbors()
    directed = np.zeros((80, 80))
    np.put_along_axis(directed, near, fuzzy_weights(torch.from_numpy(lengths)).numpy(), 1)
    listed = (directed > 0) * 1.0
    closed = listed + np.eye(80)
    common = closed @ closed.T
    weight = np.maximum(directed, directed.T) * common / (14 - common)
    both = weight / weight.sum() + (listed + listed.T) / (2 * listed.sum())
    both /= np.sqrt(both.sum(1)[:, None] * both.sum(1))
    found = _model(n_neighbors=6).fit(x).affinities_.toarray()
    np.testing.assert_allclose(found, both / both.max(), rtol=1e-3, atol=1e-7)


def test_digits_are_groups_on_the_map() -> None:
    """HDBSCAN finds them, rows are near their own, and a second seed gives nearly the same map."""
    X, y = load_digits(return_X_y=True)
    model = _model(20).fit(X)
    found = HDBSCAN(min_cluster_size=15, copy=True).fit_predict(model.layout_)
    assert 9 <= found.max() + 1 <= 20 and adjusted_rand_score(y, found) > 0.75
    assert trustworthiness(X, model.layout_, n_neighbors=10, metric="cosine") > 0.98
    moved = model.place(X[:50] + 0.01) - model.layout_[:50]
    assert np.abs(moved).max() < 0.05 * np.ptp(model.layout_)
    other = _model(20, random_state=1).fit(X).layout_
    some = np.random.default_rng(0).permutation(len(X))[:400]
    assert spearmanr(pdist(model.layout_[some]), pdist(other[some])).statistic > 0.9


def test_groups_lie_as_they_lie_in_the_table(rng: np.random.Generator) -> None:
    """Nine groups in a row of a grid, far apart: neighbours know nothing of their order."""
    grid = np.stack(np.meshgrid([0, 1, 2], [0, 1, 2]), -1).reshape(-1, 2)
    labels = rng.integers(9, size=900)
    turn = np.linalg.qr(rng.normal(size=(20, 2)))[0].T
    x = 40 * grid[labels] @ turn + rng.normal(size=(900, 20))
    y = _model().fit_transform(x)
    centres = np.stack([y[labels == group].mean(0) for group in range(9)])
    assert spearmanr(pdist(centres), pdist(grid)).statistic > 0.9


@pytest.mark.parametrize("k", [1, 3, 6, 15])
def test_a_map_has_any_number_of_dimensions(k: int, rng: np.random.Generator) -> None:
    """Twelve groups; new rows at their groups, each on its own."""
    labels = rng.integers(12, size=700)
    x = rng.standard_normal((700, 12)) + 5 * rng.standard_normal((12, 12))[labels]
    model = _model(k).fit(x[:600])
    placed = model.transform(x[600:])
    assert model.coordinates_ == "map" and placed.shape == (100, k)
    known = KNeighborsClassifier(1).fit(model.embedding_, labels[:600])
    assert known.score(placed, labels[600:]) > 0.97
    np.testing.assert_allclose(model.transform(x[650:651]), placed[50:51], atol=1e-6)
    assert model.layout_.shape == (600, 2), "the map to look at is another one"


@pytest.mark.parametrize(("groups", "apart"), [(60, 0.55), (30, 1.0)])
def test_more_groups_than_coordinates_are_not_lost(groups: int, apart: float) -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(groups, size=1500)
    x = rng.standard_normal((1500, 64)) + apart * rng.standard_normal((groups, 64))[labels]
    scores = {}
    for kind in ("map", "sphere"):
        places = _model(10, coordinates=kind).fit_transform(x)
        found = KMeans(groups, n_init=2, random_state=0).fit_predict(places)
        scores[kind] = adjusted_rand_score(labels, found)
    assert scores["map"] > 0.4 and scores["map"] > scores["sphere"] - 0.01


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_odd_graphs_have_a_finite_map(rng: np.random.Generator) -> None:
    """A hub of all rows, two rows, copies, separate parts, fewer columns than dimensions."""
    star = np.zeros((80, 80))
    star[0, 1:] = star[1:, 0] = 1
    places = _model(5, metric="precomputed_affinity").fit_transform(star + np.eye(80))
    assert np.isfinite(places).all() and np.abs(places).max() < 1000
    x = rng.normal(size=(60, 1))
    parts = np.concatenate([x + 50 * i for i in range(5)])
    for rows, k in ((x[:3], 2), (x, 3), (np.repeat(x, 3, axis=0), 2), (parts, 2)):
        places = _model(k).fit_transform(rows)
        assert places.shape == (len(rows), k) and np.isfinite(places).all()


def test_a_picture_of_the_map(rng: np.random.Generator) -> None:
    """Coloured by labels, or by the groups found where there are some."""
    x = rng.normal(size=(120, 5)) + 9 * np.eye(5)[rng.integers(3, size=120)]
    model = _model(3).fit(x)
    assert len(model.plot().axes) >= 1
    legend = model.plot(np.repeat(["a", "b"], 60)).findobj(lambda each: hasattr(each, "get_text"))
    assert {"a", "b"} <= {each.get_text() for each in legend}
