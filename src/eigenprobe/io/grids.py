"""What simulations write -> points (n, 3), and faces (f, 3) where there are any, through meshio.

    vtu    triangles; polygons as fans of them
    vtp    the same, made a vtu file: meshio knows grids only
    vtk    legacy files of grids, and of triangles (POLYDATA), made a grid in the same way
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..errors import InputError, extra
from ..host.files import check_size
from .mesh import Array

FACES = ("triangle", "quad", "polygon")


def read_vtu(path: Path) -> tuple[Array, Array | None]:
    """Points (n, 3) and triangles (f, 3) of a grid, which share the first corner of its cell; other
    cells than faces only give their points.
    """
    read = extra("meshio.vtk").read if path.suffix == ".vtk" else extra("meshio.vtu._vtu").read
    grid, faces = read(path), [np.zeros((0, 3), np.int64)]
    for cells in grid.cells:
        if cells.type in FACES:
            corners = range(2, cells.data.shape[1])
            faces += [cells.data[:, [0, i - 1, i]].astype(np.int64) for i in corners]
    triangles = np.concatenate(faces)
    return np.asarray(grid.points, np.float64), triangles if len(triangles) else None


def read_vtp(path: Path) -> tuple[Array, Array | None]:
    """The same of a vtp file."""
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
    return _rewritten(path.with_suffix(".vtu"), head + marker + appended)


def read_vtk(path: Path) -> tuple[Array, Array | None]:
    """The same of a legacy file."""
    # meshio does not read all that VTK writes at points and cells.
    data = re.split(rb"\n(?:POINT|CELL)_DATA ", path.read_bytes())[0]
    if found := re.search(rb"\nPOLYGONS (\d+) (\d+)", data):
        new = data.startswith(b"# vtk DataFile Version 5")  # lists where cells begin, not sizes
        count, size = int(found[1]) - new, int(found[2])
        if size != (4 - new) * count:
            raise InputError("expected a surface of triangles: convert it to ply, obj or vtp")
        check_size(path, 4.0 * count)
        types = (b"5 " if b"\nASCII" in data[:300] else b"\0\0\0\5") * count
        data = data.replace(b"\nDATASET POLYDATA", b"\nDATASET UNSTRUCTURED_GRID", 1)
        data = data.replace(b"\nPOLYGONS", b"\nCELLS", 1)
        data += b"\nCELL_TYPES %d\n%b\n" % (count, types)
    return _rewritten(path, data)


def _rewritten(path: Path, data: bytes) -> tuple[Array, Array | None]:
    with TemporaryDirectory() as folder:
        same = Path(folder) / path.name.lower()
        same.write_bytes(data)
        return read_vtu(same)
