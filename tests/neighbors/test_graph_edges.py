"""Undirected edges of a graph, sums over them, and connected components."""

from __future__ import annotations

import numpy as np
import torch

from eigenprobe.neighbors.graph import Edges, undirected


def test_sums_over_edges_are_loops(rng: np.random.Generator) -> None:
    """Undirected edges of lists, with and without a mask: each once, and where it stands; sums at
    either end.
    """
    indices = torch.from_numpy(
        np.stack([rng.permutation(np.delete(np.arange(12), i))[:4] for i in range(12)])
    )
    keep = torch.from_numpy(rng.random((12, 4)) < 0.6)
    for mask in (None, keep):
        edges, place = undirected(indices, mask)
        entries = [
            (i, int(j)) for i in range(12) for j in indices[i][... if mask is None else mask[i]]
        ]
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


def test_no_edges_have_no_moments() -> None:
    edges = Edges(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 4)
    nothing = torch.zeros(0, 3)
    assert edges.moments(torch.zeros(0), nothing, nothing).tolist() == torch.zeros(4, 3, 3).tolist()
