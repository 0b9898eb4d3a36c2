"""Tables as people have them: cells, sparse matrices, labels beside the rows, names of classes."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pandas
import pytest
from scipy import sparse

from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.io.rows import open_rows
from eigenprobe.io.tables import read_table


@pytest.fixture
def counts() -> sparse.csr_matrix:
    return sparse.random(60, 9, 0.4, "csr", random_state=0, dtype=np.float64)


def write_h5ad(path: Path, counts: sparse.csr_matrix, pca: bool = False) -> None:
    """Cells whose last one has no type."""
    import anndata

    n = counts.shape[0]
    kinds = pandas.Categorical(["B", "T"] * (n // 2 - 1) + ["B", None])
    obs = pandas.DataFrame({"cell_type": kinds, "batch": np.arange(n)}, index=map(str, range(n)))
    cells = anndata.AnnData(counts, obs, layers={"dense": 2 * counts.toarray()})
    if pca:
        cells.obsm["X_pca"] = counts.toarray()[:, :3]
    cells.write_h5ad(path, compression="gzip")


def test_cells(tmp_path: Path, counts: sparse.csr_matrix) -> None:
    write_h5ad(path := tmp_path / "a.h5ad", counts)
    table = read_table(path, labels="cell_type")
    assert sparse.issparse(table.features) and (table.features != counts).nnz == 0
    assert table.labels.tolist() == ["B", "T"] * 29 + ["B", ""]
    assert (read_table(path, labels="batch").labels == np.arange(60)).all()
    assert np.array_equal(read_table(path, key="layers/dense").features, 2 * counts.toarray())
    assert np.array_equal(open_rows(path).take(np.array([5, 2])), counts.toarray()[[5, 2]])
    with pytest.raises(InputError, match=r"a.h5ad: it has no array 'obs/age', there are"):
        read_table(path, labels="age")
    with pytest.raises(InputError, match=r"a.h5ad: it has no array 'layers/raw', there are"):
        read_table(path, key="layers/raw")
    write_h5ad(path, counts, pca=True)
    assert np.array_equal(read_table(path).features, counts.toarray()[:, :3])


def test_sparse_files(tmp_path: Path, counts: sparse.csr_matrix) -> None:
    for number, matrix in enumerate((counts, counts.tocsc(), counts.tocoo())):
        sparse.save_npz(path := tmp_path / f"{number}.npz", matrix)
        assert (read_table(path).features != counts).nnz == 0
    same = [
        OptimalApproximationEigenmaps(2, random_state=0).fit(each)
        for each in (read_table(path).features, counts.toarray())
    ]
    assert np.allclose(*(each.eigenvalues_ for each in same), rtol=1e-6)


def test_sparse_files_that_cannot_be_true(tmp_path: Path, counts: sparse.csr_matrix) -> None:
    wrong = counts.copy()
    wrong.indices[3] = 10**6  # outside the matrix
    sparse.save_npz(tmp_path / "d.npz", wrong)
    with pytest.raises(InputError, match="cannot") as caught:
        read_table(tmp_path / "d.npz")
    assert "d.npz" in str(caught.value) and "\n" not in str(caught.value)


def test_an_array_by_its_key(tmp_path: Path) -> None:
    np.savez(path := tmp_path / "a.npz", one=np.eye(3), two=2 * np.eye(3))
    assert (read_table(path, key="two").features == 2 * np.eye(3)).all()
    with pytest.raises(InputError, match="choose one by key"):
        read_table(path)
    np.savez(path, anything=np.eye(3))
    assert (read_table(path).features == np.eye(3)).all()
    with h5py.File(path := tmp_path / "a.h5", "w") as file:
        file.create_dataset("deep/er", data=np.eye(3))
        file["deep/link"] = h5py.ExternalLink("other.h5", "x")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.eye(3)
    assert (read_table(path, key="deep/er").features == np.eye(3)).all()
    with pytest.raises(InputError, match="'deep/link' points outside the file"):
        read_table(path, key="deep/link")


def test_labels_beside_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.eye(3))
    np.save("y.npy", np.array([2, 0, 1]))
    assert read_table("x.npy", labels="y.npy").labels.tolist() == [2, 0, 1]
    for text in ("cat\ndog\ncat", "kind\ncat\ndog\ncat\n", '"cat"\n"dog"\n"cat"\n\n'):
        Path("y.txt").write_text(text)
        assert read_table("x.npy", labels="y.txt").labels.tolist() == ["cat", "dog", "cat"]
    np.save("z.npy", np.arange(7))
    with pytest.raises(
        InputError, match=r"z\.npy must hold one label per row of x\.npy \(3\), got shape \(7,\)"
    ):
        read_table("x.npy", labels="z.npy")
    with pytest.raises(
        InputError,
        match=r"x.npy has no labels: --labels takes a file with one per row, got 'kinds'",
    ):
        read_table("x.npy", labels="kinds")


def test_the_only_table_of_a_file_is_the_features(tmp_path: Path, rng: np.random.Generator) -> None:
    features, labels = rng.normal(size=(7, 3)), np.arange(7)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["weird"], file["y"], file["cube"] = features, labels, np.zeros((2, 2, 2))
    table = read_table(tmp_path / "a.h5")
    np.testing.assert_array_equal(table.features, features)
    np.testing.assert_array_equal(table.labels, labels)
    assert table.names == ["x0", "x1", "x2"]


def test_an_index_is_no_feature(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"id": [3, 1, 4, 1], "a": np.ones(4), "b": np.zeros(4)})
    path = tmp_path / "t.csv"
    for index in (True, False):  # that of pandas, without a name, or a column
        (frame.set_index("id") if index else frame).to_csv(path, index=index)
        with pytest.warns(EigenprobeWarning, match=r"t.csv: the first column \(id\) is an index"):
            assert read_table(path).names == ["a", "b"]
        assert read_table(path, labels="id").labels.tolist() == [3, 1, 4, 1]
    frame[["a", "b"]].to_csv(path)
    with pytest.warns(EigenprobeWarning, match="t.csv: the first column"):
        assert read_table(path).names == ["a", "b"]


def test_names_stand_for_numbers_that_they_have(tmp_path: Path) -> None:
    names = np.array(["cat", "dog"])
    for labels, expected in (
        ([1, 0, 1], ["dog", "cat", "dog"]),
        ([1, 0, -1], [1, 0, -1]),
        ([0.0, 1.0, 1.0], [0, 1, 1]),
        (["a", "b", "c"], ["a", "b", "c"]),
    ):
        np.savez(path := tmp_path / "a.npz", features=np.eye(3), labels=labels, label_names=names)
        assert read_table(path).named.tolist() == expected
    np.savez(path, features=np.eye(3), label_names=names)
    assert read_table(path).named is None
    np.savez(path, features=np.eye(3), labels=[1, 0, 1])
    assert read_table(path).named.tolist() == [1, 0, 1]
