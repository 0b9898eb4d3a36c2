"""Tests of `training.data`."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eigenprobe.eigen.solve import solve
from eigenprobe.errors import EigenprobeWarning
from eigenprobe.points import Frame
from eigenprobe.probes.probes import Probes
from eigenprobe.smoothers import build_smoother
from eigenprobe.training.data import FreshClouds, ManifoldData, Pool, ProbeSettings, prepare
from eigenprobe.training.fit import FitSettings, fit_network
from eigenprobe.training.runs import RunSettings, train
from tests.lab.paper.test_overfit import ellipsoid
from tests.training import runner
from tests.training.test_fit import potato


def test_probes_of_rows_are_smoothed_by_the_angles_of_the_rows():
    # Rows far from the origin, as features are: moving their centre to it would change every angle.
    rows = 3 + torch.randn(80, 6, generator=torch.Generator().manual_seed(0))
    paper = Probes(4, steps=3, k=9, sigma=0.02, metric="cosine", self_loops=True)
    settings = FitSettings(
        smoother="row", metric="cosine", loss="sampled", probes=ProbeSettings("row", paper=paper)
    )
    batch = prepare(rows, settings.frame(rows), settings.all_probes(), settings.objective(), 3)
    batch = getattr(batch, "batch", batch)
    drawn = batch.probes(torch.Generator().manual_seed(1))[0]
    torch.testing.assert_close(
        drawn, paper.draw(rows, torch.Generator().manual_seed(1)), atol=1e-4, rtol=1e-3
    )


def test_a_fresh_sampling_for_every_step_is_the_same_in_a_resumed_run():
    points = 50 * ellipsoid()
    frame = Frame.of(points)
    first, again = (
        FreshClouds(frame(points, torch.float32), Probes(5, steps=2, k=6, sigma=0.1), 100, seed=3)
        for _ in range(2)
    )
    assert first.at(0).points.shape == (1, 100, 3)
    assert not torch.equal(first.at(0).points, first.at(1).points)
    assert torch.equal(first.at(200).points, again.at(200).points)  # asked out of order
    assert float(first.at(0).points.norm(dim=-1).max()) == pytest.approx(1, abs=0.1)
    uniform = FreshClouds(
        frame(points, torch.float32), Probes(5, steps=2, k=6, sigma=0.1), 100, how="uniform"
    )
    spacing = [
        torch.cdist(f.at(0).points[0], f.at(0).points[0]).fill_diagonal_(9).min()
        for f in (first, uniform)
    ]
    assert spacing[0] > 1.2 * spacing[1]


@pytest.mark.parametrize("size", [100, 400])
def test_samplings_of_one_step_are_smoothed_each_on_its_own_graph(size):
    points = ellipsoid(400)
    probes = Probes(5, steps=2, k=6, sigma=0.1)
    source = FreshClouds(
        Frame.of(points)(points, torch.float32), probes, size, seed=3, how="uniform", clouds=3
    )
    batch = source.at(2)
    assert batch.points.shape == (3, size, 3)
    assert torch.equal(batch.points[0], batch.points[1]) == (
        size == 400
    )  # subsets differ, the whole cloud is one
    assert callable(batch.probes)
    expected = probes.draw(batch.points, torch.Generator().manual_seed(0))
    torch.testing.assert_close(batch.probes(torch.Generator().manual_seed(0)), expected)
    assert not torch.equal(expected[0], expected[1])
    again = FreshClouds(
        Frame.of(points)(points, torch.float32), probes, size, seed=3, how="uniform", clouds=3
    )
    assert torch.equal(again.at(200).points, source.at(200).points)


@pytest.mark.parametrize("smoother", ["row", "symmetric", "adaptive"])
@pytest.mark.parametrize("loss", ["expected", "sampled"])
def test_every_smoother_with_both_losses(smoother, loss):
    points = potato(300)
    projection = "hybrid" if loss == "sampled" else None
    probes = ProbeSettings(steps=8, count=64, smoother={"k": 12})
    basis = fit_network(
        points, 6, smoother=smoother, loss=loss, projection=projection, probes=probes, steps=60
    )
    reference = build_smoother(points, "symmetric")
    span = torch.linalg.qr(solve(reference, 9)[0] / reference.mass.sqrt()[:, None]).Q
    first = basis.vectors[:, :5] / basis.vectors[:, :5].norm(dim=0)
    assert float((span.T @ first).norm(dim=0).min()) > 0.9
    values = basis(points[:7])
    torch.testing.assert_close(values, basis.vectors[:7], atol=1e-5, rtol=1e-5)


def test_nan_and_rank_deficient_batches_are_skipped_and_reported():
    pool = runner.circle_pool(4)
    bad = replace(pool.samplings[1], points=torch.full_like(pool.samplings[1].points, torch.nan))
    flat = replace(pool.samplings[2], points=torch.zeros_like(pool.samplings[2].points))
    pool.samplings[1], pool.samplings[2] = bad, flat
    good = Pool([pool.samplings[0], pool.samplings[3]])
    module = runner.tiny_module(40)
    before = runner.final_loss(module, good)
    module.train()
    with pytest.warns(EigenprobeWarning, match="no finite gradient"):
        train(module, ManifoldData(pool, steps=40), RunSettings(device="cpu"))
    assert module.report_skipped() == 20  # two of four samplings, ten rounds
    assert all(bool(p.isfinite().all()) for p in module.parameters())
    assert runner.final_loss(module, good) < 0.97 * before


def test_a_skipped_batch_leaves_no_trace():
    pool = runner.circle_pool(1)
    nan = Pool([replace(pool.samplings[0], trace=torch.tensor([torch.nan]))])
    module = runner.tiny_module(3)
    before = [p.clone() for p in module.parameters()]
    with pytest.warns(EigenprobeWarning):
        train(module, ManifoldData(nan, steps=3), RunSettings(device="cpu"))
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters()))
