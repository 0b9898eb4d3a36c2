"""scikit-learn's own checks, for both solvers."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from eigenprobe import Eigenmaps, InputError

FAST = {"max_iter": 5, "hidden_layer_sizes": (8,), "random_state": 0, "device": "cpu"}


def _expected_failures(estimator: Any) -> dict[str, str]:
    """None: every check passes. A check that must fail would be named here, with its reason."""
    return {}


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@parametrize_with_checks(
    [
        Eigenmaps(random_state=0, device="cpu"),
        Eigenmaps(2, solver="network", **FAST),
        Eigenmaps(2, random_state=0, device="cpu"),
    ],
    expected_failed_checks=_expected_failures,
)
def test_estimator_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("solver", ["direct", "network"])
@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_clone_pickle_and_pandas(solver: str) -> None:
    pandas = pytest.importorskip("pandas")
    X, _ = make_blobs(60, 4, centers=3, random_state=0)
    model = Eigenmaps(3, solver=solver, **FAST)
    assert clone(model).get_params() == model.get_params()
    model.fit(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X + 0.1), model.transform(X + 0.1))
    frame = pandas.DataFrame(X, columns=list("abcd"))
    named = clone(model).set_output(transform="pandas").fit(frame)
    table = named.transform(frame)
    assert list(table.columns) == [f"eigenmaps{i}" for i in range(3)]
    np.testing.assert_allclose(table.to_numpy(), model.embedding_, atol=1e-12)
    assert list(named.feature_names_in_) == list("abcd")


def test_pipeline_and_grid_search() -> None:
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:300], y[:300]
    pipeline = make_pipeline(
        MinMaxScaler(), Eigenmaps(6, random_state=0, device="cpu"), KNeighborsClassifier(5)
    )
    name = "eigenmaps__coordinates"
    search = GridSearchCV(pipeline, {name: ["sphere", "vectors"]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9


def test_times_in_a_data_frame_are_named(rng: np.random.Generator) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"a": rng.normal(size=40), "when": pandas.date_range("2020", periods=40)}
    )
    with pytest.raises(InputError, match="column 'when' is not: make numbers of times"):
        Eigenmaps(2).fit(frame)
