"""Attributes of points are not more dimensions of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.geometry import load


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
    for d in (2, 3, 4, 6, 9):
        x = rng.normal(size=(50, d))
        assert load(written(tmp_path / "a.xyz", x)).vertices.shape == (50, d)
    curve = np.column_stack([np.arange(20), rng.normal(size=(20, 2))])
    assert load(written(tmp_path / "b.xyz", curve)).vertices.shape == (20, 3)
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 6), -1).reshape(-1, 6)
    assert load(written(tmp_path / "c.xyz", grid)).vertices.shape == (729, 6)
