"""The reference that knows the mesh: eigenpairs of its cotangent Laplacian, ``L v = lambda M v``.

    L_ij = -(cot a_ij + cot b_ij)/2,  L_ii = -sum_j L_ij,   M = diag(Voronoi areas),   V^T M V / area = I

The smallest ``k`` pairs come from shift-and-invert about a small negative number.
Eigenvalues are in the units of the input (length^-2); the `Basis` has mass ``M / area``, which sums to 1. Meshes the
cotangent formula cannot serve (zero or non-finite weights, a solver that fails) go to the tufted-cover Laplacian of
`robust_laplacian`, with a warning. Results are kept on disk under the hash of the mesh: ``(v, K)`` vectors.

`prepare_oracles` makes those of whole folders, one worker per file through joblib: a folder can be moved or copied, and
preparing it again only does what is missing. The workers share nothing but the output folder, so the same call spreads
over a cluster with any joblib backend:

    with joblib.parallel_config("dask"):                 # or "ray", once its backend is registered
        prepare_oracles("shapes/", k=50, jobs=-1, out="/shared/oracles")
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse
import torch

from ..basis import Basis
from ..eigen import canonical_signs, smallest_pairs
from ..errors import InputError, extra, warn
from ..host.files import atomic_path, default_cache_dir, writable_folder
from ..host.progress import in_parallel
from ..host.validation import validated
from ..readers.mesh import Array, check_mesh
from ..readers.shapes import MESHES, find_shapes, load

Kind = Literal["auto", "cotangent", "robust"]
Folder = str | os.PathLike[str] | None
VERSION = "oracle/4"  # part of every key: entries of another recipe are never read
SHIFT = -1e-3  # times 1/area, far below the first positive eigenvalue of any usual shape


@validated
def oracle(
    vertices: Any, faces: Any, k: int = 50, *, kind: Kind = "auto", cache: bool = True, folder: Folder = None
) -> Basis:
    """The first ``k`` eigenvectors of the mesh Laplacian at all vertices, as a `Basis` of float64 numpy arrays.

    ``kind="auto"`` is the cotangent Laplacian where it is usable and the robust one elsewhere. Results are kept in
    ``folder`` (default: the user's cache) and read back when the same mesh is asked for again with ``k`` or fewer
    vectors. Vertices no face uses have no mass, hence no values: `load` drops them, here they are an error.
    """
    vertices, faces = check_mesh(vertices, faces)
    if not 1 <= k < len(vertices):
        raise InputError(f"the oracle of {len(vertices)} vertices has 1 to {len(vertices) - 1} vectors, got k={k}")
    unused = len(vertices) - len(np.unique(faces))
    if unused:
        raise InputError(f"every vertex must belong to a face, {unused} of {len(vertices)} do not")
    path = entry_path(vertices, faces, kind, folder)
    if cache and (stored := read_entry(path, k, vertices)) is not None:
        return stored
    basis = _solve(vertices, faces, k, kind)
    if cache:
        _write_entry(path, basis)
    return basis


def entry_path(vertices: Array, faces: Array, kind: Kind = "auto", folder: Folder = None) -> Path:
    """Where the oracle of this mesh is kept: a name made of its content alone."""
    arrays = np.asarray(vertices, "<f8"), np.asarray(faces, "<i8")
    name = _digest(f"{VERSION}:{kind}:{vertices.shape}:{faces.shape}", *arrays)
    root = Path(folder) if folder is not None else default_cache_dir() / "oracle"
    return root / name[:2] / f"{name}.safetensors"  # a folder of 200,000 entries is slow on many file systems


def read_entry(path: Path, k: int, vertices: Array | None = None) -> Basis | None:
    """The stored oracle cut to ``k`` vectors; None if absent, with fewer vectors, or damaged (then a warning)."""
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
    """Several processes may write the same entry: each writes its own file and renames it, so the last one wins."""
    try:
        replace(basis, points=None, info=basis.info | {"digest": _digest_of(basis)}).save(path)
    except (InputError, OSError) as error:  # a read-only or full cache must not cost the user the result
        warn(f"could not keep the oracle on disk: {error}")


def _digest(text: str, *arrays: Array) -> str:
    return hashlib.sha256(b"".join([text.encode(), *(array.tobytes() for array in arrays)])).hexdigest()


def _digest_of(basis: Basis) -> str:
    return _digest(str(basis.normalized.shape), basis.normalized, basis.mass, basis.eigenvalues)


def _solve(vertices: Array, faces: Array, k: int, kind: Kind) -> Basis:
    if kind != "robust":
        try:
            return _basis(vertices, *cotangent(vertices, faces), k, "cotangent")
        except (ArithmeticError, RuntimeError) as error:  # numpy, SuperLU and ARPACK failures
            if kind == "cotangent":
                raise InputError(f"the cotangent Laplacian of this mesh cannot be used: {error}") from error
            warn(f"using the robust Laplacian instead of cotangents: {error}")
    try:
        matrices = extra("robust_laplacian").mesh_laplacian(vertices, faces)
        return _basis(vertices, *_positive(*matrices), k, "robust")
    except (ArithmeticError, RuntimeError) as error:
        raise InputError(f"no Laplacian of this mesh can be solved: {error}") from error


def cotangent(vertices: Array, faces: Array) -> tuple[Any, Array]:
    """Positive semi-definite cotangent stiffness matrix (v, v) and Voronoi areas (v,)."""
    igl = extra("igl")
    stiffness = -igl.cotmatrix(vertices, faces)
    mass = np.asarray(igl.massmatrix(vertices, faces, igl.MASSMATRIX_TYPE_VORONOI).diagonal())
    if not np.isfinite(stiffness.data).all():
        raise ArithmeticError(f"{int((~np.isfinite(stiffness.data)).sum())} cotangent weights are not finite")
    if not (np.isfinite(mass).all() and mass.min() > 1e-12 * mass.mean()):
        raise ArithmeticError(f"{int((~(mass > 1e-12 * mass.mean())).sum())} vertices have no area")
    return stiffness.tocsc(), mass


def point_cloud(points: Array, k: int) -> Basis:
    """The peer that has no mesh either: `robust_laplacian`'s point-cloud Laplacian and ``eigsh``."""
    points = np.ascontiguousarray(points, dtype=np.float64)
    matrices = extra("robust_laplacian").point_cloud_laplacian(points)
    return _basis(points, *_positive(*matrices), k, "robust point cloud")


def _positive(stiffness: Any, mass: Any) -> tuple[Any, Array]:
    """Stiffness and areas of an intrinsic tufted cover, which serves any triangle soup with used vertices."""
    areas = np.asarray(mass.diagonal())
    return stiffness.tocsc(), np.maximum(areas, 1e-10 * areas.mean())  # isolated or folded vertices may get none at all


def smallest_eigenpairs(stiffness: Any, mass: Array, k: int, shift: float | None = None) -> tuple[Array, Array]:
    """``L v = lambda M v`` for the ``k`` smallest: eigenvalues (k,) ascending and ``sqrt(M) v`` (v, k), orthonormal."""
    scale = scipy.sparse.diags_array(1 / np.sqrt(mass))
    normalised = (scale @ stiffness @ scale).tocsc()  # the standard problem for sqrt(M) v converges more safely
    return smallest_pairs(normalised, k, pole=SHIFT / mass.sum() if shift is None else shift)


def _basis(points: Array, stiffness: Any, mass: Array, k: int, kind: str) -> Basis:
    values, vectors = smallest_eigenpairs(stiffness, mass, k)
    if not (np.isfinite(values).all() and np.isfinite(vectors).all()):
        raise ArithmeticError("the eigensolver returned non-finite values")
    area = float(mass.sum())
    weights = mass / area
    unnormalised = torch.from_numpy(vectors / np.sqrt(weights)[:, None])
    signs = canonical_signs(unnormalised, torch.from_numpy(weights)).numpy()
    signs[0] = np.sign(vectors[:, 0].sum()) or 1.0
    normalized = np.ascontiguousarray(vectors * signs)
    return Basis(normalized, weights, values, points, {"method": kind, "area": area})


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
            warnings.simplefilter("ignore")  # `load` names repairs when a person loads the shape
            shape = load(path)
            if shape.faces is None:
                return path, "failed", "a point cloud: an oracle needs faces"
            entry = entry_path(shape.vertices, shape.faces, folder=folder)
            present = read_entry(entry, k) is not None
            if not present:
                oracle(shape.vertices, shape.faces, k, folder=folder)
                if not entry.exists():  # of which `oracle` itself only warns
                    return path, "failed", f"could not be written to {folder}: is the disk full?"
        with atomic_path(pointer) as temporary:
            temporary.write_text(str(entry.relative_to(folder)))
    except Exception as error:  # one bad file among 200,000 must not end the run
        return path, "failed", str(error) or type(error).__name__
    return path, "kept" if present else "made", ""
