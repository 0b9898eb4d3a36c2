r"""Held-out procedural shapes with their closed form, and the measures that pretraining logs.

closed form: filtered subspace iteration  X <- orth(exp(-t L) X),  then Ritz;   b clouds at once, float64 K x K algebra

cosine   mean |<q_i, u_i>|, i <= k        matched   the same under the best assignment
subspace mean squared cosine of the principal angles      excess   loss over the smallest possible one
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..eigen import Rotation, Span, ritz, rotate
from ..eigen.chebyshev import smoother_filter
from ..geometry.procedural import ProceduralShapes
from ..networks.diffusion import diffusion, filter_degree, heat_coefficients, masses, trace_moments, trace_times
from ..probes.objective import nested_basis
from ..smoothers import Smoother
from .reconstruction import covariance_coefficients, energies, relative_errors

LEVELS = (5, 10, 20, 50)
_GUARD = 30


@torch.no_grad()
def closed_form(smoother: Smoother, k: int, sweeps: int = 6) -> Rotation:
    """The `k` lowest eigenvectors `(b, n, k)` of every cloud."""
    mass = masses(smoother)
    b, n = mass.shape
    width = min(k + _GUARD, n - 1)
    noise = torch.randn(n, width - 1, generator=torch.Generator().manual_seed(1)).to(mass)
    basis = torch.cat([mass.sqrt()[..., None], noise.expand(b, n, width - 1)], -1)
    time = trace_times((0.7 * k,), trace_moments(smoother))
    kernel = heat_coefficients(time[:, 0], filter_degree(smoother))
    for _ in range(sweeps):
        found = rotate(Span(smoother_filter(smoother, basis, kernel)), smoother, width)
        basis = found.q.float()
    return rotate(Span(found.q, found.gaps), smoother, k)


@dataclass
class Held:
    """Clouds `(c, n, 3)` never trained on (their seed is apart) and their closed forms `(c, n, K)`."""

    clouds: Tensor
    vectors: Tensor

    @classmethod
    def draw(cls, count: int, n: int, device: torch.device, families: list[str] | None = None, k: int = 50) -> Held:
        clouds = ProceduralShapes(seed=987_654_321, device=device, families=families).draw(count, n)
        k = min(k, n // 4)
        vectors = [closed_form(diffusion(part), k).q.float() for part in clouds.split(16)]
        return cls(clouds, torch.cat(vectors))

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        yield from zip(self.clouds.split(size), self.vectors.split(size), strict=True)


@torch.no_grad()
def measure(
    z: Tensor, smoother: Smoother, vectors: Tensor, moments: Tensor, levels: tuple[float, ...]
) -> dict[str, float]:
    """Measures of the columns `Z (b, n, K - 1)` against `vectors (b, n, K)`: feed-forward, and after Ritz."""
    root = masses(smoother).sqrt()[..., None]
    basis = nested_basis(torch.cat([root, root * z], -1))
    rotated = basis @ ritz(basis, smoother)[1]
    errors = relative_errors(energies(z, smoother, moments, levels)[0])
    k = min(basis.shape[-1], vectors.shape[-1])
    smoothed = smoother_filter(smoother, vectors, covariance_coefficients(smoother, moments, levels))
    best = 1 - (vectors * smoothed).double().sum(1).cumsum(-1)
    out = {"loss": float(errors.mean()), "excess": float(errors[:, :k].mean() / best[:, :k].mean() - 1)}
    for name, q in (("", basis), ("ritz_", rotated)):
        table = torch.einsum("bnk,bnl->bkl", q[..., :k], vectors.double()[..., :k]).abs().cpu().numpy()
        for level in LEVELS:
            if level <= k:
                out[f"{name}cosine{level}"] = float(np.diagonal(table, axis1=1, axis2=2)[:, :level].mean())
                out[f"{name}matched{level}"] = float(np.mean([_matched(t[:level, :level]) for t in table]))
                out[f"{name}subspace{level}"] = float((table[:, :level, :level] ** 2).sum((1, 2)).mean() / level)
    return out


def _matched(table: np.ndarray) -> float:
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].mean())
