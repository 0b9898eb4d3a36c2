"""Runs that end badly or in company: killed, interrupted, resumed, in two processes."""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from lightning.pytorch.utilities import rank_zero_only

from eigenprobe.errors import InputError
from eigenprobe.host import progress
from eigenprobe.host.files import locked_folder
from eigenprobe.training.data import ManifoldData
from eigenprobe.training.runs import RunSettings, devices, last_checkpoint, train

RUNNER = Path(__file__).with_name("runner.py")
spec = importlib.util.spec_from_file_location("eigenprobe_test_runner", RUNNER)
assert spec is not None and spec.loader is not None
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)


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
    pool, module = runner.circle_pool(), runner.tiny_module(steps, dropout=options.pop("dropout", 0.1))
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
        rows = list(csv.DictReader((tmp_path / "csv" / f"version_{version}" / "metrics.csv").open()))
        assert rows and "train/loss" in rows[0]
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_sigterm_saves_first(tmp_path):
    process = start(tmp_path, "--sleep", "0.1", "--steps", "400")
    wait_for(tmp_path / "last.ckpt", process)
    time.sleep(0.35)
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert saved_step(tmp_path) > 10


def test_two_processes_give_the_loss_of_one(tmp_path):
    # Each of two processes takes one batch; one process that accumulates two batches sees the same ones.
    assert start(tmp_path / "two", "--devices", "2").wait() == 0
    one, _ = in_process(tmp_path / "one", dropout=0.0, accumulate=2, logs=False)
    states = [torch.load(tmp_path / name / "last.ckpt", weights_only=True)["state_dict"] for name in ("one", "two")]
    module, pool = runner.tiny_module(40), runner.circle_pool()
    module.load_state_dict(states[1])
    assert runner.final_loss(module, pool) == pytest.approx(one, rel=1e-3)


def test_two_devices_from_the_command_line_equal_one_with_the_double_batch(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "cloud.npy", rng.normal(size=(240, 3)) * [1, 0.8, 0.6])
    recipe = "train overfit k=4 preset=tiny steps=12 size=80 resamplings=6 reference=false smoother=row loss=sampled"
    recipe += " probes={steps: 6, count: 20} optimisation={rate: 0.003, warmup: 0}"
    words = [word.replace("@", " ") for word in recipe.replace(": ", ":@").replace(", ", ",@").split()]
    options = {"two": ["--devices", "2", "--strategy", "ddp_fork"], "one": ["accumulate=2"], "half": []}
    states, seen = {}, {}
    for name, more in options.items():
        changes, flags = [w for w in more if "=" in w], [w for w in more if "=" not in w]
        command = [*words, f"shape={tmp_path / 'cloud.npy'}", *changes, *flags, "--device", "cpu", "--out", name, "-q"]
        source = str(Path(__file__).resolve().parents[2] / "src")
        environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-m", "eigenprobe", *command], cwd=tmp_path, env=environment, check=True)
        checkpoint = torch.load(tmp_path / name / "last.ckpt", weights_only=True)
        states[name], seen[name] = checkpoint["state_dict"], checkpoint["eigenprobe"]["batches_seen"]
    assert seen == {"two": 12, "one": 24, "half": 12}  # each of the two processes saw twelve, and other ones
    for key, value in states["one"].items():
        torch.testing.assert_close(states["two"][key], value, atol=2e-4, rtol=2e-3)
    assert max(float((states["half"][key] - value).norm()) for key, value in states["one"].items()) > 1e-3


def test_settings():
    assert last_checkpoint(None) is None
    assert devices("cpu") == {"accelerator": "cpu", "devices": 1}
    assert devices("cuda:1") == {"accelerator": "gpu", "devices": [1]}
    with pytest.raises(InputError, match="resume"):
        train(runner.tiny_module(1), None, RunSettings(resume="always"))
    with pytest.raises(InputError, match="accumulate=1"):
        train(runner.tiny_module(1, accelerate="graph"), None, RunSettings(accumulate=2))


def test_a_terminal_gets_a_bar_with_the_gap_to_the_closed_form(monkeypatch):
    """In per cent of the steps: the loops of a run that is counted in steps know no number of epochs."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=terminal, modules=sys.modules))
    for name, value in {"TERM": "xterm", "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(progress, "_enabled", True)
    monkeypatch.setattr(progress, "DELAY", -1.0)
    monkeypatch.setattr("eigenprobe.training.runs.Bar.EVERY", -1.0)
    pool, module = runner.circle_pool(1), runner.tiny_module(10)
    pool.samplings[0].optimum = torch.tensor([0.4])
    trainer = train(module, ManifoldData(pool, pool, steps=10), RunSettings(device="cpu", validate_every=5))
    assert {"train/loss", "train/gap", "val/loss", "val/gap"} <= set(trainer.progress_bar_metrics)
    assert "train/gap" in terminal.getvalue() and "100%" in terminal.getvalue()
    assert "Epoch" not in terminal.getvalue() and progress._bars == []


@pytest.mark.parametrize(("node", "locked"), [("0", True), ("1", False)])
def test_one_node_of_a_run_takes_the_lock(tmp_path, monkeypatch, node, locked):
    """Lightning's own environment knows the node, and every node has a process of local rank zero."""
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"NODE_RANK": node, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rank_zero_only, "rank", 0)
    held = []

    def fit(trainer: pl.Trainer, *_: object, **__: object) -> None:
        try:
            with locked_folder(tmp_path):
                held.append(False)
        except InputError:
            held.append(True)

    monkeypatch.setattr(pl.Trainer, "fit", fit)
    flags = {"num_nodes": 2, "strategy": "ddp"}
    settings = RunSettings(tmp_path, device="cpu", logs=False, flags=flags)
    train(runner.tiny_module(2), ManifoldData(runner.circle_pool(), steps=2), settings)
    assert held == [locked]
