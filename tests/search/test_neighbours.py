"""Tests of `search.neighbours`: points -> graph: the k nearest neighbours of every point and their distances."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
import torch

from eigenprobe.eigen.solve import solve
from eigenprobe.graph.graph import build_graph
from eigenprobe.search.cells import CellIndex, Division
from eigenprobe.search.neighbours import Metric, nearest_rows, query
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

    class NNDescent:
        def __init__(self, data, metric, n_neighbors, random_state, metric_kwds, n_jobs):
            assert metric_kwds is None and n_jobs == -1
            assert data.dtype == np.float32 and metric == "euclidean" and random_state == 0
            self.data = data
            self.neighbor_graph = self.query(data, n_neighbors)

        def query(self, rows, k):
            lengths = np.linalg.norm(rows[:, None] - self.data, axis=2)
            order = np.argsort(lengths, 1)[:, :k].astype(np.int32)
            return order, np.take_along_axis(lengths, order, 1)

    monkeypatch.setitem(sys.modules, "pynndescent", types.SimpleNamespace(NNDescent=NNDescent))
    x = points(120, 6)
    truth = build_graph(x, 9)
    assert torch.equal(build_graph(x, 9, backend="pynndescent").indices, truth.indices)
    assert torch.equal(query(x, x[:7], 3, backend="pynndescent")[0], query(x, x[:7], 3)[0])


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
