"""The virtual scanner sees what lies in front; clutter is not a surface."""

from __future__ import annotations

import torch

from eigenprobe.neighbors.graph import build_graph
from eigenprobe_lab.shapes.dense import Dense
from eigenprobe_lab.shapes.views import Scanner, clutter, scanned


def balls(n: int, radii: tuple[float, ...]) -> tuple[Dense, tuple[torch.Tensor, torch.Tensor]]:
    """Concentric spheres of ``n`` even points each, and their nearest neighbours as links."""
    i = torch.arange(n) + 0.5
    height, angle = 1 - 2 * i / n, torch.pi * (1 + 5**0.5) * i
    ring = (1 - height.square()).sqrt()
    normal = torch.stack([ring * angle.cos(), ring * angle.sin(), height], 1)
    points = torch.cat([radius * normal for radius in radii])
    graph = build_graph(points, 12)
    normals = normal.repeat(len(radii), 1)
    shapes = Dense(points[None], normals[None], torch.zeros(1, len(points), dtype=torch.int64))
    return shapes, (graph.indices[None], graph.distances[None])


def test_what_lies_inside_is_never_seen(generator: torch.Generator) -> None:
    shapes, graph = balls(4000, (1.0, 0.5))
    for _ in range(5):
        scan = scanned(shapes, graph, 1500, generator)
        assert not bool(scan.seen[0, 4000:].any()) and int(scan.seen[0, :4000].sum()) > 400
        own = scan.chosen[scan.measured]
        assert bool((own < 4000).all()) and bool(scan.seen[0, own].all())


def test_an_exact_scanner_returns_the_points_themselves(generator: torch.Generator) -> None:
    shapes, graph = balls(3000, (1.0,))
    exact = Scanner(holes=0, shifted=0, noise=0, lines=0)
    shares = []
    for _ in range(8):
        scan = scanned(shapes, graph, 2900, generator, exact)
        y, own = scan.points[scan.measured], scan.chosen[scan.measured]
        torch.testing.assert_close(y, shapes.points[0, own])
        assert not bool((scan.measured[:, 1:] & ~scan.measured[:, :-1]).any()), "returns come first"
        shares.append(float(scan.seen.float().mean()))
    assert min(shares) < 0.5 < max(shares), "one view sees less than half, several see more"


def test_damage_is_small_and_views_move_as_one(generator: torch.Generator) -> None:
    shapes, graph = balls(3000, (1.0,))
    scan = scanned(shapes, graph, 1000, generator, Scanner(shifted=1.0))
    moved = scan.points[scan.measured] - shapes.points[0, scan.chosen[scan.measured]]
    assert 0 < float(moved.norm(dim=1).median()) < 0.06
    seen = {
        share: sum(
            int(
                scanned(
                    shapes, graph, 9, torch.Generator().manual_seed(i), Scanner(holes=share)
                ).seen.sum()
            )
            for i in range(4)
        )
        for share in (0.0, 1.0)
    }
    assert 0.2 * seen[0.0] < seen[1.0] < seen[0.0]


def test_clutter_is_thin_and_fills_the_unit_ball() -> None:
    x = clutter(6, 500, torch.Generator().manual_seed(1))
    assert x.shape == (6, 500, 3)
    torch.testing.assert_close(x.norm(dim=2).amax(1), torch.ones(6))
    torch.testing.assert_close(x, clutter(6, 500, torch.Generator().manual_seed(1)))
    near = torch.cdist(x, x).topk(9, dim=2, largest=False).indices
    around = x[torch.arange(6)[:, None, None], near]
    spread = torch.linalg.svdvals(around - around.mean(2, keepdim=True))
    along = spread[..., 0].square() / spread.square().sum(2)
    assert float(along.median()) > 0.6, "neighbours lie along branches and wires"
