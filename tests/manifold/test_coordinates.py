"""Metric, scale and kind of coordinates: what is chosen, said and refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.neighbors import KNeighborsClassifier

from eigenprobe import Eigenmaps, EigenprobeWarning, InputError


def _model(k: int = 3, **options: Any) -> Eigenmaps:
    return Eigenmaps(k, **{"random_state": 0, "device": "cpu"} | options)


def test_wide_rows_are_compared_by_angle(rng: np.random.Generator) -> None:
    """Whatever their sizes; a curve in many columns by distance, wherever it lies."""
    rows = (rng.normal(size=(300, 80)) + 2) * rng.lognormal(0, 2, size=(300, 1))
    assert _model().fit(rows).metric_ == "cosine"
    assert _model(scale="none").fit(rows[:, :63]).metric_ == "euclidean"
    t = np.linspace(0, 2 * np.pi, 300)
    knot = np.stack(
        [np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), -np.sin(3 * t)], 1
    )
    placed = knot @ np.linalg.qr(rng.normal(size=(100, 3)))[0].T
    for shift in (0.0, 50.0):
        assert _model().fit(placed + shift).metric_ == "euclidean"


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
@pytest.mark.parametrize("columns", [200, 2000])
def test_counts_are_compared_by_angle(kind: Any, columns: int, rng: np.random.Generator) -> None:
    """How much was counted is the size of a row: profiles of few directions, dense and sparse."""
    labels = rng.integers(3, size=300)
    profiles = rng.gamma(0.3, 1.0, columns) * np.exp(0.8 * rng.normal(size=(3, columns)))
    means = rng.lognormal(7, 0.8, size=(300, 1)) * (profiles / profiles.sum(1)[:, None])[labels]
    model = _model(2).fit(kind(rng.poisson(means).astype(float)))
    assert model.metric_ == "cosine"
    halves = KNeighborsClassifier().fit(model.layout_[::2], labels[::2])
    assert halves.score(model.layout_[1::2], labels[1::2]) > 0.97


def test_columns_of_different_units_are_scaled_and_it_is_said() -> None:
    for table in (load_wine(), load_breast_cancer()):
        x, y = table.data, table.target
        with pytest.warns(EigenprobeWarning, match=r"column \d+ is .*scale='none' keeps them"):
            model = _model(2).fit(x)
        kept, asked = (_model(2, scale=each).fit(x) for each in ("none", "standard"))
        np.testing.assert_array_equal(asked.embedding_, model.embedding_)
        np.testing.assert_allclose(model.transform(x[:9]), model.embedding_[:9], atol=1e-9)
        np.testing.assert_allclose(model.inverse_transform(model.embedding_), x, rtol=1e-6)
        scaled, raw = (
            KNeighborsClassifier().fit(z[::2], y[::2]).score(z[1::2], y[1::2])
            for z in (model.embedding_, kept.embedding_)
        )
        assert scaled > raw + 0.02


def test_clean_tables_say_nothing(rng: np.random.Generator) -> None:
    """Two or more coordinates, copies, parts, points in space that are a thin line, principal
    coordinates."""
    x = rng.normal(size=(200, 6))
    tables = (x, load_iris().data, x[:, :3] * (1e4, 1, 1), x * np.geomspace(1, 30, 6))
    with warnings.catch_warnings(action="error"):
        for table in (*tables, np.concatenate([x, x + 1e3]), np.concatenate([x, x[:2]])):
            for k in (2, 5):
                _model(k if k < table.shape[1] else 2).fit(table)


def test_spectral_coordinates_are_their_formulas(rng: np.random.Generator) -> None:
    x = rng.normal(size=(200, 8))
    vectors, sphere = (_model(4, coordinates=kind).fit(x) for kind in ("vectors", "sphere"))
    np.testing.assert_array_equal(vectors.embedding_, vectors.vectors_)
    mu = 1 - sphere.eigenvalues_ * sphere.basis_.info["step_time"]
    spread = sphere.vectors_ * mu ** min(30.0, np.log(0.05) / np.log(mu[-1]))
    expected = spread / np.sqrt(1 + (spread**2).sum(1, keepdims=True))
    np.testing.assert_allclose(sphere.embedding_, expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["map", "sphere", "vectors"])
def test_fitted_rows_come_back_from_their_coordinates(kind: str, rng: np.random.Generator) -> None:
    x = rng.normal(size=(300, 6)).astype(np.float32)
    model = _model(4, coordinates=kind).fit(x)
    np.testing.assert_array_equal(model.inverse_transform(model.embedding_), x)
    some = _model(4, coordinates=kind, max_samples=100).fit(x)
    fitted = some.basis_.points
    np.testing.assert_allclose(some.inverse_transform(some.transform(fitted)), fitted, atol=1e-6)
    near = model.inverse_transform(model.embedding_ + 1e-3 * model.embedding_.std())
    assert (near >= x.min(0) - 1e-5).all() and (near <= x.max(0) + 1e-5).all(), "averages"
    with pytest.raises(InputError, match=r"expected coordinates \(m, 4\), got shape \(300, 3\)"):
        model.inverse_transform(model.embedding_[:, :3])


def test_vectors_that_do_not_tell_parts_apart_are_said(rng: np.random.Generator) -> None:
    x = np.concatenate([rng.normal(size=(30, 3)) + 1e3 * i for i in range(4)])
    with pytest.warns(EigenprobeWarning, match="2 vectors do not tell 4 separate parts apart"):
        _model(2, n_neighbors=5, coordinates="vectors").fit(x)
    with warnings.catch_warnings(action="error"):
        _model(3, n_neighbors=5, coordinates="vectors").fit(x)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"solver": "magic"}, "solver must be"),
        ({"metric": "city"}, "metric must be"),
        ({"coordinates": "polar"}, "coordinates must be"),
        ({"scale": "log"}, "scale must be"),
        ({"solver": "network", "metric": "manhattan"}, "compares rows by cosine or euclidean"),
        ({"metric": "cosine", "metric_kwds": {"p": 3}}, "'cosine' has no further arguments"),
        ({"n_jobs": 0}, "n_jobs must be a number of cores"),
        ({"map_dimensions": 4}, "map_dimensions must be 2 or 3, got 4"),
        ({"k": 0}, "n_components must be a positive integer"),
        ({"n_neighbors": 0}, "n_neighbors must be a positive integer"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
        ({"max_samples": 12}, "max_samples must exceed n_components and n_neighbors"),
        ({"mixed": True}, "mixed=True encodes columns of a data frame, got ndarray"),
        ({"k": 30}, "n_components must be below n_samples=30, got 30"),
    ],
)
def test_parameters_that_are_wrong_are_named(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        _model(**options).fit(np.random.default_rng(0).normal(size=(30, 4)))
