"""Tests of `cli.tables`: the command that embeds a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import eigenprobe as ep
from tests.cli.conftest import Run, done
from tests.viz.conftest import payload


def test_embed(run: Run) -> None:
    out = done(
        run("embed features.npz --labels labels -k 3 --out e"),
        "e/embedding.npz",
        "e/summary.json",
        "e/report.html",
    )
    assert "240 rows, 3 coordinates, direct" in out
    assert f"in {json.loads(Path('e/summary.json').read_text())['seconds']:.1f} s" in out
    with np.load("e/embedding.npz") as arrays:
        assert arrays["embedding"].shape == (240, 3)
        assert arrays["eigenvalues"].shape == (3,) and np.isclose(arrays["mass"].sum(), 1)
        assert arrays["labels"].shape == (240,)
    done(
        run(
            "embed cells.csv --labels celltype -k 2 --metric euclidean --neighbors 12 "
            "--no-report --out c"
        )
    )
    done(run("embed train.npy --new test.npy -k 4 --no-report --out n"), "n/embedding.npz")
    with np.load("n/embedding.npz") as arrays:
        assert arrays["new"].shape == (80, 4)


def test_the_map_of_embed_has_texts_and_new_rows(run: Run) -> None:
    with np.load("features.npz") as arrays:
        count = len(arrays["features"])
    Path("sentences.txt").write_text("".join(f"sentence {i}\n" for i in range(count)))
    done(
        run(
            "embed features.npz --labels labels --text sentences.txt --new features.npz "
            "-k 2 --out t"
        )
    )
    data = payload(Path("t/report.html").read_text())
    assert data["texts"][7] == "sentence 7" and data["new"]["n"] == count
    assert data["colourings"][0]["classes"]
    # For other viewers.
    done(run("export t/embedding.npz map.csv"), "map.csv")
    lines = Path("map.csv").read_text().splitlines()
    assert lines[0].split(",") == ["x", "y", "label", "text"] and len(lines) == count + 1
    assert lines[8].endswith(",sentence 7")
    assert run("export t/embedding.npz map.txt")[0] == 2


def test_the_map_of_embed_has_pictures(run: Run) -> None:
    from matplotlib.image import imsave

    rng = np.random.default_rng(0)
    Path("shots").mkdir()
    names = [f"{i:02d}.png" for i in range(40)]
    for name in names:
        imsave(f"shots/{name}", rng.random((5, 8)))
    lines = [f"{a},{b},{c},shots/{name}" for (a, b, c), name in zip(rng.random((40, 3)), names)]
    lines[3] = f",,,shots/{names[3]}"
    Path("shots.csv").write_text("\n".join(["a,b,c,file", *lines]) + "\n")
    sheets = []
    for words in ("--images file", "--images shots --drop file"):
        done(run(f"embed shots.csv {words} --missing drop -k 2 --force --out p"), "p/report.html")
        sheets.append(payload(Path("p/report.html").read_text())["images"])
    assert sheets[0] == sheets[1] and sheets[0]["across"] == 7 and sheets[0]["side"] == 64
    Path("shots/00.png").unlink()
    code, _, err = run("embed shots.csv --images shots --drop file --missing drop --out q")
    assert code == 2 and "expected 40, got 39" in err


def test_tables_with_other_marks_missing_values_and_chosen_columns(run: Run) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 3))
    lines = ["a;b;c;kind;word"]
    for i, row in enumerate(values):
        lines.append(";".join([*(f"{x:.6f}" for x in row), f"k{i % 2}", f"w{i}"]))
    # As a spreadsheet in Germany writes it, and with points and commas.
    Path("semicolon.csv").write_text("\n".join(lines).replace(".", ","))
    Path("comma.csv").write_text("\n".join(lines).replace(";", ","))
    words = "--labels kind --text word -k 2 --no-layout --no-report"
    for name in ("semicolon", "comma"):
        assert "60 rows" in done(run(f"embed {name}.csv {words} --out {name}"))
    found = [np.load(f"{name}/embedding.npz")["embedding"] for name in ("semicolon", "comma")]
    np.testing.assert_array_equal(*found)
    # Columns by name, by number, and left out.
    chosen = "embed comma.csv -k 1 --no-layout --no-report"
    for number, options in enumerate(("--columns a,b", "--columns 0,1", "--drop c,kind,word")):
        done(run(f"{chosen} {options} --out c{number}"))
    first, *others = [np.load(f"c{number}/embedding.npz")["embedding"] for number in range(3)]
    for other in others:
        np.testing.assert_array_equal(first, other)
    # Missing values can be dropped, with their labels.
    lines = Path("comma.csv").read_text().splitlines()
    lines[5] = ",,," + ",".join(lines[5].split(",")[3:])
    Path("holes.csv").write_text("\n".join(lines) + "\n")
    words = "embed holes.csv --labels kind --text word --missing drop -k 2 --no-layout --out holes"
    code, out, err = run(words)
    assert (
        code == 0
        and "59 rows" in out
        and "1 of 60 rows have missing values and are left out" in err
    )
    assert len(np.load("holes/embedding.npz")["labels"]) == 59
    assert "neighbors" not in done(
        run("decompose cloud.xyz -k 4 --neighbors 12 --no-report --device cpu --out n")
    )


def test_a_warning_of_fit_transform_points_to_the_caller() -> None:
    x = np.random.default_rng(0).normal(size=(60, 4)) * (1e4, 1, 1, 1)
    with pytest.warns(ep.EigenprobeWarning, match="as wide as the median column") as caught:
        ep.OptimalApproximationEigenmaps(2, device="cpu").fit_transform(x)
    assert {warning.filename for warning in caught if warning.category is ep.EigenprobeWarning} == {
        __file__
    }
