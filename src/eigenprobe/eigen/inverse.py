"""Shift-and-invert: for curves, whose matrices have factors hardly larger than themselves, and for meshes.

    (H + s)^-1 x,   H = I - A  (or M^-1/2 L M^-1/2 of a mesh),   by Lanczos on the inverse

The graph of a curve is a chain or a ring: the ratio of the largest to the wanted eigenvalues grows like n^2 (n^3 on
random points), far beyond polynomial filters.  Started from one vector, Lanczos can miss copies of a repeated
eigenvalue (rings and symmetric shapes have them), so what is orthogonal to all vectors found is searched until nothing
there belongs among the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .chebyshev import SparseOperator
from .problem import Eigenpairs, Problem
from .span import small_ritz
from .sparse import as_scipy

CHAIN = 4  # mean entries per row up to which a graph is a union of chains and rings
PLANAR = 16  # the same of a surface: with nothing known, as with a potential, multigrid has nothing to start from
ACCURACY = 1e-12  # of Lanczos on the inverse, relative


def suits(problem: Problem) -> bool:
    operator = problem.operator
    if not isinstance(operator, SparseOperator) or not problem.within:
        return False
    most = CHAIN if problem.known.shape[1] else PLANAR
    return operator.entries <= most * problem.n


def solve(problem: Problem) -> Eigenpairs:
    assert isinstance(problem.operator, SparseOperator)
    laplacian = as_scipy(problem.operator.laplacian())
    known = problem.known.cpu().numpy()
    values, vectors = smallest_pairs(laplacian, problem.wanted, known=known, shift=_shift(laplacian, known))
    return Eigenpairs(torch.from_numpy(vectors).to(problem.known), torch.from_numpy(values).to(problem.known))


def _shift(laplacian: Any, known: np.ndarray) -> float:
    """A hundredth of the first eigenvalue beyond the known ones, by two inverse steps from a random vector."""
    x = np.random.default_rng(0).standard_normal(laplacian.shape[0])
    smallest = 1e-15
    solve = _factor(laplacian, smallest).solve
    for _ in range(2):
        x = x - known @ (known.T @ x)
        x /= np.linalg.norm(x)
        x = solve(x)
    x = x - known @ (known.T @ x)
    return max(0.01 / float(np.linalg.norm(x)), smallest)


def _factor(laplacian: Any, shift: float) -> Any:
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import splu

    # A symmetric ordering without pivoting halves the fill that a general factorisation would make.
    return splu(
        csc_array(laplacian + shift * eye_array(laplacian.shape[0])),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


def smallest_pairs(
    laplacian: Any, k: int, *, shift: float, known: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` smallest pairs of a symmetric positive semi-definite scipy matrix, orthogonal to ``known (n, c)``.

    Eigenvalues ``(k,)`` ascending and orthonormal vectors ``(n, k)``; ``shift`` should be below the wanted eigenvalues.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    n = laplacian.shape[0]
    found = np.empty((n, 0)) if known is None else known
    if 3 * k > n:  # ARPACK wants many more rows than vectors
        lifted = laplacian.toarray() + 4 * np.abs(laplacian).max() * found @ found.T
        values, vectors = np.linalg.eigh((lifted + lifted.T) / 2)
        return np.maximum(values[:k], 0.0), vectors[:, :k]
    solve = _factor(laplacian, shift).solve
    generator = np.random.default_rng(0)

    def search(found: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        def without(x: np.ndarray) -> np.ndarray:
            x = x - found @ (found.T @ x)
            return x - found @ (found.T @ x)  # the known vectors come back amplified: once is not enough

        operator = LinearOperator((n, n), lambda x: without(solve(without(x))), dtype=np.float64)
        wide = min(n - 1, max(2 * count + 20, 40))
        return eigsh(operator, k=count, v0=generator.standard_normal(n), which="LA", tol=ACCURACY, ncv=wide)

    values, vectors = search(found, k)
    while True:
        more, new = search(np.column_stack([found, vectors]), 1)
        if more[0] <= np.sort(values)[-k] * (1 + 1e-9):
            break
        values, vectors = np.append(values, more), np.column_stack([vectors, new])
    # One Rayleigh-Ritz on the matrix itself: values without the shift, copies of repeated ones orthogonal.
    vectors = np.linalg.qr(vectors - found @ (found.T @ vectors))[0]
    small, rotation = small_ritz(torch.from_numpy(vectors.T @ (laplacian @ vectors)))
    return np.maximum(small[:k].numpy(), 0.0), vectors @ rotation[:, :k].numpy()
