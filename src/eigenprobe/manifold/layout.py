"""Coordinates of rows in any number of dimensions: t-SNE whose groups stay where the principal
directions put them.

    S_ij = w_ij / sum w + u_ij / sum u,   u_ij = [j in N(i)] + [i in N(j)],   w: the smoother's
    P = R^-1/2 S R^-1/2 / sum             R: row sums of S
    z = A^10 x                            principal coordinates x, averaged along the graph
    minimise over y (n, d):   KL(e P || Q) + (c / 2r) |y - s z|^2,   s = <y, z> / <z, z>,
                              q_ij = 1 / (Z (1 + |y_i - y_j|^2))
    gradient:                 4 sum_j (p_ij - q_ij / e) Z q_ij (y_i - y_j) + (c / nr) (y_i - s z_i)

By the weights of the smoother alone, which discount hubs, the densest rows of a group gather in
crumbs; where all neighbours pull alike, groups run into each other: half of each does neither. The
sum over p is that of the edges, the one over q is that of some rows, other ones in every step and
spread evenly along a space-filling curve of the map, since chance alone tears groups: no tree or
grid, so that one loop serves any number of dimensions and any device. Steps become shorter towards
the end, which averages the samples. The exaggeration e gathers groups from the first step on: where
it grows later, groups are torn before. The last term holds the large scale: attraction ends at the
neighbours and repulsion at a few lengths, so that nothing else says which group lies next to which.
Averaged along the graph, the rows of a group have nearly one z, which moves groups and leaves their
insides alone; r, the root mean square of y, makes c a pull without a unit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..host.progress import report
from ..neighbors.candidates import principal_directions
from ..neighbors.layout import morton_order, rows_at_once
from ..smoothers import Smoother
from ..smoothers.smoother import csr

EXAGGERATION = 2.6  # e
STEPS, SORTED = 300, 5  # and how many of them share an order along the curve
# Rows per step that repel all: so many, more in small tables, where they cost nothing beside the
# rest of a step.
REPELLING, PAIRS = 100, 1 << 19
HELD, AVERAGED = 0.03, 10  # c, and the steps of averaging of z
MOMENTUM, LONGEST = 0.8, 5.0  # share of a step that the next one keeps; length of one, at most
FIRST_SIZE = 0.1  # root mean square of the start


def map_layout(smoother: Smoother, rows: Tensor, dimensions: int, seed: int) -> Tensor:
    """Places ``(n, dimensions)`` of the rows of a smoother's graph; ``rows (n, any)`` are what
    their large-scale order is taken from."""
    generator = torch.Generator().manual_seed(seed)
    few = smoother.n <= 3  # all are neighbours of each other: attraction alone would join them
    goal = _averaged_principal(smoother, rows, dimensions, 0 if few else AVERAGED)
    if few:
        return goal.double()
    shares = affinities(smoother)
    n, device = smoother.n, shares.device
    pointers, columns, pull = shares.crow_indices(), shares.col_indices(), n * shares.values()
    heads = torch.repeat_interleave(torch.arange(n, device=device), pointers.diff().long())
    noise = torch.randn(goal.shape, generator=generator).to(goal)
    # (dimensions, n) from here: numbers of edges are gathered several times as fast
    goal, places = goal.mT.contiguous(), FIRST_SIZE * (goal + 1e-3 * noise).mT.contiguous()
    velocity, ones = torch.zeros_like(places), places.new_ones((1, n))
    count = min(n, max(REPELLING, PAIRS // n))
    for step in range(STEPS):
        apart = places.index_select(1, heads) - places.index_select(1, columns)
        near = csr(pointers, columns, pull / (1 + apart.square_().sum(0)), (n, n))
        sums = (near @ torch.cat([places, ones]).mT).mT
        attraction = sums[-1:] * places - sums[:-1]
        if step % SORTED == 0:
            order = morton_order(places[:3].mT)
        within = torch.arange(count) + torch.rand(count, generator=generator)
        chosen = order[(within * (n / count)).long().clamp_max(n - 1).to(device)]
        repulsion = _repulsion(places, places[:, chosen])
        size = places.square().sum(0).mean().sqrt()
        held = (places - (places * goal).sum() / n * goal) / size
        gradient = 4 * (attraction - repulsion / EXAGGERATION) + HELD * held
        velocity = MOMENTUM * velocity - (1 - step / STEPS) * gradient
        velocity *= (LONGEST * velocity.square().sum(0).rsqrt()).clamp_max(1)
        places = places + velocity
        report(f"map, step {step} of {STEPS}")
    return (places.mT - places.mean(1)).double()


def affinities(smoother: Smoother) -> Tensor:
    """The shares ``P (n, n)``, sparse CSR, symmetric, which add up to 1; of given affinities these
    alone."""
    heads, tails, values = smoother.entries()
    ends, near = torch.stack([heads, tails])[:, heads != tails], smoother.known_graph.indices
    weights = values[heads != tails] * smoother.mass.to(values).sqrt()[ends].prod(0)
    rows = torch.arange(smoother.n, device=near.device)
    listed = torch.stack([rows[:, None].expand_as(near), near]).flatten(1)
    equal = weights.new_ones(2 * near.numel())
    pairs = torch.cat([ends, listed, listed.flip(0)], 1)
    both, shape = torch.cat([weights / weights.sum(), equal / equal.sum()]), (len(rows), len(rows))
    sums = torch.sparse_coo_tensor(pairs, both, shape, check_invariants=False).coalesce()
    ends, degree = sums.indices(), sums.sum(1).to_dense()
    shares = sums.values() * degree[ends].prod(0).rsqrt()
    pointers = torch.searchsorted(ends[0].contiguous(), torch.arange(len(rows) + 1).to(rows))
    return csr(pointers, ends[1], (shares / shares.sum()).float(), shape)


def _averaged_principal(smoother: Smoother, rows: Tensor, dimensions: int, steps: int) -> Tensor:
    """``z (n, dimensions)`` of root mean square 1; zeros beyond the columns of the rows."""
    mean, directions = principal_directions(rows, dimensions)
    root = smoother.mass.sqrt()[:, None]
    x = ((rows - mean) @ directions).to(root) * root
    x = smoother.power(x.to(smoother.dtype), steps).to(root) / root
    x = (x - x.mean(0)).float()
    x = torch.nn.functional.pad(x, (0, dimensions - x.shape[1]))
    return x / x.square().sum(1).mean().sqrt().clamp_min(torch.finfo(x.dtype).tiny)


def _repulsion(places: Tensor, others: Tensor) -> Tensor:
    """``n sum_j Z q_ij^2 (y_i - y_j) (d, n)`` over all rows, estimated by ``others (d, m)``."""
    ones = torch.ones_like(others[:1])
    beside = torch.cat([others, ones])
    # 1 + |y|^2 - 2 <y, x> + |x|^2 as one product
    factor = torch.cat([1 + others.square().sum(0, keepdim=True), -2 * others, ones]).mT
    total = places.new_tensor(-others.shape[1])  # without the chosen rows themselves
    parts = []
    for part in places.split(rows_at_once(places.device, others.shape[1]), dim=1):
        lengths = part.square().sum(0, keepdim=True)
        near = factor @ torch.cat([torch.ones_like(lengths), part, lengths])  # (m, block)
        near.clamp_min_(1).reciprocal_()
        total = total + near.sum()
        sums = beside @ near.square_()
        parts.append(sums[-1:] * part - sums[:-1])
    # n / Z, where Z over all rows is estimated by n / m times that over the m others.
    return torch.cat(parts, 1) * (places.shape[1] / total.clamp_min(1e-12))
