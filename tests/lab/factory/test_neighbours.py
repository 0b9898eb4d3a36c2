"""Short-cuts: labels against Dijkstra, laws of the judgement, what is cut and what is kept, and a
run that resumes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import eigenprobe as ep
from eigenprobe.cloud.edges import shipped
from eigenprobe.cloud.network import EDGE, ShortcutConfig, ShortcutNetwork, read_shortcut
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe_lab.factory.judged import Clouds, ContactStream, NeighbourSettings
from eigenprobe_lab.factory.neighbours import NeighbourModule, train_neighbours
from eigenprobe_lab.factory.schedule import Schedule

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
    grid = (
        torch.stack(torch.meshgrid(torch.arange(m), torch.arange(m), indexing="ij"), -1)
        .reshape(-1, 2)
        .double()
        / m
    )
    both = [
        grid + jitter / m * torch.randn(grid.shape, generator=generator, dtype=torch.float64)
        for _ in range(2)
    ]
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
        seed=77,
        clouds=Clouds(chunk=3, chunks=1, dense=1500, points=1500, sources=300, sizes=(500,)),
        block=2,
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
        return roc_auc_score(
            truth, torch.cat([s[k] for s, k in zip(scores, known, strict=True)]).numpy()
        )

    with torch.no_grad():
        learned, chance = (
            area([net(b.suspects) for b in batches]) for net in (shipped(), random.eval())
        )
    inputs = [area([b.suspects.pairs[:, i] for b in batches]) for i in range(EDGE)]
    best = max(max(a, 1 - a) for a in inputs)
    assert learned > 0.85 and learned > best + 0.03 and learned > chance + 0.2, (
        learned,
        best,
        chance,
    )


def test_neighbours_of_decompose() -> None:
    x = sphere(600).numpy()
    plain, learned, thirty = (
        ep.decompose(x, k=8, neighbours=how) for how in ("plain", "learned", 30)
    )
    np.testing.assert_array_equal(
        plain.normalized, learned.normalized
    )  # nothing to cut on a sphere
    np.testing.assert_array_equal(plain.normalized, thirty.normalized)
    assert learned.info["short_cuts"] == 0 and "short_cuts" not in plain.info
    with pytest.raises(InputError, match=r"'learned' or 'plain' or a whole number.*got 'best'"):
        ep.decompose(x, k=8, neighbours="best")


def test_cut_edges_are_saved(tmp_path) -> None:
    with pytest.warns(EigenprobeWarning):
        basis = ep.decompose(sheets(2.0).float(), k=4, dimension=2)
    assert basis.short_cuts.dtype == np.int64
    basis.save(tmp_path / "b.safetensors")
    np.testing.assert_array_equal(
        ep.Basis.load(tmp_path / "b.safetensors").short_cuts, basis.short_cuts
    )


@pytest.mark.long
def test_a_run_resumes_and_exports(tmp_path) -> None:
    piece = replace(TINY, schedule=replace(TINY.schedule, piece=1e-6))  # one step, then it stops
    for _ in range(TINY.schedule.steps):
        folder = train_neighbours(piece, tmp_path, device="cpu")
    whole = train_neighbours(TINY, tmp_path / "whole", device="cpu")
    for a, b in zip(
        read_shortcut(whole).parameters(), read_shortcut(folder).parameters(), strict=True
    ):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)  # measured 0; a step moves them by 1e-3
    state = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert state["global_step"] == 4
    assert {p.name for p in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert read_shortcut(whole).config == TINY.network


@pytest.mark.long
def test_ranks_see_different_shapes() -> None:
    stream = ContactStream(TINY)
    first = stream.to("cpu", 0).at(0).suspects.points
    second = stream.to("cpu", 1).at(0).suspects.points
    assert first.shape != second.shape or not torch.equal(first, second)
    assert NeighbourModule(TINY).judged_loss(stream.to("cpu", 0).at(0)).isfinite()
