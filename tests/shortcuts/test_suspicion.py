"""Tests of the suspicious edges of `shortcuts.cuts`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenprobe.graph.graph import build_graph
from eigenprobe.sampling.farthest import farthest_points
from eigenprobe.search.layout import Segments
from eigenprobe.shortcuts import cuts as suspicion
from eigenprobe.shortcuts.cuts import find_suspects, shipped
from eigenprobe.shortcuts.network import EDGE, NODE, SUSPICION
from tests.lab.factory.test_neighbours import sheets, sphere


def test_mild_suspicion_alone_is_not_looked_at() -> None:
    """One of 18 neighbours 0.1 off the sphere: residuals up to 0.29 of the spacing, none of them strong."""
    x = sphere(1000)
    x[0] *= 1.1
    graph = build_graph(x, 30)
    mild = find_suspects(graph, replace(SUSPICION, strong=SUSPICION.residual, together=1))
    assert mild is not None and 0.2 < float(mild.points[:, 11].max()) < SUSPICION.strong
    assert find_suspects(graph) is None
    x[0] *= 1.1
    assert find_suspects(build_graph(x, 30)) is not None


def test_inputs_do_not_depend_on_pose_scale_or_order() -> None:
    x = sheets(1.5, m=16)
    x = x + 0.1 * x[:, :1] ** 2  # no symmetry: its canonical pose is unique
    turn = torch.linalg.qr(torch.randn((3, 3), generator=torch.Generator().manual_seed(1), dtype=torch.float64))[0]
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(2))
    first, second = find_suspects(build_graph(x, 30)), find_suspects(build_graph((7 * x @ turn)[order] + 3, 30))
    assert first is not None and second is not None
    assert first.points.shape[1] == NODE and first.pairs.shape[1] == EDGE
    key = lambda s, rows: {tuple(sorted(pair)): i for i, pair in enumerate(rows.tolist())}  # noqa: E731
    ours = key(first, torch.stack([first.nodes[first.edges.head], first.nodes[first.edges.tail]], 1))
    theirs = key(second, order[torch.stack([second.nodes[second.edges.head], second.nodes[second.edges.tail]], 1)])
    shared = sorted(set(ours) & set(theirs))
    assert len(shared) > 0.98 * len(ours)
    logits = [shipped()(s) for s in (first, second)]
    left = logits[0][[ours[pair] for pair in shared]]
    right = logits[1][[theirs[pair] for pair in shared]]
    assert float(((left > 1) == (right > 1)).float().mean()) > 0.97


def test_landmarks_of_a_large_cloud_are_the_same_alone_and_in_a_stack() -> None:
    """Above 2 x 2000 points candidates are every second one, whichever other clouds are there."""
    from eigenprobe.search.layout import Segments
    from eigenprobe.shortcuts.cuts import _landmarks

    x = sphere(9100).float()
    for sizes in ((4100, 5000), (4550, 4550), (300, 8800)):
        parts = x.split(list(sizes))
        stacked = _landmarks(x, Segments(sizes, x.device), 40)
        for i, (part, first) in enumerate(zip(parts, (0, sizes[0]), strict=True)):
            alone = _landmarks(part, Segments((len(part),), x.device), 40)
            assert torch.equal(stacked[i] - first, alone[0])


def test_landmarks_are_farthest_of_a_regular_subset(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every third row of 300 where 100 are looked at; alone and in a stack the same."""
    monkeypatch.setattr(suspicion, "CANDIDATES", 100)
    clouds = [torch.from_numpy(rng.normal(size=(n, 3))) for n in (300, 250)]
    alone = []
    for x in clouds:
        rows = suspicion._landmarks(x, Segments((len(x),), x.device), 12)[0]
        step = len(x) // 100
        assert bool((rows % step == 0).all()) and len(rows.unique()) == 12
        torch.testing.assert_close(rows, step * farthest_points(x[::step], 12))
        alone.append(rows)
    both = suspicion._landmarks(torch.cat(clouds), Segments((300, 250), clouds[0].device), 12)
    assert bool((both[0] == alone[0]).all()) and bool((both[1] == alone[1] + 300).all())
