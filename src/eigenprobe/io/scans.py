"""What scanners write -> points (n, 3), a row for each that the file has; what simulations write ->
points (n, 3), and faces (f, 3) where there are any.

    las, laz    x = scale * X + offset, X int32                          through laspy
    e57         Cartesian points of all scans, by their poses            through pye57
    pcd         FIELDS x y z ..., ascii, binary, or binary_compressed: LZF (through h5py), one field
                after the other
    ptx         columns, rows, a pose of 4 + 4 lines, then  x y z intensity ...  of every pixel
    vtu         triangles; polygons as fans of them                  through meshio
    vtp         the same, made a vtu file: meshio knows grids only
    vtk         legacy files of grids, and of triangles (POLYDATA), made a grid in the same way
    bin         KITTI: float32 x y z intensity;  nuScenes: and the number of the ring

Several views of one scene have a pose each, R (3, 3) and t (3,):  x -> R x + t

    conf        Stanford: bmesh FILE tx ty tz qi qj qk ql, where R is the inverse of the rotation q
    folder      of views, each with a file of its pose (3 x 4 or 4 x 4) beside it

A pixel in which the scanner saw nothing is a row of NaN.
"""

import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..errors import InputError, extra
from ..host.files import check_size, reading
from .mesh import Array
from .text import pick

FACES = ("triangle", "quad", "polygon")
POSES = (".pose", ".xf", ".pose.txt", ".txt")  # endings of the file of a view's pose


def read_las(path: Path) -> Array:
    """The points of a las or laz file, in the unit of its header."""
    laspy = extra("laspy")
    # laspy takes memory for as many records of 54 bytes as a header claims, and the decompressor
    # for as many chunks, of a byte at least: it ends the process where there is not so much.
    data = np.memmap(path, mode="r")
    start, records = np.frombuffer(data, "<u4", 2, 96).tolist()
    claimed = 54 * records
    if path.suffix.lower() == ".laz":
        (place,) = np.frombuffer(data, "<i8", 1, start)
        if place == -1:  # it is in the last 8 bytes
            (place,) = data[-8:].view("<i8")
        claimed = max(claimed, int(np.frombuffer(data, "<u4", 1, place + 4)[0]))
    if claimed > len(data):
        raise InputError(f"the file ends early: its header claims {claimed} bytes")
    with laspy.open(path, read_evlrs=False) as file:
        count = file.header.point_count
        check_size(path, float(count) * file.header.point_format.size)
        return file.read().xyz.reshape(count, 3)


def read_e57(path: Path) -> Array:
    """The points of all scans of an E57 file, in the frame of the file."""
    file = extra("pye57").E57(str(path))
    parts = [np.zeros((0, 3))]
    for number in range(file.scan_count):
        scan = file.read_scan(number, ignore_missing_fields=True)  # without the invalid points
        raw = file.read_scan_raw(number)
        states = [values for name, values in raw.items() if name.endswith("InvalidState")]
        seen = ~np.any([*states, np.zeros(file.get_header(number).point_count)], axis=0)
        points = np.full((len(seen), 3), np.nan)
        points[seen] = np.column_stack([scan[f"cartesian{axis}"] for axis in "XYZ"])
        parts.append(points)
    return np.concatenate(parts)


def read_pcd(path: Path) -> Array:
    """The points of a pcd file."""
    data = path.read_bytes()
    start = re.search(rb"^DATA.*\n", data, re.MULTILINE).end()  # type: ignore[union-attr]
    lines = [line.split("#")[0].split() for line in data[:start].decode("ascii").splitlines()]
    facts = {words[0].upper(): words[1:] for words in lines if words}
    names = [name.lower() for name in facts["FIELDS"]]
    places = pick(names, len(names), "x,y,z")
    counts = np.array(facts.get("COUNT", ["1"] * len(names)), int)
    n = int(facts["WIDTH"][0]) * int(facts["HEIGHT"][0])
    kind = facts["DATA"][0].lower()
    if kind == "ascii":
        columns = (counts.cumsum() - counts)[places]
        return np.loadtxt(data[start:].splitlines(), usecols=columns).reshape(n, 3)
    widths = np.array(facts["SIZE"], int) * counts
    before, steps = widths.cumsum() - widths, np.full(len(names), widths.sum())
    if kind != "binary":  # the filter of HDF5 reads what LibLZF has compressed
        length, size = np.frombuffer(data, "<u4", 2, start).tolist()
        check_size(path, size)
        with extra("h5py").File("lzf", "w", driver="core", backing_store=False) as file:
            chunk = file.create_dataset("data", (size,), "u1", chunks=(size,), compression="lzf")
            chunk.id.write_direct_chunk((0,), data[start + 8 : start + 8 + length])
            data = chunk[:].tobytes()
        start, before, steps = 0, n * before, widths  # one field after the other
    found = []
    for i in places:
        form = facts["TYPE"][i].lower() + facts["SIZE"][i]
        found.append(np.ndarray(n, form, data, start + before[i], steps[i]))
    return np.stack(found, axis=1, dtype=np.float64)


def read_ptx(path: Path) -> Array:
    """The pixels of all scans of a ptx file, in the frame of the file; (0, 0, 0) is no return."""
    parts = []
    with path.open(encoding="ascii", errors="replace") as file:
        while (line := file.readline()).strip():
            n = int(line) * int(file.readline())
            pose = np.loadtxt(islice(file, 4, 8))  # after that of the scanner; x -> [x 1] pose
            pixels = np.loadtxt(islice(file, n), usecols=(0, 1, 2), ndmin=2).reshape(n, 3)
            seen = (pixels != 0).any(axis=1, keepdims=True)
            parts.append(np.where(seen, pixels @ pose[:3, :3] + pose[3, :3], np.nan))
    return np.concatenate(parts)


def read_bin(path: Path) -> Array:
    """The points of a LiDAR frame without a header. Where the file divides into rows of five, they
    are such if the fifth number is whole everywhere, as rings are and metres are not."""
    numbers, size = np.fromfile(path, "<f4"), path.stat().st_size
    width = 5 if size % 20 == 0 and not (numbers[4::5] % 1).any() else 4
    if size % (4 * width):
        raise InputError(
            "expected x, y, z, intensity (and a whole number of the ring) in float32, "
            f"16 or 20 bytes a point, got {size} bytes"
        )
    return numbers.reshape(-1, width)[:, :3]


def posed_views(place: Path, endings: tuple[str, ...]) -> list[tuple[Path, Array]]:
    """The views that a conf file, or that of a folder, names, or those of a folder with their poses
    beside them, sorted by name: files and poses (3, 4). None of other folders.
    """
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    confs = [file for file in files if file.suffix.lower() == ".conf"]
    if len(confs) == 1 and (views := _conf_views(confs[0])):
        return views
    shapes = [file for file in files if file.suffix.lower() in endings]
    return [(file, pose) for file in shapes if (pose := _pose_beside(file)) is not None]


def _conf_views(conf: Path) -> list[tuple[Path, Array]]:
    from scipy.spatial.transform import Rotation

    views = []
    with reading(conf, "lines bmesh FILE tx ty tz qi qj qk ql"):
        text = conf.read_text(encoding="utf-8")
        for name, words in re.findall(r"^\s*b?mesh\s+(\S+)(.*)", text, re.MULTILINE):
            numbers = np.array(words.split()[:7], dtype=np.float64)
            turn = Rotation.from_quat(numbers[3:]).inv().as_matrix()
            views.append((conf.parent / Path(name).name, np.column_stack([turn, numbers[:3]])))
    return views


def _pose_beside(view: Path) -> Array | None:
    """The pose (3, 4) of a view, if there is a file of it; a txt file may hold anything else."""
    for path in (view.with_name(view.stem + ending) for ending in POSES):
        if path.is_file() and path != view:
            with suppress(ValueError):  # not numbers
                pose = np.loadtxt(path, max_rows=5)
                if pose.size in (12, 16):
                    return pose.reshape(-1, 4)[:3]
            if path.suffix != ".txt":
                raise InputError(f"{path} must hold a pose (3, 4) or (4, 4), got others")
    return None


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
