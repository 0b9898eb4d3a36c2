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

from ..geometry.procedural import ProceduralShapes
from ..networks.heat import HeatOperator, heat_coefficients
from ..probes.objective import nested_basis
from .reconstruction import covariance_coefficients, energies, operator_of, prefix_errors

LEVELS = (5, 10, 20, 50)
_GUARD = 30


@torch.no_grad()
def closed_form(operator: HeatOperator, k: int, sweeps: int = 6) -> tuple[Tensor, Tensor]:
    """The `k` lowest eigenvectors `(b, n, k)` of `L` and their eigenvalues in units of `bound`, float64."""
    b, n = operator.mass.shape
    generator = torch.Generator().manual_seed(1)
    width = min(k + _GUARD, n - 1)
    basis = torch.randn(n, width, generator=generator).to(operator.mass).expand(b, n, width)
    basis = torch.cat([operator.mass.sqrt()[..., None], basis[..., 1:]], -1)
    time = operator.times((0.7 * k,), operator.moments())
    coefficients = heat_coefficients(time[:, 0], operator.degree)
    values = torch.zeros(b, width)
    for _ in range(sweeps):
        basis = nested_basis(operator.filter(basis, coefficients))
        basis, values = ritz(basis, operator)
        basis = basis.float()
    return basis[..., :k].double(), values[:, :k]


def ritz(basis: Tensor, operator: HeatOperator) -> tuple[Tensor, Tensor]:
    """Rotate an orthonormal `(b, n, K)` to the eigenvectors of `Q^T L Q`."""
    small = basis.mT.double() @ operator.apply(basis.float()).double()
    values, rotation = torch.linalg.eigh(0.5 * (small + small.mT))
    return basis.double() @ rotation, 0.5 * (1 + values)


@dataclass
class Held:
    """Clouds `(c, n, 3)` never trained on (their seed is apart) and their closed forms `(c, n, K)`."""

    clouds: Tensor
    vectors: Tensor

    @classmethod
    def draw(cls, count: int, n: int, device: torch.device, families: list[str] | None = None, k: int = 50) -> Held:
        clouds = ProceduralShapes(seed=987_654_321, device=device, families=families).draw(count, n)
        k = min(k, n // 4)
        vectors = [closed_form(operator_of(part, dense=False), k)[0].float() for part in clouds.split(16)]
        return cls(clouds, torch.cat(vectors))

    def batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        yield from zip(self.clouds.split(size), self.vectors.split(size), strict=True)


@torch.no_grad()
def measure(
    z: Tensor, operator: HeatOperator, vectors: Tensor, moments: Tensor, levels: tuple[float, ...]
) -> dict[str, float]:
    """Measures of the columns `Z (b, n, K - 1)` against `vectors (b, n, K)`: feed-forward, and after Ritz."""
    root = operator.mass.sqrt()[..., None]
    basis = nested_basis(torch.cat([root, root * z], -1))
    rotated, _ = ritz(basis, operator)
    errors = prefix_errors(energies(z, operator, moments, levels)[0])
    k = min(basis.shape[-1], vectors.shape[-1])
    smoothed = operator.filter(vectors, covariance_coefficients(operator, moments, levels))
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
