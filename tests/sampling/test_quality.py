"""Tests of `sampling.quality`: how a cloud was sampled."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigenprobe.sampling.farthest import farthest_points
from eigenprobe.sampling.quality import looks_even, survey
from eigenprobe.search.neighbours import query
from tests import clouds as c


def _even_at_a_glance(points: torch.Tensor) -> bool:
    near, distances = query(points, points, 17)
    return looks_even(points, near[:, 1:], distances[:, 1:])


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
