"""Procedural shapes: on the surface, near-uniform, connected, seeded, and as diverse as their families."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.geometry import is_closed
from eigenprobe.graph.edges import connected
from eigenprobe.sampling.farthest import farthest_points
from eigenprobe.search.segments import nearest
from eigenprobe_lab.shapes import FAMILIES, Builder, ProceduralShapes, Rng, Variation, project, seeds
from eigenprobe_lab.shapes.meshing import mesh_field

PLAIN = Variation(scale=0, bend=0, twist=0, taper=0, partial=0, uneven=0, random=0, noise=0)


def rng(b: int = 3, seed: int = 0) -> Rng:
    return Rng(b, torch.Generator().manual_seed(seed))


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
    builder.revolved(draw.point(1, 0, 0), draw.point(1, 0, 1e-4), 0.25)
    field = builder.build(blend=1e-3)
    x, _, arrived = project(field, seeds(field, draw, 800))
    ring = torch.stack([x[..., :2].norm(dim=-1) - 1, x[..., 2]], -1).norm(dim=-1)[arrived]
    torch.testing.assert_close(ring, torch.full_like(ring, 0.25), atol=6e-3, rtol=0)


def test_a_field_becomes_a_closed_mesh_of_its_zero_set():
    draw = rng(1)
    builder = Builder(draw)
    builder.revolved(draw.point(1, 0, 0), draw.point(1, 0, 1e-4), 0.4)
    field = builder.build(blend=1e-3)
    box = np.array([1.6, 1.6, 0.6])
    vertices, faces = mesh_field(field, -box, box, 24)
    assert is_closed(faces) == (True, "")
    assert len(vertices) - len(faces) * 3 // 2 + len(faces) == 0, "a torus"
    distance = np.hypot(np.hypot(*vertices[:, :2].T) - 1, vertices[:, 2])
    np.testing.assert_allclose(distance, 0.4, atol=2e-3)
    corners = vertices[faces]
    volume = np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6
    assert volume == pytest.approx(2 * np.pi**2 * 0.4**2, rel=0.03), "outward and of the right size"
    again = mesh_field(field, -box, box, 24)
    assert (again[0] == vertices).all() and (again[1] == faces).all()


def test_farthest_points_match_the_definition(generator):
    points = torch.rand(2, 60, 3, generator=generator)
    order = farthest_points(points, 20, start=0)
    for cloud, chosen in zip(points, order, strict=True):
        for t in range(1, 20):
            reach = torch.cdist(cloud, cloud[chosen[:t]]).amin(1)
            assert reach[chosen[t]] >= reach.max() - 1e-6
    valid = torch.rand(2, 60, generator=generator) < 0.5
    kept = farthest_points(points, 10, start=0, valid=valid)
    assert valid.gather(1, kept).all()


def test_neighbours_are_sorted_and_exclude_the_point(generator):
    points = torch.rand(2, 40, 3, generator=generator)
    distances, indices = nearest(points, 5)
    reference = torch.cdist(points, points).topk(6, largest=False)
    torch.testing.assert_close(distances, reference.values[..., 1:], atol=1e-6, rtol=1e-5)
    assert (indices != torch.arange(40)[None, :, None]).all()


def test_connected_tells_one_piece_from_two():
    t = torch.linspace(0, 1, 200)
    line = torch.stack([t, 0 * t, 0 * t], -1)  # far more hops than rounds of propagation
    split = line.clone()
    split[100:, 1] = 5
    share = connected(torch.stack([line, split]), k=4)
    assert share[0] == 1 and abs(share[1] - 0.5) < 0.02


@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_family_gives_connected_clouds_in_the_unit_sphere(name):
    clouds = ProceduralShapes(seed=3, families=[name], variation=PLAIN).draw(3, 200)
    assert clouds.shape == (3, 200, 3) and torch.isfinite(clouds).all()
    torch.testing.assert_close(clouds.norm(dim=-1).amax(1), torch.ones(3))
    assert connected(clouds).min() > 0.99
    spacing = nearest(clouds, 1)[0][..., 0]
    assert (spacing.amin(1) / spacing.mean(1)).min() > 0.3, "farthest points keep their distance"
    assert len({round(float(c.square().sum()), 3) for c in clouds}) == 3, "three shapes, not one"


def test_draws_are_seeded_and_go_on():
    first, again = ProceduralShapes(seed=5), ProceduralShapes(seed=5)
    a, b = first.draw(4, 128), first.draw(4, 128)
    assert not torch.equal(a, b)
    torch.testing.assert_close(a, again.draw(4, 128))
    torch.testing.assert_close(b, again.draw(4, 128, draw=1))
    assert not torch.equal(a, ProceduralShapes(seed=6).draw(4, 128))


def test_a_prefix_of_a_cloud_is_near_uniform_too():
    clouds = ProceduralShapes(seed=1, variation=PLAIN).draw(4, 256)
    spacing = nearest(clouds[:, :64], 1)[0][..., 0]
    assert (spacing.amin(1) / spacing.mean(1)).min() > 0.3


def test_families_must_be_known():
    with pytest.raises(InputError, match="dragonfly"):
        ProceduralShapes(families=["dragonfly"])
    with pytest.raises(InputError, match="at least 16 points"):
        ProceduralShapes().draw(1, 3)
