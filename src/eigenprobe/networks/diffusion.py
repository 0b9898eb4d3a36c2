r"""Diffusion on a batch of clouds: what the pretrained network looks through, and what it is trained against.

    A = I - L / bound, spectrum in [0, 1]                 the `variable` smoother of the 12 nearest neighbours, dim = 2
    exp(-t L) x = sum_j c_j(t) T_j(2 A - I) x             Chebyshev, t in units of 1 / bound

The time of a heat kernel is set by its trace, `tr exp(-t L) = level` ("about `level` eigenvectors survive"), which
needs no units and no dimension. The trace comes from the Chebyshev moments of a few random sign vectors.

Shapes: `b` clouds of `n` points stacked in one smoother, `c` columns, `D` degree; `x (b, n, c)`, coefficients
`(b, D + 1)`.
"""

import math

import torch
from torch import Tensor

from ..eigen.chebyshev import smoother_step, terms
from ..graph import Graph, stack
from ..graph.graph import build_graph
from ..search.layout import nearest
from ..smoothers import Smoother, variable_smoother
from ..smoothers.variable import NETWORK

NEIGHBOURS = 12
SURFACE = 2.0  # the dimension that the network takes every cloud to have
_GRID = 40  # times on the logarithmic grid on which traces are inverted


def batch_graph(clouds: Tensor, k: int = NEIGHBOURS) -> Graph:
    """The `k` nearest neighbours in a batch `(b, n, 3)`: all at once on a GPU, by trees on a processor."""
    clouds = clouds.float()
    if not clouds.is_cuda:
        return stack([build_graph(x, k) for x in clouds])
    b, n, _ = clouds.shape
    distances, indices = nearest(clouds, k)
    indices = indices + n * torch.arange(b, device=clouds.device)[:, None, None]
    return Graph(clouds.flatten(0, 1), indices.flatten(0, 1), distances.flatten(0, 1), clouds=(n,) * b)


@torch.no_grad()
def diffusion(source: Tensor | Graph, *, dense: bool = False) -> Smoother:
    """The smoother of a batch of clouds `(b, n, 3)` or of its graph, float32; `dense` stores `(b, n, n)`."""
    graph = source if isinstance(source, Graph) else batch_graph(source)
    smoother = variable_smoother(graph.truncate(NEIGHBOURS), None, SURFACE, NETWORK)
    return smoother.dense() if dense else smoother


def masses(smoother: Smoother) -> Tensor:
    """The mass `(b, n)`; sums to 1 on every cloud."""
    return smoother.mass.view(len(smoother.clouds), -1)


def coarseness(smoother: Smoother) -> Tensor:
    """Log of the local time against its mean, `(b, n)`: how coarse the sampling is here."""
    assert smoother.leaving is not None
    time = 1 / smoother.leaving.view(len(smoother.clouds), -1)  # 1 - A_ii is one step over the local time
    return (time / time.mean(-1, keepdim=True)).log()


def filter_degree(smoother: Smoother) -> int:
    """Enough for the longest time in use on `n` points: a time of `s` steps needs about `sqrt(s)` products."""
    return math.ceil(1.3 * math.sqrt(smoother.clouds[0])) + 4


def trace_moments(smoother: Smoother, probes: int = 24) -> Tensor:
    """Estimates `(b, D + 1)` of `tr T_j(2 A - I)`, with half the products by `T_i T_j = (T_{i+j} + T_{i-j})/2`."""
    mass = masses(smoother)
    b, n = mass.shape
    signs = torch.randint(0, 2, (n, probes), generator=torch.Generator().manual_seed(0)).to(mass) * 2 - 1
    most = filter_degree(smoother)

    def mean(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).sum((1, 2)) / probes

    series = terms(smoother_step(smoother), signs.expand(b, n, probes), most // 2 + 1)
    before, now = next(series), next(series)
    first = mean(before, now)
    out = [torch.full_like(first, float(n)), first]
    for following in series:
        out += [2 * mean(now, now) - n, 2 * mean(now, following) - first]
        now = following
    return torch.stack(out[: most + 1], -1)


def trace_times(levels: tuple[float, ...], moments: Tensor) -> Tensor:
    """Times `(b, len(levels))` at which the heat trace falls to each level, in units of `1 / bound`."""
    longest = (moments.shape[-1] - 1) ** 2 / 5
    grid = torch.logspace(-0.5, math.log10(longest), _GRID, device=moments.device)
    kernel = heat_coefficients(grid, moments.shape[-1] - 1)  # (G, D + 1)
    trace = (moments @ kernel.mT).clamp_min(0.5).cummin(-1).values.log()  # (b, G)
    target = torch.tensor(levels, device=moments.device).log()
    above = (trace[:, None] > target[:, None]).sum(-1).clamp(1, _GRID - 1)  # (b, levels)
    low, high = trace.gather(1, above - 1), trace.gather(1, above)
    share = ((low - target) / (low - high).clamp_min(1e-6)).clamp(0, 1)
    return (grid.log()[above - 1] * (1 - share) + grid.log()[above] * share).exp()


def heat_coefficients(times: Tensor, degree: int) -> Tensor:
    """Chebyshev coefficients `(..., degree + 1)` of `exp(-t (1 - y) / 2)` on `[-1, 1]`, `t` in units of `1 / bound`."""
    nodes = 4 * (degree + 1)
    theta = (torch.arange(nodes, device=times.device, dtype=torch.float64) + 0.5) * (math.pi / nodes)
    value = torch.exp(-0.5 * times.double()[..., None] * (1 - theta.cos()))  # (..., nodes)
    order = torch.arange(degree + 1, device=times.device, dtype=torch.float64)
    transform = torch.cos(order[:, None] * theta) * (2 / nodes)
    transform[0] /= 2
    return (value @ transform.mT).float()
