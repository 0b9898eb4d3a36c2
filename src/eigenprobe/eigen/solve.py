"""The closed-form optimum: the leading eigenpairs of the smoother, which is a sparse matrix.

    A q_k = mu_k q_k,   1 = mu_1 >= mu_2 >= ...
    covariances C = p(A) share the q_k: they are the PCA of the probes

The first solver that suits the problem solves it.  Every answer is checked (finite, orthonormal,
residual); where a solver gives up, or its answer is not sound, the next one that suits takes over,
and `Eigenpairs.solver` says which it was:

    dense      a few hundred points, or nearly as many vectors as points     LAPACK
    inverse    curves; surfaces on the host                                  Lanczos, sparse factor
    nested     many points of low dimension                                  coarse to fine
    filtered   everything else, any device, any operator, many clouds        Chebyshev filters

and LAPACK has the last word on up to 4096 points.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError, held_warnings, warn
from ..host.threads import limited_threads
from ..neighbors.layout import memory_order
from ..smoothers import Smoother
from . import filtered, inverse, nested
from .problem import (
    Apply,
    Eigenpairs,
    FunctionOperator,
    Operator,
    Problem,
    SparseOperator,
    components_of,
    floor,
    inner,
    null_vectors,
)

TOLERANCE = 1e-6  # residual, unless another one is asked for
FEW = 256  # points up to which LAPACK is at least as fast as the others
LOOSEST = 20.0  # residual over tol that no sound answer has
# Half of the digits of single precision: the inner product of two vectors, and |A q - q| of a
# known one, that no sound answer has.
HALF = torch.finfo(torch.float32).eps ** 0.5
AFFORDABLE = 4096  # points up to which LAPACK has the last word


class Solver(NamedTuple):
    """A row of the table above: a test of the problem, and what is done then: vectors ``(n,
    wanted)`` and gaps ``(wanted,)``.
    """

    name: str
    suits: Callable[[Problem], bool]
    solve: Callable[[Problem], tuple[Tensor, Tensor]]


def solve_dense(problem: Problem) -> tuple[Tensor, Tensor]:
    """LAPACK on the dense matrix."""
    operator = problem.operator
    if isinstance(operator, SparseOperator):
        gap = operator.laplacian().to_dense()
    else:
        identity = torch.eye(operator.n, dtype=torch.float64, device=operator.device)
        gap = identity - operator.apply(identity)
    values, vectors = inverse.dense_pairs(gap, problem.known, problem.wanted)
    return vectors, values


LAPACK = Solver("dense", lambda p: p.n <= max(FEW, inverse.DENSE * p.wanted), solve_dense)
SOLVERS = (
    LAPACK,
    Solver("inverse", inverse.suits, inverse.solve),
    Solver("nested", nested.suits, nested.solve),
    Solver("filtered", lambda problem: True, filtered.solve),
)


@torch.no_grad()
def solve(
    operator: Smoother | Apply,
    k: int,
    *,
    tol: float = TOLERANCE,
    n: int | None = None,
    generator: torch.Generator | None = None,
) -> Eigenpairs:
    """The ``k`` leading eigenpairs of a symmetric operator: orthonormal vectors ``(n, k)`` and gaps
    ``1 - mu (k,)``.

    Equivalent to ``scipy.sparse.linalg.eigsh(A, k, which="LA")`` up to signs and rotations of equal
    eigenvalues.

    Parameters
    ----------
    operator
        A `Smoother` (one of kind ``row`` enters as the covariance of its probes); or a function
        ``(n, p) -> (n, p)`` that applies a symmetric operator, with ``n``.
    tol
        Largest residual ``|A q - mu q|`` of a returned pair. A warning says when it was not
        reached.
    generator
        Source of the random start; without one a fixed seed makes the result reproducible. A
        function is called with blocks on its device, in float32 and at last in float64.

    Returns
    -------
    Vectors in the precision of the operator; gaps always in float64, because ``1 - mu`` is what
    matters.

    Examples
    --------
    >>> ring = lambda x: (x.roll(1, 0) + x.roll(-1, 0)) / 2
    >>> solve(ring, 3, n=100).factors.round(decimals=6).tolist()
    [1.0, 0.998027, 0.998027]
    """
    generator = generator or torch.Generator().manual_seed(0)
    problem, order, dtype = _posed(operator, k, n, generator, tol)
    vectors, device = problem.known, problem.operator.device
    found = Eigenpairs(vectors, vectors.new_zeros(vectors.shape[1]), "known", 0.0)
    if problem.wanted:
        with limited_threads(device, problem.n):
            alone = replace(problem, labels=None)
            chosen = next(each for each in SOLVERS if each.suits(alone))
            if problem.labels is not None and chosen.solve is nested.solve:
                found = _by_component(problem, problem.labels)
            else:
                found = _checked(problem)
        # By construction, whatever the solver: a component is a gap of 0.
        vectors = torch.cat([vectors, found.vectors.to(vectors)], 1)
        gaps = torch.nn.functional.pad(found.gaps.to(device), (problem.known.shape[1], 0))
        found = found._replace(gaps=gaps)
    if order is not None:
        vectors = torch.empty_like(vectors).index_copy_(0, order, vectors)
    return found._replace(vectors=vectors.to(dtype))


@torch.no_grad()
def solve_each(
    smoother: Smoother, k: int, *, tol: float = TOLERANCE, generator: torch.Generator
) -> Eigenpairs:
    """The ``k`` leading eigenpairs of every cloud of a stacked smoother that fixes ``sqrt(mass)``,
    of any sizes, the largest first: one small cloud leaves a device idle.

    Vectors ``(b, most, k)`` float64, zero in the rows that pad a cloud, and gaps ``(b, k)``.
    """
    work = SparseOperator(smoother.matrix, None, smoother.degree, smoother.clouds)
    known, parts = null_vectors(smoother, k)
    wanted = tuple(k - count for count in parts)
    guard = block_columns(k) - max(wanted)
    problem = Problem(work, known, wanted, guard, tol, generator, surface=True)
    vectors, values = known[:, :0], torch.zeros((len(wanted), 0), dtype=torch.float64)
    if max(wanted):
        vectors, values = filtered.solve(problem)
        values = values.reshape(len(wanted), -1)
    # Every cloud has its own number of known vectors: the others of their columns come last.
    own = torch.arange(known.shape[1]) < torch.tensor(parts)[:, None]
    gaps = torch.cat([torch.where(own, 0.0, math.inf).double(), values], 1)
    order = gaps.argsort(dim=1, stable=True)[:, :k]
    vectors = work.each.padded(torch.cat([known, vectors.to(known)], 1))
    place = order.to(work.device)[:, None].expand(-1, vectors.shape[1], -1)
    return Eigenpairs(vectors.gather(2, place), gaps.gather(1, order).to(work.device), "filtered")


def block_columns(k: int) -> int:
    """Columns of a block beside the constant one: those wanted and guards, as many as loads of
    memory fit.
    """
    return -(-(k - 1 + max(8, k // 4)) // 8) * 8


def _by_component(problem: Problem, labels: Tensor) -> Eigenpairs:
    """The wanted pairs of a disconnected operator: those with the smallest gaps among the pairs of
    its components, each solved alone. A hierarchy would not see the functions on small ones.
    """
    sizes = torch.bincount(labels)
    order = labels.argsort(stable=True)
    rows_of_each = [rows for rows in order.split(sizes.tolist()) if len(rows) > 1]
    found = []
    for rows in rows_of_each:
        root = problem.known[rows, :1]
        wanted = min(problem.wanted, len(rows) - 1)
        found.append(_checked(problem.restricted(rows, root / root.norm(), [wanted])))
    gaps = torch.cat([pairs.gaps.to(problem.known) for pairs in found])
    count = min(problem.wanted, len(gaps))
    order = gaps.argsort(stable=True)
    places = order.argsort().split([len(pairs.gaps) for pairs in found])
    vectors = problem.known.new_zeros((problem.n, count))
    for rows, pairs, place in zip(rows_of_each, found, places, strict=True):
        first = place < count
        vectors[rows[:, None], place[first]] = pairs.vectors[:, first].to(vectors)
    solver = found[int(sizes[sizes > 1].argmax())].solver
    return Eigenpairs(vectors, gaps[order[:count]], solver, max(pairs.residual for pairs in found))


def _checked(problem: Problem) -> Eigenpairs:
    """The answer of the first suitable solver whose answer is sound."""
    reason, order = "", [solver for solver in SOLVERS if solver.suits(problem)]
    if problem.n <= AFFORDABLE and LAPACK not in order:
        order.append(LAPACK)
    for solver in order:
        last = solver is order[-1]
        try:
            with held_warnings() as said:
                vectors, gaps = solver.solve(problem)
            loosest = math.inf if last else LOOSEST
            residual, reason = _fault(problem, vectors, gaps, loosest)
        except (MemoryError, torch.OutOfMemoryError):
            reason = "it needs more memory than there is"
        except (RuntimeError, ValueError, IndexError) as error:
            if isinstance(error, InputError):
                raise
            if type(error).__name__ == "AcceleratorError":
                raise InputError(
                    "the device failed and cannot be used again in this process"
                ) from error
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        if not reason:
            for message in said:  # of an answer that another one had to replace nothing is said
                warn(message)
            return Eigenpairs(vectors, gaps, solver.name, residual)
        if problem.operator.device.type == "cuda":
            torch.cuda.empty_cache()
    k = problem.wanted + problem.known.shape[1]
    raise InputError(
        f"no solver found {k} eigenpairs of this operator on {problem.n} points: {reason}"
    )


def _fault(problem: Problem, x: Tensor, gaps: Tensor, loosest: float) -> tuple[float, str]:
    """The largest residual of an answer, and what is wrong with it (nothing: an empty string)."""
    if not bool(torch.isfinite(gaps).all()):
        return math.inf, "eigenvalues are not finite"
    left = x - problem.operator.apply(x)
    residual = torch.addcmul(left, x, gaps.to(x), value=-1).norm(dim=0).max()
    skew = inner(x, x)
    skew.diagonal().sub_(1)
    most, off = torch.stack([residual.double(), skew.abs().max()]).tolist()
    if not most <= loosest * max(problem.tol, floor(torch.float32)):  # the last solver warns of it
        return most, f"a residual of {most:.1e}"
    return most, "" if off <= HALF else f"vectors are not orthonormal (by {off:.1e})"


def _posed(
    operator: Smoother | Apply, k: int, n: int | None, generator: torch.Generator, tol: float
) -> tuple[Problem, Tensor | None, torch.dtype]:
    """The problem that solvers get, the order of its rows, and the precision of the answer."""
    order, symmetric = None, isinstance(operator, Smoother) and operator.symmetric
    work: Operator
    if not isinstance(operator, Smoother):
        if n is None:
            raise InputError("a function as operator needs the number of points n")
        work, dtype = FunctionOperator(operator, n, generator.device), torch.float64
    elif symmetric:
        graph, dtype = operator.graph, operator.dtype
        if graph is None or not graph.ordered:
            order = memory_order(operator.matrix, None if graph is None else graph.points)
        work = SparseOperator(operator.matrix, order, operator.degree)
    else:
        work = FunctionOperator(operator.apply_symmetric, operator.n, operator.device)
        dtype = operator.dtype
    if not 1 <= k <= work.n:
        raise InputError(
            f"expected between 1 and {work.n} eigenpairs for {work.n} points, got k={k}"
        )
    known = torch.empty((work.n, 0), dtype=torch.float64, device=work.device)
    surface, labels = False, None
    if isinstance(operator, Smoother) and operator.fixes_mass:
        alone = replace(operator, clouds=())
        null, (count, labels) = null_vectors(alone, k)[0], components_of(alone)
        if order is not None:
            null, labels = null[order], labels[order]
        if float((work.apply(null) - null).norm(dim=0).max()) <= HALF:
            known = null
        labels = labels if count > 1 and known.shape[1] else None
        surface = round(operator.dimension) == 2 and operator.kind == "adaptive"
    wanted, guard = (k - known.shape[1],), max(10, k // 3)
    problem = Problem(work, known, wanted, guard, tol, generator, symmetric, surface, labels)
    return problem, order, dtype
