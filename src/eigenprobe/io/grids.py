"""What simulations write -> points (n, 3), and faces (f, 3) where there are any.

    vtu, vtp    triangles; polygons as fans of them              through meshio
    vtk         legacy files, text or big-endian numbers, of which three sections are read:
                POINTS n type ...
                POLYGONS ..., or CELLS ... of an unstructured grid:
                    up to version 4      c size   followed by  count i j k ...,  int32
                    from version 5 on    c+1 size   OFFSETS type ...  CONNECTIVITY type ...
                CELL_TYPES c ...

(meshio reads neither POLYDATA nor what VTK writes beside the points today.)
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..errors import InputError, extra
from ..host.files import check_size
from .mesh import Array

TYPES = {"float": ">f4", "double": ">f8", "int": ">i4", "long": ">i8"}
TYPES |= {"vtktypeint64": ">i8", "vtktypeint32": ">i4", "vtkidtype": ">i4"}
CELLS = {"POLYDATA": b"POLYGONS", "UNSTRUCTURED_GRID": b"CELLS"}


def read_vtu(path: Path) -> tuple[Array, Array | None]:
    """Points (n, 3) and triangles (f, 3) of a vtu file; other cells than faces only give their
    points.
    """
    grid, kinds = extra("meshio.vtu._vtu").read(path), ("triangle", "quad", "polygon")
    faces = [cells.data for cells in grid.cells if cells.type.startswith(kinds)]
    return np.asarray(grid.points, np.float64), _triangles(faces)


def _triangles(cells: list[Array]) -> Array | None:
    """Triangles (f, 3) that share the first corner of a cell; ``cells`` are tables by size."""
    faces = [each[:, [0, i - 1, i]] for each in cells for i in range(2, each.shape[1])]
    return np.concatenate(faces).astype(np.int64) if faces else None


def read_vtp(path: Path) -> tuple[Array, Array | None]:
    """The same of a vtp file, which meshio does not know: made a vtu file whose cells are its
    polygons.
    """
    head, marker, appended = path.read_bytes().partition(b"<AppendedData")
    if b'"raw"' in appended[:80]:
        raise InputError(
            "expected numbers as text or base64, got raw ones: save it in another mode"
        )
    others = rb"<(PointData|CellData|Verts|Lines|Strips)\b[^>]*(/>|>.*?</\1>)"
    head = re.sub(others, b"", head, flags=re.DOTALL)
    count = int(re.findall(rb'NumberOfPolys="(\d+)"', head)[0])
    check_size(path, 8.0 * count)
    types = b'<DataArray type="UInt8" Name="types" format="ascii">' + b"7 " * count
    head = head.replace(b"</Polys>", types + b"</DataArray></Cells>").replace(
        b"<Polys>", b"<Cells>"
    )
    head = head.replace(b"PolyData", b"UnstructuredGrid").replace(b"OfPolys", b"OfCells")
    with TemporaryDirectory() as folder:
        same = Path(folder) / f"{path.stem}.vtu"
        same.write_bytes(head + marker + appended)
        return read_vtu(same)


def read_vtk(path: Path) -> tuple[Array, Array | None]:
    """Points (n, 3) and triangles (f, 3) of a legacy file; cells that are not faces only give their
    points.
    """
    data = path.read_bytes()
    head = re.match(rb"# vtk DataFile Version ([\d.]+).*\n.*\n\s*(\w+)\s+DATASET\s+(\w+)", data)
    kind = head[3].decode() if head else "another file"
    if head is None or kind not in CELLS:
        raise InputError(f"it must hold POLYDATA or an UNSTRUCTURED_GRID, got {kind}")
    end = head.end()

    def section(name: bytes) -> list[str]:
        """The words behind the next such name that begins a line, after which numbers follow."""
        nonlocal end
        found = re.compile(rb"\n%b (.*)\n" % name).search(data, end - 1)
        end = found.end() if found else end
        return found[1].decode("latin-1").split() if found else []

    def numbers(count: int, kind: str) -> Array:
        layout = np.dtype(TYPES[kind.lower()])
        if head[2] == b"BINARY":
            return np.frombuffer(data, layout, count, end)
        return np.array(data[end:].split(None, count)[:count], dtype=layout).reshape(count)

    if not (words := section(b"POINTS")):
        raise InputError("it has no POINTS")
    points = numbers(3 * int(words[0]), words[1]).reshape(-1, 3).astype(np.float64)
    if not (words := section(CELLS[kind])):
        return points, None
    count, size = map(int, words)
    if float(head[1]) >= 5:
        starts = numbers(count, *section(b"OFFSETS")).astype(np.int64)
        corners = numbers(size, *section(b"CONNECTIVITY")).astype(np.int64)
    else:
        listed, places = numbers(size, "int").astype(np.int64), [0]
        for _ in range(count):  # the number of corners stands before them
            places.append(places[-1] + 1 + listed[places[-1]])
        starts = np.array(places) - np.arange(count + 1)
        corners = np.delete(listed, places[:-1])
    if (np.diff(starts, prepend=0) < 0).any() or starts[-1] > len(corners):
        raise InputError(f"expected cells within {len(corners)} corners, got others")
    sizes = np.diff(starts)
    if words := section(b"CELL_TYPES"):
        sizes *= np.isin(numbers(int(words[0]), "int"), (5, 7, 9))  # triangle, polygon, quad
    tables = []
    for size in np.unique(sizes):
        tables.append(corners[starts[:-1][sizes == size, None] + np.arange(size)])
    return points, _triangles(tables)
