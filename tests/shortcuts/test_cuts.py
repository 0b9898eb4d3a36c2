"""Tests of `shortcuts.cuts`."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.errors import EigenprobeWarning
from eigenprobe.graph.arranged import Arranged
from eigenprobe.graph.graph import build_graph
from eigenprobe.shortcuts.cuts import (
    DECISION,
    MOVED,
    SUSPICION,
    VOXELS,
    Decision,
    _on_a_grid,
    _quantiles,
    _share_of,
    decide,
    find_suspects,
    keep_only,
    real_neighbours,
    shipped,
    without_short_cuts,
)
from tests.lab.factory.test_neighbours import sheets, sphere


def test_a_sphere_has_nothing_suspicious() -> None:
    graph = build_graph(sphere(1000), 30)
    assert find_suspects(graph) is None
    same, cut, (kept, likely) = real_neighbours(graph)
    assert same is graph and len(cut) == len(kept) == len(likely) == 0


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


def test_every_judged_edge_is_cut_or_kept_with_its_probability() -> None:
    """Two sheets two spacings apart: logits are log odds, six times too large by the weight of short-cuts in training;
    cut edges are not among those of the graph."""
    graph = build_graph(sheets(2.0, m=16), 30)
    suspects = find_suspects(graph)
    assert suspects is not None
    logits = shipped()(suspects).detach()
    cut = decide(graph, suspects, logits)[0]
    ends = torch.stack([suspects.nodes[suspects.edges.head], suspects.nodes[suspects.edges.tail]], 1)
    real, pairs, (kept, likely) = real_neighbours(graph)
    assert 0 < len(pairs) < len(suspects) and torch.equal(pairs, ends[cut]) and torch.equal(kept, ends[~cut])
    odds = logits[~cut].double().exp() / 6
    torch.testing.assert_close(likely.double(), odds / (1 + odds), rtol=1e-4, atol=1e-7)
    entries = {(i, int(j)) for i, row in enumerate(real.indices.tolist()) for j in row[: SUSPICION.judged]}
    assert not any((a, b) in entries or (b, a) in entries for a, b in pairs.tolist())


def test_thresholds_move_from_one_end_to_the_other_and_quantiles_are_those_of_groups() -> None:
    assert _share_of(torch.tensor([0.0, 0.1, 0.35, 0.6, 2.0]), (0.1, 0.6)).tolist() == pytest.approx([0, 0, 0.5, 1, 1])
    values, group = torch.tensor([5.0, 1.0, 3.0, 9.0, 7.0, 2.0]), torch.tensor([0, 0, 0, 2, 0, 0])
    assert _quantiles(values, group, 4, 0.5).tolist() == [3.0, torch.inf, 9.0, torch.inf]
    assert _quantiles(values, group, 3, 0.25).tolist() == [2.0, torch.inf, 9.0]
    draw = torch.Generator().manual_seed(0)
    values, group = torch.rand(28, generator=draw), torch.arange(7).repeat_interleave(torch.arange(1, 8))
    group = group[torch.randperm(28, generator=draw)]
    for share in (0.0, 0.5, 0.9, 1.0):
        expected = [float(values[group == g].sort().values[int(g * share)]) for g in range(7)]
        assert _quantiles(values, group, 7, share).tolist() == pytest.approx(expected)


def test_the_network_must_be_surer_of_points_that_were_moved_and_of_voxels() -> None:
    graph = build_graph(sheets(1.2, m=20), 30)
    ways = (DECISION, MOVED, VOXELS)
    cuts = [{tuple(pair) for pair in real_neighbours(graph, decision=each)[1].tolist()} for each in ways]
    assert cuts[2] < cuts[1] < cuts[0]


def test_voxels_are_known_by_their_few_coordinates() -> None:
    x = sphere(3000)
    assert not _on_a_grid(x) and not _on_a_grid(sheets(2.0))
    voxels = ((16 * x).floor() + 0.5).unique(dim=0) / 16
    assert _on_a_grid(voxels) and not _on_a_grid(voxels @ torch.linalg.qr(x[:3])[0])


def test_rows_that_lost_neighbours_keep_the_others_with_their_lengths() -> None:
    generator = torch.Generator().manual_seed(0)
    graph = build_graph(sphere(300), 12)
    kept = torch.rand(300, 8, generator=generator) > 0.4
    kept[5] = False
    found = keep_only(graph, kept)
    for row in range(300):
        real = [j for j in range(8) if kept[row, j]] or [0]
        if bool(kept[row].all()):
            real = list(range(12))
        chosen = real + [real[0]] * (12 - len(real))
        assert found.indices[row].tolist() == graph.indices[row, chosen].tolist(), row
        assert found.distances[row].tolist() == graph.distances[row, chosen].tolist(), row


def test_many_cuts_of_cleaned_points_are_layers_of_one_surface() -> None:
    """Two sheets near each other: cut where the points came so, and left where noise was found in them."""
    cloud = Arranged.plain(points := sheets(1.2, m=40), graph=build_graph(points, 30))
    cut, _ = without_short_cuts(cloud, dimension=2.0)
    assert cut.short_cuts is not None and len(cut.short_cuts) > len(points)
    with pytest.warns(EigenprobeWarning, match="points lie in layers.*taken for one surface"):
        same, dimension = without_short_cuts(cloud, dimension=2.0, moved=True)
    assert same is cloud and dimension == 2.0
    few = Arranged.plain(points := sheets(1.2, m=20), graph=build_graph(points, 30))
    judged, _ = without_short_cuts(few, dimension=2.0, moved=True)
    assert judged.short_cuts is not None and len(judged.short_cuts) > 0
