"""Files of scanners and simulations: what was written comes back, and headers cannot claim more than the file holds."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.readers.shapes import load
from tests.meshes import blob


def write_las(path: Path, points: np.ndarray) -> None:
    import laspy

    header = laspy.LasHeader(point_format=3, version="1.2")
    header.scales, header.offsets = [1e-4] * 3, points.mean(0)
    file = laspy.LasData(header)
    file.x, file.y, file.z = points.T
    file.write(path)


def lzf(data: bytes) -> bytes:
    """Literal runs, and a repetition (which overlaps itself) wherever the next bytes are all equal to the last one."""
    out, at = bytearray(), 0
    while at < len(data):
        run = 0
        while at and at + run < len(data) and run < 264 and data[at + run] == data[at - 1]:
            run += 1
        if run >= 9:  # length 7 and more stands in a byte of its own
            out += bytes([7 << 5, run - 9, 0])
            at += run
        else:
            literal = data[at : at + 32]
            out += bytes([len(literal) - 1]) + literal
            at += len(literal)
    return bytes(out)


def write_pcd(path: Path, points: np.ndarray, kind: str) -> None:
    """x y z among other fields, one of them of two numbers."""
    n = len(points)
    table = np.zeros(n, [("i", "<u4"), ("h", "<f4", (2,)), ("x", "<f4"), ("y", "<f8"), ("z", "<f4")])
    for name, column in zip("xyz", points.T, strict=True):
        table[name] = column
    head = "# .PCD v0.7\nVERSION 0.7\nFIELDS i h x y z\nSIZE 4 4 4 8 4\nTYPE U F F F F\nCOUNT 1 2 1 1 1\n"
    head += f"WIDTH {n}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {n}\nDATA {kind}\n"
    if kind == "ascii":
        body = "\n".join(f"0 0 0 {x:.17g} {y:.17g} {z:.17g}" for x, y, z in points).encode()
    elif kind == "binary":
        body = table.tobytes()
    else:
        raw = b"".join(np.ascontiguousarray(table[name]).tobytes() for name in table.dtype.names or ())
        packed = lzf(raw)
        body = struct.pack("<II", len(packed), len(raw)) + packed
    path.write_bytes(head.encode() + body)


def write_grid(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
    import meshio

    if path.suffix == ".vtp":
        return pytest.importorskip("pyvista").PolyData.from_regular_faces(vertices, faces).save(path)
    meshio.Mesh(vertices, [("triangle", faces[:-1]), ("triangle", faces[-1:])]).write(path)


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32).astype(float)


@pytest.mark.parametrize("suffix", ["las", "laz"])
def test_las(tmp_path: Path, points: np.ndarray, suffix: str) -> None:
    points = points + np.array([4e5, 5e6, 100.0])  # as surveyed: metres from a far origin
    write_las(path := tmp_path / f"a.{suffix}", points)
    shape = load(path)
    assert shape.faces is None and shape.vertices.dtype == np.float64
    assert np.abs(shape.vertices - points).max() <= 0.51e-4


@pytest.mark.parametrize("kind", ["ascii", "binary", "binary_compressed"])
def test_pcd(tmp_path: Path, points: np.ndarray, kind: str) -> None:
    seen = points.copy()
    seen[7] = np.nan  # a direction in which the sensor saw nothing
    write_pcd(path := tmp_path / "a.pcd", seen, kind)
    assert (load(path).vertices == np.delete(points, 7, 0)).all()


@pytest.mark.parametrize("suffix", ["vtk", "vtu", "vtp"])
def test_vtk(tmp_path: Path, suffix: str) -> None:
    vertices, faces = blob(3)
    write_grid(path := tmp_path / f"a.{suffix}", vertices, faces)
    shape = load(path)
    assert (shape.vertices == vertices).all() and (shape.faces == faces).all()


def test_vtp_of_polygons_and_scalars(tmp_path: Path) -> None:
    """Quadrilaterals, lines and data at the points; as text, in base64, and raw, which is told."""
    pyvista, vtk = pytest.importorskip("pyvista"), pytest.importorskip("vtk")
    surface = pyvista.PolyData(np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0]]))
    surface.faces, surface.lines, surface["s"] = [4, 0, 1, 2, 3, 3, 1, 4, 2], [2, 0, 1], np.arange(5.0)
    for mode, encoded in ((vtk.vtkXMLWriter.Ascii, 1), (vtk.vtkXMLWriter.Appended, 1), (vtk.vtkXMLWriter.Appended, 0)):
        writer = vtk.vtkXMLPolyDataWriter()
        writer.SetFileName(str(path := tmp_path / "a.vtp"))
        writer.SetInputData(surface)
        writer.SetDataMode(mode)
        writer.SetEncodeAppendedData(encoded)
        writer.Write()
        if encoded:
            shape = load(path)
            assert shape.vertices[4].tolist() == [2, 0, 0] and len(shape.vertices) == 5
            assert sorted(shape.faces.tolist()) == [[0, 1, 2], [0, 2, 3], [1, 4, 2]]
        else:
            with pytest.raises(InputError, match="got raw ones"):
                load(path)


def test_quadrilaterals_are_two_triangles(tmp_path: Path) -> None:
    import meshio

    square = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    meshio.Mesh(square, [("quad", np.array([[0, 1, 2, 3]]))]).write(tmp_path / "a.vtk")
    assert load(tmp_path / "a.vtk").faces.tolist() == [[0, 1, 2], [0, 2, 3]]


@pytest.mark.parametrize("title", ["a title", ""])
def test_vtk_surfaces(tmp_path: Path, title: str) -> None:
    """As ParaView and PyVista write them, in text: the old and the new way to list cells, a field and lines before."""
    before = "FIELD FieldData 1\ntime 1 2 double\n0 1\nPOINTS 5 float\n0 0 0 1 0 0 1 1 0\n0 1 0 2 0 0\n"
    before += "METADATA\nINFORMATION 0\n\n"
    old = "LINES 1 3\n2 0 1\nPOLYGONS 2 9\n4 0 1 2 3\n3 1 4 2\n"
    new = "LINES 2 2\nOFFSETS vtktypeint64\n0 2\nCONNECTIVITY vtktypeint64\n0 1\n"
    new += "POLYGONS 3 7\nOFFSETS vtktypeint64\n0 4 7\nCONNECTIVITY vtktypeint64\n0 1 2 3 1 4 2\n"
    for version, cells in (("3.0", old), ("5.1", new)):
        head = f"# vtk DataFile Version {version}\n{title}\nASCII\nDATASET POLYDATA\n"
        (path := tmp_path / "a.vtk").write_text(head + before + cells + "POINT_DATA 5\nNORMALS n float\n1 2 3\n")
        shape = load(path)
        assert shape.vertices[4].tolist() == [2, 0, 0] and len(shape.vertices) == 5
        assert sorted(shape.faces.tolist()) == [[0, 1, 2], [0, 2, 3], [1, 4, 2]]


@pytest.mark.parametrize(
    "text, told",
    [
        ("BINARY\nDATASET POLYDATA\nPOINTS 1000000000 double\n0 0 0", "claims 3000000000 numbers"),
        ("ASCII\nDATASET POLYDATA\nPOINTS 2 double\n0 0 0      1 1\n", "ends early: it claims 6 numbers, 5 follow"),
        ("ASCII\nDATASET POLYDATA\nPOINTS 1 double\n0 0 0\nPOLYGONS 1000000000 3\n3 0 0\n", "claims 1000000000 cells"),
        ("ASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS 2 2 2\n", "must hold POLYDATA or an UNSTRUCTURED_GRID, got"),
        ("ASCII\nDATASET POLYDATA\n", "has no POINTS"),
        ("ASCII\nDATASET POLYDATA\nPOINTS 1 float\n0 0 0\nPOLYGONS 1 4\n3 0 1 2\n", "vertices it does not have"),
    ],
)
def test_vtk_files_that_cannot_be_true(tmp_path: Path, text: str, told: str) -> None:
    (path := tmp_path / "a.vtk").write_text("# vtk DataFile Version 3.0\ntitle\n" + text)
    with pytest.raises(InputError, match=told) as caught:
        load(path)
    assert "a.vtk" in str(caught.value)


HEAD = "FIELDS {}\nSIZE {}\nTYPE F F F\nCOUNT 1 1 1\nWIDTH {}\nHEIGHT 1\nDATA {}\n"


@pytest.mark.parametrize(
    "head, body, told",
    [
        (HEAD.format("x y z", "4 4 4", 10**9, "binary"), bytes(99), "ends early: its header claims 1000000000 points"),
        (HEAD.format("x y z", "4 4 4", 10**9, "ascii"), b"0 0 0\n", "ends early: its header claims 1000000000 points"),
        (HEAD.format("x y z", "4 4 4", 10**8, "binary_compressed"), struct.pack("<II", 9, 12 * 10**8), "claims 1.2 GB"),
        (HEAD.format("x y z", "4 4 4", 9, "binary_compressed"), struct.pack("<II", 3, 108) + b"\xff\0\0", "ends early"),
        (HEAD.format("x y w", "4 4 4", 9, "binary"), bytes(108), "no field 'z', there are x, y, w"),
        (HEAD.format("x y z", "4 4 3", 9, "binary"), bytes(108), "cannot read"),
        (HEAD.format("x y z", "4 4 4", -9, "binary"), bytes(108), "claims -9"),
        ("FIELDS x y z\n", b"", "cannot read"),
    ],
)
def test_headers_that_cannot_be_true(tmp_path: Path, head: str, body: bytes, told: str) -> None:
    (path := tmp_path / "a.pcd").write_bytes(head.encode() + body)
    with pytest.raises(InputError, match=told) as caught:
        load(path)
    assert "a.pcd" in str(caught.value)


def test_a_las_file_that_claims_more_than_it_holds(tmp_path: Path, points: np.ndarray) -> None:
    write_las(path := tmp_path / "a.las", points)
    data: Any = bytearray(path.read_bytes())
    data[107:111] = struct.pack("<I", 10**9)  # the number of points
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a.las ends early: its header claims 1000000000 points"):
        load(path)


@pytest.mark.parametrize(("place", "minor"), [(100, 2), (243, 4)])
def test_a_header_that_claims_too_many_records_is_one_line(tmp_path: Path, place: int, minor: int) -> None:
    """The reader would make 4e9 empty records of a file of 2 kB: minutes, and all of the memory."""
    write_las(path := tmp_path / "scan.las", np.random.default_rng(0).random((50, 3)))
    data = bytearray(path.read_bytes())
    data[25] = minor
    struct.pack_into("<I", data, place, 2**32 - 2)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"scan.las ends early: its header claims 429496729\d records"):
        load(path)


@pytest.mark.parametrize("damage", ["chunks", "place", "end"])
def test_a_table_of_chunks_that_claims_too_much_is_one_line(tmp_path: Path, damage: str) -> None:
    """The decompressor would take memory for 4e9 chunks, and end the whole process where it gets none."""
    write_las(path := tmp_path / "scan.laz", np.random.default_rng(0).random((50, 3)))
    data = bytearray(path.read_bytes())
    (start,) = struct.unpack_from("<I", data, 96)
    (place,) = struct.unpack_from("<q", data, start)
    if damage == "chunks":
        struct.pack_into("<I", data, place + 4, 2**32 - 1)
    elif damage == "place":
        struct.pack_into("<q", data, start, len(data) + 1)
    else:  # the place of the table stands at the end of the file, which has none
        struct.pack_into("<q", data, start, -1)
        struct.pack_into("<q", data, len(data) - 8, 2**40)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"scan.laz (is damaged|ends early): its table"):
        load(path)
