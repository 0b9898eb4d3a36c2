"""The closed-form optimum: the leading eigenpairs of the smoother, which is a sparse matrix.

    A q_k = mu_k q_k,   1 = mu_1 >= mu_2 >= ... ;    covariances C = p(A) share the q_k: they are the PCA of the probes

The first solver that suits the problem solves it; `select_solver` says which.  Every answer is checked (finite,
orthonormal, residual); where a solver gives up, or its answer is not sound, the next one that suits takes over:

    dense      a few hundred points, or nearly as many vectors as points       LAPACK
    inverse    curves; surfaces of some thousand points on the host            Lanczos on a sparse factor
    nested     many points of low dimension                                    coarse to fine, multigrid
    filtered   everything else, any device, any operator                       Chebyshev filters

and LAPACK has the last word on up to 4096 points.
"""

import math
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, held_warnings, warn
from ..host.threads import limited_threads
from ..search.layout import memory_order
from ..smoothers import Smoother
from . import filtered, inverse, nested
from .filtered import FILTERING
from .problem import (
    Apply,
    Eigenpairs,
    FunctionOperator,
    Operator,
    Problem,
    SparseOperator,
    Unsuited,
    inner,
    null_vectors,
)

Solvable = Smoother | Tensor | Apply  # a smoother, a symmetric matrix, or a function that applies one
TOLERANCE = 1e-6  # residual, unless another one is asked for
DENSE = 640  # points up to which LAPACK is at least as fast as the sweeps


class Solver(NamedTuple):
    """A solver of the table: when it is chosen, in words and as a test of the problem, and what it does."""

    name: str
    chosen_for: str
    suits: Callable[[Problem], bool]
    solve: Callable[[Problem], Eigenpairs]


def suits_dense(problem: Problem) -> bool:
    return problem.n <= DENSE or 3 * (problem.known.shape[1] + problem.wanted + problem.guard) > problem.n


def solve_dense(problem: Problem) -> Eigenpairs:
    """LAPACK on the dense matrix."""
    operator, known = problem.operator, problem.known
    if isinstance(operator, SparseOperator):
        gap = operator.laplacian().to_dense()
    else:
        identity = torch.eye(operator.n, dtype=torch.float64, device=operator.device)
        gap = identity - operator.apply(identity)
    # The known vectors are lifted out of the way: gaps lie in [0, 2].
    gap = gap + 4 * known @ known.mT
    values, vectors = torch.linalg.eigh((gap + gap.mT) / 2)
    return Eigenpairs(vectors[:, : problem.wanted], values[: problem.wanted])


SOLVERS = (
    Solver("dense", "a few hundred points, or nearly as many vectors as points", suits_dense, solve_dense),
    Solver("inverse", "curves, and surfaces of some thousand points on the host", inverse.suits, inverse.solve),
    Solver("nested", "many points of low dimension", nested.suits, nested.solve),
    Solver("filtered", "any operator on any device", filtered.suits, filtered.solve),
)
LOOSEST, SKEWED = 20.0, 1e-3  # residual over tol, and inner product of two vectors, that no sound answer has
PATIENT, AFFORDABLE = 200, 4096  # sweeps, and points up to which LAPACK has the last word
UNFIXED = 1e-4  # |A q - q| of sqrt(mass) above which the matrix does not fix it, and everything is solved for


@torch.no_grad()
def solve(
    operator: Solvable,
    k: int,
    *,
    tol: float = TOLERANCE,
    max_sweeps: int = 200,
    guard: int | None = None,
    start: Tensor | None = None,
    n: int | None = None,
    generator: torch.Generator | None = None,
) -> Eigenpairs:
    """The ``k`` leading eigenpairs of a symmetric operator: orthonormal vectors ``(n, k)`` and gaps ``1 - mu (k,)``.

    Equivalent to ``scipy.sparse.linalg.eigsh(A, k, which="LA")`` up to signs and rotations of equal eigenvalues.

    Parameters
    ----------
    operator
        A `Smoother` (one of kind ``row`` enters as the covariance of its probes); a symmetric torch tensor, sparse CSR
        or dense; or a function ``(n, p) -> (n, p)`` that applies a symmetric operator, with ``n``.
    tol
        Largest residual ``|A q - mu q|`` of a returned pair. A warning says when ``max_sweeps`` did not reach it.
    guard
        Extra columns; more of them converge in fewer sweeps that cost more each.
    start
        Approximate eigenvectors ``(n, any)``, in any order.
    generator
        Source of the random start; without one a fixed seed makes the result reproducible. A function is called
        with blocks on its device (or that of ``start``), in float32 and at last in float64.

    Returns
    -------
    Vectors in the precision of the operator; gaps always in float64, because ``1 - mu`` is what matters.

    Examples
    --------
    >>> ring = torch.eye(100).roll(1, 0) / 2 + torch.eye(100).roll(-1, 0) / 2
    >>> solve(ring.to_sparse_csr(), 3).factors.round(decimals=6).tolist()
    [1.0, 0.998027, 0.998027]
    """
    generator = generator or torch.Generator().manual_seed(0)
    problem, order, dtype = _posed(operator, k, guard, start, n, generator)
    problem.tol, problem.max_sweeps = tol, max_sweeps
    work, known = problem.operator, problem.known
    found = Eigenpairs(known, known[0], "known")
    vectors, gaps = known, (known * (known - work.apply(known))).sum(0).cpu()
    if problem.wanted:
        with limited_threads(work.device, work.n):
            found = _checked(problem)
        vectors, gaps = torch.cat([known, found.vectors.to(known)], 1), torch.cat([gaps, found.gaps.cpu()])
    if order is not None:
        vectors = torch.empty_like(vectors).index_copy_(0, order, vectors)
    return Eigenpairs(vectors.to(dtype), gaps.to(work.device), found.solver, found.residual)


@torch.no_grad()
def select_solver(
    operator: Solvable, k: int, *, guard: int | None = None, start: Tensor | None = None, n: int | None = None
) -> Solver:
    """The solver that `solve` takes for these arguments, and when it takes it; nothing is solved.

    >>> ring = torch.eye(100).roll(1, 0) / 2 + torch.eye(100).roll(-1, 0) / 2
    >>> select_solver(ring.to_sparse_csr(), 3).name
    'dense'
    """
    problem, *_ = _posed(operator, k, guard, start, n, torch.Generator().manual_seed(0))
    return next(solver for solver in SOLVERS if solver.suits(problem))


def _checked(problem: Problem) -> Eigenpairs:
    """The answer of the first suitable solver whose answer is sound."""
    reason, dense = "", SOLVERS[0]
    affordable = problem.max_sweeps >= PATIENT and problem.n <= AFFORDABLE  # and not asked to stop early
    once_more = [dense] if affordable and not dense.suits(problem) else []
    last = dense if once_more else SOLVERS[-1]
    for solver in chain((each for each in SOLVERS if each.suits(problem)), once_more):
        try:
            with held_warnings() as said:
                found = solver.solve(problem)
            residual, reason = _fault(problem, found, math.inf if solver is last else LOOSEST)
        except Unsuited:
            continue
        except (MemoryError, torch.OutOfMemoryError):
            reason = "it needs more memory than there is"
        except (RuntimeError, ValueError, IndexError, np.linalg.LinAlgError) as error:
            if isinstance(error, InputError):
                raise
            if type(error).__name__ == "AcceleratorError":
                raise InputError("the device failed and cannot be used again in this process") from error
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        if not reason:
            for message in said:  # of an answer that another one had to replace nothing is said
                warn(message)
            return found._replace(solver=solver.name, residual=residual)
        if problem.operator.device.type == "cuda":
            torch.cuda.empty_cache()
    k = problem.wanted + problem.known.shape[1]
    raise InputError(f"no solver found {k} eigenpairs of this operator on {problem.n} points: {reason}")


def _fault(problem: Problem, found: Eigenpairs, loosest: float) -> tuple[float, str]:
    """The largest residual of an answer, and what is wrong with it (nothing: an empty string)."""
    x, work = found.vectors, problem.operator
    if not bool(torch.isfinite(found.gaps).all()):
        return math.inf, "eigenvalues are not finite"
    residual = torch.addcmul(x - work.apply(x), x, found.gaps.to(x), value=-1).norm(dim=0).max()
    products = inner(x, x)
    off = (products - torch.eye(len(products), dtype=products.dtype, device=products.device)).abs().max()
    most, skew = torch.stack([residual.double(), off]).tolist()
    if not most <= loosest * max(problem.tol, FILTERING.floor[0]):  # the last solver warns of it
        return most, f"a residual of {most:.1e}"
    return most, "" if skew <= SKEWED else f"vectors are not orthonormal (by {skew:.1e})"


def _posed(
    operator: Solvable, k: int, guard: int | None, start: Tensor | None, n: int | None, generator: torch.Generator
) -> tuple[Problem, Tensor | None, torch.dtype]:
    """The problem that solvers get, the order of its rows, and the precision of the answer."""
    work, known, order, dtype = _unpack(operator, k, n, start, generator)
    if not 1 <= k <= work.n:
        raise InputError(f"expected between 1 and {work.n} eigenpairs for {work.n} points, got k={k}")
    guard = max(10, k // 3) if guard is None else guard
    start = start if start is None or order is None else start[order]
    bounded = isinstance(operator, Smoother) and operator.symmetric
    wanted = k - known.shape[1]
    return Problem(work, known, wanted, guard, TOLERANCE, PATIENT, generator, start, bounded), order, dtype


def _unpack(
    operator: Solvable, k: int, n: int | None, start: Tensor | None, generator: torch.Generator
) -> tuple[Operator, Tensor, Tensor | None, torch.dtype]:
    """The operator as solvers see it, its known vectors, the order of its rows, and the precision of the answer."""
    if isinstance(operator, Smoother) and operator.symmetric:
        graph = operator.graph
        points, ordered = (None, False) if graph is None else (graph.points, graph.ordered)
        order = None if ordered else memory_order(operator.matrix, points)
        work = SparseOperator(operator.matrix, order, operator.leaving)
        return work, _known(operator, work, order, k), order, operator.dtype
    if isinstance(operator, Tensor):
        if operator.ndim != 2 or operator.shape[0] != operator.shape[1]:
            raise InputError(f"expected a square matrix, got shape {tuple(operator.shape)}")
        matrix = operator if operator.layout == torch.sparse_csr else operator.to_sparse_csr()
        order = memory_order(matrix)
        return SparseOperator(matrix, order), _none(matrix.shape[0], matrix.device), order, matrix.dtype
    if isinstance(operator, Smoother):
        apply, n, device, dtype = operator.apply_symmetric, operator.n, operator.device, operator.dtype
    elif callable(operator):
        if n is None:
            raise InputError("a function as operator needs the number of points n")
        apply, device = operator, generator.device if start is None else start.device
        dtype = torch.float64 if start is None else start.dtype
    else:
        raise InputError(f"expected a smoother, a square tensor or a function, got {type(operator).__name__}")
    return FunctionOperator(apply, n, device), _none(n, device), None, dtype


def _known(smoother: Smoother, work: SparseOperator, order: Tensor | None, k: int) -> Tensor:
    if not smoother.fixes_mass:
        return _none(smoother.n, smoother.device)
    known = null_vectors(smoother.mass, smoother.components[1], smoother.components[0], k)
    known = known if order is None else known[order]
    fixed = float((work.apply(known) - known).norm(dim=0).max()) <= UNFIXED
    return known if fixed else _none(smoother.n, smoother.device)


def _none(n: int, device: torch.device) -> Tensor:
    return torch.empty((n, 0), dtype=torch.float64, device=device)
