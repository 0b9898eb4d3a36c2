"""What every test of a command needs: a folder with small data, and a call that is captured."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eigenprobe.cli import main
from tests.playground import stock

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def supplies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("supplies")
    stock(folder)
    return folder


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str],
    supplies: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """``main`` in a folder with the playground's files: (exit code, standard output, standard
    error).
    """
    shutil.copytree(supplies / "work", tmp_path / "work", symlinks=True)
    monkeypatch.chdir(tmp_path / "work")
    Path("blocked").write_text("a file where a folder is wanted")
    Path("broken.obj").write_text("v one two three\nf 1 2 3\n")
    Path("broken.yaml").write_text("kind: overfit\nk: {1: 2")
    Path("empty.npz").write_bytes(b"")
    Path("broken.npz").write_bytes(b"PK\x03\x04 not really")
    Path("nan.xyz").write_text("0 0 0\n1 nan 0\n0 1 0\n0 0 1\n")
    Path("gaps.csv").write_text("a,b\n1,2\n3,\n4,5\n,1\n")
    np.savez("two.npz", one=np.eye(4), two=np.eye(4))
    (Path.cwd() / "nothing").mkdir()

    def call(words: str) -> tuple[int, str, str]:
        code = main(words.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def leftovers(folder: Path) -> list[Path]:
    """Files of an interrupted or failed write."""
    return [path for path in folder.rglob(".*") if path.is_file() and ".parts" not in str(path)]


def done(result: tuple[int, str, str], *files: str) -> str:
    code, out, err = result
    assert code == 0, err
    for file in files:
        assert Path(file).is_file() and Path(file).stat().st_size > 0, file
        assert file in out or Path(file).parent.name in out, f"{file} is not in the summary:\n{out}"
    assert not leftovers(Path.cwd())
    return out
