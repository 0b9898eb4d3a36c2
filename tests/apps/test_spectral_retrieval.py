"""Parts of shapes, and shapes like a shape."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eigenprobe as ep
from tests import clouds as c


def _dumbbell(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two spheres of different size joined by a thin tube, and which end each point belongs to."""
    angle, height = 2 * np.pi * rng.random(150), 1.2 * rng.random(150) - 0.6
    tube = np.stack([0.12 * np.cos(angle), 0.12 * np.sin(angle), height], 1)
    large, small = (
        c.fibonacci_sphere(900) - [0, 0, 1.58],
        0.7 * c.fibonacci_sphere(450) + [0, 0, 1.28],
    )
    x = np.concatenate([large, small, tube])
    return x, np.concatenate([np.zeros(900), np.ones(450), height > 0]).astype(int)


def test_a_dumbbell_has_two_parts(rng: np.random.Generator) -> None:
    x, ends = _dumbbell(rng)
    basis = ep.decompose(x, k=8, dimension=2)
    labels = ep.apps.segment(basis, 2)
    assert labels.dtype == np.int64 and np.mean(labels[:1350] == ends[:1350]) > 0.99, (
        "the larger part is 0"
    )
    again = ep.apps.segment(basis.torch(), 2, "diffusion", time=0.5)
    assert isinstance(again, torch.Tensor) and np.mean(again.numpy()[:1350] == ends[:1350]) > 0.95
    with pytest.raises(ep.InputError, match="expected 1 to 1500 parts, got 0"):
        ep.apps.segment(basis, 0)


def test_shapes_of_one_kind_find_each_other(rng: np.random.Generator) -> None:
    stretches = [(1, 1, 1), (1, 1, 2), (0.4, 1, 1)]
    bases, kinds = [], []
    for kind, stretch in enumerate(stretches):
        for size in (1.0, 7.0):  # the size drops out
            bases.append(
                ep.decompose(size * c.random_sphere(600, rng) * stretch, k=20, dimension=2)
            )
            kinds.append(kind)
    order, distances = ep.apps.retrieve(bases, 15)
    assert (
        order.shape == (6, 5)
        and np.allclose(distances, distances.T)
        and np.all(np.diag(distances) == 0)
    )
    assert [kinds[i] for i in order[:, 0]] == kinds
    with pytest.raises(ep.InputError, match="at least two bases"):
        ep.apps.retrieve(bases[:1])
