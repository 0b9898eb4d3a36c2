"""Files that hold several arrays by name (npz, HDF5, h5ad): which of them is meant."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, extra
from ..host.files import Archive, check_size, reading

HDF5 = (".h5", ".hdf5", ".h5ad")


def open_archive(path: Path) -> Any:
    """The arrays of an npz or HDF5 file by name."""
    if path.suffix.lower() == ".npz":
        return Archive(path)
    h5py = extra("h5py")
    with reading(path):
        return h5py.File(path, "r")


def chosen_array(archive: Any, path: Path, known: Sequence[str], key: str | None = None) -> Any:
    """The array called ``key`` (``group/name`` in HDF5), one of the ``known`` names, or the only
    table; of HDF5 it is not read yet, and may be a group that holds a sparse matrix.
    """
    if key is not None:
        return stored(archive, key, path)
    names = list(archive.keys())
    if path.suffix.lower() == ".h5ad":
        found = ["obsm/X_pca" if "X_pca" in archive.get("obsm", ()) else "X"]
    elif not (found := [name for name in known if name in names][:1]):
        found = [name for name in names if _rank(archive, name) == 2]
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
