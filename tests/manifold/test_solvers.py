"""The closed form of an embedding, and its growth by new rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from eigenprobe import Eigenmaps
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.smoothers import neighbourhood_smoother


def _model(k: int = 4, **options: object) -> Eigenmaps:
    return Eigenmaps(k, **{"random_state": 0, "device": "cpu"} | options)  # type: ignore[arg-type]


def test_vectors_are_those_of_the_smoother(rng: np.random.Generator) -> None:
    """Against LAPACK: 1 - mu, and every vector up to its sign."""
    import torch

    x = rng.normal(size=(120, 5))
    model = _model(5).fit(x)
    scale = model.basis_.extension.frame.scale  # type: ignore[union-attr]
    smoother = neighbourhood_smoother(build_graph(torch.from_numpy(x / scale).float(), 12))
    values, vectors = np.linalg.eigh(smoother.matrix.to_dense().double().numpy())
    gaps = model.eigenvalues_ * model.basis_.info["step_time"]
    np.testing.assert_allclose(gaps, 1 - values[::-1][1:6], atol=1e-5)
    exact = vectors[:, ::-1][:, 1:6]
    found = model.basis_.normalized[:, 1:]
    np.testing.assert_allclose(np.abs((exact * found).sum(0)), 1, atol=1e-3)


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "manhattan"])
def test_growth_is_a_fit_of_all(metric: str) -> None:
    """Also where rows are copies of others, and where a graph cannot be extended."""
    x = load_digits().data[:300] + 1e-3 * np.arange(64)
    given = np.concatenate([x, x[:7]])
    options = {"metric": metric, "coordinates": "vectors", "scale": "none"}
    for rows, first in ((x, 200), (given, 280)):
        whole = _model(**options).fit(rows)
        grown = _model(**options).fit(rows[:first]).partial_fit(rows[first:])
        np.testing.assert_allclose(grown.eigenvalues_, whole.eigenvalues_, rtol=3e-3)
        np.testing.assert_allclose(np.abs(grown.vectors_), np.abs(whole.vectors_), atol=0.03)
    np.testing.assert_array_equal(grown.embedding_[300:], grown.embedding_[:7])
    assert not hasattr(_model(solver="network"), "partial_fit")
