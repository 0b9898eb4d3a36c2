"""Tests of `sampling.quality`: points on no part of the manifold."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.sampling.quality import find_strays
from tests import clouds as c


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_far_points_are_strays_and_the_surface_stays(scale: float, rng: np.random.Generator) -> None:
    sphere = c.random_sphere(1500, rng)
    far = rng.normal(size=(30, 3))
    far *= (1.5 + rng.random((30, 1))) / np.linalg.norm(far, axis=1, keepdims=True)
    found = find_strays(torch.from_numpy(scale * np.concatenate([sphere, far])))
    assert bool(found[1500:].all()) and int(found[:1500].sum()) <= 5


@pytest.mark.parametrize("n", [300, 2000])
def test_random_samples_of_a_surface_have_none(n: int, rng: np.random.Generator) -> None:
    assert not bool(find_strays(torch.from_numpy(c.random_sphere(n, rng))).any())


@pytest.mark.parametrize("noise", [0.01, 0.02])
def test_strays_of_a_noisy_sheet_leave_the_sheet(rng: np.random.Generator, noise: float) -> None:
    """Points above the plane of their neighbours were taken for strays too: 7 and 19 % of the sheet."""
    sphere = c.random_sphere(16_000, rng)
    far = 1.5 * c.random_sphere(32, rng)
    found = find_strays(torch.from_numpy(np.concatenate([sphere + noise * rng.normal(size=sphere.shape), far])))
    assert float(found[16_000:].double().mean()) > 0.8 and int(found[:16_000].sum()) < 20
