"""Points in lines: the star, its metric, and spectra of surfaces that are sampled more closely along than across."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial import Delaunay

import eigenprobe as ep
from eigenprobe.sampling.farthest import farthest_points
from eigenprobe.smoothers.balanced import EXACT, balanced_stencil
from eigenprobe.smoothers.stencil import STAR, Neighbours, find_lines, tangent_frames, voronoi_neighbours


def rows(along: int, across: int, jitter: float, rng: np.random.Generator) -> np.ndarray:
    """The unit square in jittered rows."""
    x, y = np.meshgrid((np.arange(along) + 0.5) / along, (np.arange(across) + 0.5) / across, indexing="ij")
    shift = jitter * rng.uniform(-0.5, 0.5, (2, *x.shape))
    return np.stack([x + shift[0] / along, y + shift[1] / across], 2).reshape(-1, 2)


def nearest(points: np.ndarray) -> tuple[Neighbours, torch.Tensor]:
    graph = ep.decompose(points, k=2, dimension=2, neighbours="plain", resolution="all").graph.torch().without_loops()
    near = Neighbours.of(graph.points, graph.indices, graph.distances)
    return near, tangent_frames(near.offsets[:, :10], near.distances[:, :10], 2)


def test_the_star_is_that_of_delaunay(rng: np.random.Generator) -> None:
    points = rng.uniform(size=(400, 2)) * [1, 0.4]
    starts, ends = Delaunay(points).vertex_neighbor_vertices
    inner = ((points > [0.2, 0.1]) & (points < [0.8, 0.3])).all(1).nonzero()[0]
    order = np.linalg.norm(points[:, None] - points[None], axis=2).argsort(1)[:, 1:61]
    star = voronoi_neighbours(torch.from_numpy(points[order] - points[:, None])).numpy()
    for i in inner:
        assert set(order[i, star[i]]) == set(ends[starts[i] : starts[i + 1]])


def test_the_metric_of_a_stretched_lattice(rng: np.random.Generator) -> None:
    """Rows five times as far apart as their points: lengths in the metric are five times as long along them."""
    near, frames = nearest(rows(150, 30, 0.1, rng))
    frames, lines = find_lines(near, frames, ())
    assert lines is not None and len(lines.rows) > 0.8 * len(frames)
    unit = torch.eye(2, dtype=torch.float64)
    along, across = ((lines.roots @ each).norm(dim=1).median().item() for each in unit)
    assert along / across == pytest.approx(5, rel=0.4)  # stars of rows reach along them too
    chord, ends = unit[:1].expand(len(lines.rows), -1), lines.rows
    inside = lines.squared(ends, chord, torch.ones(len(frames), dtype=torch.float64))
    torch.testing.assert_close(inside, (lines.roots @ unit[0]).square().sum(1))
    cells = lines.spacing(torch.ones(len(frames), dtype=torch.float64))[lines.rows]
    assert float(cells.median()) == pytest.approx((1 / 150 / 30) ** 0.5, rel=0.3)


@pytest.mark.parametrize("kind", ["even", "random"])
def test_clouds_without_lines_are_left_alone(kind: str, rng: np.random.Generator) -> None:
    points = rng.normal(size=(6000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points = points[:2000] if kind == "random" else points[ep.geometry.farthest_points(points, 2000)]
    near, frames = nearest(points)
    same, lines = find_lines(near, frames, ())
    assert lines is None and same is frames


@pytest.mark.parametrize(("along", "across"), [(120, 60), (140, 47), (175, 35), (220, 27)])
@pytest.mark.parametrize("jitter", [0.2, 0.6])
def test_the_square_in_rows(along: int, across: int, jitter: float, rng: np.random.Generator) -> None:
    """Free square: pi^2 (i^2 + j^2). By distance alone 1 : 5 had .6 1.35 2.0 2.47 for 1 1 2 4; measured .02 to .07."""
    values = ep.decompose(rows(along, across, jitter, rng), k=12).eigenvalues[1:]
    exact = np.pi**2 * np.sort([i * i + j * j for i in range(5) for j in range(5)])[1:12]
    assert np.abs(values / exact - 1).mean() < 0.08


def test_several_clouds_are_as_alone(rng: np.random.Generator) -> None:
    """Which clouds have lines is decided for each."""
    lined = np.pad(rows(60, 12, 0.3, rng), ((0, 0), (0, 1)))
    ball = rng.normal(size=(500, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    options = {"k": 5, "dimension": 2, "neighbours": "plain", "resolution": "all"}
    for basis, cloud in zip(ep.decompose([lined, ball], **options), (lined, ball), strict=True):
        np.testing.assert_allclose(basis.eigenvalues, ep.decompose(cloud, **options).eigenvalues, rtol=1e-6, atol=1e-8)


def test_derivatives_in_lines(rng: np.random.Generator) -> None:
    """Weights of points in lines are smooth functions of the points."""
    points = np.pad(rows(40, 8, 0.2, rng), ((0, 0), (0, 1)))
    points[:, 2] = 0.1 * points[:, 0] ** 2
    basis = ep.decompose(points, k=2, dimension=2, neighbours="plain", resolution="all")
    graph = basis.graph.torch().without_loops()
    given = graph.points.clone()
    direction = torch.from_numpy(rng.normal(size=given.shape)) / 40

    def total(x: torch.Tensor) -> torch.Tensor:
        stencil = balanced_stencil(replace(graph, points=x), 2, EXACT)
        return (stencil.weight * torch.linspace(0, 1, len(stencil.weight), dtype=x.dtype)).sum()

    moving = given.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(total(moving), moving)
    step = 1e-6
    high, low = (total((given + sign * step * direction).requires_grad_()).detach() for sign in (1, -1))
    assert float((gradient * direction).sum()) == pytest.approx(float(high - low) / (2 * step), rel=1e-4)


@pytest.mark.parametrize(("radius", "n"), [(0.06, 400), (0.1, 600), (0.15, 400)])
def test_a_thin_tube_of_even_points_has_no_lines(rng: np.random.Generator, radius: float, n: int) -> None:
    """Its nearest points lie along it, but the third is hardly farther than the first."""
    u, v = rng.uniform(0, 2 * np.pi, (2, 20 * n))
    wide = 1 + radius * np.cos(v)
    x = np.column_stack([wide * np.cos(u), wide * np.sin(u), radius * np.sin(v)])
    near, frames = nearest(x[farthest_points(x, n, 0)])
    assert find_lines(near, frames, (), replace(STAR, third=0.0))[1] is not None
    assert find_lines(near, frames, ())[1] is None
