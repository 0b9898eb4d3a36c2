"""Tests of `shapes.contacts`."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from eigenprobe_lab.shapes.contacts import (
    LONGEST,
    Fold,
    Spread,
    folded,
    links,
    ratios,
    spread_order,
    spread_rows,
)
from eigenprobe_lab.shapes.dense import Dense, DenseShapes
from tests.lab.factory.test_neighbours import sheets


def capsule(n: int = 3000) -> Dense:
    """A cylinder of radius 0.1 and length 2 with its outward normals, independent points."""
    t = torch.rand((n, 2), generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [2 * torch.pi, 2.0]
    )
    normals = torch.stack([t[:, 0].cos(), t[:, 0].sin(), torch.zeros(n)], 1)
    points = torch.stack([0.1 * normals[:, 0], 0.1 * normals[:, 1], t[:, 1] - 1], 1)
    return Dense(points[None], normals[None], torch.zeros((1, n), dtype=torch.int64))


def test_every_way_of_sampling_gives_different_points_of_the_shape() -> None:
    shape, generator = capsule(900), torch.Generator().manual_seed(0)
    order = spread_order(shape, 200, generator)
    assert order.shape == (1, 300)
    for way in (Spread(even=1.0), Spread(even=0.0, vertices=1.0), Spread(even=0.0, vertices=0.0)):
        rows = spread_rows(shape.points, order, 200, generator, way)
        assert rows.shape == (1, 200) and len(rows.unique()) == 200
    assert torch.equal(
        spread_rows(shape.points, order, 200, generator, Spread(even=1.0))[0], torch.arange(200)
    )


def test_ratios_are_dijkstras() -> None:
    shapes = DenseShapes(3, touching=0.0).dense(2, 700, 0)
    graph = links(shapes)
    chosen = torch.arange(120).expand(2, 120)
    sources = torch.tensor([[0, 7, 50], [3, 9, 80]])
    targets = torch.randint(120, (2, 3, 10), generator=torch.Generator().manual_seed(0))
    found = ratios(shapes.points, graph, chosen, sources, targets)
    for i in range(2):
        index, length = (part[i].numpy() for part in graph)
        rows, columns = np.nonzero(np.isfinite(length))
        matrix = csr_array((length[rows, columns], (index[rows, columns], rows)), shape=(700, 700))
        exact = dijkstra(
            matrix.T.tocsr(), indices=sources[i].numpy()
        )  # paths over links read from the target's row
        reverse = dijkstra(matrix, indices=sources[i].numpy())
        for s in range(3):
            chord = (
                (shapes.points[i, targets[i, s]] - shapes.points[i, sources[i, s]])
                .norm(dim=1)
                .clamp_min(1e-9)
            )
            either = [
                torch.as_tensor(d[s][targets[i, s].numpy()]) / chord for d in (exact, reverse)
            ]
            close = [
                torch.isclose(found[i, s].double(), e.clamp_max(LONGEST).double(), atol=1e-4)
                for e in either
            ]
            assert bool((close[0] | close[1]).all())


def test_no_path_leads_across() -> None:
    """Two sheets nearer than the dense spacing, facing away from each other: all edges between them
    are short-cuts.
    """
    x = sheets(0.5, m=20)[None].float()
    normals = torch.zeros_like(x)
    normals[:, :400, 2], normals[:, 400:, 2] = -1.0, 1.0
    graph = links(Dense(x, normals, torch.zeros(x.shape[:2], dtype=torch.int64)))
    sources, targets = torch.tensor([[210]]), torch.tensor([[[211, 230, 610, 611]]])
    found = ratios(x, graph, torch.arange(800)[None], sources, targets)[0, 0]
    assert bool((found[:2] < 1.4).all()) and bool((found[2:] == LONGEST).all())


def test_folded_limbs_touch_in_space_and_not_on_the_surface() -> None:
    """The two prongs of a fork, half a unit apart, are brought to the gap; their way round stays
    more than a unit.
    """
    t, angle = torch.meshgrid(torch.arange(60) / 30, torch.arange(12) * torch.pi / 6, indexing="ij")
    ring = torch.stack([torch.zeros_like(angle), angle.cos(), angle.sin()], -1)
    prong = torch.stack([t, 0 * t, 0 * t], -1) + 0.05 * ring
    arch = torch.arange(24) / 24 * torch.pi
    bend = torch.stack([-0.25 * arch.sin(), 0.25 * arch.cos(), 0 * arch], 1)[:, None]
    out = torch.stack([-arch.sin(), arch.cos(), 0 * arch], 1)[:, None]
    around = angle[:1, :, None].cos() * out + angle[:1, :, None].sin() * torch.tensor(
        [0.0, 0.0, 1.0]
    )
    points = torch.cat(
        [
            prong + torch.tensor([0, 0.25, 0]),
            bend + 0.05 * around,
            prong - torch.tensor([0, 0.25, 0]),
        ]
    )
    normals = torch.cat([ring, around, ring]).reshape(1, -1, 3)
    points = points.reshape(1, -1, 3)
    shapes = Dense(points, normals, torch.zeros(points.shape[:2], dtype=torch.int64))
    graph = links(shapes)
    fold = Fold(share=1.0, gap=(0.02, 0.02), reach=0.6)
    moved, (index, length) = folded(shapes, graph, torch.Generator().manual_seed(0), fold)
    ends = (moved.points[0][index[0]] - moved.points[0][:, None]).norm(dim=2)
    kept = torch.isfinite(graph[1][0])
    assert torch.equal(torch.isfinite(length[0]), kept)
    torch.testing.assert_close(length[0][kept], ends[kept])
    upper, lower = moved.points[0][: 60 * 12], moved.points[0][-60 * 12 :]
    assert float(torch.cdist(points[0, : 60 * 12], points[0, -60 * 12 :]).min()) > 0.39
    i, j = divmod(int(torch.cdist(upper, lower).argmin()), 60 * 12)
    assert float((upper[i] - lower[j]).norm()) < 0.1
    chosen = torch.tensor([[i, points.shape[1] - 60 * 12 + j]])
    one = torch.zeros((1, 1), dtype=torch.int64)
    assert float(ratios(moved.points, (index, length), chosen, one, one[..., None] + 1)) == LONGEST
