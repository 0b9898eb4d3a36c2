"""A Gaussian whose width follows the sampling [Berry, Harlim 2016], with the local time as mass.

    w_ij = exp(-d_ij^2 / (s^2 rho_i rho_j))
    rho  = density^beta ~ reach^(-dim beta)            reach: distance to the tenth neighbour
    W   <- D W D,   D = q^-(1 + (dim/2 + 1) beta),   q = (W 1) / rho^dim
    M_i  = sum_j w_ij d_ij^2 / (2 dim)

For clouds of more than three dimensions, and (in the settings that its weights were trained with)
for the inputs of the pretrained network.  Stacked clouds have their own scales.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError
from ..neighbors.graph import Graph, undirected
from .smoother import Smoother, laplacian_smoother


@dataclass(frozen=True)
class VariableBandwidth:
    """Constants of the kernel."""

    # between 0 (one width) and -1/2 (error bounded on unbounded densities); [Berry, Harlim] -1/4
    beta: float = -0.25
    tenth: int = 10  # neighbour whose distance is the reach
    width: float = 1.0  # s in units of the median of reach / rho
    loops: float = 1.0  # weight of the point itself in its density
    spread: float | None = None  # reach is kept within this factor of its median
    # smallest local time, of the median one: bounds the spectrum where two points nearly coincide
    floor: float = 0.0


KERNEL = VariableBandwidth()
# what the pretrained weights saw
NETWORK = VariableBandwidth(width=0.5**0.5, loops=0.0, spread=5.0, floor=0.25)


def variable_smoother(
    graph: Graph, bandwidth: float | None, dimension: float, settings: VariableBandwidth = KERNEL
) -> Smoother:
    """The smoother of a graph without self-loops; ``bandwidth`` replaces the scale s chosen from
    the data.
    """
    squared, s = graph.squared, settings
    tiny = torch.finfo(squared.dtype).tiny
    reach = squared[:, min(s.tenth, graph.k) - 1].sqrt().clamp_min(tiny)
    if s.spread is not None:
        centre = _per_cloud(reach, graph)
        reach = torch.minimum(torch.maximum(reach, centre / s.spread), centre * s.spread)
    rho = (reach / _per_cloud(reach, graph)) ** (-dimension * s.beta)
    scale = (
        s.width * _per_cloud(reach / rho, graph)
        if bandwidth is None
        else torch.full_like(reach, bandwidth)
    )
    edges, place = undirected(graph.indices)
    distance2 = torch.zeros(len(edges), dtype=squared.dtype, device=graph.device)
    distance2[place] = squared.reshape(-1)  # both ends give the same distance
    weight = torch.exp(-distance2 / (scale.square() * rho)[edges.head] / rho[edges.tail])
    # an outlier far from all others keeps a mass and a local time
    weight = weight.clamp_min(tiny**0.5)
    density = ((s.loops + edges.at(weight)) / rho**dimension).clamp_min(tiny**0.5)
    power = density ** -(1 + (dimension / 2 + 1) * s.beta)
    power = power / _per_cloud(power, graph)
    weight = weight * power[edges.head] * power[edges.tail]
    mass = edges.at(weight * distance2) / (2 * dimension)
    if s.floor:
        degree = edges.at(weight).clamp_min(tiny)
        time = mass / degree
        mass = degree * torch.maximum(time, s.floor * _per_cloud(time, graph))
    if not bool((torch.isfinite(mass) & (mass > 0)).all()):
        raise InputError(
            f"densities of dimension {dimension:g} are beyond all numbers here: pass a lower "
            "dimension"
        )
    return laplacian_smoother(edges, weight, mass, graph, dimension)


def _per_cloud(values: Tensor, graph: Graph) -> Tensor:
    """The median of ``values (n,)`` on each point's own cloud, ``(n,)``."""
    return graph.each.spread(graph.each.median(values))
