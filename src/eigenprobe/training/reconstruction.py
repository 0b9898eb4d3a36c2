r"""The loss of pretraining on a batch of clouds, exact over infinitely many probes and several smoothing times at once.

    C = mean over levels of exp(-t L) / tr exp(-t L),   tr exp(-t L) = level;     H = Q^T C Q
    e_k = 1 - sum_{i <= k} h_ii

One Chebyshev filter of the `K` columns applies the whole sum. Shapes: `Z (b, n, K - 1)`, `e (b, K)`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..geometry.procedural import nearest
from ..networks.heat import HeatOperator, heat_coefficients, heat_operator
from ..objective import nested_basis

NEIGHBOURS = 12


def operator_of(clouds: Tensor) -> HeatOperator:
    """The dense operator of a batch of clouds `(b, n, 3)`: at training sizes a batched product beats a sparse one."""
    with torch.autocast(clouds.device.type, enabled=False):
        return heat_operator(*nearest(clouds, NEIGHBOURS), dense=True)


def energies(z: Tensor, operator: HeatOperator, moments: Tensor, levels: tuple[float, ...]) -> Tensor:
    """`H = Q^T C Q (b, K, K)`, float64, for the basis `Q` of `M^{1/2} [1, Z]`; differentiable in `z`."""
    with torch.autocast(z.device.type, enabled=False):
        root = operator.mass.sqrt()[..., None]
        basis, _ = nested_basis(torch.cat([root, root * z.float()], -1))  # float64
        with torch.no_grad():
            fixed = basis.float()
            smoothed = operator.filter(fixed, covariance_coefficients(operator, moments, levels)).double()
            value = fixed.double().mT @ smoothed
        # C is symmetric and C Q is at hand: d(Q^T C Q) = dQ^T (C Q) + its transpose, nothing goes through C.
        half = basis.mT @ smoothed
        return half + half.mT - value


def prefix_errors(energy: Tensor) -> Tensor:
    """`e_k (b, K)`, relative to the trace of the covariance."""
    return 1 - energy.diagonal(dim1=-2, dim2=-1).cumsum(-1)


def misalignment(energy: Tensor) -> Tensor:
    r"""`(b,)`: mean over `i` of `sum_{j != i} sin^2 theta_ij`, the squared angles by which pairs of columns must turn.

    The nested loss is least where `H` is diagonal and descending, but hardly rises when neighbours with close eigenvalues
    mix. The Jacobi angle of a pair, `cos 2 theta = (h_ii - h_jj) / sqrt((h_ii - h_jj)^2 + 4 h_ij^2)`, has the same
    minimum and does not depend on the gap.
    """
    diagonal = energy.diagonal(dim1=-2, dim2=-1)
    gap = diagonal[:, :, None] - diagonal[:, None]
    cosine = gap / (gap.square() + 4 * energy.square() + 1e-14).sqrt()
    k = energy.shape[-1]
    return (1 - cosine).triu(1).sum((1, 2)) / k


def covariance_coefficients(operator: HeatOperator, moments: Tensor, levels: tuple[float, ...]) -> Tensor:
    """Chebyshev coefficients `(b, D + 1)` of the mean over levels of `exp(-t L) / tr exp(-t L)`."""
    times = operator.times(levels, moments)
    trace = (heat_coefficients(times, moments.shape[-1] - 1) * moments[:, None]).sum(-1).clamp_min(1.0)
    return (heat_coefficients(times, operator.degree) / trace[..., None]).mean(1)
