"""The index of a folder: what a person sees after `decompose`, `encode` or `evaluate` of many
files.
"""

from __future__ import annotations

import csv
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenprobe.basis import Basis
from eigenprobe.cli import main
from eigenprobe.viz.page import row_of, write_index
from tests.playground import write_mesh


def shapes(folder: Path) -> None:
    from benchmarks.meshing import creature

    vertices, faces = creature(10)
    write_mesh(folder / "a.obj", vertices, faces)
    write_mesh(folder / "below" / "b.obj", vertices * [1, 1.4, 1], faces)
    (folder / "broken.obj").write_text("v 1 2\nf 1 2 3\n")


def rows(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "summary.csv").open(newline="") as file:
        return {Path(row["file"]).name: row for row in csv.DictReader(file)}


def test_a_run_that_goes_on_keeps_the_rows(tmp_path: Path) -> None:
    told = ["2 separate <parts>", "strays"]
    values = np.arange(3.0)
    basis = Basis(np.eye(3), np.ones(3) / 3, values, None, info={"warnings": told, "seconds": 0.5})
    quiet = replace(basis, info={"warnings": []})
    done = {"in/a.obj": row_of(tmp_path, Path("in/a.obj"), tmp_path / "a" / "report.html", basis)}
    (page, _), (table, _) = write_index(tmp_path, "first", done, {Path("in/<b>.obj"): "empty"})
    text = page.read_text()
    assert "<li>2 separate &lt;parts&gt;</li><li>strays</li>" in text
    assert "1 files done, 1 failed, 1 with warnings" in text
    done = {"in/c.obj": row_of(tmp_path, Path("in/c.obj"), tmp_path / "c" / "report.html", quiet)}
    again = write_index(tmp_path, "second", done, {})[0][0].read_text()
    assert [row["status"] for row in rows(tmp_path).values()] == ["failed", "done", "done"]
    assert rows(tmp_path)["a.obj"]["warnings"] == "; ".join(told)
    assert rows(tmp_path)["a.obj"]["vectors"] == "3"
    assert "&lt;b&gt;" in again and "<b>" not in again and "2 files done, 1 failed" in again
    assert 'href="a/report.html"' in again and table.name == "summary.csv"


@pytest.mark.browser
def test_folders_get_an_index(
    tmp_path: Path, watch: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split("decompose in -k 5 --device cpu --out d")) == 2
    found = rows(tmp_path / "d")
    assert set(found) == {"a.obj", "b.obj", "broken.obj"}
    assert found["broken.obj"]["status"] == "failed" and found["broken.obj"]["reason"]
    assert found["b.obj"]["link"] == "below/b/report.html" and int(found["a.obj"]["vectors"]) == 5
    seen = watch((tmp_path / "d" / "index.html").as_uri())
    assert (
        seen.page.locator(".card").count() == 3 and seen.page.locator(".card.failed").count() == 1
    )
    pictures = (
        "[...document.images].map((image) => [image.naturalWidth > 50, image.alt.length > 5])"
    )
    seen.page.wait_for_function("[...document.images].every((image) => image.complete)")
    assert seen.page.evaluate(pictures) == [[True, True]] * 2
    assert seen.page.locator(".card a").first.get_attribute("href") == "a/report.html"
    cells = "[...document.querySelectorAll('.card, .card td')]"
    assert seen.page.evaluate(f"{cells}.every((c) => c.scrollWidth <= c.clientWidth)")
    assert (
        seen.page.locator(".card h2").all_text_contents()[-1] == "below/b.obj"
    )  # with the sub-folder it came from
    assert seen.problems == []
    assert (
        main(shlex.split("encode in -k 5 --samples 100 --device cpu --out e")) == 2
    )  # one file could not be read
    assert rows(tmp_path / "e")["b.obj"]["link"] == "below/b.safetensors"
    assert (tmp_path / "e" / "thumbnails" / "below__b.png").is_file()
    capsys.readouterr()
    # Other settings are refused, or done again.
    assert main(shlex.split("decompose in -k 6 --no-report --device cpu --out d")) == 2
    error = capsys.readouterr().err
    assert "holds results of other settings (k 5)" in error and len(error.splitlines()) == 1
    assert (
        main(
            shlex.split("decompose in/a.obj in/below -k 6 --no-report --device cpu --out d --force")
        )
        == 0
    )
    assert rows(tmp_path / "d")["a.obj"]["vectors"] == "6"
