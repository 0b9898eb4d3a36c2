"""Chebyshev-filtered subspace iteration [Zhou, Saad 2007]: any symmetric operator, any graph, any device.

A block X (n, p), p = wanted + guard columns, is swept by filters (`chebyshev`) that damp everything below the lowest
Ritz value, each followed by Rayleigh-Ritz on the p-dimensional span:

    G = X^T X,  H = X^T (X - A X),  H u = (1 - mu) G u,  X <- X U          G, H, U in float64

`1 - mu` is assembled directly because it is tiny on large clouds.  Columns that have converged stay in the span and are
no longer swept.  Sweeps run in float32; a last Rayleigh-Ritz (and, where that is not enough, last sweeps) in float64
brings the residual ``|A q - mu q|`` of every pair below ``tol``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..errors import warn
from ..host.progress import report
from .problem import Eigenpairs, Operator, Problem, growth, inner, spectral_bounds, times, without
from .span import small_ritz


@dataclass(frozen=True)
class Filtering:
    """Constants of the iteration; `docs/constants.md` has their derivation or ablation."""

    first_degree: int = 8  # before anything is known about the spectrum
    spread: tuple[float, float] = (1e4, 1e8)  # float32, float64: how far one filter may pull wanted columns apart
    floor: tuple[float, float] = (6e-7, 1e-14)  # residuals that sweeps in this precision cannot go below
    orthogonal: float = 1e-3  # squared diagonal of the Cholesky factor of a Gram matrix that may be used as it is


FILTERING = Filtering()
ROOM = 1e-5  # of the spectrum: the third power of its inverse, squared, is still a float32
LARGEST = 60.0  # logarithm of the largest growth of any vector in one sweep, in single precision
UNRESOLVED = "are not resolved by the residual reached"


def suits(problem: Problem) -> bool:
    return True


def solve(problem: Problem) -> Eigenpairs:
    return refine(problem, problem.block(), fresh=problem.start is None)


def refine(problem: Problem, block: Tensor, *, fresh: bool = False) -> Eigenpairs:
    """Sweep ``block (n, p)`` until its first ``wanted`` Ritz pairs have converged; ``fresh``: it is random."""
    operator, wanted, interval, sweeps = problem.operator, problem.wanted, None, 0
    for dtype in (torch.float32, torch.float64) if block.dtype == torch.float32 else (torch.float64,):
        block, known, floor = block.to(dtype), problem.known.to(dtype), FILTERING.floor[dtype != torch.float32]
        target, before = max(0.9 * problem.tol, floor), math.inf
        if fresh and dtype == torch.float32:
            interval, sweeps = _first_interval(problem), 1
            block = operator.filter(block, FILTERING.first_degree, interval.lo, interval.hi)
        while True:  # until converged or no longer gaining in this precision
            block, pairs = rayleigh_ritz(operator, without(block, known))
            now = float(pairs.residuals[:wanted].max())
            if now <= target or stalled(now, before, floor) or sweeps >= problem.max_sweeps:
                break
            before, sweeps = now, sweeps + 1
            report(f"sweep {sweeps}, residual {now:.0e}")
            active = torch.ones(block.shape[1], dtype=torch.bool)
            active[:wanted] = pairs.residuals[:wanted] > target
            # A good start needs neither a first sweep nor bounds.
            interval = (interval or _first_interval(problem)).below(pairs)
            degree = _degree(pairs, active, interval, target, wanted, dtype)
            swept = block if bool(active.all()) else block[:, active].contiguous()
            swept = operator.filter(swept, degree, interval.lo, interval.hi)
            block = swept if bool(active.all()) else torch.cat([block[:, ~active], swept], 1)
    if now > problem.tol:
        stopped = f"direct solver stopped after {sweeps} sweeps"
        warn(f"{stopped} with a residual of {now:.1e}, above {problem.tol:.1e}")
    elif problem.known.shape[1]:
        warn_of_unresolved(pairs.gaps, pairs.residuals, wanted)
    return Eigenpairs(block[:, :wanted], pairs.gaps[:wanted])


@dataclass(frozen=True)
class _Pairs:
    """Ritz values of a block and the norms of their residuals, both ``(p,)`` float64 on the host."""

    gaps: Tensor
    residuals: Tensor


@dataclass(frozen=True)
class _Interval:
    """What a filter damps, [lo, hi], and the top of the spectrum."""

    lo: float
    hi: float
    top: float

    def below(self, pairs: _Pairs) -> _Interval:
        """The interval that ends at the lowest Ritz value."""
        lowest = float(1 - pairs.gaps[-1])
        if lowest > self.lo:
            # A covariance of low rank has its lowest Ritz values at the bottom: a filter needs room below them.
            return replace(self, hi=min(max(lowest, self.lo + ROOM * (self.top - self.lo)), self.top - 1e-12))
        # Lanczos stopped short of an isolated lowest eigenvalue, whose vector the filter has then raised.
        return replace(self, lo=lowest - float(pairs.residuals[-1]) - (self.top - lowest) / 16)


def _first_interval(problem: Problem) -> _Interval:
    """Three quarters of the spectrum, before anything is known of it."""
    lo, top = spectral_bounds(problem.operator, problem.generator)
    top = 1.0 if problem.known.shape[1] else top
    return _Interval(lo, (lo + 3 * top) / 4, top)


def _degree(pairs: _Pairs, active: Tensor, interval: _Interval, target: float, wanted: int, dtype: torch.dtype) -> int:
    """Just enough for every unconverged pair, but no more than keeps the swept columns independent."""
    rates = growth(1 - pairs.gaps, interval.lo, interval.hi)
    # Values at the bottom of the spectrum (rate 0) do not grow under any filter: they are left as they are.
    slow = active & (rates > 1e-6) & (torch.arange(len(rates)) < wanted)
    needs = torch.acosh((2 * pairs.residuals[slow] / target).clamp_min(1.5)) / rates[slow]
    double = dtype != torch.float32
    widest = math.log(2 * FILTERING.spread[double]) / max(float(rates[active][0]), 1e-9)
    # What rounding left of the converged pairs grows with them, far above the others: never out of range.
    largest = (LARGEST, 8 * LARGEST)[double] / max(float(rates[0]), 1e-9)
    return max(3, math.ceil(min(max(needs.tolist(), default=3), widest, largest)))


def warn_of_unresolved(gaps: Tensor, residuals: Tensor, wanted: int) -> None:
    """A warning where the error of a gap ``(..., p)``, at most about ``r^2`` over the last one, may be all of it."""
    first, zero = gaps[..., :wanted], 100 * FILTERING.floor[1]  # of separate parts, but for rounding
    lost = (residuals[..., :wanted].square() > first * gaps[..., -1:]) & (first > zero)
    if bool(lost.any()):
        least = float(first[lost].min())
        warn(f"eigenvalues 1 - mu of {least:.0e} {UNRESOLVED}: ask for a smaller tol")


def stalled(now: float, before: float, floor: float) -> bool:
    """Whether a residual near the least that its precision allows is no longer halved by a sweep."""
    return now < 16 * floor and now > before / 2


def rayleigh_ritz(operator: Operator, block: Tensor) -> tuple[Tensor, _Pairs]:
    """Ritz vectors of the span of a block and their pairs, ascending in ``1 - mu``."""
    block = block / block.norm(dim=0).clamp_min(torch.finfo(block.dtype).tiny)
    gram = inner(block, block)
    factor, status = torch.linalg.cholesky_ex(gram)
    if not bool((status == 0) & (factor.diagonal().min().square() > FILTERING.orthogonal)):
        block = torch.linalg.qr(block)[0]
        gram = inner(block, block)
    gap = block - operator.apply(block)
    gaps, rotation = small_ritz(inner(block, gap), gram, block.dtype)
    block, gap = times(block, rotation), times(gap, rotation)
    residuals = gap.addcmul_(block, gaps.to(block.dtype), value=-1).norm(dim=0)
    both = torch.stack([gaps, residuals.double()]).cpu()
    return block, _Pairs(both[0], both[1])
