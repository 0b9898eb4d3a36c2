"""Tests of `estimators.sources`: what a fit takes, and what it refuses in one line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from eigenprobe.errors import InputError
from eigenprobe.io.rows import Rows, SparseRows, open_rows
from eigenprobe.manifold.eigenmaps import Eigenmaps
from eigenprobe.manifold.sources import open_table


@pytest.fixture
def table(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(23, 4))


def _estimator(**known: Any) -> Any:
    from eigenprobe import Eigenmaps

    model = Eigenmaps(2)
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
        np.testing.assert_array_equal(
            rows.take(np.arange(23)), np.asarray(table, rows.take(np.arange(1)).dtype)
        )
    assert isinstance(
        open_table(_estimator(), sparse.csr_matrix(table), True, 0)[0].array, SparseRows
    )
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
    with pytest.raises(
        InputError, match="every row needs 4 distances to fitted rows, one has fewer"
    ):
        open_table(model, distances, False, 0)
    model._graph = SimpleNamespace(k=3)
    missing = open_table(model, distances, False, 0)[0].take(np.arange(3))[1, 2]
    assert missing == pytest.approx(np.finfo(np.float64).max / 1e6)  # farther than any


def test_what_is_no_table_of_numbers_is_one_line(tmp_path: Path, table: np.ndarray) -> None:
    model = Eigenmaps(2, device="cpu", random_state=0)
    for values in (table.astype(str), table + 1j, table[:, :0]):
        np.save(tmp_path / "a.npy", values)
        with pytest.raises(
            InputError,
            match=r"features must be numbers, got (<U|complex)|table \(n, d\), got shape",
        ):
            model.fit(tmp_path / "a.npy")
    with pytest.raises(
        InputError, match="expected rows of 4 numbers, as the first item has, got 3"
    ):
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


def test_small_print_of_tables(table: np.ndarray) -> None:
    rows, _ = open_table(_estimator(), sparse.csr_matrix(np.where(table > 0, table, 0)), True, 0)
    np.testing.assert_array_equal(rows.take(np.arange(23)), np.where(table > 0, table, 0))
    table[3, 1] = np.nan
    assert open_table(_estimator(), table, True, 0)[0].shape == (
        23,
        4,
    )  # rows are checked where they are read
    with pytest.raises(InputError, match="minimum of 1 is required"):
        open_table(_estimator(n_features_in_=4), table[:0], False, 0)
    rows, _ = open_table(
        _estimator(metric="precomputed", n_features_in_=4, _graph=SimpleNamespace(k=1)),
        sparse.csr_matrix(([1.0, 2.0], ([0, 1], [1, 2])), shape=(2, 4), dtype=np.float32),
        False,
        0,
    )
    assert rows.take(np.arange(2))[0, 0] == np.float32(np.finfo(np.float32).max / 1e6)


def test_missing_entries_of_sparse_rows_are_named(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.5)
    rows[17, 4], rows[16] = np.nan, 0
    with pytest.raises(
        InputError, match="features must be finite, row 17 has NaN or infinity in column 4"
    ):
        Eigenmaps(4).fit(sparse.csr_matrix(rows))


def test_rows_that_are_fitted_fit_into_half_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 bytes per number, 400 per neighbour and 60 per component, within the limits."""
    from eigenprobe.manifold import sources

    model = _estimator(n_neighbors=30, device="cpu")  # two components
    for memory, columns in ((10 << 30, 64), (300 << 30, 2), (64 << 30, 5000), (1 << 20, 9)):
        monkeypatch.setattr(
            sources.os,
            "sysconf",
            lambda name, m=memory: 4096 if name == "SC_PAGE_SIZE" else m // 4096,
        )
        expected = memory / 2 / (16 * columns + 400 * 30 + 60 * 12)
        found = sources.rows_to_fit(model, columns)
        assert found == int(min(sources.MOST_ROWS, max(sources.LEAST_ROWS, expected)))
    model.max_samples = 777
    assert sources.rows_to_fit(model, 3) == 777


def test_rows_of_a_dask_table_are_as_many_as_its_columns_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array = pytest.importorskip("dask.array")
    from eigenprobe.manifold import sources

    asked = []
    monkeypatch.setattr(sources, "rows_to_fit", lambda model, columns: asked.append(columns) or 50)
    x = np.arange(800.0).reshape(200, 4)
    found = sources.sampled(_estimator(random_state=0), array.from_array(x, chunks=(70, 4)))
    assert asked == [4] and found.shape == (50, 4)
    assert len(np.unique(found[:, 0])) == 50 and np.isin(found[:, 0], x[:, 0]).all()


def test_frames_of_other_kinds(rng: np.random.Generator) -> None:
    """Lazy ones are collected, categories encoded on request, missing entries named."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    model = Eigenmaps(2, random_state=0, device="cpu").fit(frame)
    lazy = polars.from_pandas(frame).lazy()
    np.testing.assert_array_equal(model.transform(lazy), model.embedding_)
    missing = frame.astype("Float64")
    missing.iloc[3, 1] = pandas.NA
    for table in (missing, polars.from_pandas(missing)):
        for call in (model.fit, model.transform):
            with pytest.raises(InputError, match=r"1 entries are missing.* row 3, column 'b'"):
                call(table)
    kinds = frame.assign(kind=pandas.Categorical(rng.choice(list("xyz"), 60)), flag=frame.a > 0)
    with pytest.raises(InputError, match=r"column 'kind' is not.*mixed=True"):
        model.fit(kinds)
    mixed = Eigenmaps(2, mixed=True, random_state=0, device="cpu").fit(kinds)
    assert mixed.n_features_in_ == 8
    np.testing.assert_allclose(mixed.transform(kinds.iloc[:7]), mixed.embedding_[:7], atol=1e-9)


@pytest.mark.parametrize("change", ["none", "minus", "nan", "ragged", "one", "word"])
def test_lists_of_neighbours_with_a_wrong_entry_are_one_line(
    change: str, rng: np.random.Generator
) -> None:
    from sklearn.neighbors import NearestNeighbors

    x = rng.normal(size=(60, 4))
    lengths, near = NearestNeighbors(n_neighbors=8).fit(x).kneighbors()
    there = np.arange(60)[:, None] == 3
    wrong = {
        "none": (near.tolist()[:-1] + [None], lengths),
        "minus": (np.where(there, -1, near), lengths),
        "nan": (near, np.where(there, np.nan, lengths)),
        "ragged": (near.tolist()[:-1] + [[1]], lengths),
        "one": (near,),
        "word": ("a", "b"),
    }[change]
    with pytest.raises(InputError, match="neighbors must be") as error:
        Eigenmaps(2, device="cpu").fit(x, neighbors=wrong)
    assert "\n" not in str(error.value)
