"""Tests of `shortcuts.cuts`."""

from __future__ import annotations

import torch

from eigenprobe.graph.graph import build_graph
from eigenprobe.shortcuts.cuts import DECISION, Decision, decide, find_suspects, real_neighbours
from tests.lab.factory.test_neighbours import sheets, sphere


def test_a_sphere_has_nothing_suspicious() -> None:
    graph = build_graph(sphere(1000), 30)
    assert find_suspects(graph) is None
    same, cut = real_neighbours(graph)
    assert same is graph and len(cut) == 0


def test_a_part_is_split_off_only_where_nearly_all_edges_are_sure() -> None:
    graph = build_graph(sheets(2.0, m=16), 30)
    suspects = find_suspects(graph)
    assert suspects is not None
    between = (suspects.nodes[suspects.edges.head] < 256) != (suspects.nodes[suspects.edges.tail] < 256)
    sure = torch.where(between, 6.0, -3.0)
    assert torch.equal(decide(graph, suspects, sure)[0], between)
    missed = sure.clone()
    missed[between.nonzero()[::40, 0]] = -0.5  # edges that would join the sheets again are cut with the others
    assert torch.equal(decide(graph, suspects, missed)[0], between)
    unsure = torch.where(between, 1.0 + 0.0005 * torch.arange(len(suspects)), -3.0)
    cut, doubtful = decide(graph, suspects, unsure)
    assert torch.equal(doubtful, cut & suspects.among(DECISION.adjacent))
    assert 0 < int(cut.sum()) < int(between.sum()) and not bool((cut & ~between).any())
    assert not bool(decide(graph, suspects, sure, Decision(threshold=9.0, bold=9.0))[0].any())
