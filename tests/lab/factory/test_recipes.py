"""Every recipe of single-manifold training is run, small; mistakes in one are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigenprobe.errors import InputError
from eigenprobe_lab.factory.recipes import load_recipe, run_recipe

RECIPES = Path(__file__).resolve().parents[3] / "src" / "eigenprobe_lab" / "recipes"


def test_shipped_recipes_are_known_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "overfit").mkdir()  # what `train overfit` may have left
    shipped = load_recipe(RECIPES / "overfit.yaml", ["shape=x.obj"])
    for name in ("overfit", "overfit.yaml", "recipes/overfit.yaml"):
        assert load_recipe(name, ["shape=x.obj"]) == shipped
    (tmp_path / "overfit.yaml").write_text(
        "kind: overfit\nk: 7\n"
    )  # a file of this name comes first
    assert load_recipe("overfit.yaml", ["shape=x.obj"]).k == 7
    assert load_recipe("overfit", ["shape=x.obj"]) == shipped


def test_mistakes_are_named(tmp_path):
    with pytest.raises(InputError, match="add shape=FILE"):
        run_recipe(RECIPES / "overfit.yaml", tmp_path)
    mistakes = {
        "stepz=3": "no key 'stepz'",
        "optimisation={rate: fast}": r"optimisation\.rate must be a finite number, got 'fast'",
        "probes.paper.sigma=wide": r"sigma must be .* a pair of finite numbers or None, got 'wide'",
        "steps": "key=value",
        "k.more=1": "not a section",
        "clouds=true": "clouds must be a whole number, got True",
    }
    for change, message in mistakes.items():
        with pytest.raises(InputError, match=message) as error:
            load_recipe(RECIPES / "overfit.yaml", ["shape=x.obj", change])
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="no such recipe"):
        load_recipe(tmp_path / "none.yaml")
    with pytest.raises(
        InputError,
        match=r"no such recipe: overfitt \(did you mean overfit\?\); .*, overfit, .*, pretrain",
    ):
        load_recipe("overfitt")
    (tmp_path / "list.yaml").write_text("- 1\n- 2")
    with pytest.raises(InputError, match="kind is one of"):
        load_recipe(tmp_path / "list.yaml")
    (tmp_path / "torn.yaml").write_text("kind: [")
    with pytest.raises(InputError, match="expected a YAML recipe") as error:
        load_recipe(tmp_path / "torn.yaml")
    assert "\n" not in str(error.value)
