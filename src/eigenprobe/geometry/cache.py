"""Oracles of whole folders, prepared ahead: file -> mesh -> ``k`` eigenpairs on disk, in parallel through joblib.

The entries are those `oracle` reads, named by content, so a folder can be moved or copied and preparing it again only
does what is missing. One worker per file; a file that cannot be used is reported and skipped. The workers share nothing
but the output folder, so the same call spreads over a cluster with any joblib backend:

    with joblib.parallel_config("dask"):                 # or "ray", once its backend is registered
        prepare_oracles("shapes/", k=50, jobs=-1, out="/shared/oracles")
"""

import hashlib
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..host.files import atomic_path, default_cache_dir, writable_folder
from ..host.progress import in_parallel
from .io import MESHES, find_shapes, load
from .oracle import entry_path, oracle, read_entry

Outcome = tuple[Path, str, str]  # a file, "made", "kept" or "failed", and why


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
        counts = f"{len(self.made)} prepared, {len(self.kept)} already there, {len(self.failed)} failed"
        return f"{total} shapes: {counts}, {self.seconds:.1f} s, in {self.folder}"


def prepare_oracles(
    folder: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    k: int = 50,
    jobs: int = -1,
    backend: str | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Summary:
    """Compute and keep the oracle of every mesh in ``folder`` (searched through) or in a list of folders and files.

    ``backend`` is any joblib backend by name; None leaves the choice to a surrounding ``joblib.parallel_config``, and
    to local processes otherwise. An interrupted run loses only the shapes in hand: the next one continues.
    """
    started = time.perf_counter()
    paths = [folder] if isinstance(folder, (str, os.PathLike)) else folder
    files = find_shapes(paths, MESHES, below=True)
    target = writable_folder(out if out is not None else default_cache_dir() / "oracle")
    tasks = ((path, k, target) for path in files)
    found = list(in_parallel(_prepare_one, tasks, "oracles", len(files), jobs, backend))
    made, kept = (sorted(path for path, state, _ in found if state == wanted) for wanted in ("made", "kept"))
    failed = {path: why for path, state, why in found if state == "failed"}
    return Summary(made, kept, failed, target, time.perf_counter() - started)


def _prepare_one(path: Path, k: int, folder: Path) -> Outcome:
    try:
        # The hash of the file leads to the entry of its mesh without parsing it: a second run over many is quick.
        with path.open("rb") as file:
            name = hashlib.file_digest(file, "sha256").hexdigest()
        pointer = folder / "files" / name[:2] / f"{name}{path.suffix.lower()}.auto"
        if pointer.is_file() and read_entry(folder / pointer.read_text(), k) is not None:
            return path, "kept", ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # repairs are told by `load` when a person loads the shape
            shape = load(path)
            if shape.faces is None:
                return path, "failed", "a point cloud: an oracle needs faces"
            entry = entry_path(shape.vertices, shape.faces, folder=folder)
            present = read_entry(entry, k) is not None
            if not present:
                oracle(shape.vertices, shape.faces, k, folder=folder)
        with atomic_path(pointer) as temporary:
            temporary.write_text(str(entry.relative_to(folder)))
    except Exception as error:  # one bad file among 200,000 must not end the run
        return path, "failed", str(error) or type(error).__name__
    return path, "kept" if present else "made", ""
