"""Probes whose distribution is learned in training: what is drawn, the update, and where each rule
goes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.trained_probes import BINS, START, LearnedProbes, train_and_measure
from eigenprobe.errors import InputError
from eigenprobe.io.shapes import Shape
from eigenprobe.probes.probes import Probes
from eigenprobe.training import RunSettings
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.paper.overfit import SETTINGS, coordinates_left

PAPER = Probes(400, steps=40, k=10, sigma=(0.1, 0.5))
RUN = RunSettings(device="cpu", logs=False, validate_every=4)


def cloud(n: int = 240) -> torch.Tensor:
    points = torch.randn(n, 3, generator=torch.Generator().manual_seed(2))
    return points / points.norm(dim=1, keepdim=True) * torch.tensor([1.0, 0.8, 0.6])


def sample(k: int = 6) -> Sample:
    x = cloud().double().numpy()
    vectors = np.cos(np.outer(x[:, 0], np.arange(k)))
    return Sample(
        Shape(x, None, "blob"),
        x,
        vectors,
        np.arange(k, dtype=float),
        np.arange(len(x)),
        np.full(len(x), 1.0),
    )


def small(count: int = 60, steps: int = 8):
    paper = Probes(count, steps=40, k=10, sigma=(0.1, 0.5))
    return replace(
        SETTINGS,
        preset="tiny",
        size=240,
        steps=steps,
        optimisation=None,
        probes=replace(SETTINGS.probes, paper=paper),
    )


def test_cells_are_drawn_as_often_as_their_distribution_says():
    learned = LearnedProbes(replace(PAPER, count=4000))
    learned.bandwidths.copy_(torch.linspace(0, 1, BINS))
    _, cells = learned.draw(PAPER.graph(cloud(60)), torch.Generator().manual_seed(1))
    for cell, logits, count in zip(
        cells, (learned.bandwidths, learned.lengths), (BINS, len(START)), strict=True
    ):
        shares = torch.bincount(cell, minlength=count) / len(cell)
        torch.testing.assert_close(shares, logits.softmax(0), atol=0.03, rtol=0)


@pytest.mark.long
def test_descent_prefers_wide_kernels_and_ascent_narrow_ones():
    means = {}
    for rule in ("descent", "ascent", "task"):
        row = train_and_measure(sample(), rule, 6, small(200, 30), RUN)[0]
        means[rule] = row["learned"]
        assert row["learned"]["sigma"].keys() == means["descent"]["sigma"].keys()
    assert means["descent"]["mean sigma"] > 0.3 > means["ascent"]["mean sigma"]
    assert means["descent"]["mean steps"] > means["ascent"]["mean steps"]


def test_probes_of_one_sigma_have_no_distribution_to_learn():
    with pytest.raises(InputError, match="range of sigma"):
        LearnedProbes(replace(PAPER, sigma=0.1))


def test_coordinates_left_is_what_a_projection_leaves():
    points = cloud().double()
    q = torch.linalg.qr(torch.cat([torch.ones(len(points), 1).double(), points[:, :2]], 1)).Q
    x = (points - points.mean(0)).numpy()
    solved = x - q.numpy() @ np.linalg.lstsq(q.numpy(), x, rcond=None)[0]
    assert coordinates_left(q, points.numpy()) == pytest.approx((solved**2).sum() / (x**2).sum())
