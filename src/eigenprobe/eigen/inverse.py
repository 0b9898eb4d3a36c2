"""Shift-and-invert: for curves and for surfaces of moderate size, whose sparse factors are small, and for meshes.

    (H - p)^-1,   H = I - A  (or M^-1/2 L M^-1/2 of a mesh),   on a Krylov space of blocks B_j (b, n), all of them kept:

    B_{j+1} R = (H - p)^-1 B_j   without its parts along B_1 ... B_j;      T (m, m) = the inverse seen from the blocks

A polynomial filter needs some hundred sparse products with every wanted vector; the inverse is applied about twice for
each.  The graph of a curve is a chain or a ring, far beyond polynomial filters: the ratio of the largest to the wanted
eigenvalues grows like n^2 (n^3 on random points).  A pole ``p`` amid the wanted eigenvalues needs two thirds of the
steps of one below them, and the signs of the pivots count the eigenvalues below it [Sylvester].  A random block finds
up to ``b`` copies of a repeated eigenvalue; where it has found that many, or less than the pivots count, what is
orthogonal to all vectors found is searched until nothing there belongs among the first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import warn
from ..search.layout import as_scipy
from ..smoothers import Smoother
from .problem import Eigenpairs, Problem, SparseOperator
from .span import small_ritz


@dataclass(frozen=True)
class Inversion:
    """When a factor is small enough, and constants of the iteration."""

    chain: int = 4  # mean entries per row up to which a graph is a union of chains and rings
    planar: int = 16  # the same of a surface ...
    most: int = 24_000  # ... which has up to so many points on the host: above, multigrid is faster
    growth: float = 3.2  # of neighbourhoods (`SparseOperator.growth`), above which a factor would fill in
    block: int = 3  # columns of a block: symmetric bodies have pairs
    pole: float = -1e-4  # of surfaces, times their first eigenvalue, ...
    many: int = 32  # ... where fewer vectors are wanted; else amid their eigenvalues, which are guessed by Weyl's law:
    weyl: float = 2.0  # times k / n times the harmonic mean of the diagonal is .55 to .7 of the k-th eigenvalue if even
    uneven: float = 1.8  # else it is more by the ratio of the arithmetic and the harmonic mean, 1.3 if random; at most
    below: float = 0.85  # share of the wanted eigenvalues that may lie below the pole
    sound: float = 1e-8  # relative residual of a solution, without pivoting, at most
    equal: float = 1e-4  # relative distance of eigenvalues that may be copies of one
    least: float = 0.05  # of a residual on the inverse that counts as one of H: eigenvalues are to be exact as well
    lost: float = 1e-3  # share of a block below which it is freed of the earlier ones twice
    dense: int = 8  # rows per wanted vector below which LAPACK takes the whole matrix
    first: tuple[float, float] = (2.5, 2.1)  # vectors per wanted one at the first look, with a pole below and amid
    digit: tuple[float, float] = (0.13, 0.09)  # and how many more per digit that is missing, up to half of the wanted
    shifted: int = 50_000  # points up to which `solve_shifted` can afford the factor of a graph of any dimension
    rounds: int = 3  # of it: the first gap is too large by the error that is to be removed
    settled: float = 1e-3  # relative change of the gaps of its last round


INVERSION = Inversion()
Rows = Callable[[Tensor], Tensor]
ACCURACY = 1e-12  # relative residual on the inverse, where nothing else is asked


def suits(problem: Problem) -> bool:
    operator = problem.operator
    if not isinstance(operator, SparseOperator) or not problem.bounded:
        return False
    few = problem.n <= INVERSION.most and problem.start is None and operator.device.type == "cpu"
    few = few or operator.entries <= INVERSION.chain * problem.n or not problem.known.shape[1]
    few = few and operator.entries <= INVERSION.planar * problem.n
    return few and (operator.entries <= INVERSION.chain * problem.n or operator.growth <= INVERSION.growth)


def solve(problem: Problem) -> Eigenpairs:
    laplacian, known = as_scipy(problem.sparse.laplacian()), problem.known.cpu().numpy()
    chain = problem.sparse.entries <= INVERSION.chain * problem.n
    leaving = laplacian.diagonal()
    proper = leaving[leaving > 0]
    first = INVERSION.weyl / max(1.0, float((1 / proper).sum()))
    if chain:
        pole = -_shift(laplacian, known)
    elif known.shape[1] and problem.wanted >= INVERSION.many:
        pole = first * problem.wanted / min(INVERSION.uneven, float(proper.mean() * (1 / proper).mean()))
    else:
        pole = first * INVERSION.pole
    # A residual r of the inverse, relative to its value, is one of H of at most |H - p| r, and |H| is at most 1.
    accuracy = ACCURACY if chain else problem.tol
    values, vectors = smallest_pairs(laplacian, problem.wanted, known=known, pole=pole, accuracy=accuracy)
    return Eigenpairs(torch.from_numpy(vectors).to(problem.known), torch.from_numpy(values).to(problem.known))


def _shift(laplacian: Any, known: np.ndarray) -> float:
    """A hundredth of the first eigenvalue beyond the known ones, by two inverse steps from a random vector; no less
    than what rounding the matrix does to the known ones, ``eps q^T diag(H) q``."""
    x = np.random.default_rng(0).standard_normal(laplacian.shape[0])
    smallest = 1e-15 * float((laplacian.diagonal()[:, None] * known**2).sum(0).max(initial=0.0)) or 1e-15
    solve = _factor(laplacian, -smallest).solve
    for _ in range(2):
        x = x - known @ (known.T @ x)
        x /= np.linalg.norm(x)
        x = solve(x)
    x = x - known @ (known.T @ x)
    shift = 0.01 / float(np.linalg.norm(x))
    if shift < smallest and known.shape[1]:
        warn("the spacings of this curve differ so much that its first eigenvalues are lost in rounding")
    return max(shift, smallest)


def symmetric_factor(matrix: Any) -> Any:
    """A symmetric ordering without pivoting: it halves the fill that a general factorisation would make."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import splu

    options = {"SymmetricMode": True}
    columns = csc_array(matrix.T if matrix.format == "csr" else matrix)  # it is symmetric: rows are columns
    return splu(columns, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)


def _factor(laplacian: Any, pole: float) -> Any:
    shifted = laplacian.copy()
    shifted.setdiag(laplacian.diagonal() - pole)
    return symmetric_factor(shifted)


def _counted(laplacian: Any, pole: float, most: float) -> tuple[Any, float, int]:
    """The factor at a pole, that pole, and how many eigenvalues are below; where over ``most`` are, one below all."""
    factor, x = _factor(laplacian, pole), np.random.default_rng(0).standard_normal(laplacian.shape[0])
    if pole > 0:
        y = factor.solve(x)
        error = np.linalg.norm(laplacian @ y - pole * y - x) / np.linalg.norm(x)
        below = int((factor.U.diagonal() < 0).sum())
        if error <= INVERSION.sound and below <= most and np.array_equal(factor.perm_r, factor.perm_c):
            return factor, pole, below
        factor, pole = _factor(laplacian, INVERSION.pole * pole), INVERSION.pole * pole
    return factor, pole, 0


def smallest_pairs(
    laplacian: Any, k: int, *, pole: float, known: np.ndarray | None = None, accuracy: float = ACCURACY
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` smallest pairs of a symmetric positive semi-definite scipy matrix, orthogonal to ``known (n, c)``.

    Eigenvalues ``(k,)`` ascending and orthonormal vectors ``(n, k)``; ``pole`` is below 0, or amid the wanted ones.
    """
    n = laplacian.shape[0]
    known = np.empty((n, 0)) if known is None else known
    if INVERSION.dense * k > n:
        lifted = laplacian.toarray() + 4 * np.abs(laplacian).max() * known @ known.T
        small, vectors = np.linalg.eigh((lifted + lifted.T) / 2)
        return np.maximum(small[:k], 0.0), vectors[:, :k]
    factor, pole, below = _counted(laplacian, pole, known.shape[1] + INVERSION.below * k)
    generator = torch.Generator().manual_seed(0)

    def inverse(block: Tensor) -> Tensor:
        return torch.from_numpy(factor.solve(block.numpy().T).T)

    rows = torch.from_numpy(np.ascontiguousarray(known.T))

    def enough(block: Tensor) -> float:
        """The relative residual of the inverse along these rows that is one of ``accuracy`` of H."""
        image = laplacian @ block.numpy().T - pole * block.numpy().T
        return accuracy / max(INVERSION.least, float(np.linalg.norm(image, 2))) if pole > 0 else accuracy

    values, found, left = _smallest(inverse, pole, rows, k, enough, generator)
    if left > 1:
        warn(f"shift-and-invert filled its space of vectors at {left:.1e} times the residual {accuracy:.0e} asked for")
    while _repeated(values, pole) or int((values < pole).sum()) + len(rows) < below:
        more, new, _ = _smallest(inverse, pole, torch.cat([rows, found]), INVERSION.block, enough, generator)
        if float(more[0]) + abs(pole) >= (float(values[k - 1]) + abs(pole)) * (1 - 1e-9):
            break
        values, found = torch.cat([values, more]).sort().values, torch.cat([found, new])
    if len(found) == k and -pole < float(values[0]):  # values of H to the soundness of the factor: the pole is small
        return values.clamp_min(0.0).numpy(), found.numpy().T
    # One Rayleigh-Ritz on the matrix itself: values without the pole.
    gaps, turn = small_ritz(found @ torch.from_numpy(laplacian @ found.numpy().T))
    return np.maximum(gaps[:k].numpy(), 0.0), (turn[:, :k].T @ found).numpy().T


def solve_shifted(smoother: Smoother, k: int, gap: float) -> Eigenpairs | None:
    """The ``k`` leading pairs where gaps 1 - mu are far below the residual that solvers stop at, given a rough second
    one; None where they are not found, or cost too much.

    A potential of 1e8, or a measure with as much on some points, makes the step of the smoother so short that all gaps
    of smooth functions are 1e-8 to 1e-13. The factor of ``H + gap`` sees them as they are.
    """
    if not smoother.symmetric or smoother.n > INVERSION.shifted or k >= smoother.n - 1:
        return None
    laplacian = as_scipy(SparseOperator(smoother.matrix, None, smoother.leaving).laplacian())
    before = np.full(k, np.inf)
    for _ in range(INVERSION.rounds):
        try:
            gaps, vectors = smallest_pairs(laplacian, k, pole=-gap)
        except (RuntimeError, MemoryError, np.linalg.LinAlgError):
            return None
        if not np.isfinite(gaps).all():
            return None
        if np.abs(gaps - before).max() <= INVERSION.settled * gaps[min(1, k - 1)]:
            residual = float(np.linalg.norm(laplacian @ vectors - vectors * gaps, axis=0).max())
            q, g = (torch.from_numpy(np.ascontiguousarray(each)).to(smoother.device) for each in (vectors, gaps))
            return Eigenpairs(q, g, "shifted", residual)
        before, gap = gaps, max(float(gaps[min(1, k - 1)]), np.finfo(np.float64).eps)
    return None


def _repeated(values: Tensor, pole: float) -> bool:
    """Whether some value, of those ascending, has as many copies as a block can find, and so perhaps more."""
    last = INVERSION.block - 1
    return bool((values[last:] - values[:-last] <= INVERSION.equal * (values[:-last] + abs(pole))).any())


def _smallest(
    inverse: Rows, pole: float, known: Tensor, k: int, enough: Callable[[Tensor], float], generator: torch.Generator
) -> tuple[Tensor, Tensor, float]:
    """The ``k`` smallest values, ascending, and vectors ``(k, n)`` of H without its ``known (c, n)`` ones; and how many
    times what is enough is left of their residuals: above 1 where no more vectors fit."""
    (c, n), b = known.shape, INVERSION.block
    basis = torch.empty((min(n, c + 8 * k + 60), n), dtype=torch.float64)  # pages never written take no memory
    basis[:c] = known
    small = torch.zeros((len(basis), len(basis)), dtype=torch.float64)
    block, m = _apart(torch.randn((b, n), dtype=torch.float64, generator=generator), known), c
    amid = bool(pole >= 0)  # numpy's does not index a tuple
    looked = c + int(INVERSION.first[amid] * k)
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
        if float(right.diagonal().abs().min()) < INVERSION.lost * float(inner.norm()):  # what is left is rounding too
            block, again = torch.linalg.qr(torch.addmm(block, basis[:m].mT, basis[:m] @ block, alpha=-1))
            right = again @ right
        block, full = block.mT, m + b > len(basis)
        if m >= looked or full:
            poles, turn = small_ritz(small[c:m, c:m])
            values = pole + 1 / poles
            # What is not yet near any eigenvalue may lie beside 0, where there are none: H has no negative ones.
            values, order = torch.where(values < -1e-3 * abs(pole), torch.inf, values).sort()
            values, order = values[:k], order[:k]
            left = float(((right @ turn[-b:, order]).norm(dim=0) / poles[order].abs()).max()) / enough(block)
            if left <= 1 or full:
                return values, turn[:, order].mT @ basis[c:m], left
            looked = m + max(b, min(k // 2, round(INVERSION.digit[amid] * k * math.log10(left))))
        first = float(small[c : c + b, c : c + b].abs().max())
        if float(right.diagonal().abs().min()) < 1e-12 * first:  # the blocks hold all that they can reach
            fresh = torch.randn(block.shape, dtype=torch.float64, generator=generator)
            block, right = _apart(fresh, basis[:m]), 0 * right
        small[m : m + b, m - b : m], small[m - b : m, m : m + b] = right, right.mT


def _apart(block: Tensor, rows: Tensor) -> Tensor:
    """Orthonormal rows ``(b, n)`` that are orthogonal to others."""
    for _ in range(2):
        block = torch.linalg.qr((block - (block @ rows.mT) @ rows).mT)[0].mT
    return block
