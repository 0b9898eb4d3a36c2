"""Probes whose distribution is learned in training: what is drawn, the update, and where each rule goes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.trained_probes import BINS, START, STEPS, LearnedProbes, train_and_measure
from eigenprobe.errors import InputError
from eigenprobe.probes.probes import Probes
from eigenprobe.readers.shapes import Shape
from eigenprobe.training import RunSettings
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.paper.overfit import SETTINGS, coordinates_left, learn_their_way

PAPER = Probes(400, steps=40, k=10, sigma=(0.1, 0.5))
RUN = RunSettings(device="cpu", logs=False, validate_every=4)


def cloud(n: int = 240) -> torch.Tensor:
    points = torch.randn(n, 3, generator=torch.Generator().manual_seed(2))
    return points / points.norm(dim=1, keepdim=True) * torch.tensor([1.0, 0.8, 0.6])


def sample(k: int = 6) -> Sample:
    x = cloud().double().numpy()
    vectors = np.cos(np.outer(x[:, 0], np.arange(k)))
    return Sample(
        Shape(x, None, "blob"), x, vectors, np.arange(k, dtype=float), np.arange(len(x)), np.full(len(x), 1.0)
    )


def small(count: int = 60, steps: int = 8):
    paper = Probes(count, steps=40, k=10, sigma=(0.1, 0.5))
    return replace(
        SETTINGS, preset="tiny", size=240, steps=steps, optimisation=None, probes=replace(SETTINGS.probes, paper=paper)
    )


def test_a_sure_distribution_draws_the_papers_probes():
    learned, graph = LearnedProbes(PAPER), PAPER.graph(cloud())
    for place, steps in enumerate(STEPS):
        learned.lengths.fill_(-100.0)[place] = 0.0
        learned.bandwidths.fill_(-100.0)[3] = 0.0
        probes, (chosen, drawn) = learned.draw(graph, torch.Generator().manual_seed(0))
        assert (chosen == 3).all() and (drawn == place).all()
        lone = replace(PAPER, steps=steps)
        signal = lone.seeds(graph, torch.Generator().manual_seed(0))[0]
        low, high = (lone.smooth(signal, torch.tensor([s]), graph.indices, graph.distances) for s in (0.25, 0.3))
        assert (probes - low).norm() < (high - low).norm() and (probes - high).norm() < (high - low).norm()


def test_cells_are_drawn_as_often_as_their_distribution_says():
    learned = LearnedProbes(replace(PAPER, count=4000))
    learned.bandwidths.copy_(torch.linspace(0, 1, BINS))
    _, cells = learned.draw(PAPER.graph(cloud(60)), torch.Generator().manual_seed(1))
    for cell, logits, count in zip(cells, (learned.bandwidths, learned.lengths), (BINS, len(START)), strict=True):
        shares = torch.bincount(cell, minlength=count) / len(cell)
        torch.testing.assert_close(shares, logits.softmax(0), atol=0.03, rtol=0)


def test_the_update_is_the_natural_gradient_of_the_mean_weight():
    # d E[w] / d logits = F (mean of w over the cell), F the Fisher matrix diag(p) - p p^T of a categorical.
    learned = LearnedProbes(PAPER)
    generator = torch.Generator().manual_seed(3)
    cells = torch.randint(BINS, (400,), generator=generator), torch.randint(len(STEPS), (400,), generator=generator)
    weights = torch.randn(400, generator=generator, dtype=torch.float64)
    w = (weights - weights.mean()) / weights.std()
    start = learned.bandwidths.clone()
    learned.update(cells, weights, 1.0)
    logits = torch.zeros(BINS, dtype=torch.float64, requires_grad=True)
    means = torch.stack([w[cells[0] == j].mean() for j in range(BINS)])
    (gradient,) = torch.autograd.grad((logits.softmax(0) * means).sum(), logits)
    p = torch.full((BINS,), 1 / BINS, dtype=torch.float64)
    change = (learned.bandwidths - start).double()
    torch.testing.assert_close((torch.diag(p) - torch.outer(p, p)) @ change, gradient, atol=1e-6, rtol=0)


def test_without_a_rule_it_is_the_papers_way():
    ours = train_and_measure(sample(), None, 6, small(), RUN)[0]
    theirs = learn_their_way(sample(), 6, small(), RUN)[0]
    assert ours["steps"] == theirs["steps"] == 8
    assert ours["discrepancy"] == pytest.approx(theirs["discrepancy"], abs=1e-6)
    assert ours["learned"] is None


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
