"""Tests of `search.neighbours`: points -> graph: the k nearest neighbours of every point and their distances."""

from __future__ import annotations

import itertools
import sys
import types

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from eigenprobe.eigen.solve import solve
from eigenprobe.errors import InputError
from eigenprobe.graph.graph import build_graph
from eigenprobe.search import neighbours
from eigenprobe.search.cells import CellIndex, Division
from eigenprobe.search.neighbours import Metric, nearest_rows, nearest_sparse, query, self_first, without_self
from eigenprobe.smoothers.neighbourhood import neighbourhood_smoother
from tests.clouds import flat_torus, random_sphere
from tests.graph.test_graph import points

SHEET = {"sphere": (2.0, 3, 6.0, 5), "torus": (1.0, 4, 2.0, 4)}  # eigenvalue and multiplicity, twice


EXACT = ["kdtree", "torch"]


def test_cells_find_most_of_the_nearest(rng: np.random.Generator) -> None:
    centres = rng.normal(size=(30, 20)) * 3
    x = torch.from_numpy(centres[rng.integers(30, size=6000)] + rng.normal(size=(6000, 20))).float()
    exact, _ = nearest_rows(x, x[:500], 10, "torch")
    index = CellIndex(x, lambda data, queries, k: nearest_rows(data, queries, k, "torch"), Division(100, 1200))
    found, lengths = index.search(x[:500], 10)
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
    assert shared > 0.95
    np.testing.assert_allclose((x[found] - x[:500, None]).norm(dim=2), lengths, atol=1e-4)
    alone = torch.cat([index.search(x[i : i + 1], 10)[0] for i in range(20)])
    assert torch.equal(alone, found[:20])
    graph = build_graph(x, 10, backend="cells")
    assert not bool((graph.indices == torch.arange(6000)[:, None]).any())


@pytest.mark.parametrize("shape", ["sphere", "torus"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize(("n", "neighbours"), [(2000, 12), (2000, 30), (4000, 12)])
def test_eigenvalues_have_the_units_of_the_points(
    shape: str, metric: Metric, n: int, neighbours: int, rng: np.random.Generator
) -> None:
    x = random_sphere(n, rng) if shape == "sphere" else flat_torus(rng.uniform(0, 2 * np.pi, (n, 2)))
    first, one, second, two = SHEET[shape]
    unit = 1.0
    if metric == "cosine":  # the rows count as unit vectors, and a cosine distance is half of a squared length
        unit, x = 2 * float((x**2).sum(1).mean()), 3 * x
    smoother = neighbourhood_smoother(build_graph(torch.from_numpy(x), neighbours, metric=metric))
    values = (solve(smoother, 1 + one + two).gaps[1:] / smoother.step_time).numpy() / unit
    most, single = (0.08, 0.15) if n == 4000 else (0.11, 0.25)  # of 20 random draws .07 and .13, .10 and .22 at most
    np.testing.assert_allclose(values[:one].mean(), first, rtol=most)
    np.testing.assert_allclose(values[one:].mean(), second, rtol=most)
    np.testing.assert_allclose(values, np.repeat([first, second], [one, two]), rtol=single)


def test_neighbour_descent_is_called_as_documented(monkeypatch):
    """pynndescent compiles for minutes, so a stand-in with its interface answers by brute force."""

    asked: list[tuple[int, int]] = []

    class NNDescent:
        def __init__(self, data, metric, n_neighbors, random_state, metric_kwds, n_jobs):
            assert metric_kwds is None and n_jobs == -1
            assert data.dtype == np.float32 and metric == "euclidean" and random_state == 0
            self.data = data
            self.neighbor_graph = self.query(data, n_neighbors)

        def query(self, rows, k):
            asked.append((len(rows), k))
            lengths = np.linalg.norm(rows[:, None] - self.data, axis=2)
            order = np.argsort(lengths, 1)[:, :k].astype(np.int32)
            return order, np.take_along_axis(lengths, order, 1)

    monkeypatch.setitem(sys.modules, "pynndescent", types.SimpleNamespace(NNDescent=NNDescent))
    x = points(120, 6)
    truth = build_graph(x, 9)
    assert torch.equal(build_graph(x, 9, backend="pynndescent").indices, truth.indices)
    assert asked == [(120, 30)]  # its own graph has up to 30 neighbours, others are searched for
    assert torch.equal(build_graph(x, 40, backend="pynndescent").indices, build_graph(x, 40).indices)
    assert asked[1:] == [(120, 30), (120, 41)]
    assert torch.equal(query(x, x[:7], 3, backend="pynndescent")[0], query(x, x[:7], 3)[0])
    for k, searched in ((30, []), (31, [(120, 31)])):
        asked.clear()
        assert torch.equal(nearest_rows(x, x, k, "pynndescent")[0], nearest_rows(x, x, k)[0])
        assert asked == [(120, 30), *searched]


def test_query_of_new_points():
    x, new = points(300, 3), points(40, 3, seed=1)
    for backend in EXACT:
        indices, distances = query(x, new, 4, backend=backend)
        truth = torch.cdist(new, x, compute_mode="donot_use_mm_for_euclid_dist").sort(1).values[:, :4]
        assert torch.allclose(distances, truth, atol=1e-10)
        assert torch.allclose((x[indices] - new[:, None]).norm(dim=2), truth, atol=1e-10)
    assert query(x, new, 1000)[0].shape == (40, 300)


def test_query_has_the_units_of_the_metric():
    """One minus the cosine, the same number that the graph has for its own points."""
    x, new = points(300, 5), points(40, 5, seed=1)
    unit, other = (y / y.norm(dim=1, keepdim=True) for y in (x, new))
    truth = (1 - other @ unit.T).sort(1)
    graph = build_graph(x, 5, metric="cosine")
    for backend in EXACT:
        indices, distances = query(x, new, 4, "cosine", backend)
        assert torch.equal(indices, truth.indices[:, :4])
        assert torch.allclose(distances, truth.values[:, :4], atol=1e-12)
    assert torch.allclose(query(x, x[:9], 6, "cosine")[1][:, 1:], graph.distances[:9], atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 300.0, 3000.0])
def test_rounding_does_not_choose_among_tied_rows(offset: float, rng: np.random.Generator) -> None:
    """Binary rows in two groups far apart, in single precision: squared norms round by more than a distance."""
    x = torch.from_numpy((rng.integers(0, 2, size=(400, 12)) + offset * (np.arange(400) % 2)[:, None]).astype("f4"))
    exact = torch.cdist(x.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist")
    indices, lengths = nearest_rows(x, x, 9, "torch")
    torch.testing.assert_close(lengths.double(), exact.sort(1).values[:, :9], atol=1e-6, rtol=0)
    torch.testing.assert_close(exact.gather(1, indices), exact.sort(1).values[:, :9], atol=1e-6, rtol=0)


def _brute(data: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` nearest rows by all distances in double precision, ties to the lower index."""
    distances = np.linalg.norm(data.astype(float)[None] - queries.astype(float)[:, None], axis=2)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, 1)


def test_a_point_is_left_out_of_its_own_list_wherever_it_stands() -> None:
    """Copies may stand before it or push it out: then the farthest goes; ``first`` is the index of the first row."""
    distances = torch.arange(4.0).repeat(3, 1)
    indices = torch.tensor([[0, 5, 6, 7], [8, 1, 9, 3], [4, 5, 6, 7]])
    kept, lengths = without_self(indices, distances)
    assert kept.tolist() == [[5, 6, 7], [8, 9, 3], [4, 5, 6]]
    assert lengths.tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 2]]
    kept, lengths = without_self(indices + 10, distances, first=10)
    assert kept.tolist() == [[15, 16, 17], [18, 19, 13], [14, 15, 16]]
    swapped = torch.tensor([[1, 0, 2], [0, 1, 3], [3, 2, 0], [2, 3, 1]])  # two copies of two points: the other is first
    kept, lengths = without_self(swapped, torch.tensor([[0.0, 0.0, 5.0]]).repeat(4, 1))
    assert kept.tolist() == [[1, 2], [0, 3], [3, 0], [2, 1]] and lengths.tolist() == [[0, 5]] * 4
    plain, lengths = without_self(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0.0, 2.0], [0.0, 3.0]]))
    assert plain.tolist() == [[1], [0]] and lengths.tolist() == [[2], [3]]


def test_a_point_comes_first_in_its_own_list() -> None:
    """The others follow in their order, ascending; the last one goes where the point itself is missing."""
    indices = torch.tensor([[0, 5, 6], [4, 9, 1], [7, 8, 9]])
    found, lengths = self_first(indices, torch.tensor([[0.0, 1, 2], [0, 0, 0], [0, 0.5, 3]]))
    assert found.tolist() == [[0, 5, 6], [1, 4, 9], [2, 7, 8]]
    assert lengths.tolist() == [[0, 1, 2], [0, 0, 0], [0, 0, 0.5]]
    alone, nothing = self_first(torch.tensor([[0], [0]]), torch.zeros((2, 1)))  # of two copies, one neighbour each
    assert alone.tolist() == [[0], [1]] and nothing.tolist() == [[0], [0]]
    assert indices.tolist() == [[0, 5, 6], [4, 9, 1], [7, 8, 9]]  # the given lists stay


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("entries", [1 << 24, 300])
@pytest.mark.parametrize("filled", [0.05, 0.9])
def test_sparse_rows_have_the_neighbours_of_dense_ones(
    metric: Metric, entries: int, filled: float, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of a block, dense or not; distances of either metric."""
    monkeypatch.setattr(neighbours, "BLOCK_ENTRIES", entries)
    monkeypatch.setattr(neighbours, "FILLED", filled)
    x = rng.random((70, 12)) * (rng.random((70, 12)) < 0.4)
    x[:, 0] += 0.1 + rng.random(70)  # no copies, whose order is open
    found, lengths = nearest_sparse(csr_matrix(x), 5, metric)
    space = x / np.linalg.norm(x, axis=1, keepdims=True) if metric == "cosine" else x
    expected, chords = (each[:, 1:] for each in _brute(space, space, 6))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(lengths, chords**2 / 2 if metric == "cosine" else chords, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [40, 700])
def test_all_pairs_far_from_their_mean(
    n: int, dtype: torch.dtype, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two groups 1e3 apart of width 1: single-precision scores cannot order them, whatever the size of a block."""
    monkeypatch.setattr(neighbours, "BLOCK_ENTRIES", 2 * n)
    monkeypatch.setattr(neighbours, "CACHE_ENTRIES", 500)
    x = torch.from_numpy(rng.normal(size=(n, 14)) + 1e3 * (rng.random((n, 1)) < 0.5)).to(dtype)
    expected, lengths = _brute(x.numpy(), x.numpy(), 6)
    found, near = nearest_rows(x, x, 6, "torch")
    np.testing.assert_allclose(near[:, 1:], lengths[:, 1:], rtol=1e-4)
    assert float((found.numpy() == expected).mean()) > 0.99
    one, apart = nearest_rows(x, x[: n // 2].clone(), 6, "torch")
    np.testing.assert_allclose(apart[:, 1:], lengths[: n // 2, 1:], rtol=1e-4)
    assert float((one.numpy() == expected[: n // 2]).mean()) > 0.99


def test_the_smallest_scores_are_found_in_groups(rng: np.random.Generator) -> None:
    """Numbers of columns that are and are not multiples of a group; the rest is looked at, too."""
    for columns in (20, 400, 403, 411):
        scores = torch.from_numpy(rng.normal(size=(50, columns)))
        scores[:, -1] -= torch.arange(50)  # the last one is often the smallest
        found = neighbours._smallest(scores, 7).sort(1).values
        assert torch.equal(found, scores.argsort(1)[:, :7].sort(1).values)


def test_rows_that_rounding_may_have_lost_by_a_loop() -> None:
    """Where scores round by more than a harmless share of the k-th, and than what lies between it and the last."""
    rng, k, m = np.random.default_rng(3), 4, 300
    part = torch.from_numpy(rng.normal(size=(m, 6)) * 10.0 ** rng.uniform(0, 4, size=(m, 1))).float()
    length = torch.from_numpy(10.0 ** rng.uniform(-2, 0, size=(m, k + neighbours.SPARE))).float()
    found, expected = neighbours._lost_in_rounding(part, length, k), []
    for i in range(m):
        rounding = neighbours.SHARE * torch.finfo(torch.float32).eps * float(part[i].square().sum())
        near = sorted(length[i].tolist())
        if rounding > neighbours.HARMLESS * near[k - 1] ** 2 and near[-1] ** 2 - near[k - 1] ** 2 <= rounding:
            expected.append(i)
    assert 20 < len(expected) < 280
    assert found is not None and found.tolist() == expected
    assert neighbours._lost_in_rounding(part.double(), length.double(), k) is None


def test_tied_rows_come_by_number_where_all_are_candidates(rng: np.random.Generator) -> None:
    for n in range(3, 3 + neighbours.SPARE):
        data = rng.integers(0, 2, size=(n, 5)).astype(float)
        new = rng.integers(0, 2, size=(20, 5)).astype(float)
        found, lengths = neighbours._blocks(torch.from_numpy(data), torch.from_numpy(new), 3)
        order, exact = _brute(data, new, 3)
        assert found.tolist() == order.tolist()
        np.testing.assert_allclose(lengths, exact, atol=1e-12)


def test_candidates_that_end_in_a_tie_are_chosen_again() -> None:
    """Of the 4 at distance 1 from the middle of a grid the first by number; a row without a tie keeps what it has."""
    data = torch.stack(torch.meshgrid(*[torch.arange(5.0)] * 2, indexing="ij"), -1).reshape(-1, 2) * 3
    part = torch.stack([data[12], data[12] + torch.tensor([1.2, 0.4])])
    scores = data.square().sum(1) - 2 * part @ data.T
    near = torch.tensor([[12, 17, 13, 11], [12, 17, 13, 18]])
    length = (data[near] - part[:, None]).norm(dim=2)
    neighbours._settle_ties(data, part, scores, near, length, data.square().sum(1).max(), 2)
    assert near[:, :2].tolist() == [[12, 7], [12, 17]]
    assert length[0, :2].tolist() == [0.0, 3.0]


@pytest.mark.parametrize("n", [3, 500, 2500])
def test_a_tree_is_queried_in_pieces(n: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "FEW_QUERIES", 40)
    monkeypatch.setattr(neighbours, "QUERIES", 90)
    x, sought = rng.normal(size=(30, 3)), rng.normal(size=(n, 3))
    found, lengths = neighbours.tree_query(cKDTree(x), sought, 4)
    expected, near = _brute(x, sought, 4)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(lengths, near)
    assert neighbours.tree_query(cKDTree(x), sought[:0], 4)[0].shape == (0, 4)


def test_which_search_is_chosen() -> None:
    """By dimension, number of points and their product; every backend but the unknown is taken."""
    chosen = {(100, 12): "kdtree", (100, 13): "torch", (50_001, 13): "cells", (50_000, 20): "torch"}
    chosen |= {(20_001, 1000): "cells", (20_000, 1000): "torch", (60_000, 3): "kdtree"}
    for (n, d), expected in chosen.items():
        assert neighbours._choose(torch.empty(1, 1).expand(n, d)) == expected
    with pytest.raises(InputError, match="backend must be 'auto' or one of 'kdtree'"):
        neighbours.searcher(torch.zeros(3, 2), "balls")  # type: ignore[arg-type]


@pytest.mark.parametrize("metric", ["manhattan", "minkowski", "minkowski of its own order", "jaccard"])
def test_other_metrics_are_those_of_scipy(metric: str, rng: np.random.Generator) -> None:
    from scipy.spatial.distance import cdist

    x = (rng.random((60, 9)) < 0.4).astype(float) if metric == "jaccard" else rng.normal(size=(60, 9))
    options = {"p": 3} if metric == "minkowski" else {}  # 2, where none is given
    metric = metric.partition(" ")[0]
    search = neighbours.searcher(torch.from_numpy(x), metric=metric, options=options)
    found, lengths = search(torch.from_numpy(x[:20] + (0 if metric == "jaccard" else 0.1)), 4)
    names = {"manhattan": "cityblock"}
    sought = x[:20].astype(bool) if metric == "jaccard" else x[:20] + 0.1
    distances = cdist(sought, x.astype(bool) if metric == "jaccard" else x, names.get(metric, metric), **options)
    np.testing.assert_allclose(lengths, np.sort(distances, 1)[:, :4], atol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(distances, found.numpy(), 1), lengths, atol=1e-12)


def test_a_large_cloud_is_searched_along_a_curve(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reordered or not, lists are those of the rows as they were given."""
    x = torch.from_numpy(rng.normal(size=(300, 3)))
    plain = nearest_rows(x, x, 5, "kdtree")
    monkeypatch.setattr(neighbours, "REORDER", 100)
    for found, expected in zip(nearest_rows(x, x, 5, "kdtree"), plain, strict=True):
        assert torch.equal(found, expected)
    expected, _ = _brute(x.numpy(), x.numpy(), 5)
    np.testing.assert_array_equal(plain[0], expected)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_copies_among_sparse_rows_are_at_distance_zero(metric: Metric, rng: np.random.Generator) -> None:
    """Squares less twice a product round to either side of 0: no root of a negative number, no negative distance."""
    x = rng.random((40, 30)) * (rng.random((40, 30)) < 0.5) * 1e3 + np.eye(40, 30)
    found, lengths = nearest_sparse(csr_matrix(np.repeat(x, 3, 0)), 2, metric)
    assert bool(torch.isfinite(lengths).all()) and float(lengths.min()) >= 0
    assert float(lengths.max()) < (1e-3 if metric == "euclidean" else 1e-12)
    assert bool((found // 3 == torch.arange(120)[:, None] // 3).all())


def test_lists_of_any_length_begin_with_their_point(rng: np.random.Generator) -> None:
    for n, k in ((7, 3), (4, 6)):
        indices = torch.from_numpy(np.stack([rng.permutation(np.arange(20))[:k] for _ in range(n)]))
        distances = torch.from_numpy(np.sort(rng.random((n, k)), 1))
        found, lengths = self_first(indices, distances)
        assert found[:, 0].tolist() == list(range(n)) and lengths[:, 0].tolist() == [0] * n
        for row in range(n):
            before = indices[row].tolist()
            at = before.index(row) if row in before else k - 1
            others = [j for j in range(k) if j != at]  # still ascending
            assert found[row].tolist() == [row, *(before[j] for j in others)]
            assert lengths[row, 1:].tolist() == [float(distances[row, j]) for j in others]


def test_the_smallest_of_more_rows_than_columns(rng: np.random.Generator) -> None:
    scores = torch.from_numpy(rng.normal(size=(6000, 400)))
    assert torch.equal(neighbours._smallest(scores, 7).sort(1).values, scores.argsort(1)[:, :7].sort(1).values)


def test_rows_without_a_tie_are_not_looked_at_again() -> None:
    """Whatever their candidates are: a look at all points is dear. Ties are those within rounding."""
    data = torch.stack(torch.meshgrid(*[torch.arange(5.0)] * 2, indexing="ij"), -1).reshape(-1, 2) * 3
    part = data[[12, 12]].clone()
    scores = data.square().sum(1) - 2 * part @ data.T
    widest = data.square().sum(1).max()
    near = torch.tensor([[12, 17, 18, 24], [12, 17, 13, 11]])
    length = (data[near] - part[:, None]).norm(dim=2)
    neighbours._settle_ties(data, part, scores, near, length, widest, 2)
    assert near[:, :2].tolist() == [[12, 17], [12, 7]]
    eps = torch.finfo(data.dtype).eps
    slack = neighbours.ROUNDING * eps * float(part[0].square().sum() + widest)
    for share, again in ((0.9, True), (1.1, False)):
        near, length = torch.tensor([[12, 17, 13]]), torch.tensor([[0.0, 3.0, (9 + share * slack) ** 0.5]])
        neighbours._settle_ties(data, part[:1], scores[:1], near, length, widest, 2)
        assert near[0, :2].tolist() == ([12, 7] if again else [12, 17])


def test_more_ties_than_candidates_go_to_the_lowest_numbers() -> None:
    """The corners of a cube of four dimensions are as far from its middle, more of them than are looked at."""
    corners = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=4)), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        data = corners[torch.randperm(16, generator=generator)]
        found, lengths = neighbours._blocks(data, torch.zeros(3, 4, dtype=torch.float64), 2)
        assert found.tolist() == [[0, 1]] * 3 and lengths.tolist() == [[2.0, 2.0]] * 3


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_clouds_of_ordinary_space_alone_follow_a_curve(
    columns: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And more than a few points of them, of one cloud, and those that are not in order already."""
    orders: list[int] = []
    real = neighbours.morton_order
    monkeypatch.setattr(neighbours, "morton_order", lambda x: orders.append(len(x)) or real(x))
    monkeypatch.setattr(neighbours, "REORDER", 100)
    x = torch.from_numpy(rng.normal(size=(101, columns)))
    for data, queries, ordered, told in (
        (x, x, False, columns <= 3),
        (x, x, True, False),
        (x, x.clone(), False, False),
    ):
        orders.clear()
        found, _ = nearest_rows(data, queries, 4, "kdtree", ordered)
        assert orders == [101] * told
        np.testing.assert_array_equal(found, _brute(x.numpy(), x.numpy(), 4)[0])
    orders.clear()
    nearest_rows(few := x[:100], few, 4, "kdtree")
    assert not orders


def test_functions_of_two_rows_are_compiled_for_many(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are compared by any; of more than that numba's own are handed to neighbour descent."""
    monkeypatch.setattr(neighbours, "FEW_ROWS", 30)
    x = torch.from_numpy(rng.normal(size=(31, 4)))

    def longest(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.abs(a - b).max())

    _, lengths = neighbours.searcher(x[:30], metric=longest)(x[:5], 3)
    exact = np.abs(x[:5, None].numpy() - x[:30].numpy()).max(2)
    np.testing.assert_allclose(lengths, np.sort(exact, 1)[:, :3])
    with pytest.raises(InputError, match="more than 30 rows need a metric compiled by numba"):
        neighbours.searcher(x, metric=longest)
    longest.py_func = longest  # type: ignore[attr-defined]
    monkeypatch.setattr(neighbours, "_descent", lambda data, metric, options: (len(data), metric, options))
    assert neighbours.searcher(x, metric=longest, options={"a": 1}) == (31, longest, {"a": 1})
    with pytest.raises(InputError, match="metric must be precomputed or one of"):
        neighbours.searcher(x[:5], metric="nonsense")


class _OnDevice:
    """Rows of which a device has so many."""

    def __init__(self, n: int, columns: int = 3, kind: str = "cuda") -> None:
        self.n, self.shape, self.device = n, (n, columns), types.SimpleNamespace(type=kind)

    def __len__(self) -> int:
        return self.n


@pytest.mark.parametrize(
    ("n", "m", "columns", "kind", "grid"),
    [
        *((4097, 4097, 3, "cuda", True), (4096, 4097, 3, "cuda", False), (4097, 4096, 3, "cuda", False)),
        *((4097, 4097, 4, "cuda", False), (4097, 4097, 3, "cpu", False), (4097, 4097, 1, "cuda", True)),
        *((32_768, 1, 3, "cuda", True), (32_767, 1, 3, "cuda", False), (32_768, 0, 3, "cuda", False)),
    ],
)
def test_a_device_sorts_clouds_of_ordinary_space_into_cells(
    n: int, m: int, columns: int, kind: str, grid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many points and many queries, or very many points and any; the cloud itself is sought as a whole."""
    monkeypatch.setattr(neighbours, "grid_search", lambda data, k, queries: ("grid", k, queries))
    monkeypatch.setattr(neighbours, "_choose", lambda data: "other")
    monkeypatch.setattr(
        neighbours, "searcher", lambda data, backend: lambda queries, k: (torch.zeros(1), torch.ones(1))
    )
    data, queries = _OnDevice(n, columns, kind), _OnDevice(m, columns, kind)
    if grid:
        assert nearest_rows(data, queries, 5) == ("grid", 5, queries)  # type: ignore[arg-type]
    else:
        data.device = torch.device("cpu") if kind == "cpu" else types.SimpleNamespace(type=kind)
        monkeypatch.setattr(torch.Tensor, "to", lambda self, *_: self)
        assert nearest_rows(data, queries, 5)[1].tolist() == [1.0]  # type: ignore[arg-type]
    if n == m == 4097 and grid:
        assert nearest_rows(data, data, 5) == ("grid", 5, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n", "columns", "kind", "expected"),
    [
        *((32_767, 3, "cuda", "torch"), (32_768, 3, "cuda", "kdtree"), (100, 3, "cpu", "kdtree")),
        *((30_000, 1000, "cuda", "torch"), (50_001, 1000, "cuda", "cells"), (20_001, 1000, "cpu", "cells")),
    ],
)
def test_which_search_a_device_gets(n: int, columns: int, kind: str, expected: str) -> None:
    assert neighbours._choose(_OnDevice(n, columns, kind)) == expected  # type: ignore[arg-type]


def test_rows_without_a_direction_are_named(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.normal(size=(6, 3)))
    unit = x / x.norm(dim=1, keepdim=True)
    torch.testing.assert_close(neighbours.search_space(x, "cosine"), unit)
    torch.testing.assert_close(neighbours.search_space(torch.eye(3), "cosine"), torch.eye(3))
    assert neighbours.search_space(x, "euclidean") is x
    x[[2, 4]] = 0
    with pytest.raises(InputError, match="non-zero rows, row 2 is all zeros"):
        neighbours.search_space(x, "cosine")
    with pytest.raises(InputError, match="metric must be 'euclidean' or 'cosine', got 'taxi'"):
        neighbours.search_space(x, "taxi")
