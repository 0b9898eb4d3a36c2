"""Cosines with an oracle, measured along a training and kept with it."""

from __future__ import annotations

import torch

from eigenprobe.training import Batch, ManifoldData, RunSettings, train
from eigenprobe_lab.evaluation.curves import OracleCosine
from tests.training.runner import circle_pool, tiny_module


def test_a_circle_is_learned_along_the_way() -> None:
    pool = circle_pool(2)
    points = pool.samplings[0].points
    x, y = points[0].double().T
    truth = torch.stack([torch.ones_like(x), x, y, x * x - y * y, x * y], 1)
    watched = OracleCosine([(Batch(points, pool.samplings[0].weight), truth)], every=10)
    train(tiny_module(30), ManifoldData(pool, steps=30), RunSettings(device="cpu").watched(watched))
    assert [row["step"] for row in watched.history] == [10, 20, 30]
    assert watched.history == OracleCosine.state_dict(watched)["history"]
    assert all(row["seconds"] >= 0 for row in watched.history)
