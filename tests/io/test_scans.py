"""Files of scanners and simulations: what was written comes back, and headers cannot claim more
than the file holds.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.io.shapes import Shape, find_shapes, load, save


def write_las(path: Path, points: np.ndarray) -> None:
    import laspy

    header = laspy.LasHeader(point_format=3, version="1.2")
    header.scales, header.offsets = [1e-4] * 3, points.mean(0)
    file = laspy.LasData(header)
    file.x, file.y, file.z = points.T
    file.write(path)


def lzf(data: bytes) -> bytes:
    """Literal runs, and a repetition (which overlaps itself) wherever the next bytes are all equal
    to the last one.
    """
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
    table = np.zeros(
        n, [("i", "<u4"), ("h", "<f4", (2,)), ("x", "<f4"), ("y", "<f8"), ("z", "<f4")]
    )
    for name, column in zip("xyz", points.T, strict=True):
        table[name] = column
    head = "# .PCD v0.7\nVERSION 0.7\nFIELDS i h x y z\nSIZE 4 4 4 8 4\nTYPE U F F F F\n"
    head += "COUNT 1 2 1 1 1\n"
    head += f"WIDTH {n}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {n}\nDATA {kind}\n"
    if kind == "ascii":
        body = "\n".join(f"0 0 0 {x:.17g} {y:.17g} {z:.17g}" for x, y, z in points).encode()
    elif kind == "binary":
        body = table.tobytes()
    else:
        raw = b"".join(
            np.ascontiguousarray(table[name]).tobytes() for name in table.dtype.names or ()
        )
        packed = lzf(raw)
        body = struct.pack("<II", len(packed), len(raw)) + packed
    path.write_bytes(head.encode() + body)


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
    with pytest.warns(EigenprobeWarning, match=r"a\.pcd: 1 pixels without a return left out"):
        shape = load(path)
    assert (shape.vertices == np.delete(points, 7, 0)).all()
    assert shape.rows.tolist() == np.delete(np.arange(100), 7).tolist()
    with pytest.warns(EigenprobeWarning):
        basis = ep.decompose(path, k=3)
    assert basis.info["rows"] == shape.rows.tolist() and np.array_equal(basis.rows, shape.rows)
    assert any("1 pixels" in line for line in basis.info["warnings"])


def test_bin(tmp_path: Path, points: np.ndarray) -> None:
    """KITTI has four columns and nuScenes five, the last of which is the number of a ring."""
    rng = np.random.default_rng(0)
    path = tmp_path / "a.bin"
    for more in ([rng.random(100)], [rng.random(100), rng.integers(0, 32, 100)]):
        np.column_stack([points, *more]).astype("<f4").tofile(path)
        assert np.array_equal(load(path).vertices, points.astype(np.float32))
    path.write_bytes(bytes(90))
    with pytest.raises(InputError, match="16 or 20 bytes a point, got 90 bytes"):
        load(path)


def test_ptx(tmp_path: Path, points: np.ndarray) -> None:
    """Two scans of 2 x 25 pixels, each with its pose; a pixel at the origin is no return."""
    pose = np.array([[0.0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 1, 0], [1, 2, 3, 1]])
    text, seen = "", points.copy()
    seen[3] = 0
    for part in (seen[:50], seen[50:]):
        rows = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
        text += "2\n25\n" + "\n".join(" ".join(map(str, row)) for row in (*rows, *pose)) + "\n"
        text += "".join(f"{x:.9g} {y:.9g} {z:.9g} 0.5\n" for x, y, z in part)
    (tmp_path / "a.ptx").write_text(text)
    with pytest.warns(EigenprobeWarning, match="1 pixels without a return"):
        shape = load(tmp_path / "a.ptx")
    expected = np.column_stack([-points[:, 1], points[:, 0], points[:, 2]]) + [1, 2, 3]
    assert np.allclose(shape.vertices, np.delete(expected, 3, 0), atol=1e-6)
    (tmp_path / "a.ptx").write_text(text[:-30])
    with pytest.raises(InputError, match=r"ends early|cannot read"):
        load(tmp_path / "a.ptx")


def test_e57(tmp_path: Path, points: np.ndarray) -> None:
    """Two scans with poses; points that the scanner marks as invalid have no return."""
    pye57 = pytest.importorskip("pye57")
    file = pye57.E57(str(tmp_path / "a.e57"), mode="w")
    for number, part in enumerate((points[:60], points[60:])):
        fields = {f"cartesian{axis}": column.copy() for axis, column in zip("XYZ", part.T)}
        fields["cartesianInvalidState"] = (np.arange(len(part)) == 9).astype(np.int8) * 2
        file.write_scan_raw(fields, translation=np.array([1.0, 2, number]))
    file.close()
    with pytest.warns(EigenprobeWarning, match="2 pixels without a return"):
        shape = load(tmp_path / "a.e57")
    kept = np.delete(np.arange(100), [9, 69])
    assert np.array_equal(shape.rows, kept)
    moved = points + np.column_stack([np.ones(100), np.full(100, 2), np.arange(100) >= 60])
    assert np.allclose(shape.vertices, moved[kept], atol=1e-5)
    (tmp_path / "b.e57").write_bytes(b"no such file")
    with pytest.raises(InputError, match=r"b\.e57"):
        load(tmp_path / "b.e57")


def test_pixels_of_a_ply_file(tmp_path: Path, points: np.ndarray) -> None:
    """Depth cameras write all of their pixels; a number that is missing in text is a mistake."""
    points[[5, 50]] = np.nan
    save(Shape(points), path := tmp_path / "a.ply")
    with pytest.warns(EigenprobeWarning, match="2 pixels without a return"):
        assert np.array_equal(load(path).rows, np.delete(np.arange(100), [5, 50]))
    save(Shape(points), path := tmp_path / "a.xyz")
    for read in (path, tmp_path / "a.ply"):
        with pytest.raises(InputError, match="point 5 is"):
            load(read, clean=False)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("way", ["conf", ".pose", ".xf", ".txt"])
def test_views_with_poses_are_one_cloud(tmp_path: Path, points: np.ndarray, way: str) -> None:
    """Views in frames of their own, as Stanford's conf files or matrices beside them move them."""
    from scipy.spatial.transform import Rotation

    lines = ["camera 0 0 0 0 0 0 1"]
    for number, part in enumerate((points[:60], points[60:])):
        turn, shift = Rotation.random(random_state=number), np.array([0.1, 0.2, 0.3]) * number
        save(Shape(turn.inv().apply(part - shift)), tmp_path / f"v{number}.ply")
        if way == "conf":
            numbers = [*shift, *turn.inv().as_quat()]
            lines.append(f"bmesh v{number}.ply " + " ".join(map(str, numbers)))
        else:
            matrix = np.column_stack([turn.as_matrix(), shift])
            np.savetxt(
                tmp_path / f"v{number}{way}", np.vstack([matrix, [0, 0, 0, 1]])[: 3 + number]
            )
    if way == "conf":
        (tmp_path / "all.conf").write_text("\n".join(lines))
        assert np.allclose(load(tmp_path / "all.conf").vertices, points, atol=1e-5)
    assert np.allclose(load(tmp_path).vertices, points, atol=1e-5)
    assert find_shapes([tmp_path]) == [tmp_path]
    (folder := tmp_path / "more" / "views").mkdir(parents=True)
    for file in [each for each in tmp_path.iterdir() if each.is_file()]:
        file.rename(folder / file.name)
    assert find_shapes([tmp_path], below=True) == [folder]
    assert ep.decompose(folder, k=3).n == 100


def test_poses_and_views_that_are_none(tmp_path: Path, points: np.ndarray) -> None:
    """Notes and settings beside shapes are no poses; a pose that is damaged is told."""
    save(Shape(points), tmp_path / "a.ply")
    (tmp_path / "a.txt").write_text("twelve words " * 6)
    (tmp_path / "notes.conf").write_text("colour = red\n")
    assert tmp_path / "a.ply" in find_shapes([tmp_path])
    with pytest.raises(InputError, match="expected a file, or views with a pose each"):
        load(tmp_path / "notes.conf")
    (tmp_path / "notes.conf").write_text("bmesh b.ply 0 0 0 0 0 0 1\n")
    with pytest.raises(InputError, match=r"cannot read .*b\.ply"):
        load(tmp_path / "notes.conf")
    (tmp_path / "notes.conf").write_text("bmesh a.ply 0 0\n")
    with pytest.raises(
        InputError, match="expected lines bmesh FILE tx ty tz qi qj qk ql, cannot read"
    ):
        load(tmp_path / "notes.conf")
    (tmp_path / "notes.conf").unlink()
    (tmp_path / "a.pose").write_text("1 0 0 0\n")
    with pytest.raises(InputError, match=r"a\.pose must hold a pose \(3, 4\) or \(4, 4\)"):
        load(tmp_path)


HEAD = "FIELDS {}\nSIZE {}\nTYPE F F F\nCOUNT 1 1 1\nWIDTH {}\nHEIGHT 1\nDATA {}\n"


@pytest.mark.parametrize(
    "head, body, told",
    [
        (HEAD.format("x y z", "4 4 4", 10**9, "binary"), bytes(99), "cannot read"),
        (HEAD.format("x y z", "4 4 4", 10**9, "ascii"), b"0 0 0\n", "cannot read"),
        (
            HEAD.format("x y z", "4 4 4", 10**8, "binary_compressed"),
            struct.pack("<II", 9, 12 * 10**8),
            "claims 1.2 GB",
        ),
        (
            HEAD.format("x y z", "4 4 4", 9, "binary_compressed"),
            struct.pack("<II", 3, 108) + b"\xff\0\0",
            "cannot read",
        ),
        (
            HEAD.format("x y w", "4 4 4", 9, "binary"),
            bytes(108),
            "no column 'z', there are x, y, w",
        ),
        (HEAD.format("x y z", "4 4 3", 9, "binary"), bytes(108), "cannot read"),
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
    with pytest.raises(InputError, match=r"a.las claims 34 GB of data in a file of 3627 bytes"):
        load(path)


def test_a_header_that_claims_too_many_records_is_one_line(tmp_path: Path) -> None:
    """The reader would make 4e9 empty records of a file of 2 kB: minutes, and all of the memory."""
    write_las(path := tmp_path / "scan.las", np.random.default_rng(0).random((50, 3)))
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 100, 2**32 - 2)
    path.write_bytes(data)
    with pytest.raises(
        InputError, match=r"scan.las: the file ends early: its header claims 231928233876 bytes"
    ):
        load(path)


@pytest.mark.parametrize("damage", ["chunks", "place", "end"])
def test_a_table_of_chunks_that_claims_too_much_is_one_line(tmp_path: Path, damage: str) -> None:
    """The decompressor would take memory for 4e9 chunks, and end the whole process where it gets
    none.
    """
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
    with pytest.raises(
        InputError, match=r"scan.laz: (offset must be|the file ends early: its header)"
    ):
        load(path)
