"""Averaged weights: what they are, and that a resumed run goes on with them."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch

from eigenprobe.training.data import ManifoldData
from eigenprobe.training.module import SpectralModule
from eigenprobe.training.runs import RunSettings, train
from eigenprobe_lab.factory.averaging import Averaged
from tests.training.runner import circle_pool, final_loss, tiny_module


class Live(pl.Callback):
    """Copies of the weights after every step, before they are averaged."""

    def __init__(self) -> None:
        self.weights: list[list[torch.Tensor]] = []

    def on_train_batch_end(self, trainer, module, *_):
        self.weights.append([p.detach().clone() for p in module.parameters()])


class Validating(SpectralModule):
    def validation_step(self, item, batch_idx):
        self.log("val/loss", self.loss(item.at(batch_idx)).mean().float(), batch_size=1)


def test_averaged_weights_validate_and_stay():
    pool, module, live = circle_pool(2), tiny_module(30, kind=Validating), Live()
    settings = RunSettings(device="cpu", validate_every=10).watched(live, Averaged(0.9))
    trainer = train(module, ManifoldData(pool, [circle_pool(1)], steps=30), settings)
    average = live.weights[0]
    for t, weights in enumerate(live.weights[1:], 2):
        average = [a.lerp(w, 1 - min(0.9, (1 + t) / (10 + t))) for a, w in zip(average, weights)]
    for expected, found in zip(average, module.parameters()):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    assert not any(
        torch.equal(a, b) for a, b in zip(module.parameters(), live.weights[-1]) if a.numel() > 10
    )
    validated = float(trainer.callback_metrics["val/loss"])  # at step 30, with the same weights
    assert final_loss(module, circle_pool(1)) == pytest.approx(validated, rel=1e-4)


def test_averaging_goes_on_where_it_stopped(tmp_path):
    class Stop(pl.Callback):
        def on_train_batch_end(self, trainer, *_):
            trainer.should_stop = trainer.global_step == 13

    def run(folder: Path | None, *callbacks: pl.Callback) -> list[torch.Tensor]:
        module = tiny_module(30)
        settings = RunSettings(folder, device="cpu", logs=False)
        settings = settings.watched(Averaged(0.9), *callbacks)
        train(module, ManifoldData(circle_pool(2), steps=30), settings)
        return [p.detach() for p in module.parameters()]

    whole = run(None)
    stopped = run(tmp_path, Stop())
    assert not all(torch.allclose(a, b) for a, b in zip(whole, stopped))
    for expected, found in zip(whole, run(tmp_path)):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
