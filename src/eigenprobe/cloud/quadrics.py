"""The quadric through the neighbours of a point, over their principal plane, and the noise it
shows.

    z ~ a + b_1 u + b_2 v + c_1 u^2 + c_2 u v + c_3 v^2        least squares, weights w_j (n, k)
    sigma^2 = k / (k - 6) sum_j w_j (z_j - fit_j)^2 / sum_j w_j       deviation from it (n,)

On a smooth surface a quadric is wrong by the third power of its reach R, and the variance of that
grows like R^6 = (number of neighbours)^3; that of noise does not grow:

    noise^2 = (q^3 sigma_12^2 - sigma_18^2) / (q^3 - 1),   q = 18 / 12

Noise has one level and details have not: of all points the lowest fifth tells it.  Squared
distances h^2 of noisy neighbours are too long by 2 noise^2, and eigenvalues too small by as much.
Above a hundredth of that every point is moved along its normal to its quadric,

    x_i <- x_i + min(1, noise^2 / sigma_i^2) (foot_i - x_i)          noise of the whole cloud,

fully where noise explains the deviation, and less where edges and details do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..neighbors.graph import RING, Graph
from ..neighbors.layout import principal_axes

FEW, MORE = 12, 18  # neighbours of the two fits
SAMPLES = 256  # places of a cloud that are looked at: their medians are good to 8 per cent
FIFTH = 0.46  # of noise^2: what a fifth of the points of a noisy plane have less than
BIAS = 0.01  # of the squared lengths, below which nothing moves: an error of a hundredth


class Quadrics(NamedTuple):
    """Fits at ``n`` points: variances ``(n, 3)`` along axes ``(n, 3, 3)`` (normal first),
    coefficients in units of the reach ``(n,)``, and the deviation ``(n,)``.
    """

    variances: Tensor
    axes: Tensor
    coefficients: Tensor
    reach: Tensor
    deviation: Tensor

    @property
    def foot(self) -> Tensor:
        """From each point along its normal to its quadric ``(n, 3)``."""
        return (self.coefficients[:, :1] * self.reach[:, None]) * self.axes[..., 0]


def fit_quadrics(offsets: Tensor, real: Tensor | None = None) -> Quadrics:
    """Quadrics through ``offsets (n, k, 3)`` of neighbours and the point itself; ``real (n, k)``
    leaves others out.
    """
    n, k, _ = offsets.shape
    weight = offsets.new_ones((n, k)) if real is None else real.to(offsets)
    weight = torch.cat([weight.new_ones((n, 1)), weight], 1)
    offsets = torch.cat([offsets.new_zeros((n, 1, 3)), offsets], 1)
    squared = offsets.square().sum(2) * weight
    reach = squared.amax(1).clamp_min(torch.finfo(offsets.dtype).tiny).sqrt()
    weight = weight * torch.exp(-squared / (2 * reach[:, None].square()))
    total = weight.sum(1, keepdim=True)
    mean = (weight[..., None] * offsets).sum(1, keepdim=True) / total[..., None]
    centred = (offsets - mean) * weight.sqrt()[..., None]
    variances, axes = principal_axes(centred.mT @ centred)
    local = (offsets @ axes) / reach[:, None, None]
    z, v, u = local.unbind(2)
    terms = torch.stack([torch.ones_like(u), u, v, u * u, u * v, v * v], 2)
    weighted = weight[..., None] * terms
    ridge = 1e-6 * torch.eye(6, dtype=terms.dtype, device=terms.device)
    found = torch.linalg.solve(weighted.mT @ terms + ridge, weighted.mT @ z[..., None])
    left = z - (terms @ found)[..., 0]
    count = (weight > 0).sum(1)
    freedom = count / (count - 6).clamp_min(1)
    deviation = (freedom * (weight * left.square()).sum(1) / total[:, 0]).sqrt() * reach
    return Quadrics(variances.clamp_min(0), axes, found[..., 0], reach, deviation)


@torch.no_grad()
def noise_level(graph: Graph) -> Tensor:
    """noise^2 over the squared spacing of every cloud ``(b,)`` of a graph of surfaces in three
    dimensions; 0 where lists are too short to tell.
    """
    clouds = graph.each
    if graph.k < MORE:
        return graph.distances.new_zeros(len(clouds))
    share = torch.arange(SAMPLES, dtype=torch.float64, device=graph.device) / SAMPLES
    rows = ((share * clouds.counts[:, None]).long() + clouds.first[:, None]).flatten()
    both = torch.cat([torch.full_like(rows, MORE), torch.full_like(rows, FEW)])
    more, few = _quadrics(graph, rows.repeat(2), both).deviation.square().split(len(rows))
    power = (MORE / FEW) ** 3
    noise = (power * few - more) / (power - 1) / _spacing2(graph, rows)
    lowest = noise.view(-1, SAMPLES).kthvalue(SAMPLES // 5, dim=1).values
    return (lowest / FIFTH).clamp_min(0)


@torch.no_grad()
def without_noise(graph: Graph) -> tuple[Graph, Tensor]:
    """The graph of surfaces with the points of noisy clouds moved, and the `noise_level` of each
    ``(b,)``.
    """
    level = noise_level(graph)
    noisy = 2 * level > BIAS
    if not bool(noisy.any()):
        return graph, level
    rows = graph.each.spread(noisy).nonzero()[:, 0]
    found = _quadrics(graph, rows, MORE)
    noise = graph.each.spread(level)[rows] * _spacing2(graph, rows)
    share = (noise / found.deviation.square().clamp_min(torch.finfo(noise.dtype).tiny)).clamp_max(1)
    points = graph.points.index_add(0, rows, share[:, None] * found.foot)
    distances = (points[graph.indices] - points[:, None]).norm(dim=2)
    return replace(graph, points=points, distances=distances), level


def _quadrics(graph: Graph, rows: Tensor, count: Tensor | int) -> Quadrics:
    """Quadrics through the nearest of some points, of which a list is filled up with its first
    one."""
    near = graph.indices[rows, :MORE]
    real = near != near[:, :1]
    real[:, 0] = True
    real &= (
        torch.arange(MORE, device=near.device)
        < torch.as_tensor(count, device=near.device)[..., None]
    )
    return fit_quadrics(graph.points[near] - graph.points[rows, None], real)


def _spacing2(graph: Graph, rows: Tensor) -> Tensor:
    squared = graph.distances[rows, :RING].square().mean(1)
    return squared.clamp_min(torch.finfo(squared.dtype).tiny)
