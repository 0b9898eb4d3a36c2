"""Legacy VTK files -> points (n, 3) and triangles (f, 3): what ParaView, PyVista and simulations write as ``.vtk``.

    DATASET POLYDATA             POINTS n type ...  POLYGONS ...
    DATASET UNSTRUCTURED_GRID    POINTS n type ...  CELLS ...  CELL_TYPES ...
    cells up to version 4        CELLS c size     followed by  count i j k ...,  int32
    cells from version 5 on      CELLS c+1 size   OFFSETS type ...  CONNECTIVITY type ...

Text, or big-endian numbers. Only what comes before the data at the points is read; counts are compared with the length
of the file. (meshio reads neither POLYDATA nor what VTK writes beside the points today.)
"""

from pathlib import Path

import numpy as np

from ..errors import InputError
from .mesh import Array
from .scans import triangles

TYPES = {"float": "f4", "double": "f8", "int": "i4", "unsigned_int": "u4", "long": "i8", "unsigned_long": "u8"}
TYPES |= {"short": "i2", "unsigned_short": "u2", "char": "i1", "unsigned_char": "u1"}
TYPES |= {"vtktypeint64": "i8", "vtktypeint32": "i4", "vtkidtype": "i4"}
FACES = (5, 7, 9)  # triangle, polygon, quadrilateral
DATA = ("POINT_DATA", "CELL_DATA")


class Cursor:
    """A place in the file, moved on by `words` (a line) and `numbers`."""

    def __init__(self, path: Path) -> None:
        self.path, self.data, self.at = path, path.read_bytes(), 0
        self.version = float(self.words()[-1])
        self.words(blank=True)  # the title
        self.text = self.words() == ["ASCII"]

    def words(self, blank: bool = False) -> list[str]:
        """The words of the next line, in general of the next one that is not blank; none at the end of the file."""
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
            raise InputError(f"{self.path} ends early: it claims {count} numbers, {left} bytes follow")
        if self.text:
            found = self.data[self.at :].split(None, count)
            if len(found) < count:
                raise InputError(f"{self.path} ends early: it claims {count} numbers, {len(found)} follow")
            self.at = len(self.data) - (len(found[count]) if len(found) > count else 0)
            return np.array(found[:count], dtype=layout)
        values = np.frombuffer(self.data, layout, count, self.at)
        self.at += values.nbytes
        return values


def read_vtk(path: Path) -> tuple[Array, Array | None]:
    """Points (n, 3) and triangles (f, 3) of a legacy file; cells that are not faces only give their points."""
    cursor = Cursor(path)
    dataset = cursor.words()
    if dataset[:1] != ["DATASET"] or dataset[1] not in ("POLYDATA", "UNSTRUCTURED_GRID"):
        raise InputError(f"{path} must hold POLYDATA or an UNSTRUCTURED_GRID, got {' '.join(dataset[:2])}")
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
        elif words[0] in ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS", "CELLS"):
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
    flat = np.isin(kinds, FACES) if kinds is not None else np.ones(len(lengths), dtype=bool)
    for length in np.unique(lengths[flat & (lengths >= 3)]):
        rows = starts[:-1][flat & (lengths == length)]
        found.append(triangles(corners[rows[:, None] + np.arange(length)]))
    return np.concatenate(found) if found else None
