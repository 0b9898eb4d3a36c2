"""What an estimator takes besides rows and keeps besides an embedding: sparse matrices, known
neighbours, distances, other metrics, frames; growth by new rows, rows for coordinates, files."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from eigenprobe import Eigenmaps, InputError
from eigenprobe.io.rows import PROJECTED


def _model(k: int = 4, **options: Any) -> Eigenmaps:
    usual = {"random_state": 0, "device": "cpu", "coordinates": "sphere"}
    return Eigenmaps(k, **usual | options)


@pytest.fixture
def table(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(300, 6)) + 4 * rng.normal(size=(3, 6))[rng.integers(3, size=300)] / 3


def test_sparse_rows_are_rows(table: np.ndarray, rng: np.random.Generator) -> None:
    table = np.where(np.abs(table) > 0.5, table, 0)
    whole, thin = _model().fit(table), _model().fit(sparse.csr_matrix(table))
    np.testing.assert_allclose(thin.embedding_, whole.embedding_, atol=1e-12)
    np.testing.assert_allclose(
        thin.transform(sparse.csc_array(table[:9] + 1)), whole.transform(table[:9] + 1)
    )
    kinds = rng.integers(
        3, size=240
    )  # words of a document, each kind with its own: 5000 columns are projected
    chance = np.where(np.arange(5000) % 3 == kinds[:, None], 0.06, 0.005)
    wide = sparse.csr_matrix((rng.random((240, 5000)) < chance) * 1.0)
    model = _model(3).fit(wide)
    assert model.basis_.points.shape == (240, PROJECTED) and model.n_features_in_ == 5000
    true, projected = pairwise_distances(wide), pairwise_distances(model.basis_.points)
    apart = ~np.eye(240, dtype=bool)
    assert np.abs(projected[apart] / true[apart] - 1).max() < 0.15
    nearest = (pairwise_distances(model.embedding_) + 9 * np.eye(240)).argmin(1)
    assert (kinds[nearest] == kinds).mean() > 0.95
    with pytest.raises(InputError, match="not for distances or wide sparse"):
        model.inverse_transform(model.embedding_)
    damaged = wide.copy()
    damaged.data[3] = np.nan
    with pytest.raises(InputError, match="features must be finite"):
        _model().fit(damaged)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_known_neighbours_are_not_searched(table: np.ndarray, metric: str) -> None:
    distances, indices = NearestNeighbors(metric=metric).fit(table).kneighbors(table, 13)
    searched, known = (
        _model(metric=metric).fit(table),
        _model(metric=metric).fit(table, neighbors=(indices, distances)),
    )
    np.testing.assert_allclose(known.embedding_, searched.embedding_, atol=1e-4)
    np.testing.assert_allclose(known.eigenvalues_, searched.eigenvalues_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        known.transform(table + 0.1), searched.transform(table + 0.1), atol=1e-4
    )
    without = _model(metric=metric).fit(table, neighbors=(indices[:, 1:], distances[:, 1:]))
    np.testing.assert_allclose(without.embedding_, known.embedding_, atol=1e-9)
    other = _model(metric=metric).fit(
        table, neighbors=(distances, indices)
    )  # as scikit-learn returns them
    np.testing.assert_array_equal(other.embedding_, known.embedding_)
    with pytest.raises(InputError, match=r"both \(300, k\), got \(300, 13\) and \(300, 12\)"):
        _model().fit(table, neighbors=(indices, distances[:, 1:]))
    with pytest.raises(InputError, match="rows 0 to 299"):
        _model().fit(table, neighbors=(indices + 5, distances))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda near, far: (near, None), "both .300, k."),
        (lambda near, far: (near, far * 1j), "Cannot cast"),
        (lambda near, far: (near - 1, far), "rows 0 to 299.*indices"),
        (lambda near, far: (near, far - far[0, 1]), "finite numbers of at least 0"),
        (lambda near, far: (near * 0, far), "row 0 has one twice"),
        (lambda near, far: (near[:, :1], far[:, :1]), "every row needs 1 neighbours"),
    ],
)
def test_wrong_lists_of_neighbours(table: np.ndarray, change: Any, message: str) -> None:
    far, near = NearestNeighbors(n_neighbors=5).fit(table).kneighbors(table)
    with pytest.raises(InputError, match=message):
        _model().fit(table, neighbors=change(near, far))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[:, :9], "must be square"),
        (lambda d: d + np.triu(d), "must be symmetric"),
        (lambda d: d + np.eye(len(d)), "0 from a row to itself"),
        (lambda d: -d, "at least 0"),
        (lambda d: np.where(d == d.max(), np.inf, d), "must be finite"),
        (lambda d: sparse.csr_matrix(d.shape), "every row needs 12 neighbours"),
    ],
)
def test_distances_that_are_none(table: np.ndarray, change: Any, message: str) -> None:
    distances = pairwise_distances(table)
    with pytest.raises(InputError, match=message):
        _model(metric="precomputed").fit(change(distances))
    with pytest.raises(InputError, match="at least 0"):
        _model(metric="precomputed").fit(distances).transform(-distances[:3])


def test_given_distances_are_those_of_rows(table: np.ndarray) -> None:
    rows, new = _model(metric="euclidean").fit(table), table[:40] + 0.2
    square, between = pairwise_distances(table), pairwise_distances(new, table)
    for matrix, others in (
        (square, between),
        (
            NearestNeighbors().fit(table).kneighbors_graph(table, 14, mode="distance"),
            sparse.csr_matrix(between),
        ),
    ):
        model = _model(metric="precomputed").fit(matrix)
        np.testing.assert_allclose(
            model.embedding_, rows.embedding_, atol=2e-3
        )  # delta is bounded, not measured
        np.testing.assert_allclose(model.vectors_, rows.vectors_, atol=1e-3)
        np.testing.assert_allclose(model.transform(others), rows.transform(new), atol=3e-3)
    np.testing.assert_allclose(
        _model(metric="precomputed").fit(10 * square).eigenvalues_ * 100,
        model.eigenvalues_,
        rtol=1e-4,
    )
    with pytest.raises(InputError, match="every row needs 12 neighbours"):
        _model(metric="precomputed").fit(
            NearestNeighbors().fit(table).kneighbors_graph(table, 4, mode="distance")
        )
    with pytest.raises(InputError, match="every row needs 12 distances to fitted rows, one has"):
        model.transform(sparse.csr_matrix(between * (np.arange(300) < 9)))


def test_other_metrics_are_lengths(table: np.ndarray) -> None:
    model = _model(metric="manhattan").fit(table)
    given = _model(metric="precomputed").fit(pairwise_distances(table, metric="manhattan"))
    np.testing.assert_allclose(model.embedding_, given.embedding_, atol=1e-5)
    np.testing.assert_allclose(model.transform(table), model.embedding_, atol=1e-6)
    shares = np.abs(table) / np.abs(table).sum(1, keepdims=True)
    roots = (
        pairwise_distances(np.sqrt(shares)) / 2**0.5
    )  # Hellinger's, which pynndescent alone knows
    model, given = _model(metric="hellinger").fit(shares), _model(metric="precomputed").fit(roots)
    np.testing.assert_allclose(model.embedding_, given.embedding_, atol=1e-4)
    with pytest.raises(
        InputError, match="metric 'haversine' cannot compare these rows: Haversine distance only"
    ):
        _model(metric="haversine").fit(table)
    with pytest.raises(InputError, match="solver='network' compares"):
        _model(metric="manhattan", solver="network").fit(table)


def test_frames_in_frames_out(table: np.ndarray) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = _model().fit(table).embedding_
    for kind, library in (("pandas", pandas), ("polars", polars)):
        frame = library.DataFrame({name: table[:, i] for i, name in enumerate("abcdef")})
        placed = _model().set_output(transform=kind).fit(frame).transform(frame)
        assert isinstance(placed, library.DataFrame) and placed.columns[0] == "eigenmaps0"
        np.testing.assert_allclose(placed.to_numpy(), expected, atol=1e-12)
        words = library.DataFrame({"a": table[:, 0], "kind": ["x"] * 300})
        with pytest.raises(InputError, match="features must be numbers, column 'kind' is not"):
            _model(1).fit(words)


@pytest.mark.long
def test_many_neighbours_take_little_memory(rng: np.random.Generator) -> None:
    """In a process of its own, whose peak is not higher already: 22 GB with an array of neighbours
    squared.
    """
    script = """
import resource, sys
import numpy as np
import eigenprobe as ep
X = np.random.default_rng(int(sys.argv[1])).normal(size=(400, 20))
ep.Eigenmaps(metric="euclidean").fit(X)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = ep.Eigenmaps(n_neighbors=1000).fit(X)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    command = [sys.executable, "-c", script, str(rng.integers(1 << 30))]
    grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(grown) < 100, "MiB"


def test_addresses_are_read(table: np.ndarray) -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://tables/rows.npy", "wb") as file:
        np.save(file, table)
    np.testing.assert_allclose(
        _model().fit("memory://tables/rows.npy").embedding_,
        _model().fit(table).embedding_,
        atol=1e-5,
    )
    with pytest.raises(InputError, match="cannot read memory://tables/absent"):
        _model().fit("memory://tables/absent.npy")


def test_affinities_are_solved_as_they_are(table: np.ndarray, tmp_path: Path) -> None:
    """Against the eigenvectors of ``R^-1/2 W R^-1/2`` by LAPACK; new rows by the walk's own
    step.
    """
    weights = np.exp(-(pairwise_distances(table) ** 2) / 4)
    np.fill_diagonal(weights, 0)
    weights[weights < 1e-3] = 0
    model = _model(coordinates="vectors", metric="precomputed_affinity").fit(weights)
    degree = weights.sum(1)
    values, vectors = np.linalg.eigh(weights / np.sqrt(degree[:, None] * degree))
    np.testing.assert_allclose(model.eigenvalues_, 1 - values[::-1][1:5], atol=1e-5)
    expected = vectors[:, ::-1][:, 1:5] / np.sqrt(degree / degree.sum())[:, None]
    for found, exact in zip(model.embedding_.T, expected.T, strict=True):
        assert abs(np.corrcoef(found, exact)[0, 1]) > 1 - 1e-5
    np.testing.assert_allclose(model.mass_, degree / degree.sum(), rtol=1e-6)
    thin = _model(coordinates="vectors", metric="precomputed_affinity").fit(
        sparse.csr_matrix(weights)
    )
    np.testing.assert_allclose(np.abs(thin.embedding_), np.abs(model.embedding_), atol=1e-4)
    np.testing.assert_allclose(model.transform(weights[:9]), model.embedding_[:9], atol=1e-3)
    np.testing.assert_allclose(
        model.transform(sparse.csr_matrix(weights[:9])), model.transform(weights[:9]), atol=1e-6
    )
    assert model.layout_.shape == (300, 2) and np.isfinite(model.layout_).all()
    model.save(tmp_path / "model")
    again = Eigenmaps.load(tmp_path / "model")
    np.testing.assert_allclose(
        again.transform(weights[:9]), model.transform(weights[:9]), atol=1e-6
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w[:, :9], "must be square"),
        (lambda w: -w, "at least 0"),
        (lambda w: np.triu(w), "must be symmetric"),
        (
            lambda w: w * (np.arange(len(w)) != 7) * (np.arange(len(w)) != 7)[:, None],
            "row 7 has none",
        ),
    ],
)
def test_affinities_that_are_none(table: np.ndarray, change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _model(metric="precomputed_affinity").fit(change(np.exp(-pairwise_distances(table))))


def test_a_metric_may_be_a_function_with_further_arguments(
    table: np.ndarray, tmp_path: Path
) -> None:
    def power(x: np.ndarray, y: np.ndarray, p: float = 1.0) -> float:
        return float((np.abs(x - y) ** p).sum() ** (1 / p))

    named = _model(metric="minkowski", metric_kwds={"p": 3}).fit(table)
    given = _model(metric=power, metric_kwds={"p": 3}).fit(table)
    np.testing.assert_allclose(given.embedding_, named.embedding_, atol=1e-4)
    np.testing.assert_allclose(
        given.transform(table[:9] + 0.1), named.transform(table[:9] + 0.1), atol=1e-4
    )
    other = _model(metric="minkowski", metric_kwds={"p": 1}).fit(table)
    manhattan = _model(metric="manhattan").fit(table)
    np.testing.assert_allclose(other.embedding_, manhattan.embedding_, atol=1e-4)
    named.save(tmp_path / "named")
    again = Eigenmaps.load(tmp_path / "named")
    np.testing.assert_allclose(
        again.transform(table[:9] + 0.1), named.transform(table[:9] + 0.1), atol=1e-6
    )
    with pytest.raises(InputError, match="cannot be written"):
        given.save(tmp_path / "given")
    with pytest.raises(InputError, match="no further arguments"):
        _model(metric="cosine", metric_kwds={"p": 3}).fit(table)
    with pytest.raises(InputError, match="NaN, infinite or negative"):
        _model(metric=lambda x, y: float("nan")).fit(table)
    with pytest.raises(InputError, match=r"compiled by numba\.njit"):
        _model(metric=power).fit(np.zeros((5001, 2)) + np.arange(5001.0)[:, None])


def test_metrics_of_presence_and_equality_take_what_they_can_compare(
    rng: np.random.Generator,
) -> None:
    kinds = rng.integers(3, size=200)
    counts = rng.poisson(np.where(np.arange(60) % 3 == kinds[:, None], 2.0, 0.1)).astype(float)
    with pytest.warns(UserWarning, match="entries other than 0 count as 1"):
        counted = _model(metric="jaccard").fit(counts)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        present = _model(metric="jaccard").fit((counts > 0).astype(float))
    assert not any("count as 1" in str(each.message) for each in said)
    np.testing.assert_allclose(counted.embedding_, present.embedding_, atol=1e-6)
    codes = rng.integers(4, size=(3, 60))[kinds]
    codes = np.where(
        rng.random(codes.shape) < 0.3, rng.integers(4, size=codes.shape), codes
    ).astype(float)
    nearest = (
        pairwise_distances(_model(3, metric="hamming").fit_transform(codes)) + 9 * np.eye(200)
    ).argmin(1)
    assert (kinds[nearest] == kinds).mean() > 0.99
    with pytest.raises(InputError, match="real numbers all do"):
        _model(metric="hamming").fit(rng.normal(size=(50, 4)))


@pytest.mark.parametrize("metric", ["hamming", "jaccard", "manhattan"])
def test_copies_are_one_row_whatever_the_metric(metric: str, rng: np.random.Generator) -> None:
    """Categories have more copies than neighbours: their lists are full of zeros, whose scale was 0
    / 0.
    """
    patterns = rng.permuted(np.arange(64))[:40]
    distinct = (patterns[:, None] >> np.arange(6) & 1).astype(float)
    codes = distinct[rng.permutation(np.repeat(np.arange(40), 20))]
    model = _model(3, metric=metric, n_neighbors=6, coordinates="vectors").fit(codes)
    first = np.sort(np.unique(codes, axis=0, return_index=True)[1])  # ties go by the order of rows
    alone = _model(3, metric=metric, n_neighbors=6, coordinates="vectors").fit(codes[first])
    np.testing.assert_allclose(model.eigenvalues_, alone.eigenvalues_, rtol=1e-4)
    np.testing.assert_allclose(model.mass_.sum(), 1)
    np.testing.assert_allclose(model.transform(codes[:30]), model.embedding_[:30], atol=1e-6)
    for pattern in distinct[:5]:
        assert np.ptp(model.embedding_[(codes == pattern).all(1)], axis=0).max() == 0


def test_jobs_change_nothing_but_the_cores(table: np.ndarray) -> None:
    first = _model(n_jobs=1).fit(table)
    for jobs in (2, -1):
        np.testing.assert_allclose(
            _model(n_jobs=jobs).fit(table).embedding_, first.embedding_, atol=1e-8
        )
    with pytest.raises(InputError, match="n_jobs must be a number of cores"):
        _model(n_jobs=0).fit(table)
