"""Ritz rotation and refinement: the optimum within a span, and a better span.

    ritz    H = Q^T A Q = U diag(mu) U^T,  Q <- Q U          the nested loss is least at the eigenvectors of Q^T C Q
    sweep   Q <- orth(T_s(B) Q), then ritz                   B: A shifted and scaled so that [lowest, mu_K] is [-1, 1]

T_s is the Chebyshev polynomial: it costs the same s smoothing steps as the power A^s, damps everything below mu_K just
as well, and raises the wanted vectors as about s^2 plain steps would.

Q (n, K) in the normalised domain of a symmetric or adaptive smoother.  A `row` smoother has no symmetric A; its probes
have the covariance C = S^s (S^s)^T, which takes the place of A and of T_s(B).  Stacked clouds: with a block-diagonal
smoother of b equal clouds Q is (b, n, K), and every cloud has its own rotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import InputError
from .span import orthonormalise

if TYPE_CHECKING:
    from ..smoothers.smoother import Smoother

ROW_STEPS = 20  # smoothing steps of the covariance that stands in for A where the smoother is not symmetric


def ritz(q: Tensor, smoother: Smoother) -> tuple[Tensor, Tensor]:
    """Rotate orthonormal columns ``q (..., n, K)`` to the Ritz vectors of the smoother; ``mu (..., K)`` descending.

    The span does not change.  The first column is made positive in sum; other signs are as the rotation left them.
    The small matrix is assembled from ``q - A q`` in float64, so that eigenvalues near 1 keep their distance to it.
    """
    gap = _image(q, smoother).double().neg_().add_(q)
    small = q.double().mT @ gap
    gaps, rotation = torch.linalg.eigh((small + small.mT) / 2)  # ascending 1 - mu is descending mu
    rotated = (q.double() @ rotation).to(q.dtype)
    first = torch.where(rotated[..., :1].sum(-2, keepdim=True) < 0, -1.0, 1.0).to(q.dtype)
    return torch.cat([rotated[..., :1] * first, rotated[..., 1:]], -1), 1 - gaps


def sweep(q: Tensor, smoother: Smoother, steps: int = 4) -> tuple[Tensor, Tensor]:
    """One refinement sweep of ``steps`` smoothing steps, then orthonormalise and rotate; returns as `ritz`."""
    if steps < 1:
        raise InputError(f"a refinement sweep needs at least 1 smoothing step, got {steps}")
    if not smoother.symmetric:
        flat = q.reshape(-1, q.shape[-1])
        for _ in range(steps):
            flat = smoother.apply_transpose(flat)
        return ritz(orthonormalise(smoother.power(flat, steps).reshape(q.shape), check=False)[0], smoother)
    image = _image(q, smoother)
    lowest = -1.0 if smoother.kind == "symmetric" else 0.0
    edge = (q * image).sum(-2).amin(-1)[..., None, None].clamp(lowest + 0.1, 1 - 1e-9)  # one a cloud
    centre, half = (edge + lowest) / 2, (edge - lowest) / 2
    before, swept = q, (image - centre * q) / half
    for _ in range(steps - 1):
        before, swept = swept, (_image(swept, smoother) - centre * swept) * (2 / half) - before
    return ritz(orthonormalise(swept, check=False)[0], smoother)


def refine(q: Tensor, smoother: Smoother, sweeps: int, steps: int = 4) -> tuple[Tensor, Tensor]:
    """``sweeps`` refinement sweeps; with none, the Ritz rotation alone."""
    q, mu = ritz(q, smoother)
    for _ in range(sweeps):
        q, mu = sweep(q, smoother, steps)
    return q, mu


def _image(q: Tensor, smoother: Smoother) -> Tensor:
    """``A q``, or ``S^s (S^s)^T q`` for a smoother that is not symmetric; keeps the shape of ``q``."""
    flat = q.reshape(-1, q.shape[-1])
    if flat.shape[0] != smoother.n:
        raise InputError(f"expected {smoother.n} rows in all to match the smoother, got {tuple(q.shape)}")
    if smoother.symmetric:
        return smoother.apply(flat).reshape(q.shape)
    for _ in range(ROW_STEPS):
        flat = smoother.apply_transpose(flat)
    for _ in range(ROW_STEPS):
        flat = smoother.apply(flat)
    return flat.reshape(q.shape)
