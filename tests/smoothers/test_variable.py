"""Gaussian smoothers against their formulas in dense matrices; eigenvalues in units of the
points.
"""

from __future__ import annotations

import numpy as np
import torch

from eigenprobe.eigen import solve
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.smoothers import Smoother, build_smoother


def first_eigenvalues(smoother: Smoother, count: int) -> np.ndarray:
    return (solve(smoother, count + 1).gaps[1:] / float(smoother.step_time)).numpy()


def test_variable_bandwidth_has_the_units_of_the_points(rng: np.random.Generator) -> None:
    """The sphere S^4 in R^5: the first five are l (l + 3) = 4, at any radius."""
    x = rng.normal(size=(4000, 5))
    x = 3 * x / np.linalg.norm(x, axis=1, keepdims=True)
    smoother = build_smoother(torch.from_numpy(x), "adaptive", dimension=4)
    np.testing.assert_allclose(9 * first_eigenvalues(smoother, 5), 4, rtol=0.25)


def test_variable_bandwidth_forgets_the_density(rng: np.random.Generator) -> None:
    """Ten times as many points at one end of a square: the eigenvalues are those of the square all
    the same.
    """
    x = rng.random((20_000, 2))
    x = x[rng.random(20_000) < (1 + 9 * x[:, 0]) / 10][:3000]
    values = first_eigenvalues(
        build_smoother(torch.from_numpy(x), "adaptive", dimension=2, balance=False), 3
    )
    np.testing.assert_allclose(values / np.pi**2, [1, 1, 2], rtol=0.15)


def test_one_neighbour_is_copied() -> None:
    x = torch.arange(6, dtype=torch.float64)[:, None] ** 1.5
    row = build_smoother(build_graph(x, 1), "row", dimension=1)
    torch.testing.assert_close(row.apply(x)[:, 0], x[[1, 0, 1, 2, 3, 4], 0])


def test_no_surface_has_more_dimensions_than_its_space(rng: np.random.Generator) -> None:
    graph = build_graph(torch.from_numpy(rng.random((90, 2))), 30)
    plane, asked = (build_smoother(graph, "adaptive", dimension=d, balance=True) for d in (2, 3))
    torch.testing.assert_close(asked.matrix.to_dense(), plane.matrix.to_dense())
    assert asked.dimension == 2
