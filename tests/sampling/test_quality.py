"""Tests of `sampling.quality`: how a cloud was sampled."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.sampling.farthest import farthest_points
from eigenprobe.sampling.quality import COUNTS, SCALES, glance, survey
from eigenprobe.search.neighbours import query
from tests import clouds as c


def _even_at_a_glance(points: torch.Tensor) -> bool:
    near, distances = query(points, points, 17)
    return glance(points, near[:, 1:], distances[:, 1:]).even


def test_an_even_sample_looks_even_and_copies_do_not(rng: np.random.Generator) -> None:
    dense = c.random_sphere(8000, rng)
    even = torch.from_numpy(dense[farthest_points(dense, 1500, start=0)])
    assert _even_at_a_glance(even)
    copies = torch.cat([even, even + 1e-6 * torch.from_numpy(rng.normal(size=even.shape))])
    assert not _even_at_a_glance(copies)


@pytest.mark.parametrize("noise", [0.02, 0.04])
def test_the_noise_of_a_sphere_is_measured(noise: float, rng: np.random.Generator) -> None:
    x = c.random_sphere(20_000, rng)
    clean, noisy = (survey(torch.from_numpy(x + s * rng.normal(size=x.shape))) for s in (0.0, noise))
    spacing = math.sqrt(4 * math.pi / 20_000)
    assert float(clean.noise.median()) < 0.1 * spacing
    assert float(noisy.noise.median()) == pytest.approx(noise, rel=0.25)
    assert clean.dimension == noisy.dimension == 2
    assert float(clean.spacing.median()) == pytest.approx(spacing, rel=0.25)


def test_a_clean_cloud_has_its_quality_in_info_too(rng: np.random.Generator) -> None:
    """In the units of the points: 2000 samples of a sphere of radius 5 are .4 apart, sqrt(area / n)."""
    x = rng.normal(size=(2000, 3))
    found = ep.decompose(5 * x / np.linalg.norm(x, axis=1, keepdims=True), k=3).info["quality"]
    assert found["spacing"] == pytest.approx(5 * (4 * np.pi / 2000) ** 0.5, rel=0.1)
    assert found["thickness"] < 0.02 * found["spacing"]
    assert found["anisotropy"] == 1 and found["strays"] == 0 and found["copies"] == 1
    assert found["cleaned"] is False and found["stray_share"] == 0
    assert found["noise_over_spacing"] == pytest.approx(found["thickness"] / found["spacing"], abs=1e-4)


def test_a_narrow_vote_is_said(rng: np.random.Generator) -> None:
    """Half a sphere and half a ball beside it: surface and solid."""
    sphere = rng.normal(size=(3000, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    ball = rng.uniform(-1, 1, (6000, 3))
    ball = ball[np.linalg.norm(ball, axis=1) < 1][:3000] + [2.2, 0, 0]
    quality = survey(torch.from_numpy(np.concatenate([sphere, ball])))
    said = quality.narrow(0.6)
    assert said is not None and "a surface in" in said and "a solid in" in said
    assert survey(torch.from_numpy(sphere)).narrow(0.6) is None


def test_even_clouds_have_no_lines_and_facts_are_their_medians(rng: np.random.Generator) -> None:
    x = torch.as_tensor(c.random_sphere(2000, rng))
    found = survey(x)
    facts = found.facts(3, 2000)
    assert facts["anisotropy"] == 1.0 and facts["strays"] == 3 and facts["stray_share"] == 0.0015
    assert facts["spacing"] == pytest.approx(float(found.spacing.median()))
    assert facts["thickness"] == pytest.approx(float(found.noise.median()))
    ratio = float((found.noise / found.spacing).median())
    assert facts["noise_over_spacing"] == pytest.approx(ratio, abs=1e-4)
    assert sum(facts["dimension_votes"].values()) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_spacing_is_a_root_of_the_volume_of_a_point(dimension: int, rng: np.random.Generator) -> None:
    """Length, area or volume over the number of points, in a circle, on a torus without curvature and in a cube."""
    n = 1500
    if dimension == 1:
        angle = 2 * np.pi * np.arange(n) / n
        x, volume = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1), 2 * np.pi
    elif dimension == 2:
        x, volume = np.concatenate([rng.random((n, 2)), np.zeros((n, 1))], 1), 1.0
    else:
        x, volume = rng.random((n, 3)), 1.0
    found = survey(torch.from_numpy(x))
    assert found.dimension == dimension
    assert float(found.spacing.median()) == pytest.approx((volume / n) ** (1 / dimension), rel=0.15)


def test_the_noise_of_a_curve_is_its_deviation_from_parabolas(rng: np.random.Generator) -> None:
    """Against loops over points and scales: medians over the nearest centres, the first scale at which it is thin."""
    n = 300
    angle = np.sort(rng.random(n)) * 2 * np.pi
    x = np.stack([np.cos(angle), np.sin(angle)], 1) * (1 + 0.01 * rng.normal(size=(n, 1)))
    distance = np.linalg.norm(x[:, None] - x, axis=2)
    order = distance.argsort(1, kind="stable")
    counts = [count for count in COUNTS if count <= n // 4]
    bend, reach = np.zeros((n, len(counts))), np.zeros((n, len(counts)))
    for column, count in enumerate(counts):
        for i in range(n):
            near = x[order[i, : count + 1]] - x[i]
            reach[i, column] = distance[i, order[i, count]]
            axes = np.linalg.eigh(np.cov(near.T))[1]
            across, along = (near @ axes).T
            rest = np.polyval(np.polyfit(along, across, 2), along) - across
            bend[i, column] = np.sqrt((rest**2).sum() / (len(rest) - 3))
    around = order[:, : SCALES.around]
    bend, reach = np.median(bend[around], 1), np.median(reach[around], 1)
    expected = []
    for row, radius in zip(bend, reach, strict=True):
        scale = next((i for i, thin in enumerate(row <= SCALES.flat * radius) if thin), len(counts) - 1)
        expected.append(min(row[scale], row[min(scale + 1, len(counts) - 1)]))
    found = survey(torch.from_numpy(x), dimension=1)
    np.testing.assert_allclose(found.noise, expected, rtol=1e-5)
    np.testing.assert_allclose(found.spacing, 2 * reach[:, 0] / (counts[0] + 1), rtol=1e-9)
