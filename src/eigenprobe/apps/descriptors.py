"""Point and shape descriptors of eigenpairs (lambda_j, v_j), j = 1..K.

    heat kernel signature [Sun et al. 2009]     hks_t(x) = sum_j exp(-t lambda_j) v_j(x)^2
    wave kernel signature [Aubry et al. 2011]   wks_e(x) = sum_j g_j v_j(x)^2,
                                                g_j = exp(-(e - log lambda_j)^2 / 2 sigma^2)
    with a source y, v_j(x)^2 becomes v_j(x) v_j(y)
    shape DNA [Reuter et al. 2006]              the sequence of eigenvalues, scaled so that the size
                                                of the shape drops out

Signatures have shape (n, T), or (n, s T) for s sources (all T columns of the first source, then of
the second, ...).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..basis import A, Basis
from ..errors import InputError
from ..host.validation import validated
from .spectral import Array, like, positive, rows, tensors

MOST = 10_000  # columns of a signature
Normalise = Literal["first", "slope", "none"]


def _signature(basis: Basis[A], vectors: Tensor, gains: Tensor, sources: Any, scaled: bool) -> A:
    """sum_j gains_tj v_j(x) v_j(y), y = x without sources."""
    if scaled:
        gains = gains / gains.sum(1, keepdim=True).clamp_min(torch.finfo(gains.dtype).tiny)
    if sources is None:
        return like(basis, vectors**2 @ gains.T)
    index = rows(sources, basis.n, vectors.device)
    weighted = vectors[index][:, None, :] * gains[None]  # (s, T, K)
    return like(basis, vectors @ weighted.reshape(-1, vectors.shape[1]).T)


@validated
def hks(
    basis: Basis[A], times: int | Array = 16, *, sources: Any = None, scaled: bool = False
) -> A:
    """Heat kernel signature: how much heat each point keeps.

    Parameters
    ----------
    basis
        Of the shape.
    times
        How many times, log-spaced from 4 log(10) / lambda_K (local) to 4 log(10) / lambda_2
        (global), or the times themselves ``(T,)``.
    sources
        Points ``(s,)`` that the heat comes from; by default each point keeps its own.
    scaled
        Whether to divide by the heat trace, the sum over all points.

    Returns
    -------
    Array
        ``(n, T)``, or ``(n, s T)`` with sources.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> hks(basis, [0.0]).round(2)[0].tolist()  # five functions, each of mean square 1
    [5.0]
    """
    vectors, _, values = tensors(basis)
    if isinstance(times, (int, np.integer)):
        above = values[positive(values)]
        if not len(above):
            raise InputError("heat times need at least one eigenvalue above zero")
        if not 1 <= times <= MOST:
            raise InputError(f"expected 1 to {MOST} times, got {times}")
        low, high = (4 * math.log(10) / float(v) for v in (above.max(), above.min()))
        times = np.geomspace(low, high, int(times))
    chosen = torch.as_tensor(times).to(values).reshape(-1)
    if not bool((chosen >= 0).all()):
        raise InputError(f"expected times of at least 0, got {float(chosen.min()):.4g}")
    return _signature(basis, vectors, torch.exp(-chosen[:, None] * values), sources, scaled)


@validated
def wks(
    basis: Basis[A],
    energies: int | Array = 64,
    *,
    sigma: float | None = None,
    sources: Any = None,
    scaled: bool = True,
) -> A:
    """Wave kernel signature: how much of a wave of each energy is found at each point.

    Parameters
    ----------
    basis
        Of the shape, with two eigenvalues above zero.
    energies
        How many log-energies, or the values themselves ``(T,)``, which need a ``sigma``.
    sigma
        The width of an energy, seven steps unless given.
    sources
        Points ``(s,)`` that the wave comes from.
    scaled
        Whether each energy is divided by the sum of its gains.

    Returns
    -------
    Array
        ``(n, T)``, or ``(n, s T)`` with sources.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> wks(basis, 16).shape
    (200, 16)
    """
    vectors, _, values = tensors(basis)
    keep = positive(values)
    vectors, logs = vectors[:, keep], values[keep].log()
    if len(logs) < 2:
        raise InputError(
            f"the wave kernel signature needs two eigenvalues above zero, got {len(logs)}"
        )
    if isinstance(energies, (int, np.integer)):
        if not 1 <= energies <= MOST:
            raise InputError(f"expected 1 to {MOST} energies, got {energies}")
        low, high = float(logs.min()), float(logs.max())
        sigma = 7 * (high - low) / energies if sigma is None else sigma
        # Two standard deviations are left free at each end, so that no energy looks past the known
        # spectrum.
        chosen = torch.as_tensor(np.linspace(low + 2 * sigma, high - 2 * sigma, energies)).to(logs)
    elif sigma is None:
        raise InputError("expected sigma together with given energies, got none")
    else:
        chosen = torch.as_tensor(energies).to(logs).reshape(-1)
    if sigma <= 0:
        raise InputError(f"expected sigma > 0, got {sigma}")
    gains = torch.exp(-((chosen[:, None] - logs) ** 2) / (2 * sigma**2))
    return _signature(basis, vectors, gains, sources, scaled)


@validated
def shape_dna(basis: Basis[A], count: int | None = None, *, normalise: Normalise = "first") -> A:
    """Eigenvalues as a fingerprint of a shape, the zeros left out.

    Parameters
    ----------
    basis
        Of the shape.
    count
        How many eigenvalues, all unless given.
    normalise
        "first" divides by the first positive one (no scale is left); "slope" by the slope of a line
        through the first ``count`` (Weyl's law for a surface: it is 4 pi / area); "none" keeps the
        units of the input.

    Returns
    -------
    Array
        ``(count,)``.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> shape_dna(basis).round(1).tolist()
    [1.0, 1.0, 4.0, 4.0]
    """
    values = tensors(basis)[2]
    values = values[positive(values)]
    count = len(values) if count is None else count
    if not 1 <= count <= len(values):
        raise InputError(f"expected 1 <= count <= {len(values)} positive eigenvalues, got {count}")
    values, index = values[:count], torch.arange(1, count + 1).to(values)
    if normalise == "first":
        values = values / values[0]
    elif normalise == "slope":
        values = values * (index @ index) / (index @ values)
    return like(basis, values)


@validated
def shape_dna_distance(
    first: Basis, second: Basis, count: int | None = None, *, normalise: Normalise = "slope"
) -> float:
    """Relative difference of two fingerprints: the root mean square of ``(a_j - b_j) / j``.

    Parameters
    ----------
    first, second
        Bases of the two shapes.
    count, normalise
        As in `shape_dna`; by default as many eigenvalues as both have.

    Returns
    -------
    float

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> shape_dna_distance(basis, basis)
    0.0
    """
    if count is None:
        count = min(len(shape_dna(basis)) for basis in (first, second))
    x, y = (shape_dna(basis.numpy(), count, normalise=normalise) for basis in (first, second))
    return float(np.sqrt(np.square((x - y) / np.arange(1, count + 1)).mean()))


@validated
def retrieve(
    bases: Sequence[Basis], count: int | None = None, **fingerprint: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The shapes that are most like each of several shapes, by `shape_dna_distance`.

    Parameters
    ----------
    bases
        Of ``b`` shapes.
    count, fingerprint
        As in `shape_dna_distance`.

    Returns
    -------
    order
        For each shape the others, nearest first: ``(b, b - 1)``.
    distances
        ``(b, b)``.

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> order, distances = retrieve([basis, basis])
    >>> order.tolist()
    [[1], [0]]
    """
    if len(bases) < 2:
        raise InputError(f"expected at least two bases to compare, got {len(bases)}")
    distances = np.zeros((len(bases), len(bases)))
    for i, j in combinations(range(len(bases)), 2):
        distances[i, j] = distances[j, i] = shape_dna_distance(
            bases[i], bases[j], count, **fingerprint
        )
    order = np.argsort(distances + np.diag(np.full(len(bases), -1.0)), axis=1, kind="stable")[:, 1:]
    return order, distances
