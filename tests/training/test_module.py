"""The training module: batches that fail are survived, weights are averaged, schedules are
right.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.training.data import ManifoldData
from eigenprobe.training.module import Optimisation
from eigenprobe.training.runs import RunSettings, train
from tests.training import runner


def test_training_stops_when_nothing_is_finite():
    pool = runner.circle_pool(1)
    batch = pool.samplings[0]
    pool.samplings[0] = replace(batch, points=torch.full_like(batch.points, torch.nan))
    with pytest.warns(EigenprobeWarning), pytest.raises(InputError, match="in a row"):
        train(
            runner.tiny_module(200, patience=10),
            ManifoldData(pool, steps=200),
            RunSettings(device="cpu"),
        )


def test_schedules():
    cosine = Optimisation(100, rate=1e-2, final_rate=1e-4, warmup=10)
    assert cosine.factor(0) == pytest.approx(0.1) and cosine.factor(10) == pytest.approx(1)
    assert cosine.factor(100) == pytest.approx(0.01) and cosine.factor(55) == pytest.approx(
        0.505, rel=1e-3
    )
    steps = Optimisation(100, warmup=0, schedule="step")
    assert [steps.factor(s) for s in (0, 29, 30, 70)] == pytest.approx([1, 1, 0.1, 0.01])
    with pytest.raises(InputError, match="schedule"):
        Optimisation(schedule="linear").factor(50)
