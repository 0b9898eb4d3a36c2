"""Gradients and frames against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.neighbors.graph import build_graph, tangent_frames
from tests import clouds as c


def _slope(frames: np.ndarray, parts: tuple, f: np.ndarray) -> np.ndarray:
    return sum(frames[:, :, a] * (part @ f)[:, None] for a, part in enumerate(parts))


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_exact_on_linear_functions_of_flat_clouds(dimension: int, rng: np.random.Generator) -> None:
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0][:, :dimension]
    x = 5 * rng.random((900, dimension)) @ turn.T
    frames, parts = ep.operators.gradient(x)
    assert frames.shape == (900, 3, dimension) and len(parts) == dimension
    np.testing.assert_allclose(
        np.einsum("nda,ndb->nab", frames, frames), np.eye(dimension)[None].repeat(900, 0), atol=1e-9
    )
    direction = rng.normal(size=3)
    expected = turn @ (turn.T @ direction)
    np.testing.assert_allclose(
        _slope(frames, parts, x @ direction + 4), np.tile(expected, (900, 1)), atol=1e-7
    )
    assert max(abs(part @ np.ones(900)).max() for part in parts) < 1e-9


def test_gradient_on_the_sphere_has_the_units_of_one_over_length(rng: np.random.Generator) -> None:
    x = 2 * c.even(c.random_sphere, 3000, rng)
    frames, parts = ep.operators.gradient(x)
    f = x[:, 2] ** 2
    normal = x / 2
    full = 2 * x[:, 2:] * np.array([0, 0, 1.0])
    expected = full - (full * normal).sum(1, keepdims=True) * normal
    error = np.linalg.norm(_slope(frames, parts, f) - expected, axis=1)
    assert error.mean() < 0.03 * np.linalg.norm(expected, axis=1).mean()


def test_minus_divergence_of_the_gradient_is_close_to_the_laplacian(
    rng: np.random.Generator,
) -> None:
    x = c.even(c.random_sphere, 3000, rng)
    stiffness, mass = ep.laplacian(x)
    _, parts = ep.operators.gradient(x)
    f = x[:, 0] * x[:, 1] + x[:, 2]
    again = sum(part.T @ (mass @ (part @ f)) for part in parts)
    assert f @ again == pytest.approx(
        f @ (stiffness @ f), rel=0.02
    )  # the Dirichlet energy, with its factor
    g = x[:, 0] * x[:, 1]
    assert g @ again == pytest.approx(g @ (stiffness @ f), rel=0.02)


def test_order_copies_and_tensors(rng: np.random.Generator) -> None:
    x = c.random_sphere(2500, rng)
    f, order = x[:, 0] * x[:, 2], rng.permutation(2500)
    expected = _slope(*ep.operators.gradient(x), f)
    np.testing.assert_allclose(
        _slope(*ep.operators.gradient(x[order]), f[order]), expected[order], atol=1e-6
    )
    with pytest.warns(ep.EigenprobeWarning, match="coincide"):
        again = ep.operators.gradient(np.concatenate([x, x[:7]]))
    np.testing.assert_allclose(
        _slope(*again, np.append(f, f[:7])), np.concatenate([expected, expected[:7]]), atol=1e-6
    )
    frames, parts = ep.operators.gradient(torch.tensor(x))
    found = sum(frames[:, :, a] * (part @ torch.tensor(f))[:, None] for a, part in enumerate(parts))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("bent", [True, False])
def test_gradients_are_weighted_least_squares(bent: bool, rng: np.random.Generator) -> None:
    """At every point the slope that best tells the differences along edges, with the weights of the
    Laplacian, in the frame of the ten nearest neighbours or, where the cloud fills the space, along
    its axes.
    """
    x = 4 * (c.random_sphere(90, rng) * [1.0, 1.2, 0.8] if bent else rng.random((90, 2)))
    options = {"dimension": 2, "neighbours": "plain"}
    weights = -ep.laplacian(x, **options)[0].toarray()
    frames, parts = ep.operators.gradient(x, **options)
    if bent:
        graph = build_graph(torch.from_numpy(x), 10)
        own = tangent_frames(
            graph.points[graph.indices] - graph.points[:, None], graph.distances, 2
        ).numpy()
        np.testing.assert_allclose(
            frames @ frames.swapaxes(1, 2), own @ own.swapaxes(1, 2), atol=1e-6
        )
    f = rng.normal(size=90)
    for i in range(90):
        others = np.flatnonzero(weights[i] * (np.arange(90) != i))
        root, along = np.sqrt(weights[i, others])[:, None], (x[others] - x[i]) @ frames[i]
        slope = np.linalg.lstsq(root * along, root[:, 0] * (f[others] - f[i]), rcond=None)[0]
        np.testing.assert_allclose([(part @ f)[i] for part in parts], slope, rtol=1e-6, atol=1e-8)
