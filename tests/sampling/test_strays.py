"""Tests of `sampling.quality`: points on no part of the manifold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from eigenprobe.graph import build_graph
from eigenprobe.sampling import quality
from eigenprobe.sampling.quality import find_strays
from tests import clouds as c


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_far_points_are_strays_and_the_surface_stays(scale: float, rng: np.random.Generator) -> None:
    sphere = c.random_sphere(1500, rng)
    far = rng.normal(size=(30, 3))
    far *= (1.5 + rng.random((30, 1))) / np.linalg.norm(far, axis=1, keepdims=True)
    found = find_strays(torch.from_numpy(scale * np.concatenate([sphere, far])))
    assert bool(found[1500:].all()) and int(found[:1500].sum()) <= 5


@pytest.mark.parametrize("n", [300, 2000])
def test_random_samples_of_a_surface_have_none(n: int, rng: np.random.Generator) -> None:
    assert not bool(find_strays(torch.from_numpy(c.random_sphere(n, rng))).any())


@pytest.mark.parametrize("noise", [0.01, 0.02])
def test_strays_of_a_noisy_sheet_leave_the_sheet(rng: np.random.Generator, noise: float) -> None:
    """Points above the plane of their neighbours were taken for strays too: 7 and 19 % of the sheet."""
    sphere = c.random_sphere(16_000, rng)
    far = 1.5 * c.random_sphere(32, rng)
    found = find_strays(torch.from_numpy(np.concatenate([sphere + noise * rng.normal(size=sphere.shape), far])))
    assert float(found[16_000:].double().mean()) > 0.8 and int(found[:16_000].sum()) < 20


def _suspects(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Point by point, as the header of the module says."""
    n, rule = len(x), quality.RULE
    distance = np.linalg.norm(x[:, None] - x, axis=2)
    near = distance.argsort(1)[:, 1:13]
    reach = np.take_along_axis(distance, near, 1).mean(1)
    around = np.sort(reach[near], 1)[:, 2]  # the third of twelve
    middle, normal, height = x[near].mean(1), np.zeros_like(x), np.zeros(n)
    for i in range(n):
        normal[i] = np.linalg.eigh(np.cov(x[near[i]].T))[1][:, 0]
        height[i] = abs((x[i] - middle[i]) @ normal[i])
    high = (height > rule.height * around) & (height > rule.unusual * np.sort(height[near], 1)[:, 5])
    far = reach > rule.times * around
    good, off = np.flatnonzero(~(far | high)), np.zeros(n, bool)
    for i in np.flatnonzero(far):
        foot = good[distance[i, good].argmin()]
        off[i] = abs((x[i] - x[foot]) @ normal[foot]) / distance[i, foot] > rule.off
    return high | off, off & (reach > rule.beyond * around), reach


def _scene(rng: np.random.Generator) -> np.ndarray:
    """A dense and a sparse half of a sphere, with points off it."""
    sphere = c.random_sphere(900, rng)
    sphere = sphere[(sphere[:, 0] < 0) | (rng.random(900) < 0.3)]
    off = c.random_sphere(30, rng) * rng.uniform(1.05, 2.5, (30, 1))
    return np.concatenate([sphere, off])


def test_suspects_are_found_by_their_definition(rng: np.random.Generator) -> None:
    x = _scene(rng)
    bad, certain, reach = quality._suspects(torch.from_numpy(x), None, quality.RULE)
    expected = _suspects(x)
    np.testing.assert_array_equal(bad, expected[0])
    np.testing.assert_array_equal(certain, expected[1])
    np.testing.assert_allclose(reach, expected[2], rtol=1e-9)
    assert 0 < int(certain.sum()) < int(bad.sum()) < 100


def test_a_closer_look_pays_where_some_are_far_off(rng: np.random.Generator) -> None:
    """More than 2.5 times the lower quartile around them: three points, or one in two thousand."""
    x = c.even(c.random_sphere, 600, rng)
    for count, n, expected in ((2, 600, False), (3, 600, True), (3, 8000, False)):
        far = np.array([[4.0, 0, 0], [0, 4, 0], [0, 0, 4]])[:count]
        rows = np.concatenate([far, x])
        distance = np.linalg.norm(rows[:, None] - rows, axis=2)
        order = distance.argsort(1)[:, 1:13]
        lists = [torch.from_numpy(each) for each in (order, np.take_along_axis(distance, order, 1))]
        if n > 600:  # as if there were so many
            lists = [torch.cat([each, each[3:].repeat(n // 600, 1)]) for each in lists]
        assert quality.may_have_strays(*lists) == expected
    reach = np.take_along_axis(distance, order, 1).mean(1)
    around = np.sort(reach[order], 1)[:, 2]
    assert int((reach > 2.5 * around).sum()) == 3


@pytest.mark.parametrize(
    ("far", "bad", "certain", "many", "expected"),
    [
        (2.4, 20, 20, 1e9, "even"),  # none is far
        (6.0, 14, 8, 1e9, "even"),
        (6.0, 13, 8, 1e9, "sparse"),
        (6.0, 14, 7, 1e9, "sparse"),
        (6.0, 7, 7, 0.65, "even"),  # more than .65 roots of 100 points
        (6.0, 6, 6, 0.65, "sparse"),
        (3.4, 6, 6, 0.65, "grazed"),
        (3.6, 6, 6, 0.65, "sparse"),
        (3.4, 5, 5, 0.65, "grazed"),
        (3.4, 4, 4, 0.65, "sparse"),
    ],
)
def test_what_points_far_from_all_others_are(
    far: float, bad: int, certain: int, many: float, expected: str, rng: np.random.Generator
) -> None:
    """Strays, a side that is sampled sparsely, or one that a view grazes: twenty points on all sides of eighty."""
    x = torch.from_numpy(c.random_sphere(100, rng))
    rows = torch.arange(100)
    reach = torch.where(rows < 20, far, 1.0)
    assert quality._sampling(x, reach, rows < bad, rows < certain, replace(quality.RULE, many=many)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_one_side_of_a_plane(seed: int) -> None:
    """Nine of ten points on either side, ten at least; turned and scaled as it may be."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, 3)) * [1.0, 1, 0.3]
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0] * 7
    far = x[:, 0] > 0.8
    assert quality._on_one_side(torch.from_numpy(x @ turn + 5), torch.from_numpy(far), quality.RULE)
    assert not quality._on_one_side(torch.from_numpy(x), torch.from_numpy(np.abs(x[:, 0]) > 1), quality.RULE)
    few = far & (np.cumsum(far) < 10)
    assert not quality._on_one_side(torch.from_numpy(x), torch.from_numpy(few), quality.RULE)


@pytest.mark.parametrize("share", [0.03, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_many_strays_have_strays_for_neighbours(share: float, seed: int) -> None:
    """Round a thin shape in a large box; nothing was found where there was one stray for ten points of the surface."""
    rng = np.random.default_rng(seed)
    x = c.even(c.random_sphere, 1500, rng) * [1.0, 0.3, 0.3]
    strays = rng.uniform(-1.2, 1.2, (int(share * 1500), 3))
    strays = strays[np.linalg.norm(strays / [1.0, 0.3, 0.3], axis=1) > 1.8]
    found = find_strays(torch.from_numpy(np.concatenate([x, strays]))).numpy()
    assert found[1500:].mean() > 0.9 and found[:1500].mean() < 0.02


@pytest.mark.parametrize("seed", range(4))
def test_a_sparse_side_is_no_stray(seed: int) -> None:
    """A dumbbell, one ball of which is sampled a hundred times as densely as the other."""
    rng = np.random.default_rng(seed)
    dense, sparse = c.random_sphere(3000, rng), c.random_sphere(30, rng) * [1.0, 0.6, 0.4] + [1.9, 0, 0]
    assert not bool(find_strays(torch.from_numpy(np.concatenate([dense, sparse]))).any())


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ([({1, 2, 3}, {1, 2, 3}), ({4}, set()), (set(), set())], {1, 2, 3, 4}),
        ([({1, 2}, {1, 2}), ({4}, {4})], set()),  # too few are beyond doubt
        ([({*range(12)}, {1, 2, 3}), ({20}, set()), (set(), set())], {*range(12), 20}),
        ([({*range(13)}, {1, 2, 3}), ({20, 21}, {21}), (set(), set())], {1, 2, 3, 21}),  # a thick sheet
        ([({i, 10 + i, 20 + i}, {i, 10 + i, 20 + i}) for i in range(9)], {*range(6), *range(10, 16), *range(20, 26)}),
    ],
)
def test_rounds_of_a_search_for_strays(rounds: list[Any], expected: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one round no longer hide others in the next; nothing begins without three beyond doubt, six at most."""
    x, said = torch.arange(100.0)[:, None].expand(100, 3), iter(rounds)

    def suspects(live: torch.Tensor, lists: Any, rule: Any) -> Any:
        bad, certain = (torch.isin(live[:, 0].long(), torch.tensor(sorted(each)).long()) for each in next(said))
        return bad, certain, torch.ones(len(live))

    monkeypatch.setattr(quality, "_suspects", suspects)
    found = quality.find_strays(x)
    assert set(found.nonzero()[:, 0].tolist()) == expected
    assert not bool(quality.find_strays(x[:47]).any())  # fewer than four times twelve are not looked at


def test_lists_that_are_at_hand_say_the_same_as_a_search(rng: np.random.Generator) -> None:
    x = torch.from_numpy(np.concatenate([c.random_sphere(900, rng), rng.uniform(-1.5, 1.5, (40, 3))]))
    graph = build_graph(x, 20)
    found = find_strays(x, (graph.indices, graph.distances))
    assert torch.equal(found, find_strays(x)) and int(found.sum()) > 10


@pytest.mark.parametrize("columns", [2, 3])
def test_one_side_is_told_by_the_discriminant(columns: int, rng: np.random.Generator) -> None:
    """The plane of Fisher: (S_1 + S_2)^-1 (m_1 - m_2), nine tenths of either group on its own side of some offset."""
    said = []
    for _ in range(60):
        m, n = rng.integers(10, 40), rng.integers(60, 200)
        stretch = rng.normal(size=(columns, columns))
        one = rng.normal(size=(m, columns)) * rng.uniform(0.2, 2) + rng.uniform(0, 3, columns)
        x = np.concatenate([one, rng.normal(size=(n, columns)) @ stretch])
        some = np.arange(m + n) < m
        scatter = np.cov(x[some].T, bias=True) + np.cov(x[~some].T, bias=True)
        along = x @ np.linalg.solve(scatter, x[some].mean(0) - x[~some].mean(0))
        low = np.sort(along[some])[max(1, round((1 - 0.9) * m)) - 1]
        high = np.sort(-along[~some])[max(1, round((1 - 0.9) * n)) - 1]
        order = rng.permutation(m + n)
        found = quality._on_one_side(torch.from_numpy(x[order]), torch.from_numpy(some[order]), quality.RULE)
        assert found == (low > -high)
        said.append(found)
    assert 5 < sum(said) < 55


def test_ten_points_have_a_side() -> None:
    x = torch.cat([torch.linspace(5, 6, 10), torch.linspace(0, 1, 50)]).double()[:, None] * torch.ones(1, 3)
    rows = torch.arange(60)
    assert quality._on_one_side(x, rows < 10, quality.RULE) and not quality._on_one_side(x, rows < 9, quality.RULE)


@pytest.mark.parametrize(("sampled", "unit"), [("even", 1.0), ("even", 1e-3), ("grazed", 1.0), ("sparse", 1.0)])
def test_points_far_from_all_others_are_strays_of_even_clouds(
    sampled: str, unit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond five of the distances that a quarter of the points has at most; at a grazing view, those beyond doubt."""
    n = 203
    x = torch.arange(float(n))[:, None].expand(n, 3)
    length = unit * (1 + torch.arange(n).double() / n)
    dense = float(length.sort().values[round(0.25 * n) - 1])
    length[[120, 140, 160]] = dense * torch.tensor([4.99, 5.01, 7.0]).double()
    seen: list[Any] = []

    def suspects(live: torch.Tensor, lists: Any, rule: Any) -> Any:
        rows = live[:, 0].long()
        seen.append(lists)
        return torch.isin(rows, torch.tensor([1, 2, 3, 4])), torch.isin(rows, torch.tensor([1, 2, 3])), length[rows]

    def sampling(points: torch.Tensor, far: torch.Tensor, bad: Any, certain: Any, rule: Any) -> str:
        torch.testing.assert_close(far, length / length.sort().values[round(0.25 * n) - 1])
        assert points is x and int(bad.sum()) == 4 and int(certain.sum()) == 3
        return sampled

    monkeypatch.setattr(quality, "_suspects", suspects)
    monkeypatch.setattr(quality, "_sampling", sampling)
    found = set(quality.find_strays(x, "lists").nonzero()[:, 0].tolist())  # type: ignore[arg-type]
    assert found == {"even": {1, 2, 3, 4, 140, 160}, "grazed": {1, 2, 3}, "sparse": set()}[sampled]
    assert seen == ["lists", None][: len(seen)] and len(seen) == (1 if sampled == "sparse" else 2)


@pytest.mark.parametrize(("n", "certain", "found"), [(400, 2, 0), (400, 3, 3), (8000, 3, 0), (8000, 4, 4)])
def test_so_many_are_beyond_doubt_or_none_is_a_stray(
    n: int, certain: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three, and one in two thousand."""
    x = torch.arange(float(n))[:, None].expand(n, 3)

    def suspects(live: torch.Tensor, lists: Any, rule: Any) -> Any:
        some = live[:, 0] < certain
        return some, some.clone(), torch.ones(len(live))

    monkeypatch.setattr(quality, "_suspects", suspects)
    assert int(quality.find_strays(x).sum()) == found
