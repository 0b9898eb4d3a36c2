"""Files of results: made by a command, with what it takes to make them again; stale when a sample has other numbers."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from benchmarks import catalogue, readme, record, samples, shown, summaries
from eigenprobe_lab.evaluation.clustering import METRICS
from eigenprobe_lab.paper.published import table

ROOT = Path(__file__).resolve().parent.parent


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
        assert result.sample in samples.SAMPLES or name == "mutants.json", name
    with pytest.raises(SystemExit, match=r"no command makes other.json"):
        catalogue.made_by("other.json")


@pytest.mark.parametrize("name", sorted(samples.SAMPLES))
def test_a_sample_gives_the_same_numbers_again_and_depends_on_its_seed(name: str) -> None:
    inputs = next(result.inputs for result in catalogue.RESULTS.values() if result.sample == name)
    block = samples.take(name, inputs)
    assert json.loads(json.dumps(block)) == block and block["numbers"] and len(json.dumps(block)) < 3000
    samples._numbers.cache_clear()
    assert samples.agrees(json.loads(json.dumps(block)))
    if name not in ("alignment", "neighbours"):  # the shipped mesh, whose farthest points hardly depend on a start
        assert not samples.agrees(block | {"inputs": {**inputs, "seed": 5}})


def test_a_sample_is_compared_within_its_tolerance(numbers: dict[str, list[float]]) -> None:
    block = samples.take("decomposition", {"n": 10, "k": 3})
    assert block["numbers"] == {"eigenvalues": [0, 1, 2]} and block["tolerance"] == samples.TOLERANCE
    changed(numbers, 1e-12, 1.0, 2.0 * (1 + 0.9e-3))  # rounding, and less than the tolerance of the largest
    assert samples.agrees(block)
    for values in ((0, 1, 2.0 * (1 + 1.1e-3)), (0, 1.003, 2), (0, 1), (0, 1, float("nan"))):
        changed(numbers, *values)
        assert not samples.agrees(block), values
    changed(numbers, 0, 1, 2)
    assert samples.agrees(block) and not samples.agrees(block | {"of": "what is no longer measured"})


def test_no_file_names_a_place_on_the_machine_that_made_it() -> None:
    assert record.portable("--state") == "--state" and record.portable("carried/unseen") == "carried/unseen"
    assert record.portable("/somewhere/state/runs") == "runs"
    for path in record.RESULTS.glob("*.json"):
        commands = re.findall(r'"command": "([^"]*)"', path.read_text())
        assert not [word for line in commands for word in line.split() if word.startswith("/")], path.name


def test_a_file_says_how_it_was_made_and_goes_stale(
    numbers: dict[str, list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setattr(sys, "argv", ["probe_scale.py", "a file.obj", "--n", "300"])
    mesh = tmp_path / "a file.obj"
    mesh.write_text("v 0 0 0")
    options = argparse.Namespace(meshes=[mesh], n=300, faces=None)
    record.write("probe_scale.json", record.facts("probe_scale", "cpu", options, seed=3) | {"shapes": [{"x": 1 / 3}]})
    found = json.loads((tmp_path / "out" / "probe_scale.json").read_text())
    assert found["command"] == "python -m benchmarks.probe_scale 'a file.obj' --n 300"
    assert found["seed"] == 3 and found["threads"] >= 1 and found["shapes"] == [{"x": 0.333333}]
    assert {"python", "torch", "numpy", "scipy"} <= set(found["versions"])
    assert {"commit", "date", "device", "sample"} <= set(found)
    assert found["options"] == {"meshes": ["a file.obj"], "n": 300, "faces": None}
    assert found["data"] == {"a file.obj": record.fingerprint(mesh)} and found["data"]["a file.obj"]["files"] == 1
    mesh.write_text("v 0 0 1")
    assert record.fingerprint(mesh) != found["data"]["a file.obj"]
    assert catalogue.state(found) == "confirmed"
    changed(numbers, 0.0, 1.0, 2.1)
    assert catalogue.state(found) == "stale"
    assert catalogue.state({key: value for key, value in found.items() if key != "sample"}) == "unconfirmed"


def test_pages_refuse_stale_results_or_mark_them(
    numbers: dict[str, list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored, page, empty = tmp_path / "stored", tmp_path / "page.md", "<!-- results: robustness -->\n<!-- end -->\n"
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
        "robustness.json is stale, its sample differs today: run python -m benchmarks.robust" in capsys.readouterr().err
    )
    assert page.read_text() == empty
    monkeypatch.setattr(sys, "argv", ["readme", "--stale"])
    readme.main()
    assert "*Stale, a small sample gives other numbers today*" in page.read_text() and "| n=500" in page.read_text()
    file = stored / "robustness.json"
    file.write_text(json.dumps({key: value for key, value in json.loads(file.read_text()).items() if key != "sample"}))
    monkeypatch.setattr(sys, "argv", ["readme"])
    readme.main()  # shown, and marked
    assert "*Unconfirmed, measured before files kept a sample*" in page.read_text() and "| n=500" in page.read_text()


@pytest.mark.parametrize("command", ["training shapes", "training quality", "paper overfit", "paper generalisation"])
def test_a_measurement_without_its_data_fails(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import paper, training

    module, section = command.split()
    monkeypatch.setattr(sys, "argv", [module, section, "--data", str(tmp_path), "--device", "cpu"])
    with pytest.raises(SystemExit, match="no samples in"):
        {"paper": paper, "training": training}[module].main()


@pytest.mark.parametrize("module", ["clusters", "maps", "operators", "robustness", "retrieval"])
def test_a_measurement_of_files_that_are_not_there_fails(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module, "nosuch.obj"])
    with pytest.raises(SystemExit, match="2"):
        importlib.import_module(f"benchmarks.{module}").main()
    assert "no such data: nosuch.obj" in capsys.readouterr().err


def test_an_experiment_has_words_where_it_has_no_number(tmp_path: Path) -> None:
    empty = summaries.experiments(tmp_path).splitlines()
    assert len(empty) == 10 and not [line for line in empty[2:] if "| - " in line or "nan" in line]
    shapes = [("armadillo", 0.9), ("horse", 0.7), ("fertility_faces", 0.1)]  # the last is not on vertices
    rows = [
        {"shape": shape, "method": method, **dict.fromkeys((*shown.COSINES, "discrepancy"), value)}
        for shape, value in shapes
        for method in ("the paper's way", "random weights")
    ]
    (tmp_path / "paper_overfit.json").write_text(json.dumps({"rows": rows}))
    scores = [{"method": method, "k": k, "nmi": k / 100, "ari": 0.5} for k in (2, 10) for method in ("direct", "paper")]
    (tmp_path / "images_cifar10_efflite0.json").write_text(json.dumps({"rows": scores}))
    lines = cells(summaries.experiments(tmp_path))
    assert all(len(line) == 8 for line in lines)
    assert lines[3][2:6] == ["0.954 / 0.919 / 0.774", "0.800 / 0.800 / 0.800", "not measured", "not measured"]
    assert lines[4][1:4] == ["1 shapes, drawn on the faces", "0.874 / 0.866 / 0.720", "0.100 / 0.100 / 0.100"]
    # A network trained with a borrowed triple is withdrawn, wherever an old file has it.
    assert lines[9][2:6] == ["none", "not measured", "not measured", "0.100 / 0.500"]
    polynomials = shown.given([{"mass": None}, {"mass": 0.0}], mass="constant")
    assert polynomials == [{"mass": "constant"}, {"mass": 0.0}]


def cells(table: str) -> list[list[str]]:
    """The cells of a Markdown table, its rule left as it is."""
    lines = [line.replace("\\|", "!") for line in table.splitlines()]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_the_summary_of_the_paper_agrees_with_the_details() -> None:
    results = ROOT / "benchmarks" / "results"
    summary = cells(summaries.experiments(results))

    def line(setting: str, data: str) -> list[str]:
        (found,) = [row for row in summary if row[0].startswith(setting) and data in row[1]]
        return found

    detail = cells(readme.section("paper_overfit", results))
    nine, faces = [row for row in detail if row[0].startswith("**mean")]
    for means, data in ((nine, "shapes, vertices"), (faces, "faces")):
        assert line("one shape, !cosine", data)[2:4] == means[2:4]
    assert line("one shape, relative", "nine")[2:4] == nine[5:7]
    (control,) = [row for row in cells(readme.section("paper_controls", results)) if row[0].startswith("**mean")]
    assert line("one shape, !cosine", "shapes, vertices")[4] == control[2]
    (written,) = [row for row in cells(readme.section("probes_eigenvalues", results)) if row[0] == "as written"]
    assert line("one shape, relative", "nine")[4] == written[1]
    ours = [row for row in cells(readme.section("surfaces", results)) if row[:2] == ["the nine", "direct"]]
    assert line("one shape, !cosine", "shapes, vertices")[5].split(" / ") == ours[0][3:6]
    # Ours is not measured on the faces: its numbers there say that they are of other data.
    assert line("one shape, !cosine", "faces")[5] == line("one shape, !cosine", "shapes, vertices")[5] + ", on vertices"
    assert all(row[5].endswith(", on vertices") for row in summary if "drawn on the faces" in row[1])
    unseen = cells(readme.section("paper_generalisation", results))
    for name in ("MPZ14", "SHREC'07"):
        start = unseen.index(next(row for row in unseen if row[0] == f"the paper, {name}"))
        for row, column in ((unseen[start], 2), (unseen[start + 1], 3)):
            assert line("unseen", name)[column].split(" / ") == [row[3], row[5], row[11]]


def test_both_samplings_of_tables_are_on_the_first_page() -> None:
    results = ROOT / "benchmarks" / "results"
    found = {row[0]: row for row in cells(summaries.headlines(results)) if row[0].startswith("ARI of the same")}
    assert len(found) == 2
    for (name, row), sampling in zip(found.items(), ("uniform", "weighted"), strict=True):
        assert sampling in name
        for cell, method in ((row[1], "10 coordinates"), (row[3].removeprefix("UMAP "), "UMAP in 10")):
            kept = json.loads((results / "maps.json").read_text())["parts"]["coordinates"]
            means = {
                each["table"]: each["k-means ARI"]
                for each in kept
                if (each["rows"], each["method"]) == (sampling, method)
            }
            tables = ("banking77_minilm", "cifar10_efflite0", "imagenette_efflite0")
            assert cell == " / ".join(f"{means[table]:.3f}" for table in tables)


def test_the_summary_of_one_sigma_agrees_with_the_details() -> None:
    results = ROOT / "benchmarks" / "results"
    (found,) = [row for row in cells(summaries.experiments(results)) if row[0].startswith("the same, one sigma")]
    detail = [row for row in cells(readme.section("paper_variants", results)) if row[1] == "sigma .034 alone"]
    assert len(detail) == 6  # of two runs, the longer one first
    means = np.mean([[float(value) for value in row[3].split(" / ")] for row in detail[:3]], 0)
    assert np.allclose([float(value) for value in found[3].split(" / ")], means, atol=1e-3)  # details are rounded
    assert all(name in found[1] for name in ("botijo", "elephant", "pegaso"))


def test_every_number_of_the_papers_tables_is_on_its_page() -> None:
    page = (ROOT / "docs" / "paper.md").read_text()
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    by_name: dict[str, list[str]] = {}
    for line in lines:
        by_name.setdefault(line[0], []).append(" ".join(line))
    for row in table("single_shapes"):
        numbers = [row[key] for key in ("cosine_10", "cosine_20", "cosine_50", "discrepancy", "deviation") if row[key]]
        assert any(all(number in line for number in numbers) for line in by_name[row["shape"]]), row["shape"]
        triple = [row[key] for key in ("neighbours", "steps", "sigma")]
        assert any(line.split()[1:] == triple for line in by_name[row["shape"]]), row["shape"]
    for row in table("generalisation"):
        assert [row["collection"], *list(row.values())[1:]] in lines, row["collection"]
    for row in table("image_settings"):
        assert list(row.values()) in lines
    scores = [line[2:] for line in lines]
    for row in table("image_scores"):
        printed = [f"{row[key]} ± {row[f'{key}_std']}" for key in METRICS]
        assert printed in scores, (row["dataset"], row["extractor"], row["method"], row["k"])


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


def test_quick_cells_take_turns_and_slow_ones_say_that_one_call_was_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which a method is expected to be quick are timed in rounds with the peers, others once."""
    from benchmarks import scale
    from benchmarks.shown import scale as shown

    tried: list[tuple[list[str], int, int]] = []

    def spawn(_options: object, methods: list[str], n: int, _d: int, rounds: int, _left: float) -> dict[str, object]:
        tried.append((methods, n, rounds))
        seconds = {"eigenprobe": 1e-4 * n, "robust_laplacian": 1e-3 * n}
        return {
            name: {"seconds": seconds[name], "runs": rounds, "MiB": 7.0}
            | ({"range": [0.5 * seconds[name], 2 * seconds[name]]} if rounds > 1 else {})
            for name in methods
        }

    monkeypatch.setattr(scale, "spawn", spawn)
    monkeypatch.setattr(scale, "find_spec", lambda _name: True)
    table = scale.Table(argparse.Namespace(device="cpu", seed=0, limit=30.0), 3)
    for n in (1000, 3000, 10_000, 100_000):
        table.fill(n, 1e9)
    ours, peer = "eigenprobe", "robust_laplacian"
    first = [([ours, peer], 1000, 3), ([ours], 3000, 3), ([peer], 3000, 1), ([ours], 10_000, 3), ([peer], 10_000, 1)]
    assert tried == [*first, ([ours], 100_000, 1)]  # the peer would take 100 s
    text = shown({"tables": [table.content()]})
    assert "0.100 (0.050 to 0.200)" in text and "expected to take over 30 s" in text
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["10,000", peer, "10.000", "1", "7"] in lines and ["100,000", "eigenprobe", "10.000", "1", "7"] in lines


def test_what_is_left_out_of_a_table_of_sizes_is_what_there_is_no_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds at the size before are not counted at a size that is called once; the seconds are told."""
    from benchmarks import scale

    table = scale.Table(argparse.Namespace(device="cuda", seed=0, limit=30.0), 384)
    table.rows["eigenprobe"] = {"100000": {"seconds": 1.2, "runs": 3, "MiB": 7.0}}
    table.around["eigenprobe"] = 0.8  # rows are made
    assert table.expected("eigenprobe", 1_000_000, 25) is None  # 12 + 8 seconds
    assert table.expected("eigenprobe", 1_000_000, 15) == {"failed": "left out: needs about 20 s, has 15"}
    assert table.expected("eigenprobe", 300_000, 15) is None  # 2 x 3.6 + 2.4
    sizes = {(device, d): counts for device, found in scale.SIZES.items() for d, counts in found.items()}
    assert max(sizes.pop(("cuda", 3))) == 10**7 and all(max(counts) == 10**6 for counts in sizes.values())


def test_a_method_that_never_ends_does_not_take_the_others_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import scale

    def run(command: list[str], timeout: float, **_options: object) -> argparse.Namespace:
        methods = json.loads(command[-1])[0]
        if "UMAP" in methods:
            raise subprocess.TimeoutExpired(command, timeout)
        return argparse.Namespace(returncode=0, stdout=json.dumps({name: {"seconds": 1.0} for name in methods}))

    monkeypatch.setattr(scale.subprocess, "run", run)
    found = scale.spawn(argparse.Namespace(device="cpu", seed=0, limit=30.0), ["eigenprobe", "UMAP"], 50, 384, 3, 40)
    assert found == {"eigenprobe": {"seconds": 1.0}, "UMAP": {"failed": "over 20 s"}}


def test_parts_of_an_earlier_run_stay_while_they_are_confirmed_on_the_same_device(
    numbers: dict[str, list[float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import embedding
    from benchmarks.shown import embedding as shown

    monkeypatch.setenv("OUT", str(tmp_path))
    monkeypatch.setattr(embedding, "digits", lambda _repeats: [{"method": "direct", "seconds": "1.0"}])
    monkeypatch.setattr(embedding, "many_rows", lambda n, *_rest: {"rows": n})
    file = tmp_path / "embedding_cpu.json"

    def run(*words: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["embedding", "--device", "cpu", *words])
        embedding.main()
        return json.loads(file.read_text())

    assert list(run("--parts", "digits")["parts"]) == ["digits"]
    both = run("--parts", "many")
    assert both["parts"] == {"digits": [{"method": "direct", "seconds": "1.0"}], "many rows": [{"rows": 1_000_000}]}
    assert [made["command"].split()[-1] for made in both["made"].values()] == ["digits", "many"]
    assert "--parts digits` (" in shown(both) and "--parts many`" not in shown(both)
    assert run("--rows", "7")["parts"]["many rows"] == [{"rows": 7}]
    other = both["sample"] | {"numbers": {"eigenvalues": [0, 1, 3]}}
    for change in ({"device": "another"}, {"sample": other}, {"sample": None}):
        file.write_text(json.dumps(both | change))
        assert list(run("--parts", "many")["parts"]) == ["many rows"]


def test_quick_cells_are_measured_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import scale

    order: list[tuple[str, int]] = []
    for name in ("eigenprobe", "robust_laplacian"):
        monkeypatch.setitem(scale.METHODS, name, lambda points, name=name: order.append((name, len(points))))
    found = scale.cells(["eigenprobe", "robust_laplacian"], 50, 3, "cpu", 0, 3)
    assert order[:8] == [("eigenprobe", 50), ("robust_laplacian", 50)] * 4  # one round warms up
    for row in found.values():
        assert row["runs"] == 3 and row["range"][0] <= row["seconds"] <= row["range"][1]
    order.clear()
    assert scale.cells(["eigenprobe"], 50, 3, "cpu", 0, 1)["eigenprobe"]["runs"] == 1
    assert order == [("eigenprobe", 1000), ("eigenprobe", 50)]


def test_maps_tell_the_spread_of_scores_and_times(rng: np.random.Generator) -> None:
    from benchmarks.maps import summary

    rows = rng.random((7, 7))
    found = summary(rows.tolist())
    assert list(found.values()) == pytest.approx(
        [
            *(value for column in rows.T[:5] for value in (column.mean(), column.std())),
            *(value for column in rows.T[5:] for value in (np.median(column), column.min(), column.max())),
        ]
    )


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel keeps no high-water mark here")
def test_memory_is_that_of_the_call() -> None:
    """Forty MiB are forty MiB after a larger call too, where a difference of two marks would be 0."""

    def hold(mib: int) -> None:
        np.ones(mib * 2**17).sum()

    hold(200)
    assert record.peak(lambda: hold(40)) == pytest.approx(40, abs=6)
    assert record.peak(lambda: hold(120)) == pytest.approx(120, abs=6)


def test_a_table_of_clusters_is_whole_after_each_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import clusters

    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 60)
    table, file = tmp_path / "cifar10_efflite0.npz", tmp_path / "images_cifar10_efflite0.json"
    np.savez(table, features=rng.normal(size=(180, 12)) + 9 * np.eye(12)[labels], labels=labels)
    monkeypatch.setenv("OUT", str(tmp_path))

    def run(*words: str) -> dict[str, list[int]]:
        monkeypatch.setattr(sys, "argv", ["clusters", str(table), "--device", "cpu", *words])
        clusters.main()
        rows = json.loads(file.read_text())["rows"]
        assert all(row["nmi"] > 0.99 for row in rows if row["method"] == "pca")  # three clusters far apart
        return {row["method"]: [r["runs"] for r in rows if r["method"] == row["method"]] for row in rows}

    assert run("--methods", "pca", "--runs", "2") == {"pca": [2, 2, 2]}
    monkeypatch.setattr(clusters, "SLOW", ("isomap",))  # as t-SNE: may have fewer runs and stays
    assert run("--methods", "isomap", "--runs", "1") == {"pca": [2, 2, 2], "isomap": [1, 1, 1]}
    assert clusters.kept(file.name, 2) == json.loads(file.read_text())["rows"]
    assert run("--methods", "direct", "--runs", "2")["direct"] == [2, 2, 2]
    document = json.loads(file.read_text())
    stays = clusters.kept(file.name, 2)
    old = [*document["rows"], {"method": "paper", "k": 2, "runs": 32}]  # of a borrowed triple: never kept
    file.write_text(json.dumps(document | {"rows": old}))
    assert clusters.kept(file.name, 2) == stays
    file.write_text(json.dumps(document | {"sample": None}))  # rows of peers stay, rows of our code do not
    assert {row["method"] for row in clusters.kept(file.name, 1)} == {"pca", "isomap"}


def test_scores_are_of_rows_that_nothing_was_chosen_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults were chosen on even rows of the tables: what is scored are odd ones."""
    from benchmarks import embedding, maps

    x, seen = np.arange(1.0, 401.0)[:, None] * np.ones(4), []
    np.savez(tmp_path / "t.npz", features=x, labels=np.arange(400) % 2)
    monkeypatch.setattr(maps, "layout", lambda rows, seed: seen.append(rows[:, 0]) or rows[:, :2])
    monkeypatch.setattr(maps, "umap", lambda rows, seed: rows[:, :2])
    maps.compare(tmp_path / "t.npz", 1, 0)
    row = {"fitted on all": 1.0, "fitted on half": 1.0, "batch difference": 0.0}
    monkeypatch.setattr(embedding, "_halves", lambda rows, labels, *_: seen.append(rows[:, 0]) or row)
    embedding.new_rows(tmp_path / "t.npz", "direct", 2)
    assert len(seen) == 5 and all((rows % 2 == 0).all() for rows in seen)  # they are counted from 1 here


def test_a_classifier_tells_shapes_apart_by_their_bases_and_halves_share_the_classes(rng: np.random.Generator) -> None:
    pytest.importorskip("robust_laplacian")
    from benchmarks import classify

    labels = torch.tensor([0, 0, 1, 1, 0, 1])
    part = classify.folds(labels, 0)
    assert all(set(part[labels == name].tolist()) == {0, 1} for name in (0, 1))
    scales = [0.2 if label else 20.0 for label in labels]  # how fast the spectrum grows after its first ten
    values = [np.r_[np.arange(11), 10 + scale * np.arange(1, 10)] for scale in scales]
    vectors = [np.linalg.qr(np.c_[np.ones(60), rng.normal(size=(60, 19))])[0] for _ in labels]
    bases = classify.stacked([ep.Basis(v, np.full(60, 1 / 60), x) for v, x in zip(vectors, values, strict=True)])
    torch.testing.assert_close(bases[1][:, 1:11].mean(1), torch.ones(6))
    rows = classify.accuracies({"a": bases, "b": bases}, labels, steps=150, seeds=1)
    assert rows[0]["tested with a"] == rows[0]["tested with b"] == rows[1]["tested with a"] > 0.9
