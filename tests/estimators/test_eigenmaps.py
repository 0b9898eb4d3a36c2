"""Optimal-Approximation Eigenmaps: what the embedding is, where it is defined, and what it says to bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_blobs
from sklearn.neighbors import KNeighborsClassifier

from eigenprobe import EigenprobeWarning, InputError, OptimalApproximationEigenmaps
from eigenprobe.estimators.frame import COORDINATES
from eigenprobe.evaluation.clustering import kmeans_scores

SOLVERS = ("direct", "network")


def _model(k: int = 5, **options: Any) -> OptimalApproximationEigenmaps:
    return OptimalApproximationEigenmaps(k, **{"random_state": 0, "device": "cpu", "max_iter": 40, **options})


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:800]  # the file is ordered by writer
    return X[rows], y[rows]


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_basis_is_mass_orthonormal_and_ordered(digits: tuple[np.ndarray, np.ndarray], solver: str) -> None:
    model = _model(8, solver=solver).fit(digits[0])
    gram = model.vectors_.T @ (model.mass_[:, None] * model.vectors_)
    np.testing.assert_allclose(gram, np.eye(8), atol=1e-4)
    np.testing.assert_allclose(model.vectors_.T @ model.mass_, 0, atol=1e-4)  # orthogonal to the constant
    assert model.mass_.sum() == pytest.approx(1)
    assert (np.diff(model.eigenvalues_) >= 0).all() and model.eigenvalues_[0] > 0
    assert (np.linalg.norm(model.embedding_, axis=1) < 1).all()  # inside the unit sphere


def test_network_comes_near_the_closed_form(digits: tuple[np.ndarray, np.ndarray]) -> None:
    direct, network = _model(6).fit(digits[0]), _model(6, solver="network", max_iter=100).fit(digits[0])
    # Courant-Fischer: no trial space has smaller eigenvalues than the closed form
    assert (network.eigenvalues_ >= direct.eigenvalues_ - 1e-3 * direct.eigenvalues_[-1]).all()
    assert network.eigenvalues_.sum() < 1.6 * direct.eigenvalues_.sum()


@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_depend_on_themselves_alone(digits: tuple[np.ndarray, np.ndarray], solver: str) -> None:
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
    best = KNeighborsClassifier(10).fit(whole.embedding_[:400], y[:400]).score(whole.embedding_[400:], y[400:])
    placed = KNeighborsClassifier(10).fit(half.embedding_, y[:400]).score(half.transform(X[400:]), y[400:])
    assert placed > best - 0.04
    assert best > 0.9


def test_coordinates_and_prefixes(digits: tuple[np.ndarray, np.ndarray]) -> None:
    models = {kind: _model(4, coordinates=kind).fit(digits[0]) for kind in COORDINATES}
    v, mass = models["vectors"].embedding_, models["vectors"].mass_
    np.testing.assert_allclose(models["normalized"].embedding_, v * np.sqrt(mass)[:, None], atol=1e-12)
    spread = models["diffusion"].embedding_
    np.testing.assert_allclose(models["sphere"].embedding_, spread / np.sqrt(1 + (spread**2).sum(1))[:, None])
    ratio = np.abs(spread).sum(0) / np.abs(v).sum(0)
    assert (np.diff(ratio) <= 1e-9).all() and (ratio <= 1).all()  # later coordinates are damped more
    fewer = _model(2).fit(digits[0])
    np.testing.assert_allclose(np.abs(models["sphere"].coordinates_of(2)), np.abs(fewer.embedding_), atol=1e-3)
    with pytest.raises(InputError, match="between 1 and n_components=4"):
        models["sphere"].coordinates_of(5)


def test_scale_and_offset(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X = digits[0][:, :20]
    model, other = _model(metric="euclidean").fit(X), _model(metric="euclidean").fit(10 * X + 1e5)
    np.testing.assert_allclose(np.abs(other.embedding_), np.abs(model.embedding_), atol=1e-4)
    np.testing.assert_allclose(other.eigenvalues_, model.eigenvalues_ / 100, rtol=1e-3)  # inverse squared length
    cosine = _model(metric="cosine").fit(X)
    rescaled = X * np.linspace(0.1, 9, len(X))[:, None]
    np.testing.assert_allclose(
        np.abs(_model(metric="cosine").fit(rescaled).embedding_), np.abs(cosine.embedding_), atol=1e-4
    )


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
    gram = model.vectors_.T @ (model.mass_[:, None] * model.vectors_)
    np.testing.assert_allclose(gram, np.eye(4), atol=1e-3)
    np.testing.assert_allclose(model.vectors_.T @ model.mass_, 0, atol=1e-3)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_awkward_tables_have_defined_results(rng: np.random.Generator, solver: str) -> None:
    X = rng.normal(size=(40, 5))
    constant = np.concatenate([X, np.full((40, 3), 7.0)], axis=1)
    np.testing.assert_allclose(
        _model(2, solver=solver).fit(constant).embedding_, _model(2, solver=solver).fit(X).embedding_, atol=1e-3
    )
    copies = _model(2, solver=solver, n_neighbors=3).fit(np.repeat(X[:12], 5, axis=0))
    assert np.isfinite(copies.embedding_).all()  # every neighbour is a copy: distinct rows are fitted, copies follow
    np.testing.assert_array_equal(copies.embedding_[::5], copies.embedding_[4::5])
    few = _model(2, solver=solver, n_neighbors=50).fit(X[:6])  # fewer rows than neighbours: all of them
    assert few.embedding_.shape == (6, 2) and np.isfinite(few.transform(X)).all()


def test_bad_input_is_named(rng: np.random.Generator) -> None:
    X = rng.normal(size=(30, 4))
    with_nan = X.copy()
    with_nan[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        _model().fit(with_nan)
    with pytest.raises(ValueError, match="NaN"):
        _model().fit(X).transform(with_nan)
    with pytest.raises(ValueError, match="convert string to float"):
        _model().fit(np.array([["a", "b"]] * 5))
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(X)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        _model().fit(sparse)
    with pytest.raises(InputError, match="all rows are equal"):
        _model(2).fit(np.ones((20, 3)))
    with pytest.raises(InputError, match="row 3 is all zeros"):
        zero = X.copy()
        zero[3] = 0
        _model(metric="cosine").fit(zero)
    with pytest.raises(InputError, match="n_components must be below n_samples=30, got 30"):
        _model(30).fit(X)
    for option, match in (
        ({"solver": "magic"}, "solver must be"),
        ({"metric": "city"}, "metric must be"),
        ({"coordinates": "polar"}, "coordinates must be"),
        ({"n_neighbors": 0}, "n_neighbors must be a positive integer"),
    ):
        with pytest.raises(InputError, match=match):
            _model(**option).fit(X)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_sources_are_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solver: str) -> None:
    from eigenprobe.estimators import eigenmaps

    monkeypatch.setattr(eigenmaps, "BLOCK", 128)
    monkeypatch.setattr(eigenmaps, "SUBSET", 150)
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
        assert model.embedding_.shape == (700, 3) and model.mass_.sum() == pytest.approx(1, rel=1e-4)
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
