"""Tests of `shapes.stream`."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe_lab.factory.pretrain import PretrainModule
from eigenprobe_lab.shapes.stream import ShapeStream
from tests.lab.recipes import SHAPES, TINY


def test_every_process_sees_clouds_of_its_own(monkeypatch):
    first, second = (ShapeStream(SHAPES).to("cpu", rank) for rank in (0, 1))
    a, b = first.at(0), second.at(0)
    assert a.shape != b.shape or not torch.equal(a, b)
    assert not torch.equal(*(stream._asked(0).result()[0] for stream in (first, second)))
    torch.testing.assert_close(second.to("cpu", 0).at(0), a)
    # The module asks for those of its process.
    module, stream = PretrainModule(TINY), ShapeStream(SHAPES)
    monkeypatch.setattr(module, "_trainer", SimpleNamespace(global_rank=1, global_step=1))
    module.training_step(stream, 0)
    assert stream.rank == 1


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
