"""Eigenpairs whose gaps 1 - mu are far below the residual that other solvers stop at: Lanczos on a shifted factor.

    G = I - A,   (G + s I)^-1 q = (g + s)^-1 q       s: the second gap as far as it is known, so that g / s is about 1

A potential of 1e8, or a measure with as much on some points, makes the step of the smoother so short that all gaps of
smooth functions are 1e-8 to 1e-13; a residual of 1e-6 then says nothing about them. The factor sees them as they are.
"""

import numpy as np
import torch

from ..smoothers import Smoother
from .problem import Eigenpairs, SparseOperator

LARGEST = 50_000  # points up to which a factor of a graph of any dimension is affordable
ROUNDS = 3  # the first gap is too large by the error that is to be removed
SETTLED = 1e-3  # relative change of the gaps of the last round


def solve_shifted(smoother: Smoother, k: int, gap: float) -> Eigenpairs | None:
    """The ``k`` leading eigenpairs, given a rough second gap; None where they are not found, or cost too much."""
    from scipy.sparse import csr_matrix, eye_array
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu

    n = smoother.n
    if not smoother.symmetric or n > LARGEST or k >= n - 1:
        return None
    whole = SparseOperator(smoother.matrix, None, smoother.leaving).laplacian().cpu()
    matrix = csr_matrix((whole.values(), whole.col_indices(), whole.crow_indices()), shape=(n, n))
    start, before = np.random.default_rng(0).normal(size=n), np.full(k, np.inf)
    for _ in range(ROUNDS):
        try:
            factor = splu((matrix + gap * eye_array(n)).tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
            inverse = LinearOperator((n, n), matvec=factor.solve, dtype=np.float64)
            found, vectors = eigsh(inverse, k, which="LA", v0=start)
        except (ArpackError, RuntimeError, MemoryError):
            return None
        order = np.argsort(-found)
        vectors, start = vectors[:, order], vectors.sum(1)
        gaps = np.maximum((vectors * (matrix @ vectors)).sum(0), 0.0)
        if not np.isfinite(gaps).all():
            return None
        if np.abs(gaps - before).max() <= SETTLED * gaps[min(1, k - 1)]:
            residual = float(np.linalg.norm(matrix @ vectors - vectors * gaps, axis=0).max())
            q, g = (torch.from_numpy(np.ascontiguousarray(each)).to(smoother.device) for each in (vectors, gaps))
            return Eigenpairs(q, g, "shifted", residual)
        before, gap = gaps, max(float(gaps[min(1, k - 1)]), np.finfo(np.float64).eps)
    return None
