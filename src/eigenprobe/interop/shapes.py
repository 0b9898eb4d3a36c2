"""Shapes of other libraries with our operators inside, or with values on them to draw.

equip         pyFM's TriMesh, GeomFuM's shapes: L, M, lambda (k,), V (n, k) with V^T M V = I, in place
with_scalars  trimesh, Open3D, PyVista: a copy that carries f (n,), as colours or as point data
"""

import copy
from typing import Any

import numpy as np
from torch import Tensor

from ..annotations import as_array
from ..cloud import Array, check_points, points_and_faces
from ..decomposition import smoothed
from ..eigen import Span, basis_from_span, solve
from ..errors import InputError, extra
from ..graph.arranged import Arranged
from ..host.threads import limited_threads
from ..operators import matrices
from ..smoothers import Smoother


def solved(x: Tensor, k: int, **options: Any) -> tuple[Arranged, Smoother, dict[str, Any]]:
    """The first ``k`` pairs of float64 points ``(n, d)``, by pyFM's names, and their origin; options of the smoother.

    ``eigenvectors^T mass eigenvectors = I`` for a mass in length^dim.
    """
    with limited_threads(x.device, len(x)):
        cloud, smoother = smoothed(x, k, **options)
        smoother.warn_of_parts()
        pairs = solve(smoother, k)
        basis = basis_from_span(Span(pairs.vectors, pairs.gaps), smoother, k, cloud).numpy()
        stiffness, mass = matrices(cloud, smoother)
    vectors = basis.normalized / np.sqrt(mass.diagonal())[:, None]
    found = {"stiffness": stiffness, "mass": mass, "eigenvalues": basis.eigenvalues, "eigenvectors": vectors}
    return cloud, smoother, found


def equip(shape: Any, k: int = 100, **options: Any) -> Any:
    """The same object with the basis and the matrices of its points inside; its faces are kept and not used.

    pyFM's ``TriMesh`` gets ``stiffness``, ``mass``, ``eigenvalues`` and ``eigenvectors``; shapes of GeomFuM get their
    ``laplacian`` and ``basis``. ``options`` are ``neighbours`` and ``dimension`` of `decompose`.
    """
    fum, pyfm = hasattr(shape, "set_basis"), hasattr(shape, "eigenvectors")
    if not (fum or pyfm) or getattr(shape, "vertices", None) is None:
        raise InputError(f"expected a TriMesh of pyFM or a shape of GeomFuM, got {type(shape).__name__}")
    *_, found = solved(check_points(np.asarray(shape.vertices), k)[0], k, **options)
    if fum:
        gs, bases = extra("gsops.backend"), extra("geomfum.basis")
        sparse = tuple(gs.sparse.from_scipy_csc(matrix.tocsc()) for matrix in (found["stiffness"], found["mass"]))
        basis = bases.LaplaceEigenBasis(shape, *(gs.asarray(found[name]) for name in ("eigenvalues", "eigenvectors")))
        shape.laplacian.find(lambda _: sparse, recompute=True)
        shape.laplacian.find_spectrum(laplacian_spectrum_finder=lambda *_, **__: basis, recompute=True)
        return shape
    for name, value in found.items():
        setattr(shape, name, value)
    return shape


def with_scalars(shape: Any, values: Array, *, name: str = "eigenprobe", colours: str = "RdBu_r") -> Any:
    """A copy of a mesh or cloud of trimesh, Open3D or PyVista that carries a function ``values (n,)``.

    PyVista gets point data of this ``name`` and draws them itself; the others get colours of a matplotlib map, with 0
    in its middle where the function has both signs.
    """
    points, _ = points_and_faces(shape)
    f = as_array(values, float)
    if hasattr(points, "shape") and f.shape != (len(points),):
        raise InputError(f"expected values of shape ({len(points)},), got {f.shape}")
    if hasattr(shape, "point_data"):
        result = shape.copy()
        result.point_data[name] = f
        return result
    from matplotlib import colormaps

    low, high = float(f.min()), float(f.max())
    if low < 0 < high:
        low, high = -max(-low, high), max(-low, high)
    shades = colormaps[colours]((f - low) / max(high - low, np.finfo(float).tiny))  # (n, 4)
    if hasattr(shape, "visual"):
        result = shape.copy()
        result.visual.vertex_colors = (255 * shades).round().astype(np.uint8)
        return result
    place = next((attribute for attribute in ("vertex_colors", "colors") if hasattr(shape, attribute)), None)
    if place is None:
        raise InputError(f"expected a mesh or cloud of trimesh, Open3D or PyVista, got {type(shape).__name__}")
    result = copy.deepcopy(shape)
    kind = type(getattr(result, place))  # Open3D's own vector of numbers
    setattr(result, place, kind(np.ascontiguousarray(shades[:, :3])))
    return result
