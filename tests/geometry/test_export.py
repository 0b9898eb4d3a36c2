"""A basis for other programs: read back by the libraries that those programs build on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from scipy.io import loadmat

import eigenprobe as ep
from eigenprobe.cli import main
from eigenprobe.errors import InputError
from tests.meshes import blob


@pytest.fixture(scope="module")
def basis() -> ep.Basis:
    vertices, faces = blob(5)
    return replace(ep.decompose((vertices, faces), k=4), rows=np.arange(len(vertices)) * 2)


@pytest.mark.parametrize("suffix", ["ply", "vtk", "vtu"])
@pytest.mark.parametrize("mesh", [True, False])
def test_scalars_on_a_shape(tmp_path: Path, basis: ep.Basis, suffix: str, mesh: bool) -> None:
    import meshio

    written = basis if mesh else replace(basis, faces=None)
    written.torch().save(path := tmp_path / f"a.{suffix}")
    read = meshio.read(path)
    assert np.array_equal(read.points, basis.points)
    assert list(read.point_data) == ["mass", "v001", "v002", "v003", "v004"]
    assert np.array_equal(
        np.column_stack([read.point_data[f"v00{i}"] for i in range(1, 5)]), basis.vectors
    )
    assert np.array_equal(read.point_data["mass"], basis.mass)
    shape = ep.geometry.load(path)  # and our own reader
    assert np.allclose(shape.vertices, basis.points)
    assert np.array_equal(shape.faces, basis.faces) if mesh else shape.faces is None
    if suffix == "ply" and mesh:
        assert np.allclose(trimesh.load(path, process=False).vertices, basis.points)


def test_arrays(tmp_path: Path, basis: ep.Basis) -> None:
    basis.save(tmp_path / "a.npz")
    basis.save(tmp_path / "a.mat")
    matlab = loadmat(tmp_path / "a.mat")
    with np.load(tmp_path / "a.npz") as arrays:
        assert sorted(arrays) == ["eigenvalues", "faces", "mass", "points", "rows", "vectors"]
        for name, first in {"vectors": 0, "points": 0, "faces": 1}.items():
            expected = getattr(basis, name)
            assert np.array_equal(arrays[name], expected) and np.array_equal(
                matlab[name], expected + first
            )
        for name, first in {"eigenvalues": 0, "mass": 0, "rows": 1}.items():
            assert np.array_equal(matlab[name][:, 0], getattr(basis, name) + first)
    assert np.array_equal(ep.geometry.load(tmp_path / "a.npz").faces, basis.faces)


def test_few_and_many_dimensions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ep.decompose(rng.normal(size=(50, 2)), k=3).save(tmp_path / "a.vtk")
    assert (ep.geometry.load(tmp_path / "a.vtk").vertices[:, 2] == 0).all()
    many = ep.decompose(rng.normal(size=(50, 5)), k=3)
    many.save(tmp_path / "a.mat")
    for basis, told in ((many, "got 5"), (replace(many, points=None), "got none")):
        with pytest.raises(
            InputError,
            match=rf"a ply file holds points of at most 3 dimensions, {told}: write .npz",
        ):
            basis.save(tmp_path / "a.ply")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mat", "a.vtk"]


def test_the_command(
    tmp_path: Path,
    basis: ep.Basis,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    basis.save("b.safetensors")
    assert main(["export", "b.safetensors", "sub/b.npz", "-k", "2"]) == 0
    assert "exported b.safetensors in" in capsys.readouterr().out
    with np.load("sub/b.npz") as arrays:
        assert np.array_equal(arrays["vectors"], basis.vectors[:, :2])
    for words, told in {
        "export b.safetensors sub/b.npz": "sub/b.npz exists: choose another file",
        "export b.safetensors b.pkl": "a basis is written as .safetensors, .ply",
        "export b.safetensors b.ply -k 9": "expected 1 <= k <= 4, got 9",
        "export sub/b.npz c.ply": "a map is written as .parquet or .csv, got 'c.ply'",
        "export none.safetensors c.ply": "no such file or folder: none.safetensors",
    }.items():
        assert main(words.split()) == 2
        said = capsys.readouterr().err
        assert told in said and len(said.splitlines()) == 1, said
    assert main(["export", "b.safetensors", "sub/b.npz", "--force"]) == 0


def test_colours_of_a_vector_and_lines_of_numbers(tmp_path: Path) -> None:
    import csv

    import meshio

    points = np.random.default_rng(0).normal(size=(60, 3))
    basis = ep.decompose(points, k=4)
    basis.save(stored := tmp_path / "basis.safetensors")
    assert main(["export", str(stored), str(tmp_path / "a.ply"), "--colour", "2", "-q"]) == 0
    read = meshio.read(tmp_path / "a.ply")
    red, blue = (read.point_data[name].astype(float) for name in ("red", "blue"))
    assert read.point_data["red"].dtype == np.uint8
    assert abs(np.corrcoef(red - blue, basis.vectors[:, 1])[0, 1]) > 0.8
    assert main(["export", str(stored), str(tmp_path / "a.csv"), "-q"]) == 0
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["x", "y", "z", "mass", "v001", "v002", "v003", "v004"]
    np.testing.assert_allclose(
        [float(row["v003"]) for row in rows], basis.vectors[:, 2], rtol=1e-7, atol=1e-9
    )
    assert main(["export", str(stored), str(tmp_path / "b.ply"), "--colour", "9", "-q"]) == 2


def test_columns_of_a_basis_without_points_or_in_many_dimensions(tmp_path: Path) -> None:
    basis = ep.Basis(np.eye(12)[:, :2], np.full(12, 1 / 12), np.arange(2.0))
    for points, header in ((None, "mass"), (np.zeros((12, 4)), "x0,x1,x2,x3,mass")):
        replace(basis, points=points).save(tmp_path / "a.csv")
        lines = (tmp_path / "a.csv").read_text().splitlines()
        assert lines[0] == f"{header},v001,v002" and len(lines) == 13
