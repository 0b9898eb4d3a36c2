"""Tables on disk: every format gives the same rows, whole or streamed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.io.rows import open_rows
from eigenprobe.io.tables import read_table

pandas = pytest.importorskip("pandas")


def _write(folder: Path, suffix: str, x: np.ndarray, labels: np.ndarray) -> Path:
    path = folder / f"table{suffix}"
    if suffix == ".npy":
        np.save(path, x)
    elif suffix == ".npz":
        np.savez(path, features=x, labels=labels)
    elif suffix in (".h5", ".hdf5"):
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["features"], file["labels"] = x, labels
    else:
        frame = pandas.DataFrame(x, columns=[f"f{i}" for i in range(x.shape[1])])
        frame["kind"] = [f"c{label}" for label in labels]
        if suffix == ".parquet":
            frame.to_parquet(path, row_group_size=7)
        else:
            frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".tsv", ".parquet", ".h5"])
def test_every_format_gives_the_same_rows(
    tmp_path: Path, rng: np.random.Generator, suffix: str
) -> None:
    x, labels = rng.normal(size=(23, 4)), rng.integers(0, 3, 23)
    path = _write(tmp_path, suffix, x, labels)
    columns = suffix in (".csv", ".tsv", ".parquet")
    table = read_table(path, labels="kind" if columns else None)
    np.testing.assert_allclose(table.features, x)
    assert len(table.names) == 4
    if suffix == ".npy":
        assert table.labels is None
    else:
        assert table.labels is not None
        assert [str(v).removeprefix("c") for v in table.labels] == [str(v) for v in labels]
    if suffix in (".csv", ".tsv"):
        return  # a text label column has no place in a stream of numbers
    rows = open_rows(path)
    assert rows.shape == (23, 4)
    np.testing.assert_allclose(np.concatenate(list(rows.blocks(5))), x)
    chosen = np.array([20, 3, 3, 11, 0]) if suffix != ".h5" else np.array([20, 3, 11, 0])
    np.testing.assert_allclose(rows.take(chosen), x[chosen])


def test_errors_say_what_came(tmp_path: Path, rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="no such table"):
        read_table(tmp_path / "absent.npy")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"\.parquet.*notes\.txt"):
        read_table(tmp_path / "notes.txt")
    (tmp_path / "broken.npz").write_text("hello")
    with pytest.raises(InputError, match=r"broken\.npz"):
        read_table(tmp_path / "broken.npz")
    np.savez(tmp_path / "two.npz", a=rng.normal(size=(3, 2)), b=rng.normal(size=(3, 2)))
    with pytest.raises(InputError, match="features"):
        read_table(tmp_path / "two.npz")
    np.savez(tmp_path / "odd.npz", features=rng.normal(size=(3, 2)), labels=np.arange(4))
    with pytest.raises(InputError, match="one label per row"):
        read_table(tmp_path / "odd.npz")
    with pytest.raises(InputError, match="no array 'kind'"):
        read_table(tmp_path / "odd.npz", labels="kind")
    pandas.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}).to_csv(tmp_path / "words.csv", index=False)
    with pytest.raises(InputError, match="column 'b'"):
        read_table(tmp_path / "words.csv")
    assert list(read_table(tmp_path / "words.csv", labels="b").labels) == ["x", "y"]
    np.save(tmp_path / "line.npy", np.arange(3.0))
    with pytest.raises(InputError, match="table"):
        read_table(tmp_path / "line.npy")
