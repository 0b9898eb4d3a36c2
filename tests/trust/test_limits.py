"""What a file may make us do: other files are not read, little data stays little, and no answer is
made up.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from eigenprobe import geometry
from eigenprobe.cli import main
from eigenprobe.errors import InputError
from eigenprobe.io.tables import read_table


def test_hdf5_links_do_not_leave_the_file(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["features"] = np.ones((4, 2))
    with h5py.File(tmp_path / "table.h5", "w") as file:
        file["own"] = np.zeros((4, 2))
        file["away"] = h5py.ExternalLink("secret.h5", "/features")
        file["features"] = h5py.SoftLink("/away")
    with pytest.raises(InputError, match="outside the file"):
        read_table(tmp_path / "table.h5")
    for target in ("/deep/away", "deep/away"):
        with h5py.File(tmp_path / "deep.h5", "w") as file:
            file.create_group("deep")["away"] = h5py.ExternalLink("secret.h5", "/features")
            file["features"] = h5py.SoftLink(target)
        with pytest.raises(InputError, match="outside the file"):
            read_table(tmp_path / "deep.h5")
    with h5py.File(tmp_path / "circle.h5", "w") as file:
        file["features"], file["other"] = h5py.SoftLink("/other"), h5py.SoftLink("/features")
    with pytest.raises(InputError):
        read_table(tmp_path / "circle.h5")
    with h5py.File(tmp_path / "good.h5", "w") as file:
        file["own"], file["features"] = np.zeros((4, 2)), h5py.SoftLink("/own")
    assert read_table(tmp_path / "good.h5").features.shape == (4, 2)


def test_a_sparse_table_has_room_for_its_columns(tmp_path: Path) -> None:
    from scipy import sparse

    sparse.save_npz(tmp_path / "wide.npz", sparse.csr_matrix((60, 10**12), dtype=np.float32))
    with pytest.raises(InputError, match="claims"):
        read_table(tmp_path / "wide.npz")
    sparse.save_npz(tmp_path / "fine.npz", sparse.csr_matrix((60, 10**6), dtype=np.float32))
    assert read_table(tmp_path / "fine.npz").features.shape == (60, 10**6)


def test_rows_longer_than_the_first_line_are_refused(tmp_path: Path) -> None:
    (path := tmp_path / "long.csv").write_text("a,b\n1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match="more columns than its first line"):
        read_table(path)


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mtl")
    (path := tmp_path / "waits.obj").write_text(
        "mtllib pipe.mtl\nusemtl a\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
    )
    assert geometry.load(path).n == 3


@pytest.mark.parametrize("face", ["f 0 1 2", "f 1 2 0", "f 1/1 0/1 2/1", "f 1 2 3 0"])
def test_faces_of_an_obj_file_start_at_one(tmp_path: Path, face: str) -> None:
    (path := tmp_path / "zero.obj").write_text(f"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 10 0 0\n{face}\n")
    with pytest.raises(InputError, match="vertex 0"):
        geometry.load(path)


def test_odd_numbers_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.meshes import sphere

    vertices, faces = sphere(2)
    geometry.save(geometry.Shape(vertices, faces), tmp_path / "ball.obj")
    for words in (
        ["--jobs", "0"],
        ["--seed", str(2**40)],
        ["--seed", "-1"],
        ["--backend", "nosuch", "--jobs", "1"],
    ):
        assert (
            main(["cache", str(tmp_path / "ball.obj"), "--out", str(tmp_path / "out"), *words]) != 0
        ), words
        said = capsys.readouterr().err
        assert "Traceback" not in said and len(said.strip().splitlines()) == 1, said
