"""Tests of `search.neighbours`: points -> graph: the k nearest neighbours of every point and their
distances.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from tests.neighbors.test_graph import points

from eigenprobe.eigen.solve import solve
from eigenprobe.errors import InputError
from eigenprobe.neighbors import search as neighbours
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.neighbors.grid import CellIndex, Division
from eigenprobe.neighbors.search import (
    Metric,
    nearest_rows,
    nearest_sparse,
    query,
    self_first,
    without_self,
)
from eigenprobe.smoothers.neighbourhood import neighbourhood_smoother
from tests.clouds import flat_torus, random_sphere

SHEET = {
    "sphere": (2.0, 3, 6.0, 5),
    "torus": (1.0, 4, 2.0, 4),
}  # eigenvalue and multiplicity, twice


EXACT = ["kdtree", "torch"]


def test_cells_find_most_of_the_nearest(rng: np.random.Generator) -> None:
    centres = rng.normal(size=(30, 20)) * 3
    x = torch.from_numpy(centres[rng.integers(30, size=6000)] + rng.normal(size=(6000, 20))).float()
    exact, _ = nearest_rows(x, x[:500], 10, "torch")
    index = CellIndex(
        x, lambda data, queries, k: nearest_rows(data, queries, k, "torch"), Division(100, 1200)
    )
    found, lengths = index.search(x[:500], 10)
    shared = np.mean(
        [len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)]
    )
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
    x = (
        random_sphere(n, rng)
        if shape == "sphere"
        else flat_torus(rng.uniform(0, 2 * np.pi, (n, 2)))
    )
    first, one, second, two = SHEET[shape]
    unit = 1.0
    if (
        metric == "cosine"
    ):  # the rows count as unit vectors, and a cosine distance is half of a squared length
        unit, x = 2 * float((x**2).sum(1).mean()), 3 * x
    smoother = neighbourhood_smoother(build_graph(torch.from_numpy(x), neighbours, metric=metric))
    values = (solve(smoother, 1 + one + two).gaps[1:] / smoother.step_time).numpy() / unit
    most, single = (
        (0.08, 0.15) if n == 4000 else (0.11, 0.25)
    )  # of 20 random draws .07 and .13, .10 and .22 at most
    np.testing.assert_allclose(values[:one].mean(), first, rtol=most)
    np.testing.assert_allclose(values[one:].mean(), second, rtol=most)
    np.testing.assert_allclose(values, np.repeat([first, second], [one, two]), rtol=single)


def test_query_of_new_points():
    x, new = points(300, 3), points(40, 3, seed=1)
    for backend in EXACT:
        indices, distances = query(x, new, 4, backend=backend)
        truth = (
            torch.cdist(new, x, compute_mode="donot_use_mm_for_euclid_dist").sort(1).values[:, :4]
        )
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
    """Binary rows in two groups far apart, in single precision: squared norms round by more than a
    distance.
    """
    x = torch.from_numpy(
        (rng.integers(0, 2, size=(400, 12)) + offset * (np.arange(400) % 2)[:, None]).astype("f4")
    )
    exact = torch.cdist(x.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist")
    indices, lengths = nearest_rows(x, x, 9, "torch")
    torch.testing.assert_close(lengths.double(), exact.sort(1).values[:, :9], atol=1e-6, rtol=0)
    torch.testing.assert_close(
        exact.gather(1, indices), exact.sort(1).values[:, :9], atol=1e-6, rtol=0
    )


def test_a_point_is_left_out_of_its_own_list_wherever_it_stands() -> None:
    """Copies may stand before it or push it out: then the farthest goes; ``first`` is the index of
    the first row.
    """
    distances = torch.arange(4.0).repeat(3, 1)
    indices = torch.tensor([[0, 5, 6, 7], [8, 1, 9, 3], [4, 5, 6, 7]])
    kept, lengths = without_self(indices, distances)
    assert kept.tolist() == [[5, 6, 7], [8, 9, 3], [4, 5, 6]]
    assert lengths.tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 2]]
    kept, lengths = without_self(indices + 10, distances, first=10)
    assert kept.tolist() == [[15, 16, 17], [18, 19, 13], [14, 15, 16]]
    swapped = torch.tensor(
        [[1, 0, 2], [0, 1, 3], [3, 2, 0], [2, 3, 1]]
    )  # two copies of two points: the other is first
    kept, lengths = without_self(swapped, torch.tensor([[0.0, 0.0, 5.0]]).repeat(4, 1))
    assert kept.tolist() == [[1, 2], [0, 3], [3, 0], [2, 1]] and lengths.tolist() == [[0, 5]] * 4
    plain, lengths = without_self(
        torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0.0, 2.0], [0.0, 3.0]])
    )
    assert plain.tolist() == [[1], [0]] and lengths.tolist() == [[2], [3]]


def test_a_point_comes_first_in_its_own_list() -> None:
    """The others follow in their order, ascending; the last one goes where the point itself is
    missing.
    """
    indices = torch.tensor([[0, 5, 6], [4, 9, 1], [7, 8, 9]])
    found, lengths = self_first(indices, torch.tensor([[0.0, 1, 2], [0, 0, 0], [0, 0.5, 3]]))
    assert found.tolist() == [[0, 5, 6], [1, 4, 9], [2, 7, 8]]
    assert lengths.tolist() == [[0, 1, 2], [0, 0, 0], [0, 0, 0.5]]
    alone, nothing = self_first(
        torch.tensor([[0], [0]]), torch.zeros((2, 1))
    )  # of two copies, one neighbour each
    assert alone.tolist() == [[0], [1]] and nothing.tolist() == [[0], [0]]
    assert indices.tolist() == [[0, 5, 6], [4, 9, 1], [7, 8, 9]]  # the given lists stay


@pytest.mark.parametrize(
    "metric", ["manhattan", "minkowski", "minkowski of its own order", "jaccard"]
)
def test_other_metrics_are_those_of_scipy(metric: str, rng: np.random.Generator) -> None:
    from scipy.spatial.distance import cdist

    x = (
        (rng.random((60, 9)) < 0.4).astype(float)
        if metric == "jaccard"
        else rng.normal(size=(60, 9))
    )
    options = {"p": 3} if metric == "minkowski" else {}  # 2, where none is given
    metric = metric.partition(" ")[0]
    search = neighbours.searcher(torch.from_numpy(x), metric=metric, options=options)
    found, lengths = search(torch.from_numpy(x[:20] + (0 if metric == "jaccard" else 0.1)), 4)
    names = {"manhattan": "cityblock"}
    sought = x[:20].astype(bool) if metric == "jaccard" else x[:20] + 0.1
    distances = cdist(
        sought, x.astype(bool) if metric == "jaccard" else x, names.get(metric, metric), **options
    )
    np.testing.assert_allclose(lengths, np.sort(distances, 1)[:, :4], atol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(distances, found.numpy(), 1), lengths, atol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_copies_among_sparse_rows_are_at_distance_zero(
    metric: Metric, rng: np.random.Generator
) -> None:
    """Squares less twice a product round to either side of 0: no root of a negative number, no
    negative distance.
    """
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
