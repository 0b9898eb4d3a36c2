"""Tests of `smoothers.neighbourhood`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenprobe.eigen.solve import solve
from eigenprobe.errors import InputError
from eigenprobe.estimators import solvers
from eigenprobe.graph import Graph
from eigenprobe.graph.graph import build_graph
from eigenprobe.smoothers import Smoother
from eigenprobe.smoothers import neighbourhood as neighbourhoods
from eigenprobe.smoothers.neighbourhood import (
    Neighbourhood,
    closed_neighbours,
    fuzzy_weights,
    neighbourhood_smoother,
    overlaps,
)
from tests.clouds import fibonacci_sphere
from tests.estimators.test_coordinates import _model, _parts


@pytest.fixture
def smoother(rng: np.random.Generator) -> Smoother:
    return neighbourhood_smoother(build_graph(torch.from_numpy(rng.normal(size=(70, 5))), 8))


@pytest.fixture
def points(generator: torch.Generator) -> torch.Tensor:
    return torch.randn(80, 5, generator=generator, dtype=torch.float64)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize(("k", "directions"), [(1, True), (3, True), (4, False), (5, False)])
def test_more_parts_than_columns_are_told_apart_by_their_centres(
    k: int, directions: bool, rng: np.random.Generator
) -> None:
    """Up to as many columns as coordinates; with as many columns as parts every part has its own."""
    x = _parts(rng, 5 if k < 4 else k + 1).graph.points.numpy()
    model = _model(k, n_neighbors=6, coordinates="vectors", metric="euclidean").fit(x)
    smoother = neighbourhood_smoother(model._graph)
    expected = solvers._part_columns(smoother, min(k, 3) + 1).numpy() / np.sqrt(model.mass_)[:, None]
    overlap = np.abs(expected[:, 1:].T @ (model.mass_[:, None] * model.vectors_))
    if directions:
        order = overlap.argmax(0)  # all have the eigenvalue 0, in any order
        assert sorted(order) == list(range(k))
        np.testing.assert_allclose(overlap[order], np.eye(k), atol=1e-4)
    else:
        assert np.abs(overlap[:, :3] - np.eye(3)).max() > 1e-2


def test_scales_solve_their_equation(points: torch.Tensor) -> None:
    graph = build_graph(points, 9)
    weight = fuzzy_weights(graph.distances)
    np.testing.assert_allclose(weight.sum(1).numpy(), np.log2(9), rtol=1e-6)
    assert bool((weight[:, 0] == 1).all()) and bool((weight.diff(dim=1) <= 0).all())


def test_matrix_is_the_formula(points: torch.Tensor) -> None:
    k, n = 7, len(points)
    graph = build_graph(points, k)
    smoother = neighbourhood_smoother(graph)
    p = np.zeros((n, n))
    np.put_along_axis(p, graph.indices.numpy(), fuzzy_weights(graph.distances).numpy(), axis=1)
    sets = [{i, *row} for i, row in enumerate(graph.indices.tolist())]
    overlap = np.array([[len(a & b) / len(a | b) for b in sets] for a in sets])
    w = np.maximum(p, p.T) * overlap
    r = w.sum(1)
    expected = np.eye(n) / 2 + w / np.sqrt(np.outer(r, r)) / 2
    np.testing.assert_allclose(smoother.matrix.to_dense().numpy(), expected, atol=1e-12)
    assert smoother.mass is not None
    np.testing.assert_allclose(smoother.mass.numpy(), r / r.sum())
    values = np.linalg.eigvalsh(expected)
    assert values.min() >= -1e-12 and values.max() == pytest.approx(1)
    root = smoother.mass.sqrt()
    np.testing.assert_allclose(smoother.apply(root).numpy(), root.numpy(), atol=1e-12)


def test_a_rolled_sheet_has_the_eigenvalues_of_the_sheet(rng: np.random.Generator) -> None:
    angle = np.linspace(1.5 * np.pi, 4.5 * np.pi, 4001)
    arc = np.concatenate([[0], np.cumsum(np.hypot(np.diff(angle * np.cos(angle)), np.diff(angle * np.sin(angle))))])
    turn = np.interp(rng.uniform(0, arc[-1], 3000), arc, angle)
    x = np.stack([turn * np.cos(turn), rng.uniform(0, 21, 3000), turn * np.sin(turn)], 1)
    smoother = neighbourhood_smoother(build_graph(torch.from_numpy(x), 12))
    values = (solve(smoother, 6).gaps[1:] / smoother.step_time).numpy()
    waves = [(np.pi * i / arc[-1]) ** 2 + (np.pi * j / 21) ** 2 for i in range(9) for j in range(9)]
    np.testing.assert_allclose(values, np.sort(waves)[1:6], rtol=0.12)


def test_even_points_lose_nothing_to_disorder() -> None:
    smoother = neighbourhood_smoother(build_graph(torch.from_numpy(fibonacci_sphere(2000)), 12))
    values = (solve(smoother, 9).gaps[1:] / smoother.step_time).numpy()
    np.testing.assert_allclose(values, [2] * 3 + [6] * 5, rtol=0.08)


def test_shared_neighbours_are_counted(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build_graph(torch.from_numpy(rng.normal(size=(40, 3))), 6)
    closed = closed_neighbours(graph.indices)
    assert closed.shape == (40, 7) and closed.dtype == torch.int32
    rows, columns = torch.arange(40).repeat_interleave(40), torch.arange(40).repeat(40)
    sets = [{i, *row} for i, row in enumerate(graph.indices.tolist())]
    assert [set(row) for row in closed.tolist()] == sets
    expected = [len(sets[i] & sets[j]) for i, j in zip(rows.tolist(), columns.tolist(), strict=True)]
    assert overlaps(closed, closed, rows, columns).tolist() == expected
    for block in (1, 14, 70):
        monkeypatch.setattr(neighbourhoods, "SETTINGS", Neighbourhood(block=block))
        assert overlaps(closed, closed, rows, columns).tolist() == expected
        monkeypatch.setattr(neighbourhoods, "SETTINGS", Neighbourhood(block=block, longest=6))  # by a sparse product
        assert overlaps(closed, closed, rows, columns).tolist() == expected
        part = torch.from_numpy(rng.permutation(1600)[:300])
        chosen = overlaps(closed, closed, rows[part], columns[part]).tolist()
        assert chosen == [expected[at] for at in part.tolist()]
    few = neighbourhoods.incidence(closed[:3], 41).toarray()
    assert few.shape == (3, 41) and [set(np.flatnonzero(row)) for row in few] == sets[:3]


def test_scales_of_one_and_of_equal_distances() -> None:
    one = fuzzy_weights(torch.tensor([[2.0]], dtype=torch.float64))
    assert one.tolist() == [[1.0]]
    equal = fuzzy_weights(torch.full((1, 5), 3.0, dtype=torch.float64))
    torch.testing.assert_close(equal, torch.ones(1, 5, dtype=torch.float64))
    two = fuzzy_weights(torch.tensor([[1.0, 4.0]], dtype=torch.float64))
    assert float(two.sum()) == pytest.approx(1, abs=0.02)  # log2 of two
    far = torch.tensor([[1.0, 1.0, 1.0, 1.0, 1e6]], dtype=torch.float64)  # more ones than log2 k: the smallest scale
    scale = 1e-3 * float(far.mean())
    assert fuzzy_weights(far)[0, 4] == pytest.approx(math.exp(-(1e6 - 1) / scale), abs=1e-12)
    near = torch.tensor([[1.0, 1.0, 1.0, 1.0, 1.02]], dtype=torch.float64)
    assert float(fuzzy_weights(near)[0, 4]) == pytest.approx(math.exp(-0.02 / (1e-3 * 1.004)), rel=1e-3)


def test_rows_without_coordinates_have_a_bound_only(rng: np.random.Generator) -> None:
    graph = build_graph(torch.from_numpy(rng.normal(size=(60, 3))), 8)
    measured = neighbourhood_smoother(graph)
    bare = neighbourhood_smoother(Graph(torch.empty((60, 0)), graph.indices, graph.distances, "precomputed"))
    other = neighbourhood_smoother(replace(graph, metric="manhattan"))
    torch.testing.assert_close(measured.matrix.to_dense(), bare.matrix.to_dense(), atol=1e-6, rtol=1e-5)
    assert float(bare.step_time) == pytest.approx(float(other.step_time), rel=0.2)  # 3 columns bound a dimension
    assert float(measured.step_time) != pytest.approx(float(other.step_time), rel=1e-6)
    empty = neighbourhood_smoother(replace(graph, points=torch.empty((60, 0))))
    assert float(empty.step_time) > 0
    with pytest.raises(InputError, match="all rows are equal"):
        neighbourhood_smoother(replace(graph, distances=0 * graph.distances))
    with pytest.raises(InputError, match="all rows are equal"):
        neighbourhood_smoother(replace(graph, points=torch.ones((60, 3), dtype=torch.float64)))


@pytest.mark.parametrize("k", [12, 30])
def test_eigenvalues_of_random_curves(k: int) -> None:
    """A circle has 1, 1, 4, 4, a segment (j / 2)^2 on [0, 2 pi]: gaps of random points cost up to a third of them."""
    ratios = []
    for seed in range(4):
        t = np.random.default_rng(seed).uniform(0, 2 * np.pi, 1500)
        for points, exact in (
            (np.column_stack([np.cos(t), np.sin(t)]), np.array([1.0, 1, 4, 4])),
            (np.column_stack([t, 0 * t]), (np.arange(1, 5) / 2) ** 2),
        ):
            found = solve(neighbourhood_smoother(build_graph(torch.from_numpy(points), k)), 5)
            time = float(neighbourhood_smoother(build_graph(torch.from_numpy(points), k)).step_time)
            ratios.append(found.gaps[1:].numpy() / time / exact)
    assert 0.87 < np.mean(ratios) < 1.08  # .75 (12 neighbours) with the power of surfaces


@pytest.mark.parametrize("neighbours", [8, 12])
def test_a_cube_is_a_solid_with_few_neighbours_too(rng: np.random.Generator, neighbours: int) -> None:
    """Twelve neighbours took it for a surface, whose eigenvalues are a third lower."""
    points = torch.from_numpy(np.pi * rng.random((2000, 3)))
    smoother = neighbourhood_smoother(build_graph(points, neighbours))
    assert smoother.dimension == 3
    if neighbours == 12:
        found = solve(smoother, 5, tol=1e-5).gaps[1:4] / smoother.step_time
        assert abs(float(found.mean()) - 1) < 0.1
    sheet = torch.from_numpy(np.pi * rng.random((2000, 3)) * (1, 1, 0))
    assert neighbourhood_smoother(build_graph(sheet, neighbours)).dimension == 2


def test_very_many_rows_are_not_equal() -> None:
    """Neighbours 6e-5 apart on the unit circle in single precision: that many rows were taken for equal ones."""
    angle = 2 * np.pi * np.arange(100_000) / 100_000
    points = torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32))
    smoother = neighbourhood_smoother(build_graph(points, 4))
    assert smoother.dimension == 1 and 0 < smoother.step_time < 1e-7
    with pytest.raises(InputError, match="all rows are equal"):
        steps = torch.randint(3, (500, 6), generator=torch.Generator().manual_seed(0))
        neighbourhood_smoother(build_graph(1 + torch.finfo(torch.float32).eps * steps.float(), 4))
