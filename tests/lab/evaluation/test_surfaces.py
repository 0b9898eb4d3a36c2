"""The single-shape table end to end on small meshes: rows, files, figures, failures."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.io.shapes import Shape, save
from eigenprobe_lab.evaluation import surfaces
from eigenprobe_lab.evaluation.surfaces import Measure
from eigenprobe_lab.paper.published import PAPER
from tests.meshes import cube


@pytest.fixture(scope="module")
def result(mesh_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    found = surfaces.run(
        [mesh_folder], Measure(["direct", "robust", "oracle"], 400, 12), published=PAPER
    )
    return found.write(out, "surfaces"), out


def test_the_report_has_the_paper_beside(result) -> None:
    text = result[0].markdown()
    assert "k≤10 paper" in text
    assert "0.993" in text
    assert "mean, the nine (1)" in text
    assert "k≤10 robust" in text


def test_files_are_written_and_agree(result) -> None:
    evaluation, out = result
    with (out / "surfaces.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    content = json.loads((out / "surfaces.json").read_text())
    assert len(table) == len(content["rows"]) == len(evaluation.rows)
    assert (
        float(table[0]["cosine_10"])
        == content["rows"][0]["cosine_10"]
        == evaluation.rows[0]["cosine_10"]
    )
    assert content["facts"]["n"] == 400
    assert (out / "surfaces.md").read_text() == evaluation.markdown()


def test_figures_are_drawn(mesh_folder, tmp_path) -> None:
    measure = Measure(["direct"], 200, 10, figures=tmp_path / "figures")
    found = surfaces.run([mesh_folder / "blob.obj"], measure).write(tmp_path, "surfaces")
    pictures = {path.name: path for path in found.written if path.suffix == ".png"}
    assert set(pictures) == {
        f"blob-{what}.png"
        for what in ("eigenvalues", "direct-vectors", "direct-mass", "direct-rebuilt")
    }
    assert all(path.stat().st_size > 1000 for path in pictures.values())


def test_bad_files_are_reported_and_skipped(mesh_folder, tmp_path) -> None:
    (tmp_path / "bad.obj").write_text("v 0 0 nan\n")
    np.save(tmp_path / "cloud.npy", np.zeros((5, 3)))
    save(Shape(*cube(1)), tmp_path / "tiny.off")
    found = surfaces.run([mesh_folder / "blob.obj", tmp_path], Measure(["robust"], 300, 10))
    assert found.shapes == ["blob"]
    assert set(found.failed) == {"bad.obj", "cloud.npy", "tiny.off"}
    assert "point cloud" in found.failed["cloud.npy"]
    assert "Skipped tiny.off: tiny has 8 points, too few for k=10" in found.markdown()
    with pytest.raises(InputError, match="none of the shapes could be measured"):
        surfaces.run([tmp_path], Measure(["robust"], 300, 10))


def test_bad_requests() -> None:
    with pytest.raises(InputError, match="methods must be among direct"):
        Measure(methods=["magic"])
    with pytest.raises(InputError, match="k >= 2"):
        Measure(k=1)
    with pytest.raises(InputError, match="no such file"):
        surfaces.run(["absent"], Measure())
