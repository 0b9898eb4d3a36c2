"""Tests of `cli.encoding`: bases of many shapes by a pretrained model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

import eigenprobe as ep
from tests.cli.conftest import Run, done


def test_pretrained(run: Run) -> None:
    done(run("decompose bunny.obj -m pretrained -k 10 --no-report --out p"), "p/basis.safetensors")
    files = [f"e/{name}.safetensors" for name in ("meshes/a", "meshes/b", "cloud")]
    assert "encoded 3 of 3 shapes" in done(run("encode meshes cloud.xyz -k 10 --out e"), *files)
    assert ep.Basis.load("e/cloud.safetensors").n == 390


def test_encode_skips_what_is_bad_and_overwrites_nothing(run: Run) -> None:
    shutil.copytree("meshes", "others/meshes")
    shutil.copy("broken.obj", "meshes/c.obj")
    np.savetxt("few.xyz", np.eye(3))
    code, out, err = run("encode meshes others/meshes few.xyz -k 10 --samples 300 --out e")
    assert (
        code == 2
        and "2 of 6 shapes were not encoded" in err
        and Path("e/meshes/a.safetensors").is_file()
    )
    assert (
        "encoded 4 of 6 shapes" in out
        and "skipped meshes/c.obj" in out
        and "skipped few.xyz" in out
    )
    assert Path("e/others/meshes/a.safetensors").is_file()
