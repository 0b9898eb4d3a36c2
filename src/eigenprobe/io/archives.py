"""Files that hold several arrays by name (npz, HDF5, h5ad): which of them is meant."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, extra
from ..host.files import Archive, check_size

HDF5 = (".h5", ".hdf5", ".h5ad")
ARCHIVES = (".npz", *HDF5)


def open_archive(path: Path) -> Any:
    """The arrays of an npz or HDF5 file by name."""
    return Archive(path) if path.suffix.lower() == ".npz" else extra("h5py").File(path, "r")


def chosen_array(archive: Any, path: Path, known: Sequence[str], key: str | None = None) -> Any:
    """The array called ``key`` (``group/name`` in HDF5), one of the ``known`` names, or the only
    table; of HDF5 it is not read yet, and may be a group that holds a sparse matrix.
    """
    names = list(archive.keys())
    if key is not None:
        found = [key]
    elif path.suffix.lower() == ".h5ad":
        found = ["obsm/X_pca" if "X_pca" in archive.get("obsm", ()) else "X"]
    else:
        found = [name for name in known if name in names][:1]
        found = found or [name for name in names if _rank(archive, name) == 2]
    if len(found) != 1:
        wanted = f"expected one array named {known[0]!r}"
        asked = "choose one by key (--key on the command line)"
        raise InputError(f"{path} holds {', '.join(names) or 'nothing'}, {wanted}: {asked}")
    return stored(archive, found[0], path)


def _rank(archive: Any, name: str) -> int:
    if isinstance(archive, Archive):
        return archive.rank(name)
    return len(getattr(archive[name], "shape", ()))


def stored(archive: Any, key: str, path: Path) -> Any:
    """What lies under ``group/name``. A data set must lie in the file itself: HDF5 can point to any
    other file of the machine, and claim any size."""
    if isinstance(archive, Archive):
        return archive[key]
    link = archive.get(key, getlink=True, default=None)
    if link is None:
        others = archive.get(key.rpartition("/")[0] or "/", ())
        raise InputError(f"{path} has no array {key!r}, there are {', '.join(others)}")
    found: Any = None if hasattr(link, "filename") else archive[key]
    inside = found is not None and found.file.filename == archive.file.filename
    if hasattr(found, "nbytes"):  # no group
        inside &= found.external is None and not found.is_virtual
        check_size(path, found.nbytes)
    if not inside:
        raise InputError(f"{path}: {key!r} points outside the file, expected data stored in it")
    return found
