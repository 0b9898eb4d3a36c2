"""What scanners write -> points (n, 3), a row for each that the file has.

    las, laz    x = scale * X + offset, X int32                          through laspy
    e57         Cartesian points of all scans, by their poses            through pye57
    pcd         FIELDS x y z ..., ascii, binary, or binary_compressed: LZF (through h5py), one field
                after the other
    ptx         columns, rows, a pose of 4 + 4 lines, then  x y z intensity ...  of every pixel
    bin         KITTI: float32 x y z intensity;  nuScenes: and the number of the ring
    conf        Stanford: bmesh FILE tx ty tz qi qj qk ql;  x -> R(q)^T x + t
    folder      of views, each with a file of its pose (3 x 4 or 4 x 4) beside it:  x -> R x + t

A pixel in which the scanner saw nothing is a row of NaN. Counts in a header are compared with the
length of the file before memory is taken.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, extra
from ..host.files import check_size
from .mesh import Array

AXES = ("x", "y", "z")
HEADER_LINES = 100  # of a pcd file, comments included
POSES = (".pose", ".pose.txt", ".txt")  # endings of the file of a view's pose


def read_las(path: Path) -> Array:
    """The points of a las or laz file, in the unit of its header."""
    laspy = extra("laspy")
    size = path.stat().st_size
    with path.open("rb") as file:  # laspy makes as many records of user data as the header claims
        head = file.read(247).ljust(247, b"\0")
    records = struct.unpack_from("<I", head, 100)[0]
    records += struct.unpack_from("<I", head, 243)[0] if head[25] > 3 else 0
    if 54 * records > size:
        raise InputError(f"{path} ends early: its header claims {records} records")
    with laspy.open(path) as file:
        count, start = file.header.point_count, file.header.offset_to_point_data
        claimed = float(count) * file.header.point_format.size
        if path.suffix.lower() == ".las" and claimed > size:
            raise InputError(f"{path} ends early: its header claims {count} points")
        check_size(path, claimed)
        if path.suffix.lower() == ".laz":
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
        _, chunks = struct.unpack("<II", file.read(8).ljust(8, b"\xff"))
    if chunks > size:  # a chunk takes a byte at least
        raise InputError(f"{path} ends early: its table claims {chunks} chunks in {size} bytes")


def read_e57(path: Path) -> Array:
    """The points of all scans of an E57 file, in the frame of the file."""
    file = extra("pye57").E57(str(path))
    parts = [file.read_scan(i, ignore_missing_fields=True) for i in range(file.scan_count)]
    return np.concatenate(
        [np.column_stack([part[f"cartesian{axis}"] for axis in "XYZ"]) for part in parts]
    )


def read_pcd(path: Path) -> Array:
    """The points of a pcd file."""
    with path.open("rb") as file:
        facts: dict[str, list[str]] = {}
        for line in islice(file, HEADER_LINES):
            words = line.decode("ascii", "replace").split("#")[0].split()
            facts |= {words[0].upper(): words[1:]} if words else {}
            if "DATA" in facts:
                break
        names, kind = [name.lower() for name in facts["FIELDS"]], facts["DATA"][0].lower()
        if missing := set(AXES) - set(names):
            raise InputError(f"{path} has no field {min(missing)!r}, there are {', '.join(names)}")
        sizes = facts.get("POINTS") or [facts["WIDTH"][0], facts["HEIGHT"][0]]
        n, counts = int(np.prod([*map(int, sizes)])), facts.get("COUNT", ["1"] * len(names))
        forms = [
            (name, f"<{form.lower()}{size}", (int(count),))
            for name, form, size, count in zip(
                names, facts["TYPE"], facts["SIZE"], counts, strict=True
            )
        ]
        if n < 1:
            raise InputError(f"{path} holds no points")
        if kind == "ascii":
            before = np.cumsum([0, *map(int, counts)])
            columns = [int(before[names.index(axis)]) for axis in AXES]
            points = np.loadtxt(BytesIO(file.read()), usecols=columns, ndmin=2)
        else:
            layout = np.dtype([(str(i), *form[1:]) for i, form in enumerate(forms)])
            chosen = [str(names.index(axis)) for axis in AXES]
            if kind == "binary_compressed":
                points = _compressed(file, path, n, layout, chosen)
            else:
                data = file.read(min(n * layout.itemsize, path.stat().st_size))
                records = np.frombuffer(data, layout, len(data) // layout.itemsize)
                points = np.column_stack([records[name][:, 0].astype(float) for name in chosen])
    if len(points) != n:
        raise InputError(f"{path} ends early: its header claims {n} points")
    return points


def _compressed(file: Any, path: Path, n: int, layout: np.dtype[Any], names: list[str]) -> Array:
    packed, unpacked = struct.unpack("<II", file.read(8))
    check_size(path, unpacked)
    data = _lzf(file.read(packed), unpacked) if unpacked == n * layout.itemsize else b""
    if not data:
        return np.zeros((0, 3))
    places: Any = layout.fields
    columns = [np.frombuffer(data, layout[name].base, n, n * places[name][1]) for name in names]
    return np.column_stack([column.astype(np.float64) for column in columns])


def _lzf(data: bytes, size: int) -> bytes:
    """What LibLZF has compressed, as the filter of this name of HDF5 reads it; nothing where it is
    damaged.
    """
    with (
        extra("h5py").File("lzf", "w", driver="core", backing_store=False) as file,
        suppress(OSError, ValueError),
    ):
        chunk = file.create_dataset("data", (size,), "u1", chunks=(size,), compression="lzf")
        chunk.id.write_direct_chunk((0,), data)
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
    numbers = np.fromfile(path, "<f4")
    if 4 * len(numbers) == path.stat().st_size and len(numbers) % 5 == 0:
        ring = numbers[4::5]
        if np.isfinite(ring).all() and (ring == ring.round()).all():
            return numbers.reshape(-1, 5)[:, :3]
    if len(numbers) % 4 or 4 * len(numbers) != path.stat().st_size:
        wanted = "x, y, z, intensity (and the ring) in float32, 16 or 20 bytes a point"
        raise InputError(f"{path} must hold {wanted}, got {path.stat().st_size} bytes")
    return numbers.reshape(-1, 4)[:, :3]


Reader = Callable[[Path], Array]


def read_conf(path: Path, read: Reader) -> Array:
    """The views of a Stanford conf file, each read by ``read``, as one cloud."""
    from scipy.spatial.transform import Rotation

    parts = []
    for words in map(str.split, path.read_text(encoding="utf-8").splitlines()):
        if words[:1] in (["bmesh"], ["mesh"]):
            beside = path.parent / Path(words[1]).name
            x, y, z, *quaternion = map(float, words[2:9])
            turn = Rotation.from_quat(quaternion).inv()
            parts.append(turn.apply(read(beside)) + np.array([x, y, z]))
    if not parts:
        raise InputError(f"{path} names no view (lines bmesh FILE tx ty tz qi qj qk ql)")
    return np.concatenate(parts)


def posed_views(folder: Path, endings: tuple[str, ...]) -> Iterator[tuple[Path, Path]]:
    """The views of a folder, sorted by name, and the file of the pose of each."""
    for view in sorted(folder.iterdir()):
        if view.suffix.lower() in endings:
            poses = [view.with_name(view.stem + ending) for ending in POSES]
            if found := [pose for pose in poses if pose.is_file() and pose != view]:
                yield view, found[0]


def read_views(views: list[tuple[Path, Path]], read: Reader) -> Array:
    """Views, each read by ``read`` and moved by its pose, as one cloud."""
    parts = []
    for view, pose in views:
        matrix = np.loadtxt(pose)
        if matrix.shape not in ((3, 4), (4, 4)):
            raise InputError(f"{pose} must hold a pose (3, 4) or (4, 4), got {matrix.shape}")
        parts.append(read(view) @ matrix[:3, :3].T + matrix[:3, 3])
    return np.concatenate(parts)
