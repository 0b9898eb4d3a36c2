"""Attributes of points are not more dimensions of them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.readers.shapes import load


@pytest.fixture
def sphere() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(300, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def written(path: Path, *blocks: np.ndarray, header: str = "", separator: str = " ") -> Path:
    np.savetxt(path, np.column_stack(blocks), fmt="%.6f", header=header, comments="", delimiter=separator)
    return path


def test_normals_colours_and_an_index_are_left_out(tmp_path: Path, sphere: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    colours, index = rng.integers(256, size=(300, 3)), np.arange(300)
    points = 2 * sphere + 5
    files = {
        "normals": written(tmp_path / "a.xyz", points, sphere),
        "colours": written(tmp_path / "b.txt", points, colours),
        "normals, colours": written(tmp_path / "c.xyz", points, sphere, colours),
        "an index": written(tmp_path / "d.csv", index, points, separator=","),
        "r, g, b": written(tmp_path / "e.csv", points, colours, header="x,y,z,r,g,b", separator=","),
        "id": written(tmp_path / "f.csv", index, points, header="id,X,Y,Z", separator=","),
        "nx, ny, nz": written(tmp_path / "g.xyz", points, sphere, header="# x y z nx ny nz"),
        "an index, colours": written(tmp_path / "i.csv", index, points, colours, header=",u,v,w,r,g,b", separator=","),
        "red": written(tmp_path / "h.txt", points, colours[:, 0], header="//X Y Z Red"),
    }
    for told, path in files.items():
        with pytest.warns(EigenprobeWarning, match=f"{path.name}: columns .* are the coordinates, {told} left out"):
            assert np.allclose(load(path).vertices, points, atol=1e-5), told


def test_the_spectrum_is_that_of_the_surface(tmp_path: Path, sphere: np.ndarray) -> None:
    """x y z nx ny nz of a sphere of radius 2: 2 / 4, and not that of a sphere in six dimensions."""
    with pytest.warns(EigenprobeWarning, match="normals left out"):
        shape = load(written(tmp_path / "a.xyz", 2 * sphere, sphere))
    assert ep.decompose(shape.vertices, k=4).eigenvalues[1:].mean() == pytest.approx(0.5, rel=0.1)


@pytest.mark.filterwarnings("error")
def test_columns_are_chosen_by_name_or_number(tmp_path: Path, sphere: np.ndarray) -> None:
    path = written(tmp_path / "a.csv", sphere, sphere, header="a,b,c,x,y,z", separator=",")
    assert np.allclose(load(path, columns="b,A").vertices, sphere[:, [1, 0]], atol=1e-5)
    assert np.allclose(load(path, columns=[5, 3]).vertices, sphere[:, [2, 0]], atol=1e-5)
    np.save(tmp_path / "a.npy", sphere)
    assert np.array_equal(load(tmp_path / "a.npy", columns="2,0").vertices, sphere[:, [2, 0]])
    for wrong, known in ((path, "there are a, b, c, x, y, z"), (tmp_path / "a.npy", "there are 0 to 2")):
        with pytest.raises(InputError, match=f"no column 'q', {known}"):
            load(wrong, columns="q")


@pytest.mark.filterwarnings("error")
def test_honest_dimensions_stay(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for d in (2, 3, 4, 6, 9, 12):
        x = rng.normal(size=(50, d))
        np.save(tmp_path / "a.npy", x)
        assert load(tmp_path / "a.npy").vertices.shape == (50, d)
        with pytest.warns(EigenprobeWarning, match=f"all of {d} columns") if 3 < d < 12 else nullcontext():
            assert load(written(tmp_path / "a.txt", x)).vertices.shape == (50, d)
    curve = np.column_stack([np.arange(20), rng.normal(size=(20, 2))])
    assert load(written(tmp_path / "b.xyz", curve)).vertices.shape == (20, 3)
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 6), -1).reshape(-1, 6)
    with pytest.warns(EigenprobeWarning, match="all of 6 columns without names are the coordinates"):
        assert load(written(tmp_path / "c.txt", grid)).vertices.shape == (729, 6)


def test_an_xyz_file_has_three_coordinates(tmp_path: Path, sphere: np.ndarray) -> None:
    """An intensity or colours in [0, 1] without names are in no way different from coordinates but for the suffix."""
    rng = np.random.default_rng(0)
    for more, told in ((rng.random(300), "1 more"), (rng.random((300, 3)), "3 more")):
        for suffix in ("xyz", "pts"):
            with pytest.warns(EigenprobeWarning, match=f"columns 0,1,2 are the coordinates, {told} left out"):
                shape = load(written(tmp_path / f"a.{suffix}", 2 * sphere, more))
            assert np.allclose(shape.vertices, 2 * sphere, atol=1e-5)


def test_normals_in_an_array_are_left_out_too(tmp_path: Path, sphere: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", np.hstack([2 * sphere, sphere]))
    with pytest.warns(EigenprobeWarning, match="normals left out"):
        assert (load(tmp_path / "a.npy").vertices == 2 * sphere).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name, text",
    [
        ("a.pts", "3\n1 2 3\n4 5 6\n7 8 9.5\n"),
        ("a.xyz", "3\n\n1 2 3\n4 5 6\n7 8 9.5\n"),
        ("a.csv", "X;Y;Z\n1;2;3\n4;5;6,0\n7;8;9,5\n"),
        ("b.csv", "1,0;2;3\n4;5;6\n7;8;9,5\n"),
        ("c.csv", "1,2,3,\n4,5,6,\n7,8,9.5,\n"),
        ("d.csv", "\ufeffx,y,z\n1,2,3\n4,5,6\n7,8,9.5\n"),
    ],
)
def test_counts_decimal_commas_closing_separators_and_marks(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert load(tmp_path / name).vertices.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9.5]]
