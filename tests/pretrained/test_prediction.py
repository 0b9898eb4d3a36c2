"""Batches: clouds that go through the network together are what they are alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.pretrained.model import SpectralModel
from tests.pretrained.conftest import ball, shipped


@pytest.mark.parametrize(("ritz", "refine"), [(False, 0), (True, 0), (True, 2)])
def test_clouds_of_unequal_sizes_are_what_they_are_alone(model, clouds, ritz, refine):
    """Padded and masked in one pass; a ball among them has the operator of solids."""
    several = [clouds[0][:130], clouds[1], clouds[2][:211].flip(0), clouds[0]]
    how = {"k": 8, "ritz": ritz, "refine": refine, "smoother": "heat"}
    alone = [model.encode(cloud, **how) for cloud in several]
    solid = ball(300, np.random.default_rng(0))
    found = model.encode([*several[:2], solid, *several[2:]], **how)
    kinds = [basis.info["smoother"] for basis in found]
    assert kinds == ["heat", "heat", "adaptive", "heat", "heat"]
    for basis, own in zip([*found[:2], *found[3:]], alone, strict=True):
        # A span in single precision is known to a few parts in a million of its largest eigenvalue.
        rounding = 4e-6 * float(own.eigenvalues.max())
        torch.testing.assert_close(basis.eigenvalues, own.eigenvalues, rtol=1e-5, atol=rounding)
        torch.testing.assert_close(basis.mass, own.mass, rtol=1e-6, atol=1e-9)
        inner = (basis.vectors * basis.mass[:, None]).mT @ own.vectors
        torch.testing.assert_close(inner.abs(), torch.eye(8, dtype=inner.dtype), rtol=0, atol=1e-4)


def test_a_ball_in_a_batch_has_the_eigenvalues_of_a_ball(model, rng):
    batch = np.stack([ball(1500, rng), 2 * ball(1500, rng)])
    first, second = (b.eigenvalues for b in model.encode(batch, k=8, refine=2, smoother="heat"))
    exact = 2.0816**2  # of the unit ball, three times: the first zero of j_1'
    assert (
        abs(first[1:4].mean() / exact - 1) < 0.04 and abs(4 * second[1:4].mean() / exact - 1) < 0.04
    )


@shipped
def test_a_constant_cloud_in_a_batch_is_refused_in_words():
    model = SpectralModel.from_pretrained("surface")
    with pytest.raises(ep.InputError, match="distinct points"):
        model.encode(
            [np.random.default_rng(0).normal(size=(200, 3)), np.ones((200, 3))],
            k=10,
            smoother="heat",
        )


@shipped
@pytest.mark.parametrize("smoother", ["heat", "adaptive", "symmetric"])
@pytest.mark.parametrize("size", [1e-200, 1e-150, 1e200])
def test_clouds_of_sizes_beyond_all_numbers_are_refused_by_every_smoother(
    size: float, smoother: str
) -> None:
    x = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.raises(ep.InputError, match="change the unit"):
        SpectralModel.from_pretrained("surface").encode([x, size * x], k=4, smoother=smoother)


def test_small_balls_are_solids_and_small_spheres_are_not(model) -> None:
    """Of random points."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(10, 300, 3))
    spheres = directions / np.linalg.norm(directions, axis=2, keepdims=True)
    balls = spheres * rng.random((10, 300, 1)) ** (1 / 3)
    found = model.encode([*balls, *spheres], k=4, smoother="heat")
    surfaces = [basis.info["smoother"] == "heat" for basis in found]
    assert sum(surfaces[:10]) <= 2 and all(surfaces[10:])
