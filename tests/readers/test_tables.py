"""Tables as people have them: cells, sparse matrices, labels beside the rows, names of classes."""

from __future__ import annotations

import warnings
from pathlib import Path

import h5py
import numpy as np
import pandas
import pytest
from scipy import sparse
from scipy.io import mmwrite

from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.readers.rows import open_rows
from eigenprobe.readers.tables import read_table


@pytest.fixture
def counts() -> sparse.csr_matrix:
    return sparse.random(60, 9, 0.4, "csr", random_state=0, dtype=np.float64)


def write_h5ad(path: Path, counts: sparse.csr_matrix, pca: bool = False) -> None:
    """As anndata writes it (its specification, version 0.1.0)."""
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": counts.shape})
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(counts, name), compression="gzip")
        obs = file.create_group("obs")
        kinds = obs.create_group("cell_type")
        kinds.create_dataset("categories", data=np.array(["B", "T"], dtype=h5py.string_dtype()))
        n = counts.shape[0]
        kinds.create_dataset("codes", data=np.append(np.arange(n - 1) % 2, -1).astype(np.int8))
        obs.create_dataset("batch", data=np.arange(n))
        file.create_dataset("layers/dense", data=2 * counts.toarray())
        file.create_group("obsm")
        if pca:
            file.create_dataset("obsm/X_pca", data=counts.toarray()[:, :3])


def test_cells(tmp_path: Path, counts: sparse.csr_matrix) -> None:
    write_h5ad(path := tmp_path / "a.h5ad", counts)
    table = read_table(path, labels="cell_type")
    assert sparse.issparse(table.features) and (table.features != counts).nnz == 0
    assert table.labels.tolist() == ["B", "T"] * 29 + ["B", ""]
    assert (read_table(path, labels="batch").labels == np.arange(60)).all()
    assert np.array_equal(read_table(path, key="layers/dense").features, 2 * counts.toarray())
    assert np.array_equal(open_rows(path).take(np.array([5, 2])), counts.toarray()[[5, 2]])
    with pytest.raises(InputError, match=r"a.h5ad has no array 'obs/age', there are batch, cell_type"):
        read_table(path, labels="age")
    with pytest.raises(InputError, match=r"a.h5ad has no array 'layers/raw', there are dense"):
        read_table(path, key="layers/raw")
    write_h5ad(path, counts, pca=True)
    assert np.array_equal(read_table(path).features, counts.toarray()[:, :3])


def test_sparse_files(tmp_path: Path, counts: sparse.csr_matrix) -> None:
    for number, matrix in enumerate((counts, counts.tocsc(), counts.tocoo())):
        sparse.save_npz(path := tmp_path / f"{number}.npz", matrix)
        assert (read_table(path).features != counts).nnz == 0
    mmwrite(tmp_path / "a.mtx", counts, precision=17)
    table = read_table(tmp_path / "a.mtx")
    assert abs(table.features - counts).max() < 1e-15
    same = [OptimalApproximationEigenmaps(2, random_state=0).fit(each) for each in (table.features, counts.toarray())]
    assert np.allclose(*(each.eigenvalues_ for each in same), rtol=1e-6)


def test_sparse_files_that_cannot_be_true(tmp_path: Path, counts: sparse.csr_matrix) -> None:
    head = "%%MatrixMarket matrix coordinate real general\n"
    (tmp_path / "a.mtx").write_text(head + "10 10 1000000000\n1 1 1\n")
    (tmp_path / "b.mtx").write_text(head + "10000000000 10 1\n1 1 1\n")
    (tmp_path / "c.mtx").write_text("hello\n")
    wrong = counts.copy()
    wrong.indices[3] = 10**6  # outside the matrix
    sparse.save_npz(tmp_path / "d.npz", wrong)
    for name, told in {
        "a.mtx": "ends early",
        "b.mtx": "claims 80 GB",
        "c.mtx": "cannot read",
        "d.npz": "cannot",
    }.items():
        with pytest.raises(InputError, match=told) as caught:
            read_table(tmp_path / name)
        assert name in str(caught.value) and "\n" not in str(caught.value)


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
    assert (read_table(path, key="deep/er").features == np.eye(3)).all()
    with pytest.raises(InputError, match="'link' points outside the file"):
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
    with pytest.raises(InputError, match=r"z\.npy must hold one label per row of x\.npy \(3\), got shape \(7,\)"):
        read_table("x.npy", labels="z.npy")
    with pytest.raises(InputError, match=r"x.npy has no labels: --labels takes a file with one per row, got 'kinds'"):
        read_table("x.npy", labels="kinds")


def test_names_of_classes(tmp_path: Path) -> None:
    names = np.array(["cat", "dog"])
    np.savez(path := tmp_path / "a.npz", features=np.eye(3), labels=[1, 0, 1], label_names=names)
    assert read_table(path).labels.tolist() == [1, 0, 1]
    assert read_table(path).named.tolist() == ["dog", "cat", "dog"]
    np.savez(path, features=np.eye(3), labels=[1, 0, 2], label_names=names)
    assert read_table(path).named.tolist() == [1, 0, 2]  # there are names for two of them only


def test_an_index_by_name_is_no_feature(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"id": np.arange(4), "a": np.ones(4), "b": np.zeros(4)})
    frame.to_csv(path := tmp_path / "t.csv", index=False)
    with pytest.warns(EigenprobeWarning, match="t.csv: the first column is called id and counts as an index"):
        assert read_table(path).names == ["a", "b"]
    frame["id"] = [3.0, 1.0, 4.0, 1.0]  # a feature of that name
    frame.to_csv(path, index=False)
    assert read_table(path).names == ["id", "a", "b"]


def test_the_only_table_of_a_file_is_the_features(tmp_path: Path, rng: np.random.Generator) -> None:
    features, labels = rng.normal(size=(7, 3)), np.arange(7)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["weird"], file["y"], file["cube"] = features, labels, np.zeros((2, 2, 2))
    table = read_table(tmp_path / "a.h5")
    np.testing.assert_array_equal(table.features, features)
    np.testing.assert_array_equal(table.labels, labels)
    assert table.names == ["x0", "x1", "x2"]


def test_headers_are_compared_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eigenprobe.readers import tables

    claimed: list[float] = []
    monkeypatch.setattr(tables, "check_size", lambda _path, size: claimed.append(size))
    pandas.DataFrame({"a": np.ones(6), "b": np.zeros(6), "c": np.ones(6)}).to_parquet(tmp_path / "t.parquet")
    read_table(tmp_path / "t.parquet")
    assert claimed == [8 * 6 * 3]
    claimed.clear()
    mmwrite(tmp_path / "a.mtx", sparse.csr_matrix(np.eye(5, 3)))
    read_table(tmp_path / "a.mtx")
    assert claimed == [8 * (5 + 3)]
    mmwrite(tmp_path / "dense.mtx", np.arange(12.0).reshape(4, 3))
    assert np.array_equal(read_table(tmp_path / "dense.mtx").features.toarray(), np.arange(12.0).reshape(4, 3))
    for kind, numbers in (("symmetric", 210), ("skew-symmetric", 190)):  # one triangle of a square stands for both
        text = f"%%MatrixMarket matrix array integer {kind}\n20 20\n" + "1\n" * numbers
        (tmp_path / "l.mtx").write_text(text)
        lower = np.tril(np.ones((20, 20)), 0 if numbers == 210 else -1)
        whole = np.maximum(lower, lower.T) if numbers == 210 else lower - lower.T
        assert np.array_equal(read_table(tmp_path / "l.mtx").features.toarray(), whole)
        for other in (text[:-2], text + "1\n"):
            (tmp_path / "l.mtx").write_text(other)
            with pytest.raises(InputError, match=f"its header claims {numbers} numbers, {other.count('1')} lines"):
                read_table(tmp_path / "l.mtx")
    for kind, sizes, least in (  # what may be true is read on, what cannot is not
        ("coordinate real general", "10 10 {}", 4),
        ("array real general", "{} 1", 2),
        ("array real general", "{} 3", 6),
    ):
        text = f"%%MatrixMarket matrix {kind}\n{sizes.format(99)}\n1 1 1\n"
        for count, early in ((len(text) // least, False), (len(text) // least + 1, True)):
            (tmp_path / "s.mtx").write_text(text.replace("99", f"{count:02d}"))
            with pytest.raises(InputError) as error:
                read_table(tmp_path / "s.mtx")
            assert ("ends early" in str(error.value)) == early, (kind, sizes, count)
    # A number takes at least two bytes: the shortest files that may be true, and those that cannot.
    head = "%%MatrixMarket matrix array real general\n"
    for count, told in ((23, None), (24, "ends early")):
        text = head + f"{count} 1\n" + "1\n" * count
        short = text[: 2 * count - 2]
        assert len(text) > 2 * count
        (tmp_path / "s.mtx").write_text(text if told is None else short)
        if told is None:
            assert read_table(tmp_path / "s.mtx").features.shape == (23, 1)
        else:
            with pytest.raises(InputError, match=told):
                read_table(tmp_path / "s.mtx")
    (tmp_path / "s.mtx").write_text(head + "40 2\n" + "1\n" * 10)
    with pytest.raises(InputError, match=r"ends early: its header claims 80 numbers in \d+ bytes"):
        read_table(tmp_path / "s.mtx")
    (tmp_path / "s.mtx").write_text("%%MatrixMarket matrix coordinate real general\n5 5 3\n1 1 1\n2 2 1\n")
    with pytest.raises(InputError, match="its header claims 3 numbers, 2 lines follow"):
        read_table(tmp_path / "s.mtx")
    (tmp_path / "s.mtx").write_text("%%MatrixMarket matrix coordinate real general\n5 5 2\n1 1 1\n2 2 q\n")
    with pytest.raises(InputError, match="expected numbers, got the byte 113"):
        read_table(tmp_path / "s.mtx")


def test_codes_of_cells_outside_their_categories_are_unknown(tmp_path: Path, counts: sparse.csr_matrix) -> None:
    write_h5ad(path := tmp_path / "a.h5ad", counts[:5])
    with h5py.File(path, "r+") as file:
        file["obs/cell_type/codes"][...] = np.array([0, 1, 2, 3, -1], np.int8)
        file["obs/name"] = np.array(["a", "b", "c", "d", "e"], dtype=h5py.string_dtype())
    assert read_table(path, labels="cell_type").labels.tolist() == ["B", "T", "", "", ""]
    assert read_table(path, labels="name").labels.tolist() == ["a", "b", "c", "d", "e"]


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


def test_an_index_counts_from_zero_or_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for first, names in (([0, 1, 2], ["a"]), ([1, 2, 3], ["a"]), ([2, 3, 4], ["idx", "a"]), ([1, 2, 4], ["idx", "a"])):
        pandas.DataFrame({"idx": first, "a": [5.0, 6.0, 7.0]}).to_csv(path, index=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert read_table(path).names == names
    pandas.DataFrame({"other": [0, 1, 2], "a": [5.0, 6.0, 7.0]}).to_csv(path, index=False)
    assert read_table(path).names == ["other", "a"]  # counts, but has another name
    pandas.DataFrame({"id": [0, 1, 2], "a": [5.0, 6.0, 7.0]}).to_csv(path, index=False)
    assert read_table(path, labels="id").labels.tolist() == [0, 1, 2]
    assert isinstance(read_table(_saved(tmp_path / "x.npy")).features, np.memmap)


def _saved(path: Path) -> Path:
    np.save(path, np.eye(3))
    return path


def test_arrays_that_lie_elsewhere(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.eye(3)
    with h5py.File(path := tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((3, 3), float)
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (3, 3))
        file.create_virtual_dataset("features", layout)
    with pytest.raises(InputError, match="'features' points outside the file"):
        read_table(path)
    (tmp_path / "raw").write_bytes(np.eye(3).tobytes())
    with h5py.File(path := tmp_path / "external.h5", "w") as file:
        file.create_dataset("features", (3, 3), float, external=[(str(tmp_path / "raw"), 0, 72)])
    with pytest.raises(InputError, match="'features' points outside the file"):
        read_table(path)
