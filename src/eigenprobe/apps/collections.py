"""Parts of a shape, and shapes like a shape.

segment     k-means of the rows of a spectral embedding E (n, K), each row weighted by its mass
retrieve    D_ij = distance of the fingerprints of shapes i and j (shape DNA), (b, b);  nearest first
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..annotations import door
from ..basis import Basis
from ..errors import InputError
from .arrays import Array, like, tensors
from .descriptors import shape_dna_distance
from .distances import spectral_embedding


@door
def segment(basis: Basis, parts: int, kind: str = "commute", *, time: float | None = None, seed: int = 0) -> Array:
    """A label ``(n,)`` from 0 to ``parts - 1`` for every point: parts that heat leaves slowly; the largest mass first.

    ``kind`` and ``time`` are those of `spectral_embedding`; ``seed`` of the starts of k-means.
    """
    if isinstance(parts, bool) or not 1 <= parts <= basis.n:
        raise InputError(f"expected 1 to {basis.n} parts, got {parts}")
    from sklearn.cluster import KMeans

    rows = np.asarray(torch.as_tensor(spectral_embedding(basis, kind, time=time)).double().cpu())
    mass = tensors(basis)[1].double().cpu().numpy()
    labels = KMeans(parts, n_init=10, random_state=seed).fit(rows, sample_weight=mass).labels_
    order = np.argsort(-np.bincount(labels, mass, minlength=parts), kind="stable")
    place = np.empty(parts, np.int64)
    place[order] = np.arange(parts)
    return like(basis, torch.from_numpy(place[labels]).to(tensors(basis)[0].device))


@door
def retrieve(bases: Sequence[Basis], count: int | None = None, **fingerprint: Any) -> tuple[np.ndarray, np.ndarray]:
    """For each of ``b`` shapes the others, nearest first ``(b, b - 1)``, and all distances ``(b, b)``.

    ``count`` eigenvalues are compared (default: as many as all have) by `shape_dna_distance`.
    """
    if len(bases) < 2:
        raise InputError(f"expected at least two bases to compare, got {len(bases)}")
    distances = np.zeros((len(bases), len(bases)))
    for i, one in enumerate(bases):
        for j in range(i):
            distances[i, j] = distances[j, i] = shape_dna_distance(one, bases[j], count, **fingerprint)
    order = np.argsort(distances + np.diag(np.full(len(bases), -1.0)), axis=1, kind="stable")[:, 1:]
    return order, distances
