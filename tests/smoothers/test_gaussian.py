"""The two Gaussian smoothers against dense loops over the graph."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from eigenprobe.decomposition import decompose
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.smoothers.gaussian import row_smoother, symmetric_smoother


@pytest.mark.parametrize(("count", "loops"), [(8, False), (1, False), (8, True)])
def test_rows_are_averages_of_neighbours(count: int, loops: bool, rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.normal(size=(60, 3)))
    graph, sigma = build_graph(x, count, self_loops=loops), 0.7
    found = row_smoother(graph, sigma, 2.0)
    expected = torch.zeros(60, 60, dtype=torch.float64)
    for i, row in enumerate(graph.indices.tolist()):
        for j in row:
            expected[i, j] = torch.exp(-(x[i] - x[j]).square().sum() / sigma**2)
    expected /= expected.sum(1, keepdim=True)
    assert torch.allclose(found.matrix.to_dense(), expected)
    assert torch.allclose(found.mass, torch.full((60,), 1 / 60, dtype=torch.float64))
    squared = torch.cdist(x, x).square()
    assert found.step_time == pytest.approx(float((expected * squared).sum(1).mean() / 4))


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_the_symmetric_kernel_divides_out_the_density(
    rng: np.random.Generator, alpha: float, loops: bool
) -> None:
    x = torch.from_numpy(rng.normal(size=(60, 3)))
    graph, sigma = build_graph(x, 8, self_loops=loops), 0.9
    found = symmetric_smoother(graph, sigma, 2.0, alpha)
    weight = torch.zeros(60, 60, dtype=torch.float64)
    for i, row in enumerate(graph.indices.tolist()):
        for j in row:
            weight[i, j] = weight[j, i] = torch.exp(-(x[i] - x[j]).square().sum() / sigma**2)
    density = weight.sum(1) ** -alpha
    weight = density[:, None] * weight * density
    degree = weight.sum(1)
    assert torch.allclose(found.matrix.to_dense(), weight / (degree[:, None] * degree).sqrt())
    assert torch.allclose(found.mass, degree / degree.sum())


def test_no_bandwidth_where_points_coincide() -> None:
    graph = build_graph(torch.zeros(30, 3, dtype=torch.float64), 5)
    with pytest.raises(InputError, match="most points coincide"):
        row_smoother(graph, None, 2.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_point_far_from_all_others_keeps_a_weight(
    dtype: torch.dtype, rng: np.random.Generator
) -> None:
    """Its kernel underflows: the matrix is finite and symmetric with |A| = 1, its mass above 0."""
    x = torch.from_numpy(np.concatenate([rng.normal(size=(40, 3)), [[1e4, 0, 0]]])).to(dtype)
    for loops in (False, True):
        found = symmetric_smoother(build_graph(x, 8, self_loops=loops), 0.9, 2.0)
        matrix = found.matrix.to_dense().double()
        assert bool(matrix.isfinite().all()) and float(found.mass.min()) >= 0
        torch.testing.assert_close(matrix, matrix.mT)
        assert float(torch.linalg.eigvalsh(matrix)[-1]) == pytest.approx(1, abs=1e-5)
    rows = row_smoother(build_graph(x, 8), 0.9, 2.0).matrix.to_dense()
    torch.testing.assert_close(rows.sum(1), torch.ones(41, dtype=dtype))


def test_an_average_that_lets_functions_grow_is_told() -> None:
    """Ten one-sided neighbours of random points: all eigenvalues were 0, without a word."""
    x = np.random.default_rng(0).normal(size=(1000, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    with pytest.warns(EigenprobeWarning, match="functions grow where they are averaged"):
        assert decompose(x, k=4, smoother="row", neighbours=10).info["warnings"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", EigenprobeWarning)
        decompose(x, k=4, smoother="row")
