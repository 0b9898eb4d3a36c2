"""Algebraic multigrid for the Laplacian of a smoother: a few coarser copies of ``H = I - A`` and one cycle over them.

    scaled       S = D^-1/2 H D^-1/2,   D = diag H             points in dense spots are no stiffer than others
    aggregates   a maximal independent set of roots, every other point joins the root of a neighbour
    prolongation P = (I - 2/3 S) T,   T[i, a] = sqrt(m_i d_i) on the aggregate a of i, unit columns
    coarse       H <- P^T S P,   G <- P^T D^-1/2 G D^-1/2 P    the same eigenproblem  H y = g G y  on fewer points

P reproduces the known null vectors exactly, so on smooth vectors the coarse problem is as good as the fine one.  One
symmetric V-cycle (one polynomial of degree 1 in S before and after the coarse correction: four products on the finest
level) is a preconditioner for H.  Matrices are built in float64 by scipy and applied in float32 to blocks (n, p).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from ..smoothers.smoother import csr


@dataclass(frozen=True)
class Coarsening:
    """Constants of the hierarchy; `docs/constants.md` has their derivation or ablation."""

    omega: float = 2 / 3  # damping of the prolongation: smoothed aggregation [Vanek, Mandel, Brezina 1996]
    low: float = 0.2  # part of the spectrum of S, [low, high], that smoothing takes care of
    high: float = 1.9
    smallest: int = 400  # points at which coarsening ends: dense algebra takes over
    slowest: float = 0.6  # a level with more than this share of the points above is not worth having


COARSENING = Coarsening()


@dataclass
class Level:
    """``H`` and ``G`` (None: identity) of one level, its null vectors, and the way to the next coarser level."""

    laplacian: Any  # scipy CSR (n, n)
    gram: Any  # scipy CSR (n, n) or None
    known: np.ndarray  # (n, c)
    scale: Tensor  # (n, 1) D^-1/2
    scaled: Tensor  # S
    smooth: Tensor | None = None  # the smoothing polynomial, a matrix with the pattern of S
    down: Tensor | None = None  # P^T
    up: Tensor | None = None  # P
    prolong: Any = None  # scipy CSR D^-1/2 P: coarse vectors to vectors of this level
    inverse: Tensor | None = None  # coarsest: the pseudo-inverse of S

    @property
    def n(self) -> int:
        return self.laplacian.shape[0]


def hierarchy(laplacian: Any, known: np.ndarray, width: int, seed: int = 0) -> list[Level]:
    """Levels from fine to coarse; the coarsest has at least 1.5 ``width`` points."""
    rng = np.random.default_rng(seed)
    gram, levels = None, []
    while True:
        diagonal = laplacian.diagonal()
        root = np.maximum(diagonal, 1e-8 * diagonal.max()) ** -0.5
        scaled = sp.diags_array(root) @ laplacian @ sp.diags_array(root)
        scaled = scaled.tocsr()
        level = Level(laplacian, gram, known, _column(root), matrix(scaled))
        levels.append(level)
        null = known / root[:, None]
        labels, count = aggregate(scaled, rng)
        if level.n <= COARSENING.smallest or 2 * count < 3 * width or count > COARSENING.slowest * level.n:
            level.inverse = _pseudo_inverse(scaled, null)
            return levels
        weight = np.abs(null[:, 0])
        size = np.sqrt(np.bincount(labels, weight**2, minlength=count))
        shape = (level.n, count)
        tentative = sp.csr_array((weight / size[labels], labels, np.arange(level.n + 1)), shape=shape)
        prolong = (tentative - COARSENING.omega * (scaled @ tentative)).tocsr()
        level.up, level.down = matrix(prolong), matrix(prolong.T.tocsr())
        # Minimax on [low, high]: x = (a - b S) r is the second Chebyshev iterate from zero.
        low, high = COARSENING.low, COARSENING.high
        centre, half = (high + low) / 2, (high - low) / 2
        first = 2 * centre / (2 * centre**2 - half**2)
        level.smooth = matrix(2 * first * sp.eye_array(level.n) - first / centre * scaled)
        level.prolong = (sp.diags_array(root) @ prolong).tocsr()
        laplacian = (prolong.T @ (scaled @ prolong)).tocsr()
        gram = (level.prolong.T @ (level.prolong if gram is None else gram @ level.prolong)).tocsr()
        known = tentative.T @ null


def cycle(levels: list[Level], residual: Tensor, at: int = 0) -> Tensor:
    """One V-cycle: an approximation of ``S^-1 residual`` for a block ``(n, p)`` on level ``at``."""
    level = levels[at]
    if level.inverse is not None:
        return level.inverse @ residual
    assert level.smooth is not None and level.up is not None and level.down is not None
    x = level.smooth @ residual
    left = torch.addmm(residual, level.scaled, x, alpha=-1)
    torch.addmm(x, level.up, cycle(levels, level.down @ left, at + 1), out=x)
    torch.addmm(residual, level.scaled, x, alpha=-1, out=left)
    return torch.addmm(x, level.smooth, left, out=x)


def inverse(levels: list[Level], residual: Tensor, at: int = 0) -> Tensor:
    """``S^-1 residual`` to about one digit: two cycles. They are cheap beside the Rayleigh-Ritz step that follows."""
    x = cycle(levels, residual, at)
    return x.add_(cycle(levels, torch.addmm(residual, levels[at].scaled, x, alpha=-1), at))


def aggregate(graph: Any, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Labels ``(n,)`` of connected groups of points, and how many: a random maximal independent set and its rings.

    Luby's rounds: an undecided point becomes a root where its random key is the largest among its undecided neighbours.
    """
    n = graph.shape[0]
    pointers, columns = graph.indptr, graph.indices
    full = np.flatnonzero(np.diff(pointers))  # reduceat cannot do empty rows

    def largest(key: np.ndarray) -> np.ndarray:
        out = key.copy()
        out[full] = np.maximum(out[full], np.maximum.reduceat(key[columns], pointers[full]))
        return out

    key = rng.permutation(n).astype(np.int32)
    state = np.zeros(n, np.int8)  # 1: root, -1: next to one
    while (undecided := state == 0).any():
        state[undecided & (largest(np.where(undecided, key, -1)) == key)] = 1
        state[(state == 0) & (largest((state == 1).astype(np.int8)) == 1)] = -1
    roots = state == 1
    count = int(roots.sum())
    labels = np.full(n, -1, np.int32)
    labels[roots] = np.arange(count)
    alone = labels < 0
    labels[alone] = largest(labels)[alone]
    return labels, count


def matrix(array: Any) -> Tensor:
    """A scipy matrix as a torch one for products: float32, 32-bit indices."""
    scipy = sp.csr_array(array)
    pointers, columns = torch.from_numpy(scipy.indptr), torch.from_numpy(scipy.indices)
    return csr(pointers, columns, torch.from_numpy(scipy.data.astype(np.float32)), scipy.shape)


def _column(values: np.ndarray) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))[:, None]


def _pseudo_inverse(scaled: Any, null: np.ndarray) -> Tensor:
    """Of a dense copy: lift the null vectors to eigenvalue 1, invert, take them out again."""
    basis = np.linalg.qr(null)[0]
    outer = basis @ basis.T
    inverse = np.linalg.inv(scaled.toarray() + outer) - outer
    return torch.from_numpy(((inverse + inverse.T) / 2).astype(np.float32))
