r"""Diffusion on a batch of clouds: what the pretrained network looks through, and what it is trained against.

    A = I - L / bound, spectrum in [0, 1]                 the `variable` smoother of the 12 nearest neighbours, dim = 2
    exp(-t L) x = sum_j c_j(t) T_j(2 A - I) x             Chebyshev, t in units of 1 / bound

The time of a heat kernel is set by its trace, `tr exp(-t L) = level` ("about `level` eigenvectors survive"), which
needs no units and no dimension. The trace comes from the Chebyshev moments of a few random sign vectors.

Shapes: `b` clouds stacked in one smoother, `n` points of the largest, to which the others are padded by rows without
mass; `c` columns, `D` degree; `x (b, n, c)`, coefficients `(b, D + 1)`.
"""

import math

import torch
from torch import Tensor

from ..eigen.chebyshev import smoother_step, terms
from ..graph import Graph, stack
from ..graph.graph import build_graph
from ..search.layout import Segments, nearest
from ..smoothers import Smoother, variable_smoother
from ..smoothers.variable import NETWORK

NEIGHBOURS = 12
SURFACE = 2.0  # the dimension that the network takes every cloud to have
ABSENT = 1e15  # coordinates of padding: farther from all points than any is from another, its square still a number
_GRID = 40  # times on the logarithmic grid on which traces are inverted


def batch_graph(clouds: Tensor, k: int = NEIGHBOURS) -> Graph:
    """The `k` nearest neighbours in a batch `(b, n, 3)`: all at once on a GPU, by trees on a processor."""
    return stacked_graph(clouds.float().flatten(0, 1), Segments((clouds.shape[1],) * len(clouds), clouds.device), k)


def stacked_graph(points: Tensor, each: Segments, k: int = NEIGHBOURS) -> Graph:
    """The same of clouds of any sizes, one after the other in `points (n, 3)`."""
    if not points.is_cuda:
        return stack([build_graph(x, k) for x in points.split(list(each.sizes))])
    distances, indices = (each.stacked(found) for found in nearest(each.padded(points, ABSENT), k))
    return Graph(points, indices + each.spread(each.first)[:, None], distances, clouds=each.sizes)


@torch.no_grad()
def diffusion(source: Tensor | Graph, *, dense: bool = False) -> Smoother:
    """The smoother of a batch of clouds `(b, n, 3)` or of its graph, float32; `dense` stores `(b, n, n)`."""
    graph = source if isinstance(source, Graph) else batch_graph(source)
    smoother = variable_smoother(graph.truncate(NEIGHBOURS), None, SURFACE, NETWORK)
    return smoother.dense() if dense else smoother


def masses(smoother: Smoother) -> Tensor:
    """The mass `(b, n)`; sums to 1 on every cloud, 0 where it is padded."""
    return smoother.each.padded(smoother.mass)


def coarseness(smoother: Smoother) -> Tensor:
    """Log of the local time against its mean, `(b, n)`: how coarse the sampling is here."""
    assert smoother.leaving is not None
    time, each = 1 / smoother.leaving, smoother.each  # 1 - A_ii is one step over the local time
    return each.padded((time / each.spread(each.mean(time))).log())


def filter_degrees(smoother: Smoother) -> tuple[int, ...]:
    """Enough for the longest time in use on the points of every cloud: `s` steps need about `sqrt(s)` products."""
    return tuple(math.ceil(1.3 * math.sqrt(n)) + 4 for n in smoother.clouds)


def filter_degree(smoother: Smoother) -> int:
    """That of the largest cloud."""
    return max(filter_degrees(smoother))


def trace_moments(smoother: Smoother, probes: int = 24) -> Tensor:
    """Estimates `(b, D + 1)` of `tr T_j(2 A - I)`, with half the products by `T_i T_j = (T_{i+j} + T_{i-j})/2`."""
    each, most, n = smoother.each, filter_degree(smoother), smoother.each.counts
    signs = torch.randint(0, 2, (each.most, probes), generator=torch.Generator().manual_seed(0)).to(smoother.mass)
    signs = (2 * signs - 1).expand(len(each), -1, -1)

    def mean(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).sum((1, 2)) / probes if each.equal else each.sum((x * y).sum(1)) / probes

    series = terms(smoother_step(smoother), signs if each.equal else each.stacked(signs), most // 2 + 1)
    before, now = next(series), next(series)
    first = mean(before, now)
    out = [n.to(first), first]
    for following in series:
        out += [2 * mean(now, now) - n, 2 * mean(now, following) - first]
        now = following
    return torch.stack(out[: most + 1], -1)


def trace_times(levels: tuple[float, ...], moments: Tensor, degrees: tuple[int, ...] = ()) -> Tensor:
    """Times `(b, len(levels))` at which the heat trace falls to each level, in units of `1 / bound`.

    `degrees` are those up to which the moments of every cloud count; empty: all.
    """
    one = len(set(degrees)) < 2
    most = list(degrees[:1] if one else degrees) or [moments.shape[-1] - 1]
    ends = [torch.logspace(-0.5, math.log10(each**2 / 5), _GRID, device=moments.device) for each in most]
    grid = torch.stack(ends)  # (1 or b, G)
    kernel = heat_coefficients(grid, moments.shape[-1] - 1, degrees)  # (1 or b, G, D + 1)
    trace = moments @ kernel[0].mT if one else (kernel @ moments[..., None])[..., 0]
    trace = trace.clamp_min(0.5).cummin(-1).values.log()  # (b, G)
    target = torch.tensor(levels, device=moments.device).log()
    above = (trace[:, None] > target[:, None]).sum(-1).clamp(1, _GRID - 1)  # (b, levels)
    low, high = trace.gather(1, above - 1), trace.gather(1, above)
    share = ((low - target) / (low - high).clamp_min(1e-6)).clamp(0, 1)
    log = grid.log().expand(len(trace), -1)
    return (log.gather(1, above - 1) * (1 - share) + log.gather(1, above) * share).exp()


def heat_coefficients(times: Tensor, degree: int, degrees: tuple[int, ...] = ()) -> Tensor:
    """Chebyshev coefficients `(..., degree + 1)` of `exp(-t (1 - y) / 2)` on `[-1, 1]`, `t` in units of `1 / bound`.

    `degrees` of the first axis, if they differ, are those beyond which the coefficients of a cloud are 0.
    """
    nodes = 4 * (degree + 1)
    theta = (torch.arange(nodes, device=times.device, dtype=torch.float64) + 0.5) * (math.pi / nodes)
    value = torch.exp(-0.5 * times.double()[..., None] * (1 - theta.cos()))  # (..., nodes)
    order = torch.arange(degree + 1, device=times.device, dtype=torch.float64)
    transform = torch.cos(order[:, None] * theta) * (2 / nodes)
    transform[0] /= 2
    found = (value @ transform.mT).float()
    if len(set(degrees)) < 2:
        return found
    own = torch.tensor(degrees, device=times.device).view(-1, *[1] * times.ndim)
    return found.masked_fill(order > own, 0)
