"""Tests of `shapes.dense`."""

from __future__ import annotations

import torch

from eigenprobe_lab.shapes.dense import DenseShapes


def test_pairs_in_contact_have_two_parts() -> None:
    shapes = DenseShapes(1, touching=1.0).dense(2, 600, 0)
    assert shapes.points.shape == (2, 600, 3) and bool((shapes.points.norm(dim=2) < 1.001).all())
    torch.testing.assert_close(shapes.normals.norm(dim=2), torch.ones(2, 600))
    assert all(set(part.unique().tolist()) == {0, 1} for part in shapes.part)
