"""Text: names decide where there are any, then the suffix, and a person above all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.io.shapes import load


@pytest.fixture
def sphere() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(300, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def written(path: Path, *blocks: np.ndarray, header: str = "", separator: str = " ") -> Path:
    np.savetxt(
        path, np.column_stack(blocks), fmt="%.6f", header=header, comments="", delimiter=separator
    )
    return path


def test_coordinates_by_name_or_by_suffix(tmp_path: Path, sphere: np.ndarray) -> None:
    more = np.random.default_rng(0).integers(0, 256, (300, 3))
    for path in (
        written(tmp_path / "a.xyz", sphere, more),
        written(tmp_path / "b.pts", sphere, more[:, 0]),
        written(tmp_path / "c.csv", more, sphere, header="r,g,b,X,Y,Z", separator=","),
        written(tmp_path / "d.xyz", sphere, sphere, header="# x y z nx ny nz"),
        written(tmp_path / "e.txt", sphere, more[:, 0], header="//X Y Z Red"),
    ):
        with pytest.warns(EigenprobeWarning, match=f"{path.name}: columns .* are the coordinates"):
            assert np.allclose(load(path).vertices, sphere, atol=1e-5), path


def test_without_names_all_columns_are_coordinates(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(50, 6))
    np.save(tmp_path / "a.npy", x)
    assert load(tmp_path / "a.npy").vertices.shape == (50, 6)
    with pytest.warns(EigenprobeWarning, match="all 6 columns are coordinates; choose others"):
        assert load(written(tmp_path / "a.txt", x)).vertices.shape == (50, 6)
    assert load(written(tmp_path / "b.txt", x[:, :2])).vertices.shape == (50, 2)


@pytest.mark.filterwarnings("error")
def test_columns_are_chosen_by_name_or_number(tmp_path: Path, sphere: np.ndarray) -> None:
    path = written(tmp_path / "a.csv", sphere, sphere, header="a,b,c,x,y,z", separator=",")
    assert np.allclose(load(path, columns="b,A").vertices, sphere[:, [1, 0]], atol=1e-5)
    assert np.allclose(load(path, columns=[5, 3]).vertices, sphere[:, [2, 0]], atol=1e-5)
    np.save(tmp_path / "a.npy", sphere)
    assert np.array_equal(load(tmp_path / "a.npy", columns="2,0").vertices, sphere[:, [2, 0]])
    for wrong, known in (
        (path, "there are a, b, c, x, y, z"),
        (tmp_path / "a.npy", "there are 0 to 2"),
    ):
        with pytest.raises(InputError, match=f"no column 'q', {known}"):
            load(wrong, columns="q")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name, text",
    [
        ("a.pts", "3\n1 2 3\n4 5 6\n7 8 9.5\n"),
        ("a.xyz", "3\n\n1 2 3\n4 5 6\n7 8 9.5\n"),
        ("a.pwn", "3\n1 2 3\n4 5 6\n7 8 9.5\n0 0 1\n0 0 1\n0 0 1\n"),
        ("a.csv", "X;Y;Z\n1;2;3\n4;5;6,0\n7;8;9,5\n"),
        ("b.csv", "1,0;2;3\n4;5;6\n7;8;9,5\n"),
        ("c.csv", "1,2,3,\n4,5,6,\n7,8,9.5,\n"),
        ("d.csv", "\ufeffx,y,z\n1,2,3\n4,5,6\n7,8,9.5\n"),
        ("f.csv", " 1, 2, 3\n 4, 5, 6\n 7, 8, 95e-1\n"),
        ("e.csv", "# comment\n1\t2\t3\n\n4  5  6\n7 8 9.5"),
    ],
)
def test_counts_decimal_commas_closing_separators_and_marks(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert load(tmp_path / name).vertices.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9.5]]


def test_a_file_with_fewer_points_than_it_announces(tmp_path: Path) -> None:
    (tmp_path / "a.pts").write_text("5\n1 2 3\n4 5 6\n")
    with pytest.raises(InputError, match="announces 5 points and holds 2"):
        load(tmp_path / "a.pts")


@pytest.mark.parametrize("text", ["x y z\n1 2 3 4 5 6\n7 8 9 1 2 3\n", "x,y\n1,2,3\n4,5,6\n"])
def test_names_of_fewer_columns_than_there_are(tmp_path: Path, text: str) -> None:
    """Pandas would take the first columns for an index, and the next ones for x, y and z."""
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InputError, match=r"a\.txt: its rows have more columns than its first line"):
        load(tmp_path / "a.txt")
