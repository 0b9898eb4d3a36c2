"""Files of results: made by a command, with what it takes to make them again; stale when a sample
has other numbers.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import catalogue, paper_tables, readme, record, samples

ROOT = Path(__file__).resolve().parent.parent
ONE_NETWORK = "one network for all shapes, !cosine! k ≤ 10 / 20 / 50"


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """What every sample gives, to be changed by a test."""
    given = {"eigenvalues": [0.0, 1.0, 2.0]}
    for name in samples.SAMPLES:
        monkeypatch.setitem(samples.SAMPLES, name, lambda **_: given)
    samples._numbers.cache_clear()
    yield given
    samples._numbers.cache_clear()


def changed(numbers: dict[str, list[float]], *values: float) -> None:
    numbers["eigenvalues"] = list(values)
    samples._numbers.cache_clear()


def test_every_file_has_a_command_and_a_sample() -> None:
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        assert catalogue.made_by(path.name).command
    for name, result in catalogue.RESULTS.items():
        assert result.command.startswith("python -m benchmarks."), name
        assert ("cuda" in result.command) == result.gpu, name
        assert result.sample is None or result.sample in samples.SAMPLES, name
    with pytest.raises(SystemExit, match=r"no command makes other.json"):
        catalogue.made_by("other.json")


@pytest.mark.parametrize("name", sorted(samples.SAMPLES))
def test_a_sample_gives_the_same_numbers_again(name: str) -> None:
    inputs = next(result.inputs for result in catalogue.RESULTS.values() if result.sample == name)
    block = samples.take(name, inputs)
    assert (
        json.loads(json.dumps(block)) == block
        and block["numbers"]
        and len(json.dumps(block)) < 3000
    )
    samples._numbers.cache_clear()
    assert samples.agrees(json.loads(json.dumps(block)))
    if name in ("decomposition", "table", "toy"):
        assert not samples.agrees(block | {"inputs": {**inputs, "seed": 5}})


def test_a_sample_is_compared_within_its_tolerance(numbers: dict[str, list[float]]) -> None:
    block = samples.take("decomposition", {"n": 10, "k": 3})
    assert (
        block["numbers"] == {"eigenvalues": [0, 1, 2]} and block["tolerance"] == samples.TOLERANCE
    )
    changed(
        numbers, 1e-12, 1.0, 2.0 * (1 + 0.9e-3)
    )  # rounding, and less than the tolerance of the largest
    assert samples.agrees(block)
    for values in ((0, 1, 2.0 * (1 + 1.1e-3)), (0, 1.003, 2), (0, 1), (0, 1, float("nan"))):
        changed(numbers, *values)
        assert not samples.agrees(block), values
    changed(numbers, 0, 1, 2)
    assert samples.agrees(block) and not samples.agrees(
        block | {"of": "what is no longer measured"}
    )


def test_no_file_names_a_place_on_the_machine_that_made_it() -> None:
    assert (
        record.portable("--state") == "--state"
        and record.portable("carried/unseen") == "carried/unseen"
    )
    assert record.portable("/somewhere/state/runs") == "runs"
    for path in record.RESULTS.glob("*.json"):
        commands = re.findall(r'"command": "([^"]*)"', path.read_text())
        assert not [word for line in commands for word in line.split() if word.startswith("/")], (
            path.name
        )


def test_a_file_says_how_it_was_made_and_goes_stale(
    numbers: dict[str, list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setattr(sys, "argv", ["retrieval.py", "a file.obj", "--n", "300"])
    mesh = tmp_path / "a file.obj"
    mesh.write_text("v 0 0 0")
    options = argparse.Namespace(meshes=[mesh], n=300, faces=None)
    record.write(
        "retrieval.json",
        record.facts("retrieval", "cpu", options, seed=3) | {"shapes": [{"x": 1 / 3}]},
    )
    found = json.loads((tmp_path / "out" / "retrieval.json").read_text())
    assert found["command"] == "python -m benchmarks.retrieval 'a file.obj' --n 300"
    assert found["seed"] == 3 and found["threads"] >= 1 and found["shapes"] == [{"x": 0.333333}]
    assert {"python", "torch", "numpy", "scipy"} <= set(found["versions"])
    assert {"commit", "date", "device", "sample"} <= set(found)
    assert found["options"] == {"meshes": ["a file.obj"], "n": 300, "faces": None}
    assert (
        found["data"] == {"a file.obj": record.fingerprint(mesh)}
        and found["data"]["a file.obj"]["files"] == 1
    )
    mesh.write_text("v 0 0 1")
    assert record.fingerprint(mesh) != found["data"]["a file.obj"]
    assert catalogue.state("retrieval.json", found) == "confirmed"
    changed(numbers, 0.0, 1.0, 2.1)
    assert catalogue.state("retrieval.json", found) == "stale"
    assert (
        catalogue.state(
            "retrieval.json", {key: value for key, value in found.items() if key != "sample"}
        )
        == "unconfirmed"
    )


def test_pages_refuse_stale_results_or_mark_them(
    numbers: dict[str, list[float]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored, page, empty = (
        tmp_path / "stored",
        tmp_path / "page.md",
        "<!-- results: robustness -->\n<!-- end -->\n",
    )
    monkeypatch.setenv("OUT", str(stored))
    table = {"n=500": {"pretrained": 0.9, "direct": 0.8}}
    record.write("robustness.json", record.facts("robustness", "cpu", {}) | {"cosine10": table})
    page.write_text(empty)
    monkeypatch.setattr(readme, "RESULTS", stored)
    monkeypatch.setattr(readme, "PAGES", (page,))
    monkeypatch.setattr(sys, "argv", ["readme"])
    readme.main()
    assert "| n=500" in page.read_text() and not re.search("Stale|Unconfirmed", page.read_text())
    changed(numbers, 0.0, 1.0, 3.0)
    page.write_text(empty)
    with pytest.raises(SystemExit, match="1 files are stale"):
        readme.main()
    assert (
        "robustness.json is stale, its sample differs today: run python -m benchmarks.robust"
        in capsys.readouterr().err
    )
    assert page.read_text() == empty
    monkeypatch.setattr(sys, "argv", ["readme", "--stale"])
    readme.main()
    assert (
        "*Stale, a small sample gives other numbers today*" in page.read_text()
        and "| n=500" in page.read_text()
    )
    file = stored / "robustness.json"
    file.write_text(
        json.dumps(
            {key: value for key, value in json.loads(file.read_text()).items() if key != "sample"}
        )
    )
    monkeypatch.setattr(sys, "argv", ["readme"])
    readme.main()  # shown, and marked
    assert (
        "*Unconfirmed, without a sample of this measurement*" in page.read_text()
        and "| n=500" in page.read_text()
    )


def cells(table: str) -> list[list[str]]:
    """The cells of a Markdown table, its rule left as it is."""
    lines = [line.replace("\\|", "!") for line in table.splitlines()]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]


def test_calls_take_turns_and_their_spread_is_kept() -> None:
    order: list[str] = []
    waits = iter([0.05, 0.0, 0.01, 0.02, 0.03, 0.02, 0.02, 0.01])  # pairs: the first one warms up

    def call(name: str) -> None:
        order.append(name)
        time.sleep(next(waits))

    rows = record.turns({"a": lambda: call("a"), "b": lambda: call("b")}, 3)
    assert order == ["a", "b"] * 4
    assert rows["a"]["cold"] >= 0.05 and len(rows["a"]["all"]) == 3
    assert rows["a"]["range"] == [min(rows["a"]["all"]), max(rows["a"]["all"])]
    assert rows["a"]["seconds"] == sorted(rows["a"]["all"])[1]
    found = record.ratios(rows, "a", "b")
    each = np.divide(rows["a"]["all"], rows["b"]["all"])
    assert found == {"of": "a / b", "median": np.median(each), "range": [each.min(), each.max()]}
    assert record.spread({"seconds": 2.0, "range": [1.0, 3.5]}, 1) == "2.0 (1.0 to 3.5)"
    assert record.spread({"seconds": 2.0, "all": [2.0], "range": [2.0, 2.0]}, 1) == "2.0 (of 1)"


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the kernel keeps no high-water mark here"
)
def test_memory_is_that_of_the_call() -> None:
    """Forty MiB are forty MiB after a larger call too, where a difference of two marks would be
    0.
    """

    def hold(mib: int) -> None:
        np.ones(mib * 2**17).sum()

    hold(200)
    assert record.peak(lambda: hold(40)) == pytest.approx(40, abs=6)
    assert record.peak(lambda: hold(120)) == pytest.approx(120, abs=6)


def test_the_verdicts_agree_with_the_details() -> None:
    results = ROOT / "benchmarks" / "results"
    found = {row[1]: row[3] for row in cells(paper_tables.verdicts(results))}
    shapes = {row[0]: row for row in cells(paper_tables.shapes(results))}
    vertices, faces = shapes["**mean of the nine**"][2:4]
    (said,) = [text for name, text in found.items() if name.startswith("one network per shape")]
    assert f"{faces} on even points" in said and f"{vertices} on vertices" in said
    spectra = {row[0]: row for row in cells(paper_tables.spectra(results))}
    (said,) = [text for name, text in found.items() if "largest error" in name]
    for name in ("the paper's way", "random weights", "polynomials"):
        assert spectra[f"{name}, vertices"][2] in said
    unseen = [row for row in cells(paper_tables.unseen(results)) if row[0] == "MPZ14"]
    theirs = next(row for row in unseen if row[2] == "the paper's way")
    assert f"{theirs[4]} / {theirs[5]} / {theirs[8]}" in found[ONE_NETWORK]
