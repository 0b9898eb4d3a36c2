"""Every recipe of single-manifold training is run, small; mistakes in one are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.training.recipes import fit_settings, read, run_recipe

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


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
    written = run_recipe(RECIPES / "overfit.yaml", tmp_path / "run", changes)
    assert written == tmp_path / "run" / "basis.safetensors" and (tmp_path / "run" / "last.ckpt").is_file()
    facts = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert facts["steps"] == 30 and facts["feedforward"]["gap"] < 0.5 and facts["recipe"]["k"] == 6
    first = Basis.load(written)
    run_recipe(RECIPES / "overfit.yaml", tmp_path / "run", changes)  # finished: the checkpoint is the result
    np.testing.assert_allclose(Basis.load(written).vectors, first.vectors, atol=1e-4)


def test_the_papers_own_setting_is_a_change_of_keys():
    recipe = read(
        RECIPES / "overfit.yaml",
        ["smoother=row", "loss=sampled", "probes.paper={count: 1500, steps: 40, k: 10, sigma: [0.01, 0.2]}"],
    )
    settings = fit_settings(recipe)
    assert settings.objective().kind == "sampled" and settings.objective().projection == "hybrid"
    assert settings.probes.paper.sigma == (0.01, 0.2)


def test_toy_recipe(tmp_path):
    written = run_recipe(RECIPES / "toy1d.yaml", tmp_path, ["steps=200", "probes=20000"])
    assert Basis.load(written).k == 5 and (tmp_path / "toy1d.png").is_file() and (tmp_path / "toy1d.md").is_file()
    with pytest.raises(InputError, match="no key 'rate'"):
        run_recipe(RECIPES / "toy1d.yaml", tmp_path, ["rate=1"])


def test_mistakes_are_named(tmp_path):
    with pytest.raises(InputError, match="add shape=FILE"):
        run_recipe(RECIPES / "overfit.yaml", tmp_path)
    with pytest.raises(InputError, match="no key 'stepz'"):
        fit_settings(read(RECIPES / "overfit.yaml", ["stepz=3"]))
    with pytest.raises(InputError, match="must be a number"):
        fit_settings(read(RECIPES / "overfit.yaml", ["optimisation={rate: fast}"]))
    with pytest.raises(InputError, match="key=value"):
        read(RECIPES / "overfit.yaml", ["steps"])
    with pytest.raises(InputError, match="not a section"):
        read(RECIPES / "overfit.yaml", ["k.more=1"])
    with pytest.raises(InputError, match="no such recipe"):
        read(tmp_path / "none.yaml")
