"""Rows of a source one by one, in blocks and whole: which rows, how many at once, and what is never
in memory.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.random_projection import SparseRandomProjection

from eigenprobe.errors import InputError
from eigenprobe.io import rows as access
from eigenprobe.io.rows import Items, Rows, SparseRows, checked, open_rows


@pytest.fixture
def table(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(23, 4))


def test_what_has_rows_is_not_copied(tmp_path: Path, table: np.ndarray) -> None:
    h5py = pytest.importorskip("h5py")
    np.save(tmp_path / "a.npy", table)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = table
    assert open_rows(table).array is table
    rows = Rows(table)
    assert open_rows(rows) is rows and rows.path is None
    assert isinstance(open_rows(str(tmp_path / "a.npy")).array, np.memmap)
    stored = open_rows(tmp_path / "a.h5")
    assert isinstance(stored.array, h5py.Dataset) and stored.path == tmp_path / "a.h5"
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_matrix(table))
    assert isinstance(open_rows(tmp_path / "a.npz").array, SparseRows)
    with pytest.raises(InputError, match=r"must be a table \(n, d\), got shape \(23,\)"):
        open_rows(table[:, 0])
    with pytest.raises(InputError, match=r"must be a table \(n, d\), got shape \(23, 4, 1\)"):
        open_rows(table[..., None])


def test_blocks_are_as_long_as_asked_and_as_memory_allows(table: np.ndarray) -> None:
    for asked, expected in ((5, [5, 5, 5, 5, 3]), (99, [23]), (0, [1] * 23)):
        blocks = list(Rows(table).blocks(asked))
        assert [len(block) for block in blocks] == expected
        np.testing.assert_array_equal(np.concatenate(blocks), table)
    wide = np.broadcast_to(np.float32(0), (5, 1 << 24))  # 64 MB a row, on paper
    assert [len(block) for block in Rows(wide).blocks(99)] == [2, 2, 1]


def test_whole_is_a_copy_and_names_the_row_that_is_wrong(table: np.ndarray) -> None:
    for size in (7, 23, 100):
        whole = Rows(table).whole(size)
        assert whole.dtype == torch.float64 and whole.data_ptr() != table.ctypes.data
        np.testing.assert_array_equal(whole.numpy(), table)
    table[17, 2] = np.inf
    for size in (5, 100):
        with pytest.raises(InputError, match="features must be finite, row 17 has NaN or infinity"):
            Rows(table).whole(size)
    with pytest.raises(InputError, match="features must be finite, row 40 has NaN or infinity"):
        checked(table[15:], np.arange(38, 46))
    huge = np.full((3, 2), 1.7e308)  # the sum overflows, the numbers are finite
    np.testing.assert_array_equal(checked(huge, np.arange(3)).numpy(), huge)


def test_items_of_a_data_set_are_rows_or_start_with_one(table: np.ndarray) -> None:
    for dataset in (
        list(table),
        [(row, 1) for row in table],
        [[row, "word"] for row in table],
        torch.utils.data.TensorDataset(torch.from_numpy(table), torch.arange(23)),
    ):
        rows = open_rows(dataset)
        assert isinstance(rows.array, Items) and rows.shape == (23, 4)
        np.testing.assert_array_equal(rows.array[5:9], table[5:9])
        np.testing.assert_array_equal(rows.take(np.array([22, 0, 7, 7])), table[[22, 0, 7, 7]])
    images = Items([row.reshape(2, 2) for row in table])  # items of any shape are one row
    np.testing.assert_array_equal(images[np.array([3, 4])], table[3:5])
    with pytest.raises(InputError, match="the data set is empty"):
        Items([])


def test_columns_of_parquet_by_groups(tmp_path: Path, table: np.ndarray) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table[:, :3], columns=list("abc"))
    frame["whole"], frame["word"] = np.arange(23), "x"
    frame.to_parquet(path := tmp_path / "t.parquet", row_group_size=5)
    expected = np.column_stack([table[:, :3], np.arange(23)])
    for chosen in (np.array([0, 4, 5, 9, 10, 22]), np.array([21, 5, 5])):
        np.testing.assert_array_equal(open_rows(path).take(chosen), expected[chosen])
    for size in (3, 12, 99):
        found = [*open_rows(path, "b").blocks(size)]
        np.testing.assert_array_equal(np.concatenate(found), expected[:, [0, 2, 3]])
    frame[["word"]].to_parquet(path)
    with pytest.raises(InputError, match="has no numeric column"):
        open_rows(path)


def test_wide_sparse_rows_are_projected_always_in_the_same_way(rng: np.random.Generator) -> None:
    wide = sparse.random(6, access.PROJECTED + 1, 0.02, "csr", random_state=1, dtype=np.float32)
    rows = SparseRows(wide)
    assert rows.shape == (6, access.PROJECTED) and rows[1:3].dtype == np.float32
    projection = SparseRandomProjection(access.PROJECTED, dense_output=True, random_state=0).fit(
        wide[:1]
    )
    np.testing.assert_allclose(rows[slice(0, 6)], projection.transform(wide), rtol=1e-6)
    for matrix, missing in ((wide[:, :-1], 0.0), (wide, 7.0)):  # narrow enough, or distances
        rows = SparseRows(matrix, missing)
        assert rows.projection is None and rows.shape == matrix.shape
        expected = matrix.toarray()
        expected[expected == 0] = missing
        np.testing.assert_array_equal(rows[np.array([2, 5])], expected[[2, 5]])


def test_small_print_of_sources(tmp_path: Path, table: np.ndarray) -> None:
    class One(torch.utils.data.Dataset[np.ndarray]):
        """A map-style data set of one item: no item has another number."""

        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> np.ndarray:
            assert index == 0
            return table[0]

    assert open_rows(One()).shape == (1, 4)
    square = table[:4]  # as many rows as columns: the first block is not all of them
    assert Rows(np.concatenate([square, square])).whole(4).shape == (8, 4)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = table
    rows = open_rows(tmp_path / "a.h5")
    rows.array.file.close()
    with pytest.raises(InputError, match=r"a\.h5"):  # errors of a file name it
        rows.take(np.arange(2))


def test_missing_values_are_named(table: np.ndarray) -> None:
    wrong = table.copy()
    wrong[4, 2] = wrong[7, 0] = np.nan
    with pytest.raises(InputError, match="row 4 has NaN or infinity in column 2, 1 more rows too"):
        Rows(wrong).whole(99)
