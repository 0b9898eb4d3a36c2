"""Oracles kept on disk: what is known is read, what is damaged is made again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.geometry import oracle
from eigenprobe.io.shapes import Shape, load, save
from eigenprobe_lab.evaluation.oracles import cache_folder, cached_oracle, prepare_oracles
from tests.meshes import blob, cube, torus


def test_an_entry_is_read_cut_and_replaced_by_a_larger_one(tmp_path: Path) -> None:
    vertices, faces = torus(16, 10)
    fresh = cached_oracle(vertices, faces, 10, tmp_path)
    (entry,) = tmp_path.rglob("*.safetensors")
    written = entry.stat().st_mtime_ns
    kept = cached_oracle(vertices, faces, 6, tmp_path)
    assert entry.stat().st_mtime_ns == written
    assert (kept.normalized == fresh.normalized[:, :6]).all() and kept.info == fresh.info
    assert (kept.points == vertices).all()
    np.testing.assert_allclose(kept.eigenvalues, oracle(vertices, faces, 6).eigenvalues, atol=1e-9)
    assert cached_oracle(vertices, faces, 12, tmp_path).k == 12
    assert entry.stat().st_mtime_ns != written
    vertices[3, 1] += 1e-12  # another mesh
    cached_oracle(vertices, faces, 6, tmp_path)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2


@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied", "text"])
def test_a_damaged_entry_is_rebuilt(tmp_path: Path, damage: str) -> None:
    mesh = torus(16, 10)
    fresh = cached_oracle(*mesh, 8, tmp_path)
    (path,) = tmp_path.rglob("*.safetensors")
    content = bytearray(path.read_bytes())
    flipped = content[:-100] + bytes([content[-100] ^ 255]) + content[-99:]  # it still parses
    damaged = {"truncated": content[: len(content) // 2], "flipped": flipped, "emptied": b""}
    path.write_bytes(damaged.get(damage, b"not safetensors"))
    with pytest.warns(EigenprobeWarning, match="rebuilding damaged"):
        again = cached_oracle(*mesh, 8, tmp_path)
    assert np.allclose(again.normalized, fresh.normalized)
    assert cached_oracle(*mesh, 8, tmp_path).k == 8  # whole again, without a warning


def test_several_processes_at_once(tmp_path: Path) -> None:
    code = (
        "import json; from tests.meshes import torus\n"
        "from eigenprobe_lab.evaluation.oracles import cached_oracle\n"
        f"for k in (6, 10): b = cached_oracle(*torus(20, 12), k, {str(tmp_path)!r})\n"
        "print(json.dumps(b.eigenvalues.tolist()))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", code]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) for _ in range(2)]
    answers = [json.loads(worker.communicate(timeout=120)[0]) for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    assert np.allclose(answers[0], answers[1])
    left = [p.suffix for p in tmp_path.rglob("*") if p.is_file()]
    assert left == [".safetensors"], "no temporary file is left"


def test_a_cache_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(EigenprobeWarning, match="could not keep the oracle"):
        assert cached_oracle(*cube(3), 5, tmp_path / "file").k == 5


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    folder = tmp_path / "shapes"
    (folder / "more").mkdir(parents=True)
    save(Shape(*torus(16, 8)), folder / "torus.off")
    save(Shape(*blob(5)), folder / "more" / "blob.obj")
    (folder / "bad.obj").write_text("v 0 0 nan\nf 1 1 1\n")
    (folder / "empty.ply").write_bytes(b"")
    (folder / "readme.txt").write_text("not a shape")
    return folder


@pytest.mark.parametrize("jobs", [1, 2])
def test_prepare_makes_keeps_and_reports(shapes: Path, tmp_path: Path, jobs: int) -> None:
    out = tmp_path / "oracles"
    first = prepare_oracles(shapes, k=6, jobs=jobs, out=out)
    assert [p.name for p in first.made] == ["blob.obj", "torus.off"]
    assert {p.name for p in first.failed} == {"bad.obj", "empty.ply"}
    assert "cannot read" in next(
        why for path, why in first.failed.items() if path.name == "empty.ply"
    )
    assert "4 shapes: 2 prepared, 0 already there, 2 failed" in str(first)
    entries = {path: path.stat().st_mtime_ns for path in out.glob("??/*.safetensors")}
    second = prepare_oracles(shapes, k=6, jobs=1, out=out)
    assert (second.made, len(second.kept)) == ([], 2)
    shape = load(shapes / "torus.off")
    assert cached_oracle(shape.vertices, shape.faces, 6, out).k == 6  # what was prepared
    assert entries == {path: path.stat().st_mtime_ns for path in out.glob("??/*.safetensors")}


def test_prepare_resumes_with_what_is_missing_or_damaged(shapes: Path, tmp_path: Path) -> None:
    out = tmp_path / "oracles"
    prepare_oracles(shapes / "torus.off", k=6, jobs=1, out=out)
    (shapes / "copy.OFF").write_text((shapes / "torus.off").read_text() + "\n")  # the same mesh
    summary = prepare_oracles(shapes, k=6, jobs=1, out=out)
    assert [p.name for p in summary.made] == ["blob.obj"]
    assert [p.name for p in summary.kept] == ["copy.OFF", "torus.off"]
    for entry in out.glob("??/*.safetensors"):
        entry.write_bytes(entry.read_bytes()[:-10])
    with pytest.warns(UserWarning, match="damaged"):
        assert len(prepare_oracles(shapes, k=6, jobs=1, out=out).made) == 2
    more = prepare_oracles(shapes, k=7, jobs=1, out=out)
    assert len(more.made) == 2, "more vectors are computed anew"


def test_prepare_refuses_and_reports(shapes: Path, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="no meshes in"):
        prepare_oracles(tmp_path / "nothing")
    with pytest.raises(InputError, match="no such file or folder"):
        prepare_oracles(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        prepare_oracles(shapes, jobs=1, out=tmp_path / "file")
    save(Shape(*cube(1)), tmp_path / "few" / "cube.off")
    save(Shape(torus(16, 8)[0]), tmp_path / "few" / "cloud.ply")
    failed = prepare_oracles(tmp_path / "few", k=50, jobs=1, out=tmp_path / "o").failed
    assert {path.name: why for path, why in failed.items()} == {
        "cloud.ply": "a point cloud: an oracle needs faces",
        "cube.off": "the oracle of 8 vertices has 1 to 7 vectors, got k=50",
    }


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EIGENPROBE_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine" / "oracle"
    monkeypatch.delenv("EIGENPROBE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "eigenprobe" / "oracle"
