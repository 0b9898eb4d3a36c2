"""Weights of surfaces: Voronoi cells in the plane, curvatures, rows of points and steps of the
density.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import Voronoi

import eigenprobe as ep
from tests import clouds as c


def test_the_laplacian_of_planar_points_is_that_of_their_voronoi_diagram(
    rng: np.random.Generator,
) -> None:
    """``-L_ij`` is the length of the edge between two cells over the distance of their points, and
    ``M_ii`` the area of a cell, by Qhull, away from the boundary.
    """
    x = rng.random((4800, 2)) * [1, 0.4]
    x = x[ep.geometry.farthest_points(x, 600, 0)]
    stiffness, mass = (part.toarray() for part in ep.laplacian(x, resolution="all"))
    inner = ((x > [0.15, 0.1]) & (x < [0.85, 0.3])).all(1)
    diagram = Voronoi(x)
    expected = np.zeros_like(stiffness)
    area = np.zeros(len(x))
    for (i, j), ends in zip(diagram.ridge_points, diagram.ridge_vertices, strict=True):
        if min(ends) >= 0:
            edge = np.linalg.norm(np.subtract(*diagram.vertices[ends]))
            distance = np.linalg.norm(x[i] - x[j])
            expected[[i, j], [j, i]] = -edge / distance
            area[[i, j]] += edge * distance / 4
    np.fill_diagonal(expected, -expected.sum(1))
    assert inner.sum() > 150
    factor = np.median(mass.diagonal()[inner] / area[inner])  # of the area that all cells cover
    assert factor == pytest.approx(1, abs=0.03)
    difference = np.abs(stiffness / factor - expected)[inner]
    assert np.quantile(difference, 0.999) < 1e-8 and difference.max() < 0.05
    np.testing.assert_allclose(mass.diagonal()[inner] / factor, area[inner], rtol=0.01)


def rows(along: int, across: int, jitter: float, rng: np.random.Generator) -> np.ndarray:
    """The unit square in jittered rows."""
    x, y = np.meshgrid(
        (np.arange(along) + 0.5) / along, (np.arange(across) + 0.5) / across, indexing="ij"
    )
    shift = jitter * rng.uniform(-0.5, 0.5, (2, *x.shape))
    return np.stack([x + shift[0] / along, y + shift[1] / across], 2).reshape(-1, 2)


def test_random_cells_look_at_further_neighbours(rng: np.random.Generator) -> None:
    """Of 13 neighbours alone eigenvalues of a random sphere are 3.5 per cent too low; measured
    1.
    """
    exact = np.repeat([2.0, 6, 12, 20], [3, 5, 7, 9])
    points = (c.random_sphere(3000, rng) for _ in range(4))
    values = [ep.decompose(x, 25, dimension=2, resolution="all").eigenvalues[1:] for x in points]
    assert abs((np.array(values) / exact - 1).mean()) < 0.015


@pytest.mark.parametrize(("ratio", "bound"), [(30, 0.1), (100, 0.15), (1000, 0.27)])
def test_a_step_of_the_density(ratio: int, bound: float, rng: np.random.Generator) -> None:
    """A square whose left half has one point where the right half has ``ratio``: pi^2 (i^2 + j^2).

    By balanced weights .08 to .14, .17 to .31 and .3 to .4 on three draws; measured .04 to .06, .09
    to .12, .20 to .25.
    """
    sparse = c.even(lambda m, r: r.random((m, 2)) * [0.5, 1], max(30, 6000 // ratio), rng)
    dense = rng.random((6000, 2)) * [0.5, 1] + [0.5, 0]
    points = np.concatenate([sparse, dense])

    values = ep.decompose(points, k=4, dimension=2, resolution="all").eigenvalues[1:]
    assert np.abs(values / (np.pi**2 * np.array([1, 1, 2])) - 1).max() < bound


@pytest.mark.parametrize(("along", "across"), [(120, 60), (140, 47), (175, 35), (220, 27)])
@pytest.mark.parametrize("jitter", [0.2, 0.6])
def test_the_square_in_rows(
    along: int, across: int, jitter: float, rng: np.random.Generator
) -> None:
    """Free square: pi^2 (i^2 + j^2). By distance alone 1 : 5 had .6 1.35 2.0 2.47 for 1 1 2 4;
    measured .02 to .07.
    """
    values = ep.decompose(rows(along, across, jitter, rng), k=12).eigenvalues[1:]
    exact = np.pi**2 * np.sort([i * i + j * j for i in range(5) for j in range(5)])[1:12]
    assert np.abs(values / exact - 1).mean() < 0.08


@pytest.mark.parametrize("size", [(1.0, 1.0, 1.0), (1.3, 0.8, 0.6)])
def test_a_view_from_one_side_reaches_its_edge(
    size: tuple[float, ...], rng: np.random.Generator
) -> None:
    """Pixels of a half seen along its axis, against a dense even sample of it: eigenvalues 2 to 12,
    three grids.
    """
    whole = rng.normal(size=(48000, 3))
    whole *= np.array(size) / np.linalg.norm(whole, axis=1, keepdims=True)
    whole = whole[whole[:, 2] > 0]
    exact = ep.decompose(whole[ep.geometry.farthest_points(whole, 6000, 0)], k=12).eigenvalues[1:]
    errors = []
    for step in (0.03, 0.04, 0.05):
        z = np.stack(np.meshgrid(*[np.arange(-1.0, 1.0, step)] * 2), -1).reshape(
            -1, 2
        ) + step * rng.random(2)
        z = z[(z**2).sum(1) < 1]
        seen = np.c_[z, np.sqrt(1 - (z**2).sum(1))] * size
        errors.append(
            np.abs(ep.decompose(seen, k=12, resolution="all").eigenvalues[1:] / exact - 1).mean()
        )
    assert max(errors) < 0.1
