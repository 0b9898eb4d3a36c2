"""Gaussian smoothers against their formulas in dense matrices; eigenvalues in units of the points."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.eigen import solve
from eigenprobe.errors import InputError
from eigenprobe.graph import Graph, stack
from eigenprobe.graph.graph import build_graph
from eigenprobe.smoothers import Smoother, build_smoother
from eigenprobe.smoothers.smoother import LEAST
from eigenprobe.smoothers.variable import NETWORK, VariableBandwidth, variable_smoother
from tests import clouds as c


def dense_variable(graph: Graph, dimension: float, s: VariableBandwidth) -> tuple[np.ndarray, np.ndarray]:
    """Weights and unnormalised mass: Berry and Harlim's kernel, then the local time, both with every pair of points."""
    n, median = graph.n, lambda v: np.sort(v)[(len(v) - 1) // 2]  # torch's median is the lower of two
    x = graph.points.numpy()
    distance2 = ((x[:, None] - x[None]) ** 2).sum(-1)
    joined = np.zeros((n, n), bool)
    np.put_along_axis(joined, graph.indices.numpy(), True, axis=1)
    joined |= joined.T
    reach = np.sort(np.sqrt(distance2), 1)[:, s.tenth]
    if s.spread is not None:
        reach = np.clip(reach, median(reach) / s.spread, median(reach) * s.spread)
    rho = (reach / median(reach)) ** (-dimension * s.beta)
    scale = s.width * median(reach / rho)
    w = np.where(joined, np.exp(-distance2 / (scale**2 * np.outer(rho, rho))), 0)
    power = ((s.loops + w.sum(1)) / rho**dimension) ** -(1 + (dimension / 2 + 1) * s.beta)
    w = w * np.outer(power, power)
    mass = (w * distance2).sum(1) / (2 * dimension)
    if s.floor:
        time = mass / w.sum(1)
        mass = w.sum(1) * np.maximum(time, s.floor * median(time))
    return w, mass


@pytest.mark.parametrize("settings", [VariableBandwidth(), NETWORK], ids=["default", "network"])
def test_variable_bandwidth_is_the_formula(settings: VariableBandwidth, rng: np.random.Generator) -> None:
    x = rng.normal(size=(150, 4)) * rng.uniform(0.2, 1, (150, 1))  # uneven: density and reach differ
    graph = build_graph(torch.from_numpy(x), 20)
    w, mass = dense_variable(graph, 4.0, settings)
    found = variable_smoother(graph, None, 4.0, settings)
    laplacian = (np.diag(w.sum(1)) - w) / np.sqrt(np.outer(mass, mass))
    ours = (np.eye(150) - found.matrix.to_dense().numpy()) / float(found.step_time)
    np.testing.assert_allclose(ours, laplacian, atol=1e-8 * np.abs(laplacian).max())
    np.testing.assert_allclose(found.mass.numpy(), mass / mass.sum())
    assert float(found.step_time) == pytest.approx(1 / (2 * (w.sum(1) / mass).max()))
    many = variable_smoother(stack([graph, graph]), None, 4.0, settings)  # clouds of one size share a shorter way
    torch.testing.assert_close(many.mass, torch.cat([found.mass, found.mass]))


def first_eigenvalues(smoother: Smoother, count: int) -> np.ndarray:
    return (solve(smoother, count + 1).gaps[1:] / float(smoother.step_time)).numpy()


def test_variable_bandwidth_has_the_units_of_the_points(rng: np.random.Generator) -> None:
    """The sphere S^4 in R^5: the first five are l (l + 3) = 4, at any radius."""
    x = rng.normal(size=(4000, 5))
    x = 3 * x / np.linalg.norm(x, axis=1, keepdims=True)
    smoother = build_smoother(torch.from_numpy(x), "adaptive", dimension=4)
    np.testing.assert_allclose(9 * first_eigenvalues(smoother, 5), 4, rtol=0.25)


def test_variable_bandwidth_forgets_the_density(rng: np.random.Generator) -> None:
    """Ten times as many points at one end of a square: the eigenvalues are those of the square all the same."""
    x = rng.random((20_000, 2))
    x = x[rng.random(20_000) < (1 + 9 * x[:, 0]) / 10][:3000]
    values = first_eigenvalues(build_smoother(torch.from_numpy(x), "adaptive", dimension=2, balance=False), 3)
    np.testing.assert_allclose(values / np.pi**2, [1, 1, 2], rtol=0.15)


def test_the_time_of_a_row_step_is_that_of_heat(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.random((80, 3)))
    graph = build_graph(x, 9)
    row = build_smoother(graph, "row", dimension=3)
    sigma2 = float(graph.distances[:, -1].median() ** 2)  # the tenth, or the last there is
    w = torch.exp(-graph.squared / sigma2)
    w = w / w.sum(1, keepdim=True)
    assert float(row.step_time) == pytest.approx(float((w * graph.squared).sum(1).mean() / 6))
    # A step takes |x|^2 up by 2 dim times its time in the middle of an even cloud; the time is a mean over all points,
    # those at the edge included, whose steps are longer.
    grid = torch.from_numpy(c.grid(41) - 0.5)
    even = build_smoother(grid, "row", k=20, dimension=2)
    middle = int(grid.square().sum(1).argmin())
    assert float(even.apply(grid.square().sum(1))[middle]) == pytest.approx(4 * float(even.step_time), rel=0.06)


def test_one_neighbour_is_copied() -> None:
    x = torch.arange(6, dtype=torch.float64)[:, None] ** 1.5
    row = build_smoother(build_graph(x, 1), "row", dimension=1)
    torch.testing.assert_close(row.apply(x)[:, 0], x[[1, 0, 1, 2, 3, 4], 0])


def test_no_surface_has_more_dimensions_than_its_space(rng: np.random.Generator) -> None:
    graph = build_graph(torch.from_numpy(rng.random((90, 2))), 30)
    plane, asked = (build_smoother(graph, "adaptive", dimension=d, balance=True) for d in (2, 3))
    torch.testing.assert_close(asked.matrix.to_dense(), plane.matrix.to_dense())
    assert asked.dimension == 2


def test_many_dimensions_are_refused_where_densities_are_no_numbers(rng: np.random.Generator) -> None:
    """Small masses are masses: only none and infinite ones are refused, above twenty dimensions."""
    x = 1e-40 * torch.from_numpy(rng.normal(size=(60, 30)))
    even = build_graph(x, 12)
    found = variable_smoother(even, None, 24.0)
    _, mass = dense_variable(even, 24.0, VariableBandwidth())
    assert mass.min() < 1
    mass = np.maximum(mass, LEAST * mass.mean())
    np.testing.assert_allclose(found.mass.numpy(), mass / mass.sum(), rtol=1e-6)
    uneven = build_graph(x * torch.logspace(-9, 9, 60, dtype=x.dtype)[:, None], 12)
    with pytest.raises(InputError, match="densities of dimension 30 are beyond all numbers"):
        variable_smoother(uneven, None, 30.0)
