"""The paper's figures of one evaluated shape, drawn on its mesh.

    NAME-METHOD-vectors.png    eigenfunctions of method and oracle with their cosines
    NAME-eigenvalues.png       eigenvalue curves of all methods and the oracle
    NAME-METHOD-mass.png       the mass on the shape, beside true area
    NAME-METHOD-rebuilt.png    coordinates from the first k vectors, method above oracle

Values known at the samples are carried to the mesh's vertices by moving least squares: at every vertex the weighted
affine fit to its nearest samples, which keeps smooth functions smooth and linear ones exact.
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
NEIGHBOURS = 10
PIXELS = 300


def draw(folder: Path, sample: Sample, bases: dict[str, Basis], levels: tuple[int, ...]) -> None:
    """All figures of one shape into ``folder``."""
    from ..viz import figures

    folder.mkdir(parents=True, exist_ok=True)
    name = sample.shape.name
    points, faces = sample.points, None
    carry = Carry()
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
            size=PIXELS,
            path=folder / f"{name}-{method}-vectors.png",
        )
        share = len(sample.points) / len(points)  # the figure counts in equal shares of what it is given
        truth = None if sample.indices is None else carry(sample.areas) * share
        figures.mass(
            points,
            carry(basis.mass) * share,
            faces=faces,
            reference=truth,
            size=PIXELS,
            path=folder / f"{name}-{method}-mass.png",
        )
        ours = {k: rebuild(basis, sample.points, k) for k in levels}
        rebuilt = {who: {k: carry(by_k[k]) for k in levels} for who, by_k in ((method, ours), ("oracle", exact))}
        figures.reconstructions(points, rebuilt, faces=faces, size=PIXELS, path=folder / f"{name}-{method}-rebuilt.png")


class Carry:
    """Values at samples (n, ...) -> values at vertices (v, ...); with no samples given, the identity."""

    def __init__(self, samples: Array | None = None, vertices: Array | None = None) -> None:
        self.weights: Array | None = None
        if samples is None or vertices is None:
            return
        from scipy.spatial import cKDTree

        distances, self.indices = cKDTree(samples).query(vertices, k=min(NEIGHBOURS, len(samples)))
        reach = np.maximum(distances[:, -1:], np.finfo(float).tiny)  # (v, 1)
        offsets = (samples[self.indices] - vertices[:, None]) / reach[..., None]  # (v, k, 3), at most 1
        gain = np.exp(-4 * (distances / reach) ** 2) + 1e-6
        basis = np.concatenate([np.ones_like(offsets[..., :1]), offsets], axis=2)  # (v, k, 4)
        # The slope across the surface is undetermined where its samples are coplanar: a little weight holds it at zero.
        normal = np.einsum("vka,vk,vkb->vab", basis, gain, basis) + np.diag([0.0, 0.02, 0.02, 0.02])
        self.weights = np.linalg.solve(normal, np.swapaxes(basis * gain[..., None], 1, 2))[:, 0]  # (v, k): value at 0

    def __call__(self, values: Array) -> Array:
        values = np.asarray(values, dtype=np.float64)
        return values if self.weights is None else np.einsum("vk,vk...->v...", self.weights, values[self.indices])
