"""Files -> tables: features (n, d), labels (n,) and the names of columns and classes.

    npy, npz, csv, tsv, parquet, HDF5      an array or the numeric columns
    h5ad (AnnData)                         obsm/X_pca, or X; labels are columns of obs
    npz of scipy.sparse, mtx, sparse X     a sparse matrix, which stays one

``key`` names the array where a file has several (``group/name`` in HDF5). Labels are a column, an
array, or a file of their own. What a header claims is compared with the length of the file before
memory is taken.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..errors import InputError, extra, near_path, warn
from ..host.files import Archive, check_size, choose_array, load_npy, local_copy, reading
from .mesh import Array
from .text import pick, separators

# Arrays of an npz or HDF5 file, by preference: features, labels, and text for numbers among them.
FEATURE_NAMES = ("features", "embeddings", "X", "x", "data")
LABEL_NAMES = ("labels", "label", "y", "targets", "target")
CLASS_NAMES = ("label_names", "class_names", "target_names", "classes")
INDEX_NAMES = ("id", "index", "idx", "unnamed: 0")  # the last: what pandas writes
HDF5 = (".h5", ".hdf5", ".h5ad")
SUFFIXES = (".npy", ".npz", ".csv", ".tsv", ".parquet", ".mtx", *HDF5)


class Table(NamedTuple):
    """Features (n, d) (an array or a sparse matrix), labels (n,) or None, names of the d columns
    and of the classes.
    """

    features: Any
    labels: Array | None
    names: list[str]
    classes: Array | None = None

    @property
    def named(self) -> Array | None:
        """The labels by the names of their classes, where the file has them."""
        if self.labels is None or self.classes is None or self.labels.dtype.kind not in "iu":
            return self.labels
        fits = (self.labels >= 0) & (self.labels < len(self.classes))
        return self.classes[self.labels] if fits.all() else self.labels


def read_table(
    path: str | os.PathLike[str],
    labels: str | None = None,
    key: str | None = None,
    *,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> Table:
    """The whole table. ``labels`` names the column (csv, parquet, obs of h5ad) or array (npz, HDF5)
    that is not a feature, or a file with a label per row (npy, or text). ``columns`` are the
    features, by name or by number from 0 (all of them unless given), without those named in
    ``drop``.

    Without ``labels``, a lone array called labels, label, y, targets or target in an npz or HDF5
    file is taken.
    """
    path = table_path(path)
    suffix = path.suffix.lower()
    if key is not None and suffix not in (".npz", *HDF5):
        raise InputError(f"a key names an array of an npz, HDF5 or h5ad file, got {path.name}")
    beside = None if labels is None else _label_file(Path(labels))
    inside = labels if beside is None else None
    if suffix in (".npz", *HDF5):
        with reading(path), open_archive(path) as archive:
            table = _read_archive(archive, path, inside, key)
    elif suffix not in (".npy", ".mtx"):
        table = _read_columns(path, inside, columns, drop)
        columns = drop = ()
    elif inside is not None:
        raise InputError(
            f"{path.name} has no labels: --labels takes a file with one per row, got {inside!r}"
        )
    else:
        table = _table(
            load_npy(path, mapped=True) if suffix == ".npy" else _matrix_market(path), None, path
        )
    if columns or drop:
        chosen = choose_columns(table.names, columns, drop, path)
        table = table._replace(
            features=table.features[:, chosen], names=[table.names[i] for i in chosen]
        )
    return table if beside is None else _table(table.features, beside, path, table.names, labels)


def choose_columns(
    names: Sequence[str], columns: Sequence[str], drop: Sequence[str], path: Path
) -> list[int]:
    """Positions of the ``columns`` (all unless given) without those of ``drop``; each is a name or
    a number from 0.
    """
    left_out = set(pick(names, len(names), drop, path))
    chosen = [
        at
        for at in (pick(names, len(names), columns, path) or range(len(names)))
        if at not in left_out
    ]
    if not chosen:
        raise InputError(f"{path}: no column is left")
    return chosen


def table_path(path: str | os.PathLike[str]) -> Path:
    """The file, of an address a local copy; an error where it is none or not a table."""
    path = local_copy(path)
    if not path.is_file():
        raise InputError(f"no such table: {path}{near_path(path)}")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"a table is one of {', '.join(SUFFIXES)}, got {path.name}")
    return path


def open_archive(path: Path) -> Any:
    """The arrays of an npz or HDF5 file by name."""
    if path.suffix.lower() == ".npz":
        return Archive(path)
    h5py = extra("h5py")
    with reading(path):
        return h5py.File(path, "r")


def features_of(archive: Any, path: Path, key: str | None = None) -> Any:
    """The array of features of an archive (or a group that holds a sparse matrix): the one called
    ``key``, one with a known name, or the only table."""
    if key is None and path.suffix.lower() == ".h5ad":
        key = "obsm/X_pca" if "X_pca" in archive.get("obsm", ()) else "X"
    elif key is None:
        flat = isinstance(archive, Archive)
        rank = archive.rank if flat else lambda name: len(getattr(archive[name], "shape", ()))
        key = choose_array(path, list(archive.keys()), FEATURE_NAMES, rank)
    return _stored(archive, key, path)


def _stored(archive: Any, key: str, path: Path) -> Any:
    """What lies under ``group/name``. A data set must lie in the file itself: HDF5 can point to any
    other file of the machine, and claim any size."""
    if isinstance(archive, Archive):
        return archive[key]
    link = archive.get(key, getlink=True, default=None)
    if link is None:
        inside = archive.get(key.rpartition("/")[0] or "/", ())
        raise InputError(f"{path} has no array {key!r}, there are {', '.join(inside)}")
    outside = hasattr(link, "filename") or archive[key].file.filename != archive.file.filename
    found: Any = archive[key] if not outside else None
    if hasattr(found, "nbytes"):
        outside = found.external is not None or found.is_virtual
        check_size(path, found.nbytes)
    if outside:
        raise InputError(f"{path}: {key!r} points outside the file, expected data stored in it")
    return found


def _read_archive(archive: Any, path: Path, labels: str | None, key: str | None) -> Table:
    names = list(archive.keys())
    if path.suffix.lower() == ".npz" and {"format", "data", "shape"} <= set(names):
        return _table(
            _sparse(archive, bytes(archive["format"].item()).decode(), archive["shape"], path),
            None,
            path,
        )
    found = features_of(archive, path, key)
    if hasattr(found, "keys"):  # a group: a sparse matrix as AnnData stores it
        for part in found:
            _stored(found, part, path)
        kind = str(found.attrs.get("encoding-type", found.attrs.get("h5sparse_format", "csr")))
        shape = found.attrs.get("shape", found.attrs.get("h5sparse_shape"))
        found = _sparse(found, kind.removesuffix("_matrix"), shape, path)
    if path.suffix.lower() == ".h5ad":
        return _table(
            found if sparse.issparse(found) else np.asarray(found),
            _cells(archive, labels, path),
            path,
        )
    if labels is not None and labels not in names:
        raise InputError(f"{path} has no array {labels!r}, it has {', '.join(names)}")
    chosen = labels or next((name for name in LABEL_NAMES if name in names and name != key), None)
    classes = next((np.asarray(archive[name]) for name in CLASS_NAMES if name in names), None)
    features = found if sparse.issparse(found) else np.asarray(found)
    table = _table(features, None if chosen is None else np.asarray(archive[chosen]), path)
    return table._replace(classes=classes) if classes is not None and classes.ndim == 1 else table


def _sparse(parts: Any, kind: str, shape: Any, path: Path) -> Any:
    """A matrix in compressed rows from its ``data``, ``indices`` and ``indptr`` (``row`` and
    ``col`` for coo).
    """
    size = tuple(int(length) for length in shape)
    check_size(path, 8.0 * sum(size))  # a number per row and column is needed whatever is stored
    data = np.asarray(parts["data"])
    if kind == "coo":
        matrix = sparse.coo_matrix(
            (data, (np.asarray(parts["row"]), np.asarray(parts["col"]))), shape=size
        ).tocsr()
    elif kind in ("csr", "csc"):
        stored = (data, np.asarray(parts["indices"]), np.asarray(parts["indptr"]))
        matrix = getattr(sparse, f"{kind}_matrix")(stored, shape=size)
        matrix.check_format(full_check=True)  # indices out of range would be read from other memory
    else:
        raise InputError(f"expected a sparse matrix in csr, csc or coo form, got {kind}")
    return matrix.tocsr()


def _matrix_market(path: Path) -> Any:
    """By pandas: the reader of scipy writes past its memory where a file is damaged."""
    import pandas
    from scipy.io import mminfo

    with reading(path):
        rows, columns, entries, form, kind, symmetry = mminfo(path)
        if (form, symmetry) != ("coordinate", "general") or kind not in ("real", "integer"):
            got = f"a matrix {form} {kind} {symmetry}"
            raise InputError(f"{path} must hold a matrix coordinate real general, got {got}")
        check_size(path, 8.0 * (rows + columns))
        options: Any = {"sep": r"\s+", "comment": "%", "header": None, "skiprows": 1}
        table = pandas.read_csv(path, **options, dtype=np.float64, float_precision="round_trip")
        if table.shape != (entries + 1, 3):
            count = f"its header claims {entries} numbers, {len(table) - 1} follow"
            raise InputError(f"{path} is damaged: {count}")
        row, column, values = table.to_numpy()[1:].T
        places = (row.astype(np.int64) - 1, column.astype(np.int64) - 1)
        return sparse.csr_matrix((values, places), shape=(rows, columns))


def _cells(archive: object, labels: str | None, path: Path) -> Array | None:
    """A column of AnnData's ``obs``: numbers, text, or codes and categories."""
    if labels is None:
        return None
    column = _stored(archive, f"obs/{labels}", path)
    if hasattr(column, "keys"):
        codes = np.asarray(_stored(column, "codes", path))
        kinds = np.append(
            _text(_stored(column, "categories", path)), ""
        )  # the last: of an unknown code, such as -1
        return kinds[np.where((codes >= 0) & (codes < len(kinds)), codes, -1)]
    return _text(column)


def _text(column: Any) -> Array:
    """Numbers as they are; text, which HDF5 gives as bytes, as text."""
    return np.asarray(column) if column.dtype != object else column.asstr()[...].astype(str)


def _label_file(path: Path) -> Array | None:
    """Labels of a file of their own: an npy array, or a label per line; None where there is no such
    file.
    """
    if not path.is_file():
        return None
    if path.suffix.lower() == ".npy":
        return load_npy(path)
    with reading(path):
        lines = np.array(
            [line.strip().strip('"') for line in path.read_text(encoding="utf-8-sig").splitlines()]
        )
    return lines if len(lines) == 0 or lines[-1] else lines[:-1]


def _read_columns(
    path: Path, labels: str | None, columns: Sequence[str], drop: Sequence[str]
) -> Table:
    import pandas

    found = None
    with reading(path):
        if path.suffix.lower() == ".parquet":
            facts = extra("pyarrow.parquet").read_metadata(path)
            check_size(path, 8.0 * facts.num_rows * facts.num_columns)
            frame = pandas.read_parquet(path)
        else:
            with path.open(encoding="utf-8-sig", errors="replace") as file:
                marks = separators(path, next((line for line in file if line.strip()), ""))
            frame = pandas.read_csv(path, **marks, float_precision="round_trip")  # others crash
            if not isinstance(frame.index, pandas.RangeIndex):
                wrong = "its rows have more columns than its first line names"
                raise InputError(f"{path}: {wrong}: name all of them")
            name = str(frame.columns[0])
            if name.lower() in INDEX_NAMES and name != labels:
                warn(f"{path.name}: the first column ({name}) is an index and no feature")
                frame = frame.iloc[:, 1:]
        frame.columns = names = [str(name) for name in frame.columns]
        if labels is not None:
            found = frame.pop(names[pick(names, len(names), [labels], path)[0]]).to_numpy()
        if columns or drop:
            left_out = [name for name in drop if name != labels]
            frame = frame.iloc[:, choose_columns([*frame.columns], columns, left_out, path)]
        words = [
            name for name in frame.columns if not pandas.api.types.is_numeric_dtype(frame[name])
        ]
        if words:
            wrong = f"features must be numbers, column {words[0]!r} is not"
            raise InputError(f"{path}: {wrong}: name it as the labels, or drop it")
        return _table(frame.to_numpy(dtype=float), found, path, [*frame.columns])


def _table(
    features: Any,
    labels: Array | None,
    path: Path,
    names: list[str] | None = None,
    source: str | None = None,
) -> Table:
    """A table that is one, with a label per row (of the file ``source``, if not of ``path``)."""
    if features.ndim != 2 or 0 in features.shape:
        raise InputError(f"{path} must hold a table (n, d), got shape {features.shape}")
    if features.dtype.kind not in "fiub":
        raise InputError(f"{path} must hold numbers, got {features.dtype}")
    n = features.shape[0]
    if labels is not None and len(labels) == n + 1 and labels.dtype.kind == "U":
        labels = labels[1:]  # a file of labels with a heading
    if labels is not None and labels.shape != (n,):
        wanted = f"one label per row of {path} ({n})"
        raise InputError(f"{source or path} must hold {wanted}, got shape {labels.shape}")
    return Table(features, labels, names or [f"x{i}" for i in range(features.shape[1])])
