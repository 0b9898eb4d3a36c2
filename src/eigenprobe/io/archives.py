"""Files that hold several arrays by name (npz, HDF5, h5ad): which of them is meant."""

from pathlib import Path
from typing import Any

from ..errors import InputError
from ..host.files import check_size

HDF5 = (".h5", ".hdf5", ".h5ad")
ARCHIVES = (".npz", *HDF5)
# of the arrays that are points or features, by preference
KNOWN = ("points", "vertices", "features", "embeddings", "X", "x", "data", "arr_0")


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
