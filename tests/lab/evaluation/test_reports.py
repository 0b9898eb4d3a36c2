"""Reports: CSV, JSON and Markdown say the same and are whole."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from eigenprobe_lab.evaluation import reports as tables

ROWS = [
    {"shape": "cat|dog", "cosine": np.float64(0.98765), "n": 4000},
    {"shape": "b", "cosine": float("nan"), "n": np.int64(7), "note": "late column"},
]


def test_markdown_aligns_and_escapes() -> None:
    text = tables.markdown(ROWS)
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "cat\\|dog" in text
    assert "0.988" in text
    assert lines[3].count("-") == 1
    chosen = tables.markdown(ROWS, {"n": "points", "cosine": "|cos|"}, formats={"cosine": ".1f"})
    assert chosen.splitlines()[0].split() == ["|", "points", "|", "|cos|", "|"]
    assert "1.0" in chosen
    assert tables.markdown(ROWS, ["n", "absent"]) == tables.markdown(ROWS, ["n"])


def test_three_files_agree(tmp_path) -> None:
    report = tables.Report(ROWS, {"c.obj": "no mesh"}, {"seed": 0, "path": tmp_path})
    paths = report.write(tmp_path / "new" / "folder", "table").written
    assert [p.name for p in paths] == ["table.csv", "table.json", "table.md"]
    with paths[0].open(newline="") as file:
        read = list(csv.DictReader(file))
    assert read[0] == {"shape": "cat|dog", "cosine": "0.98765", "n": "4000", "note": ""}
    content = json.loads(paths[1].read_text())
    assert content["rows"][0]["cosine"] == pytest.approx(0.98765)
    assert content["rows"][1]["cosine"] is None, "NaN is not JSON"
    assert content["facts"] == {"seed": 0, "path": str(tmp_path), "failed": {"c.obj": "no mesh"}}
    assert paths[2].read_text().startswith("| shape")


def test_means_skip_what_is_missing() -> None:
    rows = [{"a": 1.0, "b": None}, {"a": 3, "b": 5.0}, {"a": float("nan")}]
    assert tables.mean_row(rows, ["a", "b", "c"], over="all") == {
        "over": "all",
        "a": 2.0,
        "b": 5.0,
        "c": None,
    }
    assert tables.mean_row([*rows, {"name": "x"}]) == {"a": 2.0, "b": 5.0}, (
        "by default the numbers there are"
    )
    assert tables.columns_of(rows) == ["a", "b"]
    assert list(tables.grouped([{"a": 1, "b": 2}, {"a": 2, "b": 2}], "b")) == [(2,)]


def test_a_failed_write_leaves_the_old_file(tmp_path) -> None:
    path = tmp_path / "t.json"
    tables.write_json(path, {"rows": ROWS})
    before = path.read_text()
    with pytest.raises(RecursionError):
        loop: list = []
        loop.append(loop)
        tables.write_json(path, {"a": loop})
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
