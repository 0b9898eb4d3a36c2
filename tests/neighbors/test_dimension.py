"""Curves, surfaces and solids are told apart, sample by sample and as a whole, thin and noisy ones
too.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.neighbors.graph import build_graph, cloud_dimensions, estimate_dimension
from tests import clouds as c


def dimension(points: np.ndarray) -> float:
    return estimate_dimension(build_graph(torch.as_tensor(points), 30))


def plate(n: int, thickness: float, rng: np.random.Generator, even: bool) -> np.ndarray:
    """The surface of a box 1 x 1 x t, t that many spacings."""
    t = thickness * (2 / n) ** 0.5
    for _ in range(5):
        t = thickness * ((2 + 4 * t) / n) ** 0.5

    def draw(m: int, rng: np.random.Generator) -> np.ndarray:
        axis = rng.choice(3, size=m, p=np.array([t, t, 1]) / (1 + 2 * t))
        x = rng.random((m, 3))
        x[np.arange(m), axis] = rng.integers(2, size=m)
        return x * [1, 1, t]

    return c.even(draw, n, rng) if even else draw(n, rng)


def tube(n: int, radius: float, rng: np.random.Generator, solid: bool) -> np.ndarray:
    """A long cylinder of that many spacings of radius, hollow or filled."""
    length = n / (np.pi * radius**2 if solid else 2 * np.pi * radius)

    def draw(m: int, rng: np.random.Generator) -> np.ndarray:
        angle, distance = (
            2 * np.pi * rng.random(m),
            radius * np.sqrt(rng.random(m) if solid else np.ones(m)),
        )
        return np.stack(
            [distance * np.cos(angle), distance * np.sin(angle), length * rng.random(m)], 1
        )

    return c.even(draw, n, rng)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("thickness", [1, 1.3, 1.6, 2, 2.5, 4])
def test_a_thin_plate_is_a_surface(thickness: float, even: bool, rng: np.random.Generator) -> None:
    assert dimension(plate(1500, thickness, rng, even)) == 2


@pytest.mark.parametrize("radius", [1, 1.5, 3])
def test_a_thin_tube_is_a_surface(radius: float, rng: np.random.Generator) -> None:
    assert dimension(tube(1000, radius, rng, solid=False)) == 2


@pytest.mark.parametrize("radius", [2, 4])
def test_a_rod_is_solid(radius: float, rng: np.random.Generator) -> None:
    assert dimension(tube(1000, radius, rng, solid=True)) == 3


@pytest.mark.parametrize("thickness", [3, 6])
def test_a_slab_is_solid(thickness: float, rng: np.random.Generator) -> None:
    assert dimension(rng.random((1500, 3)) * [1, 1, (thickness / 1500 ** (1 / 3)) ** 1.5]) == 3


@pytest.mark.parametrize("n", [500, 1500, 4000])
def test_a_noisy_surface_is_a_surface(n: int, rng: np.random.Generator) -> None:
    for noise in (0, 0.005, 0.01, 0.02):
        assert dimension(c.even(c.random_sphere, n, rng) + noise * rng.normal(size=(n, 3))) == 2


@pytest.mark.parametrize(("noise", "expected"), [(0, {1}), (0.5, {1}), (1, {1}), (6, {2, 3})])
def test_a_noisy_curve(noise: float, expected: set[int], rng: np.random.Generator) -> None:
    """Noise in spacings: below one it is a curve, far above it is a tube."""
    t = 6 * rng.random(800)
    helix = np.stack([np.cos(t), np.sin(t), 0.5 * t], 1)
    assert (
        dimension(helix + noise * (6 * 1.25**0.5 / 800) * rng.normal(size=helix.shape)) in expected
    )


def test_most_places_of_a_mixed_cloud_decide(rng: np.random.Generator) -> None:
    """A ball, a sphere and a curve, apart, in three proportions."""
    for sizes, expected in (((1500, 700, 300), 3), ((400, 1500, 300), 2), ((300, 300, 900), 1)):
        ball = c.random_sphere(sizes[0], rng) * rng.random((sizes[0], 1)) ** (1 / 3)
        sphere = c.random_sphere(sizes[1], rng) + [2.5, 0, 0]
        curve = np.linspace(1.02, 6, sizes[2])[:, None] * [-1, 0, 0]
        assert dimension(np.concatenate([ball, sphere, curve])) == expected


@pytest.mark.parametrize("ambient", [8, 40])
def test_planes_and_more_among_many_columns(ambient: int, rng: np.random.Generator) -> None:
    """In R^8 by principal components, in R^40 by growth."""
    plane, full = np.zeros((800, ambient)), np.zeros((1500, ambient))
    plane[:, :2], full[:, :6] = rng.random((800, 2)), rng.random((1500, 6))
    assert dimension(plane) == (2 if ambient == 8 else pytest.approx(2, abs=0.3))
    assert 4 < dimension(full) < 7


def test_self_loops_and_few_neighbours(rng: np.random.Generator) -> None:
    x = torch.as_tensor(c.random_sphere(600, rng))
    assert estimate_dimension(build_graph(x, 31, self_loops=True)) == 2
    assert estimate_dimension(build_graph(x, 8)) == 2
    assert estimate_dimension(build_graph(x, 1)) == 1


def test_stacked_clouds_have_the_dimensions_of_each_alone(rng: np.random.Generator) -> None:
    curve = np.c_[np.linspace(0, 1, 300), np.zeros((300, 2))]
    parts = [c.even(c.random_sphere, 500, rng), curve, rng.random((1500, 3))]
    sizes = tuple(len(each) for each in parts)
    graph = build_graph(torch.from_numpy(np.concatenate(parts)), 30, clouds=sizes)
    assert cloud_dimensions(graph) == [2.0, 1.0, 3.0]


def test_the_dimension_by_angles_is_that_by_lengths_of_unit_rows(rng: np.random.Generator) -> None:
    """The cosine distance is half of a squared length, so its logarithms are twice as large."""
    x = rng.normal(size=(500, 20)) * np.linspace(1, 0.1, 20)
    x = torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True))
    angles, lengths = (build_graph(x, 12, metric=metric) for metric in ("cosine", "euclidean"))
    assert 2 < estimate_dimension(lengths) < 19
    assert estimate_dimension(angles) == pytest.approx(estimate_dimension(lengths), rel=1e-4)


@pytest.mark.parametrize("columns", [12, 40])
def test_distances_that_are_equal_but_for_rounding_are_no_growth(
    columns: int, rng: np.random.Generator
) -> None:
    """Rows of zeros and ones have few distances: their dimension does not depend on the unit, nor
    on a rotation.
    """
    x = rng.integers(0, 2, (400, columns)).astype(float)
    turned = x @ np.linalg.qr(rng.normal(size=(columns, columns)))[0]
    expected = dimension(x)
    for other in (1e-3 * x, x / 7, turned, turned / 3):
        assert dimension(other) == pytest.approx(expected, rel=1e-9)
