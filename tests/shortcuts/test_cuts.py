"""Tests of `shortcuts.cuts`."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.graph.arranged import Arranged
from eigenprobe.graph.graph import Graph, build_graph, stack
from eigenprobe.shortcuts import cuts
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


def test_which_graphs_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Surfaces in space, by lengths, of eighteen neighbours; what is cut decides whether sheets are layers of one."""
    points = sheets(1.2, m=12)
    cloud = Arranged.plain(points, graph=build_graph(points, 18))
    asked: list[Decision] = []
    count = [3]

    def judge(graph: Graph, decision: Decision) -> object:
        asked.append(decision)
        return graph, torch.zeros(count[0], 2), ("kept", "likely")

    monkeypatch.setattr(cuts, "real_neighbours", judge)
    for dimension, told in ((2.0, 1), (1.6, 1), (2.4, 1), (1.4, 0), (2.6, 0)):
        asked.clear()
        found, same = without_short_cuts(cloud, dimension=dimension)
        assert len(asked) == told and (found is cloud) == (not told) and same == dimension
    for neighbours, told in ((None, 1), ("learned", 1), ("plain", 0), (18, 0)):
        asked.clear()
        assert (without_short_cuts(cloud, neighbours, 2.0)[0] is cloud) == (not told) and len(asked) == told
    asked.clear()
    for graph in (
        cloud.graph.truncate(17),
        build_graph(points + 1, 18, metric="cosine"),
        build_graph(points[:, :2], 18),
    ):
        other = replace(cloud, graph=graph)
        assert without_short_cuts(other, dimension=2.0)[0] is other and not asked
    with pytest.raises(InputError, match="'learned', 'plain' or a whole number, got 'no'"):
        without_short_cuts(cloud, "no", 2.0)  # type: ignore[arg-type]
    found, _ = without_short_cuts(cloud, dimension=2.0)
    assert found.short_cuts is not None and len(found.short_cuts) == 3 and found.doubts == ("kept", "likely")
    assert without_short_cuts(Arranged.plain(points, graph=build_graph(points, 30)))[1] == 2.0  # its own estimate
    voxels = torch.stack(torch.meshgrid(*[torch.arange(20.0)] * 2, torch.zeros(1), indexing="ij"), -1).reshape(-1, 3)
    grid = Arranged.plain(voxels, graph=build_graph(voxels.double(), 18))
    asked.clear()
    for each, moved in ((cloud, False), (cloud, True), (grid, False), (grid, True)):
        without_short_cuts(each, dimension=2.0, moved=moved)
    assert asked == [DECISION, MOVED, VOXELS, VOXELS]
    for least, pairs, moved, layers in (
        (288, 145, True, 1),
        (288, 144, True, 0),
        (289, 145, True, 0),
        (288, 145, False, 0),
    ):
        monkeypatch.setattr(cuts, "LAYERS", (least, 0.5))
        count[0] = pairs
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert (without_short_cuts(cloud, dimension=2.0, moved=moved)[0] is cloud) == bool(layers) == bool(said)


def test_grids_have_few_coordinates_of_those_that_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.arange(160)[:, None].expand(160, 3) % 20.0
    assert not _on_a_grid(x) and _on_a_grid(x.clamp_max(18))  # 20 of 160 are an eighth
    mixed = x.clamp_max(18).clone()
    mixed[:, 1] = torch.arange(160.0)
    assert not _on_a_grid(mixed)
    monkeypatch.setattr(cuts, "LOOKED", 50)
    far = torch.arange(160)[:, None].expand(160, 3) * 1.0
    far[::3] = 1.0  # every third is looked at
    assert _on_a_grid(far.contiguous())


def test_thresholds_are_their_formula() -> None:
    """By the deviation of the logarithm of the spacing of a cloud, and by its share of suspicious points."""
    parts = [sheets(1.3, m=12), 2 * sheets(1.6, m=13, jitter=0.4, seed=3)]
    parts = [x[(x[:, 2] == 0) | (x[:, 0] > 0.6 * x[:, 0].max())] for x in parts]  # one sheet covers a part of the other
    graph = stack([build_graph(x, 18) for x in parts])
    suspects = find_suspects(graph)
    assert suspects is not None
    decision = Decision(threshold=2.0, bold=-1.0, doubtful=(-0.3, 1.9), careful=7.0, uneven=(-0.5, 1.5))
    found = cuts._thresholds(graph, suspects, decision)
    for i, (x, value) in enumerate(zip(parts, found.tolist(), strict=True)):
        near = np.sort(np.linalg.norm(x.numpy()[:, None] - x.numpy(), axis=2), 1)[:, 1:7]
        deviation = np.log(np.sqrt((near**2).mean(1))).std(ddof=1)
        share = int(suspects.suspicious[suspects.owner == i].sum()) / len(x)
        assert 0.1 < share < 1
        usual = 2 - 3 * (share + 0.3) / 2.2
        assert value == pytest.approx(usual + (7 - usual) * (deviation + 0.5) / 2, rel=1e-4)


def _decided(
    graph: Graph, ends: list[tuple[int, int]], logits: np.ndarray, limit: float, decision: Decision, entry: np.ndarray
) -> np.ndarray:
    """`decide` of one cloud, edge by edge."""
    cut, settled = logits > limit, np.zeros(len(logits), bool)
    for _ in range(decision.rounds if cut.any() else 0):
        links = []
        for i in range(graph.n):
            real = [j for j in range(entry.shape[1]) if entry[i, j] < 0 or not cut[entry[i, j]]]
            links += [(i, int(graph.indices[i, j])) for j in real[: decision.near]]
        joined = coo_array((np.ones(len(links)), np.transpose(links)), shape=(graph.n, graph.n))
        count, label = connected_components(joined, directed=False)
        size = np.bincount(label)
        between = np.array([label[i] != label[j] for i, j in ends]) & ~settled
        if count == 1 or not (between & cut).any():
            break
        smaller = np.array([label[i] if size[label[i]] < size[label[j]] else label[j] for i, j in ends])
        before = cut.copy()
        for part in set(smaller[between]):
            own = between & (smaller == part)
            values, lost = np.sort(logits[own]), np.sort(logits[own & before])
            if size[part] >= decision.part and values[int((len(values) - 1) * 0.1)] > decision.sure:
                settled |= own
                cut |= own
            elif len(lost):
                cut &= ~(own & (logits <= lost[int((len(lost) - 1) * 0.5)]))
            else:
                cut &= ~own
    return cut


@pytest.mark.parametrize("seed", range(6))
def test_cuts_are_decided_as_by_loops(seed: int) -> None:
    """Parts that are cut off are joined again by their least likely edges, or split off where nearly all are sure."""
    rng = np.random.default_rng(seed)
    graph = build_graph(sheets(1.5, m=8, seed=seed)[: 128 - 7 * seed], 18)  # parts of different sizes
    suspects = find_suspects(graph)
    assert suspects is not None
    ends = list(
        zip(*(suspects.nodes[each].tolist() for each in (suspects.edges.head, suspects.edges.tail)), strict=True)
    )
    between = np.array([(i < 64) != (j < 64) for i, j in ends])
    logits = np.where(between, 3.0, 0.5) + rng.normal(size=len(ends)) * (1.5 if seed % 2 else 0.6)
    logits = logits.astype(np.float32)
    decision = Decision(part=12, sure=1.5 if seed < 4 else 2.4, certain=3.0)
    limit = float(cuts._thresholds(graph, suspects, decision)[0])
    cut, doubtful = decide(graph, suspects, torch.from_numpy(logits), decision)
    expected = _decided(graph, ends, logits, limit, decision, suspects.entry.numpy())
    assert 0 < expected.sum() < len(ends) and np.array_equal(cut.numpy(), expected)
    assert not bool((doubtful & ~cut).any()) and bool((logits[doubtful.numpy()] < 3).all())


def test_sums_of_products_have_variances_and_axes(rng: np.random.Generator) -> None:
    offsets = rng.normal(size=(3, 20, 9)) * np.array([3.0, 1.0, 0.2])[:, None, None]
    variance, axes = cuts._spectrum(cuts._products(torch.from_numpy(offsets).float()).sum(2))
    for i in range(20):
        value, frame = np.linalg.eigh(offsets[:, i] @ offsets[:, i].T)
        np.testing.assert_allclose(variance[i], value / value.sum(), atol=1e-5)
        np.testing.assert_allclose(np.abs(frame.T @ axes[i].numpy()), np.eye(3), atol=1e-3)
    zero, _ = cuts._spectrum(torch.zeros(6, 2))
    assert zero.tolist() == [[0, 0, 0]] * 2


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_variances_do_not_depend_on_the_unit_and_are_not_negative(scale: float, rng: np.random.Generator) -> None:
    flat = rng.normal(size=(3, 200, 9)) * np.array([1.0, 1.0, 0.0])[:, None, None]
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    offsets = torch.from_numpy(scale * np.einsum("ab,bnk->ank", turn, flat))
    variance, _ = cuts._spectrum(cuts._products(offsets).sum(2))
    assert float(variance.min()) >= 0 and float(variance[:, 0].max()) < 1e-6
    torch.testing.assert_close(variance.sum(1), torch.ones(200), rtol=1e-5, atol=0)
