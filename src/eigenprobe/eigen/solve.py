"""The closed-form optimum: the leading eigenpairs of the smoother, matrix-free.

    A q_k = mu_k q_k,   1 = mu_1 >= mu_2 >= ... ;    covariances C = p(A) share the q_k: they are the PCA of the probes

A block X (n, p), p = K + guard columns, is swept by Chebyshev filters (`chebyshev`) that damp everything below the
lowest Ritz value, each followed by Rayleigh-Ritz on the p-dimensional span:

    G = X^T X,  H = X^T (X - A X),  H u = (1 - mu) G u,  X <- X U          G, H, U in float64

`1 - mu` is assembled directly because it is tiny on large clouds.  Columns that have converged stay in the span and are
no longer swept.  Sweeps run in float32; a last Rayleigh-Ritz (and, where that is not enough, last sweeps) in float64
brings the residual ``|A q - mu q|`` of every pair below ``tol``.  Large clouds of low dimension on the CPU start from a
coarse copy of themselves (`nested`), after which little is left to sweep.

The multiplicity of mu = 1 is the number of connected components, and its eigenvectors are known: sqrt(mass), restricted
to the components.  They are never iterated on.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import EigenprobeWarning, InputError
from ..graph.order import locality
from ..threads import threads_for
from .chain import solve_chain
from .chebyshev import Apply, FunctionOperator, Operator, SparseOperator, draw, growth, spectral_bounds
from .nested import nested_start

if TYPE_CHECKING:
    from ..smoothers.smoother import Smoother

DENSE = 640  # points up to which LAPACK on the dense matrix is at least as fast
SPREAD = {torch.float32: 1e4, torch.float64: 1e8}  # how far one filter may pull wanted columns apart
FLOOR = {torch.float32: 6e-7, torch.float64: 1e-14}  # residuals that sweeps in this precision may not go below


@torch.no_grad()
def solve(
    operator: Smoother | Tensor | Apply,
    k: int,
    *,
    tol: float = 1e-6,
    max_sweeps: int = 200,
    guard: int | None = None,
    start: Tensor | None = None,
    points: Tensor | None = None,
    n: int | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """The ``k`` leading eigenpairs of a symmetric operator: ``Q (n, k)`` orthonormal and ``mu (k,)`` descending.

    Equivalent to ``scipy.sparse.linalg.eigsh(A, k, which="LA")`` up to signs and rotations of equal eigenvalues.

    Parameters
    ----------
    operator
        A symmetric or adaptive `Smoother`; a symmetric torch tensor, sparse CSR or dense; or a function ``(n, p) ->
        (n, p)`` that applies a symmetric operator, with ``n``.
    tol
        Largest residual ``|A q - mu q|`` of a returned pair. A warning says when ``max_sweeps`` did not reach it.
    guard
        Extra columns; more of them converge in fewer sweeps that cost more each.
    start
        Approximate eigenvectors ``(n, any)``, in any order.
    points
        Coordinates ``(n, d)`` for a cache-friendly order; a smoother brings its own.
    generator
        Source of the random start; without one a fixed seed makes the result reproducible. A function is called
        with blocks on its device (or that of ``start``), in float32 and at last in float64.

    Returns
    -------
    ``Q`` in the precision of the operator; ``mu`` always in float64, because ``1 - mu`` is what matters.

    Examples
    --------
    >>> ring = torch.eye(100).roll(1, 0) / 2 + torch.eye(100).roll(-1, 0) / 2
    >>> solve(ring.to_sparse_csr(), 3)[1].round(decimals=6).tolist()
    [1.0, 0.998027, 0.998027]
    """
    matrix, mass, points = _unpack(operator, points)
    size = n if matrix is None else matrix.shape[0]
    if size is None:
        raise InputError("a function as operator needs the number of points n")
    if not 1 <= k <= size:
        raise InputError(f"expected between 1 and {size} eigenpairs for {size} points, got k={k}")
    generator = generator or torch.Generator().manual_seed(0)
    guard = max(10, k // 3) if guard is None else guard
    if matrix is not None and (size <= DENSE or 3 * (k + guard) > size):
        return _dense(matrix, mass, k)
    if matrix is None:
        assert callable(operator)
        work: Operator = FunctionOperator(operator, size, generator.device if start is None else start.device)
        order, dtype = None, torch.float64 if start is None else start.dtype
    else:
        order, dtype = locality(matrix, points), matrix.dtype
        work = SparseOperator(matrix, order)
        mass = mass if mass is None or order is None else mass[order]
        start = start if start is None or order is None else start[order]
    with threads_for(size, work.device):
        found, mu = _leading(work, mass, start, k, guard, tol, max_sweeps, generator)
    if order is not None:
        found = torch.empty_like(found).index_copy_(0, order, found)
    return found.to(dtype), mu.to(work.device)


def _leading(
    work: Operator,
    mass: Tensor | None,
    start: Tensor | None,
    k: int,
    guard: int,
    tol: float,
    max_sweeps: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """The known eigenvectors of mu = 1 and the others by whichever way suits the operator; float64."""
    known = _known(work, mass, k)
    found, mu = known, 1 - _gaps(known, known - work.apply(known))
    if known.shape[1] < k:
        wanted = k - known.shape[1]
        width = min(wanted + guard, work.n - known.shape[1])
        if known.shape[1] and isinstance(work, SparseOperator) and work.is_chain():
            block, gaps = solve_chain(work.laplacian(), known, wanted, guard, generator)
        else:
            if start is None and known.shape[1] and isinstance(work, SparseOperator) and work.worth_coarsening():
                block = nested_start(work.laplacian(), known.numpy(), wanted, width, 0.8 * tol)
                block, random = block[:, : wanted + 4].double(), False
            else:
                block, random = _start(start, width, work.n, generator, work.device), start is None
            block, gaps = _iterate(work, block, known, wanted, tol, max_sweeps, generator, random)
        found, mu = torch.cat([known, block[:, :wanted]], 1), torch.cat([mu, 1 - gaps[:wanted]])
    return found, mu


def _iterate(
    work: Operator,
    block: Tensor,
    known: Tensor,
    wanted: int,
    tol: float,
    max_sweeps: int,
    generator: torch.Generator,
    random: bool,
) -> tuple[Tensor, Tensor]:
    """Sweep ``block`` until its first ``wanted`` Ritz pairs have converged: ``X (n, p)`` and ``1 - mu (p,)``."""
    lo = top = hi = math.nan
    degree, sweeps = 8, 0
    active = torch.ones(block.shape[1], dtype=torch.bool)
    gaps = worst = None
    for dtype in (torch.float32, torch.float64) if block.dtype == torch.float32 else (torch.float64,):
        block, basis = block.to(dtype), known.to(dtype)
        target, before = max(0.9 * tol, FLOOR[dtype]), math.inf
        fresh = random and dtype == torch.float32
        while True:
            if not fresh:
                block, gaps, residuals = _rayleigh_ritz(work, _without(block, basis))
                worst = residuals[:wanted]
                active = torch.ones(block.shape[1], dtype=torch.bool)
                active[:wanted] = worst > target
                now = float(worst.max())
                stalled = now < 16 * FLOOR[dtype] and now > before / 2
                if now <= target or stalled or sweeps >= max_sweeps:
                    break
                before = now
            if not sweeps:  # a good start may need no sweep and no bounds
                lo, top = spectral_bounds(work, generator)
                top = 1.0 if known.shape[1] else top
                hi = (lo + 3 * top) / 4
            if gaps is not None:
                lowest = float(1 - gaps[-1])
                if lowest > lo:
                    hi = min(lowest, top - 1e-12)
                else:  # Lanczos stopped short of an isolated lowest eigenvalue, whose vector the filter has then raised
                    lo = lowest - float(residuals[-1]) - (top - lowest) / 16
                degree = _degree(1 - gaps, residuals, active, wanted, target, lo, hi, dtype)
            fresh = False
            kept, swept = block[:, ~active], block[:, active].contiguous()
            block = torch.cat([kept, work.filter(swept, degree, lo, hi)], 1)
            sweeps += 1
    assert gaps is not None and worst is not None
    if float(worst.max()) > tol:
        warnings.warn(
            f"direct solver stopped after {sweeps} sweeps with a residual of {float(worst.max()):.1e}, above {tol:.1e}",
            EigenprobeWarning,
            stacklevel=4,
        )
    return block, gaps


def _degree(
    mu: Tensor,
    residuals: Tensor,
    active: Tensor,
    wanted: int,
    target: float,
    lo: float,
    hi: float,
    dtype: torch.dtype,
) -> int:
    """Just enough for every unconverged pair, but no more than keeps the swept columns independent."""
    rates = [growth(float(m), lo, hi) for m in mu[active]]
    pairs = zip(rates, residuals[active].tolist(), active.nonzero()[:, 0].tolist(), strict=True)
    needs = [math.acosh(max(2 * r / target, 1.5)) / max(rate, 1e-9) for rate, r, i in pairs if i < wanted]
    most = math.log(2 * SPREAD[dtype]) / max(rates[0], 1e-9)
    return max(3, math.ceil(min(max(needs), most)))


def _rayleigh_ritz(work: Operator, block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Ritz vectors of the span, ``1 - mu`` ascending and the norms of the residuals (the last two on the host)."""
    block = block / block.norm(dim=0).clamp_min(torch.finfo(block.dtype).tiny)
    gram = _gram(block, block)
    spread = torch.linalg.eigvalsh(gram)
    if not bool(spread[0] > 1e-3 * spread[-1]):  # single-precision Gram matrices need nearly orthogonal columns
        block = torch.linalg.qr(block)[0]
        gram = _gram(block, block)
    gap = block - work.apply(block)
    small = _gram(block, gap)
    factor = torch.linalg.cholesky(gram)
    half = torch.linalg.solve_triangular(factor, (small + small.mT) / 2, upper=False)
    reduced = torch.linalg.solve_triangular(factor, half.mT, upper=False)
    gaps, vectors = torch.linalg.eigh((reduced + reduced.mT) / 2)
    rotation = torch.linalg.solve_triangular(factor.mT, vectors, upper=True)
    block, gap = _times(block, rotation), _times(gap, rotation)
    residuals = gap.addcmul_(block, gaps.to(block.dtype), value=-1).norm(dim=0)
    both = torch.stack([gaps, residuals.double()]).cpu()
    return block, both[0], both[1]


def _gram(x: Tensor, y: Tensor) -> Tensor:
    """``x^T y`` in float64. A GPU may multiply float32 in reduced precision, so there the factors are widened."""
    return x.double().mT @ y.double() if x.is_cuda else (x.mT @ y).double()


def _times(x: Tensor, small: Tensor) -> Tensor:
    return (x.double() @ small).to(x.dtype) if x.is_cuda else x @ small.to(x.dtype)


def _without(block: Tensor, known: Tensor) -> Tensor:
    if not known.shape[1]:
        return block
    for _ in range(2):
        block = block - _times(known, _gram(known, block).to(torch.float64))
    return block


def _gaps(q: Tensor, gap: Tensor) -> Tensor:
    return (q * gap).sum(0).cpu()


def _start(start: Tensor | None, width: int, n: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """A random block, its first columns replaced by the given ones."""
    given = 0 if start is None else min(start.shape[1], width)
    block = draw((n, width - given), generator, device, torch.float32)
    return block if start is None else torch.cat([start[:, :given].float(), block * n**-0.5], 1)


def _known(work: Operator, mass: Tensor | None, k: int) -> Tensor:
    """Eigenvectors of mu = 1 in closed form ``(n, min(k, components))``; the first is ``sqrt(mass)``, positive."""
    if mass is None or not isinstance(work, SparseOperator):
        return torch.empty((work.n, 0), dtype=torch.float64, device=work.device)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    pointers, columns = (index.cpu().numpy() for index in work.pattern)
    pattern = csr_array((np.ones(len(columns), np.int8), columns, pointers), shape=(work.n, work.n))
    count, labels = connected_components(pattern, directed=False)
    label = torch.from_numpy(labels.astype(np.int64)).to(work.device)
    root = mass.double().sqrt()
    weights = torch.zeros(count, dtype=torch.float64, device=work.device).index_add_(0, label, root.square())
    # A Householder reflection completes the unit vector sqrt(weights) to an orthonormal basis of the components.
    unit = (weights / weights.sum()).sqrt()
    axis = unit.clone()
    axis[0] -= 1
    width = min(k, count)
    basis = torch.eye(count, width, dtype=torch.float64, device=work.device)
    if count > 1:
        basis -= 2 * axis[:, None] * axis[None, :width] / axis.square().sum()
    known = (root / weights[label].sqrt())[:, None] * basis[label]
    error = float((work.apply(known) - known).norm(dim=0).max())
    if error > 1e-4:  # a matrix that does not fix sqrt(mass): solve for everything
        return torch.empty((work.n, 0), dtype=torch.float64, device=work.device)
    return known


def _dense(matrix: Tensor, mass: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
    full = matrix.to_dense() if matrix.layout != torch.strided else matrix
    values, vectors = torch.linalg.eigh(full.double())
    q, mu = vectors.flip(1)[:, :k], values.flip(0)[:k]
    if mass is not None:  # among equal eigenvalues (components) the first is sqrt(mass)
        same = int((mu > mu[0] - 1e-10).sum())
        root = mass.double().sqrt()
        root = root / root.norm()
        if float((full.double() @ root - root).norm()) < 1e-4:
            lead = torch.cat([root[:, None], q[:, :same]], 1)
            q = torch.cat([torch.linalg.qr(lead)[0][:, :same], q[:, same:]], 1)
            q[:, 0] = root
    return q.to(matrix.dtype), mu


def _unpack(operator: Any, points: Tensor | None) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Matrix, mass and points of whatever was given."""
    if isinstance(operator, Tensor):
        matrix, mass = operator, None
    elif hasattr(operator, "matrix") and hasattr(operator, "symmetric"):
        if not operator.symmetric:
            raise InputError(
                "expected a symmetric or adaptive smoother (pass a covariance for a row smoother), got row"
            )
        matrix, mass = operator.matrix, operator.mass
        points = operator.graph.points if points is None and getattr(operator, "graph", None) is not None else points
    elif callable(operator):
        return None, None, points
    else:
        raise InputError(f"expected a smoother, a square tensor or a function, got {type(operator).__name__}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"expected a square matrix, got shape {tuple(matrix.shape)}")
    return (matrix.to_sparse_csr() if matrix.layout != torch.sparse_csr else matrix), mass, points
