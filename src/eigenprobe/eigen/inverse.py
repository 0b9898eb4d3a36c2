"""Shift-and-invert: for curves, surfaces and meshes, whose sparse factors are small.

    (H - p)^-1,   H = I - A  (or M^-1/2 L M^-1/2 of a mesh)
    on a Krylov space of blocks B_j (b, n), all of them kept:

    B_{j+1} R = (H - p)^-1 B_j   without its parts along B_1 ... B_j
    T (m, m)  = the inverse seen from the blocks

A polynomial filter needs some hundred sparse products with every wanted vector; the inverse is
applied about twice for each.  The graph of a curve is a chain or a ring, far beyond polynomial
filters: the ratio of the largest to the wanted eigenvalues grows like n^2 (n^3 on random points).
A pole ``p`` amid the wanted eigenvalues needs two thirds of the steps of one below them, and the
signs of the pivots count the eigenvalues below it [Sylvester].  A random block finds up to ``b``
copies of a repeated eigenvalue; where it has found that many, or less than the pivots count, what
is orthogonal to all vectors found is searched until nothing there belongs among the first.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from ..errors import warn
from ..neighbors.layout import as_scipy
from .problem import Problem
from .span import small_ritz

EPS = float(np.finfo(np.float64).eps)
BLOCK = 3  # columns of a block: symmetric bodies have pairs
BELOW = 0.85  # share of the wanted eigenvalues that may lie below the pole
BELOW_ALL = -1e-5  # a pole below all eigenvalues, over what is wanted about
DENSE = 8  # rows per wanted vector below which LAPACK takes the whole matrix
AFFORDABLE = 50_000  # points up to which a factor of any dimension is affordable
HIDDEN = 10.0  # residuals in a gap, below which other solvers say little about it
ACCURACY = EPS**0.75  # relative residual on the inverse, where nothing else is asked
Rows = Callable[[Tensor], Tensor]


def suits(problem: Problem) -> bool:
    """Curves; surfaces on the host, or whose constant is not an eigenvector; and up to
    `AFFORDABLE` points with gaps far below the residual that other solvers stop at.

    A potential of 1e8, or a measure with as much on some points, makes the step of the smoother so
    short that all gaps of smooth functions are 1e-8 to 1e-13. A factor sees them as they are.
    """
    if not problem.bounded:
        return False
    on_host = problem.operator.device.type == "cpu" or not problem.known.shape[1]
    if problem.operator.dimension <= 1 + on_host:
        return True
    gap = float(problem.sparse.weyl_gap(problem.wanted)[0])
    return problem.n <= AFFORDABLE and gap < HIDDEN * problem.tol


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    operator = problem.sparse
    laplacian, known = as_scipy(operator.laplacian()), problem.known.cpu().numpy()
    # A residual r of the inverse, relative to its value, is one of H of at most |H - p| r, and |H|
    # is at most 1.
    accuracy = problem.tol
    if operator.dimension <= 1:
        # A hundredth of the first eigenvalue of a line; no less than what rounding the matrix does
        # to the known ones, eps q^T diag(H) q.
        weights = (laplacian.diagonal()[:, None] * known**2).sum(0)
        rounding = 4 * EPS * float(weights.max(initial=0.0) or 1.0)
        first = 0.01 * float(operator.weyl_gap(1, 1)[0])
        if first < rounding and known.shape[1]:
            warn(
                "the spacings of this curve differ so much that its first eigenvalues are rounding"
            )
        pole, accuracy = -max(first, rounding), ACCURACY
    else:
        # Weyl's guess is right on even points and up to twice too large on random ones: with two
        # fifths of it the pole is amid the wanted eigenvalues.
        guess = float(operator.weyl_gap(problem.wanted)[0])
        pole = (0.4 if known.shape[1] else BELOW_ALL) * guess
        if guess < problem.tol:  # a residual of that size says nothing about such gaps
            accuracy = ACCURACY
    values, vectors = smallest_pairs(
        laplacian, problem.wanted, known=known, pole=pole, accuracy=accuracy
    )
    return torch.from_numpy(vectors).to(problem.known), torch.from_numpy(values).to(problem.known)


def symmetric_factor(matrix: Any) -> Any:
    """A symmetric ordering without pivoting: it halves the fill that a general factorisation would
    make.
    """
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    # The matrix is symmetric: its rows are its columns.
    columns = csc_array(matrix.T if matrix.format == "csr" else matrix)
    options = {"SymmetricMode": True}
    return splu(columns, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)


def _factor(laplacian: Any, pole: float) -> Any:
    shifted = laplacian.copy()
    shifted.setdiag(laplacian.diagonal() - pole)
    return symmetric_factor(shifted)


def _counted(laplacian: Any, pole: float, most: float) -> tuple[Any, float, int]:
    """The factor at a pole, that pole, and how many eigenvalues are below; where over ``most`` are,
    or the factor is not sound, one below all.
    """
    factor = _factor(laplacian, pole)
    if pole <= 0:
        return factor, pole, 0
    x = np.random.default_rng(0).standard_normal(laplacian.shape[0])
    y = factor.solve(x)
    error = np.linalg.norm(laplacian @ y - pole * y - x) / np.linalg.norm(x)
    below = int((factor.U.diagonal() < 0).sum())
    ordered = np.array_equal(factor.perm_r, factor.perm_c)
    if error <= EPS**0.5 and below <= most and ordered:
        return factor, pole, below
    return _factor(laplacian, BELOW_ALL * pole), BELOW_ALL * pole, 0


def dense_pairs(laplacian: Tensor, known: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` smallest pairs of a dense symmetric matrix beyond the ``known (n, c)`` null
    vectors; of all of it where there are none.

    With null vectors it is positive semi-definite, and its entries may differ by many decades: then
    the pseudo-inverse has the small eigenvalues to full relative accuracy,

        H^+ = P D^-1/2 (S + u u^T)^-1 D^-1/2 P,   S = D^-1/2 H D^-1/2,  D = diag H,  P = I - q q^T

    with orthonormal null vectors q of H and u of S.
    """
    if known.shape[1]:
        tiny = torch.finfo(laplacian.dtype).tiny
        root = laplacian.diagonal().clamp_min(tiny).rsqrt()[:, None]
        alone = laplacian.diagonal()[:, None] <= tiny  # a point without edges is a null vector
        root = torch.where(alone, 1.0, root)
        null = torch.linalg.qr(known / root)[0]
        factor, status = torch.linalg.cholesky_ex(root * laplacian * root.mT + null @ null.mT)
        if not bool(status):
            inverse = root * torch.cholesky_inverse(factor) * root.mT
            inverse = inverse - known @ (known.mT @ inverse)
            inverse = inverse - (inverse @ known) @ known.mT
            n = len(inverse)
            values, vectors = _some_pairs((inverse + inverse.mT) / 2, n - k, n)
            if float(values[0]) > EPS**0.5 * float(values[-1]):
                return 1 / values.flip(0), vectors.flip(1)
        lift = 4 * laplacian.abs().max()  # above all eigenvalues that a row of few entries allows
        laplacian = laplacian + lift * known @ known.mT
    return _some_pairs((laplacian + laplacian.mT) / 2, 0, k)


def _some_pairs(matrix: Tensor, first: int, end: int) -> tuple[Tensor, Tensor]:
    """Eigenpairs ``first`` to ``end`` of a dense symmetric matrix, by the host: no others are
    computed.
    """
    found = scipy.linalg.eigh(matrix.cpu().numpy(), subset_by_index=[first, end - 1])
    values, vectors = (torch.from_numpy(each).to(matrix) for each in found)
    return values, vectors


def smallest_pairs(
    laplacian: Any,
    k: int,
    *,
    pole: float,
    known: np.ndarray | None = None,
    accuracy: float = ACCURACY,
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` smallest pairs of a symmetric positive semi-definite scipy matrix, orthogonal to
    its null vectors ``known (n, c)``.

    Eigenvalues ``(k,)`` ascending and orthonormal vectors ``(n, k)``; ``pole`` is below 0, or amid
    the wanted ones.
    """
    n = laplacian.shape[0]
    known = np.empty((n, 0)) if known is None else known
    if DENSE * k > n:
        whole = torch.from_numpy(laplacian.toarray())
        small, vectors = dense_pairs(whole, torch.from_numpy(known), k)
        return small.clamp_min(0.0).numpy(), vectors.numpy()
    factor, pole, below = _counted(laplacian, pole, known.shape[1] + BELOW * k)
    generator = torch.Generator().manual_seed(0)

    def inverse(block: Tensor) -> Tensor:
        return torch.from_numpy(factor.solve(block.numpy().T).T)

    def enough(block: Tensor) -> float:
        """The relative residual of the inverse along these rows that is one of ``accuracy`` of
        H, of which a twentieth counts at least: eigenvalues are to be exact as well.
        """
        if pole <= 0:
            return accuracy
        image = laplacian @ block.numpy().T - pole * block.numpy().T
        return accuracy / max(0.05, float(np.linalg.norm(image, 2)))

    rows = torch.from_numpy(np.ascontiguousarray(known.T))
    values, found, left = _krylov(inverse, pole, rows, k, enough, generator)
    if left > 1:
        warn(f"shift-and-invert filled its space at {left:.1e} times the residual {accuracy:.0e}")
    while True:
        # As many copies as a block can find may be more; to 1e-4, since copies of a sample differ.
        first, last = values[: 1 - BLOCK], values[BLOCK - 1 :]
        repeated = bool((last - first <= 1e-4 * (first + abs(pole))).any())
        if not repeated and int((values < pole).sum()) + len(rows) >= below:
            break
        more, new, _ = _krylov(inverse, pole, torch.cat([rows, found]), BLOCK, enough, generator)
        if float(more[0]) + abs(pole) >= (float(values[k - 1]) + abs(pole)) * (1 - 1e-9):
            break
        values, found = torch.cat([values, more]).sort().values, torch.cat([found, new])
    if len(found) == k and -pole < float(values[0]):
        # Values of H to the soundness of the factor: the pole is small.
        return values.clamp_min(0.0).numpy(), found.numpy().T
    # One Rayleigh-Ritz on the matrix itself: values without the pole.
    gaps, turn = small_ritz(found @ torch.from_numpy(laplacian @ found.numpy().T))
    return np.maximum(gaps[:k].numpy(), 0.0), (turn[:, :k].T @ found).numpy().T


def _krylov(
    inverse: Rows,
    pole: float,
    known: Tensor,
    k: int,
    enough: Callable[[Tensor], float],
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, float]:
    """The ``k`` smallest values, ascending, and vectors ``(k, n)`` of H without its ``known (c,
    n)`` ones; and how many times what is enough is left of their residuals: above 1 where no more
    vectors fit.
    """
    (c, n), b = known.shape, BLOCK
    # Pages never written take no memory.
    basis = torch.empty((min(n, c + 8 * k + 60), n), dtype=torch.float64)
    basis[:c] = known
    small = torch.zeros((len(basis), len(basis)), dtype=torch.float64)
    block, m = _apart(torch.randn((b, n), dtype=torch.float64, generator=generator), known), c
    looked = c + 2 * k
    while True:
        basis[m : m + b] = block
        m += b
        image, near = inverse(block), basis[max(c, m - 2 * b) : m]
        inner = image @ near.mT
        small[m - b : m, m - b : m] = inner[:, -b:]
        # In exact arithmetic this would suffice; rounding brings converged vectors back.
        image = torch.addmm(image, inner, near, alpha=-1)
        image = torch.addmm(image, image @ basis[:m].mT, basis[:m], alpha=-1)
        block, right = torch.linalg.qr(image.mT)
        least = float(right.diagonal().abs().min())
        if least < 1e-3 * float(inner.norm()):  # what is left is rounding too
            block, again = torch.linalg.qr(
                torch.addmm(block, basis[:m].mT, basis[:m] @ block, alpha=-1)
            )
            right = again @ right
        block, full = block.mT, m + b > len(basis)
        if m >= looked or full:
            poles, turn = small_ritz(small[c:m, c:m])
            values = pole + 1 / poles
            # What is not yet near any eigenvalue may lie beside 0, where there are none: H has no
            # negative ones.
            values, order = torch.where(values < -1e-3 * abs(pole), torch.inf, values).sort()
            values, order = values[:k], order[:k]
            errors = (right @ turn[-b:, order]).norm(dim=0) / poles[order].abs()
            left = float(errors.max()) / enough(block)
            if left <= 1 or full:
                return values, turn[:, order].mT @ basis[c:m], left
            looked = m + max(b, k // 8)
        if float(right.diagonal().abs().min()) < 4e3 * EPS * float(
            small[c : c + b, c : c + b].max()
        ):
            # The blocks hold all that they can reach.
            fresh = torch.randn(block.shape, dtype=torch.float64, generator=generator)
            block, right = _apart(fresh, basis[:m]), 0 * right
        small[m : m + b, m - b : m], small[m - b : m, m : m + b] = right, right.mT


def _apart(block: Tensor, rows: Tensor) -> Tensor:
    """Orthonormal rows ``(b, n)`` that are orthogonal to others."""
    for _ in range(2):
        block = torch.linalg.qr((block - (block @ rows.mT) @ rows).mT)[0].mT
    return block
