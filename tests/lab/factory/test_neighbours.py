"""Short-cuts: labels against Dijkstra, laws of the judgement, what is cut and what is kept, and a run that resumes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.graph import stack
from eigenprobe.graph.graph import build_graph
from eigenprobe.sampling.farthest import farthest_points
from eigenprobe.shortcuts.cuts import DECISION, Decision, decide, real_neighbours, shipped
from eigenprobe.shortcuts.network import ShortcutConfig, ShortcutNetwork, read_shortcut, write_shortcut
from eigenprobe.shortcuts.suspicion import EDGE, NODE, SUSPICION, find_suspects
from eigenprobe_lab.factory.neighbours import (
    Clouds,
    ContactStream,
    NeighbourModule,
    NeighbourSettings,
    train_neighbours,
)
from eigenprobe_lab.factory.timed import Schedule
from eigenprobe_lab.shapes.contacts import LONGEST, Fold, Spread, folded, links, ratios, spread_order, spread_rows
from eigenprobe_lab.shapes.dense import Dense, DenseShapes

TINY = NeighbourSettings(
    network=ShortcutConfig(width=16, rounds=2, heads=2, depth=1, views=2),
    clouds=Clouds(chunk=3, chunks=1, dense=900, points=600, sources=90, sizes=(200, 300)),
    schedule=Schedule(steps=4, minutes=10, optimiser="adamw", adam_rate=1e-3),
    block=2,
    passes=1,
    checkpoint_every=1,
)


def sheets(gap: float, m: int = 28, jitter: float = 0.2, seed: int = 0) -> Tensor:
    """Two parallel unit squares of m x m points, ``gap`` spacings apart."""
    generator = torch.Generator().manual_seed(seed)
    grid = torch.stack(torch.meshgrid(torch.arange(m), torch.arange(m), indexing="ij"), -1).reshape(-1, 2).double() / m
    both = [grid + jitter / m * torch.randn(grid.shape, generator=generator, dtype=torch.float64) for _ in range(2)]
    heights = [torch.full((m * m, 1), height, dtype=torch.float64) for height in (0.0, gap / m)]
    return torch.cat([torch.cat(pair, 1) for pair in zip(both, heights, strict=True)])


def sphere(n: int) -> Tensor:
    x = torch.randn((n, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x / x.norm(dim=1, keepdim=True)


def capsule(n: int = 3000) -> Dense:
    """A cylinder of radius 0.1 and length 2 with its outward normals, independent points."""
    t = torch.rand((n, 2), generator=torch.Generator().manual_seed(0)) * torch.tensor([2 * torch.pi, 2.0])
    normals = torch.stack([t[:, 0].cos(), t[:, 0].sin(), torch.zeros(n)], 1)
    points = torch.stack([0.1 * normals[:, 0], 0.1 * normals[:, 1], t[:, 1] - 1], 1)
    return Dense(points[None], normals[None], torch.zeros((1, n), dtype=torch.int64))


def test_vertices_gather_across_bends_and_at_tips() -> None:
    """Across a cylinder of radius r normals turn by 1/r: vertices lie sqrt(1 + (beta/r)^2) times as close as along."""
    shape, plain = capsule(), Spread(waves=0.0, tips=(0.0, 0.0), irregular=0.0, spare=1.0, bend=(1e-6, 1e-6))
    generator = torch.Generator().manual_seed(0)
    even = spread_order(shape, 300, generator, plain)
    torch.testing.assert_close(even, farthest_points(shape.points, 300, start=0))

    def packing(order: Tensor, beta: float) -> float:
        """Smallest distance over the mean spacing on the cylinder of radius R = hypot(0.1, beta), area 4 pi R."""
        radius = float(np.hypot(0.1, beta))
        x = shape.points[0, order[0]].double() * torch.tensor([radius / 0.1] * 2 + [1.0])
        return float(build_graph(x, 1).distances.min()) / (4 * np.pi * radius / 300) ** 0.5

    bent = spread_order(shape, 300, generator, Spread(0, 1, 1.0, (0.2, 0.2), 0.0, (0.0, 0.0), 0.0))
    found = packing(even, 0.0), packing(bent, 0.2), packing(even, 0.2), packing(bent, 0.0)
    assert min(found[:2]) > 0.7 and max(found[2:]) < 0.6, found
    tips = spread_order(shape, 300, generator, Spread(0, 1, 1.0, (1e-6, 1e-6), 0.0, (3.0, 3.0), 0.0))
    height = shape.points[0, tips[0], 2].abs()
    # The density follows exp(3 |z|): its share beyond the middle of each half is (e^3 - e^1.5) / (e^3 - 1) = 0.82.
    assert 0.77 < float((height > 0.5).float().mean()) < 0.87


def test_every_way_of_sampling_gives_different_points_of_the_shape() -> None:
    shape, generator = capsule(900), torch.Generator().manual_seed(0)
    order = spread_order(shape, 200, generator)
    assert order.shape == (1, 300)
    for way in (Spread(even=1.0), Spread(even=0.0, vertices=1.0), Spread(even=0.0, vertices=0.0)):
        rows = spread_rows(shape.points, order, 200, generator, way)
        assert rows.shape == (1, 200) and len(rows.unique()) == 200
    assert torch.equal(spread_rows(shape.points, order, 200, generator, Spread(even=1.0))[0], torch.arange(200))


def test_ratios_are_dijkstras() -> None:
    shapes = DenseShapes(3, touching=0.0).dense(2, 700, 0)
    graph = links(shapes)
    chosen = torch.arange(120).expand(2, 120)
    sources = torch.tensor([[0, 7, 50], [3, 9, 80]])
    targets = torch.randint(120, (2, 3, 10), generator=torch.Generator().manual_seed(0))
    found = ratios(shapes.points, graph, chosen, sources, targets)
    for i in range(2):
        index, length = (part[i].numpy() for part in graph)
        rows, columns = np.nonzero(np.isfinite(length))
        matrix = csr_array((length[rows, columns], (index[rows, columns], rows)), shape=(700, 700))
        exact = dijkstra(matrix.T.tocsr(), indices=sources[i].numpy())  # paths over links read from the target's row
        reverse = dijkstra(matrix, indices=sources[i].numpy())
        for s in range(3):
            chord = (shapes.points[i, targets[i, s]] - shapes.points[i, sources[i, s]]).norm(dim=1).clamp_min(1e-9)
            either = [torch.as_tensor(d[s][targets[i, s].numpy()]) / chord for d in (exact, reverse)]
            close = [torch.isclose(found[i, s].double(), e.clamp_max(LONGEST).double(), atol=1e-4) for e in either]
            assert bool((close[0] | close[1]).all())


def test_no_path_leads_across() -> None:
    """Two sheets nearer than the dense spacing, facing away from each other: all edges between them are short-cuts."""
    x = sheets(0.5, m=20)[None].float()
    normals = torch.zeros_like(x)
    normals[:, :400, 2], normals[:, 400:, 2] = -1.0, 1.0
    graph = links(Dense(x, normals, torch.zeros(x.shape[:2], dtype=torch.int64)))
    sources, targets = torch.tensor([[210]]), torch.tensor([[[211, 230, 610, 611]]])
    found = ratios(x, graph, torch.arange(800)[None], sources, targets)[0, 0]
    assert bool((found[:2] < 1.4).all()) and bool((found[2:] == LONGEST).all())


def test_pairs_in_contact_have_two_parts() -> None:
    shapes = DenseShapes(1, touching=1.0).dense(2, 600, 0)
    assert shapes.points.shape == (2, 600, 3) and bool((shapes.points.norm(dim=2) < 1.001).all())
    torch.testing.assert_close(shapes.normals.norm(dim=2), torch.ones(2, 600))
    assert all(set(part.unique().tolist()) == {0, 1} for part in shapes.part)


def test_folded_limbs_touch_in_space_and_not_on_the_surface() -> None:
    """The two prongs of a fork, half a unit apart, are brought to the gap; their way round stays more than a unit."""
    t, angle = torch.meshgrid(torch.arange(60) / 30, torch.arange(12) * torch.pi / 6, indexing="ij")
    ring = torch.stack([torch.zeros_like(angle), angle.cos(), angle.sin()], -1)
    prong = torch.stack([t, 0 * t, 0 * t], -1) + 0.05 * ring
    arch = torch.arange(24) / 24 * torch.pi
    bend = torch.stack([-0.25 * arch.sin(), 0.25 * arch.cos(), 0 * arch], 1)[:, None]
    out = torch.stack([-arch.sin(), arch.cos(), 0 * arch], 1)[:, None]
    around = angle[:1, :, None].cos() * out + angle[:1, :, None].sin() * torch.tensor([0.0, 0.0, 1.0])
    points = torch.cat([prong + torch.tensor([0, 0.25, 0]), bend + 0.05 * around, prong - torch.tensor([0, 0.25, 0])])
    normals = torch.cat([ring, around, ring]).reshape(1, -1, 3)
    points = points.reshape(1, -1, 3)
    shapes = Dense(points, normals, torch.zeros(points.shape[:2], dtype=torch.int64))
    graph = links(shapes)
    fold = Fold(share=1.0, gap=(0.02, 0.02), reach=0.6)
    moved, (index, length) = folded(shapes, graph, torch.Generator().manual_seed(0), fold)
    ends = (moved.points[0][index[0]] - moved.points[0][:, None]).norm(dim=2)
    kept = torch.isfinite(graph[1][0])
    assert torch.equal(torch.isfinite(length[0]), kept)
    torch.testing.assert_close(length[0][kept], ends[kept])
    upper, lower = moved.points[0][: 60 * 12], moved.points[0][-60 * 12 :]
    assert float(torch.cdist(points[0, : 60 * 12], points[0, -60 * 12 :]).min()) > 0.39
    i, j = divmod(int(torch.cdist(upper, lower).argmin()), 60 * 12)
    assert float((upper[i] - lower[j]).norm()) < 0.1
    chosen = torch.tensor([[i, points.shape[1] - 60 * 12 + j]])
    one = torch.zeros((1, 1), dtype=torch.int64)
    assert float(ratios(moved.points, (index, length), chosen, one, one[..., None] + 1)) == LONGEST


def test_a_sphere_has_nothing_suspicious() -> None:
    graph = build_graph(sphere(1000), 30)
    assert find_suspects(graph) is None
    same, cut = real_neighbours(graph)
    assert same is graph and len(cut) == 0


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


@pytest.mark.parametrize("gap", [2.0, 2.5, 3.0])
def test_two_sheets_are_two_parts(gap: float) -> None:
    x = sheets(gap)
    with pytest.warns(EigenprobeWarning, match="2 separate parts"):
        basis = ep.decompose(x.numpy(), k=6, dimension=2)
    half = len(x) // 2
    v = basis.vectors[:, 1]
    assert basis.eigenvalues[1] < 1e-8 and np.ptp(v[:half]) < 1e-6 and abs(v[0] - v[-1]) > 1
    assert basis.info["short_cuts"] == len(basis.short_cuts) > 0
    between = (basis.short_cuts < half).sum(1) == 1
    assert between.mean() > 0.9, "hardly any edge within a sheet is cut"


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


def test_the_shipped_network_beats_random_weights_and_its_best_input() -> None:
    """Area under the curve of short-cuts against others, on procedural shapes of another seed."""
    settings = NeighbourSettings(
        seed=77, clouds=Clouds(chunk=3, chunks=1, dense=1500, points=1500, sources=300, sizes=(500,)), block=2
    )
    stream = ContactStream(settings)
    batches = [stream.at(i) for i in range(2)]
    torch.manual_seed(0)
    random = ShortcutNetwork(shipped().config)
    random.normalise_by(batches[0].suspects)

    def area(scores: list[Tensor]) -> float:
        from sklearn.metrics import roc_auc_score

        known = [b.ratio >= 0 for b in batches]
        truth = torch.cat([b.ratio[k] > 1.7 for b, k in zip(batches, known, strict=True)])
        return roc_auc_score(truth, torch.cat([s[k] for s, k in zip(scores, known, strict=True)]).numpy())

    with torch.no_grad():
        learned, chance = (area([net(b.suspects) for b in batches]) for net in (shipped(), random.eval()))
    inputs = [area([b.suspects.pairs[:, i] for b in batches]) for i in range(EDGE)]
    best = max(max(a, 1 - a) for a in inputs)
    assert learned > 0.85 and learned > best + 0.03 and learned > chance + 0.2, (learned, best, chance)


def test_doubtful_edges_carry_a_share_and_no_mass() -> None:
    """w = 0.05 (1 + l^2 / (2 c h_i h_j))^-2 between two sheets; all else is as without them."""
    from eigenprobe.graph.graph import local_spacing
    from eigenprobe.smoothers.balanced import BALANCE, balanced_stencil

    x, half = sheets(3.0), len(sheets(3.0)) // 2
    one = build_graph(x[:half], 18)
    graph = stack([one, replace(one, points=x[half:])])
    graph = replace(graph, clouds=())
    pairs = torch.stack([torch.arange(0, half, 50), torch.arange(half, 2 * half, 50)], 1)
    plain, joined = balanced_stencil(graph, 2), balanced_stencil(replace(graph, doubtful=pairs), 2)
    faint = (joined.edges.head < half) & (joined.edges.tail >= half)
    assert plain.edges.components[0] == 2 and joined.edges.components[0] == 1
    assert torch.equal(torch.stack([joined.edges.head, joined.edges.tail], 1)[faint], pairs)
    spacing = local_spacing(graph.indices, graph.distances).length
    scale = 2 * BALANCE.bandwidth * spacing[pairs[:, 0]] * spacing[pairs[:, 1]]
    torch.testing.assert_close(joined.weight[faint], 0.05 * (1 + joined.length2[faint] / scale) ** -2)
    torch.testing.assert_close(joined.weight[~faint], plain.weight, rtol=1e-9, atol=0)
    torch.testing.assert_close(joined.mass, plain.mass, rtol=1e-9, atol=0)


def test_neighbours_of_decompose() -> None:
    x = sphere(600).numpy()
    plain, learned, thirty = (ep.decompose(x, k=8, neighbours=how) for how in ("plain", "learned", 30))
    np.testing.assert_array_equal(plain.normalized, learned.normalized)  # nothing to cut on a sphere
    np.testing.assert_array_equal(plain.normalized, thirty.normalized)
    assert learned.info["short_cuts"] == 0 and "short_cuts" not in plain.info
    with pytest.raises(InputError, match=r"'learned' or 'plain' or a whole number.*got 'best'"):
        ep.decompose(x, k=8, neighbours="best")


def test_cut_edges_are_saved(tmp_path) -> None:
    with pytest.warns(EigenprobeWarning):
        basis = ep.decompose(sheets(2.0).float(), k=4, dimension=2)
    assert basis.short_cuts.dtype == np.int64
    basis.save(tmp_path / "b.safetensors")
    np.testing.assert_array_equal(ep.Basis.load(tmp_path / "b.safetensors").short_cuts, basis.short_cuts)


def test_weights_survive_their_file(tmp_path) -> None:
    write_shortcut(tmp_path / "w", shipped(), {})
    again = read_shortcut(tmp_path / "w")
    for a, b in zip(shipped().state_dict().values(), again.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b)
    (tmp_path / "w" / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="short-cut network"):
        read_shortcut(tmp_path / "w")


def test_a_run_resumes_and_exports(tmp_path) -> None:
    half = replace(TINY, schedule=replace(TINY.schedule, steps=2))
    train_neighbours(half, tmp_path, device="cpu")
    folder = train_neighbours(TINY, tmp_path, device="cpu")
    whole = train_neighbours(TINY, tmp_path / "whole", device="cpu")
    state = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert state["global_step"] == 4
    assert {p.name for p in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert read_shortcut(whole).config == TINY.network


def test_ranks_see_different_shapes() -> None:
    stream = ContactStream(TINY)
    first = stream.to("cpu", 0).at(0).suspects.points
    second = stream.to("cpu", 1).at(0).suspects.points
    assert first.shape != second.shape or not torch.equal(first, second)
    assert NeighbourModule(TINY).judged_loss(stream.to("cpu", 0).at(0)).isfinite()


def test_landmarks_of_a_large_cloud_are_the_same_alone_and_in_a_stack() -> None:
    """Above 2 x 2000 points candidates are every second one, whichever other clouds are there."""
    from eigenprobe.search.segments import Segments
    from eigenprobe.shortcuts.suspicion import _landmarks

    x = sphere(9100).float()
    for sizes in ((4100, 5000), (4550, 4550), (300, 8800)):
        parts = x.split(list(sizes))
        stacked = _landmarks(x, Segments(sizes, x.device), 40)
        for i, (part, first) in enumerate(zip(parts, (0, sizes[0]), strict=True)):
            alone = _landmarks(part, Segments((len(part),), x.device), 40)
            assert torch.equal(stacked[i] - first, alone[0])
