"""Tests of `cli.training`: the commands that train and apply networks."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import eigenprobe as ep
from tests.cli.conftest import Run, done, leftovers
from tests.playground import TINY_IMAGES, TINY_PRETRAIN


def test_pretrained(run: Run) -> None:
    done(run("decompose bunny.obj -m pretrained -k 10 --no-report --out p"), "p/basis.safetensors")
    files = [f"e/{name}.safetensors" for name in ("a", "b", "cloud")]
    assert "encoded 3 of 3 shapes" in done(run("encode meshes cloud.xyz -k 10 --out e"), *files)
    assert ep.Basis.load("e/cloud.safetensors").n == 390


def test_encode_skips_what_is_bad_and_overwrites_nothing(run: Run) -> None:
    shutil.copytree("meshes", "others/meshes")
    shutil.copy("broken.obj", "meshes/c.obj")
    np.savetxt("few.xyz", np.eye(3))
    code, out, err = run("encode meshes others/meshes few.xyz -k 10 --samples 300 --out e")
    assert code == 2 and "2 of 6 shapes were not encoded" in err and Path("e/a.safetensors").is_file()
    assert "encoded 4 of 6 shapes" in out and "skipped meshes/c.obj" in out and "skipped few.xyz" in out
    assert Path("e/a-2.safetensors").is_file()


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
    environment = {**os.environ, "PYTHONPATH": str(Path(ep.__file__).parent.parent)}
    command = [sys.executable, "-m", "eigenprobe", *words.split(), "steps=1000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 90
    while not list(Path("t").glob("csv/**/metrics.csv")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert re.fullmatch(r"eigenprobe: .*interrupted.*\n", err) and Path("t/last.ckpt").is_file(), err
    assert not leftovers(Path("t"))
