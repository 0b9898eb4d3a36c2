"""Nested iteration: eigenvectors from coarse to fine by locally optimal block conjugate gradients [Knyazev 2001].

    H y = g G y,   H = I - A,  g = 1 - mu ascending                       (G = I on the finest level)
    W = B (H X - G X diag g)        B: two multigrid cycles               residuals, preconditioned
    X, P <- the best p vectors in span [X, W, P] and their new part       Rayleigh-Ritz, at most 3p columns

The coarsest level is solved densely; each finer one starts from the prolonged vectors of the one below, so the number
of sweeps over the full cloud is small and does not grow with it.  Blocks X (n, p) are float32, inner products float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .filtered import inner, refine
from .multigrid import Level, hierarchy, inverse, matrix
from .problem import Eigenpairs, Problem
from .span import small_ritz


@dataclass(frozen=True)
class Nesting:
    """Constants of the iteration; `docs/constants.md` has their derivation or ablation."""

    points: int = 6000  # from which a hierarchy pays
    entries: int = 24  # per row, up to which the graph is one of low dimension
    sweeps: int = 30  # on the finest level
    coarse_sweeps: int = 8  # on each coarser one
    coarse_accuracy: float = 0.05  # a coarse level need not be more accurate than its discretisation
    swept_guards: int = 4  # guard columns improved along with the wanted ones; the others only widen the span


NESTING = Nesting()


def suits(problem: Problem) -> bool:
    sparse, n = problem.sparse, problem.n
    if sparse is None or problem.start is not None or sparse.device.type != "cpu":
        return False
    return n >= NESTING.points and sparse.entries <= NESTING.entries * n


def solve(problem: Problem) -> Eigenpairs:
    assert problem.sparse is not None
    known = problem.known.numpy()
    block = nested_start(problem.sparse.laplacian(), known, problem.wanted, problem.width, 0.8 * problem.tol)
    return refine(problem, block[:, : problem.wanted + NESTING.swept_guards].double())


def nested_start(laplacian: Any, known: np.ndarray, wanted: int, width: int, tol: float) -> Tensor:
    """Approximate eigenvectors ``(n, width)`` of the smallest eigenvalues beyond ``known``, residuals below ``tol``.

    ``laplacian`` is scipy CSR ``H (n, n)``, ``known (n, c)`` its null vectors.  Stops early where it no longer gains.
    """
    from scipy.linalg import eigh

    levels = hierarchy(laplacian, known, width + known.shape[1])
    coarsest = levels[-1]
    gram = None if coarsest.gram is None else coarsest.gram.toarray()
    last = min(known.shape[1] + width, coarsest.n) - 1
    values, vectors = eigh(coarsest.laplacian.toarray(), gram, subset_by_index=[0, last])
    block = torch.from_numpy(np.ascontiguousarray(vectors[:, known.shape[1] :], np.float32))
    goal = NESTING.coarse_accuracy * float(values[min(known.shape[1] + wanted, last)])
    for at in range(len(levels) - 2, -1, -1):
        block = torch.from_numpy(levels[at].prolong @ block.numpy())
        target, most = (tol, NESTING.sweeps) if at == 0 else (goal, NESTING.coarse_sweeps)
        block = improve(levels, at, block.float(), wanted, target, most)
    return block


def improve(levels: list[Level], at: int, x: Tensor, wanted: int, tol: float, sweeps: int) -> Tensor:
    """Sweeps on one level until the first ``wanted`` columns have residuals ``|H x - g G x|`` below ``tol``."""
    problem = _Problem(levels[at])
    x = problem.project(x)
    hx, gx = problem.laplacian @ x, problem.gram(x)
    g, turn = small_ritz(inner(x, hx), inner(x, gx))
    turn = turn.float()
    x, hx = x @ turn, hx @ turn
    p = hp = None
    best, stalled, first = np.inf, 0, 0
    last, scale = min(wanted + NESTING.swept_guards, x.shape[1]), levels[at].scale
    for _ in range(sweeps):
        # Columns converge in order: those before `first` are kept in the span but no longer improved.
        residual = torch.addcmul(hx[:, first:last], problem.gram(x[:, first:last]), g[first:last].float(), value=-1)
        norms = _norms(residual[:, : wanted - first])
        worst = float(norms.max())
        stalled = stalled + 1 if worst > 0.9 * best else 0
        best = min(best, worst)
        if worst <= tol or stalled > 3:
            break
        done = int((norms > tol).nonzero()[0, 0])
        first, residual = first + done, residual[:, done:]
        w = problem.project(inverse(levels, residual * scale, at).mul_(scale))
        blocks, images = [x, w], [hx, problem.laplacian @ w]
        if p is not None and hp is not None:
            blocks, images = [*blocks, p[:, first:last]], [*images, hp[:, first:last]]
        del residual, w
        g, turns = problem.ritz(blocks, images, g)
        p, blocks = _combine(blocks[1:], turns[1:]), []  # blocks are the largest arrays: freed as soon as used
        x = torch.addmm(p, x, turns[0])
        hp, images = _combine(images[1:], turns[1:]), []
        hx = torch.addmm(hp, hx, turns[0])
    return x


class _Problem:
    """``H`` and ``G`` of a level in float32, and the projection away from the known vectors."""

    def __init__(self, level: Level) -> None:
        self.laplacian = matrix(level.laplacian)
        self._gram = None if level.gram is None else matrix(level.gram)
        image = level.known if level.gram is None else level.gram @ level.known
        inverse = np.linalg.inv(level.known.T @ image)
        self.known = torch.from_numpy((level.known @ inverse).astype(np.float32))
        self.image = torch.from_numpy(image.astype(np.float32))

    def gram(self, x: Tensor) -> Tensor:
        return x if self._gram is None else self._gram @ x

    def project(self, x: Tensor) -> Tensor:
        return torch.addmm(x, self.known, self.image.T @ x, alpha=-1)

    def ritz(self, blocks: list[Tensor], images: list[Tensor], g: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Rayleigh-Ritz on the span of the blocks, of which the first holds Ritz vectors already (values ``g``)."""
        grams = [self.gram(b) for b in blocks]
        left: list[list[Tensor]] = [[torch.eye(g.numel(), dtype=torch.float64)]]
        right: list[list[Tensor]] = [[torch.diag(g)]]
        for i in range(1, len(blocks)):
            left.append([inner(blocks[i], grams[j]) for j in range(i + 1)])
            right.append([inner(blocks[i], images[j]) for j in range(i + 1)])
        values, turn = small_ritz(_assemble(right), _assemble(left))
        sizes = [block.shape[1] for block in blocks]
        return values[: g.numel()], list(turn[:, : g.numel()].float().split(sizes))


def _norms(x: Tensor) -> Tensor:
    return (torch.ones((1, x.shape[0]), dtype=x.dtype) @ x.square())[0].sqrt()  # faster than norms along a strided axis


def _combine(parts: list[Tensor], turns: list[Tensor]) -> Tensor:
    out = parts[0] @ turns[0]
    for part, turn in zip(parts[1:], turns[1:], strict=True):
        out.addmm_(part, turn)
    return out


def _assemble(lower: list[list[Tensor]]) -> Tensor:
    """The symmetric matrix of a lower block triangle."""
    count = len(lower)
    rows = [[lower[i][j] if j <= i else lower[j][i].mT for j in range(count)] for i in range(count)]
    return torch.cat([torch.cat(row, 1) for row in rows])
