"""Oracles of meshes, computed once and kept on disk under the hash of the mesh.

    folder/ab/abcdef....safetensors      the oracle of one mesh: (v, K) vectors

`prepare_oracles` makes those of whole folders, one worker per file through joblib: a folder can be
moved or copied, and preparing it again only does what is missing. The workers share nothing but the
output folder, so the same call spreads over a cluster with any joblib backend:

    with joblib.parallel_config("dask"):                 # or "ray", once its backend is registered
        prepare_oracles("shapes/", k=50, jobs=-1, out="/shared/oracles")
"""

import hashlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError, warn
from eigenprobe.geometry import load, oracle
from eigenprobe.host.files import writable_folder
from eigenprobe.io.mesh import Array
from eigenprobe.io.shapes import MESHES, find_shapes
from eigenprobe_lab.evaluation.reports import in_parallel

Folder = str | os.PathLike[str] | None
VERSION = "oracle/5"  # part of every key: entries of another recipe are never read


def cached_oracle(vertices: Array, faces: Array, k: int = 50, folder: Folder = None) -> Basis:
    """`eigenprobe.geometry.oracle`, read back from ``folder`` (default: the user's cache) where it
    is known there with ``k`` vectors or more, and kept there otherwise.
    """
    path = entry_path(vertices, faces, folder)
    stored = read_entry(path, k, vertices)
    if stored is not None:
        return stored
    basis = oracle(vertices, faces, k)
    _write_entry(path, basis)
    return basis


def cache_folder() -> Path:
    """``oracle`` in ``$EIGENPROBE_CACHE``, else in the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("EIGENPROBE_CACHE") or Path(root) / "eigenprobe") / "oracle"


def entry_path(vertices: Array, faces: Array, folder: Folder = None) -> Path:
    """Where the oracle of this mesh is kept: a name made of its content alone."""
    arrays = vertices.astype("<f8"), faces.astype("<i8")
    name = _digest(f"{VERSION}:{vertices.shape}:{faces.shape}", *arrays)
    root = Path(folder) if folder is not None else cache_folder()
    return (
        root / name[:2] / f"{name}.safetensors"
    )  # a folder of 200,000 entries is slow on many file systems


def read_entry(path: Path, k: int, vertices: Array | None = None) -> Basis | None:
    """The stored oracle cut to ``k`` vectors; None if absent, with fewer vectors, or damaged (then
    a warning).
    """
    if not path.exists():
        return None
    try:
        stored = Basis.load(path)
        if stored.info.pop("digest", None) != _digest_of(stored):
            raise InputError("its content does not match its checksum")
    except InputError as error:
        warn(f"rebuilding damaged cache entry {path}: {error}")
        return None
    return replace(stored, points=vertices).truncate(k) if stored.k >= k else None


def _write_entry(path: Path, basis: Basis) -> None:
    """Several processes may write the same entry: each writes its own file and renames it, so the
    last one wins.
    """
    try:
        replace(basis, points=None, info=basis.info | {"digest": _digest_of(basis)}).save(path)
    except (
        InputError,
        OSError,
    ) as error:  # a read-only or full cache must not cost the user the result
        warn(f"could not keep the oracle on disk: {error}")


def _digest(text: str, *arrays: Array) -> str:
    return hashlib.sha256(
        b"".join([text.encode(), *(array.tobytes() for array in arrays)])
    ).hexdigest()


def _digest_of(basis: Basis) -> str:
    return _digest(str(basis.normalized.shape), basis.normalized, basis.mass, basis.eigenvalues)


Outcome = tuple[Path, str, str]  # a file, "made", "kept" or "failed", and why


@dataclass(frozen=True)
class Summary:
    """Files ``made`` now, ``kept`` from before, ``failed`` with the reason; where."""

    made: list[Path]
    kept: list[Path]
    failed: dict[Path, str]
    folder: Path

    def __str__(self) -> str:
        total = len(self.made) + len(self.kept) + len(self.failed)
        counts = (
            f"{len(self.made)} prepared, {len(self.kept)} already there, {len(self.failed)} failed"
        )
        return f"{total} shapes: {counts}, in {self.folder}"


def prepare_oracles(
    folder: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    k: int = 50,
    jobs: int = -1,
    out: str | os.PathLike[str] | None = None,
) -> Summary:
    """Compute and keep the oracle of every mesh in ``folder`` (searched through) or in a list of
    folders and files.

    Workers are local processes, or those of a surrounding ``joblib.parallel_config``. An
    interrupted run loses only the shapes in hand: the next one continues.
    """
    paths = [folder] if isinstance(folder, (str, os.PathLike)) else folder
    files = find_shapes(paths, MESHES, below=True)
    target = writable_folder(out if out is not None else cache_folder())
    tasks = ((path, k, target) for path in files)
    found = list(in_parallel(_prepare_one, tasks, "oracles", len(files), jobs))
    made, kept = (
        sorted(path for path, state, _ in found if state == wanted) for wanted in ("made", "kept")
    )
    failed = {path: why for path, state, why in found if state == "failed"}
    return Summary(made, kept, failed, target)


def _prepare_one(path: Path, k: int, folder: Path) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `load` names repairs when a person loads the shape
            shape = load(path)
        if shape.faces is None:
            return path, "failed", "a point cloud: an oracle needs faces"
        entry = entry_path(shape.vertices, shape.faces, folder)
        if read_entry(entry, k) is not None:
            return path, "kept", ""
        cached_oracle(shape.vertices, shape.faces, k, folder)
        if not entry.exists():  # of which `cached_oracle` only warns
            return path, "failed", f"could not be written to {folder}: is the disk full?"
    except Exception as error:  # one bad file among 200,000 must not end the run
        return path, "failed", str(error) or type(error).__name__
    return path, "made", ""
