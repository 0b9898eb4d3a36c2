"""The noise of a surface: how much there is, and points that are moved back onto it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.cloud.quadrics import BIAS, noise_level, without_noise
from eigenprobe.neighbors.graph import build_graph
from tests import clouds as c
from tests.clouds import stacked


def noisy(n: int, level: float, rng: np.random.Generator) -> np.ndarray:
    """A sphere with noise along its normals."""
    return c.random_sphere(n, rng) * (1 + level * rng.normal(size=(n, 1)))


@pytest.mark.parametrize("level", [0.005, 0.01, 0.02])
def test_the_noise_of_a_sphere_is_measured(level: float, rng: np.random.Generator) -> None:
    """Within 15 %, in units of the distance to the nearest six; curvature is no noise."""
    graph = build_graph(torch.from_numpy(noisy(3000, level, rng)), 24)
    spacing2 = float(graph.distances[:, :6].square().mean(1).median())
    assert (float(noise_level(graph)[0]) * spacing2) ** 0.5 == pytest.approx(level, rel=0.15)
    clean = build_graph(torch.from_numpy(c.random_sphere(3000, rng)), 24)
    assert (float(noise_level(clean)[0]) * spacing2) ** 0.5 < 0.002


def test_points_are_moved_nearer_to_the_surface_and_clean_ones_stay(
    rng: np.random.Generator,
) -> None:
    """Of a stack each as alone."""
    graphs = [build_graph(torch.from_numpy(noisy(1500, level, rng)), 24) for level in (0.02, 0.0)]
    found, levels = without_noise(stacked(graphs))
    assert (2 * levels > BIAS).tolist() == [True, False]
    radius = found.points.norm(dim=1)
    assert float((radius[:1500] - 1).square().mean().sqrt()) < 0.65 * 0.02
    torch.testing.assert_close(found.points[1500:], graphs[1].points)
    torch.testing.assert_close(found.points[:1500], without_noise(graphs[0])[0].points)
    lengths = (found.points[found.indices] - found.points[:, None]).norm(dim=2)
    torch.testing.assert_close(found.distances, lengths)
    short = build_graph(graphs[0].points, 12)
    assert without_noise(short)[0] is short  # lists too short to tell


@pytest.mark.parametrize("n", [1500, 4000])
def test_eigenvalues_of_a_noisy_sphere(n: int, rng: np.random.Generator) -> None:
    x = c.random_sphere(n, rng) + 0.01 * rng.normal(size=(n, 3))
    values = ep.decompose(x, k=16).eigenvalues
    assert np.abs(values[1:] / c.sphere_spectrum(16)[1:] - 1).mean() < 0.05
