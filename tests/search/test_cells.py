"""The search by cells against a tree: exact on even and uneven clouds, in one to three dimensions, for many clouds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from eigenprobe.search import cells
from eigenprobe.search.cells import HOST, CellIndex, grid_search
from eigenprobe.search.neighbours import _blocks, _choose
from tests import clouds as c


def check(x: np.ndarray, k: int, clouds: tuple[int, ...] = ()) -> None:
    points = torch.as_tensor(x)
    indices, distances = (part.numpy() for part in grid_search(points, k, clouds))
    first = 0
    for size in clouds or (len(x),):
        rows = slice(first, first + size)
        expected, _ = cKDTree(x[rows]).query(x[rows], k)
        np.testing.assert_allclose(distances[rows], expected, rtol=1e-12, atol=1e-15)
        assert indices[rows].min() >= first and indices[rows].max() < first + size
        assert all(len(set(row)) == k for row in indices[rows])
        np.testing.assert_allclose(np.linalg.norm(x[indices[rows]] - x[rows, None], axis=2), expected, atol=1e-15)
        first += size


@pytest.mark.parametrize("d", [1, 2, 3])
def test_random_points(d, rng):
    check(rng.random((700, d)), 12)


def test_a_surface_a_lattice_and_a_few_points(rng):
    check(c.random_sphere(1500, rng), 31)
    check(rng.random((40, 3)), 40)
    check(np.stack(np.meshgrid(*[np.arange(8.0)] * 3), -1).reshape(-1, 3), 7)


def test_spacings_that_differ_by_thousands(rng):
    x = rng.standard_normal((600, 3))
    check(x * np.linalg.norm(x, axis=1, keepdims=True) ** 4, 10)


def test_clouds_of_unequal_sizes_and_scales(rng):
    clouds = [c.random_sphere(500, rng), 0.01 * rng.random((60, 3)), 5 + c.random_sphere(900, rng)]
    check(np.concatenate(clouds), 20, (500, 60, 900))


@pytest.mark.parametrize("groups", [1, 20])
def test_cells_that_find_too_few_neighbours_give_way(groups, rng):
    """One Gaussian in 32 dimensions has no cells: of 12,000 rows they would find two thirds of the neighbours."""
    centres = 3 * rng.standard_normal((groups, 32))
    x = torch.from_numpy(rng.standard_normal((12_000, 32)) + centres[rng.integers(groups, size=12_000)]).float()
    division = replace(HOST, searched=2048)
    index, some = CellIndex(x, _blocks, division), x[::100].clone()
    true = _blocks(x, some, 12)[0]
    found, lengths = index.search(some, 12)
    recall = float((found[:, :, None] == true[:, None]).any(1).double().mean())
    assert recall > 0.9 and index.whole == (groups == 1)
    assert torch.allclose(lengths, (x[found] - some[:, None]).norm(dim=2), atol=1e-4)
    kept = CellIndex(x, _blocks, replace(division, exact=0.0))
    assert not kept.whole and kept.division.searched == (4 if groups == 1 else 1) * 2048


def test_wide_tables_are_searched_by_cells_sooner():
    assert _choose(torch.empty(1, 384).expand(30_000, 384)) == "cells"
    assert _choose(torch.empty(1, 384).expand(20_000, 384)) == "torch"
    assert _choose(torch.empty(1, 64).expand(50_000, 64)) == "torch"
    assert _choose(torch.empty(1, 64).expand(50_001, 64)) == "cells"


def test_centres_are_moved_to_the_means_of_their_cells(rng):
    """Rows lie nearer to them than to the random rows that they start from, by a tenth at least."""
    x = torch.as_tensor(rng.normal(size=(2000, 6)))

    def cost(rounds):
        index = CellIndex(x, _blocks, replace(HOST, rows=50, rounds=rounds))
        return float((x - index.centres[index.cell]).square().sum(1).mean())

    assert cost(HOST.rounds) < 0.9 * cost(0)


@pytest.mark.parametrize("dimension", [2, 3])
def test_points_nearest_to_others(rng: np.random.Generator, dimension: int) -> None:
    """Queries on the points, between them, and far outside: all pairs tell the same."""
    points = torch.from_numpy(rng.normal(size=(900, dimension)))
    queries = torch.cat([points[:50], torch.from_numpy(rng.normal(size=(700, dimension))), 30 + points[:5]])
    found, distances = grid_search(points, 7, queries=queries)
    exact, order = torch.cdist(queries, points, compute_mode="donot_use_mm_for_euclid_dist").sort(1)
    assert torch.equal(found, order[:, :7])
    assert torch.allclose(distances, exact[:, :7], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("count", "k"), [(1, 1), (1, 200), (3, 40)])
def test_few_points_are_searched_for_among_many(count, k, rng):
    points = torch.from_numpy(c.random_sphere(2500, rng))
    queries = points[:count] + 0.01 * torch.from_numpy(rng.normal(size=(count, 3)))
    found, distances = grid_search(points, k, queries=queries)
    exact, order = torch.cdist(queries, points, compute_mode="donot_use_mm_for_euclid_dist").sort(1)
    assert torch.equal(found, order[:, :k]) and torch.allclose(distances, exact[:, :k], rtol=1e-12)


@pytest.mark.parametrize("entries", [1 << 25, 900])
def test_memory_does_not_change_what_is_found(entries, rng, monkeypatch):
    """A few distances at a time; few points, fewer than are measured first, and two equal clouds."""
    monkeypatch.setattr(cells, "CELLS", replace(cells.CELLS, entries=entries))
    check(rng.random((500, 3)), 7)
    check(rng.random((9, 2)), 9)
    check(rng.random((80, 1)), 3)
    check(np.concatenate([x := rng.random((60, 3)), x]), 5, (60, 60))


def test_the_reach_of_a_few_points_is_that_of_all_pairs(rng):
    x = torch.as_tensor(rng.random((70, 2)))
    distances = torch.cdist(x, x).sort(1).values[:, 4]
    owner = torch.zeros(70, dtype=torch.int64)
    few, usual = cells._reach(x, owner, x, owner, 5)
    torch.testing.assert_close(
        torch.tensor([few, usual]), distances.quantile(torch.tensor([0.05, 0.9]).double()).float()
    )


def test_cells_hold_every_row_once(rng):
    """About as many cells as asked for; a query is compared with all rows of the nearest cells, enough of them."""
    x = torch.as_tensor(rng.normal(size=(1000, 5)))
    index = CellIndex(x, _blocks, replace(HOST, rows=100, searched=250, recall=0.0))
    assert len(index.centres) == 10 and int(index.sizes.sum()) == 1000
    assert torch.equal(index.cell, torch.cdist(x, index.centres).argmin(1))
    for number in range(10):
        rows = index._rows(number, 5)
        near = torch.cdist(index.centres[number : number + 1], index.centres)[0].argsort()
        needed = int((index.sizes[near].cumsum(0) < 250).sum()) + 1
        assert sorted(rows.tolist()) == torch.isin(index.cell, near[:needed]).nonzero()[:, 0].tolist()
    assert len(index._rows(0, 200)) >= 800
    assert len(CellIndex(x[:50], _blocks, replace(HOST, rows=100)).centres) == 1


def test_the_nearest_cells_hold_four_times_the_neighbours(rng):
    """No more of them than needed, by the distance of their centres, whatever the least number of rows."""
    x = torch.from_numpy(rng.standard_normal((3000, 4))).float()
    for searched, k in ((1, 30), (1, 75), (700, 30)):
        index = CellIndex(x, _blocks, replace(HOST, rows=64, searched=searched))
        members = [set(index.order[start : start + size].tolist()) for start, size in zip(index.starts, index.sizes)]
        for number in range(0, len(members), 7):
            nearest = np.argsort(np.square((index.centres - index.centres[number]).numpy()).sum(1), kind="stable")
            expected: set[int] = set()
            for cell in nearest:
                expected |= members[cell]
                if len(expected) >= max(searched, 4 * k):
                    break
            assert set(index._rows(number, k).tolist()) == expected


def sizes_of(x: np.ndarray, k: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], float, float]:
    """The cells that a search goes through, the distance that few need and one that most need."""
    sizes: list[float] = []
    real = cells._Grid
    monkeypatch.setattr(cells, "_Grid", lambda *given: sizes.append(given[-1]) or real(*given))
    check(x, k)
    monkeypatch.setattr(cells, "_Grid", real)
    points, owner = torch.from_numpy(x), torch.zeros(len(x), dtype=torch.int64)
    return sizes, *cells._reach(points, owner, points, owner, k)


def test_cells_grow_from_what_dense_parts_need(rng, monkeypatch):
    """Of an even cloud one size for nearly all; of an uneven one from the one below twice what few need, doubled up to
    what most need, and half as large again for what is left."""
    sizes, _, most = sizes_of(rng.random((900, 2)), 8, monkeypatch)
    assert sizes[0] == pytest.approx(1.05 * most) and len(sizes) <= 4
    np.testing.assert_allclose(np.diff(np.log(sizes)), np.log(1.5))
    uneven = rng.standard_normal((600, 3))
    sizes, few, most = sizes_of(uneven * np.linalg.norm(uneven, axis=1, keepdims=True) ** 4, 10, monkeypatch)
    assert most > 8 * few and few < sizes[0] / 1.05 <= 2 * few
    doubled = round(np.log2(1.05 * most / sizes[0]))
    assert sizes[doubled] == pytest.approx(1.05 * most) and len(sizes) > doubled + 1 > 3
    np.testing.assert_allclose(np.diff(np.log(sizes)), np.log([2.0] * doubled + [1.5] * (len(sizes) - doubled - 1)))


def test_copies_have_cells_of_a_millionth(monkeypatch):
    """Nine in ten of the points coincide: no size of theirs is that of a cell."""
    x = np.concatenate([np.zeros((95, 2)), 3.0 * np.eye(2), 5.0 + np.eye(2), [[7.0, 7.0]]])
    found, distances = grid_search(torch.from_numpy(x), 4)
    expected, _ = cKDTree(x).query(x, 4)
    np.testing.assert_allclose(distances, expected)
    np.testing.assert_allclose(np.linalg.norm(x[found] - x[:, None], axis=2), expected)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_candidates_are_the_points_of_the_cells_around(d, rng):
    """Of the same cloud; and the border of these cells is as far as no point outside is nearer."""
    x, owner = rng.random((200, d)), torch.from_numpy(np.arange(200) // 120)
    points, low = torch.from_numpy(x), torch.zeros(d, dtype=torch.float64)
    grid = cells._Grid((points, owner), (points, owner), low, 0.17)
    rows = torch.arange(0, 200, 7)
    first, ends = grid._ranges(rows)
    cell = np.floor(x / 0.17)
    for row, begin, end, border in zip(rows.tolist(), first.tolist(), ends.tolist(), grid._border(rows), strict=True):
        near = (np.abs(cell - cell[row]) <= 1).all(1) & (owner == owner[row]).numpy()
        found = [begin[j] + i for j in range(3 ** (d - 1)) for i in range(end[j] - (end[j - 1] if j else 0))]
        assert sorted(grid.order[found].tolist()) == np.flatnonzero(near).tolist()
        inside = x[row] / 0.17 % 1
        assert float(border) == pytest.approx(0.17 * (1 + min(inside.min(), 1 - inside.max())))


@pytest.mark.parametrize("entries", [1, 5, 40])
def test_a_list_of_candidates_is_held_however_long(entries, rng, monkeypatch):
    monkeypatch.setattr(cells, "CELLS", replace(cells.CELLS, entries=entries))
    check(rng.random((60, 2)), 7)


def test_all_pairs_are_compared_where_that_is_little(rng):
    x = torch.from_numpy(rng.normal(size=(200, 5)))
    for exact, whole in ((0.99, False), (1.01, True)):
        index = CellIndex(x, _blocks, replace(HOST, rows=50, searched=100, recall=2.0, exact=exact * 200 * 200 * 5))
        assert index.whole == whole and index.division.searched == 400
    enough = CellIndex(x, _blocks, replace(HOST, rows=50, searched=200, recall=2.0))  # all are searched anyway
    assert not enough.whole and enough.division.searched == 200
    true = _blocks(x, x[::2].clone(), 12)[0]
    found = CellIndex(x, _blocks, replace(HOST, rows=50, searched=60, recall=0.0)).search(x[::2].clone(), 12)[0]
    index = CellIndex(x, _blocks, replace(HOST, rows=50, searched=60, tried=100, recall=0.0))
    share = np.mean([len(set(a) & set(b)) / 12 for a, b in zip(found.tolist(), true.tolist(), strict=True)])
    assert 0.3 < index._recall() < 1 and index._recall() == pytest.approx(share)
