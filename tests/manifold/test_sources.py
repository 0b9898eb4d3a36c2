"""Tests of `estimators.sources`: what a fit takes, and what it refuses in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from eigenprobe.errors import InputError
from eigenprobe.io.rows import open_rows
from eigenprobe.manifold.eigenmaps import Eigenmaps


@pytest.fixture
def table(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(23, 4))


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
    model = Eigenmaps(2, device="cpu", random_state=0)
    np.testing.assert_array_equal(model.fit(masked).embedding_, model.fit(table).embedding_)
    masked[3, 1] = np.ma.masked
    with pytest.raises(InputError, match="1 entries of a masked array are missing: fill them in"):
        model.fit(masked)


def test_missing_entries_of_sparse_rows_are_named(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.5)
    rows[17, 4], rows[16] = np.nan, 0
    with pytest.raises(
        InputError, match="features must be finite, row 17 has NaN or infinity in column 4"
    ):
        Eigenmaps(4).fit(sparse.csr_matrix(rows))


def test_frames_of_other_kinds(rng: np.random.Generator) -> None:
    """Lazy ones are collected, categories encoded on request, missing entries named."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    model = Eigenmaps(2, random_state=0, device="cpu").fit(frame)
    lazy = polars.from_pandas(frame).lazy()
    np.testing.assert_array_equal(model.transform(lazy), model.embedding_)
    with pytest.raises(InputError, match=r'lazy frame cannot be collected: .*column "zz"'):
        model.transform(lazy.select(polars.col("zz")))
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
