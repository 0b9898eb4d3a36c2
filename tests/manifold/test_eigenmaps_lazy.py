"""Tables of dask: a sample is fitted, new rows are placed lazily, with the numbers of one
machine.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_blobs

from eigenprobe import Eigenmaps, InputError
from eigenprobe_lab.evaluation.clustering import kmeans_scores

dask = pytest.importorskip("dask")
array, frame = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")


def test_a_sample_is_fitted_and_all_rows_are_placed() -> None:
    X, y = make_blobs(3000, 8, centers=5, random_state=0)
    X = X.astype(np.float32)
    lazy = array.from_array(X, chunks=(700, 3))
    with dask.config.set(scheduler="synchronous"):
        model = Eigenmaps(3, max_samples=600, random_state=0, device="cpu").fit(lazy)
        placed = model.transform(lazy)
        assert isinstance(placed, array.Array) and placed.chunks == (
            (700, 700, 700, 700, 200),
            (3,),
        )
        assert placed.dtype == np.float32
        assert model.embedding_.shape == (600, 3)
        found = placed.compute()
        np.testing.assert_array_equal(found, model.transform(X))
        assert kmeans_scores(found, y)["ari"] > 0.99
        again = Eigenmaps(3, max_samples=600, random_state=0, device="cpu").fit_transform(lazy)
        np.testing.assert_array_equal(again.compute(), found)
        with pytest.raises(InputError, match="expected 8 columns, as in fit, got 7"):
            model.transform(lazy[:, :7])


@pytest.mark.parametrize("fitted", [np.float32, np.float64])
@pytest.mark.parametrize("placed", [np.float32, np.float64])
def test_the_precision_that_is_announced_is_that_of_the_blocks(fitted: type, placed: type) -> None:
    X = np.random.default_rng(0).normal(size=(80, 4))
    model = Eigenmaps(2, random_state=0, device="cpu").fit(X.astype(fitted))
    lazy = model.transform(array.from_array(X.astype(placed), chunks=(30, 4)))
    wanted = np.float32 if placed == np.float32 else fitted
    with dask.config.set(scheduler="synchronous"):
        assert (
            lazy.dtype == lazy.compute().dtype == model.transform(X.astype(placed)).dtype == wanted
        )


def test_all_rows_are_fitted_where_they_fit() -> None:
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(300, 5))
    table = pandas.DataFrame(X, columns=list("abcde"))
    alone = Eigenmaps(3, random_state=0, device="cpu").fit(X)
    lazy = frame.from_pandas(table, npartitions=4)
    with dask.config.set(scheduler="synchronous"):
        model = Eigenmaps(3, random_state=0, device="cpu").fit(lazy)
        np.testing.assert_allclose(model.embedding_, alone.embedding_, atol=1e-12)
        np.testing.assert_allclose(model.transform(lazy).compute(), alone.embedding_, atol=1e-10)
        table["kind"] = "x"
        with pytest.raises(InputError, match="column 'kind' is not"):
            Eigenmaps(3).fit(frame.from_pandas(table, npartitions=2))


def test_columns_of_a_data_frame_keep_their_names_and_order() -> None:
    """As scikit-learn has it for one in memory: columns in another order are other columns."""
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(120, 3))
    lazy = frame.from_pandas(
        pandas.DataFrame(X, columns=list("abc"), index=np.arange(120) * 7), npartitions=3
    )
    with dask.config.set(scheduler="synchronous"), warnings.catch_warnings(action="error"):
        options = {"coordinates": "sphere", "max_samples": 60, "random_state": 0, "device": "cpu"}
        model = Eigenmaps(2, **options).fit(lazy)
        assert model.feature_names_in_.tolist() == list("abc")
        placed = model.transform(lazy).compute()
        with pytest.raises(InputError, match="feature names should match"):
            model.transform(lazy[["c", "b", "a"]])
    names = pandas.DataFrame(X, columns=list("abc"))
    np.testing.assert_allclose(placed, model.transform(names), atol=1e-12)
    with pytest.raises(InputError, match=r"must be a table .* got Series"):
        Eigenmaps(2).fit(lazy.a)


def test_blocks_without_rows_and_of_sparse_matrices() -> None:
    """A filter leaves chunks of unknown length, some of them empty; a row has its number in the
    whole table.
    """
    X = np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32)
    table = array.from_array(X, chunks=(20, 4))
    kept = table[array.from_array((np.arange(90) >= 45) & (np.arange(90) < 80), chunks=20)]
    with dask.config.set(scheduler="synchronous"):
        model = Eigenmaps(2, random_state=0, device="cpu").fit(kept)
        np.testing.assert_allclose(model.transform(kept).compute(), model.embedding_, rtol=1e-6)
        assert (
            model.transform(kept).chunks == ((0, 0, 15, 20, 0), (2,))
            and len(model.embedding_) == 35
        )
        assert model.transform(table[:0]).compute().shape == (0, 2)
        with pytest.raises(InputError, match="0 sample"):
            Eigenmaps(2).fit(table[:0])
        scattered = table.map_blocks(csr_matrix, dtype=np.float32)
        np.testing.assert_array_equal(
            model.transform(scattered).compute(), model.transform(table).compute()
        )
        assert Eigenmaps(2, max_samples=30).fit(scattered).embedding_.shape == (30, 2)
        X[77, 2] = np.nan
        with pytest.raises(InputError, match="row 77 has NaN"):
            model.transform(array.from_array(X, chunks=(20, 4))).compute()
