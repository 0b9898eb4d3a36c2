"""Tests of `cli.session`: folders that exist or cannot be written, and interruptions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run, done


@pytest.mark.parametrize(
    "words",
    [
        "decompose bunny.obj",
        "embed features.npz",
        "encode meshes",
        "evaluate surfaces meshes",
        "reproduce toy1d",
        "cache meshes --jobs 1",
        "demo",
    ],
)
def test_a_folder_that_cannot_be_written_fails_before_the_work(words: str, run: Run) -> None:
    code, _, err = run(f"{words} --out blocked/inside")
    assert code == 2
    assert re.search(r"cannot write to .*blocked", err) and len(err.splitlines()) == 1, err


@pytest.mark.parametrize(
    "words, path",
    [
        ("decompose cloud.xyz -k 4 --no-report --out o", "o/basis.safetensors"),
        ("embed train.npy -k 2 --no-report --out o", "o/embedding.npz"),
        ("encode cloud.xyz -k 4 --out o", "o/cloud.safetensors"),
    ],
)
def test_what_exists_is_overwritten_by_force_only(words: str, path: str, run: Run) -> None:
    done(run(words), path)
    before = Path(path).stat().st_mtime_ns
    code, _, err = run(words)
    assert code == 2 and re.search(
        rf"{path} exists: choose another --out, or overwrite it by --force", err
    ), err
    assert Path(path).stat().st_mtime_ns == before
    done(run(f"{words} --force"), path)
    assert Path(path).stat().st_mtime_ns > before
