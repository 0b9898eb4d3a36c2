"""What eigenprobe says when something is wrong with its input, or a package of an extra is not
installed.
"""

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

EXTRAS = {  # the extra that brings a package
    **dict.fromkeys(("lightning", "tensorboard", "yaml"), "train"),
    "huggingface_hub": "hub",
    **dict.fromkeys(("igl", "robust_laplacian"), "geometry"),
    "transformers": "vision",
    **dict.fromkeys(("laspy", "lazrs", "pye57", "meshio", "h5py", "pyarrow"), "formats"),
    **dict.fromkeys(("umap", "potpourri3d", "pyFM", "pynndescent", "pyamg"), "peers"),
    **dict.fromkeys(("dask", "distributed"), "dask"),
    "torch_geometric": "pyg",
    "anndata": "anndata",
    **dict.fromkeys(("geomfum", "gsops"), "geomfum"),
}


class InputError(ValueError):
    """The input cannot be used. The message is one line: what was expected and what came.

    Parameters
    ----------
    message
        Whose line breaks become spaces.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> decompose([[0.0, 1.0], [1.0, 0.0]], k=5)
    Traceback (most recent call last):
    eigenprobe.errors.InputError: k=5 needs at least 6 points, got 2
    """

    def __init__(self, message: object = "") -> None:
        # A matrix in a message has many lines.
        super().__init__(" ".join(str(message).split())[:2000])


class RankError(InputError):
    """The columns to orthonormalise are linearly dependent (to working precision)."""


class EigenprobeWarning(UserWarning):
    """The input could be used, but the caller should know how (duplicates, disconnected clouds,
    ...).

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", EigenprobeWarning)
    ...     decompose([[0.0], [0.0], [1.0], [2.0], [3.0]], k=2).k  # two points coincide
    2
    """


# Lists of those who listen, and whether nobody else shall hear.
_LISTENERS: ContextVar[tuple[tuple[list[str], bool], ...]] = ContextVar("listeners", default=())


@contextmanager
def heard_warnings(held: bool = False) -> Iterator[list[str]]:
    """What `warn` says in this thread meanwhile, in a list too: for ``info["warnings"]``. Of a list
    that is ``held`` nobody else hears: the filters of `warnings` are shared by all threads.
    """
    said: list[str] = []
    token = _LISTENERS.set((*_LISTENERS.get(), (said, held)))
    try:
        yield said
    finally:
        _LISTENERS.reset(token)


held_warnings = partial(heard_warnings, held=True)


def warn(message: str) -> None:
    """An `EigenprobeWarning` that points to the line of the caller's own code, however deep its
    cause lies; once per cause while someone listens.
    """
    for said, held in reversed(_LISTENERS.get()):
        if message in said:
            return
        said.append(message)
        if held:
            return
    frame: FrameType | None = sys._getframe(1)
    depth, between = 2, (__name__.partition(".")[0], "torch", "lightning", "sklearn", "contextlib")
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in between:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, EigenprobeWarning, stacklevel=depth)


def near(name: str, known: Iterable[str]) -> str:
    """A question to end a message with, where one of the known names is nearly the one that was
    given.
    """
    found = get_close_matches(name, [each for each in known if each != name], 1, 0.6)
    return f" (did you mean {found[0]}?)" if found else ""


def near_path(path: Path) -> str:
    """The same for a file or folder that does not exist: of what lies beside it."""
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        path, folder = folder, folder.parent
    with suppress(OSError):
        found = near(path.name, (each.name for each in islice(folder.iterdir(), 1000)))
        return found.replace("mean ", f"mean {folder}{os.sep}" if folder != Path() else "mean ")
    return ""


def extra(package: str) -> Any:
    """A package that only an extra brings; where it is missing the error says what to type."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if line := missing_extra(error):
            raise InputError(line) from error
        raise


def missing_extra(error: ModuleNotFoundError) -> str:
    """The line for a missing package of an extra; empty for other packages."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return ""
    return f"this needs {package}: pip install 'eigenprobe[{EXTRAS[package]}]'"
