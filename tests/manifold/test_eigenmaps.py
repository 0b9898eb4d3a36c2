"""Optimal-Approximation Eigenmaps: what the embedding is, where it is defined, and what it says to
bad input.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist, pdist
from sklearn.datasets import load_digits, make_blobs
from sklearn.neighbors import KNeighborsClassifier

from eigenprobe import Basis, Eigenmaps, EigenprobeWarning, InputError
from eigenprobe_lab.evaluation.clustering import kmeans_scores
from tests.clouds import random_sphere

SOLVERS = ("direct", "network")


def _model(k: int = 5, **options: Any) -> Eigenmaps:
    usual = {"random_state": 0, "device": "cpu", "max_iter": 40, "coordinates": "sphere"}
    return Eigenmaps(k, **{**usual, **options})


def _orthonormality(model: Eigenmaps) -> float:
    """The largest entry of ``V^T M V - I``, the constant included."""
    v = np.column_stack([np.ones(len(model.mass_)), model.vectors_])
    return float(np.abs(v.T @ (model.mass_[:, None] * v) - np.eye(v.shape[1])).max())


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:800]  # the file is ordered by writer
    return X[rows], y[rows]


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_basis_is_mass_orthonormal_and_ordered(
    digits: tuple[np.ndarray, np.ndarray], solver: str
) -> None:
    model = _model(8, solver=solver).fit(digits[0])
    assert _orthonormality(model) < 1e-6
    assert model.mass_.sum() == pytest.approx(1)
    assert (np.diff(model.eigenvalues_) >= 0).all() and model.eigenvalues_[0] > 0
    assert (np.linalg.norm(model.embedding_, axis=1) < 1).all()  # inside the unit sphere


def test_network_comes_near_the_closed_form(digits: tuple[np.ndarray, np.ndarray]) -> None:
    direct, network = (
        _model(6).fit(digits[0]),
        _model(6, solver="network", max_iter=100).fit(digits[0]),
    )
    # Courant-Fischer: no trial space has smaller eigenvalues than the closed form
    assert (network.eigenvalues_ >= direct.eigenvalues_ - 1e-3 * direct.eigenvalues_[-1]).all()
    assert network.eigenvalues_.sum() < 1.6 * direct.eigenvalues_.sum()


@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_depend_on_themselves_alone(
    digits: tuple[np.ndarray, np.ndarray], solver: str
) -> None:
    X = digits[0]
    model = _model(solver=solver).fit(X[:400])
    new = X[400:440]
    together = model.transform(new)
    alone = np.concatenate([model.transform(new[i : i + 1]) for i in range(len(new))])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(model.transform(X[:400][::-1]), model.embedding_[::-1], atol=1e-10)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_new_rows_land_among_their_kind(digits: tuple[np.ndarray, np.ndarray], solver: str) -> None:
    X, y = digits
    whole, half = _model(8, solver=solver).fit(X), _model(8, solver=solver).fit(X[:400])
    best = (
        KNeighborsClassifier(10)
        .fit(whole.embedding_[:400], y[:400])
        .score(whole.embedding_[400:], y[400:])
    )
    placed = (
        KNeighborsClassifier(10)
        .fit(half.embedding_, y[:400])
        .score(half.transform(X[400:]), y[400:])
    )
    assert placed > best - 0.04
    assert best > 0.9


def test_scale_and_offset(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X = digits[0][:, :20]
    model, other = _model(metric="euclidean").fit(X), _model(metric="euclidean").fit(10 * X + 1e5)
    np.testing.assert_allclose(np.abs(other.embedding_), np.abs(model.embedding_), atol=1e-4)
    np.testing.assert_allclose(
        other.eigenvalues_, model.eigenvalues_ / 100, rtol=1e-3
    )  # inverse squared length
    cosine = _model(metric="cosine").fit(X)
    rescaled = X * np.linspace(0.1, 9, len(X))[:, None]
    np.testing.assert_allclose(
        np.abs(_model(metric="cosine").fit(rescaled).embedding_),
        np.abs(cosine.embedding_),
        atol=1e-4,
    )


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("n", "parts", "d", "k"),
    [(90, 3, 3, 5), (300, 2, 80, 6), (400, 3, 2, 8), (500, 6, 3, 3), (640, 5, 8, 10)],
)
def test_disconnected_data_have_an_orthonormal_basis(
    n: int, parts: int, d: int, k: int, solver: str, rng: np.random.Generator
) -> None:
    X, _ = make_blobs(n, d, centers=60 * rng.normal(size=(parts, d)), random_state=0)
    model = _model(k, solver=solver, max_iter=20).fit(X)
    assert _orthonormality(model) < 1e-5
    if solver == "direct":  # as many zeros as parts, that of the constant included
        zeros = min(parts - 1, k)
        assert model.eigenvalues_[:zeros].max() < 1e-4 * max(model.eigenvalues_[-1], 1e-3)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("coordinates", ["sphere", "map"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_copies_share_value_and_mass(
    rng: np.random.Generator, solver: str, coordinates: Any
) -> None:
    X = rng.normal(size=(300, 20))
    copies = np.concatenate([X, X[:40], X[:40], X[40:60]])
    order = rng.permutation(len(copies))
    model = _model(4, solver=solver, coordinates=coordinates).fit(copies[order])
    embedding, mass = np.empty_like(model.embedding_), np.empty(len(copies))
    embedding[order], mass[order] = model.embedding_, model.mass_
    for other in (embedding[300:340], embedding[340:380]):
        np.testing.assert_array_equal(other, embedding[:40])
    np.testing.assert_array_equal(mass[300:340], mass[:40])
    np.testing.assert_array_equal(embedding[380:], embedding[40:60])
    np.testing.assert_allclose(model.transform(copies), embedding, rtol=0, atol=1e-10)
    assert _orthonormality(model) < 1e-5
    alone = _model(4, solver=solver, coordinates=coordinates).fit(
        X
    )  # the same graph, each row once
    rounding = (
        1e-3 if solver == "direct" else 0.02
    )  # 300 steps of training magnify another order: .011 at most of 24
    np.testing.assert_allclose(model.eigenvalues_, alone.eigenvalues_, rtol=rounding)
    together = mass[:300] * np.repeat([3, 2, 1], [40, 20, 240])
    np.testing.assert_allclose(together, alone.mass_, rtol=1e-4)


def test_eigenvalues_of_the_sphere(rng: np.random.Generator) -> None:
    """2 and 6 in inverse squared lengths, 4 and 12 in inverse cosine distances; at radius 3 a ninth
    of 2 and 6.
    """
    X = random_sphere(2000, rng)
    for metric, radius, unit in (
        ("euclidean", 1.0, 1.0),
        ("euclidean", 3.0, 1 / 9),
        ("cosine", 3.0, 2.0),
    ):
        values = (
            _model(8, metric=metric).fit(radius * X + (0 if metric == "cosine" else 5)).eigenvalues_
            / unit
        )
        np.testing.assert_allclose(
            values[:3], 2, rtol=0.13
        )  # random points: .10 at most of 26 draws
        np.testing.assert_allclose(values[3:].mean(), 6, rtol=0.1)
        np.testing.assert_allclose(
            values[3:], 6, rtol=0.22
        )  # random points: .19 at most of 24 draws


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_result_is_a_basis(
    tmp_path: Path, rng: np.random.Generator, solver: str, metric: Any
) -> None:
    X = 3 + rng.normal(size=(200, 6))
    model = _model(4, solver=solver, metric=metric).fit(X)
    basis = model.basis_
    assert isinstance(basis, Basis) and (basis.n, basis.k) == (200, 5)
    np.testing.assert_allclose(basis.vectors[:, 0], 1, atol=1e-6)
    np.testing.assert_allclose(basis.vectors[:, 1:], model.vectors_)
    np.testing.assert_allclose(basis.eigenvalues, [0, *model.eigenvalues_])
    basis.save(tmp_path / "basis.safetensors")
    again, new = Basis.load(tmp_path / "basis.safetensors"), 3 + rng.normal(size=(30, 6))
    np.testing.assert_allclose(again(X), basis.vectors, atol=1e-9)
    # the last digit of sums follows where arrays lie in memory
    np.testing.assert_allclose(again(new), basis(new), rtol=0, atol=1e-14)
    spread = (
        basis(new)[:, 1:] * np.maximum(1 - basis.eigenvalues[1:] * basis.info["step_time"], 0) ** 30
    )
    np.testing.assert_allclose(
        spread / np.sqrt(1 + (spread**2).sum(1, keepdims=True)), model.transform(new), atol=1e-12
    )


def test_ties_in_transform_do_not_depend_on_the_batch(rng: np.random.Generator) -> None:
    X = np.unique(rng.integers(0, 2, (500, 16)).astype(float), axis=0)
    model = _model(3, n_neighbors=8).fit(X)
    new = np.concatenate([rng.integers(0, 2, (100, 16)), np.full((10, 16), 0.5)]).astype(float)
    together = model.transform(new)
    alone = np.concatenate([model.transform(new[i : i + 1]) for i in range(len(new))])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)
    np.testing.assert_allclose(together[100:], together[100:101].repeat(10, 0), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_awkward_tables_have_defined_results(rng: np.random.Generator, solver: str) -> None:
    X = rng.normal(size=(40, 5))
    constant = np.concatenate([X, np.full((40, 3), 7.0)], axis=1)
    np.testing.assert_allclose(
        _model(2, solver=solver).fit(constant).embedding_,
        _model(2, solver=solver).fit(X).embedding_,
        atol=1e-3,
    )
    copies = _model(2, solver=solver, n_neighbors=3).fit(np.repeat(X[:12], 5, axis=0))
    assert np.isfinite(
        copies.embedding_
    ).all()  # every neighbour is a copy: distinct rows are fitted, copies follow
    np.testing.assert_array_equal(copies.embedding_[::5], copies.embedding_[4::5])
    few = _model(2, solver=solver, n_neighbors=50).fit(
        X[:6]
    )  # fewer rows than neighbours: all of them
    assert few.embedding_.shape == (6, 2) and np.isfinite(few.transform(X)).all()


def test_bad_input_is_named(rng: np.random.Generator) -> None:
    X = rng.normal(size=(30, 4))
    with_nan = X.copy()
    with_nan[7, 2] = np.nan
    with pytest.raises(InputError, match="features must be finite, row 7 has NaN or infinity"):
        _model().fit(with_nan)
    with pytest.raises(InputError, match="features must be finite, row 7 has NaN or infinity"):
        _model().fit(X).transform(with_nan)
    with pytest.raises(ValueError, match="convert string to float"):
        _model().fit(np.array([["a", "b"]] * 5))
    with pytest.raises(InputError, match="expected distinct points, got 20 that are all equal"):
        _model(2).fit(np.ones((20, 3)))
    with pytest.warns(EigenprobeWarning, match="1 of 30 rows are all zeros.* put at the mean"):
        zero = X + 2
        zero[3] = 0
        _model(metric="cosine").fit(zero)
    with pytest.raises(InputError, match="n_components must be below n_samples=30, got 30"):
        _model(30).fit(X)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_sources_are_streamed(tmp_path: Path, solver: str) -> None:
    X, y = make_blobs(700, 6, centers=4, random_state=0)
    X = X.astype(np.float32)
    path = tmp_path / "x.npy"
    np.save(path, X)
    sources = {
        "path": path,
        "map": np.load(path, mmap_mode="r"),
        "dataset": torch.utils.data.TensorDataset(torch.from_numpy(X)),
    }
    found = {}
    for name, source in sources.items():
        model = _model(3, solver=solver, max_samples=300, n_neighbors=8).fit(source)
        assert model.embedding_.shape == (700, 3) and model.mass_.sum() == pytest.approx(
            1, rel=1e-4
        )
        assert kmeans_scores(model.embedding_, y)["ari"] > 0.95
        np.testing.assert_allclose(model.transform(source), model.embedding_, atol=1e-5)
        found[name] = model.embedding_
    np.testing.assert_allclose(found["path"], found["dataset"], atol=1e-6)
    with pytest.raises(InputError, match="expected 6 columns"):
        np.save(tmp_path / "narrow.npy", X[:, :5])
        model.transform(tmp_path / "narrow.npy")


def test_same_seed_same_embedding(digits: tuple[np.ndarray, np.ndarray]) -> None:
    for solver in SOLVERS:
        first, second = (_model(solver=solver).fit_transform(digits[0][:200]) for _ in range(2))
        np.testing.assert_array_equal(first, second)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("metric", ["jaccard", "dice", "cosine", "euclidean"])
def test_wide_sparse_rows_have_their_own_neighbours(metric: str, rng: np.random.Generator) -> None:
    """A random projection made binary rows of 1025 columns garbage, in silence."""
    kinds = rng.integers(4, size=300)
    chance = np.where(np.arange(3000) % 4 == kinds[:, None], 0.08, 0.01)
    table = (rng.random((300, 3000)) < chance) * 1.0
    model = _model(4, metric=metric).fit(csr_matrix(table))
    assert kmeans_scores(model.embedding_, kinds)["nmi"] > 0.95


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_empty_rows_are_placed(rng: np.random.Generator) -> None:
    table = np.abs(rng.normal(size=(200, 70)) + 3 * np.eye(70)[rng.integers(3, size=200)])
    table[5] = 0
    model = _model(3).fit(csr_matrix(table))
    assert model.metric_ == "cosine" and np.isfinite(model.embedding_).all()
    np.testing.assert_allclose(
        model.transform(np.zeros((1, 70)))[0], model.embedding_[5], atol=1e-6
    )


def test_tensors_give_tensors(rng: np.random.Generator) -> None:
    table = torch.from_numpy(rng.normal(size=(60, 5)))
    model = _model(2)
    assert isinstance(model.fit_transform(table), torch.Tensor) and isinstance(
        model.embedding_, np.ndarray
    )
    assert isinstance(model.transform(table[:3]), torch.Tensor) and isinstance(
        model.transform(table.numpy()), np.ndarray
    )


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("k", [2, 4, 10, 18])
def test_separate_parts_stay_apart_whatever_the_number_of_coordinates(
    k: int, rng: np.random.Generator
) -> None:
    """More parts than coordinates, more coordinates than columns: rows are nearest to the middle
    of its own part."""
    kinds = np.repeat(np.arange(20), 40)
    centres = np.zeros((20, 3))
    while pdist(centres).min() < 15:  # nearer ones are one part
        centres = 60 * rng.normal(size=(20, 3))
    table = rng.normal(size=(800, 3)) + centres[kinds]
    given: tuple[Any, ...] = (
        ({}, table),
        ({"metric": "precomputed"}, np.linalg.norm(table[:, None] - table, axis=2)),
    )
    for options, rows in given:
        model = _model(k, coordinates="map", **options).fit(rows)
        centres = np.stack([model.embedding_[kinds == kind].mean(0) for kind in range(20)])
        assert (cdist(model.embedding_, centres).argmin(1) == kinds).all()


def test_verbose_prints_the_metric_and_the_solver(
    capsys: pytest.CaptureFixture[str], rng: np.random.Generator
) -> None:
    table = rng.normal(size=(80, 4))
    _model(2).fit(table)
    assert not capsys.readouterr().out
    _model(2, verbose=True).fit(table)
    lines = capsys.readouterr().out.splitlines()
    assert (
        "80 of 80 rows, euclidean distances" in lines[0]
        and "2 vectors by dense" in lines[-1]
        and len(lines) == 2
    )


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_a_map_of_a_sample_holds_all_rows(
    digits: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    X = digits[0]
    model = Eigenmaps(2, random_state=0, device="cpu", max_samples=300).fit(X)
    assert (
        model.basis_.n == 300
        and model.embedding_.shape == (800, 2)
        and model.layout_.shape == (300, 2)
    )
    np.testing.assert_array_equal(model.embedding_, model.transform(X))
    model.save(tmp_path)
    np.testing.assert_array_equal(Eigenmaps.load(tmp_path).embedding_, model.embedding_)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("metric", ["precomputed", "precomputed_affinity", "manhattan"])
def test_maps_of_other_metrics_place_new_rows(
    metric: str, digits: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = digits[0][:500], digits[1][:500]
    table = X
    if metric != "manhattan":
        table = np.linalg.norm(X[:, None] - X, axis=2)
        table = np.exp(-((table / 12) ** 2)) if metric == "precomputed_affinity" else table
    fitted = table[:400] if metric == "manhattan" else table[:400, :400]
    new = table[400:] if metric == "manhattan" else table[400:, :400]
    model = Eigenmaps(2, random_state=0, device="cpu", metric=metric).fit(fitted)
    assert model.coordinates_ == "map"
    placed = model.transform(new)
    assert placed.shape == (100, 2)
    expected = (
        0.9 if metric != "precomputed_affinity" else 0.3
    )  # an average over all rows lies in the middle
    assert KNeighborsClassifier(10).fit(model.embedding_, y[:400]).score(placed, y[400:]) > expected
