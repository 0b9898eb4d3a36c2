"""Tests of `graph.graph`: undirected edges of a graph, sums over them, and connected components."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.graph import graph as module
from eigenprobe.graph.graph import Edges, _joined, components, connected, undirected


def test_parts_without_a_loop_over_points(rng):
    n = 4000
    chain = torch.arange(n - 1)
    chain = chain[chain % 1000 != 999]  # four long chains: the hardest case
    shuffled = torch.from_numpy(rng.permutation(n))
    head, tail = shuffled[chain], shuffled[chain + 1]
    count, labels = _joined(head, tail, n)
    expected, names = components(head, tail, n)
    assert count == expected == 4
    assert len(torch.stack([labels, names]).unique(dim=1).T) == 4  # the same parts


def test_connected_tells_one_piece_from_two():
    t = torch.linspace(0, 1, 200)
    line = torch.stack([t, 0 * t, 0 * t], -1)  # far more hops than rounds of propagation
    split = line.clone()
    split[100:, 1] = 5
    share = connected(torch.stack([line, split]), k=4)
    assert share[0] == 1 and abs(share[1] - 0.5) < 0.02


def test_sums_over_edges_are_loops(rng: np.random.Generator) -> None:
    """Undirected edges of lists, with and without a mask: each once, and where it stands; sums at either end."""
    indices = torch.from_numpy(np.stack([rng.permutation(np.delete(np.arange(12), i))[:4] for i in range(12)]))
    keep = torch.from_numpy(rng.random((12, 4)) < 0.6)
    for mask in (None, keep):
        edges, place = undirected(indices, mask)
        entries = [(i, int(j)) for i in range(12) for j in indices[i][... if mask is None else mask[i]]]
        expected = sorted({(min(pair), max(pair)) for pair in entries})
        pairs = list(zip(edges.head.tolist(), edges.tail.tolist(), strict=True))
        assert pairs == expected and len(edges) == len(expected)
        assert [pairs[at] for at in place.tolist()] == [(min(pair), max(pair)) for pair in entries]
        values = torch.from_numpy(rng.normal(size=(len(edges), 2)))
        at_head, at_tail = torch.zeros(2, 12, 2, dtype=torch.float64)
        for (head, tail), value in zip(pairs, values, strict=True):
            at_head[head] += value
            at_tail[tail] += value
        torch.testing.assert_close(edges.at_head(values), at_head)
        torch.testing.assert_close(edges.at_tail(values), at_tail)
        torch.testing.assert_close(edges.at(values), at_head + at_tail)


def test_the_share_of_the_largest_part(rng: np.random.Generator) -> None:
    """Per cloud of a batch: 30 and 20 points far apart, and 50 together."""
    x = torch.from_numpy(rng.random((2, 50, 3)))
    x[0, 30:] += 100
    assert connected(x, 6).tolist() == pytest.approx([0.6, 1.0])


@pytest.mark.parametrize("cache", [1 << 18, 50])  # all edges at once, and a few at a time
@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_second_moments_of_the_edges_of_every_point(
    d: int, cache: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(module, "CACHE", cache)
    pairs = np.sort(np.stack([rng.permutation(20)[:2] for _ in range(60)]), 1)
    weight, ahead, behind = rng.random(60), rng.normal(size=(60, d)), rng.normal(size=(60, d))
    expected = np.zeros((20, d, d))
    for (head, tail), w, v, u in zip(pairs, weight, ahead, behind, strict=True):
        expected[head] += w * np.outer(v, v)
        expected[tail] += w * np.outer(u, u)
    edges = Edges(torch.from_numpy(pairs[:, 0].copy()), torch.from_numpy(pairs[:, 1].copy()), 20)
    found = edges.moments(*(torch.from_numpy(each) for each in (weight, ahead, behind)))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-13)
    assert torch.equal(found, found.mT)
    nothing = Edges(edges.head[:0], edges.tail[:0], 3).moments(torch.zeros(0), torch.zeros((0, d)), torch.zeros((0, d)))
    assert torch.equal(nothing, torch.zeros((3, d, d)))


def test_parts_are_counted_by_scipy_on_the_host(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """The rounds of a device are for devices: on the host they take several times as long."""
    monkeypatch.setattr(module, "_joined", lambda *given: pytest.fail("not on the host"))
    head, tail = torch.from_numpy(rng.integers(40, size=(2, 25)))
    count, labels = components(head, tail, 40)
    own = list(range(40))
    for _ in own:
        for i, j in zip(head.tolist(), tail.tolist(), strict=True):
            own[i] = own[j] = min(own[i], own[j])
    assert count == len(set(own)) and labels.dtype == torch.int64
    assert [[a == b for b in labels.tolist()] for a in labels.tolist()] == [[a == b for b in own] for a in own]


def test_no_edges_have_no_moments() -> None:
    edges = Edges(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 4)
    nothing = torch.zeros(0, 3)
    assert edges.moments(torch.zeros(0), nothing, nothing).tolist() == torch.zeros(4, 3, 3).tolist()
