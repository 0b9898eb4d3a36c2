"""Files -> tables: features (n, d), labels (n,) and the names of columns and classes.

    npy, npz, csv, tsv, parquet, HDF5      an array or the numeric columns
    h5ad (AnnData)                         obsm/X_pca, or X; labels are columns of obs
    npz of scipy.sparse, sparse X          a sparse matrix, which stays one

``key`` names the array where a file has several (``group/name`` in HDF5). Labels are a column, an
array, or a file of their own. What a header claims is compared with the length of the file before
memory is taken.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..errors import InputError, extra, near_path, warn
from ..host.files import check_size, load_npy, local_copy, reading, reading_npz
from .mesh import Array
from .text import parsed, pick, separators

HDF5 = (".h5", ".hdf5", ".h5ad")
ARCHIVES = (".npz", *HDF5)
# of the arrays that are points or features, by preference
KNOWN = ("points", "vertices", "features", "embeddings", "X", "x", "data", "arr_0")
# Arrays of an npz or HDF5 file, by preference: labels, and text for numbers among them.
LABEL_NAMES = ("labels", "label", "y", "targets", "target")
CLASS_NAMES = ("label_names", "class_names", "target_names", "classes")
INDEX_NAMES = ("id", "index", "idx", "unnamed: 0")  # the last: what pandas writes


class Table(NamedTuple):
    """Features (n, d) (an array or a sparse matrix), labels (n,) or None, names of the d columns
    and of the classes, and what else of the rows was asked for, each (n,).
    """

    features: Any
    labels: Array | None
    names: list[str]
    classes: Array | None = None
    beside: Mapping[str, Array] = {}

    @property
    def named(self) -> Array | None:
        """The labels by the names of their classes, where the file has them."""
        labels, classes = self.labels, self.classes
        if labels is None or classes is None or labels.dtype.kind not in "iu" or classes.ndim != 1:
            return labels
        fits = (labels >= 0) & (labels < len(classes))
        return classes[labels] if fits.all() else labels


def read_table(
    path: str | os.PathLike[str],
    labels: str | None = None,
    key: str | None = None,
    *,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
    beside: Sequence[str] = (),
) -> Table:
    """The whole table. ``labels`` names the column (csv, parquet, obs of h5ad) or array (npz, HDF5)
    that is not a feature, or a file with a label per row (npy, or text). ``columns`` are the
    features, by name or by number from 0 (all of them unless given), without those named in
    ``drop``; ``beside`` are found as labels are, such as texts.

    Without ``labels``, a lone array called labels, label, y, targets or target in an npz or HDF5
    file is taken.
    """
    path = table_path(path)
    suffix = path.suffix.lower()
    if key is not None and suffix not in ARCHIVES:
        raise InputError(f"a key names an array of an npz, HDF5 or h5ad file, got {path.name}")
    asked = [name for name in (labels, *beside) if name is not None]
    inside = [name for name in asked if not Path(name).is_file()]
    with reading(path):
        features: Any
        features, found, classes = READERS[suffix](path, inside, key)
        if len(features.shape) != 2 or 0 in features.shape:
            raise InputError(f"expected a table (n, d), got shape {features.shape}")
        n, width = features.shape
        names = [*map(str, getattr(features, "columns", ()))] or [f"x{i}" for i in range(width)]
        left_out = pick(names, width, [name for name in drop if name not in inside])
        wanted = pick(names, width, columns) or range(width)
        chosen = [place for place in wanted if place not in left_out]
        if not chosen:
            raise InputError("no column is left")
        if columns or drop:
            features = getattr(features, "iloc", features)[:, chosen]
        features = _numbers(features)
    if labels is not None:
        found.pop("", None)
    beside_it = {name: _label_file(Path(name), n) for name in asked if name not in inside}
    for name, values in (found | beside_it).items():
        if values.shape != (n,):
            source = name if name in beside_it else path
            raise InputError(
                f"{source} must hold one label per row of {path} ({n}), got shape {values.shape}"
            )
        found[name] = values
    names = [names[place] for place in chosen]
    return Table(features, found.get(labels or ""), names, classes, found)


def table_path(path: str | os.PathLike[str]) -> Path:
    """The file, of an address a local copy; an error where it is none or not a table."""
    path = local_copy(path)
    if not path.is_file():
        raise InputError(f"no such table: {path}{near_path(path)}")
    if path.suffix.lower() not in READERS:
        raise InputError(f"a table is one of {', '.join(READERS)}, got {path.name}")
    return path


def _numbers(features: Any) -> Any:
    """An array, or a sparse matrix in rows, of numbers; an error names a column of words."""
    if hasattr(features, "columns"):
        import pandas

        for name, column in features.items():
            if not pandas.api.types.is_numeric_dtype(column):
                raise InputError(
                    f"features must be numbers, column {str(name)!r} is not: name it as the "
                    "labels, or drop it"
                )
        return features.to_numpy(dtype=float)
    if features.dtype.kind not in "fiub":
        raise InputError(f"features must be numbers, got {features.dtype}")
    if sparse.issparse(features):
        features = features.tocsr()
        features.check_format(full_check=True)  # others would be read from other memory
    return features


def _label_file(path: Path, n: int) -> Array:
    """Labels of a file of their own: an npy array, or a label per line, with or without a
    heading."""
    if path.suffix.lower() == ".npy":
        return load_npy(path)
    with reading(path):
        lines = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
    return np.array([line.strip().strip('"') for line in lines])[len(lines) == n + 1 :]


def chosen_array(archive: Any, key: str | None = None) -> Any:
    """The array called ``key`` (``group/name`` in HDF5), one of the known names, or the only table;
    of HDF5 it is not read yet.
    """
    if key is None:
        found = [name for name in KNOWN if name in archive][:1]
        found = found or [name for name in archive if getattr(archive[name], "ndim", 0) == 2]
        if len(found) != 1:
            raise InputError(
                f"it holds {', '.join(archive) or 'nothing'}, expected one array named "
                f"{' or '.join(KNOWN[::2])}: choose one by key (--key on the command line)"
            )
        key = found[0]
    return stored(archive, key)


def stored(archive: Any, key: str) -> Any:
    """What lies under ``group/name``, in the file itself: HDF5 can point to any other file of the
    machine, and claim any size."""
    if key not in archive:
        raise InputError(f"it has no array {key!r}, there are {', '.join(archive)}")
    found = archive[key]
    if hasattr(found, "file"):  # HDF5
        check_size(Path(archive.file.filename), getattr(found, "nbytes", 0))
        away = getattr(found, "external", None) or getattr(found, "is_virtual", False)
        if away or found.file.filename != archive.file.filename:
            raise InputError(f"{key!r} points outside the file, expected data stored in it")
    return found


# Each reader gives features, the columns or arrays of these names, and the names of classes or
# None. A lone array called as labels are has the name "".
Parts = tuple[Any, dict[str, Array], Array | None]


def _read_npy(path: Path, names: list[str], key: str | None) -> Parts:
    if names:
        raise InputError(
            f"{path.name} has no labels: --labels takes a file with one per row, got {names[0]!r}"
        )
    return load_npy(path, mapped=True), {}, None


def _read_npz(path: Path, names: list[str], key: str | None) -> Parts:
    with reading_npz(path) as archive:
        if {"format", "data", "shape"} <= {*archive} and not names:
            check_size(path, 8.0 * float(archive["shape"].sum()))  # a number per row and column
            return sparse.load_npz(path), {}, None
        return _arrays(archive, names, key)


def _read_hdf5(path: Path, names: list[str], key: str | None) -> Parts:
    with extra("h5py").File(path) as archive:
        if path.suffix.lower() != ".h5ad":
            return _arrays(archive, names, key)
        read, found = extra("anndata.io").read_elem, {}
        for name in names:
            column = extra("pandas").Series(read(stored(archive, f"obs/{name}")), dtype=object)
            found[name] = np.array(column.where(column.notna(), "").tolist())
        key = key or ("obsm/X_pca" if "obsm/X_pca" in archive else "X")
        return read(stored(archive, key)), found, None


def _arrays(archive: Any, names: list[str], key: str | None) -> Parts:
    features = np.asarray(chosen_array(archive, key))
    labels = [name for name in LABEL_NAMES if name in archive and name != key]
    chosen = dict(zip([*names, ""], names + labels))
    found = {what: np.asarray(stored(archive, name)) for what, name in chosen.items()}
    known = [name for name in CLASS_NAMES if name in archive]
    return features, found, np.asarray(stored(archive, known[0])) if known else None


def _read_columns(path: Path, names: list[str], key: str | None) -> Parts:
    """The columns of a data frame without those of these names, and those."""
    if path.suffix.lower() == ".parquet":
        facts = extra("pyarrow.parquet").read_metadata(path)
        check_size(path, 8.0 * facts.num_rows * facts.num_columns)
        frame = extra("pandas").read_parquet(path)
    else:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            line = next((line for line in file if line.strip()), "")
        frame = parsed(path, **separators(path, line))
        first = str(frame.columns[0])
        if first.lower() in INDEX_NAMES and first not in names:
            warn(f"{path.name}: the first column ({first}) is an index and no feature")
            frame = frame.iloc[:, 1:]
    places = pick([*map(str, frame.columns)], frame.shape[1], names)
    found = {name: frame.iloc[:, place].to_numpy() for name, place in zip(names, places)}
    return frame.drop(columns=frame.columns[places]), found, None


READERS = {".npy": _read_npy, ".npz": _read_npz}
READERS |= dict.fromkeys(HDF5, _read_hdf5)
READERS |= dict.fromkeys((".csv", ".tsv", ".parquet"), _read_columns)
