"""Tests of `graph.arranged`."""

from __future__ import annotations

import numpy as np
import torch

from eigenprobe.cloud.cloud import arrange, fingerprints


def test_fingerprints_are_equal_for_equal_rows_alone(generator: torch.Generator) -> None:
    """No two of 200,000 rows agree (of 32-bit sums some would), whatever few bits of them vary; -0
    is 0.
    """
    for dtype in (torch.float32, torch.float64):
        rows = torch.randn(100_000, 4, generator=generator, dtype=dtype)
        whole = (
            torch.arange(100_000).to(dtype)[:, None] * torch.tensor([1, 0, -3, 0.5]).to(dtype) + 1e6
        )
        sums = fingerprints(torch.cat([rows, whole, rows[:5], -0.0 * rows[:1], 0.0 * rows[:1]]))
        assert len(sums[:200_000].unique()) == 200_000
        assert torch.equal(sums[200_000:200_005], sums[:5]) and sums[-1] == sums[-2]
        assert torch.equal(sums[100_000:100_007], fingerprints(whole[:7]))


def test_rows_that_are_compared_by_angle_are_not_moved(rng: np.random.Generator) -> None:
    """A mean taken off changes angles; neighbours are those of the rows as they are, and so for
    clouds of any place.
    """
    x = torch.from_numpy(rng.normal(size=(60, 4)) + 3)
    found = arrange(x, 6, 4, "cosine")
    unit = x / x.norm(dim=1, keepdim=True)
    assert found.frame.scale == 1 and bool((found.frame.centre == 0).all())
    distance = 1 - unit @ unit.T
    distance.fill_diagonal_(9)
    assert bool((found.graph.indices == distance.argsort(1)[:, :6]).all())
    moved = arrange(torch.from_numpy(rng.normal(size=(60, 4)) + 1e6), 6, 4)
    assert float(moved.graph.points.mean(0).abs().max()) < 1e-9  # Euclidean ones are centred
