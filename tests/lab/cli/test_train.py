"""The command ``train``: every kind of recipe, resumption, interruption."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import eigenprobe as ep
from tests.cli.conftest import Run, done, leftovers
from tests.playground import TINY_IMAGES, TINY_PRETRAIN


def test_train(run: Run) -> None:
    out = done(run(f"train pretrain {TINY_PRETRAIN} --out p"), "p/model/config.json")
    assert "ep.SpectralModel.from_pretrained('p/model')" in out
    images = "train paper_images dataset=stl10 extractor=clip features=features.npz"
    done(run(f"{images} {TINY_IMAGES} --out i"), "i/basis.safetensors")
    assert ep.Basis.load("i/basis.safetensors").k == 11


def test_train_one_shape_and_continue(run: Run) -> None:
    words = "train overfit shape=bunny.obj k=6 steps=3 --out o"
    out = done(run(words), "o/basis.safetensors", "o/summary.json", "o/last.ckpt")
    assert "trained overfit" in out
    assert ep.Basis.load("o/basis.safetensors").k == 6
    done(run(words))  # from the checkpoint: nothing left to do


def test_an_interrupted_training_saves_first_and_goes_on(run: Run) -> None:
    words = "train overfit shape=bunny.obj k=5 checkpoint_every=1000000 --out t"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "eigenprobe", *words.split(), "steps=1000000"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    deadline = time.monotonic() + 90
    while (
        not list(Path("t").glob("csv/**/metrics.csv"))
        and process.poll() is None
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert re.fullmatch(r"eigenprobe: .*interrupted.*", err.splitlines()[-1]), err
    assert Path("t/last.ckpt").is_file()
    assert not leftovers(Path("t"))


@pytest.mark.long
def test_two_devices_from_the_command_line_equal_one_with_the_double_batch(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "cloud.npy", rng.normal(size=(240, 3)) * [1, 0.8, 0.6])
    recipe = "train overfit k=4 preset=tiny steps=12 size=80 resamplings=6"
    recipe += " smoother=row loss=sampled"
    recipe += " probes={steps: 6, count: 20} optimisation={rate: 0.003, warmup: 0}"
    words = [
        word.replace("@", " ") for word in recipe.replace(": ", ":@").replace(", ", ",@").split()
    ]
    options = {
        "two": ["--devices", "2", "--strategy", "ddp_fork"],
        "one": ["accumulate=2"],
        "half": [],
    }
    states, seen = {}, {}
    for name, more in options.items():
        changes, flags = [w for w in more if "=" in w], [w for w in more if "=" not in w]
        command = [
            *words,
            f"shape={tmp_path / 'cloud.npy'}",
            *changes,
            *flags,
            "--device",
            "cpu",
            "--out",
            name,
            "-q",
        ]
        path = os.pathsep.join(sys.path)
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        subprocess.run(
            [sys.executable, "-m", "eigenprobe", *command],
            cwd=tmp_path,
            env=environment,
            check=True,
        )
        checkpoint = torch.load(tmp_path / name / "last.ckpt", weights_only=True)
        states[name], seen[name] = (
            checkpoint["state_dict"],
            checkpoint["eigenprobe"]["batches_seen"],
        )
    assert seen == {
        "two": 12,
        "one": 24,
        "half": 12,
    }  # each of the two processes saw twelve, and other ones
    for key, value in states["one"].items():
        torch.testing.assert_close(states["two"][key], value, atol=2e-4, rtol=2e-3)
    assert (
        max(float((states["half"][key] - value).norm()) for key, value in states["one"].items())
        > 1e-3
    )
