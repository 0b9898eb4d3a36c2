"""Pretraining: the loss against brute force, the stream, the optimiser, and a run that is cut in
two and exported.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from eigenprobe.eigen import solve_each
from eigenprobe.errors import InputError
from eigenprobe.networks.spectral import diffusion, masses, trace_moments
from eigenprobe.pretrained.model import SpectralModel
from eigenprobe_lab.factory.pretrain import pretrain
from eigenprobe_lab.factory.recipes import load_recipe, run_recipe
from eigenprobe_lab.factory.reconstruction import measure
from eigenprobe_lab.shapes.stream import ShapeStream
from tests.lab.recipes import SHAPES, TINY

RECIPE = (
    Path(__file__).resolve().parents[3] / "src" / "eigenprobe_lab" / "recipes" / "pretrain.yaml"
)

LEVELS = (20.0, 6.0)


@pytest.fixture(scope="module")
def clouds() -> torch.Tensor:
    return ShapeStream(SHAPES).at(0)[:3, :100]


def test_measures_are_one_for_the_closed_form(clouds, generator):
    smoother = diffusion(clouds)
    vectors = solve_each(smoother, 8, generator=generator).vectors
    z = (vectors[..., 1:] / masses(smoother).sqrt()[..., None]).float()
    found = measure(z, smoother, vectors.float(), trace_moments(smoother), LEVELS)
    assert found["cosine5"] > 0.999 and found["matched5"] > 0.999 and found["subspace5"] > 0.999
    assert abs(found["excess"]) < 1e-3 and found["ritz_cosine5"] > 0.999


@pytest.mark.long
def test_a_run_in_two_pieces_is_exported(tmp_path):
    state = torch.get_rng_state()
    first = pretrain(
        replace(TINY, schedule=replace(TINY.schedule, piece=1e-6)), tmp_path, device="cpu"
    )
    facts = json.loads((tmp_path / "history.json").read_text())
    assert facts["history"][-1]["step"] == 1
    model = pretrain(TINY, tmp_path, device="cpu")
    facts = json.loads((tmp_path / "history.json").read_text())
    assert (
        model == first
        and facts["history"][-1]["step"] == 6
        and facts["recipe"]["network"]["outputs"] == 8
    )
    assert [row["step"] for row in facts["history"]] == sorted(
        row["step"] for row in facts["history"]
    )
    assert {"cosine5", "ritz_cosine5", "matched5", "subspace5", "excess"} <= set(
        facts["history"][-1]
    )
    basis = SpectralModel.from_pretrained(model).encode(ShapeStream(SHAPES).at(0)[0], k=6)
    assert basis.k == 6
    assert torch.equal(
        torch.get_rng_state(), state
    )  # nothing seeds or draws from the global generator


def test_the_recipe_is_checked_and_runs(tmp_path):
    settings = load_recipe(
        RECIPE, ["steps=3", "network.width=96", "shapes.sizes=[300,800]", "shapes.typical=400"]
    )
    assert (
        settings.schedule.steps == 3
        and settings.network.width == 96
        and settings.shapes.sizes == (300, 800)
    )
    mistakes = {
        "netwrok={}": "no key 'netwrok'",
        "network.depth=3": r"no key 'network\.depth'",
        "network.width=wide": r"network\.width must be a whole number, got 'wide'",
        "network=3": "expected keys and values for network, got 3",
        "schedule.optimiser=sgd": r"schedule\.optimiser must be 'muon' or 'adamw', got 'sgd'",
        "shapes.sizes=[1,2,3]": r"shapes\.sizes must be a pair of whole numbers",
        "rate=true": r"schedule\.rate must be a finite number, got True",
        "kind=magic": "kind is one of .*pretrain.*, got 'magic'",
    }
    for change, message in mistakes.items():
        with pytest.raises(InputError, match=message) as error:
            load_recipe(RECIPE, [change])
        assert "\n" not in str(error.value)
    changes = [
        "steps=2", "network.outputs=6", "network.width=16", "network.layers=1", "network.heads=1",
        "network.feedforward=16", "network.point=[8]", "network.shape=16", "shapes.tokens=300",
        "shapes.typical=120", "shapes.sizes=[100,160]", "shapes.chunk=4", "validate_every=0",
        "held_out=4", "precision='32'",
    ]  # fmt: skip
    model = run_recipe(RECIPE, tmp_path, changes, device="cpu")
    assert (model / "config.json").is_file()
