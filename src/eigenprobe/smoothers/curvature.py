"""Curvature of a surface in space, from a polynomial over the tangent plane of every point.

z(u) = a.u + u^T H u / 2 + cubic        heights over the plane, weighted least squares;  u (n, k, 2)
S = G^-1 H / sqrt(1 + |a|^2)            shape operator, G = I + a a^T;   its eigenvalues k_1, k_2 are the principal
K = k_1 k_2 = det H / (1 + |a|^2)^2     curvatures, its eigenvectors their directions
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..graph import Graph
from .stencil import principal

WIDTH = 0.55  # of the Gaussian weight, in distances to the last neighbour: a bias of half a per cent at 30 neighbours
RIDGE = 1e-9  # of the normal equations: collinear neighbours


class Curvature(NamedTuple):
    """Principal curvatures ``values (n, 2)``, the larger magnitude first, and the ``direction (n, 3)`` of the first."""

    values: Tensor
    direction: Tensor

    @property
    def gaussian(self) -> Tensor:
        return self.values[:, 0] * self.values[:, 1]


def curvature(graph: Graph, dimension: float) -> Curvature:
    """The curvature of the surface that a graph in three dimensions samples, in one over the units of its points."""
    graph = graph.without_loops()
    if graph.points.shape[1] != 3 or round(dimension) != 2 or graph.metric != "euclidean":
        shape = f"dimension {dimension:.3g} in {graph.points.shape[1]}"
        raise InputError(f"curvature is that of a surface in three dimensions, got points of {shape}")
    offsets = graph.points[graph.indices] - graph.points[:, None]
    scale = graph.distances[:, -1, None].clamp_min(torch.finfo(offsets.dtype).tiny)
    weight = torch.exp(-(graph.distances / (WIDTH * scale)).square() / 2)[..., None]  # (n, k, 1)
    offsets = offsets / scale[..., None]
    frames = principal(offsets.mT @ (weight * offsets), 3).flip(2)  # two tangents, then the normal
    # Directions get the length of the chord: on a sphere z = |chord|^2 / 2r exactly, and a quadratic has no bias.
    x, y, z = (offsets @ frames).unbind(2)
    longer = (1 + z.square() / (x * x + y * y).clamp_min(1e-12)).sqrt()
    x, y = x * longer, y * longer
    terms = [x, y, x * x / 2, x * y, y * y / 2, x**3, x * x * y, x * y * y, y**3]
    design = torch.stack(terms, 2)
    normal = design.mT @ (weight * design)
    normal = normal + RIDGE * torch.eye(len(terms), dtype=x.dtype, device=x.device)
    a, b, p, q, r = torch.linalg.solve(normal, design.mT @ (weight * z[..., None]))[:, :5, 0].unbind(1)
    slope, hessian = torch.stack([a, b], 1), torch.stack([p, q, q, r], 1).reshape(-1, 2, 2)
    rise = 1 + slope.square().sum(1)
    # G^-1/2 H G^-1/2 is symmetric with the eigenvalues of G^-1 H;  G^-1/2 = I - a a^T c.
    shrink = (1 - rise.rsqrt()) / (rise - 1).clamp_min(1e-12)
    root = torch.eye(2, dtype=x.dtype, device=x.device) - shrink[:, None, None] * slope[:, :, None] * slope[:, None]
    values, vectors = torch.linalg.eigh(root @ hessian @ root / rise.sqrt()[:, None, None])
    order = values.abs().argsort(1, descending=True)
    flat = (root @ vectors).gather(2, order[:, None, :1].expand(-1, 2, 1))[..., 0]  # in the plane's coordinates
    lifted = torch.cat([flat, (slope * flat).sum(1, keepdim=True)], 1)
    direction = (frames @ lifted[..., None])[..., 0]
    return Curvature(values.gather(1, order) / scale, direction / direction.norm(dim=1, keepdim=True))
