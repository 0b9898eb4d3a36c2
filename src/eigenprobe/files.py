"""Files are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` on success, delete it on any failure.

    The temporary name keeps the suffix, so writers that look at the extension behave as they would on ``path``.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise InputError(f"cannot write to {target}: {error.strerror or error}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp is private; the result should be an ordinary file
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def writable_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, made if need be; an error where it cannot be written, before any work and not after."""
    probe = Path(folder) / ".probe"
    with atomic_path(probe) as temporary:
        temporary.touch()
    probe.unlink(missing_ok=True)
    return probe.parent


def default_cache_dir() -> Path:
    """``$EIGENPROBE_CACHE``, else the user's cache folder."""
    if override := os.environ.get("EIGENPROBE_CACHE"):
        return Path(override)
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "eigenprobe"
