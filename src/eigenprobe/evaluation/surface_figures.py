"""The paper's figures of one evaluated shape, drawn on its mesh.

    NAME-METHOD-vectors.png    eigenfunctions of method and oracle with their cosines
    NAME-eigenvalues.png       eigenvalue curves of all methods and the oracle
    NAME-METHOD-mass.png       the mass on the shape, beside true area
    NAME-METHOD-rebuilt.png    coordinates from the first k vectors, method above oracle

Values known at the samples are carried to the mesh's vertices by inverse-distance weights of the nearest samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..basis import Basis
from .alignment import compare_vectors
from .reconstruction import rebuild, rebuild_weighted

if TYPE_CHECKING:
    from .surfaces import Sample

Array = NDArray[Any]
NEIGHBOURS = 4


def draw(folder: Path, sample: Sample, bases: dict[str, Basis], levels: tuple[int, ...]) -> None:
    """All figures of one shape into ``folder``."""
    from ..viz import figures

    folder.mkdir(parents=True, exist_ok=True)
    name = sample.shape.name
    points, faces = sample.points, None
    carry = Carry(None)
    if sample.indices is not None:
        points, faces = sample.shape.vertices, sample.shape.faces
        carry = Carry(sample.points, points)
    curves = {method: basis.eigenvalues for method, basis in bases.items() if method != "oracle"}
    figures.eigenvalue_curves({**curves, "oracle": sample.eigenvalues}, folder / f"{name}-eigenvalues.png", title=name)
    exact = {k: rebuild_weighted(sample.reference, sample.points, k, sample.areas) for k in levels}
    for method, basis in bases.items():
        if method in ("oracle", "robust"):
            continue
        alignment = compare_vectors(basis.vectors, sample.reference, basis.eigenvalues, sample.eigenvalues)
        shown = [i for i in (1, 2, 4, 9, 14, 19, 29, 49) if i < alignment.k]
        figures.against_oracle(
            points,
            carry(basis.vectors),
            carry(sample.reference),
            alignment.cosines,
            faces=faces,
            columns=shown,
            names=(method, "oracle"),
            path=folder / f"{name}-{method}-vectors.png",
        )
        truth = None if sample.indices is None else carry(sample.areas)
        figures.mass(points, carry(basis.mass), faces=faces, reference=truth, path=folder / f"{name}-{method}-mass.png")
        ours = {k: rebuild(basis, sample.points, k) for k in levels}
        moved = {
            who: {k: points + carry(by_k[k] - sample.points) for k in levels}
            for who, by_k in ((method, ours), ("oracle", exact))
        }
        figures.reconstructions(points, moved, faces=faces, path=folder / f"{name}-{method}-rebuilt.png")


class Carry:
    """Values at samples -> values at vertices; with no samples given, the identity."""

    def __init__(self, samples: Array | None, vertices: Array | None = None) -> None:
        self.identity = samples is None or vertices is None
        if samples is None or vertices is None:
            return
        from scipy.spatial import cKDTree

        distances, self.indices = cKDTree(samples).query(vertices, k=min(NEIGHBOURS, len(samples)))
        floor = 1e-6 * max(float(distances.mean()), np.finfo(float).tiny)  # a sample keeps its own value
        weights = 1 / (distances + floor) ** 2
        self.weights = weights / weights.sum(1, keepdims=True)

    def __call__(self, values: Array) -> Array:
        values = np.asarray(values, dtype=np.float64)
        return values if self.identity else np.einsum("vk,vk...->v...", self.weights, values[self.indices])
