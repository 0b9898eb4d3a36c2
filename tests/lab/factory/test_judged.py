"""What the short-cut network learns from: real meshes seen by a scanner, and clutter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenprobe.cloud.network import ShortcutConfig, ShortcutNetwork
from eigenprobe_lab.factory.judged import Clouds, ContactStream, Loss, NeighbourSettings, held_out
from eigenprobe_lab.factory.schedule import Schedule
from tests.meshes import torus

NETWORK = ShortcutConfig(width=16, rounds=2, heads=2, depth=1, views=2)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> NeighbourSettings:
    """Thin rings, some of which are held out."""
    folder = tmp_path_factory.mktemp("meshes")
    rings = [torus(30, 8, radius) for radius in (0.1, 0.12, 0.14, 0.16)]
    arrays = {f"{i}/{k}": x for i, m in enumerate(rings) for k, x in zip("vf", m, strict=True)}
    np.savez(folder / "meshes.npz", **arrays)
    clouds = Clouds(
        chunk=3,
        chunks=1,
        dense=1500,
        points=900,
        sources=300,
        sizes=(300,),
        meshes=folder / "meshes.npz",
        meshes_chunk=3,
        real=1.0,
        rendered=1.0,
    )
    schedule = Schedule(steps=2, minutes=10, optimiser="adamw", adam_rate=1e-3)
    return NeighbourSettings(
        network=NETWORK, clouds=clouds, schedule=schedule, block=2, passes=1, checkpoint_every=1
    )


def test_edges_of_rendered_meshes_are_judged(settings: NeighbourSettings) -> None:
    stream = ContactStream(settings)
    batches = [stream.at(i) for i in range(3)]
    ratio = torch.cat([batch.ratio for batch in batches])
    known = ratio[ratio >= 0]
    assert len(known) > 100 and 0.9 < float(known.median()) < 1.6
    assert float((known > 1.7).float().mean()) > 0.02, "through thin rings"
    again = ContactStream(stream.settings).at(1)
    assert torch.equal(again.ratio, batches[1].ratio), "what a step sees depends on the step alone"


def test_nothing_in_clutter_is_a_short_cut(settings: NeighbourSettings) -> None:
    clouds = replace(settings.clouds, real=0.0, clutter=1.0)
    batch = ContactStream(replace(settings, clouds=clouds)).at(0)
    assert len(batch.ratio) == len(batch.suspects.pairs) and bool((batch.ratio == 1).all())


def test_the_loss_is_smallest_for_the_truth() -> None:
    loss, ratio = Loss(), torch.tensor([1.0, 1.1, 2.4, -1.0])
    right, wrong = torch.tensor([-5.0, -5.0, 5.0, 9.0]), torch.tensor([5.0, 5.0, -5.0, 9.0])
    assert float(loss(right, ratio)) < 0.2 < 3 < float(loss(wrong, ratio))
    unknown = torch.tensor([-5.0, -5.0, 5.0, -9.0])
    assert float(loss(right, ratio)) == float(loss(unknown, ratio))


def test_what_is_held_out_is_measured_by_kind(settings: NeighbourSettings) -> None:
    torch.manual_seed(0)
    network = ShortcutNetwork(NETWORK)
    network.normalise_by(ContactStream(settings).at(0).suspects)
    facts = held_out(network.eval(), settings, torch.device("cpu"), batches=1)
    assert {"recall", "false", "views: false", "clutter: false"} <= set(facts)
    assert all(0 <= value <= 1 for value in facts.values()) and facts["clutter: share"] == 0


def test_a_recipe_takes_the_meshes(settings: NeighbourSettings, tmp_path: Path) -> None:
    from eigenprobe_lab.factory.recipes import load_recipe

    path = settings.clouds.meshes
    loaded = load_recipe("neighbours", [f"clouds.meshes={path}", "clouds.real=0.3", "shipped=true"])
    assert loaded.clouds.meshes == path and loaded.clouds.real == 0.3 and loaded.shipped
