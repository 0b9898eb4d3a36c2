"""Every recipe of single-manifold training is run, small; mistakes in one are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.training.recipes import load_recipe, run_recipe
from eigenprobe_lab.paper import toy1d  # noqa: F401 (enters its kind of recipe)

SOURCES = Path(__file__).resolve().parents[2] / "src"
RECIPES = SOURCES / "eigenprobe" / "recipes"
LABORATORY = SOURCES / "eigenprobe_lab" / "recipes"


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
    paper = "probes.paper={count: 1500, steps: 40, k: 10, sigma: [0.01, 0.2]}"
    settings = load_recipe(RECIPES / "overfit.yaml", ["shape=x.obj", "smoother=row", "loss=sampled", paper])
    assert settings.objective().kind == "sampled" and settings.objective().projection == "hybrid"
    assert settings.probes.paper.sigma == (0.01, 0.2)


def test_toy_recipe(tmp_path):
    written = run_recipe(LABORATORY / "toy1d.yaml", tmp_path, ["steps=200", "probes=20000"])
    assert Basis.load(written).k == 5 and (tmp_path / "toy1d.png").is_file() and (tmp_path / "toy1d.md").is_file()
    with pytest.raises(InputError, match="no key 'rate'"):
        run_recipe(LABORATORY / "toy1d.yaml", tmp_path, ["rate=1"])


def test_shipped_recipes_are_known_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "overfit").mkdir()  # what `train overfit` may have left
    shipped = load_recipe(RECIPES / "overfit.yaml", ["shape=x.obj"])
    for name in ("overfit", "overfit.yaml", "recipes/overfit.yaml"):
        assert load_recipe(name, ["shape=x.obj"]) == shipped
    (tmp_path / "overfit.yaml").write_text("kind: overfit\nk: 7\n")  # a file of this name comes first
    assert load_recipe("overfit.yaml", ["shape=x.obj"]).k == 7
    assert load_recipe("overfit", ["shape=x.obj"]) == shipped


def test_mistakes_are_named(tmp_path):
    with pytest.raises(InputError, match="add shape=FILE"):
        run_recipe(RECIPES / "overfit.yaml", tmp_path)
    mistakes = {
        "stepz=3": "no key 'stepz'",
        "optimisation={rate: fast}": r"expected a number for optimisation\.rate, got 'fast'",
        "probes.paper.sigma=wide": r"expected a number or a list of 2 or null for probes\.paper\.sigma, got 'wide'",
        "steps": "key=value",
        "k.more=1": "not a section",
        "held_out=true": "expected a whole number for held_out, got True",
    }
    for change, message in mistakes.items():
        with pytest.raises(InputError, match=message) as error:
            load_recipe(RECIPES / "overfit.yaml", ["shape=x.obj", change])
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="no such recipe"):
        load_recipe(tmp_path / "none.yaml")
    with pytest.raises(
        InputError,
        match=r"no such recipe: overfitt \(did you mean overfit\?\); by name there are .*, overfit, .*, toy1d",
    ):
        load_recipe("overfitt")
    (tmp_path / "list.yaml").write_text("- 1\n- 2")
    with pytest.raises(InputError, match="kind is one of"):
        load_recipe(tmp_path / "list.yaml")
    (tmp_path / "torn.yaml").write_text("kind: [")
    with pytest.raises(InputError, match="expected a YAML recipe") as error:
        load_recipe(tmp_path / "torn.yaml")
    assert "\n" not in str(error.value)
