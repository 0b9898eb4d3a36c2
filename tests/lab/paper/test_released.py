"""Tests of `paper.released`: single shapes as the released configuration has it."""

from __future__ import annotations

from dataclasses import replace

import torch

from benchmarks.samples import shape_sample
from eigenprobe.points import Frame
from eigenprobe_lab.paper.released import METHOD, PROBES, SCHEDULE, Resampled, learn_released

SMALL = {"width": 32, "layers": 2, "heads": 4}


def test_neighbours_steps_and_sigma_are_drawn_as_stated() -> None:
    """They depend on seed and step alone, whatever the number of probes."""
    points = torch.rand(120, 3)
    few, many = (Resampled(points, replace(PROBES, count=count), 100) for count in (3, 5))
    first, again, other = few.at(0), few.at(0), few.at(1)
    assert first.points.shape == (1, 100, 3) and torch.equal(first.points, again.points)
    draw = [each.probes(torch.Generator().manual_seed(0)) for each in (first, again, other)]
    assert draw[0].shape == (1, 100, 3) and torch.equal(draw[0], draw[1])
    assert many.at(0).probes(torch.Generator().manual_seed(0)).shape == (1, 100, 5)
    assert draw[0].std() < 0.2 and not torch.equal(draw[0], draw[2])  # smooth: of noise it is .58


def test_training_lowers_the_loss_towards_the_least() -> None:
    """That of the leading vectors of the very probes by which it is measured."""
    sample = shape_sample(200, 6, 0)
    probes = replace(PROBES, count=60)
    points = torch.as_tensor(sample.points)
    drawn = probes.draw(Frame.of(points)(points, torch.float32), torch.Generator().manual_seed(0))
    left = torch.linalg.svdvals(drawn.double()).square()
    least = float((1 - left[:6].cumsum(0) / left.sum()).mean())
    losses = []
    for steps in (1, 60):
        schedule = replace(SCHEDULE, steps=steps)
        rows = learn_released(sample, 6, schedule=schedule, probes=probes, points=200, **SMALL)
        assert rows[0]["method"] == METHOD and rows[0]["steps"] == steps
        losses.append(rows[0]["loss"])
    assert losses[0] - losses[1] > 0.3 * (losses[0] - least) > 0
