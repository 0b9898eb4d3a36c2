"""The paper's figures of one evaluated shape, drawn on its mesh.

    NAME-METHOD-vectors.png    eigenfunctions of method and oracle with their cosines
    NAME-eigenvalues.png       eigenvalue curves of all methods and the oracle
    NAME-METHOD-mass.png       the mass on the shape, beside true area
    NAME-METHOD-rebuilt.png    coordinates from the first k vectors, method above oracle

Values known at the samples are carried to the mesh's vertices by moving least squares: at every vertex the weighted
affine fit to its nearest samples, which keeps smooth functions smooth and linear ones exact.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..basis import Basis
from .areas import rebuild, rebuild_weighted
from .samples import Sample
from .surface_report import PEERS

Array = NDArray[Any]
NEIGHBOURS = 10
PIXELS = 300
SHOWN = (1, 2, 4, 9, 14, 19, 29, 49)  # indices of the vectors in the figures


def draw_shape(folder: Path, sample: Sample, bases: dict[str, Basis], levels: tuple[int, ...]) -> None:
    """All figures of one shape into ``folder``."""
    from ..viz import figures

    folder.mkdir(parents=True, exist_ok=True)
    name = sample.shape.name
    points, faces = sample.points, None
    carry: Callable[[Array], Array] = np.asarray
    if sample.indices is not None:
        points, faces = sample.shape.vertices, sample.shape.faces
        carry = moving_least_squares(sample.points, points)
    curves = {method: basis.eigenvalues for method, basis in bases.items() if method != "oracle"}
    figures.eigenvalue_curves({**curves, "oracle": sample.eigenvalues}, folder / f"{name}-eigenvalues.png", title=name)
    exact = {k: carry(rebuild_weighted(sample.vectors, sample.points, k, sample.areas)) for k in levels}
    share = len(sample.points) / len(points)  # the figure of the mass counts in equal shares of what it is given
    truth = None if sample.indices is None else carry(sample.areas) * share
    for method, basis in bases.items():
        if method in PEERS:
            continue
        alignment = sample.compare(basis.vectors, basis.eigenvalues)
        look: dict[str, Any] = {"faces": faces, "size": PIXELS}
        figures.against_oracle(
            points,
            carry(basis.vectors),
            carry(sample.vectors),
            alignment.cosines,
            columns=[i for i in SHOWN if i < alignment.k],
            names=(method, "oracle"),
            path=folder / f"{name}-{method}-vectors.png",
            **look,
        )
        path = folder / f"{name}-{method}-mass.png"
        figures.mass(points, carry(basis.mass) * share, reference=truth, path=path, **look)
        ours = {k: carry(rebuild(basis, sample.points, k)) for k in levels}
        path = folder / f"{name}-{method}-rebuilt.png"
        figures.reconstructions(points, {method: ours, "oracle": exact}, path=path, **look)


def moving_least_squares(samples: Array, vertices: Array) -> Callable[[Array], Array]:
    """Values at samples (n, ...) -> values at vertices (v, ...)."""
    from scipy.spatial import cKDTree

    distances, indices = cKDTree(samples).query(vertices, k=min(NEIGHBOURS, len(samples)))
    reach = np.maximum(distances[:, -1:], np.finfo(float).tiny)  # (v, 1)
    offsets = (samples[indices] - vertices[:, None]) / reach[..., None]  # (v, k, 3), at most 1
    gain = np.exp(-4 * (distances / reach) ** 2) + 1e-6
    basis = np.concatenate([np.ones_like(offsets[..., :1]), offsets], axis=2)  # (v, k, 4)
    # The slope across the surface is undetermined where its samples are coplanar: a little weight holds it at zero.
    normal = np.einsum("vka,vk,vkb->vab", basis, gain, basis) + np.diag([0.0, 0.02, 0.02, 0.02])
    weights = np.linalg.solve(normal, np.swapaxes(basis * gain[..., None], 1, 2))[:, 0]  # (v, k): value at 0
    return lambda values: np.einsum("vk,vk...->v...", weights, np.asarray(values, np.float64)[indices])
