"""Short-cuts: labels against Dijkstra, laws of the judgement, what is cut and what is kept, and a run that resumes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.graph import stack
from eigenprobe.graph.graph import build_graph
from eigenprobe.shortcuts.cuts import shipped
from eigenprobe.shortcuts.network import EDGE, ShortcutConfig, ShortcutNetwork, read_shortcut
from eigenprobe_lab.factory.neighbours import (
    Clouds,
    ContactStream,
    NeighbourModule,
    NeighbourSettings,
    cleaned_scan,
    train_neighbours,
)
from eigenprobe_lab.factory.timed import Schedule
from eigenprobe_lab.shapes.damage import Damage

TINY = NeighbourSettings(
    network=ShortcutConfig(width=16, rounds=2, heads=2, depth=1, views=2),
    clouds=Clouds(chunk=3, chunks=1, dense=900, points=600, sources=90, sizes=(200, 300), worked=0.0),
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
    from eigenprobe.smoothers.prepared import laplacian_stencil
    from eigenprobe.smoothers.stencil import BALANCE

    x, half = sheets(3.0), len(sheets(3.0)) // 2
    one = build_graph(x[:half], 18)
    graph = stack([one, replace(one, points=x[half:])])
    graph = replace(graph, clouds=())
    pairs = torch.stack([torch.arange(0, half, 50), torch.arange(half, 2 * half, 50)], 1)
    plain, joined = laplacian_stencil(graph, 2), laplacian_stencil(replace(graph, doubtful=pairs), 2)
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


def test_a_run_resumes_and_exports(tmp_path) -> None:
    piece = replace(TINY, schedule=replace(TINY.schedule, piece=1e-6))  # one step, then it stops
    for _ in range(TINY.schedule.steps):
        folder = train_neighbours(piece, tmp_path, device="cpu")
    whole = train_neighbours(TINY, tmp_path / "whole", device="cpu")
    for a, b in zip(read_shortcut(whole).parameters(), read_shortcut(folder).parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)  # measured 0; a step moves them by 1e-3
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


@pytest.mark.parametrize("finer", [1, 4])
def test_a_damaged_cloud_is_cleaned_and_averaged(finer: int) -> None:
    """Noise of 2 % is taken away, and every point keeps the row of the surface that it comes from."""
    x, m = torch.stack([sphere(4000), sphere(4000).flip(0)]).float(), 400
    only = Damage(lines=0, step=0, isotropic=1, along=0, shifted=0, voxels=0.5, strays=0, noise=0.02)
    order = torch.arange(4000).expand(2, 4000)
    rows, z = cleaned_scan(x, x, order, m, finer, only, torch.Generator().manual_seed(0))
    assert rows.shape == z.shape[:2] and 100 < rows.shape[1] <= m
    assert all(len(own.unique()) == len(own) for own in rows)
    assert float((z.norm(dim=2) - 1).abs().mean()) < (0.012 if finer == 1 else 0.006), "voxels alone move points by .03"
    apart = (x.gather(1, rows[..., None].expand(-1, -1, 3)) - z).norm(dim=2)
    assert float(apart.median()) < 0.06 and float(apart.max()) < 0.25, "a cell is as wide as the spacing, .18"
