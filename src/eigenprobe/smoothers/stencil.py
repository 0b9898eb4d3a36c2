"""What weights on curves, surfaces and solids share: neighbours, tangent frames, edges, their
directions and constants.

    h_i                        local spacing (n,);   T_i (d, dim): orthonormal tangent frame
    |T_i^T u_ij|, |T_j^T u_ij| >= cos(angle)  the edge ij runs along the sheet at both ends

On a curve the nearest neighbour on either side is kept, unless it is a point of another turn that
an end of the curve faces: far from both, steep to the curve, and not the nearest the other way
round.  In a solid the nearest twelve are kept.  Parts that these lists leave apart are joined by
edges of the whole graph that run along one sheet.  Those of a surface are in `cells`.

Every edge gets a geodesic length (a chord that leaves the tangent plane at angle asin(s) spans an
arc longer by asin(s)/s) and a direction in the tangent frame of either end, l_ij = log_i(x_j).

An anisotropic metric is a field of tangent vectors f_i: lengths along f_i count 1 + |f_i| times.
Neighbours are sorted and directions measured in it, l_ij <- l_ij + f (f.l_ij) / |f|; everything
after is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..neighbors.graph import FRAME, Edges, Graph, principal, tangent_frames, undirected


@dataclass(frozen=True)
class Selection:
    """Constants of the choice of neighbours, with derivation or ablation."""

    solid: int = 12  # neighbours kept in a solid: as many as equal balls touch one of their size
    along: float = 0.75  # |tangential part| of an edge that may bridge a gap, cosine of 41 degrees
    # neighbours of both ends of an edge of a curve that are nearer, if it may lead to another turn
    turn: int = 4


SELECTION = Selection()
# Longer over shorter step of nine of ten points of an even curve: up to 2, of random ones 19.
EVEN = 4.0
# Neighbours at both ends of a gap in a curve that are nearer than what lies across it.
GAP_EVEN, GAP_RANDOM = 6, 20


@dataclass(frozen=True)
class Balance:
    """Constants of weights and of their balance, with derivation or ablation."""

    # cosine with the inward direction beyond which a neighbour lies on the other side
    outside: float = -0.35
    bandwidth: float = 2.0  # c above
    steepest: float = 0.8  # sine of the angle beyond which an edge says nothing about an arc
    ridge: float = 1e-3  # softness of balance, relative to the moments of the point
    round_ridge: float = 0.5  # softness of roundness
    rounds: int = 3  # Newton rounds
    # conjugate-gradient steps in each, at most: more of them carry rounding into the weights of
    # hard systems, and change no spectrum
    steps: int = 20
    tolerance: float = 1e-3  # relative residual at which they end
    least_factor: float = 0.3  # a weight loses at most this factor in a round, so it stays positive


BALANCE = Balance()
# Where derivatives are asked for the dual systems are solved to rounding: what is left of them is
# not smooth.
EXACT = Balance(tolerance=1e-13, steps=2000)


@dataclass(frozen=True)
class Stencil:
    """Undirected weighted edges, and the mass they induce (unnormalised)."""

    edges: Edges
    weight: Tensor  # (e,)
    mass: Tensor  # (n,)


class Neighbours(NamedTuple):
    """Neighbours ``(n, k)`` in ascending order, their ``offsets (n, k, d)``, and how many of each
    row are real.
    """

    indices: Tensor
    distances: Tensor
    offsets: Tensor
    real: Tensor | int  # (n,), or k for all

    @classmethod
    def of(cls, points: Tensor, indices: Tensor, distances: Tensor) -> Neighbours:
        """Rows that were filled up by repeating their first neighbour end with those copies, at
        offset zero.
        """
        offsets = (
            points.index_select(0, indices.flatten()).view(*indices.shape, -1) - points[:, None]
        )
        if points.requires_grad:
            distances = offsets.norm(dim=2)
        copy = torch.zeros_like(indices, dtype=torch.bool)
        torch.eq(indices[:, 1:], indices[:, :1], out=copy[:, 1:])
        if not bool(copy.any()):
            return cls(indices, distances, offsets, indices.shape[1])
        real = (~copy).sum(1)
        padded = torch.arange(indices.shape[1], device=copy.device) >= real[:, None]
        farthest = distances.gather(1, real[:, None] - 1)
        return cls(
            indices,
            torch.where(padded, farthest, distances),
            offsets.masked_fill(padded[..., None], 0),
            real,
        )

    def stretched_along(self, field: Tensor, frames: Tensor) -> Neighbours:
        """The nearest in the metric of a ``field (n, d)`` that is turned into the tangent planes
        (`stretch`): as many as are surely among these.

        Of ``k`` nearest in a disk those are ``k / s`` in an ellipse, ``s`` the largest stretch.
        """
        field = (frames @ tangential(field, frames)[..., None])[..., 0]
        offsets = stretch(self.offsets, field[:, None])
        distances = offsets.norm(dim=2)
        count = torch.arange(offsets.shape[1], device=field.device)
        copy = count >= torch.as_tensor(self.real, device=field.device).reshape(-1, 1)
        distances, order = distances.masked_fill(copy, torch.inf).sort(dim=1, stable=True)
        few = max(1, round(offsets.shape[1] / (1 + float(field.norm(dim=1).max()))))
        distances, order = distances[:, :few], order[:, :few]
        real = torch.as_tensor(self.real, device=field.device).clamp_max(few).expand(len(field))
        farthest = distances.gather(1, real[:, None] - 1)
        offsets = offsets.gather(1, order[..., None].expand(-1, -1, offsets.shape[2]))
        return Neighbours(
            self.indices.gather(1, order), torch.minimum(distances, farthest), offsets, real
        )


def stretch(vectors: Tensor, field: Tensor) -> Tensor:
    """``vectors`` with ``1 + |field|`` times their length along the field."""
    size = field.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(field.dtype).tiny)
    return vectors + field / size * (field * vectors).sum(-1, keepdim=True)


def first_frames(graph: Graph, dimension: int) -> tuple[Neighbours, Tensor]:
    """The neighbours of a graph without self-loops, and frames ``(n, d, dim)`` of the nearest of
    them.

    A row with fewer neighbours repeats its first one to fill the places; the copies do not count.
    """
    near = Neighbours.of(graph.points, graph.indices, graph.distances)
    return near, tangent_frames(near.offsets[:, :FRAME], near.distances[:, :FRAME], dimension)


def choose_edges(near: Neighbours, frames: Tensor) -> Edges:
    """The edges of the chosen neighbours, and those that bridge gaps between them."""
    if frames.shape[2] == 1:
        keep = _adjacent(near, frames)
    else:
        keep = _nearest(near)
    return bridged(near, undirected(near.indices, keep)[0], frames)


def with_pairs(edges: Edges, pairs: Tensor) -> Edges:
    """The edges with further ``pairs (c, 2)`` of points, the lower one first."""
    known, more = edges.head * edges.n + edges.tail, (pairs[:, 0] * edges.n + pairs[:, 1]).unique()
    key = torch.cat([known, more[~torch.isin(more, known)]]).sort().values
    return Edges(key // edges.n, key % edges.n, edges.n)


def _nearest(near: Neighbours) -> Tensor:
    """Which neighbours each point of a solid keeps ``(n, k)``: the nearest, and those as far as the
    last of them but for rounding, so that a shell of a lattice is kept whole."""
    last = near.distances[:, : SELECTION.solid][:, -1:]
    return near.distances <= (1 + torch.finfo(last.dtype).eps ** 0.5) * last


def _adjacent(near: Neighbours, frames: Tensor) -> Tensor:
    """On a curve, the nearest neighbour on either side: weights 1/length are then balanced as they
    stand.
    """
    side = (near.offsets @ frames)[..., 0]  # (n, k)
    ahead, behind = side > 0, side < 0
    keep = (ahead & (ahead.cumsum(1) == 1)) | (behind & (behind.cumsum(1) == 1))
    fourth = near.distances[:, min(SELECTION.turn, near.distances.shape[1]) - 1]
    far = keep & (near.distances > torch.maximum(fourth[:, None], fourth[near.indices]))
    head, place = far.nonzero(as_tuple=True)
    tail = near.indices[head, place]
    back = (keep[tail] & (near.indices[tail] == head[:, None])).any(1)
    unit = near.offsets[head, place] / near.distances[head, place, None]
    runs = _along(unit, frames[head]) & _along(unit, frames[tail])
    keep[head, place] = back | runs
    return keep & ~_wide(near, keep)


def _wide(near: Neighbours, keep: Tensor) -> Tensor:
    """Which of the chosen neighbours on a curve lie across a gap that no sampling of it leaves: of
    random points one of e^m is m spacings wide, and even points leave none."""
    longest, shortest = near.distances * keep, near.distances.masked_fill(~keep, torch.inf)
    ratio = (longest.amax(1) / shortest.amin(1)).detach()[keep.sum(1) == 2]
    even = len(ratio) > 0 and float(ratio[:: len(ratio) // 10**6 + 1].quantile(0.9)) < EVEN
    rank = GAP_EVEN if even else GAP_RANDOM
    if rank > near.distances.shape[1]:
        return torch.zeros_like(keep)
    reach = near.distances[:, rank - 1]
    return keep & (near.distances > torch.maximum(reach[:, None], reach[near.indices]))


def bridged(near: Neighbours, edges: Edges, frames: Tensor) -> Edges:
    """The edges; a gap in a sheet wider than the stencils is bridged by whatever the whole graph
    offers.

    Two sheets stay two parts: an edge between them leaves at least one of them steeply.
    """
    count, labels = edges.components
    if count == 1:
        return edges
    crossing = labels[:, None] != labels[near.indices]
    if frames.shape[1] > frames.shape[2]:
        head, place = crossing.nonzero(as_tuple=True)
        tail = near.indices[head, place]
        unit = near.offsets[head, place] / near.distances[head, place, None]
        crossing[head, place] = _along(unit, frames[head]) & _along(unit, frames[tail])
    if not bool(crossing.any()):
        return edges
    head, place = crossing.nonzero(as_tuple=True)
    ends = torch.stack([head, near.indices[head, place]], 1).sort(dim=1).values
    return bridged(near, with_pairs(edges, ends), frames)


def _along(unit: Tensor, frames: Tensor) -> Tensor:
    """Whether directions ``(e, d)`` run along the sheet with these frames."""
    return (unit[:, None] @ frames)[:, 0].norm(dim=1) > SELECTION.along


def edge_directions(
    chord: Tensor, edges: Edges, frames: Tensor, settings: Balance, field: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Directions of the edges at both ends ``(e, dim)``, as long as their arcs in the metric of the
    field, squared.
    """
    forward, backward, length2 = chord, -chord, chord.square().sum(1)
    if frames.shape[2] < chord.shape[1]:
        forward, ahead = _logarithm(chord, length2, frames[edges.head], settings.steepest)
        backward, behind = _logarithm(-chord, length2, frames[edges.tail], settings.steepest)
        length2 = (ahead + behind) / 2
    if field is not None:
        flat = field if frames.shape[2] == chord.shape[1] else tangential(field, frames)
        forward, backward = stretch(forward, flat[edges.head]), stretch(backward, flat[edges.tail])
        length2 = (forward.square().sum(1) + backward.square().sum(1)) / 2
    return forward, backward, length2


def tangential(field: Tensor, frames: Tensor) -> Tensor:
    """Components ``(n, dim)`` of the vectors turned into the tangent planes, their lengths kept."""
    flat = (field[:, None] @ frames)[:, 0]
    size = flat.norm(dim=1, keepdim=True).clamp_min(torch.finfo(flat.dtype).tiny)
    return flat / size * field.norm(dim=1, keepdim=True)


def edge_frames(
    chord: Tensor, edges: Edges, weight: Tensor, dimension: int, fallback: Tensor
) -> Tensor:
    """Frames (n, d, dim) from the kept edges alone: covariances about their mean, or about a point
    that has too few.
    """
    if chord.shape[1] > 8:
        return fallback  # d x d moments per point would be the largest array of all
    tiny = torch.finfo(chord.dtype).tiny
    second, total = edges.moments(weight, chord, chord), edges.at(weight)
    first = edges.at_head(weight[:, None] * chord) - edges.at_tail(weight[:, None] * chord)
    # The size before the subtraction, which may leave nothing of it.
    size = second.diagonal(dim1=1, dim2=2).sum(1)[:, None, None].clamp_min(tiny)
    first = first * (edges.at((weight > 0).to(weight)) > dimension)[:, None]
    mean = first[:, :, None] * first[:, None, :] / total.clamp_min(tiny)[:, None, None]
    found = principal((second - mean) / size, dimension)
    return torch.where(total[:, None, None] > 0, found, fallback)  # points without edges


def _logarithm(
    chord: Tensor, chord2: Tensor, frames: Tensor, steepest: float
) -> tuple[Tensor, Tensor]:
    """Tangential direction of each edge with the length of its arc, (e, dim), and that length
    squared, (e,).
    """
    flat = (chord[:, None] @ frames)[:, 0]
    flat2 = flat.square().sum(1)
    sine = (1 - flat2 / chord2).clamp(1e-8, steepest**2).sqrt()
    length2 = chord2 * (torch.asin(sine) / sine).square()
    return flat * (length2 / flat2.clamp_min(1e-12 * chord2)).sqrt()[:, None], length2
