"""The recipe of one shape: it runs, resumes, and takes the paper's own setting."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eigenprobe.basis import Basis
from eigenprobe_lab.factory.recipes import load_recipe, run_recipe


@pytest.fixture
def cloud(tmp_path: Path) -> Path:
    i = np.arange(300) + 0.5
    height, angle = 1 - 2 * i / 300, np.pi * (1 + 5**0.5) * i
    ring = np.sqrt(1 - height**2)
    path = tmp_path / "cloud.npy"
    np.save(path, np.stack([ring * np.cos(angle), 0.8 * ring * np.sin(angle), 0.6 * height], 1))
    return path


def test_overfit_runs_and_resumes(tmp_path, cloud):
    changes = [f"shape={cloud}", "k=6", "steps=30"]
    written = run_recipe("overfit", tmp_path / "run", changes)
    assert (
        written == tmp_path / "run" / "basis.safetensors"
        and (tmp_path / "run" / "last.ckpt").is_file()
    )
    facts = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert facts["steps"] == 30 and facts["recipe"]["k"] == 6
    first = Basis.load(written)
    run_recipe("overfit", tmp_path / "run", changes)  # finished: the checkpoint is the result
    np.testing.assert_allclose(Basis.load(written).vectors, first.vectors, atol=1e-4)


def test_the_papers_own_setting_is_a_change_of_keys():
    paper = "probes.paper={count: 1500, steps: 40, k: 10, sigma: [0.01, 0.2]}"
    settings = load_recipe("overfit", ["shape=x.obj", "smoother=row", "loss=sampled", paper])
    assert settings.objective().kind == "sampled" and settings.objective().projection == "hybrid"
    assert settings.probes.paper.sigma == (0.01, 0.2)
