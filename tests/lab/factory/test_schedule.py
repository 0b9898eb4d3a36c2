"""The schedule of timed training."""

from __future__ import annotations

import pytest

from eigenprobe_lab.factory.schedule import Schedule


def test_schedule_warms_up_and_cools_down():
    schedule = Schedule(warmup=0.1, cooldown=0.5)
    rates = [schedule.factor(p) for p in (0.0, 0.05, 0.2, 0.5, 0.75, 1.0)]
    assert (
        rates[0] < rates[1] < rates[2] == rates[3] == 1.0
        and rates[4] == pytest.approx(0.5)
        and rates[5] == 0.0
    )
