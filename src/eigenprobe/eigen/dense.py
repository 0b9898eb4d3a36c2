"""LAPACK on the dense matrix: for clouds of a few hundred points, or nearly as many vectors as points."""

import torch

from .chebyshev import SparseOperator
from .problem import Eigenpairs, Problem

LARGEST = 640  # points up to which LAPACK is at least as fast as the sweeps


def suits(problem: Problem) -> bool:
    return problem.n <= LARGEST or 3 * (problem.known.shape[1] + problem.wanted + problem.guard) > problem.n


def solve(problem: Problem) -> Eigenpairs:
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
