"""Tests of `decomposition.indicators`: every sign against its formula, and the conditions under which one is told."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenprobe.decomposition import indicators
from eigenprobe.decomposition.indicators import SIGNS, distance_leap, has_small_gaps, likely_reason, occlusion
from eigenprobe.decomposition.settings import OperatorSettings
from eigenprobe.errors import EigenprobeWarning
from eigenprobe.graph.graph import Graph, build_graph
from eigenprobe.smoothers.cells import open_cells
from tests import clouds as c


@pytest.mark.parametrize("n", [300, 2600])
def test_thickness_is_a_median_ratio_of_singular_values(n: int, rng: np.random.Generator) -> None:
    """Of six neighbours of a curve and ten of a surface, of every second point where there are 2600 of them."""
    x = rng.normal(size=(n, 3)) * [1, 0.3, 0.05] + 5
    graph = build_graph(torch.from_numpy(x), 12)
    for dimension, count in ((1, 6), (2, 10)):
        ratios = []
        for near in graph.indices[:: max(1, n // 1000), :count].numpy():
            sizes = np.linalg.svd(x[near] - x[near].mean(0), compute_uv=False)
            ratios.append(sizes[dimension] / sizes[0])
        middle = np.sort(ratios)[(len(ratios) - 1) // 2]
        assert indicators.thickness(graph, dimension) == pytest.approx(middle, rel=1e-6)


def test_a_leap_is_the_largest_median_ratio_of_neighbours(rng: np.random.Generator) -> None:
    """Among the first nine, of every third point where there are 3500; one neighbour leaps nowhere."""
    for n, k in ((200, 12), (200, 5), (3500, 12)):
        graph = build_graph(torch.from_numpy(rng.normal(size=(n, 3))), k)
        near = graph.distances[:: max(1, n // 1000), :9].numpy()
        ratios = np.sort(near[:, 1:] / near[:, :-1], 0)[(len(near) - 1) // 2]
        assert distance_leap(graph) == pytest.approx(ratios.max())
    assert distance_leap(graph.truncate(1)) == 1.0
    assert distance_leap(graph.truncate(2)) == pytest.approx(np.sort(near[:, 1] / near[:, 0])[(len(near) - 1) // 2])


def test_a_grid_has_equal_distances_to_its_nearest(rng: np.random.Generator) -> None:
    line = np.stack(np.meshgrid(*[np.arange(9.0)] * 2), -1).reshape(-1, 2)
    grid = build_graph(torch.from_numpy(line), 8)
    assert indicators._is_grid(grid, 2) and indicators._is_grid(grid, 4)
    assert not indicators._is_grid(grid, 5) and not indicators._is_grid(grid, 20)  # the diagonal; all there are
    assert indicators._is_grid(grid.truncate(4), 20)
    random = build_graph(torch.from_numpy(rng.random((200, 2))), 8)
    assert not indicators._is_grid(random, 2) and indicators._is_grid(random, 1)
    mixed = replace(random, distances=torch.ones(200, 8))
    mixed.distances[::2, 3] = 1.02  # just half of them: the lower middle decides
    assert indicators._is_grid(mixed, 4)
    mixed.distances[1, 3] = 1.02
    assert not indicators._is_grid(mixed, 4)


@pytest.mark.parametrize("n", [400, 2400])
def test_shares_at_a_boundary_are_sums_of_mass(
    n: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of points with open cells, of every (n // samples)-th; a boundary is asked of surfaces and solids, first of a
    quarter of the samples."""
    graph = build_graph(torch.from_numpy(rng.random((n, 2))), 12)
    mass = torch.from_numpy(rng.random(n) + 0.1)
    for samples in (250, 1000):
        rows = np.arange(0, n, max(1, n // samples))
        is_open = open_cells(graph, torch.from_numpy(rows), 2).numpy()
        expected = mass.numpy()[rows][is_open].sum() / mass.numpy()[rows].sum()
        assert 0 < indicators._at_boundary(graph, mass, 2, samples) == pytest.approx(expected)
    taken: list[int] = []
    shares: list[float] = []

    def share(graph: Graph, mass: Tensor, dimension: int, samples: int) -> float:
        taken.append(samples)
        return shares[len(taken) - 1]

    monkeypatch.setattr(indicators, "_at_boundary", share)
    for dimension, least in ((2, 0.25), (3, 0.4)):
        for found, told, looked in (
            ([least / 3.1], None, [250]),
            ([least / 2.9, least / 2.9], None, [250, 1000]),
            ([9.0, least / 3.1], None, [250, 1000]),
            ([least, 1.02 * least], 1.02 * least, [250, 1000]),
            ([9.0, 0.98 * least], None, [250, 1000]),
        ):
            taken.clear()
            shares[:] = found
            assert indicators.boundary(graph, mass, dimension) == told and taken == looked
    grid = build_graph(torch.from_numpy(np.stack(np.meshgrid(*[np.arange(9.0)] * 2), -1).reshape(-1, 2)), 8)
    shares[:] = [0.37, 0.37]
    taken.clear()
    assert indicators.boundary(grid, mass, 2) is None  # a grid may have half as much again
    shares[:] = [0.38, 0.38]
    taken.clear()
    assert indicators.boundary(grid, mass, 2) == 0.38
    taken.clear()
    assert indicators.boundary(graph, mass, 1) is None and indicators.boundary(graph, mass, 4) is None and not taken
    for found, closed in ((0.049, True), (0.051, False)):
        shares[:] = [found]
        taken.clear()
        assert indicators.is_closed(graph, mass, 3) == closed and taken == [1000]
        assert not indicators.is_closed(graph, mass, 2)


def view(n: int, rng: np.random.Generator) -> tuple[Graph, Tensor]:
    """Half a sphere as a camera sees it, and areas in proportion to what its pixels show of it."""
    x = rng.uniform(-1, 1, (2 * n, 2))
    x = x[(x**2).sum(1) < 1][:n]
    height = np.sqrt(1 - (x**2).sum(1))
    return build_graph(torch.from_numpy(np.c_[x, height]), 20), torch.from_numpy(1 / (height + 0.05))


@pytest.mark.parametrize("share", [1e-9, 0.03, 0.9])
@pytest.mark.parametrize("thin", [0.0, 1.0, 1.7, 4.0, 1e9])
def test_occlusion_is_the_share_of_thin_open_cells(
    share: float, thin: float, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is looked at first, the answer is that of all: much of the area, and more of it than of the points."""
    monkeypatch.setattr(indicators, "SIGNS", SIGNS._replace(turned_share=share, turned_thin=thin))
    closed = build_graph(torch.from_numpy(c.random_sphere(500, rng)), 20), torch.from_numpy(rng.random(500))
    for graph, mass in (view(500, rng), closed):
        is_open = open_cells(graph, torch.arange(graph.n), 2).numpy()
        own = mass.numpy()
        area = own[is_open].sum() / own.sum()
        told = area > share and area > thin * is_open.mean()
        assert occlusion(graph, mass) == (pytest.approx(area) if told else None)


def test_few_cells_are_looked_at_where_they_tell(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 9000 points every second; of these the heavy ones, and all where a boundary of them is thin."""
    looked: list[int] = []

    def cells(graph: Graph, rows: Tensor, dimension: int) -> Tensor:
        assert dimension == 2
        looked.append(len(rows))
        return answer(rows)

    monkeypatch.setattr(indicators, "open_cells", cells)
    graph = SimpleNamespace(n=9000, device="cpu")
    mass = torch.ones(9000, dtype=torch.float64)
    mass[:400] = 20.0  # 200 of 4500 samples are above the mean, which is 1.84
    answer: Callable[[Tensor], Tensor] = lambda rows: torch.zeros(len(rows), dtype=torch.bool)  # noqa: E731
    assert occlusion(graph, mass) is None and looked == [200]  # type: ignore[arg-type]
    looked.clear()
    answer = lambda rows: rows < 400  # noqa: E731
    assert occlusion(graph, mass) == pytest.approx(4000 / 8300) and looked == [200, 4500]  # type: ignore[arg-type]
    looked.clear()
    assert occlusion(graph, torch.ones(9000)) is None and looked == []  # type: ignore[arg-type]
    looked.clear()
    answer = lambda rows: rows < 10  # five of them: 100 of 8300, and what they make up for is not enough  # noqa: E731
    assert occlusion(graph, mass) is None and looked == [200]  # type: ignore[arg-type]


def lists(h: float, n: int = 100, columns: int = 3, k: int = 12) -> Graph:
    """Lists whose distances are all the same."""
    indices = (torch.arange(n)[:, None] + torch.arange(1, k + 1)) % n
    return Graph(torch.zeros(n, columns, dtype=torch.float64), indices, torch.full((n, k), h, dtype=torch.float64))


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Signs that are measured elsewhere, none of which is there unless a test says so."""
    signs: dict[str, Any] = {
        "layers": None,
        "is_closed": False,
        "distance_leap": 1.0,
        "occlusion": None,
        "_thick": None,
    }
    signs["boundary"] = None
    for name in signs:
        monkeypatch.setattr(indicators, name, lambda *given, name=name: signs[name])
    return signs


def reason(
    h: float = 0.01, dimension: float = 2.0, chosen: bool = False, last: float = 1.0, **shape: int
) -> str | None:
    """What is told where the eleventh eigenvalue is ``last``; later ones do not matter."""
    graph = lists(h, **shape)
    eigenvalues = torch.cat([torch.linspace(0, last, 11), torch.full((5,), 1e9)]).double()
    return likely_reason(graph, torch.ones(graph.n, dtype=torch.float64), eigenvalues, dimension, chosen)


def test_the_resolution_of_the_eleventh_eigenvalue(silent: dict[str, Any]) -> None:
    """lambda_11 h^2 of at most 1; of fewer eigenvalues the last one."""
    assert reason(0.1, last=99.0) is None and "100 points are too few" in str(reason(0.1, last=101.0))
    graph, mass = lists(0.1), torch.ones(100, dtype=torch.float64)
    for values, told in (([0.0, 99.0], False), ([0.0, 101.0], True), ([0.0, 50.0, 101.0], True)):
        found = likely_reason(graph, mass, torch.tensor(values), 2.0)
        assert ("too few" in str(found)) == told
    graph.distances[:, 4:] = 9.0  # the four nearest count, by their mean square
    graph.distances[:, :2] = 0.0
    assert likely_reason(graph, mass, torch.tensor([0.0, 199.0]), 2.0) is None
    assert "too few" in str(likely_reason(graph, mass, torch.tensor([0.0, 201.0]), 2.0))


@pytest.mark.parametrize(("dimension", "least", "times"), [(1.0, 0.2, 4.0), (2.0, 0.2, 4.0), (3.0, 0.25, 1.8)])
def test_sparse_areas_hold_much_of_the_mass(
    dimension: float, least: float, times: float, silent: dict[str, Any]
) -> None:
    """Weighted squares over their median, where the resolution is below that of a wave."""
    mass = torch.ones(100, dtype=torch.float64)

    def found(ratio: float, resolution: float) -> str | None:
        graph = lists(1.0)
        far = (100 * ratio - 60) / 40  # so much on two of five points
        graph.distances[:40] = far**0.5
        return likely_reason(graph, 5 * mass, torch.tensor([0.0, resolution / ratio]), dimension, chosen=True)

    assert "hardly a point" in str(found(1.02 * times, 1.02 * least))
    assert found(0.98 * times, 1.02 * least) is None and found(1.02 * times, 0.98 * least) is None


def test_a_dimension_is_open_for_few_points_and_where_it_was_counted(silent: dict[str, Any]) -> None:
    assert "47 points are few to tell a dimension by, 2 was taken" in str(reason(n=47))
    assert reason(n=48) is None and reason(n=47, chosen=True) is None
    for columns, dimension, told in ((4, 3.0, True), (4, 3.4, True), (4, 2.9, False), (3, 3.0, False), (8, 5.2, True)):
        found = reason(dimension=dimension, columns=columns)
        assert (f"the dimension {dimension:.2g} was counted" in str(found)) == told
        assert reason(dimension=dimension, columns=columns, chosen=True) is None
    silent["is_closed"] = True
    assert reason(0.1, dimension=3.0, columns=4, last=44.0) is None
    assert "was counted" in str(reason(0.1, dimension=3.0, columns=4, last=46.0))


def test_signs_of_curves_surfaces_and_solids(silent: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them is asked of what, and which comes first."""
    silent["boundary"] = 0.5
    assert all("50% of it lies at a boundary" in str(reason(dimension=d)) for d in (1.0, 2.0, 3.0))
    silent["_thick"] = "thick"
    assert reason() == reason(dimension=1.0) == "thick" and reason(n=96, chosen=True) == "thick"
    assert "boundary" in str(reason(n=95, chosen=True)) and reason(n=95) == "thick"  # a ring of few points bends
    silent["occlusion"] = 0.25
    assert str(reason()).startswith("25% of the area lies at an open boundary")
    assert reason(columns=2) == reason(dimension=1.0) == reason(dimension=3.0) == "thick"
    silent["distance_leap"] = 2.01
    assert "2 times as far from others" in str(reason()) and "as copies do" in str(reason(dimension=3.0))
    assert reason(dimension=1.0) == "thick"
    silent["distance_leap"] = 1.99
    assert "copies" not in str(reason())
    silent["layers"] = 4.6
    assert "about 5 points lie side by side" in str(reason())
    seen: list[Any] = []
    monkeypatch.setattr(indicators, "layers", lambda *given: seen.append(given[1:]))
    reason(0.1, dimension=2.4, last=40.0)
    assert seen == [(pytest.approx(4.0 * 0.01), 2)]  # lambda_2 h^2


def test_what_is_beside_a_curve_or_a_surface(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"thickness": 0.0, "noise": 0.0}
    monkeypatch.setattr(indicators, "thickness", lambda graph, dimension: sizes["thickness"])
    monkeypatch.setattr(indicators, "noise", lambda graph: sizes["noise"])
    thick = indicators._thick
    space, plane, line = (lists(1.0, columns=columns) for columns in (3, 2, 1))
    for size, curve, surface in ((0.09, False, False), (0.11, True, False), (0.24, True, False), (0.26, True, True)):
        sizes["thickness"] = size
        assert ("for a curve" in str(thick(space, 1))) == ("for a curve" in str(thick(plane, 1))) == curve
        assert ("for a surface" in str(thick(space, 2))) == surface
        assert thick(space, 3) is None and thick(plane, 2) is None and thick(line, 1) is None
        assert thick(lists(1.0, columns=5), 3) is None and thick(space, 0) is None
    sizes.update(thickness=0.0, noise=0.19)
    assert "noise of 0.19" in str(thick(space, 2)) and thick(space, 1) is None
    sizes["noise"] = 0.18
    assert thick(space, 2) is None


def test_small_gaps_are_counted_on_the_diagonal() -> None:
    leaving = torch.tensor([0.5, 9e-5, 0.3, 2e-5, 1.1e-4])
    for count, told in ((1, True), (2, True), (3, False), (9, False)):
        assert has_small_gaps(SimpleNamespace(leaving=leaving, n=5), count) == told  # type: ignore[arg-type]
    assert not has_small_gaps(SimpleNamespace(leaving=None, n=5), 1)  # type: ignore[arg-type]


def told(dimension: float = 2.0, graph: Graph | None = None, count: int = 12, **cloud: Any) -> str:
    """What is said of a stubbed operator, less the frame of the sentence."""
    graph = lists(0.01) if graph is None else graph
    smoother = SimpleNamespace(graph=graph, mass=torch.ones(graph.n), dimension=dimension)
    facts = {"short_cuts": None, "doubts": None} | cloud
    prepared = SimpleNamespace(smoother=smoother, cloud=SimpleNamespace(**facts), sample=None)
    rotation = SimpleNamespace(eigenvalues=torch.arange(float(count)), vectors=torch.zeros(graph.n, count))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        indicators.warn_of_errors(prepared, rotation, False, lambda count: torch.arange(float(count)))  # type: ignore[arg-type]
    words = [str(each.message) for each in found if issubclass(each.category, EigenprobeWarning)]
    assert len(words) <= 1
    return re.sub(r"^the first eigenvalues may be off by more than 10 %: (.*) \(basis.uncert.*$", r"\1", "".join(words))


def test_one_sign_is_told_at_most_and_of_what_it_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs from the first one to the last; each is asked of curves or of small surfaces alone."""
    signs: dict[str, Any] = {"jumps": 9.0, "ends_apart": 1.0, "gap_ahead": 1.0, "is_rough": True, "_apart": 9.0}
    signs |= {"has_gaps": True, "likely_reason": "as likely"}
    for name in signs:
        monkeypatch.setattr(indicators, name, lambda *given, name=name: signs[name])
    for name in ("curve_ends", "_in_between"):
        monkeypatch.setattr(indicators, name, lambda *given: None, raising=False)
    doubts: list[float] = [0.0]
    monkeypatch.setattr(indicators, "doubtful_shares", lambda prepared, first: torch.full((3,), doubts[0]))
    assert told() == told(1.0) == "as likely"
    assert told(count=1) == told(graph=lists(1.0, k=1)) == told(graph=replace(lists(1.0), metric="cosine")) == ""
    assert told(count=2) == told(graph=lists(1.0, k=2)) == "as likely"
    signs["likely_reason"] = None
    edges = torch.zeros(151, 2)
    assert told(short_cuts=edges).startswith("151 edges were taken for short-cuts")
    assert not told(short_cuts=edges[:150]).startswith("150 edges")
    assert "turns of the curve" in told(1.0) and "half of the points differ by 900%" in told(2.0)
    signs["jumps"] = 0.039
    assert "ends of the curve lie 1 spacings apart" in told(1.0)
    signs["ends_apart"] = math.inf
    assert "an end of the curve lies 1 spacings before" in told(1.0)
    signs["gap_ahead"] = 4.6
    assert "half of the points" in told(1.0)
    doubts[0] = 0.0146
    assert "may be short-cuts" in told(1.0, doubts=()) and "half of the points" in told(1.0)
    doubts[0] = 0.0144
    assert "half of the points" in told(1.0, doubts=()) and "half" in told(2.0, doubts=())
    signs["_apart"] = 0.124
    assert told(1.0) == told(3.0) == ""
    signs["jumps"] = 0.051
    assert "folds of the surface" in told() and "folds" not in told(3.0)
    large, flat = lists(1.0, n=5001), lists(1.0, columns=2)
    assert "folds" not in told(graph=large) and "points leave gaps" in told(graph=flat)
    assert "folds" in told(graph=lists(1.0, n=5000))
    signs["jumps"] = 0.049
    assert "points leave gaps" in told() and told(3.0) == "" and "turns of" in told(1.0)
    signs["is_rough"], signs["_apart"], signs["has_gaps"] = False, 9.0, False
    assert told() == ""
    signs["is_rough"], signs["_apart"] = True, 0.126
    assert "half of the points differ by 13%" in told()


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        *(([0.0, 2e-6], 2e-6), ([0.0, 9.9e-6, 1.0], 9.9e-6), ([0.0, 1.01e-5], None), ([3e-6], 3e-6)),
        *(([3e-6, 1.0], None), ([0.0, 0.0, 1e-6], None), ([2e-6, 5e-6, 1.0], 5e-6)),
    ],
)
def test_the_second_gap_is_compared_with_ten_residuals(gaps: list[float], expected: float | None) -> None:
    found = indicators.unresolved_gap(torch.tensor(gaps, dtype=torch.float64), 1e-6)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_ends_are_as_far_apart_as_neighbours_of_most_points(power: float) -> None:
    """Sparse ends have their own spacing, that of two neighbours; dense ones the median of four neighbours of all."""
    step = np.linspace(-1, 1, 81)
    x = np.stack([40 * np.sign(step) * np.abs(step) ** power, np.zeros(81)], 1)
    prepared = OperatorSettings(dimension=1, resolution="all", neighbours=4).prepare(x)
    near = np.sort(np.abs(x[:, :1] - x[:, 0]), 1)[:, 1:]
    own = max(near[0, :2].mean(), np.sort(near[:, :4].mean(1))[40])
    ends = indicators.curve_ends(prepared)
    assert indicators.ends_apart(ends) == pytest.approx(80 / own, rel=1e-6)
    assert sorted(ends.rows.tolist()) == [0, 80] and sorted(ends.before.tolist()) == [1, 79]
    np.testing.assert_allclose(ends.spacing * prepared.cloud.frame.scale, own, rtol=1e-6)


def test_edges_of_an_operator_are_its_entries_above_the_diagonal(rng: np.random.Generator) -> None:
    """Each once, with what the matrix has there; the energy of functions is that of the Laplacian."""
    prepared = OperatorSettings(dimension=2, neighbours="plain", resolution="all").prepare(c.random_sphere(60, rng))
    matrix = prepared.smoother.matrix.to_dense().numpy()
    head, tail, values = (each.numpy() for each in indicators._weighted_edges(prepared.smoother))
    expected = [(i, j) for i in range(60) for j in range(i + 1, 60) if matrix[i, j] != 0]
    assert list(zip(head, tail, strict=True)) == expected
    np.testing.assert_allclose(values, [matrix[pair] for pair in expected])
    vectors, mass = rng.normal(size=(60, 3)), prepared.smoother.mass.numpy()
    root = np.sqrt(mass)
    energy = [sum(matrix[i, j] * root[i] * root[j] * (v[i] - v[j]) ** 2 for i, j in expected) for v in vectors.T]
    np.testing.assert_allclose(indicators._energy(prepared.smoother, torch.from_numpy(vectors)), energy, rtol=1e-6)
    chosen = torch.from_numpy(rng.random(len(expected)) < 0.3)
    part = [
        sum(matrix[e] * root[e[0]] * root[e[1]] * (v[e[0]] - v[e[1]]) ** 2 for e, own in zip(expected, chosen) if own)
        for v in vectors.T
    ]
    edges = indicators._weighted_edges(prepared.smoother)
    share = indicators._share(prepared, torch.from_numpy(vectors), edges, chosen)
    assert share == pytest.approx(np.sqrt(np.mean((np.array(part) / energy) ** 2)))
    assert indicators._share(prepared, torch.from_numpy(vectors), edges, torch.zeros_like(chosen)) == 0
