"""Tests of the suspicious edges of `shortcuts.cuts`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenprobe.graph.graph import build_graph, undirected
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


def _loops(x: np.ndarray, lists: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Spacing, residual and inputs of every point ``(n, NODE)``, and normals ``(n, 3, 3)`` by scale, point by point."""
    n = len(x)
    offsets = x[lists] - x[:, None]
    far = np.linalg.norm(offsets, axis=2)
    own = np.log(np.sqrt((far[:, :6] ** 2).mean(1)))
    h = np.exp((own + own[lists[:, :6]].sum(1)) / 7)
    centred = x - x.mean(0)
    rms = np.sqrt((centred**2).sum(1).mean())
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    axes = axes * np.where(((centred @ axes) ** 3).sum(0) < 0, -1, 1)
    residual, points, normals = np.zeros(n), np.zeros((n, NODE)), np.zeros((n, 3, 3))
    for i in range(n):
        o = offsets[i]
        about = o - o.mean(0)
        value, frame = np.linalg.eigh(about.T @ about)
        if value[0] > 0.02 * value[2]:
            scale = np.sqrt((o**2).sum(1).max())
            z, v, u = (o @ frame / scale).T
            terms = np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], 1)
            weights = np.linalg.solve(terms.T @ terms + 1e-4 * np.eye(6), terms.T @ z)
            residual[i] = np.sqrt(((z - terms @ weights) ** 2).mean()) * scale / h[i]
        row: list[float] = []
        for s, count in enumerate((7, 12, 18)):
            value, frame = np.linalg.eigh(o[:count].T @ o[:count])
            row += [value[0] / value[2], value[1] / value[2]]
            normals[i, s] = frame[:, 0]
        row += [far[i, j] / h[i] for j in (0, 2, 5, 10, 17)] + [min(3, residual[i]), float(residual[i] > 0.2)]
        row += [np.log(h[i] / rms), np.log(h[i]) - np.log(h).mean()]
        turned, place = normals[i, 1] @ axes, centred[i] @ axes / rms
        row += [turned[a] * turned[b] for a in range(3) for b in range(a, 3)]
        points[i] = [*row, *place, *np.sin(3 * place), *np.cos(3 * place), *np.sin(6 * place), *np.cos(6 * place)]
    return h, residual, points, normals


def _edge(i: int, j: int, x: np.ndarray, lists: np.ndarray, h: np.ndarray, normals: np.ndarray) -> list[float]:
    """The inputs of one edge."""
    chord = x[j] - x[i]
    d = np.linalg.norm(chord)
    ranks = sorted(int(np.flatnonzero(lists[a] == b)[0]) for a, b in ((i, j), (j, i)) if b in lists[a])
    ranks = [*ranks, 1.2 * 18] if len(ranks) == 1 else ranks
    others = [p for p in {*lists[i], *lists[j]} if p not in (i, j)]
    gap = min([3.0, *(np.linalg.norm(x[p] - (x[i] + x[j]) / 2) / d for p in others)])
    detour = min([3.0, *(max(np.linalg.norm(x[p] - x[i]), np.linalg.norm(x[p] - x[j])) / d for p in others)])
    row = [*sorted((d / h[i], d / h[j])), abs(np.log(h[i] / h[j])), ranks[0] / 18, ranks[1] / 18, gap, detour]
    row += [len(set(lists[i][:count]) & set(lists[j][:count])) / count for count in (7, 12, 18)]
    tilts = []
    for s in range(3):
        low, high = sorted(abs(normals[end, s] @ chord) / d for end in (i, j))
        row += [abs(normals[i, s] @ normals[j, s]), low, high]
        tilts.append(min(6, high * d / np.sqrt(h[i] * h[j])))
    return row + tilts


def test_inputs_are_their_formulas() -> None:
    """Of every point and edge that is looked at, by loops in double precision; few normals are ambiguous."""
    x = sheets(1.3, m=14)
    x = x[(x[:, 2] == 0) | (x[:, 0] > 0.6)]  # the second sheet covers a part of the first
    x = x + 0.15 * x[:, :1] ** 2 + torch.tensor([0.3, 0.1, 0.0]) * x[:, 1:2] ** 3
    graph = build_graph(x, 30)
    found = find_suspects(graph)
    assert found is not None
    y, lists = x.numpy(), graph.indices[:, :18].numpy()
    h, residual, points, normals = _loops(y, lists)
    strong = residual > SUSPICION.strong
    looked = (residual > SUSPICION.residual) & (strong + strong[lists].sum(1) >= SUSPICION.together)
    nodes = found.nodes.numpy()
    assert 20 < looked.sum() < len(x) and set(nodes) >= set(np.flatnonzero(looked)) | set(lists[looked].ravel())
    assert (np.abs(found.points.numpy() - points[nodes]) < 5e-3).mean(0).min() > 0.97
    pairs = list(zip(nodes[found.edges.head], nodes[found.edges.tail], strict=True))
    near = looked.copy()
    near[lists[looked].ravel()] = True
    both = [(i, int(j)) for i in range(len(x)) for j in lists[i] if looked[i] or (looked[j] and near[i])]
    wanted = {(min(pair), max(pair)) for pair in both}
    assert set(pairs) == wanted and len(pairs) == len(wanted)
    some = np.arange(0, len(pairs), 7)
    rows = np.array([_edge(*pairs[e], y, lists, h, normals) for e in some])
    assert (np.abs(found.pairs.numpy()[some] - rows) < 5e-3).mean(0).min() > 0.97
    among = (rows[:, 3] * 18 < SUSPICION.message - 0.5) == found.message.numpy()[some]
    assert among.all()
    for i in range(0, len(x), 5):
        for entry, j in zip(found.entry[i].tolist(), lists[i], strict=True):
            pair = (min(i, j), max(i, j))
            assert (entry == -1 and pair not in wanted) or pairs[entry] == pair


def test_residuals_and_tilts_are_bounded() -> None:
    """Three spacings from a quadric, and six of an edge across a plane, are as bad as any other."""
    x = sheets(1.3, m=8)
    x = x + 0.15 * x[:, :1] ** 2
    index = build_graph(x, 18).indices
    single, n = x.float(), len(x)
    offsets = (single[index] - single[:, None]).permute(2, 0, 1).contiguous()
    distance = offsets.norm(dim=0)
    h, _, points, normals = _loops(x.numpy(), index.numpy())
    near = suspicion._Neighbourhoods(single, index, offsets, distance, torch.from_numpy(h / 9).float())
    residual, nodes = torch.linspace(0, 6, n), torch.arange(n)
    clouds = Segments((n,), x.device)
    found, axes = near.points(nodes, residual, residual > 1, torch.zeros_like(nodes), clouds)
    torch.testing.assert_close(found[:, 11], residual.clamp(max=3))
    assert torch.equal(found[:, 12], (residual > 1).float())
    torch.testing.assert_close(found[:, 6:11].numpy() / 9, points[:, 6:11].astype(np.float32), rtol=1e-3, atol=1e-3)
    edges, _ = undirected(index)
    pairs = near.pairs(edges, torch.zeros(2, len(edges)), axes, nodes)
    some = range(0, len(edges), 5)
    rows = np.array(
        [_edge(int(edges.head[e]), int(edges.tail[e]), x.numpy(), index.numpy(), h / 9, normals) for e in some]
    )
    assert (np.abs(pairs[::5, 19:].numpy() - rows[:, 19:]) < 0.02).mean(0).min() > 0.95
    assert (rows[:, 19:] == 6).any() and np.median(rows[:, 19:]) > 1
