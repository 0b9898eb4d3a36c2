"""The commands that measure against an oracle, as a person calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eigenprobe.cli import main
from eigenprobe.io.shapes import Shape, save
from tests.meshes import blob


@pytest.fixture
def mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    save(Shape(*blob(9)), tmp_path / "blob.off")
    return "blob.off"


def test_scans_are_printed_and_written(mesh: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "evaluate",
                "scans",
                mesh,
                "-k",
                "4",
                "6",
                "--points",
                "250",
                "--kinds",
                "random",
                "step:100",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert (
        "density 100:1 in a step" in out
        and "measured 6 decompositions" in out
        and "cosine_4" in out
    )
    written = json.loads(Path("out/scans/scans.json").read_text())
    assert written["facts"]["kinds"] == ["random", "step:100"] and written["facts"]["k"] == [4, 6]
    assert {path.name for path in Path("out/scans").iterdir()} == {
        "scans.csv",
        "scans.json",
        "scans.md",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kinds", "magic"], "kinds of damage are even, random, rings:AMOUNT"),
        (["--points", "15"], "expected k >= 2 and more points than that"),
        (["--jobs", "two"], "--jobs"),
    ],
)
def test_wrong_words_are_one_line(
    mesh: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "scans", mesh, *words]) != 0
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1


def test_neighbours_and_surfaces(mesh: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "neighbours", mesh, "--points", "100", "--out", "n"]) == 0
    assert "oracle cut" in capsys.readouterr().out and Path("n/neighbours.csv").is_file()
    assert (
        main(["evaluate", "surfaces", mesh, "--n", "200", "-k", "6", "--no-figures", "--out", "s"])
        == 0
    )
    assert "blob" in capsys.readouterr().out and Path("s/surfaces.md").is_file()
