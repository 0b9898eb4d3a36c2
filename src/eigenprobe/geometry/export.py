"""A basis for other programs: its functions as scalars at the points of a shape, or as plain arrays.

    ply, vtk, vtu   points (n, 3), faces (f, 3), the mass and V (n, K) as scalars v001, v002, ...   through meshio
    csv             a line per point: coordinates, mass, v001, v002, ...
    npz, mat        points, faces, rows, mass (n,), vectors V (n, K), eigenvalues (K,)

Points of fewer than three dimensions get zeros. In mat files faces and rows count from 1, as Matlab does.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..basis import Basis
from ..errors import InputError, extra
from ..host.files import atomic_path, write_npz

GRIDS, ARRAYS = (".ply", ".vtk", ".vtu"), (".npz", ".mat", ".csv")


def write_functions(path: str | os.PathLike[str], basis: Basis, colours: Any = None) -> None:
    """Write ``basis`` in the format that the suffix names, whole or not at all; ``colours`` (n, 3) of bytes in ply."""
    target, basis = Path(path), basis.numpy()
    suffix = target.suffix.lower()
    if suffix in GRIDS:
        grid = _grid(basis, suffix)
        if colours is not None and suffix == ".ply":
            shades = np.asarray(colours, np.uint8).T
            grid.point_data |= dict(zip(("red", "green", "blue"), map(np.ascontiguousarray, shades), strict=True))
        with atomic_path(target) as temporary:
            grid.write(temporary)
    elif suffix == ".npz":
        write_npz(target, _arrays(basis, first=0))
    elif suffix == ".csv":
        _write_columns(target, basis)
    elif suffix == ".mat":
        from scipy.io import savemat

        with atomic_path(target) as temporary, temporary.open("wb") as file:
            savemat(file, _arrays(basis, first=1), oned_as="column")
    else:
        raise InputError(f"a basis is written as .safetensors, {', '.join(GRIDS + ARRAYS)}, got {str(target)!r}")


def _write_columns(target: Path, basis: Basis) -> None:
    """A line per point: its coordinates, its mass and its entry of every vector."""
    d = 0 if basis.points is None else basis.points.shape[1]
    names = ["x", "y", "z"][:d] if d <= 3 else [f"x{i}" for i in range(d)]
    parts = [*([] if basis.points is None else [basis.points]), basis.mass[:, None], basis.vectors]
    header = ",".join([*names, "mass", *(f"v{i:03d}" for i in range(1, basis.k + 1))])
    with atomic_path(target) as temporary:
        np.savetxt(temporary, np.column_stack(parts), fmt="%.9g", delimiter=",", header=header, comments="")


def _arrays(basis: Basis, first: int) -> dict[str, Any]:
    arrays = {"vectors": basis.vectors, "eigenvalues": basis.eigenvalues, "mass": basis.mass, "points": basis.points}
    indices = {"faces": basis.faces, "rows": basis.rows}
    arrays |= {name: None if values is None else values + first for name, values in indices.items()}
    return {name: values for name, values in arrays.items() if values is not None}


def _grid(basis: Basis, suffix: str) -> Any:
    meshio = extra("meshio")
    d = 0 if basis.points is None else basis.points.shape[1]
    if basis.points is None or d > 3:
        most = f"a {suffix[1:]} file holds points of at most 3 dimensions"
        raise InputError(f"{most}, got {d or 'none'}: write .npz or .mat")
    points = np.pad(basis.points.astype(np.float64), ((0, 0), (0, 3 - d)))
    if basis.faces is not None:
        cells = [("triangle", basis.faces.astype(np.int32))]
    elif suffix == ".ply":
        cells = []
    else:  # VTK draws cells only
        cells = [("vertex", np.arange(basis.n, dtype=np.int32)[:, None])]
    scalars = {"mass": basis.mass} | {f"v{i:03d}": column for i, column in enumerate(basis.vectors.T, 1)}
    return meshio.Mesh(points, cells, {name: np.ascontiguousarray(values) for name, values in scalars.items()})
