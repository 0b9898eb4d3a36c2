"""The bandwidth of a kernel, learned from the cloud alone.

    S_ij(sigma) = exp(-d_ij^2 / sigma^2) / sum_j,     u_ij = x_j - x_i = tangential a_ij + normal
    part of length b_ij J(sigma) = mean_i ( |sum_j S_ij a_ij|^2 + sum_j S_ij b_ij^2 ) / mean_i sum_j
    S_ij d_ij^2

A smoothing step is heat on the manifold when it moves no coordinate within the tangent plane (all
motion is along the normal, by the mean curvature) and when its neighbours lie in that plane.  The
first term is what a finite sample gets wrong, and falls with sigma; the second is what curvature
and nearby sheets get wrong, and grows with it.  Both are relative to the squared reach of the step,
so J has no unit and no weight to tune: a bounded search on log sigma finds its minimum in O(n k)
per step.  Points (n, d), graph (n, k), tangent planes by local PCA (n, d, dim).
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from eigenprobe.errors import InputError
from eigenprobe.neighbors.graph import Graph, build_graph, estimate_dimension

PLANE = 12  # neighbours that span a tangent plane
RANGE = (0.2, 4.0)  # of the start: outside, the kernel sees one neighbour or all of them alike


@dataclass(frozen=True)
class Scale:
    """The learned ``sigma``, the distance of a near neighbour by which it was bounded, and ``J``
    there.
    """

    sigma: float
    start: float
    criterion: float


class ScaleCriterion:
    """``J(sigma)`` of a cloud, differentiable; the geometry is computed once."""

    def __init__(self, graph: Graph, dimension: float | None = None) -> None:
        if graph.metric != "euclidean":
            raise InputError(
                f"a learned scale needs Euclidean distances, got the {graph.metric} metric"
            )
        first = 1 if graph.self_loops else 0
        indices, distances = graph.indices[:, first:], graph.distances[:, first:]
        dim = round(estimate_dimension(graph) if dimension is None else dimension)
        offsets = graph.points[indices] - graph.points[:, None]  # (n, k, d)
        near = offsets[:, : max(PLANE, dim + 1)]
        _, _, axes = torch.linalg.svd(
            near - near.mean(1, keepdim=True), full_matrices=False
        )  # (n, ., d)
        self.squared = distances.square()  # (n, k)
        self.tangential = offsets @ axes[:, :dim].mT  # (n, k, dim)
        self.normal = (self.squared - self.tangential.square().sum(-1)).clamp_min(0)  # (n, k)
        self.start = float(distances[:, min(10, distances.shape[1]) - 1].median())

    def __call__(self, sigma: Tensor) -> Tensor:
        weights = torch.softmax(-self.squared / sigma.square(), 1)
        drift = (weights.unsqueeze(-1) * self.tangential).sum(1).square().sum(-1).mean()
        spread = (weights * self.squared).sum(1).mean()
        return (drift + (weights * self.normal).sum(1).mean()) / spread


def learn_scale(source: Tensor | Graph, *, k: int = 30, dimension: float | None = None) -> Scale:
    """Learn the kernel bandwidth ``sigma`` of a cloud ``(n, d)`` or its graph as the minimum of
    `ScaleCriterion`.

    Pass the result to ``build_smoother(points, "symmetric" or "row", bandwidth=scale.sigma)``.
    """
    graph = source if isinstance(source, Graph) else build_graph(source, min(k, len(source) - 1))
    criterion = ScaleCriterion(graph, dimension)
    if not criterion.start > 0:
        raise InputError(
            "expected points that differ from their neighbours, got a median distance of zero"
        )
    like = criterion.squared

    def value(log_sigma: float) -> float:
        return float(criterion(torch.as_tensor(log_sigma).exp().to(like)))

    bounds = np.log(criterion.start * np.array(RANGE))
    found = minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    return Scale(float(np.exp(found.x)), criterion.start, float(found.fun))
