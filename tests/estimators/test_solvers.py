"""Tests of `estimators.solvers`: the two ways to the basis of an embedding: closed form, and a network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.estimators import solvers
from eigenprobe.graph.arranged import arrange
from eigenprobe.graph.graph import build_graph
from eigenprobe.smoothers import Smoother, neighbourhood_smoother
from eigenprobe.smoothers.smoother import csr
from tests.estimators.test_coordinates import _parts


@pytest.fixture
def smoother(rng: np.random.Generator) -> Smoother:
    return neighbourhood_smoother(build_graph(torch.from_numpy(rng.normal(size=(70, 5))), 8))


def _principal(x: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and principal directions over the root of their deviation (times the root of the mean deviation)."""
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    deviation, vectors = np.sqrt(np.maximum(values[::-1][:width], 0)), vectors[:, ::-1][:, :width]
    kept = deviation > 1e-3 * deviation[0]
    return x.mean(0), vectors[:, kept] / np.sqrt(deviation[kept] * deviation[kept].mean())


def test_a_network_of_several_subsets_is_defined_on_the_first(rng: np.random.Generator) -> None:
    clouds = [arrange(torch.from_numpy(rng.normal(size=(n, 3))), 8, 4) for n in (60, 45)]
    basis = solvers.fit_by_network(clouds, 3, 0, solvers.Training((8,), 2, 0.01, {}))
    assert basis.n == 60 and basis.info["subsets"] == 2
    vectors = basis.normalized / basis.mass.sqrt()[:, None]
    torch.testing.assert_close(basis.extension(clouds[0].given), vectors, atol=1e-6, rtol=1e-5)
    points = basis.extension.context.points * clouds[0].frame.scale + clouds[0].frame.centre
    torch.testing.assert_close(points.double(), clouds[0].given.double(), atol=1e-6, rtol=0)


def test_context_features_are_averages_along_principal_directions(smoother: Smoother) -> None:
    x, a = smoother.graph.points.numpy(), smoother.matrix.to_dense().double().numpy()
    root = np.sqrt(smoother.mass.double().numpy())
    walk = a / root[:, None] * root  # averages of functions
    mean, turn = _principal(x, solvers.PRINCIPAL)
    start, expected = (x - mean) @ turn, []
    for steps in solvers.CONTEXT:
        part = np.linalg.matrix_power(walk, steps) @ start
        mean, turn = _principal(part, part.shape[1])
        expected.append((part - mean) @ turn)
    (found,) = solvers.context_features([smoother])
    expected = np.concatenate(expected, 1)
    assert found.shape == expected.shape
    sign = np.sign((found.numpy() * expected).sum(0))
    np.testing.assert_allclose(found.numpy() * sign, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(solvers.root_mass(smoother).numpy(), root)
    # of a second cloud: the directions and scales of the first
    other = neighbourhood_smoother(build_graph(smoother.graph.points + 0.5, 8))
    both = solvers.context_features([smoother, other])
    torch.testing.assert_close(both[0], found)
    shift = both[1] - both[0]
    torch.testing.assert_close(shift, shift[:1].expand_as(shift), atol=1e-4, rtol=1e-4)
    assert float(shift.norm()) > 0.1


def test_constant_columns_have_no_direction(rng: np.random.Generator) -> None:
    x = torch.from_numpy(np.column_stack([rng.normal(size=(50, 3)), np.full((50, 2), 4.0), 1e-5 * rng.normal(size=50)]))
    mean, turn = solvers._principal(x, 6)
    assert turn.shape == (6, 3)
    np.testing.assert_allclose(mean.numpy(), x.mean(0).numpy())


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


def test_the_training_of_an_embedding(monkeypatch: pytest.MonkeyPatch, smoother: Smoother) -> None:
    """Ten steps of warm-up, or a tenth of the steps, at least one; dense covariances of small clouds."""
    from eigenprobe.probes.covariance import Covariance, DenseCovariance
    from eigenprobe.training import module, runs

    seen: list[Any] = []
    real = module.Optimisation
    monkeypatch.setattr(
        module, "Optimisation", lambda *given, **named: seen.append((given, named)) or real(*given, **named)
    )
    monkeypatch.setattr(runs, "train", lambda trained, data, settings: seen.append((trained, data, settings)))
    features = solvers.context_features([smoother])
    for steps, warmup in ((5, 1), (19, 1), (20, 2), (99, 9), (100, 10), (400, 10)):
        training = solvers.Training((7,), steps, 0.02, {})
        seen.clear()
        network = solvers._train(features, [smoother], 4, 0, training)
        assert seen[0] == ((steps,), {"rate": 0.02, "warmup": warmup})
        trained, _, settings = seen[1]
        assert trained.objective.relative and trained.objective.kind == "expected" and settings.device == "cpu"
    values = solvers.outputs(network.double(), features[0])
    assert values.shape == (70, 4) and bool((values[:, 0] == 1).all())
    for limit, kind in ((70, DenseCovariance), (69, Covariance)):
        monkeypatch.setattr(solvers, "DENSE_ROWS", limit)
        batch = solvers._sampling(features[0], smoother, torch.Generator().manual_seed(0))
        assert isinstance(batch.covariance, kind) and batch.covariance.trace().item() == pytest.approx(1, rel=1e-5)


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
    assert solvers.overlapping_groups(steady, 10) == solvers.MOST_FOLDED
    ended = np.concatenate([np.linspace(0.01, 0.07, 24), np.linspace(0.2, 0.25, 16)])
    assert solvers.overlapping_groups(ended, 10) == 48
    here = np.concatenate([np.linspace(0.01, 0.02, 10), np.linspace(0.1, 0.14, 30)])
    assert solvers.overlapping_groups(here, 10) == 10, "the gap is that of the vectors asked for"
    near = np.concatenate([np.linspace(0.01, 0.02, 12), np.linspace(0.1, 0.14, 28)])
    assert solvers.overlapping_groups(near, 10) == 10, "a few more"
    grown = np.concatenate([np.linspace(0.001, 0.07, 24), np.linspace(0.2, 0.25, 16)])
    assert solvers.overlapping_groups(grown * np.arange(1, 41), 10) == 10, "what follows is not like the first"
    assert solvers.overlapping_groups(np.zeros(40), 10) == solvers.MOST_FOLDED
    assert solvers.largest_gap(1 - ended) == 24 and solvers.largest_gap(np.array([0.5])) == 1
    # Groups that end below the tenth vector: what is beyond hardly grows, because it is inside of them.
    inside = np.concatenate([np.linspace(0.01, 0.02, 7), np.linspace(0.2, 0.24, 33)])
    assert solvers.overlapping_groups(inside, 10) == 10 and solvers.largest_gap(1 - inside) == 7


def test_gaps_grow_by_the_power_of_weyls_law() -> None:
    """A gap of separate parts counts for as much as it is wide, the first one too."""
    for power in (2.0, 1.0, 0.4):
        np.testing.assert_allclose(solvers.gap_strengths(0.01 * np.arange(1, 30) ** power), power)
    assert solvers.largest_gap(1 - np.r_[1e-9, 0.001 * np.arange(1, 90) ** 1.2]) == 1, "two parts"
    small = 1e-3 * np.arange(1, 12)
    nested = np.r_[small, 0.2 + 1e-3 * np.arange(60), 0.9 + 1e-4 * np.arange(20)]
    assert not solvers.ends_early(nested, 10), "twelve groups of six"
    assert solvers.ends_early(nested[:60], 10) and not solvers.ends_early(nested[:60], 5)
    assert not solvers.ends_early(np.linspace(0.1, 0.2, 40), 10, clear=True)


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
