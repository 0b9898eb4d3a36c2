"""The neighbourhood smoother against its definition, and its extension to new points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.eigen.solve import solve
from eigenprobe.extensions.neighbourhood import NeighbourhoodExtension
from eigenprobe.graph.neighbours import build_graph
from eigenprobe.smoothers.neighbourhood import fuzzy_weights, neighbourhood_smoother


@pytest.fixture
def points(generator: torch.Generator) -> torch.Tensor:
    return torch.randn(80, 5, generator=generator, dtype=torch.float64)


def test_scales_solve_their_equation(points: torch.Tensor) -> None:
    graph = build_graph(points, 9)
    weight = fuzzy_weights(graph.distances)
    np.testing.assert_allclose(weight.sum(1).numpy(), np.log2(9), rtol=1e-6)
    assert bool((weight[:, 0] == 1).all()) and bool((weight.diff(dim=1) <= 0).all())


def test_matrix_is_the_formula(points: torch.Tensor) -> None:
    k, n = 7, len(points)
    graph = build_graph(points, k)
    smoother = neighbourhood_smoother(graph)
    p = np.zeros((n, n))
    np.put_along_axis(p, graph.indices.numpy(), fuzzy_weights(graph.distances).numpy(), axis=1)
    sets = [{i, *row} for i, row in enumerate(graph.indices.tolist())]
    overlap = np.array([[len(a & b) / len(a | b) for b in sets] for a in sets])
    w = np.maximum(p, p.T) * overlap
    r = w.sum(1)
    expected = np.eye(n) / 2 + w / np.sqrt(np.outer(r, r)) / 2
    np.testing.assert_allclose(smoother.matrix.to_dense().numpy(), expected, atol=1e-12)
    assert smoother.mass is not None
    np.testing.assert_allclose(smoother.mass.numpy(), r / r.sum())
    values = np.linalg.eigvalsh(expected)
    assert values.min() >= -1e-12 and values.max() == pytest.approx(1)
    root = smoother.mass.sqrt()
    np.testing.assert_allclose(smoother.apply(root).numpy(), root.numpy(), atol=1e-12)


def test_extension_keeps_fitted_values_and_constants(points: torch.Tensor, generator: torch.Generator) -> None:
    smoother = neighbourhood_smoother(build_graph(points, 8))
    q, mu = (pairs := solve(smoother, 4)).vectors, pairs.factors
    assert smoother.mass is not None
    vectors = q / smoother.mass.sqrt()[:, None]
    extension = NeighbourhoodExtension.of(smoother, vectors, mu)
    np.testing.assert_allclose(extension(points).numpy(), vectors.numpy(), atol=1e-12)
    new = torch.randn(30, 5, generator=generator, dtype=torch.float64)
    values = extension(new)
    np.testing.assert_allclose(values[:, 0].numpy(), float(vectors[0, 0]), rtol=1e-6)  # a constant stays one
    alone = torch.cat([extension(new[i : i + 1]) for i in range(30)])
    np.testing.assert_allclose(values.numpy(), alone.numpy(), atol=1e-10)
    again = NeighbourhoodExtension.from_tensors(extension.tensors(), extension.facts())
    np.testing.assert_array_equal(again(new).numpy(), values.numpy())
