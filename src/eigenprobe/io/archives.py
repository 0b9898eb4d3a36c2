"""Files that hold several arrays by name (npz, HDF5, h5ad): which of them is meant."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..host.files import check_size

HDF5 = (".h5", ".hdf5", ".h5ad")
ARCHIVES = (".npz", *HDF5)


def chosen_array(archive: Any, path: Path, known: Sequence[str], key: str | None = None) -> Any:
    """The array called ``key`` (``group/name`` in HDF5), one of the ``known`` names, or the only
    table; of HDF5 it is not read yet.
    """
    if key is None:
        found = [name for name in known if name in archive][:1]
        found = found or [name for name in archive if getattr(archive[name], "ndim", 0) == 2]
        if len(found) != 1:
            names = ", ".join(archive) or "nothing"
            wanted = f"expected one array named {known[0]!r}"
            asked = "choose one by key (--key on the command line)"
            raise InputError(f"{path} holds {names}, {wanted}: {asked}")
        key = found[0]
    return stored(archive, key, path)


def stored(archive: Any, key: str, path: Path) -> Any:
    """What lies under ``group/name``, in the file itself: HDF5 can point to any other file of the
    machine, and claim any size."""
    if key not in archive:
        raise InputError(f"{path} has no array {key!r}, it has {', '.join(archive)}")
    found = archive[key]
    check_size(path, getattr(found, "nbytes", 0))
    if hasattr(found, "file"):  # HDF5
        away = getattr(found, "external", None) or getattr(found, "is_virtual", False)
        if away or found.file.filename != archive.file.filename:
            raise InputError(f"{path}: {key!r} points outside the file, expected data stored in it")
    return found
