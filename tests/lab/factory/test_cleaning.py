"""Training of the cleaning network: what the damage is, the true offsets, and a run that resumes."""

from __future__ import annotations

from dataclasses import replace

import torch

from eigenprobe.sampling.cleaning import CleaningConfig, read_cleaning
from eigenprobe.training.recipes import load_recipe
from eigenprobe_lab.factory.cleaning import CleaningModule, CleaningSettings, Damaged, DamagedStream, train_cleaning
from eigenprobe_lab.factory.timed import Schedule

TINY = CleaningSettings(
    network=CleaningConfig(width=16, edge=8, planes=2, rounds=1, heads=2, near=10, far=4),
    schedule=Schedule(steps=2, minutes=10, optimiser="adamw", adam_rate=1e-3),
    chunk=2,
    chunks=1,
    dense=900,
    points=600,
    sizes=(300,),
    block=2,
    passes=1,
    checkpoint_every=1,
)


def test_offsets_lead_to_the_nearest_plane() -> None:
    """Of the planes z = 0 and z = 1 the one whose point is nearer."""
    near = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]).expand(2, 2, 3)
    normals = torch.tensor([0.0, 0.0, 1.0]).expand(2, 2, 3)
    y = torch.tensor([[0.1, 0.2, 0.3], [0.3, 0.1, 0.8]])
    empty = torch.zeros(2, 0, dtype=torch.int64), torch.ones(2)
    offset, normal = Damaged(y, empty, near, normals, torch.zeros(2, dtype=torch.bool)).offsets(y)
    torch.testing.assert_close(offset, torch.tensor([[0, 0, -0.3], [0, 0, 0.2]]))
    torch.testing.assert_close(normal, normals[:, 0])


def test_batches_depend_on_the_step_alone_and_the_loss_learns() -> None:
    first, again = (DamagedStream(TINY).at(1) for _ in range(2))
    torch.testing.assert_close(first.y, again.y)
    torch.testing.assert_close(first.normals.norm(dim=2), torch.ones(first.near.shape[:2]))
    module = CleaningModule(TINY)
    optimiser = torch.optim.Adam(module.parameters(), 3e-3)
    losses = []
    for _ in range(30):
        found = module.losses(first, again=False)
        optimiser.zero_grad()
        found["loss"].backward()
        optimiser.step()
        losses.append(float(found["loss"].detach()))
    assert losses[-1] < 0.9 * losses[0] and module.losses(first, again=True)["loss"].isfinite()


def test_a_run_resumes_and_exports(tmp_path) -> None:
    longer = replace(TINY, schedule=replace(TINY.schedule, steps=4))
    piece = replace(longer, schedule=replace(longer.schedule, piece=1e-6))  # one step, then it stops
    for _ in range(4):
        folder = train_cleaning(piece, tmp_path, device="cpu")
    whole = train_cleaning(longer, tmp_path / "whole", device="cpu")
    for a, b in zip(read_cleaning(whole).parameters(), read_cleaning(folder).parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)  # measured 0; a step moves them by 1e-3
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 4
    assert {p.name for p in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert read_cleaning(folder).config == TINY.network


def test_the_recipe_is_that_of_the_shipped_network() -> None:
    settings = load_recipe("cleaning")
    assert settings.network == read_cleaning().config
