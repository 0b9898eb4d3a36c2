"""Tests of `search.layout`."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.graph.graph import connected
from eigenprobe.search.layout import nearest
from eigenprobe_lab.shapes import FAMILIES, ProceduralShapes, Variation

PLAIN = Variation(scale=0, bend=0, twist=0, taper=0, partial=0, uneven=0, random=0, noise=0)


def test_neighbours_are_sorted_and_exclude_the_point(generator):
    points = torch.rand(2, 40, 3, generator=generator)
    distances, indices = nearest(points, 5)
    reference = torch.cdist(points, points).topk(6, largest=False)
    torch.testing.assert_close(distances, reference.values[..., 1:], atol=1e-5, rtol=1e-5)
    assert (indices != torch.arange(40)[None, :, None]).all()


@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_family_gives_connected_clouds_in_the_unit_sphere(name):
    clouds = ProceduralShapes(seed=3, families=[name], variation=PLAIN).draw(3, 200)
    assert clouds.shape == (3, 200, 3) and torch.isfinite(clouds).all()
    torch.testing.assert_close(clouds.norm(dim=-1).amax(1), torch.ones(3))
    assert connected(clouds).min() > 0.99
    spacing = nearest(clouds, 1)[0][..., 0]
    assert (spacing.amin(1) / spacing.mean(1)).min() > 0.3, "farthest points keep their distance"
    assert len({round(float(c.square().sum()), 3) for c in clouds}) == 3, "three shapes, not one"


def test_a_prefix_of_a_cloud_is_near_uniform_too():
    clouds = ProceduralShapes(seed=1, variation=PLAIN).draw(4, 256)
    spacing = nearest(clouds[:, :64], 1)[0][..., 0]
    assert (spacing.amin(1) / spacing.mean(1)).min() > 0.3
