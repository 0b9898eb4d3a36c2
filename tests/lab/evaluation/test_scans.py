"""The table of scans: its measures by hand, its rows and files on small meshes, what it does with
failures.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.errors import InputError
from eigenprobe.io.shapes import Shape, save
from eigenprobe_lab.evaluation import scanner
from eigenprobe_lab.evaluation.scans import KINDS, METHODS, ROWS, ScanMeasure, Truth, compare_scans
from tests.meshes import blob, torus


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shapes")
    save(Shape(*blob(12)), path / "blob.obj")
    save(Shape(*torus(40, 18)), path / "torus.off")
    return path


@pytest.fixture
def truth(rng):
    """The blob at random points, and the oracle there."""
    scan = scanner.with_strays(scanner.drawn(blob(12), 900, rng), 0.1, rng).take(
        rng.permutation(990)
    )
    exact = ep.geometry.oracle(*scan.mesh, 13)
    return Truth(scan, scan.interpolate(exact.vectors), exact.eigenvalues, scan.areas())


def as_basis(truth: Truth, vectors: np.ndarray, eigenvalues: np.ndarray) -> ep.Basis:
    """Vectors at the surface as a basis at all points, with random values at the strays."""
    full = np.random.default_rng(0).normal(size=(len(truth.scan.points), vectors.shape[1]))
    full[truth.scan.surface] = vectors
    mass = np.full(len(full), 1 / len(full))
    return ep.Basis(full * np.sqrt(mass)[:, None], mass, eigenvalues)


def test_the_truth_itself_is_perfect(truth) -> None:
    row = truth.compare(as_basis(truth, truth.vectors, truth.eigenvalues), (5, 10))
    perfect = {
        "cosine_5": 1,
        "cosine_10": 1,
        "near_5": 1,
        "near_10": 1,
        "eigenvalues": 0,
        "heat": 0,
    }
    assert row == pytest.approx(perfect, abs=1e-9)


def test_measures_by_hand(truth) -> None:
    areas, u = truth.areas, truth.vectors
    order = np.array([0, 1, 3, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12])  # two vectors have changed places
    row = truth.compare(as_basis(truth, -u[:, order], 1.1 * truth.eigenvalues), (4, 10))
    unit = u / np.sqrt(areas @ u**2)
    other = abs(unit[:, 2] @ (areas * unit[:, 3]))
    assert row["cosine_4"] == pytest.approx((1 + 1 + 2 * other) / 4)
    assert row["near_10"] == pytest.approx(1)
    assert row["eigenvalues"] == pytest.approx(0.1)
    far = np.roll(u, 6, axis=1)  # beyond the window of most
    assert truth.compare(as_basis(truth, far, truth.eigenvalues), (4, 10))["near_4"] < 0.3


def test_every_row_of_the_table_can_be_made(rng) -> None:
    mesh, measure = blob(10), ScanMeasure(points=300)
    kinds = [kind for kind in ROWS if kind != "voxels:128"]
    clouds = {kind: measure.scan(mesh, kind) for kind in kinds}
    assert {kind.partition(":")[0] for kind in ROWS} == set(KINDS)
    sizes = {kind: len(scan.points) for kind, scan in clouds.items()}
    assert sizes["even"] == sizes["random"] == sizes["step:100"] == 300
    assert sizes["noise:0.01"] == 1200 and sizes["strays:0.05"] == 315
    assert sizes["blobs"] == 380 and sizes["floor"] == 2300
    again = measure.scan(mesh, "rings:8")
    assert np.array_equal(again.points, clouds["rings:8"].points)


def test_the_table_end_to_end(folder, tmp_path) -> None:
    measure = ScanMeasure(("even", "strays:0.05", "side:1"), (5, 10), 500)
    report = compare_scans([folder], measure).write(tmp_path, "scans")
    assert not report.failed and len(report.rows) == 2 * 3 * 3
    first = report.rows[0]
    assert (first["shape"], first["cloud"], first["method"]) == ("blob", "even", "plain")
    by = {(row["shape"], row["cloud"], row["method"]): row for row in report.rows}
    for method in METHODS:
        even = by["blob", "even", method]
        assert even["cosine_5"] > 0.95 and even["near_10"] > 0.95 and even["eigenvalues"] < 0.15
        assert even["heat"] < 0.1
    content = json.loads((tmp_path / "scans.json").read_text())
    assert content["rows"] == report.rows and content["facts"]["points"] == 500
    with (tmp_path / "scans.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 18
    text = (tmp_path / "scans.md").read_text()
    assert (
        "Means over 2 shapes" in text and "| a share of 0.05 strays" in text and "cosine_10" in text
    )
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 1 + 3 * 3


def test_bad_requests(tmp_path: Path) -> None:
    for kind in ("magic", "rings", "even:3", "rings:x", "rings:-1"):
        with pytest.raises(InputError, match="kinds of damage are even, random, rings:AMOUNT"):
            ScanMeasure((kind,))
    with pytest.raises(InputError, match="k >= 2"):
        ScanMeasure(k=(10, 20), points=20)
    np.save(tmp_path / "cloud.npy", np.zeros((5, 3)))
    with pytest.raises(InputError, match="none of the shapes could be measured"):
        compare_scans([tmp_path], ScanMeasure(("even", "random")))
