"""The same surface sampled evenly and unevenly: does the sampling show in the result?

    density(x) = ratio^t(x),   t from 0 to 1 along the longest axis of the shape

``spaced`` clouds thin a dense drawing by farthest points in the metric ``density^{1/2} |x - y|`` (well spaced at every
density, as a scanner's output is); independent ones are drawn as they fall. The oracle's vectors are interpolated to
the points on the faces. A row compares the even (ratio 1) and the uneven cloud of one shape; n points, K vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..basis import Basis
from ..errors import InputError
from ..geometry import find_shapes, load, oracle
from ..geometry.io import Shape
from ..geometry.sampling import SurfaceSample, draw_surface
from ..progress import track
from .alignment import compare_vectors
from .mass import mass_correlation, nearest_sample_areas

Array = NDArray[Any]
OVERSAMPLING = 8  # candidates a point, before thinning


def graded_sample(shape: Shape, n: int, ratio: float = 10.0, seed: int = 0, *, spaced: bool = True) -> SurfaceSample:
    """``n`` points of a mesh whose density grows by ``ratio`` from one end of its longest axis to the other."""
    if shape.faces is None:
        raise InputError("an uneven resampling needs a mesh, got a point cloud")
    if not ratio >= 1:
        raise InputError(f"expected a density ratio of at least 1, got {ratio}")
    centres = shape.vertices[shape.faces].mean(1)
    axis = int(np.ptp(shape.vertices, axis=0).argmax())
    low, high = shape.vertices[:, axis].min(), shape.vertices[:, axis].max()
    density = ratio ** ((centres[:, axis] - low) / (high - low))
    drawn = draw_surface(shape, OVERSAMPLING * n if spaced else n, seed, density=density)
    if not spaced:
        return drawn
    chosen = _thin(drawn.points, density[drawn.faces], n)
    return SurfaceSample(*(part[chosen] for part in drawn))


def _thin(points: Array, density: Array, n: int) -> Array:
    """Farthest points where squared distances count ``density`` times as much."""
    columns = np.ascontiguousarray(points.T)
    nearest = np.full(len(points), np.inf)
    chosen = np.empty(n, np.int64)
    index = 0
    for t in range(n):
        chosen[t] = index
        total = np.zeros(len(points))
        for column in columns:
            total += (column - column[index]) ** 2
        np.minimum(nearest, total, out=nearest)
        index = int((nearest * density).argmax())
    return chosen


def run(
    paths: Sequence[str | Path],
    *,
    ratio: float = 10.0,
    n: int = 4000,
    k: int = 20,
    seed: int = 0,
    spaced: bool = True,
    options: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """One row a shape: cosines over the first ``k`` on the even and on the uneven cloud, and mass against true area."""
    rows = []
    for path in track(find_shapes([Path(p) for p in paths]), "resampling"):
        shape = load(path)
        if shape.faces is None:
            raise InputError(f"{path} is a point cloud: an uneven resampling needs a mesh")
        exact = oracle(shape.vertices, shape.faces, k)
        row: dict[str, Any] = {"shape": shape.name, "ratio": ratio, "spaced": spaced}
        for name, level in (("even", 1.0), ("uneven", ratio)):
            drawn = graded_sample(shape, n, level, seed, spaced=spaced)
            row |= {f"{key}_{name}": value for key, value in _measure(shape, drawn, exact, k, seed, options).items()}
        row["loss"] = row["cosine_even"] - row["cosine_uneven"]
        rows.append(row)
    return rows


def _measure(
    shape: Shape, drawn: SurfaceSample, exact: Basis, k: int, seed: int, options: dict[str, Any] | None
) -> dict[str, float]:
    from ..decomposition import decompose

    basis = decompose(drawn.points, k=k, seed=seed, **(options or {})).numpy()
    reference = drawn.interpolate(shape, exact.vectors)
    alignment = compare_vectors(basis.vectors, reference, basis.eigenvalues, exact.eigenvalues)
    return {
        "cosine": alignment.cosine(k),
        "matched": alignment.matched(k),
        "discrepancy": alignment.eigenvalue_discrepancy(k),
        "mass": mass_correlation(basis.mass, nearest_sample_areas(shape, drawn.points)),
    }
