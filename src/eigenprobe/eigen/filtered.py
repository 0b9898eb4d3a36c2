"""Chebyshev-filtered subspace iteration [Zhou, Saad 2007]: any symmetric operator, any graph, any
device, one cloud or many at once.

A block X (n, p), p = wanted + guard columns, is swept by filters (`problem`) that damp everything
below the lowest Ritz value, each followed by Rayleigh-Ritz on the p-dimensional span:

    X <- T_d(B) X,     B = (A - c_i) / e_i on cloud i             one sparse product for all clouds
    G = X^T X,  H = X^T (X - A X),  H u = (1 - mu) G u,  X <- X U         per cloud, in float64

`1 - mu` is assembled directly because it is tiny on large clouds.  Many clouds are the blocks of
one block-diagonal A, so that a device is busy: they share the degree d, which is enough for half of
them and no higher than keeps the columns of each independent.  Clouds that have converged, and
columns that have on all clouds, are no longer swept; the columns stay in the span.
Sweeps run in float32; a last Rayleigh-Ritz (and, where that is not enough, last sweeps) in float64
brings the residual ``|A q - mu q|`` of every pair below ``tol``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import warn
from ..host.progress import report
from ..host.threads import cores, limited_threads, side_by_side
from .problem import Problem, floor, growth, inner, normal_block, times, without

PATIENT = 200  # sweeps at most
AT_ONCE = 4  # sweeps at most without Rayleigh-Ritz in between


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    size, interval = (problem.n, problem.width), _first_interval(problem)
    block = normal_block(size, problem.generator, problem.operator.device, torch.float32)
    rates = growth(interval.top[:, None], interval.lo, interval.hi)
    # Before anything is known about the spectrum; twice where the last guard is about known.
    needs = (1 + problem.surface) * _exponent(block.dtype) / rates[:, 0]
    block = _swept(problem, block, interval, rates, needs)
    return refine(problem, block, interval)


def refine(
    problem: Problem, block: Tensor, interval: _Interval | None = None
) -> tuple[Tensor, Tensor]:
    """Sweep ``block (n, p)`` until the wanted Ritz pairs have converged; filters damp the
    ``interval``, where it is known.

    Vectors ``(n, wanted)`` float64 and gaps ``(wanted,)``; of several clouds ``(b, wanted)``.
    """
    needed = torch.arange(block.shape[1]) < torch.tensor(problem.wanted_each)[:, None]  # (b, p)
    gaps, residuals = torch.zeros((2, *needed.shape), dtype=torch.float64)
    interval, sweeps = interval or _first_interval(problem), 0
    for dtype in (torch.float32, torch.float64)[block.dtype == torch.float64 :]:
        block, least = block.to(dtype), floor(dtype)
        part, going, rows = problem, torch.ones(len(needed), dtype=torch.bool), None
        before = torch.full((len(needed),), math.inf, dtype=torch.float64)
        while True:  # until converged or no longer gaining in this precision
            own = block if rows is None else block[rows]
            own, gaps[going], residuals[going] = rayleigh_ritz(part, own)
            block = own if rows is None else block.index_copy_(0, rows, own)
            excess = torch.where(needed, residuals / _target(problem, gaps, least), 0.0)
            worst = torch.where(excess > 1, residuals, 0.0).amax(1)
            # Near the least that the precision allows a sweep no longer halves the residual.
            going &= (worst > 0) & ((worst >= 16 * least) | (worst <= before / 2))
            if not bool(going.any()) or sweeps >= PATIENT:
                break
            if int(going.sum()) < len(part.each):
                rows = problem.each.spread(going.to(block.device)).nonzero()[:, 0]
                part = problem.of_clouds(going, rows)
                own = block[rows]
            before, sweeps = worst, sweeps + 1
            report(f"sweep {sweeps}, residual {float(worst.max()):.0e}")
            interval = interval.below(gaps, residuals)
            limits = _Interval(*(bound[going] for bound in interval))
            rates = growth(1 - gaps[going], *limits[:2])
            own = _swept(part, own, limits, rates, *_need(problem, rates, excess[going]))
            block = own if rows is None else block.index_copy_(0, rows, own)
    now = float(residuals[needed].max())
    if now > problem.tol:
        stopped = f"direct solver stopped after {sweeps} sweeps"
        warn(f"{stopped} with a residual of {now:.1e}, above {problem.tol:.1e}")
    gaps = gaps[:, : problem.wanted]
    return block[:, : problem.wanted], gaps[0] if len(gaps) == 1 else gaps


def _target(problem: Problem, gaps: Tensor, least: float) -> Tensor:
    """The residuals ``(b, p)`` that are enough: of ``tol``, and where gaps are what is asked for
    such that their errors, ``r^2`` over the distance to what is not in the block, are 1e-6 of
    them.
    """
    enough = torch.full_like(gaps, 0.9 * problem.tol)
    if problem.known.shape[1]:
        gaps = gaps.clamp_min(0)  # of the last ones copies may be beyond the block
        apart = (gaps[:, -1:] - gaps).maximum(gaps)
        enough = enough.minimum((1e-6 * gaps * apart).sqrt())
    return enough.clamp_min(least)


class _Interval(NamedTuple):
    """What a filter damps, [lo, hi], and the top of the spectrum, ``(b,)`` on the host."""

    lo: Tensor
    hi: Tensor
    top: Tensor

    def below(self, gaps: Tensor, residuals: Tensor) -> _Interval:
        """The interval that ends at the lowest Ritz value."""
        lowest, room = 1 - gaps[:, -1], self.top - self.lo
        # A covariance of low rank has its lowest Ritz values at the bottom: a filter needs room
        # below them.  The third power of what it grows by then, squared, is still a float32.
        hi = lowest.maximum(self.lo + 1e-5 * room).minimum(self.top - 1e-12)
        # The first bounds fell short of an isolated lowest eigenvalue, whose vector the filter has
        # then raised.
        lower = lowest - residuals[:, -1] - (self.top - lowest) / 16
        above = lowest > self.lo
        lo, hi = torch.where(above, self.lo, lower), torch.where(above, hi, self.hi)
        return _Interval(lo, hi, self.top)


def _first_interval(problem: Problem) -> _Interval:
    """Up to where Weyl's law has the last guard; three quarters of the spectrum without it."""
    lo, top = spectral_bounds(problem)
    top = torch.ones_like(top) if problem.known.shape[1] else top
    hi = 1 - problem.sparse.weyl_gap(problem.width) if problem.surface else (lo + 3 * top) / 4
    return _Interval(lo, hi.maximum((lo + 3 * top) / 4), top)


def spectral_bounds(problem: Problem, steps: int = 12) -> tuple[Tensor, Tensor]:
    """Intervals ``(b,)`` that hold the spectrum of every cloud beyond the known vectors: Ritz
    values of a Krylov space, widened by their residuals.
    """
    operator = problem.operator
    steps = min(steps, min(problem.each.sizes) - problem.known.shape[1])
    block = [normal_block((problem.n, 1), problem.generator, operator.device, torch.float64)]
    for _ in range(steps - 1):
        block.append(operator.apply(block[-1]))
    _, gaps, residuals = rayleigh_ritz(problem, torch.cat(block, 1))
    low, high = 1 - gaps - residuals, 1 - gaps + residuals
    return low[:, -1], high[:, 0]


def _need(problem: Problem, rates: Tensor, excess: Tensor) -> tuple[Tensor, Tensor]:
    """The degree ``(b,)`` of filters that are just enough for every cloud, and the columns ``(p,)``
    to be swept; ``excess (b, p)`` are residuals over those that are enough.
    """
    # A value within tol of the interval has a rate of about sqrt(tol) at most: its vector may mix
    # with those inside.
    needs = torch.acosh((2 * excess).clamp_min(1.5)) / rates
    needs = torch.where(rates > problem.tol**0.5, needs, 3.0).masked_fill(excess <= 1, 0)
    active = (excess > 1).any(0)
    active[problem.wanted :] = True
    return needs.amax(1), active


def _swept(
    problem: Problem,
    block: Tensor,
    interval: _Interval,
    rates: Tensor,
    needs: Tensor,
    active: Tensor | None = None,
) -> Tensor:
    """The block after filters of the degree that half of its clouds have or exceed what they need,
    but no more than keeps the ``active`` columns independent.

    A cloud whose columns that degree would pull too far apart is damped from farther below on:
    there all of its ``rates (b, p)`` are lower.
    """
    active = torch.ones(block.shape[1], dtype=torch.bool) if active is None else active
    rates = rates.expand(-1, block.shape[1]).clamp_min(problem.tol**0.5)
    # What others have of the converged vectors, which are known to tol or to rounding, grows with
    # them, far above the others, and as much of it stays there when it is taken off.
    room = -2 * math.log(max(problem.tol, torch.finfo(block.dtype).eps ** 0.75))
    most = (room / rates[:, 0]).minimum(_exponent(block.dtype) / rates[:, active][:, 0])  # (b,)
    longest, usual = float(needs.median()), float(most.median())
    count = min(math.ceil(longest / usual), AT_ONCE)
    degree = max(3, math.ceil(min(longest / count, usual)))
    slower = rates[:, 0] * (most / degree).clamp_max(1)
    width = (rates[:, 0].cosh() - 1) / (slower.cosh() - 1) * (interval.hi - interval.lo)
    fixed, swept = block[:, ~active], block if bool(active.all()) else block[:, active].contiguous()
    for more in range(count)[::-1]:
        swept = problem.operator.filter(swept, degree, interval.hi - width, interval.hi)
        swept = orthonormal(problem, swept, fixed) if more else swept
    return torch.cat([fixed, swept], 1) if fixed.shape[1] else swept


def _exponent(dtype: torch.dtype) -> float:
    """The logarithm of how far a sweep may pull columns apart, s: their Gram matrix in float64 has
    the condition s^2, and the slowest are known to s eps in float32, to be a few per cent.
    """
    spread = min(torch.finfo(dtype).eps ** -0.75, torch.finfo(torch.float64).eps ** -0.5)
    return math.log(2 * spread)


def orthonormal(problem: Problem, block: Tensor, fixed: Tensor | None = None) -> Tensor:
    """The block ``(n, p)`` without its part along the known vectors (and ``fixed`` ones), its
    columns orthonormal on every cloud.
    """
    each = problem.each
    known = problem.known.to(block)
    known = known if fixed is None else torch.cat([known, fixed], 1)
    x = without(each.padded(block), each.padded(known))  # (b, most, p)
    x = x / x.norm(dim=1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    factor, status = torch.linalg.cholesky_ex(inner(x, x, wide=True))
    least = factor.diagonal(dim1=-2, dim2=-1).amin()
    if bool((status == 0).all() & (least > torch.finfo(torch.float64).eps ** 0.5)):
        x = times(x, _inverse(factor).mT)
    else:
        x = torch.linalg.qr(x)[0]
    return each.stacked(x)


def rayleigh_ritz(problem: Problem, block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Ritz vectors of the span of a block; their values ``1 - mu``, ascending, and the norms of
    their residuals, ``(b, p)`` float64 on the host.
    """
    each, block = problem.each, orthonormal(problem, block)
    gap = each.padded(block - problem.operator.apply(block))
    x = each.padded(block)
    white = _inverse(torch.linalg.cholesky_ex(inner(x, x))[0]).mT
    gaps, turn = _eigh(white.mT @ inner(x, gap) @ white)
    turn = white @ turn
    x, gap = times(x, turn), times(gap, turn)
    residuals = gap.addcmul_(x, gaps.to(x)[:, None], value=-1).norm(dim=1)
    return each.stacked(x), gaps, residuals.double().cpu()


def _inverse(factor: Tensor) -> Tensor:
    """Of lower triangular matrices."""
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return torch.linalg.solve_triangular(factor, identity, upper=False)


def _eigh(small: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenpairs of symmetric matrices ``(b, p, p)``: values on the host, vectors on the device.

    A device takes such small ones one after the other, and the host as many as it has cores; with
    all its threads at one of them it takes ten times as long as with one.
    """
    host = ((small + small.mT) / 2).cpu()
    with limited_threads(host.device, 0):
        found = side_by_side(torch.linalg.eigh, host.split(-(-len(host) // cores())))
    values, vectors = (torch.cat(part) for part in zip(*found, strict=True))
    return values, vectors.to(small.device)
