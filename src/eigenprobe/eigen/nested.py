"""Nested iteration: eigenvectors from coarse to fine by locally optimal block conjugate gradients
[Knyazev 2001].

    H y = g G y,   H = I - A,  g = 1 - mu ascending            (G = I on the finest level)
    R = H X - G X diag g,   W = B R                            B: two multigrid cycles
    X, P <- the best p vectors in span [X, W, P] and their new part        at most 3p columns
    done:  |r| <= tol  and  <r, B r> <= accuracy * g           <r, B r>: the error of g

The coarsest level, whose inverse is dense, starts from random vectors; each finer one starts from
the prolonged vectors of the one below, so the number of sweeps over the full cloud is small and
does not grow with it.  Blocks X (n, p) are float32, inner products float64; what float32 cannot
reach is swept in float64 at the end.
"""

import math
from functools import reduce
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from ..host.progress import report
from .filtered import PATIENT, refine
from .multigrid import Level, Levels, hierarchy, inverse
from .problem import Problem, floor, inner, normal_block, times, with_values
from .span import small_ritz

POINTS = 6000  # from which a hierarchy pays
ACCURACY = 5e-6  # of eigenvalues, relative, before the last sweep: a tenth of it after that
GUARDS = 4  # columns improved along with the wanted ones; the others only widen the span


def suits(problem: Problem) -> bool:
    """A connected graph of many points and low dimension, whose constant is known."""
    connected = problem.known.shape[1] > 0 and problem.labels is None
    return connected and problem.n >= POINTS and problem.operator.dimension <= 3


def solve(problem: Problem) -> tuple[Tensor, Tensor]:
    goal = Goal(problem.wanted, 0.8 * problem.tol, ACCURACY)
    width = problem.width + problem.known.shape[1]
    levels = hierarchy(problem.sparse.laplacian(), problem.known, width)
    start = nested_start(levels, problem.width, goal)
    block = start.x[:, : problem.wanted + GUARDS].double()
    found = improve(levels, 0, block, goal, start.error)
    if float(found.norms.max()) > problem.tol:  # copies of the last value were not swept
        return refine(problem, torch.cat([found.x, start.x[:, block.shape[1] :].double()], 1))
    return found.x[:, : problem.wanted], found.g[: problem.wanted]


class Goal(NamedTuple):
    """The first ``wanted`` columns shall have residuals below ``tol`` and eigenvalues to
    ``accuracy``, relative.
    """

    wanted: int
    tol: float
    accuracy: float


class Improved(NamedTuple):
    """Ritz vectors ``(n, p)`` and values ``(p,)`` on their device; of those wanted, on the host,
    the norms of their residuals and the estimated errors of their values."""

    x: Tensor
    g: Tensor
    norms: Tensor
    error: Tensor


def nested_start(levels: Levels, width: int, goal: Goal) -> Improved:
    """Approximate eigenvectors ``(n, width)`` float32 of the smallest eigenvalues beyond the known
    ones.

    Stops early where it no longer gains.
    """
    # A coarse level need not be more accurate than its discretisation.
    rough = goal._replace(tol=math.inf, accuracy=0.01)
    coarsest = levels[-1]
    generator = torch.Generator().manual_seed(0)
    size, device = (len(coarsest.known), width), coarsest.known.device
    block = normal_block(size, generator, device, torch.float32)
    block = inverse(levels, block, len(levels) - 1).mul_(coarsest.scale)
    for at in range(len(levels) - 1, 0, -1):
        block = levels[at - 1].prolong(improve(levels, at, block, rough).x)
    return improve(levels, 0, block, goal)


def improve(
    levels: Levels, at: int, x: Tensor, goal: Goal, error: Tensor | None = None
) -> Improved:
    """Sweeps on one level until the goal is reached or they no longer gain; ``error`` is known from
    before.
    """
    problem, scale = _Problem(levels[at], x.dtype), levels[at].scale
    wanted, last = goal.wanted, min(goal.wanted + GUARDS, x.shape[1])
    x, hx, g = _whole(last, *problem.rotated(problem.project(x)))
    p = hp = None
    best, stalled = math.inf, 0
    rounding = floor(x.dtype) ** 2 if x.dtype == torch.float32 else 0.0  # an error that it makes
    error = torch.full((wanted,), math.inf, dtype=torch.float64) if error is None else error
    for sweep in range(PATIENT + 1):
        residual = torch.addcmul(
            hx[:, :last], problem.gram(x[:, :last]), g[:last].to(x.dtype), value=-1
        )
        norms, values = torch.stack(
            [_sums(residual[:, :wanted].square()).sqrt().double(), g[:wanted]]
        ).cpu()
        left = torch.maximum(norms / goal.tol, error / (goal.accuracy * values).clamp_min(rounding))
        worst = float(left.max())
        stalled = stalled + 1 if worst > 0.9 * best else 0
        best = min(best, worst)
        if worst <= 1 or stalled > 2 or sweep == PATIENT:
            break
        report(f"level {at}, sweep {sweep + 1}, residual {float(norms.max()):.0e}")
        # Columns that have converged stay in the span and are no longer improved.
        going = (left > 1).nonzero()[:, 0]
        chosen = torch.cat([going, torch.arange(wanted, last)]).to(x.device)
        residual = residual if len(chosen) == last else residual[:, chosen]
        w = inverse(levels, residual.float() * scale, at).mul_(scale).to(x.dtype)
        error[going] = _sums(residual * w)[: len(going)].double().cpu()
        w = problem.project(w)
        blocks, images = [x, w], [hx, problem.laplacian @ w]
        if p is not None and hp is not None:
            blocks, images = [*blocks, p[:, chosen]], [*images, hp[:, chosen]]
        del residual, w
        g, *turns = _whole(last, *problem.ritz(blocks, images, g))
        p = reduce(Tensor.add_, map(times, blocks[1:], turns[1:]))
        blocks = []  # the largest arrays: freed as soon as used
        x = times(x, turns[0]).add_(p)
        hp, images = reduce(Tensor.add_, map(times, images[1:], turns[1:])), []
        hx = times(hx, turns[0]).add_(hp)
    return Improved(x, g, norms, error)


class _Problem:
    """``H`` and ``G`` of a level in the precision of its blocks, and the projection away from the
    known vectors.
    """

    def __init__(self, level: Level, dtype: torch.dtype) -> None:
        self.laplacian = with_values(level.laplacian, level.laplacian.values().to(dtype))
        self._gram, image = None, level.known
        if level.gram is not None:
            self._gram = with_values(level.gram, level.gram.values().to(dtype))
            image = level.gram @ level.known
        self.known = (level.known @ torch.linalg.inv(level.known.mT @ image)).to(dtype)
        self.image = image.to(dtype)

    def gram(self, x: Tensor) -> Tensor:
        return x if self._gram is None else self._gram @ x

    def project(self, x: Tensor) -> Tensor:
        return x.sub_(times(self.known, inner(self.image, x)))

    def rotated(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Ritz vectors of the span of a block, their images under ``H``, and their values."""
        hx = self.laplacian @ x
        g, turn = small_ritz(inner(x, hx), inner(x, self.gram(x)), x.dtype)
        return times(x, turn), times(hx, turn), g

    def ritz(self, blocks: list[Tensor], images: list[Tensor], g: Tensor) -> tuple[Tensor, ...]:
        """Rayleigh-Ritz on the span of the blocks, of which the first holds Ritz vectors already
        (values ``g``).
        """
        grams, sizes = [self.gram(b) for b in blocks], [b.shape[1] for b in blocks]
        places = [slice(end - size, end) for size, end in zip(sizes, accumulate(sizes))]
        gram = torch.eye(sum(sizes), dtype=torch.float64, device=g.device)
        small = torch.zeros_like(gram)
        small.diagonal()[: g.numel()] = g
        for i in range(1, len(blocks)):
            for j in range(i + 1):
                gram[places[i], places[j]] = inner(blocks[i], grams[j])
                small[places[i], places[j]] = inner(blocks[i], images[j])
        small, gram = (lower.tril() + lower.tril(-1).mT for lower in (small, gram))
        values, turn = small_ritz(small, gram, blocks[0].dtype)
        return values[: g.numel()], *turn[:, : g.numel()].split(sizes)


def _whole(columns: int, *found: Tensor) -> tuple[Tensor, ...]:
    """What Rayleigh-Ritz found; on a graph that has coarsened to dependent vectors it finds fewer
    than are swept.
    """
    if any(each.shape[-1] < columns for each in found):
        raise RuntimeError("coarse vectors depend on each other")
    return found


def _sums(x: Tensor) -> Tensor:
    ones = torch.ones((1, x.shape[0]), dtype=x.dtype, device=x.device)
    return (ones @ x)[0]  # faster than sums along a strided axis
