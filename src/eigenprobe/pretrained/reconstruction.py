r"""The loss of pretraining on a batch of clouds, exact over infinitely many probes and several smoothing times at once.

    C = mean over levels of exp(-t L) / tr exp(-t L),   tr exp(-t L) = level;     H = Q^T C Q
    e_k = 1 - sum_{i <= k} h_ii

One Chebyshev filter of the `K` columns applies the whole sum. Shapes: `Z (b, n, K - 1)`, `e (b, K)`.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from ..eigen.chebyshev import smoother_filter
from ..networks.diffusion import diffusion, filter_degree, heat_coefficients, masses, trace_times
from ..probes.objective import nested_basis
from ..smoothers import Smoother


def dense_is_faster(clouds: Tensor, columns: int = 40, repeats: int = 20) -> bool:
    """Which layout multiplies faster on this device, by trying: it depends on the hardware and on `n`."""
    seconds = []
    x = torch.ones(*clouds.shape[:2], columns, device=clouds.device)
    for dense in (True, False):
        smoother = diffusion(clouds, dense=dense)
        for repeat in range(repeats + 3):
            if repeat == 3:  # the first ones choose kernels
                _wait(clouds.device)
                start = time.perf_counter()
            smoother.apply(x)
        _wait(clouds.device)
        seconds.append(time.perf_counter() - start)
    return seconds[0] < seconds[1]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def energies(z: Tensor, smoother: Smoother, moments: Tensor, levels: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """`H = Q^T C Q (b, K, K)` and the basis `Q` of `M^{1/2} [1, Z]`, float64 and differentiable in `z`."""
    with torch.autocast(z.device.type, enabled=False):
        root = masses(smoother).sqrt()[..., None]
        basis = nested_basis(torch.cat([root, root * z.float()], -1))  # float64
        with torch.no_grad():
            fixed = basis.float()
            smoothed = smoother_filter(smoother, fixed, covariance_coefficients(smoother, moments, levels)).double()
            value = fixed.double().mT @ smoothed
        # C is symmetric and C Q is at hand: d(Q^T C Q) = dQ^T (C Q) + its transpose, nothing goes through C.
        half = basis.mT @ smoothed
        return half + half.mT - value, basis


def relative_errors(energy: Tensor) -> Tensor:
    """`e_k (b, K)`, relative to the trace of the covariance."""
    return 1 - energy.diagonal(dim1=-2, dim2=-1).cumsum(-1)


def misalignment(energy: Tensor, basis: Tensor) -> Tensor:
    r"""`(b,)`: mean over `i` of `1 - |q_i^T u_i|`, where `u_i` are the Ritz vectors of the span as it is.

    The nested loss is least where `H` is diagonal and descending, but hardly rises when neighbours with close
    eigenvalues mix. This term has its minimum in the same place whatever the gap: the network learns to foresee its own
    Ritz rotation. The targets lie in the span and are not differentiated, so the span is left to the prefix errors.
    """
    with torch.no_grad():
        finite = torch.isfinite(energy).all(-1).all(-1)[:, None, None]
        safe = torch.where(finite, energy, torch.eye(energy.shape[-1], dtype=energy.dtype, device=energy.device))
        rotation = torch.linalg.eigh(safe)[1].flip(-1)  # descending energy is ascending eigenvalue
    turn = basis.detach().mT @ basis  # the identity, with the gradient of a rotation
    return 1 - (rotation * turn).sum(1).abs().mean(-1)


def covariance_coefficients(smoother: Smoother, moments: Tensor, levels: tuple[float, ...]) -> Tensor:
    """Chebyshev coefficients `(b, D + 1)` of the mean over levels of `exp(-t L) / tr exp(-t L)`."""
    times = trace_times(levels, moments)
    trace = (heat_coefficients(times, moments.shape[-1] - 1) * moments[:, None]).sum(-1).clamp_min(1.0)
    return (heat_coefficients(times, filter_degree(smoother)) / trace[..., None]).mean(1)
