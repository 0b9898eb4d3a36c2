"""Files -> shapes: meshes (obj, off, ply, stl, glb, gltf) through trimesh, clouds (xyz, pts, pwn,
txt, csv, npy, npz) directly, what scanners (las, laz, e57, pcd, ptx, bin, conf, folders of views)
and simulations (vtk, vtu, vtp) write by `scans`.

    Shape = vertices (v, d) float, faces (f, 3) int64 or None for a cloud

A mesh is cleaned on the way in: coincident vertices are merged, degenerate and repeated faces and
unused vertices dropped, each counted in ``Shape.repairs`` and in one warning. So are the pixels of
a scan in which nothing was seen. What remains keeps the order of the file (``Shape.rows``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, near_path, warn
from ..host.files import address, atomic_path, files_at, load_npy, local_copy, reading, reading_npz
from ..host.validation import validated
from .mesh import Array, check_faces, face_areas
from .scans import (
    posed_views,
    read_bin,
    read_e57,
    read_las,
    read_pcd,
    read_ptx,
    read_vtk,
    read_vtp,
    read_vtu,
)
from .tables import KNOWN, chosen_array
from .text import TEXT, Columns, pick, read_text

WRITTEN = (".obj", ".off", ".ply", ".stl", ".glb", ".gltf")
GRIDS = {".vtk": read_vtk, ".vtu": read_vtu, ".vtp": read_vtp}
SCANS = {".las": read_las, ".laz": read_las, ".e57": read_e57, ".pcd": read_pcd, ".ptx": read_ptx}
SCANS |= {".bin": read_bin}
MESHES = (*WRITTEN, *GRIDS)
ARRAYS = (*TEXT, ".npy", ".npz")  # in which a number that is not finite is an error
CLOUDS = (*ARRAYS, *SCANS, ".conf")
SHAPES = MESHES + CLOUDS
# numbers of vertices and faces in the header of a mesh
CLAIMED = {
    ".ply": rb"element\s+vertex\s+(\d+)(?:(?:(?!end_header).)*?element\s+face\s+(\d+))?",
    ".off": rb"OFF(?:\s|#[^\n]*\n)+(\d+)\s+(\d+)",
}


@dataclass(frozen=True)
class Shape:
    """A surface mesh, or a point cloud when ``faces`` is None; ``rows`` are those of the file that
    the vertices are, where some were left out.
    """

    vertices: Array
    faces: Array | None = None
    name: str = ""
    repairs: dict[str, int] = field(default_factory=dict)
    rows: Array | None = None

    @property
    def n(self) -> int:
        return len(self.vertices)

    def __repr__(self) -> str:
        faces = "cloud" if self.faces is None else f"{len(self.faces)} faces"
        return f"Shape({self.name!r}, {self.n} vertices, {faces})"


@validated
def load(
    path: str | os.PathLike[str],
    *,
    clean: bool = True,
    columns: Columns = None,
    key: str | None = None,
) -> Shape:
    """Read a mesh or a point cloud by its extension.

    Parameters
    ----------
    path
        A file, an address that fsspec reads, or a folder of views with their poses. Anything that
        cannot be read is an `InputError` naming the file.
    clean
        Drop coincident or unused vertices and degenerate or repeated faces of a mesh, and pixels
        of a scan without a return; one `EigenprobeWarning` gives the counts.
    columns
        The coordinates of a cloud, by name (text with names) or number from 0: ``"x,y,z"``,
        ``[0, 1, 2]``. Without it those called x, y and z, the first three of xyz, pts and pwn
        files, and all of others.
    key
        The array of an npz file that holds the points, where their name or their being alone does
        not tell.

    Returns
    -------
    Shape
        ``vertices (v, d)``, ``faces (f, 3)`` or None, ``name``, ``repairs`` and ``rows``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save(Shape(np.eye(3)), Path(folder) / "three.xyz")
    ...     load(Path(folder) / "three.xyz")
    Shape('three', 3 vertices, cloud)
    """
    path = local_copy(path)
    suffix, folder = path.suffix.lower(), path.is_dir()
    if not path.exists():
        raise InputError(f"no such file: {path}{near_path(path)}")
    if not folder and suffix not in SHAPES:
        raise InputError(f"expected one of {', '.join(SHAPES)}, got {path.name!r}")
    if columns is not None and suffix in MESHES:
        raise InputError(f"columns are chosen in a cloud, {path.name!r} is a mesh")
    if key is not None and suffix != ".npz":
        raise InputError(f"a key names an array of an npz file, got {path.name!r}")
    with reading(path):
        views = folder or suffix == ".conf"
        points, faces = (_joined_views(path), None) if views else _read(path, columns, key)
        seen = np.isfinite(points).all(1)
        if not seen.any():
            empty = f", all of its {len(points)} pixels are empty" if len(points) else ""
            raise InputError(f"it holds no points{empty}")
        if not seen.all() and (faces is not None or suffix in ARRAYS or not clean):
            row = int(np.argmin(seen))
            raise InputError(f"point {row} is {points[row].tolist()}, expected finite coordinates")
        if faces is not None:
            faces = check_faces(faces, len(points), "vertices")
            return _cleaned(points, faces, path) if clean else Shape(points, faces, path.stem)
    if seen.all():
        return Shape(points, None, path.stem)
    repairs = {"pixels without a return left out": int((~seen).sum())}
    return _repaired(path, points[seen], None, repairs, np.flatnonzero(seen))


def save(shape: Shape, path: str | os.PathLike[str]) -> None:
    """Write a mesh or a cloud by its extension, whole or not at all.

    Parameters
    ----------
    shape
        A mesh, or a cloud where its ``faces`` are None.
    path
        An obj, off, ply, stl or glb file of a mesh; a ply, xyz, txt, csv or npy file of a cloud.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save(Shape(np.eye(3), np.array([[0, 1, 2]])), Path(folder) / "one.off")
    ...     load(Path(folder) / "one.off")
    Shape('one', 3 vertices, 1 faces)
    """
    path = Path(path)
    suffix, cloud = path.suffix.lower(), shape.faces is None
    text = cloud and suffix in (".xyz", ".txt", ".csv", ".npy")
    if not text and suffix not in WRITTEN:
        kind = "cloud" if cloud else "mesh"
        raise InputError(f"cannot write a {kind} as {suffix or path.name!r}")
    import trimesh

    with atomic_path(path) as temporary:
        if suffix == ".npy":
            np.save(temporary, shape.vertices)
        elif text:
            mark = "," if suffix == ".csv" else " "
            np.savetxt(temporary, shape.vertices, fmt="%.17g", delimiter=mark)
        else:
            form: Any = trimesh.PointCloud(shape.vertices)
            if not cloud:
                form = trimesh.Trimesh(shape.vertices, shape.faces, process=False)
            form.export(temporary, file_type=suffix[1:])


@validated
def find_shapes(
    paths: str | Sequence[str | os.PathLike[str]],
    suffixes: tuple[str, ...] = SHAPES,
    *,
    below: bool = False,
) -> list[Path]:
    """The files of shapes among paths and in folders.

    Parameters
    ----------
    paths
        One path or several: a file, an address that fsspec reads, or a folder, which stands for
        all that it holds but hidden files, sorted by name. A folder of views with their poses is
        one shape.
    suffixes
        The endings of files that are taken from folders.
    below
        Whether a folder stands for what its sub-folders hold too, as an address always does; one
        of views is one shape.

    Returns
    -------
    list of Path

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     save(Shape(np.eye(3)), Path(folder) / "three.xyz")
    ...     [path.name for path in find_shapes(folder)]
    ['three.xyz']
    """
    found: list[Path] = []
    for path in map(Path, [paths] if isinstance(paths, str) else paths):
        away = address(path)
        if not away and not path.exists():
            raise InputError(f"no such file or folder: {path}{near_path(path)}")
        if not path.is_dir() and (not away or path.suffix.lower() in suffixes):
            found.append(path)
            continue
        inside = files_at(away) if away else _inside(path, below)
        known = [each for each in inside if each.is_dir() or each.suffix.lower() in suffixes]
        if not (known := [each for each in known if each == path or each.name[0] != "."]):
            what = "meshes" if suffixes == MESHES else "shapes"
            raise InputError(f"no {what} in {path}: expected files ending in {', '.join(suffixes)}")
        found += sorted(known)
    return found


def _inside(folder: Path, below: bool) -> Iterator[Path]:
    """The files in a folder; of a folder of views, which are one cloud, the folder."""
    if posed_views(folder, SHAPES):
        yield folder
        return
    for path in folder.iterdir():
        if path.is_file():
            yield path
        elif below and path.is_dir() and not path.is_symlink():
            yield from _inside(path, below)


def _joined_views(place: Path) -> Array:
    """Views of one scene, each moved by its pose, as one cloud."""
    parts = []
    for view, pose in posed_views(place, SHAPES):
        with reading(view):
            parts.append(_read(view, None, None)[0] @ pose[:, :3].T + pose[:, 3])
    if not parts:
        raise InputError(
            "expected a file, or views with a pose each: a file of it beside them, or lines "
            "bmesh FILE tx ty tz qi qj qk ql of a conf file"
        )
    return np.concatenate(parts)


def _read(path: Path, columns: Columns, key: str | None) -> tuple[Array, Array | None]:
    """Points (n, d) and faces of a file, as it has them."""
    suffix, faces = path.suffix.lower(), None
    if suffix in SCANS:
        array = SCANS[suffix](path)
    elif suffix in TEXT:
        array, columns = read_text(path, columns), None
    elif suffix == ".npy":
        array = load_npy(path)
    elif suffix == ".npz":
        with reading_npz(path) as archive:
            array = chosen_array(archive, key)
            names = [name for name in ("faces", "triangles") if name in archive]
            if names and key in (None, *KNOWN[:2]):
                faces = archive[names[0]].astype(np.int64)
    else:
        array, faces = GRIDS.get(suffix, _through_trimesh)(path)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(f"expected points of shape (n, d), got {array.shape}")
    if array.dtype.kind not in "fiu":
        raise InputError(f"expected numbers, got {array.dtype}")
    if columns is not None:
        array = array[:, pick([], array.shape[1], columns)]
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64), faces


def _through_trimesh(path: Path) -> tuple[Array, Array | None]:
    import trimesh

    suffix, none = path.suffix.lower(), np.zeros((0, 3), int)
    data: Any = np.memmap(path, mode="r")
    # The parser takes the vertex 0 of an obj file, where they count from 1, for another one.
    zero = rb"^f[ \t].*?(?<=[ \t])0[/ \t\r\n]"
    if suffix == ".obj" and re.search(zero, data, re.MULTILINE):
        raise InputError("a face has the vertex 0, expected numbers from 1 on")
    # Materials are other files.
    options = {"process": False, "maintain_order": True, "skip_materials": True}
    parts: Any = trimesh.load_scene(path, **options).dump()  # type: ignore[arg-type]
    both = trimesh.util.append_faces(
        [part.vertices for part in parts], [getattr(part, "faces", none) for part in parts]
    )
    vertices, faces = map(np.array, both)  # of numpy's own class
    # It takes a text that ends early for a smaller mesh.
    claimed = re.search(CLAIMED.get(suffix, rb"()()"), data, re.DOTALL)
    for array, count in zip((vertices, faces), claimed.groups() if claimed else ()):
        if len(array) < int(count or 0):
            raise InputError(f"the file ends early: its header claims {int(count)} rows")
    return vertices, faces if len(faces) else None


def _cleaned(vertices: Array, faces: Array, path: Path) -> Shape:
    _, first, inverse = np.unique(vertices, axis=0, return_index=True, return_inverse=True)
    repairs = {"coincident vertices merged": len(vertices) - len(first)}
    faces = first[inverse.ravel()][faces]  # every vertex becomes the first of its copies
    # What rounding, of the corners and of the four steps to an area, leaves of one that is zero.
    rounding = 4 * np.finfo(float).eps * float(np.abs(vertices).max())
    flat = face_areas(vertices, faces) <= rounding * float(np.ptp(vertices, axis=0).max())
    repairs["degenerate faces dropped"] = int(flat.sum())
    faces = faces[~flat]
    _, unique = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    repairs["repeated faces dropped"] = len(faces) - len(unique)
    faces = faces[np.sort(unique)]
    if len(faces) == 0:
        raise InputError("it has only degenerate faces")
    used, numbers = np.unique(faces, return_inverse=True)
    repairs["unused vertices dropped"] = len(first) - len(used)
    rows = used if len(used) < len(vertices) else None
    return _repaired(path, vertices[used], numbers.reshape(-1, 3), repairs, rows)


def _repaired(
    path: Path, points: Array, faces: Array | None, repairs: dict[str, int], rows: Array | None
) -> Shape:
    """A shape; what was repaired in one warning."""
    repairs = {what: count for what, count in repairs.items() if count}
    if repairs:
        warn(f"{path.name}: {', '.join(f'{count} {what}' for what, count in repairs.items())}")
    return Shape(points, faces, path.stem, repairs, rows)
