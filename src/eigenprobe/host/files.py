"""Files are written whole or not at all, and read only as far as they are what they claim to be.

atomic_path    temporary file beside the target -> fsync -> rename -> fsync of the folder
reading        whatever a parser raises on a damaged file -> `InputError`, one line with the file
check_size     bytes claimed by a header <= EXPANSION x bytes on disk, before anything is allocated
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:  # the command line starts without numpy
    from numpy.typing import NDArray

Facts = dict[str, Any]  # names and values, as JSON has them
# times its own size that a compressed file may grow: real features compress 1.1 to 20 times
EXPANSION = 200
# bytes that any file may grow to: a small table of zeros compresses a thousand times
UNCHECKED = 1 << 28
INNER = (LookupError, TypeError, AttributeError, AssertionError, ArithmeticError, RecursionError)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` on success, delete it on any
    failure.

    The temporary name keeps the suffix, so writers that look at the extension behave as they would
    on ``path``. A power cut after the block leaves the old file or the new one: both the file and
    its folder are synchronised.
    """
    target = Path(path)
    temporary = _create(target)
    mode = temporary.stat().st_mode
    try:
        yield temporary
        temporary.chmod(mode)  # some writers put a private file of their own in its place
        _synchronise(temporary)
        os.replace(temporary, target)
        with suppress(OSError):  # some file systems cannot synchronise a folder
            _synchronise(target.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        # Writers in other languages give the operating system's error as text.
        text = re.search(r"No space left|File too large|quota exceeded", str(error), re.IGNORECASE)
        full = text or (isinstance(error, OSError) and error.errno in FULL)
        if isinstance(error, Exception) and full:
            raise InputError(
                f"cannot write to {target}: no space left (or the file may not grow further)"
            ) from error
        raise


def _create(target: Path) -> Path:
    """A new empty file with a name of its own in the folder of ``target``, with the permissions of
    any new file.
    """
    temporary = target.with_name(f".{target.stem[:100]}.{secrets.token_hex(6)}{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise InputError(f"cannot write to {target}: {error.strerror or error}") from error
    return temporary


def _synchronise(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Text that ends in one line break, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def write_json(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> None:
    """Strict JSON: numpy numbers become plain ones, and a value that is not finite becomes null."""
    write_text(path, json.dumps(plain(content), indent=2, allow_nan=False))


def plain(value: object) -> Any:
    """The same value made of what JSON knows."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def write_npz(path: Path, arrays: Mapping[str, Any], compressed: bool = False) -> None:
    """Arrays by name, whole or not at all."""
    import numpy as np

    with atomic_path(path) as temporary, temporary.open("wb") as file:
        (np.savez_compressed if compressed else np.savez)(file, **arrays)


def writable_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, made if need be; an error where it cannot be written, before any work and not
    after.
    """
    probe = _create(Path(folder) / "probe")
    probe.unlink(missing_ok=True)
    return probe.parent


@contextmanager
def locked_folder(folder: str | os.PathLike[str]) -> Iterator[None]:
    """One run at a time in ``folder``; the lock is the operating system's and ends with the
    process.
    """
    handle = os.open(writable_folder(folder), os.O_RDONLY)
    try:
        with suppress(ImportError):  # no such lock on this system
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"another run is writing to {folder}: wait for it or choose another folder"
                ) from None
            except OSError:  # a network file system without locks
                pass
        yield
    finally:
        os.close(handle)


def address(path: str | os.PathLike[str]) -> str | None:
    """What fsspec reads (``s3://``, ``memory://``, ...); None of a path on this machine."""
    match = re.match(r"([a-z][a-z0-9+.:-]+):/+(.*)", str(path))  # a Path has only one slash left
    if match is None or Path(path).exists():
        return None
    return f"{match[1]}://{'/' * (match[1] == 'file')}{match[2]}"


def local_copy(path: str | os.PathLike[str]) -> Path:
    """A path as it is; of an address a local copy, which lasts as long as the process and its
    original do.
    """
    if (found := address(path)) is None:
        return Path(path)
    with _opened(found) as (system, place):
        copy = Path(_copies().name, system.ukey(place), Path(place).name)
        if not copy.exists():
            with atomic_path(copy) as temporary:
                system.get_file(place, str(temporary))
        return copy


def files_at(found: str) -> list[Path]:
    """All files below an address, or the one that it is."""
    with _opened(found) as (system, place):
        return [Path(system.unstrip_protocol(name)) for name in system.find(place)]


@cache
def _copies() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="eigenprobe-")


@contextmanager
def _opened(found: str) -> Iterator[tuple[Any, str]]:
    import fsspec

    try:
        yield fsspec.url_to_fs(found)
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"cannot read {found}: {error}") from error


@contextmanager
def reading(path: str | os.PathLike[str], expected: str = "") -> Iterator[None]:
    """Parsers of foreign formats raise anything on a damaged file; the user gets the file and the
    reason.
    """
    try:
        yield
    except (ModuleNotFoundError, Warning):  # a missing extra; a caller who makes errors of warnings
        raise
    except InputError as error:  # a message of our own
        if Path(path).name in str(error):
            raise
        raise InputError(f"{os.fspath(path)}: {error}") from error
    except Exception as error:
        wanted = f"expected {expected}, " if expected else ""
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if (mark := getattr(error, "problem_mark", None)) is not None:  # of YAML
            reason = f"line {mark.line + 1}: {getattr(error, 'problem', '')}"
        elif isinstance(error, INNER):
            reason = "the file is damaged, or not what its name says"
        raise InputError(f"{wanted}cannot read {os.fspath(path)}: {reason}") from error


def check_size(path: Path, claimed: float) -> None:
    """Whether the ``claimed`` bytes can honestly come out of a (compressed) file."""
    size = path.stat().st_size
    if claimed > max(UNCHECKED, EXPANSION * size):
        raise InputError(f"{path} claims {claimed / 1e9:.3g} GB of data in a file of {size} bytes")


def load_npy(path: Path, *, mapped: bool = False) -> NDArray[Any]:
    """The array of an npy file, never unpickled. It is mapped first, which needs all of the bytes
    that its header claims.
    """
    import numpy as np

    with reading(path):
        found = np.lib.format.open_memmap(path, mode="r")
        return found if mapped else np.array(found)


@contextmanager
def reading_npz(path: Path) -> Iterator[Any]:
    """The arrays of an npz file by name, never unpickled; each is read when it is asked for."""
    import numpy as np

    with reading(path), np.load(path, allow_pickle=False) as found:
        check_size(path, sum(each.file_size for each in found.zip.infolist()))
        yield found
