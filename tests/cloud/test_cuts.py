"""Edges between parts that are near in space and far on the surface are cut; all others stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.cloud.edges import find_suspects, keep_only, real_neighbours
from eigenprobe.neighbors.graph import build_graph
from tests import clouds as c
from tests.clouds import stacked


def sheets(gap: float, m: int = 28, seed: int = 0) -> np.ndarray:
    """Two parallel unit squares of m x m points, ``gap`` spacings apart."""
    rng, grid = np.random.default_rng(seed), c.grid(m)
    both = (grid + 0.2 / m * rng.normal(size=grid.shape) for _ in range(2))
    levels = (np.full((m * m, 1), height) for height in (0.0, gap / m))
    return np.concatenate([np.hstack(pair) for pair in zip(both, levels, strict=True)])


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_near_sheets_are_two_squares() -> None:
    """Each has the eigenvalues pi^2 (1, 1, 2) of a square; uncut they are those of a plate."""
    basis = ep.decompose(sheets(2.0), k=6, resolution="all")
    assert basis.info["short_cuts"] > 100 and basis.info["components"] == 2
    np.testing.assert_array_equal(basis.eigenvalues[:2], 0)
    np.testing.assert_allclose(basis.eigenvalues[2:], np.pi**2, rtol=0.1)
    level = basis.points[:, 2] > 0
    assert (level[basis.short_cuts[:, 0]] != level[basis.short_cuts[:, 1]]).mean() > 0.95


def test_a_sphere_is_left_as_it_is(rng: np.random.Generator) -> None:
    x = c.random_sphere(1000, rng)
    graph = build_graph(torch.from_numpy(x), 30)
    assert find_suspects(graph) is None
    same, pairs = real_neighbours(graph)[:2]
    assert same is graph and len(pairs) == 0
    assert not ep.decompose(x, k=4).info.get("short_cuts")


def test_what_is_asked_for_is_not_cut() -> None:
    x = sheets(2.0, 20)
    for neighbours in ("plain", 16):
        assert not ep.decompose(x, k=4, neighbours=neighbours).info.get("short_cuts")
    with pytest.raises(ep.InputError, match="neighbours must be"):
        ep.decompose(x, k=4, neighbours="other")


def test_cuts_do_not_depend_on_pose_unit_order_or_other_clouds(rng: np.random.Generator) -> None:
    x = sheets(2.0, 20)
    x[:, 2] += 0.1 * x[:, 0] ** 2  # no symmetry: its canonical pose is unique
    turn, order = np.linalg.qr(rng.normal(size=(3, 3)))[0], rng.permutation(len(x))

    def cuts(points: np.ndarray, rows: np.ndarray) -> set[frozenset[int]]:
        pairs = real_neighbours(build_graph(torch.from_numpy(points), 30))[1]
        return {frozenset(rows[pair].tolist()) for pair in pairs.numpy()}

    first, second = cuts(x, np.arange(len(x))), cuts((7 * x @ turn)[order] + 3, order)
    assert len(first & second) > 0.95 * len(first | second) > 50
    graphs = [build_graph(torch.from_numpy(each), 30) for each in (sheets(2.0, 16, 4), x)]
    pairs = real_neighbours(stacked(graphs))[1].numpy()
    own = {frozenset((pair - 512).tolist()) for pair in pairs if pair.min() >= 512}
    assert len(first & own) > 0.98 * len(first | own)


def test_rows_that_lost_neighbours_keep_the_others_with_their_lengths(
    rng: np.random.Generator,
) -> None:
    """A row is filled up with its first real neighbour."""
    graph = build_graph(torch.from_numpy(c.random_sphere(300, rng)), 12)
    kept = torch.from_numpy(rng.random((300, 8)) > 0.4)
    kept[5] = False
    found = keep_only(graph, kept)
    for row in range(300):
        real = [j for j in range(8) if kept[row, j]] or [0]
        if bool(kept[row].all()):
            real = list(range(12))
        chosen = real + [real[0]] * (12 - len(real))
        assert found.indices[row].tolist() == graph.indices[row, chosen].tolist(), row
        assert found.distances[row].tolist() == graph.distances[row, chosen].tolist(), row
