"""Tests of `shapes.stream`."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe_lab.shapes.stream import ShapeStream
from tests.lab.recipes import SHAPES


@pytest.mark.long
def test_the_stream_depends_on_the_step_alone():
    whole, resumed = ShapeStream(SHAPES), ShapeStream(SHAPES)
    batches = [whole.at(step) for step in range(9)]
    sizes = {b.shape[1] for b in batches}
    assert len(sizes) > 2 and min(sizes) >= 100 and max(sizes) <= 240
    assert all(abs(b.shape[0] * b.shape[1] - 600) < 240 for b in batches)
    torch.testing.assert_close(resumed.at(8), batches[8])
    with pytest.raises(InputError, match="smallest <= typical"):
        ShapeStream(replace(SHAPES, typical=5000))
