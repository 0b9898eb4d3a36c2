"""The search by cells against a tree: exact on even and uneven clouds, in one to three dimensions,
for many clouds.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from eigenprobe.neighbors.grid import grid_search
from tests import clouds as c


def check(x: np.ndarray, k: int, clouds: tuple[int, ...] = ()) -> None:
    points = torch.as_tensor(x)
    indices, distances = (part.numpy() for part in grid_search(points, k, clouds))
    first = 0
    for size in clouds or (len(x),):
        rows = slice(first, first + size)
        expected, _ = cKDTree(x[rows]).query(x[rows], k)
        np.testing.assert_allclose(distances[rows], expected, rtol=1e-12, atol=1e-15)
        assert indices[rows].min() >= first and indices[rows].max() < first + size
        assert all(len(set(row)) == k for row in indices[rows])
        np.testing.assert_allclose(
            np.linalg.norm(x[indices[rows]] - x[rows, None], axis=2), expected, atol=1e-15
        )
        first += size


@pytest.mark.parametrize("d", [1, 2, 3])
def test_random_points(d, rng):
    check(rng.random((700, d)), 12)


def test_a_surface_a_lattice_and_a_few_points(rng):
    check(c.random_sphere(1500, rng), 31)
    check(rng.random((40, 3)), 40)
    check(np.stack(np.meshgrid(*[np.arange(8.0)] * 3), -1).reshape(-1, 3), 7)


def test_spacings_that_differ_by_thousands(rng):
    x = rng.standard_normal((600, 3))
    check(x * np.linalg.norm(x, axis=1, keepdims=True) ** 4, 10)


def test_clouds_of_unequal_sizes_and_scales(rng):
    clouds = [c.random_sphere(500, rng), 0.01 * rng.random((60, 3)), 5 + c.random_sphere(900, rng)]
    check(np.concatenate(clouds), 20, (500, 60, 900))


@pytest.mark.parametrize("dimension", [2, 3])
def test_points_nearest_to_others(rng: np.random.Generator, dimension: int) -> None:
    """Queries on the points, between them, and far outside: all pairs tell the same."""
    points = torch.from_numpy(rng.normal(size=(900, dimension)))
    queries = torch.cat(
        [points[:50], torch.from_numpy(rng.normal(size=(700, dimension))), 30 + points[:5]]
    )
    found, distances = grid_search(points, 7, queries=queries)
    exact, order = torch.cdist(queries, points, compute_mode="donot_use_mm_for_euclid_dist").sort(1)
    assert torch.equal(found, order[:, :7])
    assert torch.allclose(distances, exact[:, :7], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("count", "k"), [(1, 1), (1, 200), (3, 40)])
def test_few_points_are_searched_for_among_many(count, k, rng):
    points = torch.from_numpy(c.random_sphere(2500, rng))
    queries = points[:count] + 0.01 * torch.from_numpy(rng.normal(size=(count, 3)))
    found, distances = grid_search(points, k, queries=queries)
    exact, order = torch.cdist(queries, points, compute_mode="donot_use_mm_for_euclid_dist").sort(1)
    assert torch.equal(found, order[:, :k]) and torch.allclose(distances, exact[:, :k], rtol=1e-12)


def test_copies_of_one_point_are_at_distance_zero() -> None:
    """In either precision, and where the point is far from the origin: no loop without end."""
    for dtype in (torch.float32, torch.float64):
        found, distances = grid_search(torch.full((50, 3), 7.0, dtype=dtype), 4)
        assert bool((distances == 0).all()) and all(len(set(row)) == 4 for row in found.tolist())


def test_single_precision_has_the_same_distances(rng: np.random.Generator) -> None:
    x = torch.from_numpy(c.random_sphere(2000, rng)).float()
    expected, _ = cKDTree(x.numpy()).query(x.numpy(), 13)
    np.testing.assert_allclose(grid_search(x, 13)[1], expected, rtol=1e-5, atol=1e-6)
