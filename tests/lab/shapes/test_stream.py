"""Tests of `shapes.stream`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe_lab.shapes.stream import ShapeStream
from tests.lab.recipes import SHAPES


def test_the_stream_depends_on_the_step_alone():
    whole, resumed = ShapeStream(SHAPES), ShapeStream(SHAPES)
    batches = [whole.at(step) for step in range(9)]
    sizes = {b.shape[1] for b in batches}
    assert len(sizes) > 2 and min(sizes) >= 100 and max(sizes) <= 240
    assert all(abs(b.shape[0] * b.shape[1] - 600) < 240 for b in batches)
    torch.testing.assert_close(resumed.at(8), batches[8])
    with pytest.raises(InputError, match="smallest <= typical"):
        ShapeStream(replace(SHAPES, typical=5000))


def test_real_meshes_can_be_mixed_in(tmp_path):
    t = torch.linspace(0, 6.28, 40)
    ring = torch.stack([t.cos(), t.sin(), 0 * t], -1).repeat(10, 1)
    ring = ring + 0.2 * torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    np.save(tmp_path / "ring.npy", ring.numpy())
    batch = ShapeStream(replace(SHAPES, folder=tmp_path, share=0.5)).at(0)
    assert torch.isfinite(batch).all() and batch.shape[0] >= 2
