"""What scanners write -> points (n, 3), a row for each that the file has.

    las, laz    x = scale * X + offset, X int32                          through laspy
    e57         Cartesian points of all scans, by their poses            through pye57
    pcd         FIELDS x y z ..., ascii, binary, or binary_compressed: LZF (through h5py), one field
                after the other
    ptx         columns, rows, a pose of 4 + 4 lines, then  x y z intensity ...  of every pixel
    bin         KITTI: float32 x y z intensity;  nuScenes: and the number of the ring

Several views of one scene have a pose each, R (3, 3) and t (3,):  x -> R x + t

    conf        Stanford: bmesh FILE tx ty tz qi qj qk ql, where R is the inverse of the rotation q
    folder      of views, each with a file of its pose (3 x 4 or 4 x 4) beside it

A pixel in which the scanner saw nothing is a row of NaN.
"""

import struct
from contextlib import suppress
from io import BytesIO
from itertools import islice
from pathlib import Path

import numpy as np

from ..errors import InputError, extra
from ..host.files import check_size, reading
from .mesh import Array

AXES = ("x", "y", "z")
HEADER_LINES = 100  # of a pcd file, comments included
POSES = (".pose", ".xf", ".pose.txt", ".txt")  # endings of the file of a view's pose
POSE_LENGTH = 2000  # characters: 16 numbers with all their digits take 400


def read_las(path: Path) -> Array:
    """The points of a las or laz file, in the unit of its header."""
    laspy = extra("laspy")
    size = path.stat().st_size
    with path.open("rb") as file:  # laspy makes as many records of user data as the header claims
        (records,) = struct.unpack_from("<100xI", file.read(104).ljust(104, b"\0"))
    if 54 * records > size:
        raise InputError(f"{path} ends early: its header claims {records} records")
    with laspy.open(path, read_evlrs=False) as file:
        count, start = file.header.point_count, file.header.offset_to_point_data
        claimed = float(count) * file.header.point_format.size
        packed = path.suffix.lower() == ".laz"
        if not packed and claimed > size:
            raise InputError(f"{path} ends early: its header claims {count} points")
        check_size(path, claimed)
        if packed:
            _check_chunks(path, start, size)
        points = file.read()
    if len(points) < count:
        raise InputError(f"{path} ends early: {len(points)} of {count} points")
    return np.column_stack([np.asarray(getattr(points, axis), np.float64) for axis in AXES])


def _check_chunks(path: Path, start: int, size: int) -> None:
    """The decompressor takes memory for as many chunks as the table of a laz file claims, and ends
    the process if there is not so much. Where the table lies is said in the first 8 bytes of the
    points, or (-1) in the last of the file.
    """
    with path.open("rb") as file:
        for at in (start, size - 8):
            file.seek(at)
            (place,) = struct.unpack("<q", file.read(8))
            if place != -1:
                break
        file.seek(min(max(place, 0), size))
        (chunks,) = struct.unpack("<4xI", file.read(8).ljust(8, b"\xff"))
    if chunks > size:  # a chunk takes a byte at least
        raise InputError(f"{path} ends early: its table claims {chunks} chunks in {size} bytes")


def read_e57(path: Path) -> Array:
    """The points of all scans of an E57 file, in the frame of the file."""
    file = extra("pye57").E57(str(path))
    parts = [np.zeros((0, 3))]
    for number in range(file.scan_count):
        header = file.get_header(number)
        scan = file.read_scan(number, ignore_missing_fields=True)  # without the invalid points
        seen = np.ones(header.point_count, dtype=bool)
        for state in header.point_fields:
            if state.endswith("InvalidState"):
                values, buffers = file.make_buffers([state], header.point_count)
                header.points.reader(buffers).read()
                seen &= values[state] == 0
        points = np.full((header.point_count, 3), np.nan)
        points[seen] = np.column_stack([scan[f"cartesian{axis}"] for axis in "XYZ"])
        parts.append(points)
    return np.concatenate(parts)


def read_pcd(path: Path) -> Array:
    """The points of a pcd file."""
    facts: dict[str, list[str]] = {}
    with path.open("rb") as file:
        for line in islice(file, HEADER_LINES):
            words = line.decode("ascii", "replace").split("#")[0].split()
            facts |= {words[0].upper(): words[1:]} if words else {}
            if "DATA" in facts:
                break
        data = file.read()
    names, kind = [name.lower() for name in facts["FIELDS"]], facts["DATA"][0].lower()
    if missing := set(AXES) - set(names):
        raise InputError(f"{path} has no field {min(missing)!r}, there are {', '.join(names)}")
    n = int(facts["WIDTH"][0]) * int(facts["HEIGHT"][0])
    counts = [int(count) for count in facts.get("COUNT", ["1"] * len(names))]
    places = [names.index(axis) for axis in AXES]
    if kind == "ascii":
        columns = [sum(counts[:place]) for place in places]
        points = np.loadtxt(BytesIO(data), usecols=columns, ndmin=2)
    else:
        forms = [form.lower() + size for form, size in zip(facts["TYPE"], facts["SIZE"])]
        packed = kind == "binary_compressed"
        widths = [n * count if packed else count for count in counts]
        layout = np.dtype([(str(i), f, (w,)) for i, (f, w) in enumerate(zip(forms, widths))])
        data = _unpacked(data, path) if packed else data
        records = np.frombuffer(data, layout, min(1 if packed else n, len(data) // layout.itemsize))
        first = [records[str(i)].reshape(-1, counts[i])[:, 0] for i in places]
        points = np.column_stack(first).astype(np.float64)
    if len(points) != n:
        raise InputError(f"{path} ends early: its header claims {n} points")
    return points


def _unpacked(data: bytes, path: Path) -> bytes:
    """What LibLZF has compressed, as the filter of this name of HDF5 reads it; nothing where it is
    damaged.
    """
    length, size = struct.unpack_from("<II", data)
    check_size(path, size)
    with (
        extra("h5py").File("lzf", "w", driver="core", backing_store=False) as file,
        suppress(OSError, ValueError),
    ):
        chunk = file.create_dataset("data", (size,), "u1", chunks=(size,), compression="lzf")
        chunk.id.write_direct_chunk((0,), data[8 : 8 + length])
        return chunk[:].tobytes()
    return b""


def read_ptx(path: Path) -> Array:
    """The pixels of all scans of a ptx file, in the frame of the file; (0, 0, 0) is no return."""
    parts = []
    with path.open(encoding="ascii", errors="replace") as file:
        while (line := file.readline()).strip():
            n = int(line) * int(file.readline())
            if not 0 <= 2 * n <= path.stat().st_size:
                raise InputError(f"{path} ends early: a scan claims {n} pixels")
            pose = np.loadtxt(islice(file, 4, 8))  # after that of the scanner; x -> [x 1] pose
            pixels = np.loadtxt(islice(file, n), usecols=(0, 1, 2), ndmin=2)
            if len(pixels) != n:
                raise InputError(f"{path} ends early: {len(pixels)} of {n} pixels of a scan")
            seen = (pixels != 0).any(axis=1, keepdims=True)
            parts.append(np.where(seen, pixels @ pose[:3, :3] + pose[3, :3], np.nan))
    return np.concatenate(parts)


def read_bin(path: Path) -> Array:
    """The points of a LiDAR frame without a header. Where the file divides into rows of five, they
    are such if the fifth number is whole everywhere, as rings are and metres are not."""
    size = path.stat().st_size
    if size % 16 and size % 20:
        wanted = "x, y, z, intensity (and the ring) in float32, 16 or 20 bytes a point"
        raise InputError(f"{path} must hold {wanted}, got {size} bytes")
    numbers = np.fromfile(path, "<f4")
    ring = numbers[4::5]
    rings = size % 20 == 0 and bool((ring == ring.round()).all())
    if size % 16 and not rings:
        raise InputError(f"{path} must hold whole numbers of rings in rows of five, got others")
    return numbers.reshape(-1, 5 if rings else 4)[:, :3]


def posed_views(place: Path, endings: tuple[str, ...]) -> list[tuple[Path, Array]]:
    """The views that a conf file, or that of a folder, names, or those of a folder with their poses
    beside them, sorted by name: files and poses (3, 4). None of other folders.
    """
    confs = [*place.glob("*.conf")] if place.is_dir() else [place]
    if len(confs) == 1 and (views := _conf_views(confs[0])):
        return views
    files = sorted(place.iterdir()) if place.is_dir() else []
    beside = {file: _pose_beside(file) for file in files if file.suffix.lower() in endings}
    return [(file, pose) for file, pose in beside.items() if pose is not None]


def _conf_views(conf: Path) -> list[tuple[Path, Array]]:
    from scipy.spatial.transform import Rotation

    views = []
    with reading(conf):
        lines = [line.split() for line in conf.read_text(encoding="utf-8").splitlines()]
        for words in lines:
            if words[:1] not in (["bmesh"], ["mesh"]):
                continue
            if len(words) < 9:
                wanted = "expected bmesh FILE tx ty tz qi qj qk ql"
                raise InputError(f"{conf}: {wanted}, got {' '.join(words)!r}")
            numbers = np.array(words[2:9], dtype=np.float64)
            turn = Rotation.from_quat(numbers[3:]).inv().as_matrix()
            views.append((conf.parent / Path(words[1]).name, np.column_stack([turn, numbers[:3]])))
    return views


def _pose_beside(view: Path) -> Array | None:
    """The pose (3, 4) of a view, if there is a file of it; a txt file may hold anything else."""
    for ending in POSES:
        path = view.with_name(view.stem + ending)
        if not path.is_file() or path == view:
            continue
        with path.open(encoding="utf-8", errors="replace") as file:
            words = file.read(POSE_LENGTH).split()
        if len(words) in (12, 16):
            with suppress(ValueError):  # not numbers
                return np.array(words, dtype=np.float64).reshape(-1, 4)[:3]
        if ending != ".txt":
            raise InputError(f"{path} must hold a pose (3, 4) or (4, 4), got others")
    return None
