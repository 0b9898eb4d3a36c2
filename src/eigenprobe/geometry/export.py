"""A basis for other programs: its functions as scalars at the points of a shape, or as plain
arrays.

    ply, vtk, vtu   points (n, 3), faces (f, 3), the mass and V (n, K) as scalars v001, v002, ...
    csv             a line per point: coordinates, mass, v001, v002, ...
    npz, mat        points, faces, rows, mass (n,), vectors V (n, K), eigenvalues (K,)

Points of fewer than three dimensions get zeros. In mat files faces and rows count from 1, as Matlab
does.
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
    """Write a basis in the format that the suffix names, whole or not at all.

    Parameters
    ----------
    path
        A ply, vtk, vtu, npz, mat or csv file.
    basis
        With points of at most three dimensions, for ply, vtk and vtu.
    colours
        Bytes ``(n, 3)`` of points in ply.

    Examples
    --------
    >>> import tempfile
    >>> from eigenprobe import decompose
    >>> basis = decompose(np.random.default_rng(0).normal(size=(60, 3)), k=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_functions(f"{folder}/a.csv", basis)
    ...     print(open(f"{folder}/a.csv").readline().strip())
    x,y,z,mass,v001,v002
    """
    target, basis = Path(path), basis.numpy()
    suffix = target.suffix.lower()
    if suffix not in GRIDS + ARRAYS:
        known = ", ".join(GRIDS + ARRAYS)
        raise InputError(f"a basis is written as .safetensors, {known}, got {str(target)!r}")
    if suffix == ".npz":
        return write_npz(target, _arrays(basis, first=0))
    grid = _grid(basis, suffix, colours) if suffix in GRIDS else None
    with atomic_path(target) as temporary:
        if grid is not None:
            grid.write(temporary)
        elif suffix == ".csv":
            _write_columns(temporary, basis)
        else:
            from scipy.io import savemat

            savemat(temporary, _arrays(basis, first=1), oned_as="column", appendmat=False)


def _functions(basis: Basis) -> dict[str, Any]:
    """The mass and the vectors by their names."""
    vectors = {f"v{i:03d}": column for i, column in enumerate(basis.vectors.T, 1)}
    return {"mass": basis.mass} | vectors


def _write_columns(path: Path, basis: Basis) -> None:
    """A line per point: its coordinates, its mass and its entry of every vector."""
    import pandas

    points = np.zeros((basis.n, 0)) if basis.points is None else basis.points
    names = list("xyz") if points.shape[1] <= 3 else [f"x{i}" for i in range(points.shape[1])]
    table = pandas.DataFrame(dict(zip(names, points.T)) | _functions(basis))
    table.to_csv(path, index=False, float_format="%.9g")


def _arrays(basis: Basis, first: int) -> dict[str, Any]:
    names = ("vectors", "eigenvalues", "mass", "points")
    arrays = {name: getattr(basis, name) for name in names}
    for name in ("faces", "rows"):
        index = getattr(basis, name)
        arrays[name] = None if index is None else index + first
    return {name: values for name, values in arrays.items() if values is not None}


def _grid(basis: Basis, suffix: str, colours: Any) -> Any:
    """Points, faces and functions as a mesh of meshio."""
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
    scalars = _functions(basis)
    if colours is not None and suffix == ".ply":
        shades = np.asarray(colours, np.uint8).T
        scalars |= dict(zip(("red", "green", "blue"), shades, strict=True))
    scalars = {name: np.ascontiguousarray(values) for name, values in scalars.items()}
    return extra("meshio").Mesh(points, cells, scalars)
