"""Isospectralisation: the points of a sphere move until their spectrum is that of another shape.

python examples/isospectral.py

The displacement is smooth, a combination of the first functions of the sphere in each coordinate,
and descends the relative difference of the first eigenvalues through their derivatives with respect
to the points.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

import eigenprobe as ep

VALUES, MODES = 12, 16


def even_sphere(n: int) -> np.ndarray:
    place = np.arange(n) + 0.5
    height, angle = 1 - 2 * place / n, np.pi * (1 + 5**0.5) * place
    return np.stack(
        [np.sqrt(1 - height**2) * np.cos(angle), np.sqrt(1 - height**2) * np.sin(angle), height], 1
    )


def descend(points: int = 250, steps: int = 30) -> tuple[Tensor, list[float]]:
    """The moved points, and the relative difference of spectra after every step."""
    sphere = even_sphere(points)
    target = torch.as_tensor(
        ep.decompose(sphere * [1.0, 1.3, 1.6], k=VALUES, dimension=2).eigenvalues[1:]
    )
    start = torch.as_tensor(sphere)
    modes = ep.decompose(start, k=MODES, dimension=2).vectors
    # A first push: on the sphere itself the eigenvalues are equal in groups, and their differences
    # have no slope.
    push = 0.02 * torch.randn(
        MODES, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    push.requires_grad_()
    optimiser = torch.optim.Adam([push], lr=0.02)
    losses = []
    for _ in range(steps):
        values = ep.decompose(start + modes @ push, k=VALUES, dimension=2).eigenvalues[1:]
        loss = ((values / target - 1) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return (start + modes @ push).detach(), losses


def main() -> None:
    losses = descend()[1]
    print(
        "difference of spectra",
        " ".join(f"{loss**0.5:.4f}" for loss in losses[::10]),
        f"{losses[-1] ** 0.5:.4f}",
    )


if __name__ == "__main__":
    main()
