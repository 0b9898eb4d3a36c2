"""Files -> shapes: meshes (obj, off, ply, stl, glb, gltf) through trimesh, clouds (xyz, pts, txt, csv, npy, npz)
directly, what scanners and simulations write (las, laz, pcd, vtk, vtu, vtp) by `scans`.

    Shape = vertices (v, d) float, faces (f, 3) int64 or None for a cloud

A mesh is cleaned on the way in: coincident vertices are merged, degenerate and repeated faces and unused vertices
dropped, each counted in ``Shape.repairs`` and in one warning. What remains keeps the order of the file. Large npy
files are mapped, not read, and text is parsed in blocks, so a cloud needs no more memory than its numbers. What the
header of a mesh claims is compared with the file before it is parsed:

    ply    element NAME COUNT ...        ascii: one line per element;  binary: at least one byte each
    off    v f e                         one line per vertex and per face
    glb    accessors[i].count            at least one byte each; without a buffer view it would be zeros of any length
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, near_path, warn
from ..host.files import Archive, address, atomic_path, check_size, files_at, load_npy, local_copy, only_array, reading
from ..host.validation import validated
from ..readers.mesh import Array
from .mesh import face_areas
from .scans import read_las, read_pcd, read_vtk, read_vtp, read_vtu
from .text import TEXT, Columns, by_value, pick, read_text

WRITTEN = (".obj", ".off", ".ply", ".stl", ".glb", ".gltf")
MESHES = (*WRITTEN, ".vtk", ".vtu", ".vtp")
CLOUDS = (".xyz", ".pts", ".txt", ".csv", ".npy", ".npz", ".las", ".laz", ".pcd")
POINTS = ("points", "vertices", "features", "x", "arr_0")  # arrays of an npz file, by preference
FACES = ("faces", "triangles")
MAPPED_BYTES = 1 << 28  # npy files above this are left on disk
BLOCK_ROWS = 1 << 20
Claim = tuple[list[int], int, int, str]  # counts, elements claimed, what follows the header, in which unit
DEGENERATE = 1e-15  # area of a face, relative to the squared size of the shape


@dataclass(frozen=True)
class Shape:
    """A surface mesh, or a point cloud when ``faces`` is None."""

    vertices: Array
    faces: Array | None = None
    name: str = ""
    repairs: dict[str, int] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(self.vertices)

    def __repr__(self) -> str:
        faces = "cloud" if self.faces is None else f"{len(self.faces)} faces"
        return f"Shape({self.name!r}, {self.n} vertices, {faces})"


@validated
def load(path: str | os.PathLike[str], *, clean: bool = True, columns: Columns = None, key: str | None = None) -> Shape:
    """Read a mesh or a point cloud by its extension, from a path or an address that fsspec reads.

    ``columns`` are the coordinates of a cloud, by name (text with names) or number from 0: ``"x,y,z"``, ``[0, 1, 2]``.
    Without it a cloud loses an index, normals and colours (one `EigenprobeWarning` says so). ``key`` is the array of an
    npz file that holds the points, where their name or their being alone does not tell.

    With ``clean`` a mesh comes back without coincident or unused vertices and without degenerate or repeated faces
    (one `EigenprobeWarning` gives the counts). Anything that cannot be read is an `InputError` naming the file.
    """
    path = local_copy(path)
    suffix = path.suffix.lower()
    if path.is_dir():
        raise InputError(f"expected a file, got the folder {path}")
    if suffix not in MESHES + CLOUDS:
        raise InputError(f"expected one of {', '.join(MESHES + CLOUDS)}, got {path.name!r}")
    if columns is not None and suffix in MESHES:
        raise InputError(f"columns are chosen in a cloud, {path.name!r} is a mesh")
    if key is not None and suffix != ".npz":
        raise InputError(f"a key names an array of an npz file, got {path.name!r}")
    if not path.is_file():
        raise InputError(f"no such file: {path}{near_path(path)}")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    with reading(path):
        vertices, faces = _read(path, columns, key)
        _check_points(vertices, path)
        if faces is not None and (faces.ndim != 2 or faces.shape[1] != 3 or len(faces) == 0):
            raise InputError(f"{path} must hold faces of shape (f, 3), got {faces.shape}")
        if faces is not None and (faces.min() < 0 or faces.max() >= len(vertices)):
            raise InputError(f"{path} has faces that use vertices it does not have ({len(vertices)} vertices)")
        return _cleaned(vertices, faces, path) if faces is not None and clean else Shape(vertices, faces, path.stem)


def save(shape: Shape, path: str | os.PathLike[str]) -> None:
    """Write a mesh (obj, off, ply, stl, glb) or a cloud (ply, xyz, csv, npy) by extension, whole or not at all."""
    path = Path(path)
    suffix = path.suffix.lower()
    if shape.faces is None and suffix in (".xyz", ".txt", ".csv", ".npy"):
        with atomic_path(path) as temporary:
            if suffix == ".npy":
                np.save(temporary, shape.vertices)
            else:
                np.savetxt(temporary, shape.vertices, fmt="%.17g", delimiter="," if suffix == ".csv" else " ")
        return
    if suffix not in WRITTEN:
        raise InputError(f"cannot write a {'mesh' if shape.faces is not None else 'cloud'} as {suffix or path.name!r}")
    import trimesh

    vertices, faces = np.asarray(shape.vertices), shape.faces
    geometry = trimesh.PointCloud(vertices) if faces is None else trimesh.Trimesh(vertices, faces, process=False)
    with atomic_path(path) as temporary:
        geometry.export(temporary, file_type=suffix[1:])


@validated
def find_shapes(
    paths: str | Sequence[str | os.PathLike[str]], suffixes: tuple[str, ...] = MESHES + CLOUDS, *, below: bool = False
) -> list[Path]:
    """The readable files among ``paths``; a folder stands for all it holds but hidden files, sorted by name, and with
    ``below``, as an address always, for what its sub-folders hold too."""
    found: list[Path] = []
    for path in map(Path, [paths] if isinstance(paths, str) else paths):
        away = address(path)
        if path.is_dir() or (away and path.suffix.lower() not in suffixes):
            inside = files_at(away) if away else [p for p in (path.rglob if below else path.glob)("*") if p.is_file()]
            readable = sorted(p for p in inside if p.suffix.lower() in suffixes and not p.name.startswith("."))
            if not readable:
                what = "meshes" if suffixes == MESHES else "shapes"
                raise InputError(f"no {what} in {path}: expected files ending in {', '.join(suffixes)}")
            found += readable
        elif away or path.exists():
            found.append(path)
        else:
            raise InputError(f"no such file or folder: {path}{near_path(path)}")
    return found


def _read(path: Path, columns: Columns, key: str | None) -> tuple[Array, Array | None]:
    """Points (n, d) and faces of a file, as it has them."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        with Archive(path) as archive:
            names = archive.keys()
            name = only_array(path, names, POINTS, archive.rank) if key is None else key
            triangles = next((archive[each] for each in FACES if each in names and name in POINTS[:2]), None)
            array, faces = archive[name], None if triangles is None else triangles.astype(np.int64)
    elif suffix == ".npy":
        array, faces = load_npy(path, mapped=path.stat().st_size > MAPPED_BYTES), None
    else:
        array, faces = read_text(path, columns) if suffix in TEXT else READERS[suffix](path)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"{path} must hold points of shape (n, d), got {array.shape}")
    if array.dtype.kind not in "fiu":
        raise InputError(f"{path} must hold numbers, got {array.dtype}")
    if faces is None and suffix not in TEXT:
        chosen = by_value(array, path) if columns is None else pick([], array.shape[1], columns, path)
        array = array if chosen == list(range(array.shape[1])) else array[:, chosen]
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64), faces


def _through_trimesh(path: Path) -> tuple[Array, Array | None]:
    import trimesh

    if claim := CLAIMS.get(path.suffix.lower()):  # the parser takes a file that ends early for a smaller mesh
        counts, claimed, present, unit = claim(path)
        if min(counts, default=0) < 0 or claimed > present:
            raise InputError(f"{path} ends early: its header claims {claimed} elements, {present} {unit} follow")
    own: dict[str, Any] = {"skip_materials": True} if path.suffix.lower() == ".obj" else {}  # which are other files
    loaded: Any = trimesh.load(path, process=False, maintain_order=True, **own)
    vertices, faces, offset = [np.zeros((0, 3))], [], 0
    if isinstance(loaded, trimesh.Scene):  # one mesh may stand in many places
        placed = (loaded.geometry[loaded.graph[node][1]] for node in loaded.graph.nodes_geometry)
        check_size(path, 24.0 * sum(len(part.vertices) for part in placed if hasattr(part, "vertices")))
    parts: list[Any] = loaded.dump() if isinstance(loaded, trimesh.Scene) else [loaded]
    for part in parts:
        vertices.append(np.asarray(getattr(part, "vertices", vertices[0]), dtype=np.float64))
        if len(getattr(part, "faces", ())):  # a cloud has no faces, a path (lines) has neither
            faces.append(np.asarray(part.faces, dtype=np.int64) + offset)
        offset += len(vertices[-1])
    if offset == 0:
        raise InputError(f"{path} has no vertices")
    return np.concatenate(vertices), np.concatenate(faces) if faces else None


def _ply(path: Path) -> Claim:
    with path.open("rb") as file:
        ascii_, counts = False, []
        for line in islice(file, 10_000):
            words = line.split()
            if words[:1] == [b"format"]:
                ascii_ = words[1:2] == [b"ascii"]
            elif words[:1] == [b"element"]:
                counts.append(int(words[2]))
            elif words[:1] == [b"end_header"]:
                break
        present = sum(1 for line in file if line.strip()) if ascii_ else path.stat().st_size - file.tell()
    return counts, sum(counts), present, "lines" if ascii_ else "bytes"


def _off(path: Path) -> Claim:
    with path.open("rb") as file:
        lines = (text for line in file if (text := line.split(b"#")[0].strip()))
        words = next(lines, b"").replace(b"COFF", b"").replace(b"OFF", b"").split() or next(lines, b"").split()
        counts = [int(word) for word in words[:2]]
        return counts, sum(counts), sum(1 for _ in lines), "lines"


def _gltf(path: Path) -> Claim:
    data = path.read_bytes()
    if path.suffix.lower() == ".glb":
        (length,) = struct.unpack_from("<I", data, 12)
        document = json.loads(data[20 : 20 + length])
        size = len(data)
    else:
        document = json.loads(data)
        size = len(data) + sum(int(buffer.get("byteLength", 0)) for buffer in document.get("buffers", []))
    for uri in (str(part.get("uri", ""))[:1000] for kind in ("buffers", "images") for part in document.get(kind, [])):
        if ".." in Path(uri).parts:
            raise InputError(f"{path} refers to files outside its folder")
        beside = path.parent / uri
        if uri and not uri.startswith("data:") and beside.exists() and not beside.is_file():  # a pipe has no end
            raise InputError(f"{path} refers to {uri!r}, which is no plain file")
    counts = [int(accessor["count"]) for accessor in document.get("accessors", [])]
    return counts, max(counts, default=0), size, "bytes"


def _obj(path: Path) -> Claim:
    if re.search(rb"^f[ \t]+(?:[^\n]*[ \t])?0(?:[/ \t\r]|$)", path.read_bytes(), re.MULTILINE):
        raise InputError(f"{path} has a face with the vertex 0, expected numbers from 1 on (or -1, from the end)")
    return [], 0, 0, "bytes"


CLAIMS = {".obj": _obj, ".ply": _ply, ".off": _off, ".glb": _gltf, ".gltf": _gltf}


READERS: dict[str, Callable[[Path], tuple[Array, Array | None]]] = dict.fromkeys(WRITTEN, _through_trimesh)
READERS |= {".vtk": read_vtk, ".vtu": read_vtu, ".vtp": read_vtp, ".pcd": read_pcd}
READERS |= dict.fromkeys((".las", ".laz"), read_las)


def _check_points(points: Array, path: Path) -> None:
    if len(points) == 0:
        raise InputError(f"{path} holds no points")
    for start in range(0, len(points), BLOCK_ROWS):
        bad = ~np.isfinite(points[start : start + BLOCK_ROWS]).all(1)
        if bad.any():
            row = start + int(np.flatnonzero(bad)[0])
            raise InputError(f"{path}: point {row} is {np.asarray(points[row]).tolist()}, expected finite coordinates")


def _cleaned(vertices: Array, faces: Array, path: Path) -> Shape:
    _, first, inverse = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
    repairs = {"coincident vertices merged": len(vertices) - len(first)}
    faces = first[inverse.ravel()][faces]  # every vertex becomes the first of its copies
    a, b, c = faces.T
    size = float(np.ptp(vertices, axis=0).max()) or 1.0
    flat = (a == b) | (b == c) | (c == a) | (face_areas(vertices, faces) <= DEGENERATE * size**2)
    repairs["degenerate faces dropped"] = int(flat.sum())
    faces = faces[~flat]
    _, unique = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    repairs["repeated faces dropped"] = len(faces) - len(unique)
    faces = faces[np.sort(unique)]
    if len(faces) == 0:
        raise InputError(f"{path} has only degenerate faces")
    used, numbers = np.unique(faces, return_inverse=True)
    repairs["unused vertices dropped"] = len(first) - len(used)
    repairs = {what: count for what, count in repairs.items() if count}
    if repairs:
        warn(f"{path.name}: " + ", ".join(f"{count} {what}" for what, count in repairs.items()))
    return Shape(vertices[used], numbers.reshape(-1, 3), path.stem, repairs)
