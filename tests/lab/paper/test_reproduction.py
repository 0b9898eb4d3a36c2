"""Tests of `paper.reproduction`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe_lab.evaluation.fitted import SETTINGS
from eigenprobe_lab.paper.reproduction import reproduce_overfit


def test_table_of_a_bumpy_sphere(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    mesh = trimesh.creation.icosphere(3)
    x = np.asarray(mesh.vertices)
    mesh.vertices = x * (1 + 0.3 * np.sin(2 * x[:, :1]) + 0.2 * x[:, 1:2] ** 2) * [1, 0.8, 0.6]
    mesh.export(tmp_path / "bumpy.obj")
    (tmp_path / "broken.obj").write_text("not a mesh")
    settings = replace(SETTINGS, resamplings=2, held_out=1, size=400, steps=120)
    files = list(tmp_path.glob("*.obj"))
    result = reproduce_overfit(files, tmp_path / "out", "ours", k=12, n=500, settings=settings).report
    assert set(result.failed) == {"broken.obj"} and len(result.rows) == 3
    rows = {row["method"]: row for row in result.rows}
    assert list(rows) == ["feedforward", "ritz", "closed form"]
    assert rows["ritz"]["cosine_10"] >= 0.95 * rows["closed form"]["cosine_10"]
    assert rows["ritz"]["discrepancy"] < 0.1 and rows["ritz"]["gap"] < 0.05 and result.facts["history"]["bumpy, ours"]
    assert "bumpy" in result.markdown() and "**mean, all**" in result.headline().splitlines()[-1]
    with pytest.raises(InputError, match="none of the shapes"):
        reproduce_overfit([tmp_path / "broken.obj"], tmp_path / "out", "ours", k=12)
