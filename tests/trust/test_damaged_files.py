"""Damaged files are one clear line with their name; what a header claims is compared before memory
is taken.
"""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.io.rows import open_rows
from eigenprobe.io.shapes import load
from eigenprobe.io.tables import read_table
from tests.meshes import blob
from tests.trust import files

KINDS = [
    *(f"mesh.{s}" for s in files.MESHES),
    "ascii.ply",
    "grid.vtk",
    "grid.vtu",
    "grid.vtp",
    "scan.las",
    "scan.laz",
]
KINDS += [f"{kind}.pcd" for kind in ("ascii", "binary", "binary_compressed")]
KINDS += [*(f"table.{s}" for s in sorted({*files.CLOUDS, *files.TABLES})), "basis.safetensors"]
TEXT = ("obj", "xyz", "csv", "tsv")  # without a count: a shorter file is a smaller shape


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = files.write_all(tmp_path_factory.mktemp("stock"))
    return {path.name: (path.read_bytes(), readers) for path, readers in found.items()}


def outcome(read: Callable[[Path], Any], path: Path) -> str:
    """``ok`` or ``InputError``; anything else is raised. The message is one line that names the
    file.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(path)
    except InputError as error:
        assert path.name in str(error), error
        assert "\n" not in str(error).strip(), error
        return "InputError"
    return "ok"


@pytest.mark.parametrize("name", KINDS)
def test_truncated_and_scrambled(stock: dict[str, Any], tmp_path: Path, name: str) -> None:
    data, readers = stock[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    path = tmp_path / name
    for read in readers:
        path.write_bytes(data)
        assert outcome(read, path) == "ok"
        for share in (0.1, 0.5, 0.9):
            path.write_bytes(data[: int(share * len(data))])
            assert outcome(read, path) == "InputError" or path.suffix[1:] in TEXT, share
        for _ in range(10):
            scrambled = bytearray(data)
            for place in rng.integers(len(data), size=8):
                scrambled[place] = rng.integers(256)
            path.write_bytes(scrambled)
            outcome(read, path)
        path.write_bytes(rng.bytes(300))
        assert outcome(read, path) == "InputError"


def test_a_shorter_text_mesh_is_not_a_smaller_mesh(tmp_path: Path) -> None:
    vertices, faces = blob(3)
    files.ascii_ply(tmp_path / "whole.ply", vertices, faces)
    lines = (tmp_path / "whole.ply").read_text().splitlines()
    for missing in (1, len(faces), len(faces) + 5):
        (tmp_path / "cut.ply").write_text("\n".join(lines[:-missing]))
        with pytest.raises(InputError, match=r"cut.ply: "):
            load(tmp_path / "cut.ply")
    text = [f"OFF\n{len(vertices)} {len(faces)} 0", *(" ".join(map(str, v)) for v in vertices)]
    text += [f"3 {a} {b} {c}" for a, b, c in faces]
    (tmp_path / "whole.off").write_text("\n".join(text))
    assert load(tmp_path / "whole.off").n == len(vertices)
    (tmp_path / "cut.off").write_text("\n".join(text[:-3]))
    with pytest.raises(InputError, match=r"cut.off: the file ends early"):
        load(tmp_path / "cut.off")


def claims(folder: Path) -> dict[Path, Callable[[Path], Any]]:
    """Small files that claim to be huge."""
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 3)}
    with (npy := folder / "claim.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(2400))
    with zipfile.ZipFile(npz := folder / "claim.npz", "w") as archive:
        archive.writestr("x.npy", npy.read_bytes())
    ply = folder / "claim.ply"
    head = "ply\nformat binary_little_endian 1.0\nelement vertex 1000000000\n"
    ply.write_bytes(
        (head + "property float x\nproperty float y\nproperty float z\nend_header\n").encode()
        + bytes(99)
    )
    (off := folder / "claim.off").write_text("OFF\n1000000000 0 0\n0 0 0\n")
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
    }
    document |= {"meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "mode": 0}]}]}
    document |= {"accessors": [{"componentType": 5126, "count": 10**9, "type": "VEC3"}]}
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    glb = folder / "claim.glb"
    glb.write_bytes(
        struct.pack("<4sIIII", b"glTF", 2, 20 + len(text), len(text), 0x4E4F534A) + text
    )
    entry = json.dumps(
        {"normalized": {"dtype": "F64", "shape": [10**9, 50], "data_offsets": [0, 4 * 10**11]}}
    ).encode()
    tensors = folder / "claim.safetensors"
    tensors.write_bytes(struct.pack("<Q", len(entry)) + entry + bytes(99))
    return {npy: load, npz: load, ply: load, off: load, glb: load, tensors: Basis.load}


def bombs(folder: Path) -> dict[Path, Callable[[Path], Any]]:
    """Small files that would expand to gigabytes."""
    header = {"descr": "<f8", "fortran_order": False, "shape": ((500 << 20) // 8, 1)}
    archive = zipfile.ZipFile(
        npz := folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1
    )
    with archive, archive.open("x.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(500):
            file.write(bytes(1 << 20))
    import h5py
    import pyarrow
    import pyarrow.parquet

    with h5py.File(h5 := folder / "bomb.h5", "w") as store:
        store.create_dataset("features", (10**9, 4), "f8", chunks=(10**5, 4), compression="gzip")
    column = pyarrow.array(np.zeros(10**6))
    table = pyarrow.table({f"x{i}": column for i in range(40)})
    pyarrow.parquet.write_table(table, parquet := folder / "bomb.parquet")
    return {npz: read_table, h5: read_table, parquet: read_table}


@pytest.mark.parametrize("make", [claims, bombs])
def test_claims_are_compared_before_memory_is_taken(
    tmp_path: Path, make: Callable[..., Any]
) -> None:
    for path, read in make(tmp_path).items():
        tracemalloc.start()
        assert outcome(read, path) == "InputError", path
        peak = tracemalloc.get_traced_memory()[
            1
        ]  # asked for, whether or not the system has given it yet
        tracemalloc.stop()
        # numpy asks for what an npz file claims, and touches none of it before the end of the file
        assert peak < 64 << 20 or path.name == "claim.npz", path
        if path.suffix in (".h5", ".parquet"):
            assert outcome(open_rows, path) == "InputError", path


def test_a_basis_must_be_finite_and_fit_together(tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    import eigenprobe as ep

    path = tmp_path / "good.safetensors"
    ep.decompose(np.random.default_rng(0).normal(size=(60, 3)), k=4).save(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    bad = tmp_path / "bad.safetensors"
    for name, tensor in tensors.items():
        spoiled = tensor.clone()
        spoiled.view(-1)[0] = float("nan")
        for value in (spoiled, tensor[:-1].clone(), tensor[..., None].clone()):
            save_file({**tensors, name: value}, bad, metadata=metadata)
            assert outcome(Basis.load, bad) == "InputError", (name, value.shape)
        save_file({key: t for key, t in tensors.items() if key != name}, bad, metadata=metadata)
        assert outcome(Basis.load, bad) == ("ok" if name == "points" else "InputError"), name
    header = json.loads(metadata["eigenprobe"])
    header["extension"]["kind"] = "unknown"
    save_file(tensors, bad, metadata={"eigenprobe": json.dumps(header)})
    assert outcome(Basis.load, bad) == "InputError"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["plain", "sampled", "potential", "cosine"])
def test_a_basis_whose_header_or_precision_was_changed_is_refused_or_used(
    kind: str, tmp_path: Path
) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    if kind == "sampled":  # strays have values and no mass
        x[:6] *= rng.uniform(3, 5, (6, 1))
    made = {"potential": np.abs(x[:, 0])} if kind == "potential" else {}
    path = tmp_path / "a.safetensors"
    ep.decompose(x, 4, metric="cosine" if kind == "cosine" else "euclidean", **made).save(path)
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["eigenprobe"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    def used() -> str:
        found = outcome(Basis.load, path)
        if found == "ok":
            basis = Basis.load(path)
            assert np.isfinite(basis(x[:3])).all() and repr(basis)
            with contextlib.suppress(InputError):
                assert np.isfinite(basis.uncertainty.eigenvalues).all()
        return found

    for name, tensor in tensors.items():
        for other in (
            tensor.to(torch.int8),
            tensor.half().to(torch.float16),
            tensor.double() * 1e300,
            tensor.flip(0),
        ):
            save_file(
                {**tensors, name: other.contiguous()}, path, {"eigenprobe": json.dumps(header)}
            )
            assert used() in ("ok", "InputError"), (name, other.dtype)
    if "lifted" in tensors:
        save_file(
            {**tensors, "lifted": tensors["lifted"][:-1]}, path, {"eigenprobe": json.dumps(header)}
        )
        assert used() == "InputError"
    save_file(
        {name: t for name, t in tensors.items() if name != "points"},
        path,
        {"eigenprobe": json.dumps(header)},
    )
    with pytest.raises(InputError, match=r"expected new points of shape \(m, 3\)"):
        Basis.load(path)(np.ones((2, 5)))
    for place, key in [("info", key) for key in header["info"]] + [
        ("operator", key) for key in header["operator"]
    ]:
        for odd in (None, True, -1, 1e9, "a", "", [], [1], {"a": 1}, float("nan"), 10**400):
            changed = {**header, place: {**header[place], key: odd}}
            save_file(tensors, path, {"eigenprobe": json.dumps(changed)})
            assert used() in ("ok", "InputError"), (place, key, odd)


@pytest.mark.long
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: writing stops in the middle in the same
    way.
    """
    program = (
        "import resource, sys, numpy as np\n"
        "from eigenprobe.cli import main\n"
        "np.savetxt('cloud.xyz', np.random.default_rng(0).normal(size=(300, 3)))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "sys.exit(main('decompose cloud.xyz -k 20 --out full'.split()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 2, done.stderr
    assert "no space left" in done.stderr.splitlines()[-1] and "unexpected" not in done.stderr
    assert not list((tmp_path / "full").iterdir())


@pytest.mark.parametrize("places", [[0, 3, 2**61], [0, 2**61, 6], [-(2**61), 3, 6], [0, 3, 9]])
def test_cells_of_a_grid_lie_within_its_corners(tmp_path: Path, places: list[int]) -> None:
    """A flipped bit of a place made a face of 10^18 corners: 20 GB, and the process was killed."""
    head = (
        b"# vtk DataFile Version 5.1\ntitle\nBINARY\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 double\n"
    )
    points = np.random.default_rng(0).random((4, 3)).astype(">f8").tobytes()
    numbers = [np.array(each, ">i8").tobytes() for each in (places, [0, 1, 2, 1, 2, 3])]
    cells = (
        b"\nCELLS 3 6\nOFFSETS vtktypeint64\n"
        + numbers[0]
        + b"\nCONNECTIVITY vtktypeint64\n"
        + numbers[1]
    )
    path = tmp_path / "grid.vtk"
    path.write_bytes(
        head + points + cells + b"\nCELL_TYPES 2\n" + np.array([5, 5], ">i4").tobytes() + b"\n"
    )
    with pytest.raises(InputError, match=r"grid\.vtk"):
        load(path)


@pytest.mark.parametrize(
    "exponent", ["3000000000", "970013293459", "-4000000000", "99999999999999999999"]
)
def test_an_exponent_beyond_any_number(exponent: str, tmp_path: Path) -> None:
    """pandas' own conversion reads outside its table of powers at some, which ends the process."""
    rows = [["x", "y", "z"], ["1", "2", "3"], [f"1e{exponent}", "2", "3"], ["4", "4", "4"]]
    for name, mark, read in (
        ("a.csv", ",", read_table),
        ("a.tsv", "\t", read_table),
        ("a.xyz", " ", load),
    ):
        (tmp_path / name).write_text("\n".join(mark.join(row) for row in rows))
        assert outcome(read, tmp_path / name) in ("ok", "InputError")
    numbers = np.random.default_rng(0).normal(
        size=(40, 3)
    )  # and what was written with all its digits comes back
    np.savetxt(tmp_path / "b.csv", numbers, fmt="%.17g", delimiter=",", header="a,b,c", comments="")
    np.savetxt(tmp_path / "b.xyz", numbers, fmt="%.17g")
    assert np.array_equal(read_table(tmp_path / "b.csv").features, numbers)
    assert np.array_equal(load(tmp_path / "b.xyz").vertices, numbers)
