"""Training without Lightning: the commands, and weights that the package reads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenprobe.shortcuts.network import ShortcutNetwork, read_shortcut
from eigenprobe_lab.factory.judged import ContactStream
from eigenprobe_lab.factory.plain import SETTINGS, main, train
from tests.lab.factory.test_judged import NETWORK, settings  # noqa: F401 (a fixture)
from tests.meshes import blob, torus


def test_a_few_steps_are_written(settings, tmp_path: Path, capsys) -> None:  # noqa: F811
    torch.manual_seed(0)
    network = ShortcutNetwork(NETWORK)
    network.normalise_by(ContactStream(settings).at(0).suspects)
    before = [p.detach().clone() for p in network.parameters()]
    facts = train(settings, tmp_path, torch.device("cpu"), network)
    assert facts["steps"] == 2
    assert {"views: false", "clutter: false"} <= set(facts["held out"]) & set(facts["before"])
    written = read_shortcut(tmp_path / "model")
    assert written.config == NETWORK
    moved = [not torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True)]
    assert any(moved) and "after" in capsys.readouterr().out


def test_meshes_are_packed_by_a_command(tmp_path: Path, capsys) -> None:
    meshes = {"a": torus(16, 10), "b": blob(5)}
    arrays = {f"{name}/{k}": x for name, m in meshes.items() for k, x in zip("vf", m, strict=True)}
    np.savez(tmp_path / "m.npz", **arrays)
    assert main(["pack", str(tmp_path / "m.npz"), str(tmp_path / "p.npz")]) == 0
    assert "2 meshes in" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["train"])


def test_no_lightning_is_needed() -> None:
    code = (
        "import sys; sys.modules['lightning'] = None; sys.modules['yaml'] = None\n"
        "import eigenprobe_lab.factory.plain"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert replace(SETTINGS, seed=1).shipped, "it goes on from the weights in the package"
