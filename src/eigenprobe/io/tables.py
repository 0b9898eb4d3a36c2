"""Files -> tables: features (n, d), labels (n,) and the names of columns and classes.

    npy, npz, csv, tsv, parquet, HDF5      an array or the numeric columns
    h5ad (AnnData)                         obsm/X_pca, or X; labels are columns of obs
    npz of scipy.sparse, mtx, sparse X     a sparse matrix, which stays one

``key`` names the array where a file has several (``group/name`` in HDF5). Labels are a column, an
array, or a file of their own. What a header claims is compared with the length of the file before
memory is taken.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..errors import InputError, extra, near_path, warn
from ..host.files import check_size, load_npy, local_copy, reading
from .archives import ARCHIVES, chosen_array, open_archive, stored
from .mesh import Array
from .text import parsed, pick, separators

# Arrays of an npz or HDF5 file, by preference: features, labels, and text for numbers among them.
FEATURE_NAMES = ("features", "embeddings", "X", "x", "data")
LABEL_NAMES = ("labels", "label", "y", "targets", "target")
CLASS_NAMES = ("label_names", "class_names", "target_names", "classes")
INDEX_NAMES = ("id", "index", "idx", "unnamed: 0")  # the last: what pandas writes


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
    if key is not None and suffix not in ARCHIVES:
        raise InputError(f"a key names an array of an npz, HDF5 or h5ad file, got {path.name}")
    beside = labels is not None and Path(labels).is_file()
    with reading(path):
        features: Any
        features, answer, classes = READERS[suffix](path, None if beside else labels, key)
        if len(features.shape) != 2 or 0 in features.shape:
            raise InputError(f"{path} must hold a table (n, d), got shape {features.shape}")
        width = features.shape[1]
        names = [*map(str, getattr(features, "columns", ()))] or [f"x{i}" for i in range(width)]
        asked = pick(names, width, columns, path) or range(width)
        left_out = pick(names, width, [name for name in drop if name != labels], path)
        chosen = [place for place in asked if place not in left_out]
        if not chosen:
            raise InputError(f"{path}: no column is left")
        names = [names[place] for place in chosen]
        if columns or drop:
            features = getattr(features, "iloc", features)[:, chosen]
        features = _numbers(features, path)
    n, source = features.shape[0], labels if beside else path
    if beside:
        answer = _label_file(Path(str(labels)))
        if len(answer) == n + 1 and answer.dtype.kind == "U":
            answer = answer[1:]  # a heading
    if answer is not None and answer.shape != (n,):
        wanted = f"one label per row of {path} ({n})"
        raise InputError(f"{source} must hold {wanted}, got shape {answer.shape}")
    return Table(features, answer, names, classes)


def table_path(path: str | os.PathLike[str]) -> Path:
    """The file, of an address a local copy; an error where it is none or not a table."""
    path = local_copy(path)
    if not path.is_file():
        raise InputError(f"no such table: {path}{near_path(path)}")
    if path.suffix.lower() not in READERS:
        raise InputError(f"a table is one of {', '.join(READERS)}, got {path.name}")
    return path


def _numbers(features: Any, path: Path) -> Any:
    """An array, or a sparse matrix, of numbers; an error names a column of words."""
    if hasattr(features, "columns"):
        import pandas

        for name, column in features.items():
            if not pandas.api.types.is_numeric_dtype(column):
                wrong = f"features must be numbers, column {str(name)!r} is not"
                raise InputError(f"{path}: {wrong}: name it as the labels, or drop it")
        return features.to_numpy(dtype=float)
    if features.dtype.kind not in "fiub":
        raise InputError(f"{path} must hold numbers, got {features.dtype}")
    return features


def _label_file(path: Path) -> Array:
    """Labels of a file of their own: an npy array, or a label per line."""
    if path.suffix.lower() == ".npy":
        return load_npy(path)
    with reading(path):
        lines = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
        return np.array([line.strip().strip('"') for line in lines])


# Each reader gives features, labels and the names of classes, of which the last two may be None.
Parts = tuple[Any, Array | None, Array | None]


def _read_array(path: Path, labels: str | None, key: str | None) -> Parts:
    """The array or the matrix of a file that holds nothing else."""
    if labels is not None:
        wanted = "--labels takes a file with one per row"
        raise InputError(f"{path.name} has no labels: {wanted}, got {labels!r}")
    found = load_npy(path, mapped=True) if path.suffix.lower() == ".npy" else _matrix_market(path)
    return found, None, None


def _matrix_market(path: Path) -> Any:
    """By pandas: the reader of scipy writes past its memory where a file is damaged."""
    with path.open(encoding="latin-1") as file:
        form = file.readline()
    if not re.match(r"%%MatrixMarket matrix coordinate (real|integer) general", form, re.I):
        wanted = f"{path} must hold a matrix coordinate real general"
        raise InputError(f"{wanted}, got {form[:80].strip()!r}")
    table = parsed(path, sep=r"\s+", comment="%", header=None, dtype=np.float64)
    row, column, values = table.to_numpy().T
    size = int(row[0]), int(column[0])
    check_size(path, 8.0 * sum(size))
    if len(values) - 1 != values[0]:
        count = f"its header claims {values[0]:.0f} numbers, {len(values) - 1} follow"
        raise InputError(f"{path} is damaged: {count}")
    places = row[1:].astype(np.int64) - 1, column[1:].astype(np.int64) - 1
    return sparse.csr_matrix((values[1:], places), shape=size)


def _read_archive(path: Path, labels: str | None, key: str | None) -> Parts:
    with open_archive(path) as archive:
        names = list(archive.keys())
        if path.suffix.lower() == ".npz" and {"format", "data", "shape"} <= set(names):
            kind = bytes(archive["format"].item()).decode()
            return _sparse(archive, kind, archive["shape"], path), None, None
        features = chosen_array(archive, path, FEATURE_NAMES, key)
        if hasattr(features, "keys"):  # a group: a sparse matrix as AnnData stores it
            for part in features:
                stored(features, part, path)
            about = features.attrs
            kind = str(about.get("encoding-type", about.get("h5sparse_format", "csr")))
            shape = about.get("shape", about.get("h5sparse_shape"))
            features = _sparse(features, kind.removesuffix("_matrix"), shape, path)
        else:
            features = np.asarray(features)
        if path.suffix.lower() == ".h5ad":
            return features, None if labels is None else _observed(archive, labels, path), None
        if labels is None:
            labels = next((name for name in LABEL_NAMES if name in names and name != key), None)
        answer = None if labels is None else np.asarray(stored(archive, labels, path))
        known = [name for name in CLASS_NAMES if name in names]
        classes = np.asarray(stored(archive, known[0], path)) if known else np.zeros(())
        return features, answer, classes if classes.ndim == 1 else None


def _sparse(parts: Any, kind: str, shape: Any, path: Path) -> Any:
    """A matrix in compressed rows from its ``data``, ``indices`` and ``indptr`` (``row`` and
    ``col`` for coo).
    """
    size = tuple(int(length) for length in shape)
    check_size(path, 8.0 * sum(size))  # a number per row and column is needed whatever is stored
    names = ("row", "col") if kind == "coo" else ("indices", "indptr")
    data, *places = (np.asarray(parts[name]) for name in ("data", *names))
    if kind == "coo":
        return sparse.csr_matrix((data, places), shape=size)
    if kind not in ("csr", "csc"):
        raise InputError(f"expected a sparse matrix in csr, csc or coo form, got {kind}")
    matrix = getattr(sparse, f"{kind}_matrix")((data, *places), shape=size)
    matrix.check_format(full_check=True)  # indices out of range would be read from other memory
    return matrix.tocsr()


def _observed(archive: object, labels: str, path: Path) -> Array:
    """A column of AnnData's ``obs``: numbers, text, or codes and categories."""
    column = stored(archive, f"obs/{labels}", path)
    if not hasattr(column, "keys"):
        return _text(column)
    codes = np.asarray(stored(column, "codes", path))
    kinds = np.append(_text(stored(column, "categories", path)), "")
    # The last is that of an unknown code, such as -1.
    return kinds[np.where((codes >= 0) & (codes < len(kinds)), codes, -1)]


def _text(column: Any) -> Array:
    """Numbers as they are; text, which HDF5 gives as bytes, as text."""
    return np.asarray(column) if column.dtype != object else column.asstr()[...].astype(str)


def _read_columns(path: Path, labels: str | None, key: str | None) -> Parts:
    """The columns of a data frame without that of the labels, and the labels."""
    if path.suffix.lower() == ".parquet":
        facts = extra("pyarrow.parquet").read_metadata(path)
        check_size(path, 8.0 * facts.num_rows * facts.num_columns)
        frame = extra("pandas").read_parquet(path)
    else:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            marks = separators(path, next((line for line in file if line.strip()), ""))
        frame = parsed(path, **marks)
        name = str(frame.columns[0])
        if name.lower() in INDEX_NAMES and name != labels:
            warn(f"{path.name}: the first column ({name}) is an index and no feature")
            frame = frame.iloc[:, 1:]
    if labels is None:
        return frame, None, None
    place = pick([*map(str, frame.columns)], frame.shape[1], [labels], path)[0]
    return frame.drop(columns=frame.columns[place]), frame.iloc[:, place].to_numpy(), None


READERS = {".npy": _read_array, ".mtx": _read_array, **dict.fromkeys(ARCHIVES, _read_archive)}
READERS |= dict.fromkeys((".csv", ".tsv", ".parquet"), _read_columns)
