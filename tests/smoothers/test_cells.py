"""Cells, boundaries and curvatures of clouds: against loops over points, Voronoi diagrams and known surfaces."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull, Voronoi

from eigenprobe.errors import InputError
from eigenprobe.graph import Graph
from eigenprobe.graph.graph import build_graph
from eigenprobe.smoothers import Smoother, build_smoother, cells
from eigenprobe.smoothers.alteration import curvature
from eigenprobe.smoothers.cells import at_boundary, covered, even_directions, open_cells
from eigenprobe.smoothers.stencil import SELECTION, tangent_frames
from tests import clouds as c

BALLS = {1: 2.0, 2: math.pi, 3: 4 * math.pi / 3, 4: math.pi**2 / 2, 5: 8 * math.pi**2 / 15}


def test_balls_and_directions() -> None:
    for dimension, volume in BALLS.items():
        assert cells._ball(dimension) == pytest.approx(volume)
    assert even_directions(1).tolist() == [[1.0], [-1.0]]
    ring = even_directions(2)
    angle = 2 * math.pi * torch.arange(64, dtype=torch.float64) / 64
    torch.testing.assert_close(ring, torch.stack([angle.cos(), angle.sin()], 1))
    assert even_directions(3).shape == (200, 3)
    torch.testing.assert_close(even_directions(3).norm(dim=1), torch.ones(200, dtype=torch.float64))


def brute(graph: Graph, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of cells and whether they are open, by loops over points and directions."""
    x, directions = graph.points.numpy(), even_directions(dimension).numpy()
    sizes, opened = [], []
    for i, row in enumerate(graph.indices.numpy()):
        offsets, length = x[row] - x[i], graph.distances[i].numpy()
        if dimension < x.shape[1]:
            few = torch.from_numpy(offsets[: SELECTION.frame])[None]
            frame = tangent_frames(few, torch.from_numpy(length[: SELECTION.frame])[None], dimension)[0].numpy()
            offsets = offsets @ frame
            if dimension == 2:
                a, b = offsets[0] / np.linalg.norm(offsets[0])
                offsets = offsets @ np.array([[a, -b], [b, a]])
            offsets = offsets / np.linalg.norm(offsets, axis=1, keepdims=True) * length[:, None]
        closing = np.array([max(2 * u @ o / (r * r) for o, r in zip(offsets, length, strict=True)) for u in directions])
        is_open = closing.min() < 1 / length.max()
        outward = -(offsets / length[:, None]).mean(0)
        radius = 1 / np.maximum(closing, 1 / length.max())
        radius[is_open & (directions @ outward > 0)] = 0
        sizes.append(BALLS[dimension] * (radius**dimension).mean())
        opened.append(is_open)
    return np.array(sizes), np.array(opened)


@pytest.mark.parametrize("name", ["interval", "square", "bent", "cube"])
def test_cells_are_those_of_loops(name: str, rng: np.random.Generator) -> None:
    x = rng.random((70, {"interval": 1, "square": 2, "bent": 2, "cube": 3}[name]))
    dimension = x.shape[1]
    if name == "bent":
        x = np.c_[x, 0.3 * x[:, 0] ** 2]
    graph = build_graph(torch.from_numpy(x), 20)
    sizes, opened = cells._cells(graph, torch.arange(70), dimension)
    exact, edge = brute(graph, dimension)
    np.testing.assert_allclose(sizes.numpy(), exact, rtol=1e-6)
    np.testing.assert_array_equal(opened.numpy(), edge)
    part = torch.tensor([3, 60, 5])
    torch.testing.assert_close(cells._cells(graph, part, dimension)[0], sizes[part])


def test_cells_are_those_of_a_voronoi_diagram(rng: np.random.Generator) -> None:
    x = rng.random((400, 2))
    graph = build_graph(torch.from_numpy(x), 30)
    sizes, opened = (part.numpy() for part in cells._cells(graph, torch.arange(400), 2))
    diagram, inside = Voronoi(x), np.flatnonzero(((x > 0.2) & (x < 0.8)).all(1))
    exact = np.array([ConvexHull(diagram.vertices[diagram.regions[diagram.point_region[i]]]).volume for i in inside])
    np.testing.assert_allclose(sizes[inside].sum(), exact.sum(), rtol=0.01)
    assert np.abs(sizes[inside] / exact - 1).mean() < 0.02
    assert not opened[inside].any() and opened[(x.min(1) < 0.01) | (x.max(1) > 0.99)].mean() > 0.8


def smoother_of(x: np.ndarray, dimension: float, mass: np.ndarray | None = None, k: int = 20) -> Smoother:
    graph = build_graph(torch.from_numpy(x), k)
    weights = np.full(len(x), 1 / len(x)) if mass is None else mass / mass.sum()
    made = build_smoother(graph, "adaptive", dimension=min(dimension, 3))
    return replace(made, mass=torch.from_numpy(weights), dimension=dimension)


def test_what_is_covered_is_a_ratio_of_sums(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    x, mass = rng.random((90, 2)), rng.random(90) + 0.5
    smoother = smoother_of(x, 2, mass)
    sizes, _ = brute(smoother.graph, 2)
    assert float(covered(smoother)) == pytest.approx(sizes.sum(), rel=1e-6)
    density = torch.from_numpy(rng.random(90) + 0.5)
    assert float(covered(replace(smoother, density=density))) == pytest.approx(
        (sizes * density.numpy()).sum(), rel=1e-6
    )
    monkeypatch.setattr(cells, "SAMPLE", 30)  # every third
    rows, share = np.arange(0, 90, 3), mass / mass.sum()
    assert float(covered(smoother)) == pytest.approx(sizes[rows].sum() / share[rows].sum(), rel=1e-6)
    monkeypatch.setattr(cells, "SAMPLE", 31)
    assert float(covered(smoother)) == pytest.approx(sizes[rows].sum() / share[rows].sum(), rel=1e-6)
    monkeypatch.setattr(cells, "SAMPLE", 90)
    monkeypatch.setattr(cells, "BLOCK", 7)
    assert float(covered(smoother)) == pytest.approx(sizes.sum(), rel=1e-6)
    assert torch.equal(at_boundary(smoother), torch.from_numpy(brute(smoother.graph, 2)[1]))
    high = smoother_of(rng.random((60, 5)), 4.3, k=9)  # balls of k neighbours above three dimensions
    reach = high.graph.distances[:, -1].numpy()
    assert float(covered(high)) == pytest.approx(BALLS[4] * (reach**4).sum() / 9, rel=1e-6)
    for wrong in (build_smoother(x, "row"), replace(smoother, graph=None)):
        with pytest.raises(InputError, match="a volume needs a symmetric smoother on a Euclidean graph"):
            covered(wrong)
    with pytest.raises(InputError, match="a volume needs"):
        covered(replace(smoother, graph=replace(smoother.graph, metric="cosine")))
    for wrong in (high, replace(smoother, graph=None), replace(smoother, dimension=4.0)):
        with pytest.raises(InputError, match="a boundary is found in Euclidean clouds of up to three dimensions"):
            at_boundary(wrong)
    assert at_boundary(smoother_of(rng.random((90, 3)), 3.4)).dtype == torch.bool
    with pytest.raises(InputError, match="a boundary is found"):
        at_boundary(replace(smoother, graph=replace(smoother.graph, metric="cosine")))
    assert float(covered(smoother_of(x, 0.3))) > 0  # at least one dimension


def fit(graph: Graph, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Principal curvatures and the direction of the first, by one weighted least-squares fit of heights."""
    x, row = graph.points.numpy(), graph.indices[i].numpy()
    length = graph.distances[i].numpy()
    scale = length[-1]
    weight = np.exp(-((length / (0.55 * scale)) ** 2) / 2)
    o = (x[row] - x[i]) / scale
    frame = np.linalg.eigh((weight[:, None] * o).T @ o)[1][:, ::-1]
    u, v, z = (o @ frame).T
    stretch = np.sqrt(1 + z * z / (u * u + v * v))
    u, v = u * stretch, v * stretch
    design = np.stack([u, v, u * u / 2, u * v, v * v / 2, u**3, u * u * v, u * v * v, v**3], 1)
    root = np.sqrt(weight)
    a, b, p, q, r = np.linalg.lstsq(root[:, None] * design, root * z, rcond=None)[0][:5]
    slope, hessian = np.array([a, b]), np.array([[p, q], [q, r]])
    rise = 1 + slope @ slope
    values, vectors = np.linalg.eig(np.linalg.inv(np.eye(2) + np.outer(slope, slope)) @ hessian / np.sqrt(rise))
    order = np.argsort(-np.abs(values))
    first = vectors[:, order[0]]
    direction = frame @ np.array([*first, slope @ first])
    return values[order] / scale, direction / np.linalg.norm(direction)


def test_curvature_is_that_of_a_fit_of_heights(rng: np.random.Generator) -> None:
    x = c.random_sphere(300, rng) * [1.0, 0.7, 1.3]
    graph = build_graph(torch.from_numpy(x), 30)
    bent = curvature(graph, 2.2)
    for i in range(0, 300, 7):
        values, direction = fit(graph, i)
        np.testing.assert_allclose(bent.values[i].abs().numpy(), np.abs(values), rtol=1e-4, atol=1e-6)
        assert abs(direction @ bent.direction[i].numpy()) == pytest.approx(1, abs=1e-4) or abs(
            abs(values[0]) - abs(values[1])
        ) < 0.02 * abs(values[0])
    torch.testing.assert_close(bent.gaussian, bent.values[:, 0] * bent.values[:, 1])
    assert bool((bent.values[:, 0].abs() >= bent.values[:, 1].abs() - 1e-12).all())
    torch.testing.assert_close(bent.direction.norm(dim=1), torch.ones(300, dtype=torch.float64))


def test_curvature_of_a_saddle_and_of_a_plane() -> None:
    grid = torch.cartesian_prod(*(torch.linspace(-1, 1, 21, dtype=torch.float64),) * 2)
    for a, b in ((0.5, -0.3), (0.4, 0.1), (0.0, 0.0)):
        x = torch.cat([grid, (a * grid[:, :1] ** 2 + b * grid[:, 1:] ** 2) / 2], 1)
        bent = curvature(build_graph(x, 30), 2)
        middle = int(grid.square().sum(1).argmin())
        assert float(bent.gaussian[middle]) == pytest.approx(a * b, abs=2e-3)
        assert sorted(bent.values[middle].abs().tolist()) == pytest.approx(sorted([abs(a), abs(b)]), abs=5e-3)
        if a:
            assert abs(float(bent.direction[middle, 0])) == pytest.approx(1, abs=1e-4)
    flat = build_graph(torch.cat([grid, 0 * grid[:, :1]], 1), 30)
    assert float(curvature(flat, 2).values.abs().max()) < 1e-6
    for wrong, dimension in (
        (build_graph(grid, 20), 2.0),
        (flat, 1.4),
        (flat, 2.6),
        (replace(flat, metric="cosine"), 2.0),
    ):
        with pytest.raises(InputError, match="curvature is that of a surface in three dimensions"):
            curvature(wrong, dimension)


@pytest.mark.parametrize("k", [6, 9, 14])
def test_six_sectors_close_a_cell(k: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points with a neighbour in each are not looked at any more; of all what a look at their cells tells."""
    looked: list[int] = []
    real = cells._cells
    for x in (rng.random((300, 2)), np.column_stack([y := rng.random((300, 2)), 0.2 * (y**2).sum(1)])):
        graph = build_graph(torch.from_numpy(x), k)
        rows = torch.from_numpy(rng.permutation(300)[:200])
        expected = real(graph, rows, 2)[1]
        looked.clear()
        monkeypatch.setattr(cells, "_cells", lambda *given: looked.extend(given[1].tolist()) or real(*given))
        assert torch.equal(open_cells(graph, rows, 2), expected) and 5 < int(expected.sum()) < 200
        u, v = (each.numpy() for each in cells._in_planes(graph, rows, SELECTION.frame))
        sector = np.floor(np.arctan2(v, u) % (2 * np.pi) / (np.pi / 3))
        assert looked == [row for row, own in zip(rows.tolist(), sector, strict=True) if len(set(own)) < 6]


def test_coordinates_in_planes_are_those_of_tangent_frames(rng: np.random.Generator) -> None:
    """Up to a turn: lengths and angles of offsets in the plane of the nearest; in the plane itself the offsets."""
    x = rng.random((80, 3)) * [1, 1, 0.2]
    graph, rows = build_graph(torch.from_numpy(x), 12), torch.arange(0, 80, 3)
    for count in (6, 10, 12):
        u, v = cells._in_planes(graph, rows, count)
        chords = graph.points[graph.indices[rows]] - graph.points[rows, None]
        frames = tangent_frames(chords[:, :count], graph.distances[rows, :count], 2)
        inside = chords @ frames
        found = torch.stack([u, v], 2)
        torch.testing.assert_close(found @ found.mT, inside @ inside.mT)
    flat = build_graph(torch.from_numpy(x[:, :2]), 9)
    u, v = cells._in_planes(flat, rows, 10)
    torch.testing.assert_close(torch.stack([u, v], 2), flat.points[flat.indices[rows]] - flat.points[rows, None])


def test_chains_of_points_with_a_wide_gap_are_loops(rng: np.random.Generator) -> None:
    """By loops: the widest gap of the directions to all neighbours, chains of such points, and those beside them."""
    x = rng.random((260, 2))
    x = np.concatenate([x[(np.linalg.norm(x - 0.5, axis=1) > 0.15) & (x[:, 0] < 0.93)], [[0.5, 0.5]]])
    graph = build_graph(torch.from_numpy(x), 14)
    lists = graph.indices.numpy()
    wide = []
    for i, row in enumerate(lists):
        angle = np.sort(np.arctan2(*(x[row] - x[i]).T[::-1]))
        wide.append(np.append(np.diff(angle), angle[0] + 2 * np.pi - angle[-1]).max() > cells.GAP)
    parts = list(range(len(x)))
    for _ in parts:
        for i in range(len(x)):
            for j in lists[i, : cells.LINKED]:
                if wide[i] and wide[j]:
                    parts[i] = parts[j] = min(parts[i], parts[j])
    chained = np.array([wide[i] and parts.count(parts[i]) >= cells.CHAIN for i in range(len(x))])
    expected = chained | chained[lists[:, : cells.LINKED]].any(1)
    assert np.array_equal(cells._in_loops(graph).numpy(), expected) and 10 < expected.sum() < len(x)


def test_open_cells_end_at_a_line_outwards() -> None:
    """Three neighbours on one side, one of them straight inwards: the cell ends beside them, with finite derivatives.

    Of the rows ``(x, y) = (1, 0), (1, 1), (1, -1)`` bisectors are at x = 1/2 and x +- y = 1; cut at x = -outward.
    """
    x = torch.tensor([[1.0], [1.0], [1.0]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[0.0], [1.0], [-1.0]], dtype=torch.float64, requires_grad=True)
    asked = torch.ones(3, 1, dtype=torch.bool)
    high, low = torch.full((3, 1), 2.0).double(), torch.full((3, 1), -2.0).double()
    top, bottom, rim = cells._ended(x, y, high, low, asked, torch.tensor([0.1]).double())
    # l = p / 2 + t J p reaches inwards <inward, l> = along / 2 + t slope, 2.5 at most; a tenth of it is outwards.
    inward, outward = np.array([1.0, 0.0]), 0.25
    for j, p in enumerate(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0]])):
        slope = p[0] * inward[1] - p[1] * inward[0]
        end = math.inf if slope == 0 else -(outward + p @ inward / 2) / slope
        assert top[j, 0].item() == pytest.approx(min(2.0, end) if slope < 0 else 2.0)
        assert bottom[j, 0].item() == pytest.approx(max(-2.0, end) if slope > 0 else -2.0)
    # On the line x = -1/4 the bisectors x +- y = 1 end at y = +-5/4: a rectangle of 1/4 by 5/2, of which half counts.
    assert rim.item() == pytest.approx(2.5 * outward / 2)
    (top.sum() + bottom.sum() + rim.sum()).backward()
    assert bool(x.grad.isfinite().all()) and bool(y.grad.isfinite().all())


@pytest.mark.parametrize("open_", [False, True])
def test_edges_of_cells_are_measured_one_by_one(open_: bool, rng: np.random.Generator) -> None:
    """From end to end of ``p / 2 + t J p``, no farther than the radius; the reach is that of the farthest corner."""
    k, r = 6, 9
    x, y = rng.normal(size=(2, k, r))
    same = rng.random((k, r)) < 0.8
    ends = rng.uniform(-0.1, 1.6, (2, k, r))
    ends[:, 0] = [[0.3], [-0.3]]  # a corner: an edge of no length
    radius = rng.uniform(0.5, 2.5, r) if open_ else np.full(r, 40.0)
    outward = rng.uniform(0.5, 1, r)
    parts = [torch.from_numpy(each) for each in (x, y, x**2 + y**2, same, np.ones(r), np.ones(r))]
    found = cells._measured(cells._Planes(*parts), *(torch.from_numpy(each) for each in (ends, radius, outward)))
    cut = 0
    for i in range(r):
        squared = x[:, i] ** 2 + y[:, i] ** 2
        limit = np.sqrt(np.maximum(radius[i] ** 2 / squared - 0.25, 0))
        high, low = np.minimum(ends[0, :, i] / 2, limit), -np.minimum(ends[1, :, i] / 2, limit)
        seen = same[:, i] & (high - low > 1e-14)
        corner = squared * (0.25 + np.maximum(high, -low) ** 2)
        assert float(found.reach[i]) == pytest.approx(math.sqrt(corner[seen].max(initial=0)), rel=1e-9)
        rim = 0.0
        if (seen & ((high >= limit) | (low <= -limit))).any():
            given = [torch.from_numpy(each)[:, None] for each in (x[:, i], y[:, i], high, low, seen)]
            top, bottom, area = cells._ended(*given, torch.from_numpy(outward[i : i + 1]))
            high, low, rim, cut = top[:, 0].numpy(), bottom[:, 0].numpy(), float(area), cut + 1
        np.testing.assert_allclose(found.weight[:, i], np.where(seen, np.maximum(high - low, 0), 0), atol=1e-12)
        assert float(found.rim[i]) == pytest.approx(rim)
    assert (cut > 0) == open_
