"""The training module: batches that fail are survived, weights are averaged, schedules are right."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch

from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.training.data import ManifoldData
from eigenprobe.training.module import Optimisation
from eigenprobe.training.runs import RunSettings, train

spec = importlib.util.spec_from_file_location("eigenprobe_test_runner", Path(__file__).with_name("runner.py"))
assert spec is not None and spec.loader is not None
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)


def test_training_stops_when_nothing_is_finite():
    pool = runner.circle_pool(1)
    batch = pool.samplings[0]
    pool.samplings[0] = replace(batch, points=torch.full_like(batch.points, torch.nan))
    with pytest.warns(EigenprobeWarning), pytest.raises(InputError, match="in a row"):
        train(runner.tiny_module(200, patience=10), ManifoldData(pool, steps=200), RunSettings(device="cpu"))


class Live(pl.Callback):
    """Copies of the weights after every step, before they are averaged."""

    def __init__(self) -> None:
        self.weights: list[list[torch.Tensor]] = []

    def on_train_batch_end(self, trainer, module, *_):
        self.weights.append([p.detach().clone() for p in module.parameters()])


def test_averaged_weights_validate_and_stay():
    pool, module, live = runner.circle_pool(2), runner.tiny_module(30), Live()
    settings = RunSettings(device="cpu", validate_every=10, average=0.9, flags={"callbacks": [live]})
    trainer = train(module, ManifoldData(pool, runner.circle_pool(1), steps=30), settings)
    average = live.weights[0]
    for t, weights in enumerate(live.weights[1:], 2):
        average = [a.lerp(w, 1 - min(0.9, (1 + t) / (10 + t))) for a, w in zip(average, weights)]
    for expected, found in zip(average, module.parameters()):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    assert not any(torch.equal(a, b) for a, b in zip(module.parameters(), live.weights[-1]) if a.numel() > 10)
    validated = float(trainer.callback_metrics["val/loss"])  # at step 30, with the same weights
    assert runner.final_loss(module, runner.circle_pool(1)) == pytest.approx(validated, rel=1e-4)


def test_averaging_goes_on_where_it_stopped(tmp_path):
    class Stop(pl.Callback):
        def on_train_batch_end(self, trainer, *_):
            trainer.should_stop = trainer.global_step == 13

    def run(folder: Path | None, *callbacks: pl.Callback) -> list[torch.Tensor]:
        module = runner.tiny_module(30)
        settings = RunSettings(folder, device="cpu", average=0.9, logs=False, flags={"callbacks": list(callbacks)})
        train(module, ManifoldData(runner.circle_pool(2), steps=30), settings)
        return [p.detach() for p in module.parameters()]

    whole = run(None)
    stopped = run(tmp_path, Stop())
    assert not all(torch.allclose(a, b) for a, b in zip(whole, stopped))
    for expected, found in zip(whole, run(tmp_path)):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_schedules():
    cosine = Optimisation(100, rate=1e-2, final_rate=1e-4, warmup=10)
    assert cosine.factor(0) == pytest.approx(0.1) and cosine.factor(10) == pytest.approx(1)
    assert cosine.factor(100) == pytest.approx(0.01) and cosine.factor(55) == pytest.approx(0.505, rel=1e-3)
    steps = Optimisation(100, warmup=0, schedule="step")
    assert [steps.factor(s) for s in (0, 29, 30, 70)] == pytest.approx([1, 1, 0.1, 0.01])
    with pytest.raises(InputError, match="schedule"):
        Optimisation(schedule="linear").factor(50)


@pytest.mark.parametrize(("clip", "factor"), [(1.0, 1 / 5), (2.5, 1 / 2), (7.0, 1.0), (0.0, 1.0)])
def test_gradients_are_clipped_to_their_norm(clip, factor):
    module = runner.tiny_module(1)
    module.optimisation = replace(module.optimisation, clip=clip)
    parameters = list(module.parameters())
    for p in parameters:
        p.grad = torch.zeros_like(p)
    parameters[0].grad.view(-1)[0], parameters[-1].grad.view(-1)[0] = 3.0, -4.0  # norm 5
    module.configure_gradient_clipping(torch.optim.AdamW(parameters))
    assert float(parameters[0].grad.view(-1)[0]) == pytest.approx(3 * factor)
    assert float(parameters[-1].grad.view(-1)[0]) == pytest.approx(-4 * factor)


@pytest.mark.parametrize("prefix", ["mean", "log"])
def test_the_gap_is_what_is_lost_to_the_optimum(prefix):
    module, logged = runner.tiny_module(1), {}
    module.objective = replace(module.objective, prefix=prefix)
    module.log = lambda name, value, **_: logged.__setitem__(name, float(value))
    batch = runner.circle_pool(1).samplings[0]
    with torch.no_grad():
        module.validation_step(batch, 0)
        loss = logged["val/loss"]
        module.validation_step(replace(batch, optimum=torch.tensor([0.8 * loss])), 0)
    assert logged["val/gap"] == pytest.approx(0.2 * loss if prefix == "log" else 0.25, rel=1e-5)


def test_the_pool_visits_every_sampling_in_each_round():
    pool = runner.circle_pool(3)
    for turn in range(4):
        seen = {id(pool.at(3 * turn + i)) for i in range(3)}
        assert len(seen) == 3
    assert math.isclose(runner.final_loss(runner.tiny_module(1), pool), runner.final_loss(runner.tiny_module(1), pool))
