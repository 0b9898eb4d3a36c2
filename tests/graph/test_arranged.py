"""Tests of `graph.arranged`."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from eigenprobe.errors import EigenprobeWarning
from eigenprobe.graph import arranged
from eigenprobe.graph.arranged import Placed, arrange, extend, fingerprints, without_near_copies
from eigenprobe.graph.graph import build_graph
from eigenprobe.search.neighbours import Metric
from tests.estimators.test_coordinates import _model


def test_many_new_rows_are_searched_with_all(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Up to half of what a cell is compared with they are compared with all rows, exactly."""
    X = torch.from_numpy(rng.normal(size=(300, 16)))
    cloud = arrange(X[:200], 5, 3, dtype=torch.float32)
    monkeypatch.setattr(arranged, "EXACT_POINTS", 250)
    monkeypatch.setattr(arranged, "HOST", replace(arranged.HOST, searched=160))
    assert extend(cloud, X[200:281]) is None
    for count in (80, 50):
        grown = extend(cloud, X[200 : 200 + count])
        assert grown is not None and grown.graph is not None
        fresh = build_graph(cloud.frame(X[: 200 + count], torch.float32), 5, backend="torch")
        assert torch.equal(grown.graph.indices, fresh.indices)
    monkeypatch.setattr(arranged, "EXACT_POINTS", 300)
    assert extend(cloud, X[200:]) is not None and extend(arrange(X[:200, :3], 5, 3), X[200:, :3]) is not None


def test_arranged_rows_know_their_copies(rng: np.random.Generator) -> None:
    X = rng.normal(size=(30, 3))
    whole, doubled = (arrange(torch.from_numpy(x), 5, 4) for x in (X, np.concatenate([X, X[:4]])))
    assert whole.duplicates == 0 and doubled.duplicates == 4
    model = _model(2, n_neighbors=5).fit(np.concatenate([X, X[:4]]))
    assert model.basis_.info["duplicates"] == 4 and "duplicates" not in _model(2, n_neighbors=5).fit(X).basis_.info


def test_fingerprints_are_equal_for_equal_rows_alone(generator: torch.Generator) -> None:
    """No two of 200,000 rows agree (of 32-bit sums some would), whatever few bits of them vary; -0 is 0."""
    for dtype in (torch.float32, torch.float64):
        rows = torch.randn(100_000, 4, generator=generator, dtype=dtype)
        whole = torch.arange(100_000).to(dtype)[:, None] * torch.tensor([1, 0, -3, 0.5]).to(dtype) + 1e6
        sums = fingerprints(torch.cat([rows, whole, rows[:5], -0.0 * rows[:1], 0.0 * rows[:1]]))
        assert len(sums[:200_000].unique()) == 200_000
        assert torch.equal(sums[200_000:200_005], sums[:5]) and sums[-1] == sums[-2]
        assert torch.equal(sums[100_000:100_007], fingerprints(whole[:7]))


def test_rows_that_are_compared_by_angle_are_not_moved(rng: np.random.Generator) -> None:
    """A mean taken off changes angles; neighbours are those of the rows as they are, and so for clouds of any place."""
    x = torch.from_numpy(rng.normal(size=(60, 4)) + 3)
    found = arrange(x, 6, 4, "cosine")
    unit = x / x.norm(dim=1, keepdim=True)
    assert found.frame.scale == 1 and bool((found.frame.centre == 0).all())
    distance = 1 - unit @ unit.T
    distance.fill_diagonal_(9)
    assert bool((found.graph.indices == distance.argsort(1)[:, :6]).all())
    moved = arrange(torch.from_numpy(rng.normal(size=(60, 4)) + 1e6), 6, 4)
    assert float(moved.graph.points.mean(0).abs().max()) < 1e-9  # Euclidean ones are centred


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_rows_with_a_little_noise_stand_for_their_copies(rng, metric):
    base = rng.normal(size=(120, 12))
    own = rng.integers(120, size=1500)
    x = torch.from_numpy(base[own] + 1e-4 * rng.normal(size=(1500, 12)))
    cloud = arrange(x, 10, 5, metric, dtype=torch.float32)
    with pytest.warns(EigenprobeWarning, match=r"^1380 of 1500 rows are others with a little noise"):
        found = without_near_copies(cloud)
    assert found.graph.n == len(found.kept) == 120 and found.graph.k == 10
    same = own[:, None] == own
    assert ((found.rows[:, None] == found.rows).numpy() == same).all(), "rows are grouped as they were copied"
    assert (own[found.kept.numpy()][found.rows.numpy()] == own).all() and (found.kept.diff() > 0).all()
    mass, values = found.spread(torch.full((120,), 1 / 120), torch.eye(120))
    assert float(mass.sum()) == pytest.approx(1, abs=1e-5) and bool((values.argmax(1) == found.rows).all())


def test_copies_of_copies_and_rows_in_memory_order_keep_their_places(rng):
    """Exact copies are merged first, and points of the plane lie along a curve."""
    base = rng.uniform(size=(900, 2))
    own = np.concatenate([np.repeat(np.arange(900), 12), np.arange(900)])
    noise = np.concatenate([1e-6 * rng.normal(size=(10_800, 2)), np.zeros((900, 2))])
    x = torch.from_numpy(np.concatenate([base[own] + noise, base[:50]]))
    with pytest.warns(EigenprobeWarning):
        found = without_near_copies(arrange(x, 12, 5))
    own = np.concatenate([own, np.arange(50)])
    assert found.graph.n == 900 and (own[found.kept.numpy()][found.rows.numpy()] == own).all()
    torch.testing.assert_close(found.graph.points, found.frame(x[found.kept], torch.float64))


@pytest.mark.parametrize("kind", ["curve", "heavy", "tight groups", "uneven", "few", "lattice"])
def test_nothing_else_is_taken_for_copies(rng, kind):
    x = {
        "curve": lambda: np.column_stack([np.linspace(0, 1, 3000) ** 4, np.zeros(3000)])[1:],
        "heavy": lambda: rng.standard_cauchy((2000, 5)) ** 3,
        "tight groups": lambda: rng.normal(size=(6, 8))[rng.integers(6, size=600)] + 1e-5 * rng.normal(size=(600, 8)),
        "uneven": lambda: np.concatenate([1e-4 * rng.normal(size=(500, 3)), rng.normal(size=(500, 3)) + 9]),
        "few": lambda: rng.normal(size=(600, 4))[np.arange(1200) % 600] + 1e-6 * rng.normal(size=(1200, 4)),
        "lattice": lambda: np.stack(np.meshgrid(np.arange(30.0), np.arange(30.0)), -1).reshape(-1, 2),
    }[kind]()
    cloud = arrange(torch.from_numpy(x), 12, 5)
    assert without_near_copies(cloud) is cloud


@pytest.mark.parametrize("reordered", [False, True])
def test_values_go_to_the_kept_points_and_back(
    reordered: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean over copies, for numbers, vectors and matrices; every copy has the value and an equal share of mass."""
    monkeypatch.setattr(arranged, "REORDER", 10 if reordered else 1000)
    distinct = rng.normal(size=(30, 3))
    owner = np.concatenate([np.arange(30), [4, 4, 9]])[rng.permutation(33)]
    with pytest.warns(UserWarning, match="^3 of 33 points coincide"):
        cloud = arrange(torch.from_numpy(distinct[owner]), 5, 4)
    assert cloud.rows is not None and cloud.kept is not None and cloud.graph.ordered == reordered
    np.testing.assert_array_equal(cloud.points[cloud.rows], distinct[owner])
    groups = [np.flatnonzero(owner == owner[int(row)]) for row in cloud.kept]
    assert sorted(group[0] for group in groups) == sorted(np.unique(owner, return_index=True)[1])  # each place once
    assert all(int(row) == group[0] for row, group in zip(cloud.kept, groups, strict=True))  # the first of its copies
    assert reordered or bool((cloud.kept.diff() > 0).all())
    for shape in ((33,), (33, 2), (33, 2, 3)):
        values = rng.normal(size=shape)
        means = np.stack([values[group].mean(0) for group in groups])
        np.testing.assert_allclose(cloud.collect(torch.from_numpy(values)), means, atol=1e-14)
    mass, vectors = torch.from_numpy(rng.random(30)), torch.from_numpy(rng.normal(size=(30, 2)))
    shared, spread = cloud.spread(mass, vectors)
    for row, group in enumerate(groups):
        np.testing.assert_allclose(shared[group], float(mass[row]) / len(group))
        np.testing.assert_array_equal(spread[group], vectors[row].expand(len(group), 2))


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_large_clouds_of_ordinary_space_follow_a_curve(
    columns: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their graph is the same but for the order of its rows; of more columns rows stay where they are."""
    x = torch.from_numpy(rng.normal(size=(60, columns)))
    plain = arrange(x, 5, 4)
    assert plain.kept is None and not plain.graph.ordered
    monkeypatch.setattr(arranged, "REORDER", 60)
    assert arrange(x, 5, 4).kept is None
    monkeypatch.setattr(arranged, "REORDER", 59)
    moved = arrange(x, 5, 4)
    assert (moved.kept is not None) == moved.graph.ordered == (columns <= 3)
    if moved.kept is not None and moved.rows is not None:
        assert torch.equal(moved.kept[moved.rows], torch.arange(60)) and moved.duplicates == 0
        assert torch.equal(moved.kept[moved.graph.indices[moved.rows]], plain.graph.indices)
        torch.testing.assert_close(moved.graph.points[moved.rows], plain.graph.points)


@pytest.mark.parametrize("columns", [3, 14])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_an_extended_graph_is_that_of_all_rows(columns: int, metric: Metric, rng: np.random.Generator) -> None:
    """Neighbours and distances of either metric, by a tree and by all pairs, for one and for many new rows."""
    x = torch.from_numpy(rng.normal(size=(90, columns)))
    for start in (50, 89):
        cloud = arrange(x[:start], 6, 3, metric)
        grown = extend(cloud, x[start:])
        assert grown is not None
        fresh = build_graph(cloud.frame(x, torch.float64), 6, metric=metric)
        assert torch.equal(grown.graph.indices, fresh.indices) and grown.graph.metric == metric
        torch.testing.assert_close(grown.graph.distances, fresh.distances, rtol=1e-9, atol=1e-12)
        assert torch.equal(grown.given, x)
    assert extend(cloud, x[:1]) is None  # a copy


def test_few_points_are_all_neighbours_of_each_other(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.normal(size=(6, 3)))
    assert arrange(x, 12, 2).graph.k == 5 and arrange(x, 3, 2).graph.k == 3
    with pytest.warns(EigenprobeWarning, match="coincide"):
        assert arrange(torch.cat([x, x[:2]]), 12, 2).graph.k == 5


def test_lengths_to_copies_are_a_small_share_of_those_to_the_last_neighbour(rng: np.random.Generator) -> None:
    """As between rows that were taken for copies: `APART` times nearer than others."""
    x = np.repeat(rng.normal(size=(120, 12)), 12, axis=0) + 1e-4 * rng.normal(size=(1440, 12))
    cloud = arrange(torch.from_numpy(x), 10, 5)
    with pytest.warns(EigenprobeWarning, match="a little noise"):
        merged = without_near_copies(cloud)
    assert merged.graph.n == 120 and merged.same == pytest.approx(1 / arranged.APART)
    assert bool((cloud.graph.distances < merged.same * merged.graph.distances[merged.rows, -1:]).all())  # to copies
    assert bool((merged.graph.distances > merged.same * merged.graph.distances[:, -1:]).all())  # to others


def test_a_stretch_without_lengths_has_half_a_percent_of_them_on_either_side(rng: np.random.Generator) -> None:
    """The middle of the widest gap of squared lengths, by logarithms; that beside a few far or near ones is none."""
    even = 1 + rng.random(2000)
    far, near = even.copy(), even.copy()
    far[:9], near[:9] = 1e12 * even[:9], 1e-12 * even[:9]
    split = even.copy()
    split[:700] *= 1e-12

    def found(squared: np.ndarray) -> float:
        return arranged._least_between_rows(SimpleNamespace(squared=torch.from_numpy(squared).view(200, 10), n=200))  # type: ignore[arg-type]

    assert found(even) == found(far) == found(near) == math.inf
    low, high = np.sort(split)[699:701]
    assert found(split) == pytest.approx(math.sqrt(low * high), rel=1e-9)
    several = even.copy()
    several[:30] *= 1e12  # more than ten
    assert found(several) == pytest.approx(math.sqrt(np.sort(several)[1969] * np.sort(several)[1970]), rel=1e-9)


def test_points_as_they_are_have_a_frame_that_changes_nothing(rng: np.random.Generator) -> None:
    for n in (1, 4):
        x = torch.from_numpy(rng.normal(size=(n, 3)))
        placed = Placed.plain(x)
        torch.testing.assert_close(placed.frame(x, torch.float64), x, rtol=0, atol=0)
        assert torch.equal(placed.points, x) and placed.duplicates == 0
        mass = torch.from_numpy(rng.random(n))
        assert torch.equal(placed.share(mass), mass) and torch.equal(placed.collect(x), x)


def test_fingerprints_know_rows_of_any_size(generator: torch.Generator) -> None:
    """Tiny rows differ in their last bits, which a sum with a larger number would lose."""
    for dtype, tiny in ((torch.float32, 1e-30), (torch.float64, 1e-200)):
        rows = torch.randn(5000, 3, generator=generator, dtype=dtype)
        for scale in (tiny, 1.0, 1 / tiny):
            assert len(fingerprints(rows * scale).unique()) == 5000


@pytest.mark.parametrize(("apart", "merged"), [(30.0, False), (100.0, False), (1e4, True)])
def test_groups_far_apart_are_copies_by_their_distance(apart: float, merged: bool, rng: np.random.Generator) -> None:
    """Lists full of copies: 60 groups of 13, `apart` times as far from each other as they are wide."""
    corners = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), -1).reshape(-1, 3)[:60]
    noise = rng.normal(size=(60, 13, 3))
    noise /= 2 * np.linalg.norm(noise, axis=2, keepdims=True)  # at most 1 between copies
    x = (apart * corners[:, None] + noise).reshape(-1, 3)
    cloud = arrange(torch.from_numpy(x), 12, 5)
    if not merged:
        assert without_near_copies(cloud) is cloud
        return
    with pytest.warns(EigenprobeWarning, match=r"^720 of 780 rows are others"):
        assert without_near_copies(cloud).graph.n == 60


@pytest.mark.parametrize(
    ("groups", "copies", "merged"), [(15, 8, False), (30, 8, True), (21, 90, False), (30, 20, True)]
)
def test_few_groups_and_large_ones_are_no_copies(
    groups: int, copies: int, merged: bool, rng: np.random.Generator
) -> None:
    """Of five neighbours: from 20 groups on, of at most 20 copies each on average."""
    x = np.repeat(rng.normal(size=(groups, 6)), copies, axis=0)
    cloud = arrange(torch.from_numpy(x + 1e-6 * rng.normal(size=x.shape)), 5, 4)
    with warnings.catch_warnings(action="ignore"):
        assert (without_near_copies(cloud) is not cloud) == merged


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize(("copies", "merged"), [(6, False), (8, True)])
def test_copies_are_one_where_they_are_most_of_the_neighbours(
    copies: int, merged: bool, rng: np.random.Generator
) -> None:
    """Five of twelve neighbours are copies, or seven."""
    places = np.repeat(rng.normal(size=(150, 5)), copies, axis=0)
    cloud = arrange(torch.from_numpy(places + 1e-7 * rng.normal(size=places.shape)), 12, 4)
    found = arranged.without_near_copies(cloud)
    assert (found is not cloud) == merged and found.graph.n == (150 if merged else 150 * copies)


@pytest.mark.parametrize("count", [1990, 2000, 2010])
def test_lengths_on_either_side_of_an_empty_stretch_are_counted(count: int, rng: np.random.Generator) -> None:
    """One of 200 beyond it, and one more below it; copies at distance 0 are not counted."""

    def found(far: int) -> float:
        squared = 1 + rng.random(count)
        squared[:far] *= 1e12
        lists = torch.from_numpy(np.append(rng.permutation(squared), np.zeros(10))).view(-1, 10)
        return arranged._least_between_rows(SimpleNamespace(squared=lists, n=len(lists)))  # type: ignore[arg-type]

    few = count // 200
    for far in (few - 1, count - few, count - few + 1):
        assert found(far) == math.inf
    for far in (few, few + 1, count - few - 1):
        assert 2 < found(far) < 1e12


def test_lengths_of_two_thousand_rows_tell_of_all() -> None:
    squared = torch.ones(6001, 4)
    squared[1::3] = 1e12  # rows that are not among every third
    assert arranged._least_between_rows(SimpleNamespace(squared=squared, n=6001)) == math.inf  # type: ignore[arg-type]
    squared[::3, 2:] = 1e-12
    assert arranged._least_between_rows(SimpleNamespace(squared=squared, n=6001)) == pytest.approx(1e-6)  # type: ignore[arg-type]


def test_an_empty_stretch_is_as_wide_as_copies_are_near() -> None:
    for ratio, empty in ((0.99, False), (1.01, True)):
        squared = torch.ones(100, 4, dtype=torch.float64)
        squared[:, 2:] = (ratio * arranged.APART) ** 2
        found = arranged._least_between_rows(SimpleNamespace(squared=squared, n=100))  # type: ignore[arg-type]
        assert found == (pytest.approx(ratio * arranged.APART) if empty else math.inf)


def _copied(groups: int, copies: int, rng: np.random.Generator, noise: float = 1e-5) -> arranged.Arranged:
    """Points of a grid, each with copies, and the lists of ten neighbours."""
    base = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), -1).reshape(-1, 3)[:groups]
    x = np.repeat(base, copies, 0) + noise * rng.random((groups * copies, 3))
    return arrange(torch.from_numpy(x), 10, 5)


@pytest.mark.filterwarnings("ignore:.*a little noise")
@pytest.mark.parametrize(
    ("groups", "copies", "merged"),
    [
        *((60, 5, False), (60, 6, True), (60, 7, True)),  # four, five and six of ten neighbours are copies
        *((39, 8, False), (40, 8, True)),  # at least four groups for each neighbour
        *((41, 40, True), (41, 41, False)),  # at most four copies for each neighbour
    ],
)
def test_when_rows_are_taken_for_copies(groups: int, copies: int, merged: bool, rng: np.random.Generator) -> None:
    cloud = _copied(groups, copies, rng)
    found = without_near_copies(cloud)
    assert found.graph.n == (groups if merged else groups * copies) and (found is cloud) == (not merged)
    if merged:
        assert found.rows is not None
        assert torch.equal(found.rows, torch.arange(groups).repeat_interleave(copies))


@pytest.mark.filterwarnings("ignore:.*a little noise")
def test_groups_whose_lists_are_full_are_copies_where_they_lie_far_apart(rng: np.random.Generator) -> None:
    """By the longest distance within them, and one that 95 % of them have at least to the next."""
    seed = int(rng.integers(1 << 30))
    unit = _copied(50, 20, np.random.default_rng(seed), 1e-5)
    limit = 1e-5 / (arranged.APART * float(unit.graph.distances.max()) * unit.frame.scale)  # noise that is too much
    for share, count in ((0.95, 50), (1.05, 1000)):
        near = _copied(50, 20, np.random.default_rng(seed), share * limit)
        assert without_near_copies(near).graph.n == count


def test_the_empty_stretch_of_a_few_lengths() -> None:
    """Its middle, in logarithms; none where there are no two lengths, or no factor of `APART` between them."""
    wide = 1.01 * arranged.APART
    for lengths, expected in (([], math.inf), ([1.0], math.inf), ([0.0, 2.0, 0.0], math.inf)):
        graph = SimpleNamespace(squared=torch.tensor([lengths]).double(), n=1)
        assert arranged._least_between_rows(graph) == expected  # type: ignore[arg-type]
    for factor, found in ((wide, True), (0.98 * wide, False)):
        graph = SimpleNamespace(squared=torch.tensor([[0.0, 9.0, 9.0 * factor**2]]).double(), n=1)
        least = arranged._least_between_rows(graph)  # type: ignore[arg-type]
        assert least == (pytest.approx(9 * factor) if found else math.inf)
