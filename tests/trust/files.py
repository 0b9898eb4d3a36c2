"""One small valid file of every kind that is read, and the readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from eigenprobe.basis import Basis
from eigenprobe.io.rows import open_rows
from eigenprobe.io.shapes import Shape, load, save
from eigenprobe.io.tables import read_table
from tests.io.test_grids import write_grid
from tests.io.test_scans import write_las, write_pcd
from tests.meshes import blob

MESHES = ("obj", "off", "ply", "stl", "glb")
CLOUDS = ("xyz", "csv", "npy", "npz")
TABLES = ("npy", "npz", "csv", "tsv", "parquet", "h5", "h5ad")


def rows(path: Path) -> None:
    """All of a table through the reader by rows."""
    for _ in (opened := open_rows(path)).blocks(7):
        pass
    opened.take(np.arange(min(3, opened.shape[0])))


def write_all(folder: Path) -> dict[Path, list[Callable[[Path], Any]]]:
    """Every kind of file, with the readers that take it."""
    rng = np.random.default_rng(0)
    vertices, faces = blob(3)
    found: dict[Path, list[Callable[[Path], Any]]] = {}
    for suffix in MESHES:
        save(Shape(vertices, faces), path := folder / f"mesh.{suffix}")
        found[path] = [load]
    for write, name in (
        (ascii_ply, "ascii.ply"),
        (write_grid, "grid.vtk"),
        (write_grid, "grid.vtu"),
        (write_grid, "grid.vtp"),
    ):
        write(path := folder / name, vertices, faces)
        found[path] = [load]
    for name in ("ascii", "binary", "binary_compressed"):
        write_pcd(path := folder / f"{name}.pcd", vertices, name)
        found[path] = [load]
    for name in ("scan.las", "scan.laz"):
        write_las(path := folder / name, vertices)
        found[path] = [load]
    table = rng.normal(size=(20, 4))
    for suffix in sorted({*CLOUDS, *TABLES}):
        write_table(path := folder / f"table.{suffix}", table)
        found[path] = [load] * (suffix in CLOUDS) + [read_table, rows] * (suffix in TABLES)
    q, _ = np.linalg.qr(rng.normal(size=(20, 3)))
    Basis(q, np.full(20, 0.05), np.arange(3.0), table).save(path := folder / "basis.safetensors")
    found[path] = [Basis.load]
    return found


def ascii_ply(path: Path, vertices: np.ndarray, faces: np.ndarray) -> None:
    """A mesh as text, as scanners write it."""
    head = f"ply\nformat ascii 1.0\nelement vertex {len(vertices)}\n"
    head += "property float x\nproperty float y\nproperty float z\n"
    head += f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    lines = [" ".join(map(str, v)) for v in vertices] + [f"3 {a} {b} {c}" for a, b, c in faces]
    path.write_text(head + "\n".join(lines) + "\n")


def write_table(path: Path, table: np.ndarray) -> None:
    """``table`` in the format that the suffix names."""
    names = [f"x{i}" for i in range(table.shape[1])]
    suffix = path.suffix[1:]
    if suffix == "npy":
        np.save(path, table)
    elif suffix == "npz":
        np.savez_compressed(path, x=table, labels=np.arange(len(table)))
    elif suffix == "h5":
        import h5py

        with h5py.File(path, "w") as file:
            file.create_dataset("features", data=table, compression="gzip")
    elif suffix == "h5ad":
        from tests.io.test_tables import write_h5ad

        write_h5ad(path, csr_matrix(table))
    elif suffix == "parquet":
        import pandas

        pandas.DataFrame(table, columns=names).to_parquet(path)
    else:
        mark = {"csv": ",", "tsv": "\t", "xyz": " "}[suffix]
        np.savetxt(
            path,
            table,
            delimiter=mark,
            header="" if suffix == "xyz" else mark.join(names),
            comments="",
        )
