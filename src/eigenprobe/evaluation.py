"""How well a basis agrees with an oracle sampled at the same points.

    cosine(k)      mean over i <= k of  |<v_i, u_i>| / (|v_i| |u_i|): the paper's metric, by index
    matched(k)     the same after the best one-to-one assignment of the first k to the first k
    subspace(k)    sum of squared cosines of the principal angles of span(V_k) and span(U_k), over k
    eigenvalue_discrepancy(k)   mean over 2 <= i <= k of  |lambda_i - l_i| / l_i

``V`` (n, K) are the unnormalised vectors of the basis and ``U`` (n, K) those of the oracle. Inner
products are plain sums over the samples. The constant first vector counts, as one of the paper's 50
outputs. An oracle on all vertices of a mesh is compared with a basis on a subset through
``indices``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .basis import Basis
from .errors import InputError
from .host.validation import validated
from .io.mesh import Array, to_numpy


@dataclass(frozen=True, repr=False)
class Alignment:
    """Agreement of two bases. Every measure takes ``k`` (default: all) and returns one number."""

    # (K, K): V^T U of unit columns, the cosine of basis vector i (row) and oracle vector j (column)
    cross: Array
    basis_gram: Array  # (K, K): V^T V
    oracle_gram: Array  # (K, K): U^T U
    eigenvalues: Array  # (K,)
    oracle_eigenvalues: Array  # (K,)

    @property
    def k(self) -> int:
        """How many vectors can be compared."""
        return len(self.eigenvalues)

    @property
    def cosines(self) -> Array:
        """|cosine| of vector i with oracle vector i, (K,)."""
        return np.abs(np.diagonal(self.cross))

    @property
    def discrepancies(self) -> Array:
        """Relative eigenvalue errors of vectors 2 to K, (K - 1,)."""
        reference = self.oracle_eigenvalues[1:]
        # Extra zeros of many components.
        floor = 1e-9 * max(float(self.oracle_eigenvalues[-1]), np.finfo(float).tiny)
        return np.abs(self.eigenvalues[1:] - reference) / np.maximum(reference, floor)

    def __repr__(self) -> str:
        return f"Alignment(k={self.k}, cosine={self.cosine():.3f}, subspace={self.subspace():.3f})"

    def cosine(self, k: int | None = None) -> float:
        """Mean |cosine| by index over the first ``k`` vectors."""
        return float(self.cosines[: self._up_to(k)].mean())

    def matched(self, k: int | None = None) -> float:
        """Mean |cosine| under the best assignment within the first ``k``: order swaps of close
        pairs cost nothing.
        """
        from scipy.optimize import linear_sum_assignment

        k = self._up_to(k)
        block = np.abs(self.cross[:k, :k])
        rows, columns = linear_sum_assignment(block, maximize=True)
        return float(block[rows, columns].mean())

    def subspace(self, k: int | None = None) -> float:
        """Mean squared cosine of the ``k`` principal angles: 1 for equal spans, k/n for unrelated
        ones.
        """
        k = self._up_to(k)
        left = np.linalg.cholesky(self.basis_gram[:k, :k] + 1e-12 * np.eye(k))
        right = np.linalg.cholesky(self.oracle_gram[:k, :k] + 1e-12 * np.eye(k))
        angles = np.linalg.solve(left, np.linalg.solve(right, self.cross[:k, :k].T).T)
        return float(np.square(angles).sum() / k)

    def eigenvalue_discrepancy(self, k: int | None = None) -> float:
        """Mean relative eigenvalue error over vectors 2 to ``k``."""
        return float(self.discrepancies[: self._up_to(k, 2) - 1].mean())

    def _up_to(self, k: int | None, lowest: int = 1) -> int:
        k = self.k if k is None else k
        if not lowest <= k <= self.k:
            raise InputError(f"expected {lowest} <= k <= {self.k} compared vectors, got k={k}")
        return k


@validated
def compare(basis: Basis, oracle: Basis, indices: Any = None) -> Alignment:
    """Measure a basis against another one, or a reference.

    Parameters
    ----------
    basis, oracle
        The two, of which as many vectors are compared as the smaller one has.
    indices
        The rows of ``oracle`` at the points of ``basis``, as numbers ``(n,)`` or a mask; all unless
        given.

    Returns
    -------
    Alignment

    Examples
    --------
    >>> from eigenprobe import decompose
    >>> angle = np.arange(200) * np.pi / 100
    >>> basis = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), k=5)
    >>> compare(basis.truncate(3), basis)
    Alignment(k=3, cosine=1.000, subspace=1.000)
    """
    vectors, reference = to_numpy(basis.vectors), to_numpy(oracle.vectors)
    if indices is not None:
        rows = to_numpy(indices, None)
        if rows.dtype == bool and len(rows) == oracle.n:
            rows = np.flatnonzero(rows)
        whole = rows.dtype.kind in "iu" and rows.ndim == 1
        if not whole or ((rows < -oracle.n) | (rows >= oracle.n)).any():
            raise InputError(
                f"expected indices (n,) of {oracle.n} points, got {rows.dtype} of shape "
                f"{rows.shape}"
            )
        reference = reference[rows]
    values = (to_numpy(each.eigenvalues) for each in (basis, oracle))
    return compare_vectors(vectors, reference, *values)


@validated
def compare_vectors(
    vectors: Array, reference: Array, eigenvalues: Array, reference_eigenvalues: Array
) -> Alignment:
    """The same from arrays: vectors (n, K) and (n, K'), eigenvalues (K,) and (K',)."""
    vectors, reference = to_numpy(vectors), to_numpy(reference)
    ranks = [np.ndim(each) for each in (vectors, reference, eigenvalues, reference_eigenvalues)]
    if ranks != [2, 2, 1, 1]:
        raise InputError(
            "expected vectors (n, K) and eigenvalues (K,), "
            f"got {vectors.shape} and {reference.shape}"
        )
    if len(vectors) != len(reference):
        raise InputError(
            f"expected a basis and an oracle at the same points, got {len(vectors)} and "
            f"{len(reference)} rows (indices= picks the oracle's rows at the basis's points)"
        )
    k = min(vectors.shape[1], reference.shape[1])
    if not (np.isfinite(vectors).all() and np.isfinite(reference).all()):
        raise InputError("expected finite vectors to compare, got NaN or infinity")
    ours, theirs = (
        each[:, :k] / np.maximum(np.linalg.norm(each[:, :k], axis=0), np.finfo(float).tiny)
        for each in (vectors, reference)
    )
    values = (to_numpy(each)[:k] for each in (eigenvalues, reference_eigenvalues))
    return Alignment(ours.T @ theirs, ours.T @ ours, theirs.T @ theirs, *values)
