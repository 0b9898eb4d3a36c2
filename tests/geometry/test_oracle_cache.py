"""Preparing folders: what is missing is made, what is there is kept, what is bad is told."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from eigenprobe.errors import InputError
from eigenprobe.geometry import oracle
from eigenprobe.geometry.oracle import Summary, _prepare_one, entry_path, prepare_oracles
from eigenprobe.readers.shapes import Shape, load, save
from tests.meshes import blob, cube, torus


@pytest.fixture
def shapes(tmp_path):
    folder = tmp_path / "shapes"
    (folder / "more").mkdir(parents=True)
    save(Shape(*torus(16, 8)), folder / "torus.off")
    save(Shape(*blob(5)), folder / "more" / "blob.obj")
    (folder / "bad.obj").write_text("v 0 0 nan\nf 1 1 1\n")
    (folder / "empty.ply").write_bytes(b"")
    (folder / "readme.txt").write_text("not a shape")
    return folder


@pytest.mark.parametrize(("jobs", "backend"), [(1, None), (2, "threading"), (2, None)])
def test_prepare_makes_keeps_and_reports(shapes, tmp_path, jobs, backend) -> None:
    first = prepare_oracles(shapes, k=6, jobs=jobs, backend=backend, out=tmp_path / "oracles")
    assert [p.name for p in first.made] == ["blob.obj", "torus.off"]
    assert {p.name for p in first.failed} == {"bad.obj", "empty.ply"}
    assert "is empty" in next(why for path, why in first.failed.items() if path.name == "empty.ply")
    assert "4 shapes: 2 prepared, 0 already there, 2 failed" in str(first)
    second = prepare_oracles(shapes, k=6, jobs=1, out=tmp_path / "oracles")
    assert (second.made, len(second.kept)) == ([], 2)


def test_prepared_entries_are_the_ones_the_oracle_reads(shapes, tmp_path, monkeypatch) -> None:
    prepare_oracles(shapes, k=6, jobs=1, out=tmp_path / "oracles")
    monkeypatch.setattr(sys.modules["eigenprobe.geometry.oracle"], "_solve", lambda *a: pytest.fail("computed again"))
    shape = load(shapes / "torus.off")
    assert oracle(shape.vertices, shape.faces, 6, folder=tmp_path / "oracles").k == 6


def test_prepare_resumes_with_what_is_missing_or_damaged(shapes, tmp_path) -> None:
    out = tmp_path / "oracles"
    prepare_oracles(shapes / "torus.off", k=6, jobs=1, out=out)
    summary = prepare_oracles(shapes, k=6, jobs=1, out=out)
    assert ([p.name for p in summary.made], [p.name for p in summary.kept]) == (["blob.obj"], ["torus.off"])
    for entry in out.glob("??/*.safetensors"):
        entry.write_bytes(entry.read_bytes()[:-10])
    with pytest.warns(UserWarning, match="damaged"):
        assert len(prepare_oracles(shapes, k=6, jobs=1, out=out).made) == 2
    assert len(prepare_oracles(shapes, k=7, jobs=1, out=out).made) == 2, "more vectors are computed anew"


def test_the_same_mesh_in_another_file_is_kept(shapes, tmp_path) -> None:
    prepare_oracles(shapes / "torus.off", k=6, jobs=1, out=tmp_path / "oracles")
    (shapes / "copy.off").write_text((shapes / "torus.off").read_text() + "\n")
    assert len(prepare_oracles(shapes / "copy.off", k=6, jobs=1, out=tmp_path / "oracles").kept) == 1


def test_prepare_refuses(shapes, tmp_path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="no meshes in"):
        prepare_oracles(tmp_path / "nothing")
    with pytest.raises(InputError, match="no such file or folder"):
        prepare_oracles(tmp_path / "absent")
    with pytest.raises(InputError, match="no backend 'cluster'"):
        prepare_oracles(shapes, jobs=2, backend="cluster", out=tmp_path / "oracles")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        prepare_oracles(shapes, jobs=1, out=tmp_path / "file")


def test_a_cube_with_too_few_vertices_is_reported(tmp_path) -> None:
    save(Shape(*cube(1)), tmp_path / "cube.off")
    assert "8 vertices has 1 to 7" in next(
        iter(prepare_oracles(tmp_path, k=50, jobs=1, out=tmp_path / "o").failed.values())
    )


def test_pointers_lead_from_files_to_entries(shapes: Path, tmp_path: Path) -> None:
    """``files/ab/ab...off.auto`` by the hash of the file, whichever case its suffix has."""
    out, again = tmp_path / "oracles", shapes / "again.OFF"
    again.write_bytes((shapes / "torus.off").read_bytes())
    assert len(prepare_oracles(shapes / "torus.off", k=6, jobs=1, out=out).made) == 1
    assert len(prepare_oracles(again, k=6, jobs=1, out=out).kept) == 1
    name = hashlib.sha256(again.read_bytes()).hexdigest()
    (pointer,) = (path for path in (out / "files").rglob("*") if path.is_file())
    assert pointer == out / "files" / name[:2] / f"{name}.off.auto"
    shape = load(again)
    assert out / pointer.read_text() == entry_path(shape.vertices, shape.faces, folder=out)


def test_shapes_without_an_oracle_are_told(shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(Shape(torus(16, 8)[0]), shapes / "cloud.ply")
    assert _prepare_one(shapes / "cloud.ply", 6, tmp_path)[1:] == ("failed", "a point cloud: an oracle needs faces")
    monkeypatch.setattr(sys.modules["eigenprobe.geometry.oracle"], "_write_entry", lambda *given: None)
    state, why = _prepare_one(shapes / "torus.off", 6, tmp_path)[1:]
    assert state == "failed" and "is the disk full?" in why


def test_a_summary_counts() -> None:
    a, b, c = (Path(name) for name in "abc")
    said = str(Summary([a], [b, c], {a: "", b: "", c: ""}, Path("there"), 1.26))
    assert said == "6 shapes: 1 prepared, 2 already there, 3 failed, 1.3 s, in there"
