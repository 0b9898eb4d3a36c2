"""Oracles of whole folders, prepared ahead: file -> mesh -> ``k`` eigenpairs on disk, in parallel through joblib.

The entries are those `oracle` reads, named by content, so a folder can be moved or copied and preparing it again only
does what is missing. One worker per file; a file that cannot be used is reported and skipped. The workers share nothing
but the output folder, so the same call spreads over a cluster with any joblib backend:

    with joblib.parallel_config("dask"):                 # or "ray", once its backend is registered
        prepare_oracles("shapes/", k=50, jobs=-1, out="/shared/oracles")
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..errors import InputError
from ..files import atomic_path, default_cache_dir, writable_folder
from ..progress import track
from .io import MESHES, find_shapes, load
from .oracle import Kind, entry_path, oracle, read_entry


class Outcome(NamedTuple):
    """What became of one file."""

    path: Path
    state: Literal["made", "kept", "failed"]
    note: str = ""


@dataclass(frozen=True)
class Summary:
    """What was done: files ``made`` now, ``kept`` from before, ``failed`` with the reason; where; how long."""

    made: list[Path]
    kept: list[Path]
    failed: dict[Path, str]
    folder: Path
    seconds: float

    def __str__(self) -> str:
        total = len(self.made) + len(self.kept) + len(self.failed)
        return (
            f"{total} shapes: {len(self.made)} prepared, {len(self.kept)} already there, {len(self.failed)} failed, "
            f"{self.seconds:.1f} s, in {self.folder}"
        )


def prepare_oracles(
    folder: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    k: int = 50,
    jobs: int = -1,
    backend: str | None = None,
    out: str | os.PathLike[str] | None = None,
    kind: Kind = "auto",
    progress: Callable[..., Iterable[Any]] = track,
) -> Summary:
    """Compute and keep the oracle of every mesh in ``folder`` (searched through) or in a list of folders and files.

    ``backend`` is any joblib backend by name; None leaves the choice to a surrounding ``joblib.parallel_config``, and
    to local processes otherwise. An interrupted run loses only the shapes in hand: the next one continues.
    """
    from joblib import Parallel, delayed

    started = time.perf_counter()
    paths = [folder] if isinstance(folder, (str, os.PathLike)) else folder
    files = find_shapes(paths, MESHES, below=True)
    target = writable_folder(out if out is not None else default_cache_dir() / "oracle")
    if jobs == 1:
        outcomes: Iterable[Outcome] = (_prepare_one(path, k, target, kind) for path in files)
    else:
        tasks = (delayed(_prepare_one)(path, k, target, kind) for path in files)
        outcomes = _parallel(Parallel, jobs, backend)(tasks)
    found = list(progress(outcomes, "oracles", len(files)))
    made, kept = (sorted(one.path for one in found if one.state == state) for state in ("made", "kept"))
    failed = {one.path: one.note for one in found if one.state == "failed"}
    return Summary(made, kept, failed, target, time.perf_counter() - started)


def _parallel(parallel: Any, jobs: int, backend: str | None) -> Any:
    """A joblib pool that hands results over as they come, where its backend can (for the bar), else all at the end."""
    options: dict[str, Any] = {"n_jobs": jobs} if backend is None else {"n_jobs": jobs, "backend": backend}
    try:
        return parallel(**options, return_as="generator_unordered")
    except (ValueError, TypeError):
        try:
            return parallel(**options)
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"joblib has no backend {backend!r}: {error}") from error


def _prepare_one(path: Path, k: int, folder: Path, kind: Kind) -> Outcome:
    try:
        # The hash of the file leads to the entry of its mesh without parsing it: a second run over many is quick.
        pointer = _pointer(path, folder, kind)
        if pointer.is_file() and read_entry(folder / pointer.read_text(), k) is not None:
            return Outcome(path, "kept")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # repairs are told by `load` when a person loads the shape
            shape = load(path)
            if shape.faces is None:
                return Outcome(path, "failed", "a point cloud: an oracle needs faces")
            entry = entry_path(shape.vertices, shape.faces, kind, folder)
            present = read_entry(entry, k) is not None
            if not present:
                oracle(shape.vertices, shape.faces, k, kind=kind, folder=folder)
        with atomic_path(pointer) as temporary:
            temporary.write_text(str(entry.relative_to(folder)))
    except Exception as error:  # one bad file among 200,000 must not end the run
        return Outcome(path, "failed", str(error) or type(error).__name__)
    return Outcome(path, "kept" if present else "made")


def _pointer(path: Path, folder: Path, kind: Kind) -> Path:
    with path.open("rb") as file:
        name = hashlib.file_digest(file, "sha256").hexdigest()
    return folder / "files" / name[:2] / f"{name}{path.suffix.lower()}.{kind}"
