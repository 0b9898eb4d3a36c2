"""Tests of `evaluation.surface_report`."""

from __future__ import annotations

from eigenprobe_lab.evaluation.surface_report import levels


def test_levels() -> None:
    assert levels(50) == (10, 20, 50)
    assert levels(12) == (10, 12)
    assert levels(5) == (5,)
