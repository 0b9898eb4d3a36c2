"""Procedural shapes: on the surface, near-uniform, connected, seeded, and as diverse as their
families.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe_lab.shapes import Builder, ProceduralShapes, Rng, project, seeds
from eigenprobe_lab.shapes.source import connected


def rng(b: int = 3, seed: int = 0) -> Rng:
    return Rng(b, torch.Generator().manual_seed(seed))


def test_a_hole_goes_through():
    draw = rng(1)
    builder = Builder(draw)
    builder.solid(draw.point(0, 0, 0), torch.tensor([[1.0, 1.0, 0.3]]), (8.0, 8.0))
    builder.solid(draw.point(0, 0, 0), torch.tensor([[0.4, 0.4, 2.0]]), (2.0, 8.0), negative=True)
    field = builder.build(blend=0.01)
    values = field(torch.tensor([[[0.0, 0.0, 0.0], [0.7, 0.0, 0.0], [0.0, 0.0, 1.0]]]))[0]
    assert values[0] > 0 and values[1] < 0 and values[2] > 0
    x, _, arrived = project(field, seeds(field, draw, 2000))
    wall = x[0][arrived[0]]
    assert (wall[:, :2].norm(dim=-1) < 0.5).any(), "the wall of the hole is sampled"


def test_revolved_capsules_make_a_torus():
    draw = rng(1)
    builder = Builder(draw)
    builder.capsule(draw.point(1, 0, 0), draw.point(1, 0, 1e-4), 0.25, revolved=True)
    field = builder.build(blend=1e-3)
    x, _, arrived = project(field, seeds(field, draw, 800))
    ring = torch.stack([x[..., :2].norm(dim=-1) - 1, x[..., 2]], -1).norm(dim=-1)[arrived]
    torch.testing.assert_close(ring, torch.full_like(ring, 0.25), atol=6e-3, rtol=0)


def test_draws_are_seeded_and_go_on():
    first, again = ProceduralShapes(seed=5), ProceduralShapes(seed=5)
    a, b = first.draw(4, 128), first.draw(4, 128)
    assert not torch.equal(a, b)
    torch.testing.assert_close(a, again.draw(4, 128))
    torch.testing.assert_close(b, again.draw(4, 128, draw=1))
    assert not torch.equal(a, ProceduralShapes(seed=6).draw(4, 128))


def test_families_must_be_known():
    with pytest.raises(InputError, match="dragonfly"):
        ProceduralShapes(families=["dragonfly"])
    with pytest.raises(InputError, match="at least 16 points"):
        ProceduralShapes().draw(1, 3)


def test_connected_tells_one_piece_from_two():
    t = torch.linspace(0, 1, 200)
    line = torch.stack([t, 0 * t, 0 * t], -1)  # far more hops than rounds of propagation
    split = line.clone()
    split[100:, 1] = 5
    share = connected(torch.stack([line, split]), k=4)
    assert share[0] == 1 and abs(share[1] - 0.5) < 0.02


def test_the_share_of_the_largest_part(rng: np.random.Generator) -> None:
    """Per cloud of a batch: 30 and 20 points far apart, and 50 together."""
    x = torch.from_numpy(rng.random((2, 50, 3)))
    x[0, 30:] += 100
    assert connected(x, 6).tolist() == pytest.approx([0.6, 1.0])
