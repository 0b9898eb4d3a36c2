"""What simulations write -> points (n, 3), and faces (f, 3) where there are any.

    vtu, vtp    triangles; polygons as fans of them              through meshio
    vtk         legacy files, text or big-endian numbers, what comes before the data at the points:
                DATASET POLYDATA             POINTS n type ...  POLYGONS ...
                DATASET UNSTRUCTURED_GRID    POINTS n type ...  CELLS ...  CELL_TYPES ...
                cells up to version 4        CELLS c size     followed by  count i j k ...,  int32
                cells from version 5 on      CELLS c+1 size   OFFSETS ...  CONNECTIVITY ...

Counts in a header are compared with the length of the file before memory is taken.
(meshio reads neither POLYDATA nor what VTK writes beside the points today.)
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..errors import InputError, extra
from .mesh import Array

TYPES = {"float": "f4", "double": "f8", "int": "i4", "unsigned_int": "u4", "long": "i8"}
TYPES |= {"unsigned_long": "u8", "short": "i2", "unsigned_short": "u2", "char": "i1"}
TYPES |= {"unsigned_char": "u1", "vtktypeint64": "i8", "vtktypeint32": "i4", "vtkidtype": "i4"}
FACES = (5, 7, 9)  # triangle, polygon, quadrilateral
CELLS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS", "CELLS")
DATA = ("POINT_DATA", "CELL_DATA")


def read_vtu(path: Path) -> tuple[Array, Array | None]:
    """Points (n, 3) and triangles (f, 3) of a vtu file; other cells than faces only give their
    points.
    """
    grid = extra("meshio.vtu._vtu").read(path)
    flat = [each for each in grid.cells if each.type.startswith(("triangle", "quad", "polygon"))]
    faces = [triangles(each.data).astype(np.int64) for each in flat]
    return np.asarray(grid.points, np.float64), np.concatenate(faces) if faces else None


def read_vtp(path: Path) -> tuple[Array, Array | None]:
    """The same of a vtp file, which meshio does not know: as a vtu file whose cells are its
    polygons.
    """
    head, marker, appended = path.read_bytes().partition(b"<AppendedData")
    others = rb"<(PointData|CellData|Verts|Lines|Strips)\b[^>]*(/>|>.*?</\1>)"
    head = re.sub(others, b"", head, flags=re.DOTALL)
    count = re.search(rb'NumberOfPolys="(\d+)"', head)
    if count is None or int(count[1]) > len(head) + len(appended):
        raise InputError(f"{path} must hold polygons that it has room for, got another file")
    if b'"raw"' in appended[:80]:
        kinds = "text or base64, got raw ones: save it in another data mode"
        raise InputError(f"{path} must hold numbers as {kinds}")
    types = b'<DataArray type="UInt8" Name="types" format="ascii">'
    types += b"7 " * int(count[1]) + b"</DataArray></Cells>"
    for before, after in {
        b"PolyData": b"UnstructuredGrid",
        b"NumberOfPolys": b"NumberOfCells",
        b"<Polys>": b"<Cells>",
        b"</Polys>": types,
    }.items():
        head = head.replace(before, after)
    with TemporaryDirectory() as folder:
        same = Path(folder) / f"{path.stem}.vtu"
        same.write_bytes(head + marker + appended)
        return read_vtu(same)


def triangles(polygons: Array) -> Array:
    """Polygons of c corners (f, c) as triangles that share the first corner."""
    corners = [[0, i, i + 1] for i in range(1, polygons.shape[1] - 1)]
    return polygons[:, corners].reshape(-1, 3)


class Cursor:
    """A place in the file, moved on by `words` (a line) and `numbers`."""

    def __init__(self, path: Path) -> None:
        self.path, self.data, self.at = path, path.read_bytes(), 0
        self.version = float(self.words()[-1])
        self.words(blank=True)  # the title
        self.text = self.words() == ["ASCII"]

    def words(self, blank: bool = False) -> list[str]:
        """The words of the next line, in general of the next one that is not blank; none at the end
        of the file.
        """
        while self.at < len(self.data):
            end = self.data.find(b"\n", self.at)
            end = len(self.data) if end < 0 else end
            line, self.at = self.data[self.at : end][:1000], end + 1
            if blank or line.strip():
                return line.decode("latin-1").split()
        return []

    def numbers(self, count: int, kind: str) -> Array:
        layout = np.dtype(">" + TYPES[kind.lower()])
        left = len(self.data) - self.at
        if count < 0 or count * (2 if self.text else layout.itemsize) > left + 1:
            raise InputError(
                f"{self.path} ends early: it claims {count} numbers, {left} bytes follow"
            )
        if self.text:
            found = self.data[self.at :].split(None, count)
            if len(found) < count:
                raise InputError(
                    f"{self.path} ends early: it claims {count} numbers, {len(found)} follow"
                )
            self.at = len(self.data) - (len(found[count]) if len(found) > count else 0)
            return np.array(found[:count], dtype=layout)
        values = np.frombuffer(self.data, layout, count, self.at)
        self.at += values.nbytes
        return values


def read_vtk(path: Path) -> tuple[Array, Array | None]:
    """Points (n, 3) and triangles (f, 3) of a legacy file; cells that are not faces only give their
    points.
    """
    cursor = Cursor(path)
    dataset = cursor.words()
    if dataset[:1] != ["DATASET"] or dataset[1] not in ("POLYDATA", "UNSTRUCTURED_GRID"):
        raise InputError(
            f"{path} must hold POLYDATA or an UNSTRUCTURED_GRID, got {' '.join(dataset[:2])}"
        )
    points: Array | None = None
    cells: tuple[Array, Array] | None = None  # where each begins (c + 1,), and the corners of all
    kinds: Array | None = None
    while (words := cursor.words()) and words[0] not in DATA:
        if words[0] == "METADATA":
            while cursor.words(blank=True):
                pass
        elif words[0] == "FIELD":
            for _ in range(int(words[2])):
                _, width, rows, kind = cursor.words()
                cursor.numbers(int(width) * int(rows), kind)
        elif words[0] == "POINTS":
            points = cursor.numbers(3 * int(words[1]), words[2]).reshape(-1, 3)
        elif words[0] == "CELL_TYPES":
            kinds = cursor.numbers(int(words[1]), "int")
        elif words[0] in CELLS:
            found = _cells(cursor, int(words[1]), int(words[2]))
            cells = found if words[0] in ("POLYGONS", "CELLS") else cells
    if points is None:
        raise InputError(f"{path} has no POINTS")
    faces = _faces(*cells, kinds) if cells is not None else None
    return points.astype(np.float64), faces


def _cells(cursor: Cursor, count: int, size: int) -> tuple[Array, Array]:
    if cursor.version >= 5:
        starts = cursor.numbers(count, cursor.words()[1])
        return starts.astype(np.int64), cursor.numbers(size, cursor.words()[1]).astype(np.int64)
    if not 0 <= count <= size:
        raise InputError(f"{cursor.path} claims {count} cells in {size} numbers")
    numbers = cursor.numbers(size, "int").astype(np.int64)
    places = np.empty(count + 1, np.int64)  # of the number of corners, which stands before them
    places[0] = 0
    for i in range(count):
        places[i + 1] = places[i] + 1 + numbers[places[i]]
    return places - np.arange(count + 1), np.delete(numbers, places[:-1])


def _faces(starts: Array, corners: Array, kinds: Array | None) -> Array | None:
    """Cells with equally many corners together: triangles of all that are faces."""
    lengths, found = np.diff(starts), []
    if len(starts) and (
        starts[0] < 0 or starts[-1] > len(corners) or (lengths < 0).any()
    ):  # before memory is taken
        raise InputError(f"expected cells within {len(corners)} corners, got others")
    flat = np.isin(kinds, FACES) if kinds is not None else np.ones(len(lengths), dtype=bool)
    for length in np.unique(lengths[flat & (lengths >= 3)]):
        rows = starts[:-1][flat & (lengths == length)]
        found.append(triangles(corners[rows[:, None] + np.arange(length)]))
    return np.concatenate(found) if found else None
