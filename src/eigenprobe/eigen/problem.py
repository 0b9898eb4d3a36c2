"""The eigenproblem that every solver gets, and what it gives back.

    A q_k = mu_k q_k,   1 = mu_1 >= mu_2 >= ...;      gaps 1 - mu, which are tiny on large clouds, are what is kept

The multiplicity of mu = 1 is the number of connected components, and its eigenvectors are known: sqrt(mass), restricted
to the components.  No solver iterates on them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ..smoothers.smoother import csr
from .chebyshev import Operator, SparseOperator, normal_block

GROWN = 8  # points whose neighbourhoods are measured


class Eigenpairs(NamedTuple):
    """``vectors (n, k)`` orthonormal, ``gaps (k,)`` = 1 - mu ascending, float64; who found them, and the largest
    residual ``|A q - mu q|``."""

    vectors: Tensor
    gaps: Tensor
    solver: str = ""
    residual: float = 0.0

    @property
    def factors(self) -> Tensor:
        """``mu``, descending."""
        return 1 - self.gaps


class Unsuited(Exception):
    """A solver has measured that the problem is not one of its own; the next one takes over."""


@dataclass
class Problem:
    """``wanted`` leading pairs of ``operator`` beyond the ``known (n, c)`` ones; ``guard`` extra columns may help."""

    operator: Operator
    known: Tensor  # (n, c) float64: eigenvectors of mu = 1
    wanted: int
    guard: int
    tol: float
    max_sweeps: int
    generator: torch.Generator
    start: Tensor | None = None  # (n, any) approximate eigenvectors, in any order
    bounded: bool = False  # whether no eigenvalue is above 1

    @property
    def n(self) -> int:
        return self.operator.n

    @property
    def width(self) -> int:
        """Columns of a block: the wanted ones and the guards."""
        return min(self.wanted + self.guard, self.n - self.known.shape[1])

    @property
    def sparse(self) -> SparseOperator | None:
        """The operator, if it is a matrix whose null vectors are known."""
        return self.operator if isinstance(self.operator, SparseOperator) and self.known.shape[1] else None

    @cached_property
    def growth(self) -> float:
        """``log2(|B_4| / |B_2|)``, B_r: the points within r edges of one; the median over a few. About the dimension of
        a graph of points near a manifold, far more on an expander, which every factor and coarse level fills in."""
        assert isinstance(self.operator, SparseOperator)
        matrix = self.operator.matrix
        pattern = csr(*self.operator.pattern, torch.ones_like(matrix.values(), dtype=torch.float32), (self.n, self.n))
        first = torch.arange(GROWN, device=matrix.device)
        ball = torch.zeros((self.n, GROWN), device=matrix.device)
        ball[(2 * first + 1) * self.n // (2 * GROWN), first] = 1
        sizes = []
        for _ in range(4):
            ball = ((pattern @ ball) > 0).to(ball)
            sizes.append(ball.sum(0))
        return float((sizes[3] / sizes[1]).log2().median())

    def block(self) -> Tensor:
        """A random block ``(n, width)`` float32, its first columns replaced by the given start."""
        given = 0 if self.start is None else min(self.start.shape[1], self.width)
        block = normal_block((self.n, self.width - given), self.generator, self.operator.device, torch.float32)
        return block if self.start is None else torch.cat([self.start[:, :given].float(), block * self.n**-0.5], 1)


def null_vectors(mass: Tensor, labels: Tensor, count: int, k: int) -> Tensor:
    """Eigenvectors ``(n, min(k, count))`` of mu = 1 for ``count`` components; the first is ``sqrt(mass)``."""
    root = mass.double().sqrt()
    weights = torch.zeros(count, dtype=torch.float64, device=mass.device).index_add_(0, labels, root.square())
    # A Householder reflection completes the unit vector sqrt(weights) to an orthonormal basis of the components.
    unit = (weights / weights.sum()).sqrt()
    axis = unit.clone()
    axis[0] -= 1
    width = min(k, count)
    basis = torch.eye(count, width, dtype=torch.float64, device=mass.device)
    if count > 1:
        basis -= 2 * axis[:, None] * axis[None, :width] / axis.square().sum()
    return (root / weights[labels].sqrt())[:, None] * basis[labels]
