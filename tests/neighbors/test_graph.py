"""Nearest neighbours: every backend against brute force, whatever the metric, dimension and
duplicates.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eigenprobe.errors import InputError
from eigenprobe.neighbors.graph import Graph, build_graph, tangent_frames
from eigenprobe.neighbors.search import SEARCHES, nearest_rows

EXACT = ["kdtree", "torch"]


def points(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn((n, d), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def brute(x: Tensor, k: int, metric: str) -> Tensor:
    if metric == "cosine":
        unit = x / x.norm(dim=1, keepdim=True)
        matrix = 1 - unit @ unit.mT
    else:
        matrix = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    return matrix.fill_diagonal_(torch.inf).sort(1).values[:, :k]


@pytest.mark.parametrize("backend", EXACT)
@pytest.mark.parametrize(
    ("metric", "d"),
    [("euclidean", 1), ("euclidean", 3), ("euclidean", 20), ("cosine", 3), ("cosine", 20)],
)
def test_equals_brute_force(backend, metric, d):
    x = points(200, d)
    graph = build_graph(x, 7, metric=metric, backend=backend)
    assert torch.allclose(graph.distances, brute(x, 7, metric), atol=1e-10)
    rows = torch.arange(200)[:, None]
    assert not bool((graph.indices == rows).any())
    chosen = brute_distance(x, graph.indices, metric)
    assert torch.allclose(chosen, graph.distances, atol=1e-10)


def brute_distance(x: Tensor, indices: Tensor, metric: str) -> Tensor:
    if metric == "euclidean":
        return (x[indices] - x[:, None]).norm(dim=2)
    unit = x / x.norm(dim=1, keepdim=True)
    return 1 - (unit[indices] * unit[:, None]).sum(2)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(4, 40), d=st.integers(1, 5), seed=st.integers(0, 10**6), loops=st.booleans())
def test_duplicates_and_self_loops(n, d, seed, loops):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 3, (n, d), generator=generator).double()  # many points coincide
    a, b = (build_graph(x, 3, self_loops=loops, backend=backend) for backend in EXACT)
    assert torch.allclose(a.distances, b.distances, atol=1e-12)
    rows = torch.arange(n)
    for graph in (a, b):
        if loops:
            assert torch.equal(graph.indices[:, 0], rows)
        else:
            assert not bool((graph.indices == rows[:, None]).any())
        assert bool((graph.distances.diff(dim=1) >= 0).all())
        assert all(len(set(row)) == graph.k for row in graph.indices.tolist())


def test_large_clouds_are_searched_in_memory_order():
    x = points(9000, 3)
    assert torch.allclose(
        build_graph(x, 5).distances, build_graph(x, 5, backend="torch").distances, atol=1e-10
    )


def test_far_from_the_origin():
    x = points(300, 20).float() + 1000
    exact = build_graph(x.double(), 6)
    assert torch.allclose(
        build_graph(x, 6, backend="torch").distances.double(), exact.distances, rtol=1e-3
    )


def test_truncate_and_components():
    x = torch.cat([points(60, 3), points(40, 3) + 100])
    graph = build_graph(x, 8)
    assert isinstance(graph, Graph) and graph.truncate(3).k == 3
    assert torch.equal(graph.truncate(3).indices, build_graph(x, 3).indices)
    count, labels = graph.components()
    assert count == 2 and len(labels[:60].unique()) == 1 and int(labels[0]) != int(labels[-1])


def test_precision_and_errors():
    assert build_graph(points(50, 3).float(), 4).distances.dtype == torch.float32
    corner = [[0, 0], [3, 0], [0, 4], [9, 9]]
    for dtype in (
        torch.int64,
        torch.uint8,
        torch.float16,
        torch.bfloat16,
    ):  # distances are no whole numbers
        found = build_graph(torch.tensor(corner, dtype=dtype), 2).distances
        assert found[:3].flatten().tolist() == [3, 4, 3, 5, 4, 5]
        assert found[3].tolist() == pytest.approx([106**0.5, 117**0.5])
    with pytest.raises(InputError, match="at least 11 points, got 10"):
        build_graph(points(10, 3), 10)
    with pytest.raises(InputError, match="backend must be"):
        build_graph(points(10, 3), 2, backend="magic")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="metric must be"):
        build_graph(points(10, 3), 2, metric="taxi")  # type: ignore[arg-type]
    x = points(10, 3)
    x[4] = 0
    with pytest.raises(InputError, match="row 4"):
        build_graph(x, 2, metric="cosine")
    assert set(SEARCHES) == {"kdtree", "torch", "cells", "pynndescent"}
    assert nearest_rows(x, x[:2], 1)[0].ravel().tolist() == [0, 1]


def test_loops_are_left_out_once() -> None:
    x = points(40, 3)
    looped, plain = build_graph(x, 6, self_loops=True), build_graph(x, 5)
    for graph in (
        looped.without_loops(),
        looped.without_loops().without_loops(),
        plain.without_loops(),
    ):
        assert not graph.self_loops and graph.k == 5
        assert torch.equal(graph.indices, plain.indices) and torch.equal(
            graph.distances, plain.distances
        )


@pytest.mark.parametrize("loops", [False, True])
def test_a_graph_has_at_least_one_neighbour_and_at_most_all(loops: bool) -> None:
    x = points(7, 2)
    for k in (-1, 0, 8 if loops else 7):
        with pytest.raises(InputError, match=f"a graph of {k} neighbours needs at least"):
            build_graph(x, k, self_loops=loops)
    for k in (1, 7 if loops else 6):
        assert build_graph(x, k, self_loops=loops).k == k


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("loops", [False, True])
def test_stacked_clouds_are_searched_each_in_itself(columns: int, loops: bool) -> None:
    x, sizes = points(100, columns), (20, 50, 30)
    whole = build_graph(x, 6, clouds=sizes, self_loops=loops)
    assert whole.clouds == sizes
    start = 0
    for size, part in zip(sizes, whole.parts(), strict=True):
        alone = build_graph(x[start : start + size], 6, self_loops=loops)
        assert torch.equal(part.indices, alone.indices)
        assert torch.allclose(part.distances, alone.distances)
        assert torch.equal(part.points, alone.points)
        assert part.clouds == ()
        start += size


@pytest.mark.parametrize(
    ("columns", "k", "dimension"), [(3, 8, 2), (3, 8, 1), (5, 5, 2), (9, 6, 2), (9, 6, 3)]
)
def test_tangent_frames_are_leading_singular_vectors(
    columns: int, k: int, dimension: int, rng: np.random.Generator
) -> None:
    """Of offsets with weights ``exp(-(d / d_k)^2 / 2)``, by whichever Gram matrix is the smaller
    one.
    """
    graph = build_graph(
        torch.from_numpy(rng.normal(size=(40, columns)) * np.logspace(0, -0.6, columns)), k
    )
    offsets = graph.points[graph.indices] - graph.points[:, None]
    frames = tangent_frames(offsets, graph.distances, dimension)
    assert frames.shape == (40, columns, dimension)
    for own, chords, frame in zip(
        graph.distances.numpy(), offsets.numpy(), frames.numpy(), strict=True
    ):
        leading = np.linalg.svd(chords * np.exp(-((own / own[-1]) ** 2) / 2)[:, None])[2][
            :dimension
        ]
        np.testing.assert_allclose(frame @ frame.T, leading.T @ leading, atol=1e-8)
        np.testing.assert_allclose(frame.T @ frame, np.eye(dimension), atol=1e-9)
    small = tangent_frames(1e-9 * offsets, 1e-9 * graph.distances, dimension)  # of any unit
    torch.testing.assert_close((small @ small.mT), frames @ frames.mT, rtol=0, atol=1e-6)


def test_copies_have_frames_that_are_finite() -> None:
    for columns in (3, 9):
        frames = tangent_frames(torch.zeros(2, 5, columns), torch.zeros(2, 5), 2)
        assert frames.shape == (2, columns, 2) and bool(frames.isfinite().all())


def test_squared_lengths_of_either_metric(rng: np.random.Generator) -> None:
    """Up to one factor for angles: half of the squared length between unit vectors."""
    x = torch.from_numpy(rng.normal(size=(30, 4)))
    graph = build_graph(x, 5)
    torch.testing.assert_close(graph.squared, (x[graph.indices] - x[:, None]).square().sum(2))
    unit, angles = x / x.norm(dim=1, keepdim=True), build_graph(x, 5, metric="cosine")
    torch.testing.assert_close(
        angles.squared, (unit[angles.indices] - unit[:, None]).square().sum(2) / 2
    )
