r"""The loss of pretraining on a batch of clouds, exact over infinitely many probes and several smoothing times at once.

    C = mean over levels of exp(-t L) / tr exp(-t L),   tr exp(-t L) = level;      e_k = 1 - sum_{i <= k} q_i^T C q_i

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


def expected_prefix_errors(z: Tensor, operator: HeatOperator, moments: Tensor, levels: tuple[float, ...]) -> Tensor:
    """`e_k (b, K)` of the basis of `M^{1/2} [1, Z]`, relative to the trace of the covariance; differentiable in `z`."""
    with torch.autocast(z.device.type, enabled=False):
        root = operator.mass.sqrt()[..., None]
        basis, _ = nested_basis(torch.cat([root, root * z.float()], -1))  # float64
        with torch.no_grad():
            fixed = basis.float()
            smoothed = operator.filter(fixed, covariance_coefficients(operator, moments, levels)).double()
            value = (fixed.double() * smoothed).sum(1)
        # C is symmetric: the gradient of q^T C q is 2 C q, and C q is at hand, so nothing is differentiated through C.
        energy = 2 * (basis * smoothed).sum(1) - value
        return 1 - energy.cumsum(-1)


def covariance_coefficients(operator: HeatOperator, moments: Tensor, levels: tuple[float, ...]) -> Tensor:
    """Chebyshev coefficients `(b, D + 1)` of the mean over levels of `exp(-t L) / tr exp(-t L)`."""
    times = operator.times(levels, moments)
    trace = (heat_coefficients(times, moments.shape[-1] - 1) * moments[:, None]).sum(-1).clamp_min(1.0)
    return (heat_coefficients(times, operator.degree) / trace[..., None]).mean(1)
