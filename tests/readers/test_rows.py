"""Rows of a source one by one, in blocks and whole: which rows, how many at once, and what is never in memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.random_projection import SparseRandomProjection

from eigenprobe.errors import InputError
from eigenprobe.estimators import OptimalApproximationEigenmaps
from eigenprobe.readers import rows as access
from eigenprobe.readers.rows import Items, ParquetColumns, Rows, SparseRows, checked, open_rows, open_table


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


@pytest.mark.parametrize(("asked", "entries", "expected"), [(5, 99, [5, 5, 5, 5, 3]), (9, 28, [7, 7, 7, 2])])
def test_blocks_are_as_long_as_asked_and_as_memory_allows(
    monkeypatch: pytest.MonkeyPatch, table: np.ndarray, asked: int, entries: int, expected: list[int]
) -> None:
    monkeypatch.setattr(access, "ENTRIES", entries)
    blocks = list(Rows(table).blocks(asked))
    assert [len(block) for block in blocks] == expected
    np.testing.assert_array_equal(np.concatenate(blocks), table)
    np.testing.assert_array_equal(Rows(table).whole(asked).numpy(), table)
    monkeypatch.setattr(access, "ENTRIES", 3)  # less than a row: one at a time
    assert [len(block) for block in Rows(table).blocks(asked)] == [1] * 23
    assert len(list(Rows(table).blocks(0))) == 23


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
    with pytest.raises(InputError, match="features must be finite, got NaN or infinity"):
        checked(table, None)
    huge = np.full((3, 2), 1.7e308)  # the sum overflows, the numbers are finite
    np.testing.assert_array_equal(checked(huge, None).numpy(), huge)


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


def test_columns_of_parquet_by_groups(tmp_path: Path, table: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table[:, :3], columns=list("abc"))
    frame["whole"], frame["word"] = np.arange(23), "x"
    frame.to_parquet(path := tmp_path / "t.parquet", row_group_size=5)
    claimed: list[float] = []
    monkeypatch.setattr(access, "check_size", lambda _path, size: claimed.append(size))
    columns = ParquetColumns(path)
    assert columns.shape == (23, 4) and columns.starts.tolist() == [0, 5, 10, 15, 20, 23]
    assert claimed == [8 * 23 * 4]
    expected = np.column_stack([table[:, :3], np.arange(23)])
    for rows in (slice(3, 12), np.array([0, 4, 5, 9, 10, 22]), np.array([5]), slice(None)):
        np.testing.assert_array_equal(columns[rows], expected[rows])
    assert columns.group.cache_parameters()["maxsize"] == 1  # one group in memory
    assert ParquetColumns(path, "b").shape == (23, 3)
    np.testing.assert_array_equal(ParquetColumns(path, "b")[slice(0, 7)], expected[:7, [0, 2, 3]])
    frame[["word"]].to_parquet(path)
    with pytest.raises(InputError, match="has no numeric column"):
        ParquetColumns(path)


def test_wide_sparse_rows_are_projected_always_in_the_same_way(rng: np.random.Generator) -> None:
    wide = sparse.random(6, access.PROJECTED + 1, 0.02, "csr", random_state=1, dtype=np.float32)
    rows = SparseRows(wide)
    assert rows.shape == (6, access.PROJECTED) and rows[1:3].dtype == np.float32
    projection = SparseRandomProjection(access.PROJECTED, dense_output=True, random_state=0).fit(wide[:1])
    np.testing.assert_allclose(rows[slice(0, 6)], projection.transform(wide), rtol=1e-6)
    for matrix, missing in ((wide[:, :-1], 0.0), (wide, 7.0)):  # narrow enough, or distances
        rows = SparseRows(matrix, missing)
        assert rows.projection is None and rows.shape == matrix.shape
        expected = matrix.toarray()
        expected[expected == 0] = missing
        np.testing.assert_array_equal(rows[np.array([2, 5])], expected[[2, 5]])


def _estimator(**known: Any) -> Any:
    from eigenprobe import OptimalApproximationEigenmaps

    model = OptimalApproximationEigenmaps(2)
    vars(model).update(known)
    return model


def test_which_tables_are_streamed(tmp_path: Path, table: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", table)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for source, limit, expected in (
        (table, 0, np.float64),
        (table.astype(np.float32), 0, np.float32),
        (mapped, 23, np.float64),  # as many as are fitted: an array
        (mapped, 22, np.float32),  # more: streamed, and single precision is enough
        (tmp_path / "a.npy", 99, np.float32),
        (torch.utils.data.TensorDataset(torch.from_numpy(table)), 99, np.float32),
        (Rows(table), 99, np.float32),
    ):
        model = _estimator()
        rows, dtype = open_table(model, source, True, limit)
        assert dtype == expected and model.n_features_in_ == 4
        np.testing.assert_array_equal(rows.take(np.arange(23)), np.asarray(table, rows.take(np.arange(1)).dtype))
    assert isinstance(open_table(_estimator(), sparse.csr_matrix(table), True, 0)[0].array, SparseRows)
    with pytest.raises(InputError, match="at least 2 rows are needed, got 1"):
        open_table(_estimator(), Rows(table[:1]), True, 0)
    assert open_table(_estimator(), Rows(table[:2]), True, 0)[0].shape == (2, 4)
    assert open_table(_estimator(n_features_in_=4), Rows(table[:1]), False, 0)[0].shape == (1, 4)
    assert open_table(_estimator(n_features_in_=4), table[:1], False, 0)[0].shape == (1, 4)
    with pytest.raises(InputError, match="minimum of 2 is required"):
        open_table(_estimator(), table[:1], True, 0)
    with pytest.raises(InputError, match="expected 3 columns, as in fit, got 4"):
        open_table(_estimator(n_features_in_=3), Rows(table), False, 0)
    with pytest.raises(TypeError):  # scikit-learn's kind for what is no number at all
        open_table(_estimator(), np.array([[object(), 1.0]] * 3), True, 0)


def test_sparse_distances_to_fitted_rows(table: np.ndarray) -> None:
    distances = sparse.csr_matrix(np.abs(table[:3]))
    model = _estimator(metric="precomputed", n_features_in_=4, _graph=SimpleNamespace(k=4))
    rows, dtype = open_table(model, distances, False, 0)
    assert dtype == np.float64
    np.testing.assert_array_equal(rows.take(np.arange(3)), np.abs(table[:3]))
    distances[1, 2] = 0
    distances.eliminate_zeros()
    with pytest.raises(InputError, match="every row needs 4 distances to fitted rows, one has fewer"):
        open_table(model, distances, False, 0)
    model._graph = SimpleNamespace(k=3)
    missing = open_table(model, distances, False, 0)[0].take(np.arange(3))[1, 2]
    assert missing == pytest.approx(np.finfo(np.float64).max / 1e6)  # farther than any


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
    rows, _ = open_table(_estimator(), sparse.csr_matrix(np.where(table > 0, table, 0)), True, 0)
    np.testing.assert_array_equal(rows.take(np.arange(23)), np.where(table > 0, table, 0))
    table[3, 1] = np.nan
    assert open_table(_estimator(), table, True, 0)[0].shape == (23, 4)  # rows are checked where they are read
    with pytest.raises(InputError, match="minimum of 1 is required"):
        open_table(_estimator(n_features_in_=4), table[:0], False, 0)
    frame = pytest.importorskip("pandas").DataFrame({"a": [1.0, 2.0], "kind": ["x", "y"]})
    with pytest.raises(InputError, match="features must be numbers, column 'kind' is not"):
        open_table(_estimator(), frame, True, 0)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = table
    rows = open_rows(tmp_path / "a.h5")
    rows.array.file.close()
    with pytest.raises(InputError, match=r"a\.h5"):  # errors of a file name it
        rows.take(np.arange(2))
    rows, _ = open_table(
        _estimator(metric="precomputed", n_features_in_=4, _graph=SimpleNamespace(k=1)),
        sparse.csr_matrix(([1.0, 2.0], ([0, 1], [1, 2])), shape=(2, 4), dtype=np.float32),
        False,
        0,
    )
    assert rows.take(np.arange(2))[0, 0] == np.float32(np.finfo(np.float32).max / 1e6)


def test_what_is_no_table_of_numbers_is_one_line(tmp_path: Path, table: np.ndarray) -> None:
    model = OptimalApproximationEigenmaps(2, device="cpu")
    for values in (table.astype(str), table + 1j, table[:, :0]):
        np.save(tmp_path / "a.npy", values)
        with pytest.raises(InputError, match=r"features must be numbers, got (<U|complex)|table \(n, d\), got shape"):
            model.fit(tmp_path / "a.npy")
    with pytest.raises(InputError, match="expected rows of 4 numbers, as the first item has, got 3"):
        open_rows([*table, table[0, :3]]).take(np.arange(24))
    with pytest.raises(InputError, match="have no number: got Stream"):
        model.fit(Stream())
    brief = torch.from_numpy(table).bfloat16()
    np.testing.assert_array_equal(model.fit(brief).embedding_, model.fit(brief.float()).embedding_)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self) -> Any:
        return iter([np.zeros(4)])


def test_masked_arrays_are_not_read_behind_their_mask(table: np.ndarray) -> None:
    masked = np.ma.masked_array(table, np.zeros(table.shape, bool))
    np.testing.assert_array_equal(open_table(_estimator(), masked, True, 0)[0].whole(99), table)
    masked[3, 1] = np.ma.masked
    with pytest.raises(InputError, match="1 entries of a masked array are missing: fill them in"):
        open_table(_estimator(), masked, True, 0)


def test_missing_values_are_named(table: np.ndarray) -> None:
    wrong = table.copy()
    wrong[4, 2] = wrong[7, 0] = np.nan
    with pytest.raises(InputError, match="row 4 has NaN or infinity in column 2, 1 more rows too"):
        Rows(wrong).whole(99)
