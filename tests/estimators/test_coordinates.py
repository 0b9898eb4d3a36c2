"""The parts of an embedding against their formulas: coordinates, averages, features, parts of a graph, choices."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier

from eigenprobe import EigenprobeWarning, InputError, OptimalApproximationEigenmaps
from eigenprobe.estimators import coordinates as layout
from eigenprobe.estimators import eigenmaps, precomputed
from eigenprobe.estimators import sources as lazy
from eigenprobe.estimators.coordinates import (
    check_parameters,
    choose_coordinates,
    choose_metric,
    coordinates,
    diffusion_time,
    local_averages,
)
from eigenprobe.estimators.eigenmaps import _is_dask
from eigenprobe.graph.graph import build_graph
from eigenprobe.smoothers import Smoother, neighbourhood_smoother
from eigenprobe.smoothers.neighbourhood import fuzzy_weights

CPU = torch.device("cpu")


def _model(k: int = 3, **options: Any) -> OptimalApproximationEigenmaps:
    vectors = {"coordinates": "sphere"} if k in (2, 3) else {}
    return OptimalApproximationEigenmaps(k, **{"random_state": 0, "device": "cpu", **vectors, **options})


def test_coordinates_are_their_formulas(rng: np.random.Generator) -> None:
    v, mass, mu = rng.normal(size=(7, 3)), rng.random(7), np.array([0.9, 0.5, -0.2])
    u = np.stack([v[:, 0] * 0.9**2.5, v[:, 1] * 0.5**2.5, 0 * v[:, 2]], 1)  # a negative factor counts as 0
    np.testing.assert_allclose(coordinates(v, mass, mu, "diffusion", 2.5), u)
    np.testing.assert_allclose(coordinates(v, mass, mu, "sphere", 2.5), [row / np.sqrt(1 + row @ row) for row in u])
    np.testing.assert_allclose(coordinates(v, mass, mu, "normalized", 2.5), [v[i] * mass[i] ** 0.5 for i in range(7)])
    assert coordinates(v, mass, mu, "vectors", 2.5) is v


def test_rows_of_places_are_averages_of_the_nearest(rng: np.random.Generator) -> None:
    known, rows, places = rng.normal(size=(30, 2)), rng.normal(size=(30, 5)), rng.normal(size=(4, 2))
    places[0] = known[11]
    known[20] = known[21] = places[1]  # two fitted rows of one place: their mean
    distances = np.linalg.norm(places[:, None] - known, axis=2)
    order = np.argsort(distances, axis=1)[:, :6]
    weight = fuzzy_weights(torch.from_numpy(np.take_along_axis(distances, order, 1))).numpy()
    expected = [w @ rows[i] / w.sum() for w, i in zip(weight, order, strict=True)]
    expected[0], expected[1] = rows[11], (rows[20] + rows[21]) / 2
    np.testing.assert_allclose(local_averages(known, rows, torch.from_numpy(places), 6), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        local_averages(known[:4], rows[:4], torch.from_numpy(places[2:]), 9),  # fewer rows than neighbours: all
        local_averages(known[:4], rows[:4], torch.from_numpy(places[2:]), 4),
    )


def test_metrics_and_parameters_at_their_limits() -> None:
    rows = torch.randn(300, 900, generator=torch.Generator().manual_seed(0))
    chosen = [choose_metric("auto", rows[:, :d]) for d in (2, 63, 64, 900)]
    assert chosen == ["euclidean", "euclidean", "cosine", "cosine"]
    assert choose_metric("manhattan", rows) == "manhattan"
    check_parameters(_model(1, n_neighbors=1, max_iter=1, max_samples=2))
    check_parameters(_model(5, n_neighbors=3, max_samples=6))
    check_parameters(_model(solver="network", metric="cosine"))
    for options in ({"k": 0}, {"n_neighbors": 0}, {"max_iter": 0}, {"max_samples": 12}, {"k": 20, "max_samples": 20}):
        with pytest.raises(InputError, match=r"must be a positive integer|max_samples must exceed"):
            check_parameters(_model(**options))  # type: ignore[arg-type]


def test_the_device_is_the_one_that_was_named() -> None:
    assert _model(device="cpu:0")._device() == torch.device("cpu:0")


@pytest.mark.parametrize(("n", "expected"), [(150, 1), (151, 2), (299, 2), (300, 3), (1200, 8), (1300, 8)])
def test_the_network_trains_on_subsets(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, n: int, expected: int
) -> None:
    """One cloud up to the size of a subset, then one more for every such size, eight at most."""
    monkeypatch.setattr(eigenmaps, "SUBSET", 150)
    X, model = rng.normal(size=(n, 3)), _model(solver="network")
    model.metric_ = "euclidean"
    rows = model._open(X, reset=True)
    sample = model._sample(rows, 10_000, np.random.RandomState(0))
    clouds = model._clouds(sample, rows, np.random.RandomState(0))
    assert [len(cloud.given) for cloud in clouds] == ([150] * expected if n > 150 else [150])
    assert len({cloud.frame.scale for cloud in clouds}) == 1
    direct = _model()._clouds.__func__(_model_like(model, solver="direct"), sample, rows, None)
    assert len(direct) == 1 and len(direct[0].given) == n


def _model_like(model: OptimalApproximationEigenmaps, **changes: Any) -> OptimalApproximationEigenmaps:
    other = _model()
    vars(other).update({**vars(model), **changes})
    return other


def test_rows_of_a_sample_are_distinct_and_in_order(rng: np.random.Generator) -> None:
    X, model = np.arange(40.0)[:, None] * np.ones(3), _model()
    rows = model._open(X, reset=True)
    taken = model._sample(rows, 12, np.random.RandomState(3))[:, 0]
    assert len(taken) == 12 and bool((taken.diff() > 0).all())
    assert torch.equal(model._sample(rows, 40, np.random.RandomState(3))[:, 0], torch.arange(40.0).double())


def test_streams_have_the_values_of_single_rows(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    X = rng.normal(size=(90, 4))
    model = _model(3, coordinates="vectors").fit(X)
    new = rng.normal(size=(50, 4))
    alone = model.transform(new)
    assert alone.dtype == np.float64 and model.transform(new.astype(np.float32)).dtype == np.float32
    vectors, mass = model._stream(model._open(new, reset=False))
    exact, weight = model.basis_.extension.with_mass(torch.from_numpy(new))
    np.testing.assert_allclose(vectors, exact[:, 1:].numpy(), rtol=1e-12)
    np.testing.assert_allclose(mass, weight.numpy(), rtol=1e-12)
    for block, precision in ((50, np.float64), (49, np.float32), (7, np.float32)):  # long streams take half the memory
        monkeypatch.setattr(eigenmaps, "BLOCK", block)
        blocks, other = model._stream(model._open(new, reset=False))
        assert blocks.dtype == precision
        np.testing.assert_allclose(blocks, vectors, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(other, mass, rtol=1e-12)


def test_places_of_several_copies(rng: np.random.Generator) -> None:
    X = rng.normal(size=(60, 4))
    model = _model(3).fit(np.concatenate([X, X[:5]]))
    assert model.layout_.shape == (65, 2) and len(model._maps[2]) == 60
    np.testing.assert_array_equal(model.layout_[60:], model.layout_[:5])
    np.testing.assert_allclose(model.place(X), model.layout_[:60], atol=1e-9)
    with pytest.raises(InputError, match="expecting 4 features as input"):
        model.place(X[:, :3])
    model.place(X.astype(np.float32))
    assert model.n_features_in_ == 4 and model.transform(X).dtype == np.float64  # a place changes no fit
    before = model.layout_
    assert model.layout_ is before and model.fit(X).layout_ is not before


@pytest.mark.parametrize("kind", ["sphere", "diffusion", "vectors", "normalized"])
def test_rows_of_a_sample_come_back_from_their_coordinates(kind: str, rng: np.random.Generator) -> None:
    """The mass is a share of that of all rows, fitted or not."""
    X = rng.normal(size=(120, 4))
    model = _model(3, max_samples=60, coordinates=kind).fit(X)
    fitted = model.basis_.points
    assert len(fitted) == 60 and model._total > 1.5
    np.testing.assert_allclose(model._known(), model.transform(fitted), atol=1e-9)
    np.testing.assert_allclose(model.inverse_transform(model.transform(fitted)), fitted, atol=1e-6)


def test_growth_starts_from_the_vectors_that_are_known(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Of fitted rows as they are, of new ones the mean over their fitted neighbours; the constant is known anyway."""
    X, seen = rng.normal(size=(90, 4)), [torch.empty(0)][:0]
    X[-1] += 50
    X[-10:-1] += 60  # these have new neighbours only
    real = eigenmaps.fit_direct
    monkeypatch.setattr(eigenmaps, "fit_direct", lambda *given: seen.append(given[3]) or real(*given))
    for rows in (X, X[[*range(90), 3, 75]]):
        model = _model(3, n_neighbors=5).fit(rows[:70])
        known = np.zeros((len(rows), 3))
        known[:70] = model.basis_.normalized[:, 1:]
        with warnings.catch_warnings(action="ignore"):  # of the copies
            model.partial_fit(rows[70:])
        for i, near in enumerate(model._graph.indices[70:].tolist(), 70):
            known[i] = known[[j for j in near if j < 70]].mean(0) if min(near) < 70 else 0
        np.testing.assert_allclose(seen[-1].numpy(), known[:90], atol=1e-12)


def test_one_step_for_the_closed_form_and_all_for_the_network(rng: np.random.Generator) -> None:
    X = rng.normal(size=(40, 3))
    assert _model().fit(X).n_iter_ == 1
    assert _model(solver="network", max_iter=4).fit(X).n_iter_ == 4
    with pytest.raises(InputError, match="n_components must be below n_samples=3, got 3"):
        _model(3).fit(X[:3])
    assert _model(2).fit(X[:3]).embedding_.shape == (3, 2)
    usual = OptimalApproximationEigenmaps()
    assert usual.coordinates == usual.diffusion_steps == "auto"
    model = _model(3).fit(X)
    with pytest.raises(InputError, match="k must be between 1 and n_components=3, got 0"):
        model.coordinates_of(0)
    np.testing.assert_allclose(
        model.coordinates_of(1),
        coordinates(
            model.vectors_[:, :1],
            model.mass_,
            1 - model.eigenvalues_[:1] * model.basis_.info["step_time"],
            "sphere",
            30,
        ),
    )


@pytest.fixture
def smoother(rng: np.random.Generator) -> Smoother:
    return neighbourhood_smoother(build_graph(torch.from_numpy(rng.normal(size=(70, 5))), 8))


def _parts(rng: np.random.Generator, count: int = 5) -> Smoother:
    x = np.concatenate([rng.normal(size=(12 + 3 * i, 3)) + 90 * rng.normal(size=3) for i in range(count)])
    return neighbourhood_smoother(build_graph(torch.from_numpy(x), 6))


def test_smallest_entries_of_rows(rng: np.random.Generator) -> None:
    whole = rng.random((9, 9)) + 0.1
    np.fill_diagonal(whole, 0)
    without = whole + np.diag(np.full(9, np.inf))
    expected = np.argsort(without, 1)[:, :4]
    few = np.where(without <= np.sort(without, 1)[:, [5]], whole, 0)
    thin = sparse.csr_matrix(few)
    for matrix in (whole, thin):
        columns, values = precomputed.nearest_entries(matrix, 4, own=True)
        np.testing.assert_array_equal(columns.numpy(), expected)
        np.testing.assert_allclose(values.numpy(), np.take_along_axis(whole, expected, 1), rtol=1e-6)
    explicit = sparse.csr_matrix((np.append(few[0, 1:4], 0.0), ([0, 0, 0, 0], [1, 2, 3, 0])), shape=(1, 4))
    columns, values = precomputed.nearest_entries(explicit, 4)  # the diagonal counts where it is not asked to be left
    assert columns[0, 0] == 0 and values[0, 0] == 0
    np.testing.assert_allclose(precomputed.nearest_entries(whole[:3], 2)[1][:, 0].numpy(), 0)
    with pytest.raises(InputError, match="every row needs 7 neighbours, row 0 has 6 distances"):
        precomputed.nearest_entries(thin, 7, own=True)
    assert precomputed.nearest_entries(thin, 6, own=True)[0].shape == (9, 6)
    for wrong in (np.nan, np.inf, -0.5):
        damaged = whole.copy()
        damaged[2] = wrong
        with pytest.raises(InputError, match="distances must be finite numbers of at least 0"):
            precomputed.nearest_entries(damaged, 4, own=True)
    cloud = precomputed.by_distances(whole + whole.T, 99, CPU)
    assert cloud.graph.k == 8 and cloud.graph.n == 9 and cloud.frame.scale == 1
    with pytest.raises(InputError, match="must be square"):
        precomputed.by_distances(whole[:, :8], 3, CPU)


def test_given_neighbours_at_their_limits(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.normal(size=(8, 3)))
    graph = build_graph(x, 3)
    near = (graph.indices.numpy(), graph.distances.numpy())
    for metric in ("euclidean", "manhattan"):
        cloud = precomputed.given_neighbours(x, near, metric)
        scale = cloud.frame.scale if metric == "euclidean" else 1.0
        np.testing.assert_array_equal(cloud.graph.indices.numpy(), near[0])
        np.testing.assert_allclose(cloud.graph.distances.numpy() * scale, near[1], rtol=1e-5)
        mixed = precomputed.given_neighbours(x, (near[0][:, ::-1], near[1][:, ::-1]), metric)  # sorted on the way
        np.testing.assert_array_equal(mixed.graph.indices.numpy(), near[0])
    own = np.column_stack([np.arange(8), near[0]]), np.column_stack([np.zeros(8), near[1]])
    np.testing.assert_array_equal(precomputed.given_neighbours(x, own, "euclidean").graph.indices.numpy(), near[0])
    for indices, distances in (
        (near[0] - near[0].min() - 1, near[1]),
        (near[0] + (8 - near[0].max()), near[1]),
        (near[0], near[1] - near[1].max()),
        (near[0], np.where(near[1] == near[1].max(), np.nan, near[1])),
    ):
        with pytest.raises(InputError, match="neighbors must be rows 0 to 7 at finite distances"):
            precomputed.given_neighbours(x, (indices, distances), "euclidean")
    for wrong in ((near[0][:7], near[1][:7]), (near[0][:, :2], near[1]), (near[0].ravel(), near[1].ravel())):
        with pytest.raises(InputError, match=r"neighbors must be indices and distances, both \(8, k\)"):
            precomputed.given_neighbours(x, wrong, "euclidean")
    assert precomputed.arranged_by(x, 99, 3, "manhattan").graph.k == 7


def _sampled(table: Any, size: int, seed: int = 0) -> Any:
    return lazy.sampled(OptimalApproximationEigenmaps(max_samples=size, random_state=seed), table)


def test_samples_of_blocks(rng: np.random.Generator) -> None:
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    X = np.arange(60.0)[:, None] * np.ones(2)
    table = array.from_array(X, chunks=((5, 30, 25), (1, 1)))
    with dask.config.set(scheduler="synchronous"):
        for size in (60, 61, 100):
            np.testing.assert_array_equal(_sampled(table, size), X)
        for size in (59, 20, 3):
            taken = _sampled(table, size)[:, 0]
            assert len(taken) == size == len(set(taken)) and (np.diff(taken) > 0).all()  # blocks and rows in order
        np.testing.assert_array_equal(_sampled(table, 20), _sampled(table, 20))
        share = np.mean([np.sum(_sampled(table, 12, i)[:, 0] < 35) for i in range(40)])
        assert share == pytest.approx(7, abs=0.6)  # 35 of 60 rows
        unknown = table[table[:, 0] >= 10]  # chunks of unknown length
        assert len(_sampled(unknown, 100, 0)) == 50
        with pytest.raises(InputError, match=r"must be a table \(n, d\), got shape \(60,\)"):
            _sampled(table[:, 0], 5, 0)


@pytest.mark.parametrize("kind", ["parts of parts", "parts of several groups", "many groups"])
def test_groups_beyond_the_coordinates_are_not_lost(kind: str, tmp_path: Path) -> None:
    """Ten coordinates for 30 to 72 groups, in separate parts or one: a map tells them apart, and so do folded vectors,
    which a given time of diffusion asks for; the first ten vectors do not."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    rng = np.random.default_rng(1 if kind == "parts of several groups" else 0)
    groups, width = {"parts of parts": (72, 96), "parts of several groups": (30, 64), "many groups": (60, 64)}[kind]
    labels = rng.integers(groups, size=1500)
    if kind == "parts of parts":
        centres = rng.standard_normal((12, 96))[np.arange(72) // 6] + 0.7 * rng.standard_normal((72, 96))
    else:
        centres = {30: 1.0, 60: 0.9}[groups] * rng.standard_normal((groups, 64))
    X = rng.standard_normal((1500, width)) + centres[labels]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # separate parts
        mapped, plain = _model(10).fit(X), _model(10, coordinates="sphere").fit(X)
        folded = _model(10, diffusion_steps=30.0).fit(X)
    placed, found, lost = (
        adjusted_rand_score(labels, KMeans(groups, n_init=4, random_state=0).fit_predict(each.embedding_))
        for each in (mapped, folded, plain)
    )
    assert placed > 0.97 and placed > lost + (0.0 if kind == "many groups" else -0.01)
    assert found > 0.97 and found > lost + (0.0 if kind == "many groups" else -0.01)
    assert mapped.coordinates_ == "map" and folded.coordinates_ == "sphere"
    assert mapped.basis_.k == plain.basis_.k == 11 and folded.basis_.k > 40
    np.testing.assert_allclose(folded.coordinates_of(10), folded.embedding_)
    for name, model in {"mapped": mapped, "folded": folded}.items():
        assert model.embedding_.shape == model.vectors_.shape == (1500, 10) and len(model.eigenvalues_) == 10
        np.testing.assert_allclose(model.transform(X[:20]), model.embedding_[:20], atol=1e-9)
        assert model.coordinates_of(3).shape == (1500, 3)
        model.save(tmp_path / name)
        again = OptimalApproximationEigenmaps.load(tmp_path / name)
        np.testing.assert_allclose(again.embedding_, model.embedding_, atol=1e-9)
        np.testing.assert_allclose(again.transform(X[:20] + 0.1), model.transform(X[:20] + 0.1), atol=1e-6)


def test_a_shape_is_not_folded(rng: np.random.Generator) -> None:
    """A closed curve has as many slow functions as points, and its coordinates are the first ones."""
    angle = rng.uniform(0, 2 * np.pi, 800)
    model = _model(4).fit(np.column_stack([np.cos(angle), np.sin(angle), 0 * angle]))
    assert model.basis_.k == 5
    wide = np.column_stack([np.cos(angle), np.sin(angle)]) @ rng.normal(size=(2, 80))
    assert _model(4).fit(wide).basis_.k == 5


def test_directions_of_a_folding_keep_pairs_apart(rng: np.random.Generator) -> None:
    """Forty orthogonal places in eight dimensions: principal directions put whole groups in one place."""
    labels = rng.integers(40, size=900)
    places = np.eye(40)[labels] * np.linspace(1, 0.5, 40)[labels][:, None] + 0.01 * rng.normal(size=(900, 40))
    turn = layout.folding(places, 8)
    np.testing.assert_allclose(turn.T @ turn, np.eye(8), atol=1e-12)
    principal = np.linalg.svd(places - places.mean(0), full_matrices=False)[2][:8].T

    def nearest(directions: np.ndarray) -> float:
        centres = np.stack([(places @ directions)[labels == g].mean(0) for g in range(40)])
        return float((np.linalg.norm(centres[:, None] - centres, axis=2) + 9 * np.eye(40)).min())

    assert nearest(turn) > 2 * nearest(principal)


def test_counts_are_compared_by_angle(rng: np.random.Generator) -> None:
    """How much was counted in a row is its size: eight profiles of 200 words, totals of 100 to 20,000."""
    labels = rng.integers(8, size=600)
    profiles = rng.gamma(0.3, 1.0, 200) * np.exp(0.8 * rng.normal(size=(8, 200)))
    totals = rng.lognormal(7, 0.8, size=600)
    table = rng.poisson(totals[:, None] * (profiles / profiles.sum(1, keepdims=True))[labels]).astype(float)
    model = _model(8).fit(table)
    assert model.metric_ == "cosine"
    assert KNeighborsClassifier().fit(model.layout_[::2], labels[::2]).score(model.layout_[1::2], labels[1::2]) > 0.97


def test_the_sizes_of_rows_are_no_direction(rng: np.random.Generator) -> None:
    """Embeddings of any lengths are compared by angle; a curve stays one wherever it lies."""
    rows = torch.from_numpy(rng.normal(size=(500, 80)) + 2)
    assert choose_metric("auto", rows * torch.from_numpy(rng.lognormal(0, 2, size=(500, 1)))) == "cosine"
    t = np.linspace(0, 2 * np.pi, 500)
    knot = np.stack([np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), -np.sin(3 * t)], 1)
    placed = knot @ np.linalg.qr(rng.normal(size=(100, 3)))[0].T
    for shift in (0.0, 3.0, 50.0):
        assert choose_metric("auto", torch.from_numpy(placed + shift)) == "euclidean"


def test_a_column_that_decides_all_distances_is_named(rng: np.random.Generator) -> None:
    table = np.column_stack([rng.normal(size=(300, 5)), 1000 * rng.normal(size=300)])
    with pytest.warns(EigenprobeWarning, match=r"column 5 holds 100 % of the variance.*StandardScaler"):
        _model(3).fit(table)
    other = np.column_stack([rng.normal(size=(300, 7)), table[:, 5], 700 * rng.normal(size=300)])
    with warnings.catch_warnings(action="error"):
        for numbers in (np.full((9, 5), 1e200), np.ones((9, 5)), table[:6] * 1e200):
            layout.warn_of_few_columns(torch.from_numpy(numbers))
    with pytest.warns(EigenprobeWarning, match=r"columns 7, 8 hold 100 % of the variance.* of them alone"):
        _model(3).fit(other)
    thin = rng.normal(size=(300, 3)) * (1000, 1, 1)  # points in space have one unit
    for quiet in (table / table.std(0), thin, np.column_stack([table[:, 5], np.zeros((300, 6))]), other[:, 3:]):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="column")
            _model(3).fit(quiet)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="column")
        _model(3, metric="cosine").fit(table)


@pytest.mark.parametrize("shape", [(300, 5), (6, 40)])
def test_effective_directions_are_those_of_unit_rows(shape: tuple[int, int], rng: np.random.Generator) -> None:
    """(tr C)^2 / tr C^2 by the eigenvalues of the covariance, of tall and of wide tables; far rows count as others."""
    x = rng.normal(size=shape) * np.linspace(0.2, 3, shape[1])
    x[0] *= 1e3
    rows = x / np.linalg.norm(x, axis=1, keepdims=True)
    centred = rows - rows.mean(0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    values = np.linalg.eigvalsh(unit.T @ unit)
    assert layout.directions(torch.from_numpy(x)) == pytest.approx(values.sum() ** 2 / (values**2).sum())
    assert layout.directions(torch.zeros(4, 3)) == 0


@pytest.mark.parametrize("parts", [3, 4])
def test_a_coordinate_for_more_than_two_parts_is_said(parts: int, rng: np.random.Generator) -> None:
    """One coordinate tells two parts more than the first apart; of three it warns."""
    x = np.concatenate([rng.normal(size=(30, 3)) + 1e3 * i for i in range(parts)])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _model(1, n_neighbors=5, coordinates="vectors").fit(x)
    assert any("far below" in str(each.message) for each in said) == (parts == 4)


@pytest.mark.parametrize(("groups", "width", "apart"), [(60, 64, 0.55), (30, 100, 0.5), (60, 40, 0.7)])
def test_groups_that_overlap_are_not_lost_either(groups: int, width: int, apart: float) -> None:
    """Ten coordinates for many groups that no walk tells apart: their vectors go on beyond the tenth."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    rng = np.random.default_rng(3)
    labels = rng.integers(groups, size=1500)
    X = rng.standard_normal((1500, width)) + apart * rng.standard_normal((groups, width))[labels]
    scores = {}
    for kind in ("auto", "sphere"):
        model = _model(10, coordinates=kind).fit(X)
        found = KMeans(groups, n_init=2, random_state=0).fit_predict(model.embedding_)
        scores[kind] = adjusted_rand_score(labels, found)
    assert scores["auto"] > scores["sphere"] + 0.08


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"k": 2, "coordinates": "map"}, None),
        ({"k": 1, "coordinates": "map"}, "a map has at least 2 coordinates, got n_components=1"),
        ({"k": 1, "coordinates": "sphere"}, None),
        ({"solver": "network", "metric": "euclidean"}, None),
        ({"solver": "network", "metric": "manhattan"}, "compares rows by cosine or euclidean, got metric='manhattan'"),
        ({"solver": "direct", "metric": "manhattan"}, None),
        ({"metric": "minkowski", "metric_kwds": {"p": 3}}, None),
        ({"metric": "cosine", "metric_kwds": {"p": 3}}, "metric 'cosine' has no further arguments"),
        ({"metric": "precomputed", "metric_kwds": {"p": 3}}, "metric 'precomputed' has no further arguments"),
        ({"n_jobs": 0}, "n_jobs must be a number of cores"),
        ({"n_jobs": -1}, None),
        ({"map_dimensions": 2}, None),
        ({"map_dimensions": 3}, None),
        ({"map_dimensions": 4}, "map_dimensions must be 2 or 3, got 4"),
        ({"target_weight": 0.0}, None),
        ({"target_weight": 1.0}, None),
        ({"target_weight": 1.01}, "target_weight must be between 0 and 1, got 1.01"),
        ({"target_weight": -0.01}, "target_weight must be between 0 and 1"),
    ],
)
def test_parameters_that_are_wrong_are_named(options: dict[str, Any], told: str | None) -> None:
    model = _model(**({"k": 3} | options))
    if told is None:
        check_parameters(model)
    else:
        with pytest.raises(InputError, match=told):
            check_parameters(model)


@pytest.mark.parametrize(
    ("options", "rows", "mapped", "expected"),
    [
        *(({"k": 2}, 30, False, "sphere"), ({"k": 2}, 31, False, "map")),
        *(({"k": 2}, 100_000, False, "map"), ({"k": 2}, 100_001, False, "sphere")),
        *(({"k": 3}, 10_000, False, "map"), ({"k": 3}, 10_001, False, "sphere"), ({"k": 4}, 500, False, "sphere")),
        *(({"k": 4}, 500, True, "map"), ({"k": 2, "diffusion_steps": 3.0}, 500, False, "sphere")),
        *(
            ({"k": 2, "solver": "network"}, 500, False, "sphere"),
            ({"k": 2, "coordinates": "vectors"}, 500, True, "vectors"),
        ),
    ],
)
def test_which_coordinates_are_chosen(options: dict[str, Any], rows: int, mapped: bool, expected: str) -> None:
    model = _model(**({"coordinates": "auto"} | options))
    model.basis_ = SimpleNamespace(info={"mapped": mapped})
    assert choose_coordinates(model, rows) == expected


def test_the_power_of_diffusion_leaves_a_share_of_the_last_coordinate() -> None:
    """A twentieth of it, by 30 steps at most; of a given power nothing may be left, which is said."""
    assert diffusion_time("auto", np.array([0.9, 0.5])) == pytest.approx(np.log(0.05) / np.log(0.5))
    assert diffusion_time("auto", np.array([0.99, 0.95])) == 30 and diffusion_time("auto", np.array([1.0])) == 30
    assert 0 < diffusion_time("auto", np.array([0.9, -0.2])) < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert diffusion_time(5.0, np.array([0.9, 0.1])) == 5 and diffusion_time(0.5, np.array([])) == 0.5
        assert diffusion_time(2, np.array([0.0011, 1e-9])) == 2  # 1.2e-6
    with pytest.warns(UserWarning, match="diffusion_steps=2 leaves 8e-07 of the first coordinate"):
        diffusion_time(2, np.array([0.0009, 1e-9]))


@pytest.mark.parametrize(
    ("module", "expected"),
    [("dask.array.core", True), ("dask", True), ("dask_expr._collection", True), ("numpy", False), ("my.dask", False)],
)
def test_tables_of_dask_are_known_by_their_module(module: str, expected: bool) -> None:
    assert _is_dask(type("Table", (), {"__module__": module})()) == expected


def test_folded_vectors_are_coordinates_of_all_of_them(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve groups of 40 in four coordinates: every vector is folded, and rows of a group stay together."""
    own = np.repeat(np.arange(12), 40)
    x = 20 * rng.normal(size=(12, 70))[own] + rng.normal(size=(480, 70))
    seen: list[np.ndarray] = []
    real = eigenmaps.folding
    monkeypatch.setattr(eigenmaps, "folding", lambda places, count: seen.append(places) or real(places, count))
    with warnings.catch_warnings(action="ignore"):
        model = _model(4, diffusion_steps=30.0, metric="cosine").fit(x)
    assert model.basis_.k > 5 and seen[0].shape == (480, model.basis_.k - 1)
    y = model.embedding_
    centres = np.stack([y[own == group].mean(0) for group in range(12)])
    apart = np.linalg.norm(centres[:, None] - centres, axis=2) + 9 * np.eye(12)
    assert np.linalg.norm(y - centres[own], axis=1).max() < apart.min()
