"""Runs that end badly or in company: killed, interrupted, resumed, in two processes."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.training.data import ManifoldData
from eigenprobe.training.runs import RunSettings, devices, last_checkpoint, train
from tests.training import runner

RUNNER = Path(__file__).with_name("runner.py")


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    source = str(Path(__file__).resolve().parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, str(RUNNER), str(folder), *arguments], env=environment)


def wait_for(path: Path, process: subprocess.Popen[bytes], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, "the run ended before it wrote a checkpoint"
        assert time.monotonic() < end, "no checkpoint in time"
        time.sleep(0.05)


def saved_step(folder: Path) -> int:
    return int(torch.load(folder / "last.ckpt", weights_only=True)["global_step"])


def in_process(folder: Path | None, steps: int = 40, **options) -> tuple[float, pl.Trainer]:
    pool, module = (
        runner.circle_pool(),
        runner.tiny_module(steps, dropout=options.pop("dropout", 0.1)),
    )
    settings = RunSettings(folder, device="cpu", checkpoint_every=10, **options)
    trainer = train(module, ManifoldData(pool, steps=steps * settings.accumulate), settings)
    return runner.final_loss(module, pool), trainer


def test_a_killed_run_resumes_to_the_loss_of_an_uninterrupted_one(tmp_path):
    process = start(tmp_path / "killed", "--sleep", "0.1")
    wait_for(tmp_path / "killed" / "last.ckpt", process)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert 0 < saved_step(tmp_path / "killed") < 40
    resumed, trainer = in_process(tmp_path / "killed", logs=False)
    assert trainer.global_step == 40
    whole, _ = in_process(None)  # dropout included: the checkpoint holds the state of its generator
    assert resumed == pytest.approx(whole, rel=1e-5)


def test_an_interrupt_saves_first_and_logs_go_on(tmp_path):
    class Stop(pl.Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 23:
                raise KeyboardInterrupt

    whole, _ = in_process(None)
    with pytest.raises(KeyboardInterrupt):
        in_process(tmp_path, flags={"callbacks": [Stop()]})
    assert saved_step(tmp_path) == 23  # an interrupt saves first, between two periodic checkpoints
    resumed, _ = in_process(tmp_path)
    assert resumed == pytest.approx(whole, rel=1e-5)
    again, trainer = in_process(tmp_path)  # finished: nothing left to do
    assert again == pytest.approx(whole, rel=1e-5) and trainer.global_step == 40
    for version in (0, 1):  # the run and its resumption
        rows = list(
            csv.DictReader((tmp_path / "csv" / f"version_{version}" / "metrics.csv").open())
        )
        assert rows and "train/loss" in rows[0]
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_sigterm_saves_first(tmp_path):
    process = start(tmp_path, "--sleep", "0.1", "--steps", "400")
    wait_for(tmp_path / "last.ckpt", process)
    time.sleep(0.35)
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert saved_step(tmp_path) > 10


def test_settings():
    assert last_checkpoint(None) is None
    assert devices("cpu") == {"accelerator": "cpu", "devices": 1}
    assert devices("cuda:1") == {"accelerator": "gpu", "devices": [1]}
    with pytest.raises(InputError, match="resume"):
        train(runner.tiny_module(1), None, RunSettings(resume="always"))
