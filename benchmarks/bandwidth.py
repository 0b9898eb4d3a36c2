"""The bandwidth of a kernel, learned from the cloud alone.

    S_ij(sigma) = exp(-d_ij^2 / sigma^2) / sum_j,    u_ij = x_j - x_i = a_ij + b_ij normal
    J(sigma) = mean_i ( |sum_j S_ij a_ij|^2 + sum_j S_ij b_ij^2 ) / mean_i sum_j S_ij d_ij^2

A smoothing step is heat on the manifold when it moves no coordinate within the tangent plane (all
motion is along the normal, by the mean curvature) and when its neighbours lie in that plane.  The
first term is what a finite sample gets wrong, and falls with sigma; the second is what curvature
and nearby sheets get wrong, and grows with it.  Points (n, 3), graph (n, k), planes by local PCA.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from eigenprobe.neighbors.graph import build_graph

PLANE = 12  # neighbours that span a tangent plane
RANGE = (0.2, 4.0)  # of the distance of the tenth neighbour: outside, one or all are alike


def learned_sigma(points: Tensor, k: int = 30) -> float:
    """Where ``J`` of a surface ``(n, 3)`` is least."""
    graph = build_graph(points, min(k, len(points) - 1))
    offsets = graph.points[graph.indices] - graph.points[:, None]  # (n, k, 3)
    near = offsets[:, :PLANE]
    axes = torch.linalg.svd(near - near.mean(1, keepdim=True), full_matrices=False)[2]
    squared, flat = graph.distances.square(), offsets @ axes[:, :2].mT
    off = (squared - flat.square().sum(-1)).clamp_min(0)

    def criterion(log_sigma: float) -> float:
        weights = torch.softmax(-squared / np.exp(log_sigma) ** 2, 1)
        drift = (weights.unsqueeze(-1) * flat).sum(1).square().sum(-1).mean()
        reach = (weights * squared).sum(1).mean()
        return float((drift + (weights * off).sum(1).mean()) / reach)

    bounds = np.log(float(graph.distances[:, 9].median()) * np.array(RANGE))
    found = minimize_scalar(criterion, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    return float(np.exp(found.x))
