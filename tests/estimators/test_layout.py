"""The map: its affinities against their definition, its stages, and what others find on it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import random as random_sparse
from sklearn.neighbors import KNeighborsClassifier

from eigenprobe import InputError, OptimalApproximationEigenmaps
from eigenprobe.estimators import layout
from eigenprobe.estimators.precomputed import AffinityGraph
from eigenprobe.graph.graph import Graph, build_graph
from eigenprobe.host.threads import allowed_cores
from eigenprobe.smoothers import neighbourhood_smoother
from eigenprobe.smoothers.neighbourhood import fuzzy_weights


def test_stages_of_a_map(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    import openTSNE

    graph = build_graph(torch.from_numpy(rng.normal(size=(60, 4))), 8)
    made: list[Any] = []

    class Embedding(np.ndarray):
        def __new__(cls, start: np.ndarray, affinities: Any, **options: Any) -> Any:
            made.append((start, affinities, options))
            return np.asarray(start).view(cls)

        def optimize(self, steps: int, **options: Any) -> None:
            made.append((steps, options))

    monkeypatch.setattr(openTSNE, "TSNEEmbedding", Embedding)
    spectral = rng.normal(size=(60, 5))
    layout.map_layout(graph, spectral, 3)
    (start, affinities, options), *stages = made
    assert [(steps, o["exaggeration"], o["momentum"]) for steps, o in stages] == [
        (80, 12.0, 0.5),
        (50, 4.0, 0.8),
        (60, 1.0, 0.8),
        (50, 2.0, 0.8),
    ]
    assert all(o["inplace"] for _, o in stages)
    assert (options["negative_gradient_method"], options["n_jobs"], options["random_state"]) == ("bh", 1, 3)
    centred = (graph.points - graph.points.mean(0)).numpy()
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    for j in range(2):  # the two principal directions of the rows, up to the small scale that t-SNE starts at
        assert abs(np.corrcoef(left[:, j], start[:, j])[0, 1]) > 0.9999
    assert np.ptp(start[:, 0]) / np.ptp(start[:, 1]) == pytest.approx(
        np.ptp(left[:, 0] * sizes[0]) / np.ptp(left[:, 1] * sizes[1]), rel=1e-3
    )
    assert affinities.P.sum() == pytest.approx(1)
    made.clear()
    bare = Graph(torch.empty((60, 0)), graph.indices, graph.distances, "precomputed")  # no coordinates: the embedding
    layout.map_layout(bare, spectral[:, :1], 3, neighbors=30)
    assert made[0][1].P.nnz == affinities.P.nnz
    assert made[0][0].shape == (60, 2) and abs(np.corrcoef(made[0][0][:, 0], spectral[:, 0])[0, 1]) > 0.9999
    assert 0 < np.abs(made[0][0][:, 1]).max() < 1e-3 * np.abs(made[0][0][:, 0]).max()
    made.clear()
    many = build_graph(torch.from_numpy(rng.normal(size=(400, 4))), 8)
    layout.map_layout(many, rng.normal(size=(400, 3)), 3, neighbors=30, stages=[(4.0, 10), (1.0, 20)])
    assert [(steps, o["exaggeration"]) for steps, o in made[1:]] == [(10, 4.0), (20, 1.0)]
    assert made[0][1].P.nnz > 400 * 20  # twenty of 400 rows, thirty of 600 and more
    made.clear()
    monkeypatch.setattr(layout, "SMALL_MAP", 60)  # from there on a grid, on as many cores as are allowed
    with allowed_cores(3):
        layout.map_layout(graph, spectral, 3)
    assert (made[0][2]["negative_gradient_method"], made[0][2]["n_jobs"]) == ("fft", 3)
    made.clear()
    layout.map_layout(graph, spectral, 3, neighbors=5)
    assert made[0][2]["n_jobs"] == 1
    assert made[0][1].P.nnz == layout.joint(build_graph(graph.points, 5)).nnz  # fewer are those of the graph


def test_affinities_are_the_steps_of_a_random_walk() -> None:
    """Row sums are the mass, and entries the weights of the graph as its definition has them."""
    X = np.random.default_rng(0).normal(size=(80, 3))
    graph = build_graph(torch.from_numpy(X), 6)
    smoother = neighbourhood_smoother(graph)
    joint = layout.steps_of_walk(smoother).toarray()
    assert np.allclose(joint.sum(1), smoother.mass.double().numpy() / 2, rtol=1e-5)
    directed = np.zeros((80, 80))
    np.put_along_axis(directed, graph.indices.numpy(), fuzzy_weights(graph.distances).double().numpy(), 1)
    near = (directed > 0) | np.eye(80, dtype=bool)
    common = near.astype(float) @ near.T
    weight = np.maximum(directed, directed.T) * common / (near.sum(1)[:, None] + near.sum(1) - common)
    assert np.allclose(joint / joint.sum(), weight / weight.sum(), rtol=1e-4, atol=1e-9)
    listed = (directed > 0) * 1.0
    both = weight / weight.sum() + (listed + listed.T) / (2 * listed.sum())
    both /= np.sqrt(both.sum(1)[:, None] * both.sum(1))
    np.testing.assert_allclose(layout.joint(graph).toarray(), both / both.sum(), rtol=1e-4, atol=1e-12)


def test_groups_of_a_map_stay_whole() -> None:
    """HDBSCAN finds the digits on the map: with crumbs (43 clusters instead of 10 to 14) it had .45, later .66."""
    from sklearn.cluster import HDBSCAN
    from sklearn.datasets import load_digits
    from sklearn.manifold import trustworthiness
    from sklearn.metrics import adjusted_rand_score

    X, y = load_digits(return_X_y=True)
    model = OptimalApproximationEigenmaps(20, random_state=0, device="cpu").fit(X)
    found = HDBSCAN(min_cluster_size=15).fit_predict(model.layout_)
    assert 9 <= found.max() + 1 <= 16 and adjusted_rand_score(y, found) > 0.82
    assert trustworthiness(X, model.layout_, n_neighbors=10, metric="cosine") > 0.988
    middle = np.abs(model.place(X[:50] + 0.01) - model.layout_[:50]).max()
    assert middle < 0.05 * np.ptp(model.layout_)


@pytest.mark.parametrize(("weight", "far"), [(0.5, np.exp(-5)), (0.0, np.exp(-2.5)), (1.0, 0.0)])
def test_labels_lessen_the_affinities_of_others(weight: float, far: float, rng: np.random.Generator) -> None:
    """By exp(-2.5 / (1 - w)) between labels that differ, by 1 / e where one is unknown; before rows are balanced."""
    labels = np.array([0, 1, -1])[rng.integers(3, size=90)]
    shares = random_sparse(90, 90, 0.2, format="csr", rng=0)
    shares = shares + shares.T
    unknown = (labels[:, None] < 0) | (labels < 0)
    factor = np.where(unknown, np.exp(-1), np.where(labels[:, None] == labels, 1, far))
    np.testing.assert_allclose(layout.by_labels(shares, labels, weight).toarray(), shares.toarray() * factor)
    graph = build_graph(torch.from_numpy(rng.normal(size=(90, 3))), 6)
    for each in (graph, AffinityGraph.of(shares, torch.device("cpu"))):
        plain, pulled = layout.joint(each).toarray(), layout.joint(each, (labels, weight)).toarray()
        assert pulled.sum() == pytest.approx(1)
        np.testing.assert_allclose(pulled, pulled.T, rtol=1e-6)
        between = (labels[:, None] != labels) & ~unknown
        assert pulled[between].sum() < 0.5 * plain[between].sum()


def test_labels_of_any_kind_are_numbers() -> None:
    assert layout.codes(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    known = layout.codes(np.array([5, -1, 9, 5]), 4)
    assert known[1] == -1 and known[0] == known[3] != known[2] and min(known[0], known[2]) >= 0
    with pytest.raises(InputError, match=r"expected labels of the 4 rows that are fitted, got shape \(3,\)"):
        layout.codes([0, 1, 1], 4)
    with pytest.raises(InputError, match="target_weight is for labels of classes, got continuous ones"):
        layout.codes([0.5, 0.25, 1.5], 3)


def test_a_map_with_labels_pulls_equal_ones_together(tmp_path: Path, rng: np.random.Generator) -> None:
    """Two halves of one Gaussian, a third of them without a label: apart with labels, mixed without."""
    X = rng.normal(size=(300, 8))
    y = (X[:, 0] > 0).astype(int)
    known = np.where(rng.random(300) < 1 / 3, -1, y)

    def parted(places: np.ndarray) -> float:
        centres = [places[y == kind].mean(0) for kind in (0, 1)]
        return float(np.linalg.norm(centres[0] - centres[1]) / places.std())

    plain = OptimalApproximationEigenmaps(8, random_state=0, device="cpu").fit(X, known)
    model = OptimalApproximationEigenmaps(8, random_state=0, device="cpu", target_weight=0.5).fit(X, known)
    np.testing.assert_array_equal(model.vectors_, plain.vectors_)
    assert parted(model.layout_) > 1.5 * parted(plain.layout_)
    ours, others = (
        KNeighborsClassifier(5).fit(each.layout_, y).score(each.place(X + 0.05), y) for each in (model, plain)
    )
    assert ours > others
    unlabelled = OptimalApproximationEigenmaps(8, random_state=0, device="cpu", target_weight=0.5).fit(X)
    np.testing.assert_array_equal(unlabelled.layout_, plain.layout_)
    again = OptimalApproximationEigenmaps(8, random_state=0, device="cpu", target_weight=0.5).fit(X, known)
    again.save(tmp_path)  # before there is a map
    np.testing.assert_allclose(OptimalApproximationEigenmaps.load(tmp_path).layout_, model.layout_, atol=0.2)
    model.partial_fit(rng.normal(size=(20, 8)))
    assert model.layout_.shape == (320, 2)
    with pytest.raises(InputError, match="target_weight must be between 0 and 1, got 2"):
        OptimalApproximationEigenmaps(2, target_weight=2).fit(X, y)
    with pytest.raises(InputError, match="expected labels of the 100 rows that are fitted"):
        OptimalApproximationEigenmaps(4, target_weight=0.5, max_samples=100).fit(X, y)


def test_a_step_in_more_dimensions_is_down_the_gradient(rng: np.random.Generator) -> None:
    """With all rows as the sample that repels: against the derivative of ``-e sum p log w + log sum w``."""
    n, exaggeration = 40, 2.0
    graph = build_graph(torch.from_numpy(rng.normal(size=(n, 6))), 5)
    joint, start = layout.joint(graph), rng.normal(size=(n, 4))

    def after(steps: int) -> np.ndarray:
        return layout.descend(start, joint, ((exaggeration, steps),), np.random.default_rng(1))

    y = torch.from_numpy(after(0)).requires_grad_()
    w = 1 / (1 + (y[:, None] - y).square().sum(2))
    p = torch.from_numpy(joint.toarray())
    w = w - torch.eye(n, dtype=w.dtype)
    loss = -exaggeration * (p * torch.where(w > 0, w, 1).log()).sum() + w.sum().log()
    loss.backward()  # type: ignore[no-untyped-call]
    steady = n / np.maximum(1, n * joint.toarray().sum(1, keepdims=True))
    moved = steady / (4 * exaggeration) * y.grad.numpy()  # type: ignore[union-attr]
    np.testing.assert_allclose(after(1) - after(0), -moved, atol=2e-6)
    np.testing.assert_array_equal(after(30), after(30))
    assert after(0).std() == pytest.approx(layout.FIRST_SIZE / 2, rel=0.01)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_a_map_of_more_dimensions(rng: np.random.Generator) -> None:
    """Twelve groups in six coordinates of a map; new rows at their groups, each on its own; hubs do not diverge."""
    labels = rng.integers(12, size=700)
    x = rng.standard_normal((700, 20)) + 4 * rng.standard_normal((12, 20))[labels]
    model = OptimalApproximationEigenmaps(6, coordinates="map", random_state=0, device="cpu").fit(x[:600])
    known = KNeighborsClassifier(1).fit(model.embedding_, labels[:600])
    placed = model.transform(x[600:])
    assert known.score(placed, labels[600:]) == 1 and model.coordinates_ == "map"
    np.testing.assert_allclose(model.transform(x[650:651]), placed[50:51], atol=1e-6)
    assert model.layout_.shape == (600, 2), "the map to look at is another one"
    star = np.zeros((80, 80))
    star[0, 1:] = star[1:, 0] = 1
    hub = OptimalApproximationEigenmaps(5, metric="precomputed_affinity", coordinates="map", device="cpu")
    places = hub.fit(star + np.eye(80)).embedding_
    assert np.isfinite(places).all() and np.abs(places).max() < 100


@pytest.mark.parametrize("groups", [None, 3])
def test_a_picture_of_the_map_has_the_groups_found(groups: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no labels are given and there are some; names and sizes may be other ones."""
    drawn: list[Any] = []
    found = None if groups is None else SimpleNamespace(labels=[0, 1, 2], typical=range(groups))
    monkeypatch.setattr("eigenprobe.viz.scatter.find_groups", lambda places: found)
    monkeypatch.setattr("eigenprobe.viz.charts.embeddings", lambda *given, **options: drawn.append((*given, options)))
    model = layout.MapMixin()
    model.layout_ = np.arange(9.0).reshape(3, 3)  # type: ignore[misc]
    model.plot()
    model.plot([5, 6, 7], side=2.0)
    model.plot(names=["a", "b", "c"])
    (first, labels, options), (_, own, sized), (_, _, named) = drawn
    np.testing.assert_array_equal(first[""], model.layout_[:, :2])
    assert labels == (None if groups is None else [0, 1, 2]) and own == [5, 6, 7] and sized == {"side": 2.0}
    names = {} if groups is None else {"names": ["group 1", "group 2", "group 3"]}
    assert options == {"side": 5.0} | names and named == {"side": 5.0, "names": ["a", "b", "c"]}


def test_stages_of_a_map_are_reported_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tenth step, where somebody listens; of more dimensions every step."""
    said: list[str] = []
    monkeypatch.setattr(layout, "report", said.append)
    monkeypatch.setattr(layout, "reporting", lambda: False)
    assert layout._reported(1) == {}
    monkeypatch.setattr(layout, "reporting", lambda: True)
    options = layout._reported(1)
    options["callbacks"](20, 0.5, np.zeros((3, 2)))
    assert said == ["map, stage 2, step 20"] and options["callbacks_every_iters"] == 10
    said.clear()
    affinities = random_sparse(12, 12, 0.5, random_state=0).tocsr()
    layout.descend(np.eye(12, 5), affinities + affinities.T, [(4.0, 2), (1.0, 1)], np.random.default_rng(0))
    assert said == ["map, stage 1, step 0", "map, stage 1, step 1", "map, stage 2, step 0"]
