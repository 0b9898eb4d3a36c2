"""Weights on curves and in solids that are exact for linear functions.

In a solid each point keeps its twelve nearest neighbours.  With the directions l_ij of the edges
(`stencil`), starting weights

    w_ij = |l_ij|^(dim-2) (1 + |l_ij|^2 / (2 c h_i h_j))^-2        h: local spacing

(on a curve simply 1/|l_ij| to the nearest on either side) are then changed as little as possible,
min sum (w' - w)^2 / w, so that at every interior point

    sum_j w_ij l_ij = 0                                            "balance"

which makes coordinate functions harmonic: the property that gives the cotangent Laplacian its
accuracy, here without a mesh and in any dimension.  The second moments are drawn towards roundness
as well, sum_j w_ij l_ij l_ij^T towards a multiple of the identity: neighbours closer in one
direction than in the other would otherwise make the operator anisotropic.  The dual system has one
vector per point, and each equation involves the edges of one point only: with the inverse of the
block of every point as a preconditioner a dozen conjugate-gradient steps solve it, whatever the
frames. Near a boundary the direction across it stays free.  The mass is the local time, m_i = sum_j
w_ij |l_ij|^2 / (2 dim), and the operator M^-1 (R - W) is in the units of the input with nothing to
calibrate.  Arrays: e edges, (e, dim) directions; n points, (n, 8) dual variables.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..neighbors.graph import Edges, Graph, local_spacing
from ..neighbors.layout import Segments
from .smoother import conjugate_gradients, csr, transpose
from .stencil import (
    BALANCE,
    Balance,
    Neighbours,
    Stencil,
    choose_edges,
    edge_directions,
    edge_frames,
    first_frames,
)


def balanced_stencil(
    graph: Graph, dimension: int, settings: Balance = BALANCE, field: Tensor | None = None
) -> Stencil:
    """Weights of a curve or a solid, one cloud or several, on a graph without self-loops."""
    near, frames = first_frames(graph, dimension)
    if field is not None:
        near = near.stretched_along(field, frames)
    spacing = local_spacing(near.indices, near.distances)
    edges = choose_edges(near, frames)
    head, tail = edges.head, edges.tail
    chord, spread = graph.points[tail] - graph.points[head], spacing[head] * spacing[tail]
    if dimension < chord.shape[1]:
        frames = edge_frames(chord, edges, torch.ones_like(spread), dimension, frames)
    else:
        frames = torch.eye(dimension, dtype=chord.dtype, device=chord.device).expand(
            len(frames), -1, -1
        )
    forward, backward, length2 = edge_directions(chord, edges, frames, settings, field)
    if dimension == 1:
        weight = length2.rsqrt()
    else:
        weight = (
            length2 ** ((dimension - 2) / 2)
            * (1 + length2 / (2 * settings.bandwidth * spread)) ** -2
        )
        crossing = _boundary_direction(near, frames, settings)
        ends = forward, backward, length2
        weight = _balance(weight, ends, crossing, edges, settings, graph.clouds)
    return Stencil(edges, weight, edges.at(weight * length2) / (2 * dimension))


def _boundary_direction(near: Neighbours, frames: Tensor, settings: Balance) -> Tensor:
    """Unit inward direction (n, dim) at points that have no neighbours on its other side, zero
    elsewhere.
    """
    tiny = torch.finfo(frames.dtype).tiny
    offsets, axes = near.offsets.permute(2, 0, 1).contiguous(), frames.permute(1, 2, 0).contiguous()
    # (dim, n, k): long rows are quick
    flat = sum(x * axis[..., None] for x, axis in zip(offsets, axes, strict=True))
    length = near.distances.clamp_min(tiny)
    # Fading towards the last neighbour: where a lattice has more of the same distance, those listed
    # would tilt the sum.
    fading = (1 - (length / length[:, -1:]).square()) / length
    inward = (fading * flat).sum(2)
    inward = inward / inward.norm(dim=0).clamp_min(tiny)
    along = (flat * inward[..., None]).sum(0)
    # cosines
    outside = (along < 0) & (along.square() > settings.outside**2 * flat.square().sum(0))
    return torch.where(outside.any(1)[:, None], 0.0, inward.mT)


def _balance(
    weight: Tensor,
    ends: tuple[Tensor, Tensor, Tensor],
    crossing: Tensor,
    edges: Edges,
    settings: Balance,
    sizes: tuple[int, ...],
) -> Tensor:
    """Newton rounds on the dual: (B W B^T + ridge) t = -B w,  w <- w (1 + B^T t);  row i of B holds
    point i's edges.

    ``ends`` are directions of the edges at both ends ``(e, dim)`` and their squared lengths;
    directions ``crossing (n, dim)`` a boundary stay free.
    """
    forward, backward, length2 = ends
    dimension, head, tail = crossing.shape[1], edges.head, edges.tail
    moment, tiny = weight * length2, torch.finfo(weight.dtype).tiny
    first, second = (
        (dimension / edges.at(part).clamp_min(tiny)).sqrt() for part in (moment, moment * length2)
    )

    def rows(along: Tensor, at: Tensor) -> Tensor:
        free, across = along * first[at, None], crossing[at]
        free = free - across * (across * free).sum(1, keepdim=True)
        return torch.cat([free, _traceless(along) * second[at, None]], 1)

    ahead, behind = rows(forward, head), rows(backward, tail)
    ridge = weight.new_full((edges.n, ahead.shape[1]), settings.round_ridge)
    ridge[:, :dimension] = settings.ridge
    incidence = _Incidence(ahead, behind, edges, weight.detach(), ridge)
    clouds = Segments(tuple(ahead.shape[1] * size for size in sizes or (edges.n,)), weight.device)
    dual: Tensor | None = None
    for _ in range(settings.rounds):
        dual = incidence.solve(weight, settings, clouds, dual)
        weight = weight * (1 + incidence.gather(dual)).clamp_min(settings.least_factor)
    return weight


def _traceless(t: Tensor) -> Tensor:
    """The part of ``t t^T`` that is not round, of size ``|t|^2`` in three dimensions."""
    x, y, *rest = t.unbind(1)
    parts = [x * x - y * y, 2 * x * y] + [2 * z * each for z in rest for each in (x, y)]
    return torch.stack(
        [3**0.5 / 2 * part for part in parts] + [rest[0].square() - (x * x + y * y) / 2], 1
    )


class _Incidence:
    """``B (n dim, e)`` and its transpose, sparse: one column per edge, its directions at both ends.

    The dual matrix ``B W B^T + ridge`` is applied as a product of the two; assembled it would have
    twice their entries. ``nearly`` inverts its block of every point, with the first weights.
    """

    def __init__(
        self, forward: Tensor, backward: Tensor, edges: Edges, weight: Tensor, ridge: Tensor
    ) -> None:
        self.ends, self.ridge = (forward, backward, edges), ridge.reshape(-1)
        forward, backward = forward.detach(), backward.detach()
        count, dimension = forward.shape
        head, tail, rows = edges.head, edges.tail, edges.n * dimension
        within = torch.arange(dimension, device=head.device)
        ends = torch.cat(
            [head[:, None] * dimension + within, tail[:, None] * dimension + within], 1
        )
        columns, values = ends.reshape(-1).int(), torch.cat([forward, backward], 1).reshape(-1)
        pointers = torch.arange(0, len(columns) + 1, 2 * dimension, device=head.device).int()
        self.to_edges = csr(pointers, columns, values, (count, rows))  # B^T
        self.to_points = transpose(self.to_edges)  # B
        blocks = edges.moments(weight, forward, backward) + torch.diag_embed(ridge)
        within = (torch.arange(rows, device=head.device) // dimension * dimension)[:, None] + within
        pointers = torch.arange(0, rows * dimension + 1, dimension, device=head.device).int()
        self.nearly = csr(
            pointers,
            within.reshape(-1).int(),
            torch.linalg.inv_ex(blocks)[0].reshape(-1),
            (rows, rows),
        )

    def gather(self, dual: Tensor) -> Tensor:
        """``B^T t``: (n dim,) -> (e,); sums over edges where there are derivatives."""
        forward, backward, edges = self.ends
        if not (forward.requires_grad or dual.requires_grad):
            return self.to_edges @ dual
        dual = dual.reshape(edges.n, -1)
        return (forward * dual[edges.head] + backward * dual[edges.tail]).sum(1)

    def scatter(self, weight: Tensor) -> Tensor:
        """``B w``: (e,) -> (n dim,), with derivatives."""
        forward, backward, edges = self.ends
        return (
            edges.at_head(forward * weight[:, None]) + edges.at_tail(backward * weight[:, None])
        ).reshape(-1)

    def solve(
        self, weight: Tensor, settings: Balance, clouds: Segments, before: Tensor | None = None
    ) -> Tensor:
        """``t`` with ``(B W B^T + ridge) t = -B w``; its derivative is a solve with the same
        matrix.

        ``before`` is the answer for other weights, to start from.
        """
        inverse = partial(self._inverse, weight.detach(), settings, clouds)
        found = inverse(-(self.to_points @ weight.detach()), before)
        if not weight.requires_grad:
            return found
        residual = (
            -self.scatter(weight) - self.scatter(weight * self.gather(found)) - self.ridge * found
        )
        return _Solved.apply(residual, found, inverse)

    def _inverse(
        self,
        weight: Tensor,
        settings: Balance,
        clouds: Segments,
        right: Tensor,
        before: Tensor | None = None,
    ) -> Tensor:
        """``(B W B^T + ridge)^-1 right``: every cloud ends on its own, as if it were alone."""

        def times(x: Tensor) -> Tensor:
            return torch.addcmul(self.to_points @ (weight * (self.to_edges @ x)), self.ridge, x)

        known = torch.zeros_like(right)
        target = settings.tolerance**2 * clouds.inner(right, self.nearly @ right)
        if before is not None:  # the best multiple of it
            before = before.detach()
            image = times(before)
            share = clouds.inner(before, image)
            share = clouds.spread(torch.where(share > 0, clouds.inner(before, right) / share, 0.0))
            known, right = share * before, torch.addcmul(right, share, image, value=-1)
        nearly = partial(torch.mv, self.nearly)
        return known + conjugate_gradients(times, nearly, right, target, settings.steps, clouds)


class _Solved(torch.autograd.Function):
    """``A(x)^-1 b(x)`` as ``found + A^-1 (b(x) - A(x) found)``: the derivative is that of the
    residual, solved.
    """

    @staticmethod
    def forward(
        ctx: Any, residual: Tensor, found: Tensor, inverse: Callable[[Tensor], Tensor]
    ) -> Tensor:
        ctx.inverse = inverse
        return found.clone()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None, None]:
        return ctx.inverse(given[0]), None, None
