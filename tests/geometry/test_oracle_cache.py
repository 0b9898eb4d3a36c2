"""Preparing folders: what is missing is made, what is there is kept, what is bad is told."""

from __future__ import annotations

import sys

import pytest

from eigenprobe.errors import InputError
from eigenprobe.geometry import oracle
from eigenprobe.geometry.oracle import prepare_oracles
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
