"""Tests of `shapes.fields`."""

from __future__ import annotations

import torch

from eigenprobe_lab.shapes import Builder, project, seeds
from tests.lab.shapes.test_source import rng


def test_a_capsule_is_projected_to_its_surface():
    draw = rng(2)
    builder = Builder(draw)
    builder.capsule(draw.point(-1, 0, 0), draw.point(1, 0, 0), 0.3)
    field = builder.build(blend=1e-3)
    x, normals, arrived = project(field, seeds(field, draw, 500))
    axis = x.clone()
    axis[..., 0] = x[..., 0] - x[..., 0].clamp(-1, 1)
    assert arrived.float().mean() > 0.95
    torch.testing.assert_close(
        axis.norm(dim=-1)[arrived], torch.full_like(axis[..., 0][arrived], 0.3), atol=5e-3, rtol=0
    )
    outward = (normals * torch.nn.functional.normalize(axis, dim=-1)).sum(-1)[arrived]
    assert outward.min() > 0.99


def test_a_thin_plate_has_its_rim():
    draw = rng(1)
    builder = Builder(draw)
    builder.solid(draw.point(0, 0, 0), draw.point(0.7, 0.5, 0.03), (8.0, 8.0))
    field = builder.build(blend=1e-3)
    x, normals, arrived = project(field, seeds(field, draw, 2000))
    rim = arrived & (normals[..., 2].abs() < 0.3)
    assert arrived.float().mean() > 0.9 and rim.sum() > 200
    assert (x[rim].abs() > torch.tensor([0.6, 0.4, 9.0])).any(1).all()
