"""Many clouds as one block-diagonal problem: filtered subspace iteration in which every cloud has its own convergence.

    A = diag(A_1, ..., A_b),   X (b, most, p) padded with zero rows to the largest cloud
    X <- T_d(B) X,   B = (A - c_i) / e_i on cloud i       one sparse product for all, in float32
    X <- Ritz vectors of each cloud                       Cholesky and products for all at once, in float64

As `filtered`, but a sweep and a rotation take all clouds together, so that a device is busy: one small cloud leaves it
idle.  Every cloud has about the degree d that it needs (small ones a lower one: more would make their columns
dependent), and one that has converged keeps its vectors.  A rotation waits for the host, which solves the small
eigenproblems by as many threads as it has (a device takes them one after the other): the first two sweeps go by Weyl's
law for the last gap, and where one sweep cannot be enough the columns are only made orthonormal after it.
"""

import math
import os
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import warn
from ..host.threads import side_by_side
from ..search.layout import Segments
from ..smoothers import Smoother
from ..smoothers.smoother import csr
from .filtered import FILTERING, stalled, warn_of_unresolved
from .problem import Eigenpairs, normal_block, terms
from .span import orthonormalise


@dataclass(frozen=True)
class Stacking:
    """Constants of the iteration; `docs/constants.md` has their derivation or ablation."""

    most_sweeps: int = 60
    level: float = 1.25  # ratio of the degrees that clouds have in one sweep
    room: int = 4  # a cloud has at least so many points per column of its block; smaller ones are solved densely
    density: float = 3.6  # times p, over the sum of 1 / (1 - A_ii), is about the p-th gap of a surface: Weyl's law
    blind: int = 2  # sweeps by that guess alone
    at_once: int = 4  # sweeps at most without a rotation in between
    apart: tuple[float, float] = (2e5, 1e8)  # float32, float64: how far apart a sweep may pull columns


STACKING = Stacking()


def columns(k: int) -> int:
    """Columns of a block beside the constant one: those wanted and guards, as many as loads of memory fit."""
    return -(-(k - 1 + max(8, k // 4)) // 8) * 8


@torch.no_grad()
def solve_each(smoother: Smoother, k: int, *, tol: float = 1e-6, generator: torch.Generator) -> Eigenpairs:
    """The ``k`` leading eigenpairs of every cloud of a stacked smoother that fixes ``sqrt(mass)``, of any sizes.

    Vectors ``(b, most, k)``, zero in the rows that pad a cloud, and gaps ``(b, k)``.
    """
    padded, count = _Padded(smoother), len(smoother.clouds)
    width, wanted = columns(k), k - 1
    x = padded.clouds.padded(normal_block((smoother.n, width), generator, smoother.device, torch.float64))
    last = padded.guessed_gap(width)
    degrees = _levels(_most(last, torch.float32))
    for _ in range(STACKING.blind):
        x = padded.orthonormal(padded.filter(x, 1 - last, degrees, torch.float32), passes=1)
    gaps, residuals = torch.zeros((2, count, width), dtype=torch.float64)
    done, before, dtype = torch.zeros(count, dtype=torch.bool), math.inf, torch.float32
    for _ in range(STACKING.most_sweeps):
        turned, found, errors = padded.rotated(x)
        x = torch.where(done.to(x.device)[:, None, None], x, turned)
        gaps, residuals = torch.where(done[:, None], gaps, found), torch.where(done[:, None], residuals, errors)
        worst = residuals[:, :wanted].amax(1)
        done |= worst <= 0.9 * tol
        if bool(done.all()):
            warn_of_unresolved(gaps, residuals, wanted)
            break
        now = float(worst[~done].max())
        if stalled(now, before, FILTERING.floor[0]):
            dtype = torch.float64  # float32 no longer gains
        before, last = now, gaps[:, -1]
        need, most = _need(gaps, residuals, wanted, 0.3 * tol), _most(last, dtype)
        times = (need / most).ceil().clamp(1, STACKING.at_once)[~done].max()
        degrees = _levels((need / times).minimum(most).masked_fill(done, 0))
        for left in range(int(times))[::-1]:
            x = padded.filter(x, 1 - last, degrees, dtype)
            x = padded.orthonormal(x, passes=1) if left else x
    else:
        warn(f"direct solver stopped after {STACKING.most_sweeps} sweeps with a residual of {now:.1e}, above {tol:.1e}")
    vectors = torch.cat([padded.known, x[..., :wanted]], 2)
    values = torch.cat([torch.zeros((count, 1), dtype=torch.float64), gaps[:, :wanted]], 1).to(x.device)
    return Eigenpairs(vectors, values)


def _need(gaps: Tensor, residuals: Tensor, wanted: int, target: float) -> Tensor:
    """The degree ``(b,)`` after which the residuals ``(b, p)`` of every cloud are below the target."""
    rates = torch.acosh(1 + (2 * (gaps[:, -1:] - gaps) / (1 - gaps[:, -1:]).clamp_min(1e-3)).clamp_min(1e-12))
    return (torch.acosh((2 * residuals / target).clamp_min(1.5)) / rates)[:, :wanted].amax(1)


def _most(last: Tensor, dtype: torch.dtype) -> Tensor:
    """The degree ``(b,)`` up to which columns stay independent, where all beyond the gap ``last (b,)`` is damped."""
    return math.log(2 * STACKING.apart[dtype != torch.float32]) / torch.acosh(1 + 2 * last / (1 - last).clamp_min(1e-3))


def _levels(degrees: Tensor) -> list[int]:
    """Degrees rounded up to few different ones; 0 remains."""
    steps = ((degrees.max() / degrees).log() / math.log(STACKING.level)).floor().nan_to_num(posinf=0.0)
    return torch.where(degrees > 0, (degrees.max() / STACKING.level**steps).ceil().clamp_min(3), 0).long().tolist()


class _Padded:
    """What the matrix of all clouds does to blocks ``(b, most, p)``; products are taken without the padding."""

    def __init__(self, smoother: Smoother) -> None:
        self.clouds, (heads, tails, values) = Segments(smoother.clouds, smoother.device), smoother.entries()
        self.owner, self.diagonal, self.values = self.clouds.owner[heads], (heads == tails).double(), values.double()
        self.pattern = (smoother.matrix.crow_indices(), smoother.matrix.col_indices())
        self.known = self.clouds.padded(smoother.mass.double().sqrt())[..., None]
        ends = torch.tensor([0, *smoother.clouds], device=smoother.device).cumsum(0)
        self.ends = list(zip(ends.tolist(), self.pattern[0][ends].tolist(), strict=True))  # rows, entries before
        self.matrix = self._with(self.values)

    def _with(self, values: Tensor, clouds: int | None = None) -> Tensor:
        """The matrix of the first ``clouds`` with other values."""
        rows, entries = self.ends[-1 if clouds is None else clouds]
        return csr(self.pattern[0][: rows + 1], self.pattern[1][:entries], values[:entries], (rows, rows))

    def filter(self, x: Tensor, lowest: Tensor, degrees: list[int], dtype: torch.dtype) -> Tensor:
        """``T_degree`` of every cloud's matrix, with [0, lowest] damped; ``x (b, most, p)``, ``lowest (b,)``.

        The first clouds are the largest and have the highest degrees: products go as far as the last that needs them.
        """
        half = (lowest.clamp(1e-5, 1 - 1e-12) / 2).to(x.device)
        values = (self.values / half[self.owner] - self.diagonal).to(dtype)  # centre = half
        own = self.clouds.spread(torch.tensor(degrees, device=x.device))[:, None]
        start = self.clouds.stacked(x).to(dtype)
        now = self._with(values)

        def step(term: Tensor, before: Tensor | None) -> Tensor:
            if before is None:
                return now @ term
            few = slice(0, now.shape[0])
            torch.addmm(before[few], now, term[few], beta=-1.0, alpha=2.0, out=before[few])
            return before

        result = start
        for degree, term in enumerate(terms(step, start, max(degrees))):
            if degree and degree in degrees:
                result = torch.where(own == degree, term, result)
                left = [number for number, each in enumerate(degrees, 1) if each > degree]
                now = self._with(values, max(left, default=None))
        return self.clouds.padded(torch.where(own > 0, result.to(x.dtype), self.clouds.stacked(x)))

    def guessed_gap(self, width: int) -> Tensor:
        """About where the ``width``-th gap of every cloud is ``(b,)``, on the host: Weyl's law."""
        leaving = (1 - self.values[self.diagonal > 0]).clamp_min(1e-6)
        return (STACKING.density * width / self.clouds.sum(1 / leaving)).clamp(1e-6, 0.5).cpu()

    def orthonormal(self, x: Tensor, passes: int = 2) -> Tensor:
        """The columns ``(b, most, p)`` without the constant one, orthonormal."""
        x = x - self.known @ (self.known.mT @ x)
        return orthonormalise(x, method="cholesky", check=False, passes=passes)[0]

    def rotated(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Ritz vectors ``(b, most, p)``; on the host their gaps and the norms of their residuals ``(b, p)``."""
        q = self.orthonormal(x)
        gap = q - self.clouds.padded(self.matrix @ self.clouds.stacked(q))
        gaps, turn = _eigh(q.mT @ gap)
        q, gap = q @ turn, gap @ turn
        residuals = (gap - q * gaps.to(q.device)[:, None]).norm(dim=1)
        return q, gaps, residuals.cpu()


def _eigh(small: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenpairs of symmetric matrices ``(b, p, p)``: values on the host, vectors on the device."""
    host = ((small + small.mT) / 2).cpu()
    found = side_by_side(torch.linalg.eigh, host.split(-(-len(host) // (os.cpu_count() or 1))))
    return torch.cat([f.eigenvalues for f in found]), torch.cat([f.eigenvectors for f in found]).to(small.device)
