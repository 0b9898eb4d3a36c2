r"""The loss of pretraining on a batch of clouds, exact over infinitely many probes and several
smoothing times at once, and what is logged of held-out shapes beside their closed form.

    C = mean over levels of exp(-t L) / tr exp(-t L),   tr exp(-t L) = level;     H = Q^T C Q
    e_k = 1 - sum_{i <= k} h_ii                         one Chebyshev filter of the `K` columns
    applies the whole sum cosine   mean |<q_i, u_i>|, i <= k        matched   the same under the
    best assignment subspace mean squared cosine of the principal angles      excess   loss over the
    smallest possible one

Shapes: `Z (b, n, K - 1)`, `e (b, K)`; `b` clouds at once, float64 K x K algebra.
"""

from functools import partial
from itertools import product

import numpy as np
import torch
from torch import Tensor

from eigenprobe.eigen import ritz, smoother_filter, solve_each
from eigenprobe.evaluation import compare_vectors
from eigenprobe.networks.spectral import (
    diffusion,
    filter_degrees,
    heat_coefficients,
    masses,
    trace_times,
)
from eigenprobe.probes import nested_basis
from eigenprobe.smoothers import Smoother

from ..shapes import ProceduralShapes

LEVELS = (5, 10, 20, 50)


def energies(
    z: Tensor, smoother: Smoother, moments: Tensor, levels: tuple[float, ...]
) -> tuple[Tensor, Tensor]:
    """`H = Q^T C Q (b, K, K)` and the basis `Q` of `M^{1/2} [1, Z]`, float64 and differentiable in
    `z`.
    """
    with torch.autocast(z.device.type, enabled=False):
        root = masses(smoother).sqrt()[..., None]
        basis = nested_basis(torch.cat([root, root * z.float()], -1))  # float64
        with torch.no_grad():
            fixed = basis.float()
            smoothed = smoother_filter(
                smoother, fixed, covariance_coefficients(smoother, moments, levels)
            ).double()
            value = fixed.double().mT @ smoothed
        # C is symmetric and C Q is at hand: d(Q^T C Q) = dQ^T (C Q) + its transpose, nothing goes
        # through C.
        half = basis.mT @ smoothed
        return half + half.mT - value, basis


def relative_errors(energy: Tensor) -> Tensor:
    """`e_k (b, K)`, relative to the trace of the covariance."""
    return 1 - energy.diagonal(dim1=-2, dim2=-1).cumsum(-1)


def misalignment(energy: Tensor, basis: Tensor) -> Tensor:
    r"""`(b,)`: mean over `i` of `1 - |q_i^T u_i|`, where `u_i` are the Ritz vectors of the span as
    it is.

    The nested loss is least where `H` is diagonal and descending, but hardly rises when neighbours
    with close eigenvalues mix. This term has its minimum in the same place whatever the gap: the
    network learns to foresee its own Ritz rotation. The targets lie in the span and are not
    differentiated, so the span is left to the prefix errors.
    """
    with torch.no_grad():
        finite = torch.isfinite(energy).all(-1).all(-1)[:, None, None]
        safe = torch.where(
            finite, energy, torch.eye(energy.shape[-1], dtype=energy.dtype, device=energy.device)
        )
        rotation = torch.linalg.eigh(safe)[1].flip(-1)  # descending energy is ascending eigenvalue
    turn = basis.detach().mT @ basis  # the identity, with the gradient of a rotation
    return 1 - (rotation * turn).sum(1).abs().mean(-1)


def covariance_coefficients(
    smoother: Smoother, moments: Tensor, levels: tuple[float, ...]
) -> Tensor:
    """Chebyshev coefficients `(b, D + 1)` of the mean over levels of `exp(-t L) / tr exp(-t L)`."""
    degrees = filter_degrees(smoother)
    kernels = heat_coefficients(trace_times(levels, moments, degrees), degrees)
    trace = (kernels * moments[:, None]).sum(-1).clamp_min(1.0)
    return (kernels / trace[..., None]).mean(1)


def held_out_clouds(
    count: int, n: int, device: torch.device, families: list[str] | None = None
) -> list[tuple[Tensor, Tensor]]:
    """Clouds `(c, n, 3)` never trained on (their seed is apart) and their closed forms `(c, n, K)`,
    in batches.
    """
    clouds = ProceduralShapes(seed=987_654_321, device=device, families=families).draw(count, n)
    solve = partial(solve_each, k=min(50, n // 4), generator=torch.Generator(device).manual_seed(1))
    return [(part, solve(diffusion(part)).vectors.float()) for part in clouds.split(16)]


@torch.no_grad()
def measure(
    z: Tensor, smoother: Smoother, vectors: Tensor, moments: Tensor, levels: tuple[float, ...]
) -> dict[str, float]:
    """Measures of the columns `Z (b, n, K - 1)` against `vectors (b, n, K)`: feed-forward, and
    after Ritz.
    """
    root = masses(smoother).sqrt()[..., None]
    basis = nested_basis(torch.cat([root, root * z], -1))
    rotated = basis @ ritz(basis, smoother)[1]
    errors = relative_errors(energies(z, smoother, moments, levels)[0])
    k = min(basis.shape[-1], vectors.shape[-1])
    smoothed = smoother_filter(
        smoother, vectors, covariance_coefficients(smoother, moments, levels)
    )
    best = 1 - (vectors * smoothed).double().sum(1).cumsum(-1)
    out = {
        "loss": float(errors.mean()),
        "excess": float(errors[:, :k].mean() / best[:, :k].mean() - 1),
    }
    none = np.zeros(k)
    for name, columns in (("", basis), ("ritz_", rotated)):
        clouds = zip(columns.cpu().numpy(), vectors.double().cpu().numpy(), strict=True)
        alignments = [compare_vectors(q, u, none, none) for q, u in clouds]
        for what, level in product(
            ("cosine", "matched", "subspace"), [level for level in LEVELS if level <= k]
        ):
            out[f"{name}{what}{level}"] = float(
                np.mean([getattr(each, what)(level) for each in alignments])
            )
    return out
