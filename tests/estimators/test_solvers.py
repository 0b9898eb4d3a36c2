"""Tests of `estimators.solvers`: the closed form of an embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.estimators import solvers
from eigenprobe.graph.arranged import arrange
from eigenprobe.graph.graph import build_graph
from eigenprobe.smoothers import Smoother, neighbourhood_smoother
from eigenprobe.smoothers.smoother import csr
from tests.estimators.test_coordinates import _parts


def test_columns_of_parts_are_principal_directions_of_their_centres(rng: np.random.Generator) -> None:
    smoother = _parts(rng)
    count, labels = smoother.components
    assert count == 5
    columns = solvers._part_columns(smoother, 3).numpy()
    np.testing.assert_allclose(columns.T @ columns, np.eye(3), atol=1e-12)
    mass = smoother.mass.double().numpy()
    v = columns / np.sqrt(mass)[:, None]
    np.testing.assert_allclose(np.abs(v[:, 0]), 1, rtol=1e-6)
    x, weight = smoother.graph.points.numpy(), np.bincount(labels, mass)
    centres = np.stack([np.bincount(labels, mass * x[:, j]) / weight for j in range(3)], 1)
    values = np.array([v[labels.numpy() == part][0] for part in range(5)])
    for part in range(5):
        np.testing.assert_allclose(v[labels.numpy() == part], values[[part]].repeat((labels == part).sum(), 0))
    spread = (centres - weight @ centres) * np.sqrt(weight)[:, None]
    left = np.linalg.svd(spread, full_matrices=False)[0][:, :2]
    overlap = np.abs(left.T @ (values[:, 1:] * np.sqrt(weight)[:, None]))
    np.testing.assert_allclose(overlap, np.eye(2), atol=1e-6)


def test_vectors_that_are_not_found_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    cloud = arrange(torch.from_numpy(rng.normal(size=(300, 8))), 12, 5)
    monkeypatch.setattr(solvers, "needed_vectors", lambda *_: 30)
    asked, exact = [], solvers.solve

    def solve(smoother: Smoother, k: int, **options: Any) -> Any:
        asked.append(k)
        return exact(smoother, k, **options)._replace(residual=0.1 if k == 30 else 1e-6)

    monkeypatch.setattr(solvers, "solve", solve)
    assert solvers.fit_direct(cloud, 5, 0, None, 2.5).k == 5 and asked == [30, 5]


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_large_parts_among_many_keep_their_insides(rng: np.random.Generator) -> None:
    """A body of three groups and 110 islands: with 100 vectors constant on the parts the body would be one place."""
    group, island = rng.integers(3, size=400), np.repeat(np.arange(110), 14)
    body = rng.standard_normal((400, 10)) + 3 * rng.standard_normal((3, 10))[group]
    x = np.concatenate([body, 40 * rng.standard_normal((110, 10))[island] + rng.standard_normal((len(island), 10))])
    model = OptimalApproximationEigenmaps(6, diffusion_steps=30.0, random_state=0, device="cpu").fit(x)
    mapped = OptimalApproximationEigenmaps(6, random_state=0, device="cpu").fit(x)
    parts = model.basis_.info["components"]
    assert parts > solvers.MOST_FOLDED and model.suggest_components_ == parts - 1
    assert model.basis_.k == solvers.MOST_FOLDED + 1 and model.basis_.info["residual"] < solvers.TOLERANCE
    smoother = neighbourhood_smoother(model._graph)
    q, matrix = model.basis_.normalized.astype(np.float64), smoother.matrix.to_dense().double().numpy()
    mu = 1 - model.basis_.eigenvalues * model.basis_.info["step_time"]
    np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), atol=1e-5)
    assert np.linalg.norm(matrix @ q - q * mu, axis=0).max() < 2e-5
    inside = np.linalg.eigvalsh(matrix)[::-1][parts : parts + 5]  # the leading ones are those of the largest parts
    np.testing.assert_allclose(mu[51:56], inside, atol=1e-5)
    labels = np.append(group, 3 + island)
    for y in (model.embedding_, mapped.embedding_):
        assert KNeighborsClassifier().fit(y[::2], labels[::2]).score(y[1::2], labels[1::2]) > 0.97
    assert mapped.basis_.k == 7 and mapped.coordinates_ == "map"


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_groups_that_end_at_the_last_coordinate_are_not_folded(rng: np.random.Generator) -> None:
    """Ten digits in ten coordinates (ARI .80 folded, .85 not); five groups in ten, whose insides never end."""
    from sklearn.datasets import load_digits

    def fitted(x: np.ndarray) -> OptimalApproximationEigenmaps:
        return OptimalApproximationEigenmaps(10, random_state=0, device="cpu").fit(x)

    digits = fitted(load_digits().data)
    assert digits.basis_.k == 11 and digits.suggest_components_ == 10
    x = rng.standard_normal((900, 20)) + 1.2 * rng.standard_normal((5, 20))[rng.integers(5, size=900)]
    few = fitted(x)
    assert few.basis_.k == 11 and few.suggest_components_ == 4


@pytest.mark.parametrize(("n", "bulk"), [(9000, 0.6), (200_000, 0.75), (1_000_000, 0.77)])
def test_what_is_inside_of_groups_is_no_group(n: int, bulk: float) -> None:
    """Twenty values of 1, and as many as rows below: each adds a little to the trace, a million of them hundreds."""
    values = torch.full((n,), bulk)
    values[:20] = 1
    every = torch.arange(n + 1)
    smoother = Smoother("diagonal", csr(every, every[:-1], values, (n, n)), None, torch.full((n,), 1 / n), 1.0, 2.0)
    smoother.__dict__["components"] = (1, torch.zeros(n, dtype=torch.int64))
    assert solvers.needed_vectors(smoother, 21, 2.5) == 21
    assert solvers.needed_vectors(smoother, 4, 2.5) in range(40, 44), "twice as many as groups"


def test_groups_ask_for_twice_as_many_vectors(rng: np.random.Generator) -> None:
    """Groups that a walk does not leave: twice their number and the constant; at most a quarter of the rows."""
    x = torch.from_numpy(np.repeat(100.0 * rng.normal(size=(12, 4)), 20, 0) + rng.normal(size=(240, 4)))
    smoother = neighbourhood_smoother(build_graph(x, 6))
    traced = np.trace(np.linalg.matrix_power(smoother.matrix.to_dense().double().numpy(), 30))
    found = solvers.needed_vectors(smoother, 5, 1.0)
    assert traced > 12 and abs(found - 1 - 2 * traced) < 0.2 * 2 * traced
    few = neighbourhood_smoother(build_graph(x[::5], 3))  # 48 rows: a quarter are 12
    assert solvers.needed_vectors(few, 3, 1.0) == 13
    assert solvers.needed_vectors(few, 40, 1e9) == 40


def test_gaps_say_how_many_vectors_overlapping_groups_need() -> None:
    steady = np.linspace(0.05, 0.09, 40)  # which leaves no place to stop
    assert solvers.needed_by_gaps(steady, 10, 10) == solvers.MOST_FOLDED
    ended = np.concatenate([np.linspace(0.01, 0.07, 24), np.linspace(0.2, 0.25, 16)])
    assert solvers.needed_by_gaps(ended, 10, 10) == 48
    here = np.concatenate([np.linspace(0.01, 0.02, 10), np.linspace(0.1, 0.14, 30)])
    assert solvers.needed_by_gaps(here, 10, 10) == 10, "the gap is that of the vectors asked for"
    near = np.concatenate([np.linspace(0.01, 0.02, 12), np.linspace(0.1, 0.14, 28)])
    assert solvers.needed_by_gaps(near, 10, 10) == 10, "a few more"
    grown = np.concatenate([np.linspace(0.001, 0.07, 24), np.linspace(0.2, 0.25, 16)])
    assert solvers.needed_by_gaps(grown * np.arange(1, 41), 10, 10) == 10, "what follows is not like the first"
    assert solvers.needed_by_gaps(np.zeros(40), 10, 10) == solvers.MOST_FOLDED
    assert solvers.largest_gap(1 - ended) == 24 and solvers.largest_gap(np.array([0.5])) == 1
    # Groups that end below the tenth vector: what is beyond hardly grows, because it is inside of them.
    inside = np.concatenate([np.linspace(0.01, 0.02, 7), np.linspace(0.2, 0.24, 33)])
    assert solvers.needed_by_gaps(inside, 10, 10) == 10 and solvers.largest_gap(1 - inside) == 7


def test_gaps_grow_by_the_power_of_weyls_law() -> None:
    """A gap of separate parts counts for as much as it is wide, the first one too."""
    for power in (2.0, 1.0, 0.4):
        np.testing.assert_allclose(solvers.gap_strengths(0.01 * np.arange(1, 30) ** power), power)
    assert solvers.largest_gap(1 - np.r_[1e-9, 0.001 * np.arange(1, 90) ** 1.2]) == 1, "two parts"
    small, nested = 1e-3 * np.arange(1, 12), 0.2 + 1e-3 * np.arange(60)
    assert solvers.needed_by_gaps(np.r_[small, nested], 10, 62) == 10, "groups that end at the eleventh"
    assert solvers.needed_by_gaps(np.r_[small, nested, 0.9 + 1e-4 * np.arange(20)], 10, 62) == 62, "twelve of six"
    assert solvers.needed_by_gaps(np.r_[small, nested[:9], 0.6 + 1e-3 * np.arange(20)], 10, 10) == 10, "unlike them"
    within = np.r_[small[:9], np.linspace(0.02, 0.05, 11), 0.6 + 1e-3 * np.arange(20)]
    assert solvers.needed_by_gaps(within, 10, 10) == 40, "ten of two"
    assert solvers.needed_by_gaps(np.linspace(0.1, 0.2, 40), 10, 30) == 30, "no gap at all"
