"""Chebyshev-filtered subspace iteration [Zhou, Saad 2007]: any symmetric operator, any graph, any
device, one cloud or many at once.

A block X (n, p), p = wanted + guard columns, is swept by filters (`problem`) that damp everything
below the lowest Ritz value, each followed by Rayleigh-Ritz on the p-dimensional span:

    X <- T_d(B) X,     B = (A - c_i) / e_i on cloud i             one sparse product for all clouds
    G = X^T X,  H = X^T (X - A X),  H u = (1 - mu) G u,  X <- X U         per cloud, in float64

`1 - mu` is assembled directly because it is tiny on large clouds.  Many clouds are the blocks of
one block-diagonal A, so that a device is busy: they share the degree d, which is no higher than
keeps the columns of each independent.  Columns that have converged on all clouds stay in the span
and are no longer swept.  Sweeps run in float32; a last Rayleigh-Ritz (and, where that is not
enough, last sweeps) in float64 brings the residual ``|A q - mu q|`` of every pair below ``tol``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import warn
from ..host.progress import report
from ..host.threads import cores, limited_threads, side_by_side
from .problem import Problem, floor, growth, inner, normal_block, spectral_bounds, times, without

PATIENT = 200  # sweeps at most
AT_ONCE = 4  # sweeps at most without Rayleigh-Ritz in between


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    size, interval = (problem.n, problem.width), _first_interval(problem)
    block = normal_block(size, problem.generator, problem.operator.device, torch.float32)
    return refine(problem, _blind(problem, block, interval), interval)


def refine(
    problem: Problem, block: Tensor, interval: _Interval | None = None
) -> tuple[Tensor, Tensor]:
    """Sweep ``block (n, p)`` until the wanted Ritz pairs have converged. What may be known is the
    ``interval`` that filters damp.

    Vectors ``(n, wanted)`` float64 and gaps ``(wanted,)``; of several clouds ``(b, wanted)``.
    """
    number = torch.arange(block.shape[1])
    needed = number < torch.tensor(problem.wanted_each)[:, None]  # (b, p)
    sweeps, now = 0, math.inf
    pairs: Pairs | None = None
    for dtype in (torch.float32, torch.float64)[block.dtype == torch.float64 :]:
        block, least, before = block.to(dtype), floor(dtype), math.inf
        while True:  # until converged or no longer gaining in this precision
            if pairs is None or pairs.dtype != dtype:
                block, pairs = rayleigh_ritz(problem, block)
            target = _target(problem, pairs, least)
            left = (pairs.residuals > target) & needed
            now = float(torch.where(needed, pairs.residuals, 0.0).max())
            worst = float(torch.where(left, pairs.residuals, 0.0).max())
            # Near the least that the precision allows a sweep no longer halves the residual.
            stalled = worst < 16 * least and worst > before / 2
            if not bool(left.any()) or stalled or sweeps >= PATIENT:
                break
            interval = (interval or _first_interval(problem)).below(pairs)
            rates = growth(1 - pairs.gaps, interval.lo, interval.hi)  # (b, p)
            need = _need(problem, pairs, rates, left, target)
            before, sweeps = worst, sweeps + 1
            report(f"sweep {sweeps}, residual {now:.0e}")
            block, pairs = _swept(problem, block, rates, left, need, interval), None
    assert pairs is not None
    if now > problem.tol:
        stopped = f"direct solver stopped after {sweeps} sweeps"
        warn(f"{stopped} with a residual of {now:.1e}, above {problem.tol:.1e}")
    elif problem.known.shape[1]:
        _warn_of_unresolved(pairs, needed)
    gaps = pairs.gaps[:, : problem.wanted]
    return block[:, : problem.wanted], gaps[0] if len(gaps) == 1 else gaps


def _target(problem: Problem, pairs: Pairs, least: float) -> Tensor:
    """The residuals ``(b, p)`` that are enough: of ``tol``, and where gaps are what is asked for
    such that their errors, ``r^2`` over the distance to what is not in the block, are 1e-6 of them.
    """
    enough = torch.full_like(pairs.gaps, 0.9 * problem.tol)
    if problem.known.shape[1]:
        gaps = pairs.gaps.clamp_min(0)  # of the last ones copies may be beyond the block
        apart = (gaps[:, -1:] - gaps).maximum(gaps)
        enough = enough.minimum((1e-6 * gaps * apart).sqrt())
    return enough.clamp_min(least)


class Pairs(NamedTuple):
    """Ritz values of a block and the norms of their residuals, ``(b, p)`` float64 on the host, as
    products in the precision ``dtype`` tell them.
    """

    gaps: Tensor
    residuals: Tensor
    dtype: torch.dtype


class _Interval(NamedTuple):
    """What a filter damps, [lo, hi], and the top of the spectrum, ``(b,)`` on the host."""

    lo: Tensor
    hi: Tensor
    top: Tensor

    def below(self, pairs: Pairs) -> _Interval:
        """The interval that ends at the lowest Ritz value."""
        lowest, room = 1 - pairs.gaps[:, -1], self.top - self.lo
        # A covariance of low rank has its lowest Ritz values at the bottom: a filter needs room
        # below them.  The third power of what it grows by then, squared, is still a float32.
        hi = lowest.maximum(self.lo + 1e-5 * room).minimum(self.top - 1e-12)
        # Lanczos stopped short of an isolated lowest eigenvalue, whose vector the filter has then
        # raised.
        lower = lowest - pairs.residuals[:, -1] - (self.top - lowest) / 16
        above = lowest > self.lo
        lo, hi = torch.where(above, self.lo, lower), torch.where(above, hi, self.hi)
        return _Interval(lo, hi, self.top)


def _first_interval(problem: Problem) -> _Interval:
    """Up to where Weyl's law has the last guard; three quarters of the spectrum without it."""
    lo, top = spectral_bounds(problem.operator, problem.each, problem.generator)
    top = torch.ones_like(top) if problem.known.shape[1] else top
    hi = 1 - problem.sparse.weyl_gap(problem.width) if problem.surface else (lo + 3 * top) / 4
    return _Interval(lo, hi.maximum((lo + 3 * top) / 4), top)


def _blind(problem: Problem, block: Tensor, interval: _Interval) -> Tensor:
    """A random block after its first sweeps, before anything is known about the spectrum."""
    degree, sweeps = 8, 1
    if problem.surface:
        fastest = float(growth(interval.top[:, None], interval.lo, interval.hi).max())
        degree = math.ceil(_exponent(block.dtype) / max(fastest, problem.tol**0.5))
        sweeps = 2
    for left in range(sweeps)[::-1]:
        block = problem.operator.filter(block, degree, interval.lo, interval.hi)
        block = orthonormal(problem, block) if left else block
    return block


def _need(problem: Problem, pairs: Pairs, rates: Tensor, left: Tensor, target: Tensor) -> Tensor:
    """The degree ``(b,)`` of filters that are just enough for the pairs that are ``left (b, p)``; 0
    where none is.
    """
    # A value within tol of the interval has a rate of about sqrt(tol) at most: its vector may mix
    # with those inside.
    slow = left & (rates > problem.tol**0.5)
    needs = torch.acosh((2 * pairs.residuals / target).clamp_min(1.5)) / rates
    return torch.where(slow, needs, 3.0 * left).amax(1)


def _swept(
    problem: Problem, block: Tensor, rates: Tensor, left: Tensor, need: Tensor, interval: _Interval
) -> Tensor:
    """The block after the filters that its clouds ``need (b,)``, but no more than keeps the swept
    columns independent.
    """
    active = left.any(0)
    active[problem.wanted :] = True
    # What rounding left of the converged pairs grows with them, far above the others, and leaves
    # its own rounding there when it is taken off: the square root of eps at most. Of all clouds:
    # those that have converged are swept along.
    going, slowest = left.any(1), problem.tol**0.5
    room = math.log(torch.finfo(block.dtype).eps ** -1.5)
    largest = room / max(float(rates[:, 0].max()), slowest)
    fastest = max(float(rates[going][:, active][:, 0].max()), slowest)
    most = min(_exponent(block.dtype) / fastest, largest)
    longest = float(need.max())
    count = min(math.ceil(longest / most), AT_ONCE)
    degree = max(3, math.ceil(min(longest / count, most)))
    fixed, swept = block[:, ~active], block if bool(active.all()) else block[:, active].contiguous()
    for more in range(count)[::-1]:
        swept = problem.operator.filter(swept, degree, interval.lo, interval.hi)
        swept = orthonormal(problem, swept, fixed) if more else swept
    return torch.cat([fixed, swept], 1) if fixed.shape[1] else swept


def _exponent(dtype: torch.dtype) -> float:
    """The logarithm of how far a sweep may pull columns apart, s: their Gram matrix in float64 has
    the condition s^2, and the slowest are known to s eps in float32, to be a few per cent.
    """
    spread = min(torch.finfo(dtype).eps ** -0.75, torch.finfo(torch.float64).eps ** -0.5)
    return math.log(2 * spread)


def _warn_of_unresolved(pairs: Pairs, needed: Tensor) -> None:
    """A warning where the error of a gap, at most about ``r^2`` over the last one, may be all of
    it.
    """
    gaps = pairs.gaps
    zero = 100 * floor(gaps.dtype)  # an edge that hardly joins two parts
    lost = (pairs.residuals.square() > gaps * gaps[:, -1:]) & (gaps > zero) & needed
    if bool(lost.any()):
        least = f"eigenvalues 1 - mu of {float(gaps[lost].min()):.0e}"
        warn(f"{least} are not resolved by the residual reached: smaller tol")


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


def rayleigh_ritz(problem: Problem, block: Tensor) -> tuple[Tensor, Pairs]:
    """Ritz vectors of the span of a block and their pairs, ascending in ``1 - mu``."""
    each, block = problem.each, orthonormal(problem, block)
    gap = each.padded(block - problem.operator.apply(block))
    x = each.padded(block)
    white = _inverse(torch.linalg.cholesky_ex(inner(x, x))[0]).mT
    gaps, turn = _eigh(white.mT @ inner(x, gap) @ white)
    turn = white @ turn
    x, gap = times(x, turn), times(gap, turn)
    residuals = gap.addcmul_(x, gaps.to(x)[:, None], value=-1).norm(dim=1)
    return each.stacked(x), Pairs(gaps, residuals.double().cpu(), block.dtype)


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
