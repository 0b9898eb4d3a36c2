"""Spectral distances from chosen points: Euclidean distances between rows of an embedding E = V diag(g(lambda)).

    diffusion   g = exp(-t lambda)        d(x, y) = |h_t(x, .) - h_t(y, .)|_M   (Coifman and Lafon 2006)
    commute     g = 1 / sqrt(lambda)      the square is the commute time over the volume
    biharmonic  g = 1 / lambda            smooth at the source, aware of the whole shape (Lipman et al. 2010)

For s sources the result is (n, s); nothing n x n is ever formed unless every point is asked for as a source.  Parts
of a shape are clusters of the same rows, by k-means, each row weighted by its mass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..annotations import door
from ..basis import Basis
from ..errors import InputError
from .arrays import Array, like, positive, rows, tensors

KINDS = ("diffusion", "commute", "biharmonic")


def _embedding(basis: Basis, kind: str, time: float | None) -> Tensor:
    vectors, _, values = tensors(basis)
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    keep = positive(values)
    if not bool(keep.any()):
        raise InputError("a spectral distance needs at least one eigenvalue above zero")
    if kind == "diffusion":
        # Without a time: the scale at which the first mode has decayed by half, a picture of the whole shape.
        time = float(torch.log(torch.tensor(2.0)) / values[keep].min()) if time is None else float(time)
        if time < 0:
            raise InputError(f"expected a diffusion time >= 0, got {time}")
        # The constants of several components must stay: they are what tells the components apart.
        return vectors * torch.exp(-time * values)
    if time is not None:
        raise InputError(f"only the diffusion distance has a time, got time={time} for {kind!r}")
    return vectors[:, keep] * (values[keep] ** (-0.5 if kind == "commute" else -1.0))


@door
def spectral_embedding(basis: Basis, kind: str = "biharmonic", *, time: float | None = None) -> Array:
    """Coordinates (n, K') whose Euclidean distances are the spectral distances (for neighbours, clusters)."""
    return like(basis, _embedding(basis, kind, time))


@door
def distance(basis: Basis, sources: Any, kind: str = "biharmonic", *, time: float | None = None) -> Array:
    """Distances from every point to each source: (n,) for one index, (n, s) for a list of them.

    Between components of a disconnected cloud, commute-time and biharmonic distances compare the components' own modes
    only and do not mean anything; the diffusion distance does.
    """
    embedding = _embedding(basis, kind, time)
    index = rows(sources, basis.n, embedding.device)
    columns = [(embedding - embedding[i]).norm(dim=1) for i in index]
    single = not hasattr(sources, "__len__") and getattr(sources, "ndim", 0) == 0
    return like(basis, columns[0] if single else torch.stack(columns, 1))


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
