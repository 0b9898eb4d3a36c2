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
        raise InputError(
            f"a basis is written as .safetensors, {', '.join(GRIDS + ARRAYS)}, got {str(target)!r}"
        )
    if suffix == ".npz":
        return write_npz(target, _arrays(basis, first=0))
    grid = _grid(basis, suffix, colours) if suffix in GRIDS else None
    with atomic_path(target) as temporary:
        if grid is not None:
            grid.write(temporary)
        elif suffix == ".csv":  # a line per point: its coordinates, mass and entry of every vector
            import pandas

            points = np.zeros((basis.n, 0)) if basis.points is None else basis.points
            d = points.shape[1]
            names = list("xyz") if d <= 3 else [f"x{i}" for i in range(d)]
            table = pandas.DataFrame(dict(zip(names, points.T)) | _functions(basis))
            table.to_csv(temporary, index=False, float_format="%.9g")
        else:
            from scipy.io import savemat

            savemat(temporary, _arrays(basis, first=1), oned_as="column", appendmat=False)


def _functions(basis: Basis) -> dict[str, Any]:
    """The mass and the vectors by their names."""
    vectors = {f"v{i:03d}": column for i, column in enumerate(basis.vectors.T, 1)}
    return {"mass": basis.mass} | vectors


def _arrays(basis: Basis, first: int) -> dict[str, Any]:
    names = ("vectors", "eigenvalues", "mass", "points", "faces", "rows")
    arrays = {name: values for name in names if (values := getattr(basis, name)) is not None}
    return arrays | {name: arrays[name] + first for name in ("faces", "rows") if name in arrays}


def _grid(basis: Basis, suffix: str, colours: Any) -> Any:
    """Points, faces and functions as a mesh of meshio."""
    d = 0 if basis.points is None else basis.points.shape[1]
    if basis.points is None or d > 3:
        raise InputError(
            f"a {suffix[1:]} file holds points of at most 3 dimensions, got {d or 'none'}: "
            "write .npz or .mat"
        )
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
