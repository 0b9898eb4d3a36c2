"""What scanners and simulations write -> points (n, 3), and faces (f, 3) where there are any.

    las, laz    x = scale * X + offset, X int32                  through laspy
    pcd         FIELDS x y z ..., ascii, binary, or binary_compressed: LZF (through h5py), one field after the other
    vtu, vtp    triangles; polygons as fans of them              through meshio
    vtk         legacy files, text or big-endian numbers, what comes before the data at the points:
                DATASET POLYDATA             POINTS n type ...  POLYGONS ...
                DATASET UNSTRUCTURED_GRID    POINTS n type ...  CELLS ...  CELL_TYPES ...
                cells up to version 4        CELLS c size     followed by  count i j k ...,  int32
                cells from version 5 on      CELLS c+1 size   OFFSETS type ...  CONNECTIVITY type ...

Counts in a header are compared with the length of the file before memory is taken.
(meshio reads neither POLYDATA nor what VTK writes beside the points today.)
"""

import lzma
import re
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import local
from typing import Any, ClassVar

import numpy as np

from ..errors import InputError, extra
from ..host.files import check_size, largest
from ..readers.mesh import Array

AXES = ("x", "y", "z")
HEADER_LINES = 100  # of a pcd file, comments included
TYPES = {"float": "f4", "double": "f8", "int": "i4", "unsigned_int": "u4", "long": "i8", "unsigned_long": "u8"}
TYPES |= {"short": "i2", "unsigned_short": "u2", "char": "i1", "unsigned_char": "u1"}
TYPES |= {"vtktypeint64": "i8", "vtktypeint32": "i4", "vtkidtype": "i4"}
FACES = (5, 7, 9)  # triangle, polygon, quadrilateral
DATA = ("POINT_DATA", "CELL_DATA")


def read_las(path: Path) -> tuple[Array, None]:
    """The points of a las or laz file, in the unit of its header, float64."""
    laspy = extra("laspy")
    with path.open("rb") as file:  # the reader makes as many records of user data as the header claims
        head = file.read(247).ljust(247, b"\0")
    records = struct.unpack_from("<I", head, 100)[0] + (struct.unpack_from("<I", head, 243)[0] if head[25] > 3 else 0)
    if 54 * records > path.stat().st_size:
        raise InputError(f"{path} ends early: its header claims {records} records")
    with laspy.open(path) as file:
        claimed = float(file.header.point_count) * file.header.point_format.size
        if path.suffix.lower() == ".las" and claimed > path.stat().st_size:
            raise InputError(f"{path} ends early: its header claims {file.header.point_count} points")
        check_size(path, claimed)
        if path.suffix.lower() == ".laz":
            _check_chunks(path, file.header.offset_to_point_data)
        points = file.read()
        if len(points) < file.header.point_count:
            raise InputError(f"{path} ends early: {len(points)} of {file.header.point_count} points")
        return np.column_stack([np.asarray(getattr(points, axis), np.float64) for axis in AXES]), None


def _check_chunks(path: Path, start: int) -> None:
    """The decompressor takes memory for as many chunks as the table of a laz file claims, and ends the process if there
    is not so much. Where the table lies is said in the first 8 bytes of the points, or (-1) in the last of the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(start)
        (place,) = struct.unpack("<q", file.read(8))
        if place == -1:
            file.seek(size - 8)
            (place,) = struct.unpack("<q", file.read(8))
        if not 0 <= place <= size - 8:
            raise InputError(f"{path} ends early: its table of chunks should start at byte {place} of {size}")
        file.seek(place)
        _version, chunks = struct.unpack("<II", file.read(8))
    if chunks > size:  # a chunk takes a byte at least
        raise InputError(f"{path} is damaged: its table claims {chunks} chunks in {size} bytes")


def read_pcd(path: Path) -> tuple[Array, None]:
    """The points of a pcd file, those that the sensor did not see (NaN) left out."""
    with path.open("rb") as file:
        facts: dict[str, list[str]] = {}
        for _ in range(HEADER_LINES):
            words = file.readline().decode("ascii", "replace").split("#")[0].split()
            facts |= {words[0].upper(): words[1:]} if words else {}
            if "DATA" in facts:
                break
        names, kind = [name.lower() for name in facts["FIELDS"]], facts["DATA"][0].lower()
        if missing := set(AXES) - set(names):
            raise InputError(f"{path} has no field {min(missing)!r}, there are {', '.join(names)}")
        n = int(facts["POINTS"][0]) if "POINTS" in facts else int(facts["WIDTH"][0]) * int(facts["HEIGHT"][0])
        counts = list(map(int, facts.get("COUNT", ["1"] * len(names))))
        if n < 1 or min(counts) < 1 or len(counts) != len(names):
            raise InputError(f"{path} must hold points, its header claims {n} of {len(names)} fields")
        if kind == "ascii":
            columns = [sum(counts[: names.index(axis)]) for axis in AXES]
            points = np.loadtxt(BytesIO(file.read()), usecols=columns, ndmin=2)
        else:
            formats = [f"<{kind_.lower()}{size}" for kind_, size in zip(facts["TYPE"], facts["SIZE"], strict=True)]
            layout = np.dtype([(f"{i}", f, (c,)) for i, (f, c) in enumerate(zip(formats, counts, strict=True))])
            read = _compressed if kind == "binary_compressed" else _binary
            points = read(file, path, n, layout, [str(names.index(axis)) for axis in AXES])
    if len(points) != n:
        raise InputError(f"{path} ends early: its header claims {n} points")
    return points[~np.isnan(points).any(1)], None


def _binary(file: Any, path: Path, n: int, layout: np.dtype[Any], names: list[str]) -> Array:
    data = file.read(min(n * layout.itemsize, path.stat().st_size))
    records = np.frombuffer(data, layout, len(data) // layout.itemsize)
    return np.column_stack([records[name][:, 0].astype(np.float64) for name in names])


def _compressed(file: Any, path: Path, n: int, layout: np.dtype[Any], names: list[str]) -> Array:
    packed, unpacked = struct.unpack("<II", file.read(8))
    check_size(path, unpacked)
    data = _lzf(file.read(packed), unpacked) if unpacked == n * layout.itemsize else b""
    starts = {name: n * place[1] for name, place in (layout.fields or {}).items() if data}
    columns = [np.frombuffer(data, layout[name].base, n if data else 0, starts.get(name, 0)) for name in names]
    return np.column_stack([column.astype(np.float64) for column in columns])


def _lzf(data: bytes, size: int) -> bytes:
    """What LibLZF has compressed, as the filter of this name of HDF5 reads it; nothing where it is damaged."""
    with extra("h5py").File("lzf", "w", driver="core", backing_store=False) as file, suppress(OSError, ValueError):
        chunk = file.create_dataset("data", (size,), "u1", chunks=(size,), compression="lzf")
        chunk.id.write_direct_chunk((0,), data)
        return chunk[:].tobytes()
    return b""


class _Bounded:
    """A module of the standard library that decompresses, in one file no more than `host.files.largest` bytes."""

    left: ClassVar = local()

    def __init__(self, module: Any, start: Callable[[], Any]) -> None:
        self.compress, self._start = module.compress, start

    def decompress(self, data: bytes) -> bytes:
        found = self._start().decompress(data, max(1, self.left.bytes + 1))
        self.left.bytes -= len(found)
        if self.left.bytes < 0:
            raise InputError("its compressed arrays hold more data than a file of its size may")
        return bytes(found)


def _meshio() -> Any:
    """meshio's reader of vtu files, which takes whatever comes out of a compressed array."""
    module = extra("meshio.vtu._vtu")
    if not isinstance(module.zlib, _Bounded):
        module.zlib = _Bounded(zlib, zlib.decompressobj)
        module.lzma = _Bounded(lzma, lzma.LZMADecompressor)
    return module


def read_vtu(path: Path) -> tuple[Array, Array | None]:
    """Points (n, 3) and triangles (f, 3) of a vtu file; other cells than faces only give their points."""
    _Bounded.left.bytes = largest(path)
    grid = _meshio().read(path)
    blocks = [triangles(block.data) for block in grid.cells if block.type.startswith(("triangle", "quad", "polygon"))]
    return np.asarray(grid.points, np.float64), np.concatenate(blocks).astype(np.int64) if blocks else None


def read_vtp(path: Path) -> tuple[Array, Array | None]:
    """The same of a vtp file, which meshio does not know: as a vtu file whose cells are its polygons."""
    head, marker, appended = path.read_bytes().partition(b"<AppendedData")
    head = re.sub(rb"<(PointData|CellData|Verts|Lines|Strips)\b[^>]*(/>|>.*?</\1>)", b"", head, flags=re.DOTALL)
    count = re.search(rb'NumberOfPolys="(\d+)"', head)
    if count is None or int(count[1]) > len(head) + len(appended):
        raise InputError(f"{path} must hold PolyData with polygons that it has room for, got another file")
    if b'"raw"' in appended[:80]:
        raise InputError(f"{path} must hold numbers as text or base64, got raw ones: save it in another data mode")
    kinds = b'<DataArray type="UInt8" Name="types" format="ascii">' + b"7 " * int(count[1]) + b"</DataArray></Cells>"
    for before, after in {
        b"PolyData": b"UnstructuredGrid",
        b"NumberOfPolys": b"NumberOfCells",
        b"<Polys>": b"<Cells>",
        b"</Polys>": kinds,
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
    if len(starts) and (starts[0] < 0 or starts[-1] > len(corners) or (lengths < 0).any()):  # before memory is taken
        raise InputError(f"expected cells within {len(corners)} corners, got others")
    flat = np.isin(kinds, FACES) if kinds is not None else np.ones(len(lengths), dtype=bool)
    for length in np.unique(lengths[flat & (lengths >= 3)]):
        rows = starts[:-1][flat & (lengths == length)]
        found.append(triangles(corners[rows[:, None] + np.arange(length)]))
    return np.concatenate(found) if found else None
