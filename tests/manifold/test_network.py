"""Tests of `estimators.network`: context features and the training of an embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from eigenprobe.cloud.arranged import arrange
from eigenprobe.manifold import network
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.smoothers import Smoother, neighbourhood_smoother


@pytest.fixture
def smoother(rng: np.random.Generator) -> Smoother:
    return neighbourhood_smoother(build_graph(torch.from_numpy(rng.normal(size=(70, 5))), 8))


def _principal(x: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean, and principal directions over the root of their deviation (times the root of the mean
    deviation).
    """
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    deviation, vectors = np.sqrt(np.maximum(values[::-1][:width], 0)), vectors[:, ::-1][:, :width]
    kept = deviation > 1e-3 * deviation[0]
    return x.mean(0), vectors[:, kept] / np.sqrt(deviation[kept] * deviation[kept].mean())


def test_a_network_of_several_subsets_is_defined_on_the_first(rng: np.random.Generator) -> None:
    clouds = [arrange(torch.from_numpy(rng.normal(size=(n, 3))), 8, 4) for n in (60, 45)]
    basis = network.fit_by_network(clouds, 3, 0, network.Training((8,), 2, 0.01, {}))
    assert basis.n == 60 and basis.info["subsets"] == 2
    vectors = basis.normalized / basis.mass.sqrt()[:, None]
    torch.testing.assert_close(basis.extension(clouds[0].given), vectors, atol=1e-6, rtol=1e-5)
    points = basis.extension.context.points * clouds[0].frame.scale + clouds[0].frame.centre
    torch.testing.assert_close(points.double(), clouds[0].given.double(), atol=1e-6, rtol=0)


def test_context_features_are_averages_along_principal_directions(smoother: Smoother) -> None:
    x, a = smoother.graph.points.numpy(), smoother.matrix.to_dense().double().numpy()
    root = np.sqrt(smoother.mass.double().numpy())
    walk = a / root[:, None] * root  # averages of functions
    mean, turn = _principal(x, network.PRINCIPAL)
    start, expected = (x - mean) @ turn, []
    for steps in network.CONTEXT:
        part = np.linalg.matrix_power(walk, steps) @ start
        mean, turn = _principal(part, part.shape[1])
        expected.append((part - mean) @ turn)
    (found,) = network.context_features([smoother])
    expected = np.concatenate(expected, 1)
    assert found.shape == expected.shape
    sign = np.sign((found.numpy() * expected).sum(0))
    np.testing.assert_allclose(found.numpy() * sign, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(network.root_mass(smoother).numpy(), root)
    # of a second cloud: the directions and scales of the first
    other = neighbourhood_smoother(build_graph(smoother.graph.points + 0.5, 8))
    both = network.context_features([smoother, other])
    torch.testing.assert_close(both[0], found)
    shift = both[1] - both[0]
    torch.testing.assert_close(shift, shift[:1].expand_as(shift), atol=1e-4, rtol=1e-4)
    assert float(shift.norm()) > 0.1


def test_constant_columns_have_no_direction(rng: np.random.Generator) -> None:
    x = torch.from_numpy(
        np.column_stack(
            [rng.normal(size=(50, 3)), np.full((50, 2), 4.0), 1e-5 * rng.normal(size=50)]
        )
    )
    mean, turn = network._principal(x, 6)
    assert turn.shape == (6, 3)
    np.testing.assert_allclose(mean.numpy(), x.mean(0).numpy())


def test_the_training_of_an_embedding(monkeypatch: pytest.MonkeyPatch, smoother: Smoother) -> None:
    """Ten steps of warm-up, or a tenth of the steps, at least one; dense covariances of small
    clouds.
    """
    from eigenprobe.probes.covariance import Covariance, DenseCovariance
    from eigenprobe.training import module, runs

    seen: list[Any] = []
    real = module.Optimisation
    monkeypatch.setattr(
        module,
        "Optimisation",
        lambda *given, **named: seen.append((given, named)) or real(*given, **named),
    )
    monkeypatch.setattr(
        runs, "train", lambda trained, data, settings: seen.append((trained, data, settings))
    )
    features = network.context_features([smoother])
    for steps, warmup in ((5, 1), (19, 1), (20, 2), (99, 9), (100, 10), (400, 10)):
        training = network.Training((7,), steps, 0.02, {})
        seen.clear()
        made = network._train(features, [smoother], 4, 0, training)
        assert seen[0] == ((steps,), {"rate": 0.02, "warmup": warmup})
        trained, _, settings = seen[1]
        assert (
            trained.objective.relative
            and trained.objective.kind == "expected"
            and settings.device == "cpu"
        )
    values = network.outputs(made.double(), features[0])
    assert values.shape == (70, 4) and bool((values[:, 0] == 1).all())
    for limit, kind in ((70, DenseCovariance), (69, Covariance)):
        monkeypatch.setattr(network, "DENSE_ROWS", limit)
        batch = network._sampling(features[0], smoother, torch.Generator().manual_seed(0))
        assert isinstance(
            batch.covariance, kind
        ) and batch.covariance.trace().item() == pytest.approx(1, rel=1e-5)
