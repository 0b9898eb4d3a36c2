"""Which neighbours a point keeps for its balanced weights, and what it takes to choose them.

    h_i                            local spacing (n,)                T_i (d, dim)   orthonormal tangent frame
    |sum_j T_i^T u_ij| <= s count  "surrounded": the directions u_ij to the nearest `count` neighbours cancel
    |sum_j (T_i^T u_ij)^(2)| <= t count                              and not in a line: the traceless second moments
    |T_i^T u_ij|, |T_j^T u_ij| >= cos(angle)                         the edge ij runs along the sheet at both ends

On a curve the nearest neighbour on either side is kept, elsewhere the shortest list of nearest ones that surround the
point.  Parts that these lists leave apart are joined by edges of the whole graph that run along one sheet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..graph import Edges, undirected
from ..search.axes import principal_axes


@dataclass(frozen=True)
class Selection:
    """Constants of the choice of neighbours, with derivation or ablation."""

    planar: tuple[int, int, int] = (7, 16, 10)  # neighbours kept on a surface: least, most, where never surrounded
    solid: tuple[int, int, int] = (12, 28, 9)  # the same in a solid
    surrounded: float = 0.35  # |mean tangential direction| up to which the neighbours surround a point
    uneven: float = 0.7  # of the second moments of neighbours in a line: rows of a grid of 1 : 3 are 0.6 to 1
    tie: float = 1e-6  # relative difference of distances that are one: a shell of a solid lattice is kept whole
    nearest: int = 6  # neighbours that measure the spacing: those of an even cloud
    frame: int = 10  # neighbours that span the first frame
    stray: float = 2.5  # own over the neighbours' spacing: one of 20 000 random points of a sphere is above
    along: float = 0.75  # |tangential part| of an edge that may bridge a gap, cosine of 41 degrees
    one_sided: float = 0.4  # |mean direction| at the end of a sheet: 2/pi beside a straight gap, 0 inside
    crumb: int = 8  # a part of fewer points has no sheet of its own, and is joined by any edge
    speck: float = 0.01  # a part of a smaller share of the points is joined by edges that are no longer than ...
    beside: float = 5.0  # ... so many times the distance to the sixth neighbour at either end


SELECTION = Selection()
# Points that are even in space lie in rows in a stretched metric; weights above 0 make longer lists of them round.
STRETCHED = Selection(uneven=0.35)


class Neighbours(NamedTuple):
    """Neighbours ``(n, k)`` in ascending order, their ``offsets (n, k, d)``, and how many of each row are real."""

    indices: Tensor
    distances: Tensor
    offsets: Tensor
    real: Tensor | int  # (n,), or k for all

    @classmethod
    def of(cls, points: Tensor, indices: Tensor, distances: Tensor) -> Neighbours:
        """Rows that were filled up by repeating their first neighbour end with those copies, at offset zero."""
        offsets = points.index_select(0, indices.flatten()).view(*indices.shape, -1) - points[:, None]
        if points.requires_grad:
            distances = offsets.norm(dim=2)
        copy = torch.zeros_like(indices, dtype=torch.bool)
        torch.eq(indices[:, 1:], indices[:, :1], out=copy[:, 1:])
        if not bool(copy.any()):
            return cls(indices, distances, offsets, indices.shape[1])
        real = (~copy).sum(1)
        padded = torch.arange(indices.shape[1], device=copy.device) >= real[:, None]
        if not torch.equal(copy, padded):
            order = copy.byte().argsort(dim=1, stable=True)
            indices, distances = indices.gather(1, order), distances.gather(1, order)
            offsets = points[indices] - points[:, None]
        farthest = distances.gather(1, real[:, None] - 1)
        return cls(indices, torch.where(padded, farthest, distances), offsets.masked_fill(padded[..., None], 0), real)

    def stretched(self, field: Tensor) -> Neighbours:
        """The nearest where offsets are longer along a ``field (n, d)`` (`stretch`): as many as are surely among these.

        Of ``k`` nearest in a disk those are ``k / s`` in an ellipse, ``s`` the largest stretch.
        """
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
        return Neighbours(self.indices.gather(1, order), torch.minimum(distances, farthest), offsets, real)


def stretch(vectors: Tensor, field: Tensor) -> Tensor:
    """``vectors`` with ``1 + |field|`` times their length along the field."""
    size = field.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(field.dtype).tiny)
    return vectors + field / size * (field * vectors).sum(-1, keepdim=True)


def tangent_frames(offsets: Tensor, distances: Tensor, dimension: int) -> Tensor:
    """Orthonormal tangent frames ``(n, d, dim)``: local principal directions of ``offsets (n, k, d)``."""
    scale = distances[:, -1:].clamp_min(torch.finfo(distances.dtype).tiny)
    weighted = offsets * torch.exp(-(distances / scale).square() / 2)[..., None] / scale[..., None]
    k, d = offsets.shape[1:]
    if d <= k:
        return principal(weighted.mT @ weighted, dimension)
    left = principal(weighted @ weighted.mT, dimension)  # d > k: the small Gram matrix
    frames = weighted.mT @ left
    return frames / frames.norm(dim=1, keepdim=True).clamp_min(torch.finfo(frames.dtype).tiny)


def principal(matrices: Tensor, count: int) -> Tensor:
    """Leading eigenvectors (n, d, count) of many small symmetric matrices (n, d, d)."""
    if not matrices.requires_grad:
        return principal_axes(matrices)[1][..., -count:]
    # Nothing here depends on the choice of vectors in the leading space, whose derivative may be infinite: only the
    # space turns.  The added term is 0, and its derivative is that of the space.
    values, vectors = principal_axes(matrices.detach())
    rest, leading = vectors[..., :-count], vectors[..., -count:]
    gap = values[:, None, -count:] - values[:, :-count, None]
    return leading + rest @ ((rest.mT @ matrices @ leading) / gap.clamp_min(torch.finfo(gap.dtype).eps))


def choose_edges(near: Neighbours, frames: Tensor, selection: Selection = SELECTION) -> Edges:
    """The edges of the chosen neighbours, and those that bridge gaps between them."""
    keep = _adjacent(near, frames) if frames.shape[2] == 1 else _surrounding(near, frames, selection)
    return _bridged(near, keep, frames, selection)


def with_doubtful(edges: Edges, doubtful: Tensor | None) -> tuple[Edges, Tensor]:
    """The edges and those that may be real, and which are the latter."""
    if doubtful is None:
        return edges, torch.zeros_like(edges.head, dtype=torch.bool)
    known, more = edges.head * edges.n + edges.tail, doubtful[:, 0] * edges.n + doubtful[:, 1]
    key, order = torch.cat([known, more[~torch.isin(more, known)]]).sort()
    return Edges(key // edges.n, key % edges.n, edges.n), order >= len(edges)


def _surrounding(near: Neighbours, frames: Tensor, selection: Selection) -> Tensor:
    """Which neighbours each point keeps (n, k): the shortest prefix whose mean tangential direction is small."""
    sizes = selection.planar if frames.shape[2] == 2 else selection.solid
    few, most, otherwise = (min(count, near.indices.shape[1]) for count in sizes)
    length = near.distances[:, :most, None].clamp_min(torch.finfo(near.distances.dtype).tiny)
    directions = (near.offsets[:, :most] @ frames) / length
    count = torch.arange(1, most + 1, device=length.device)
    surrounded = directions.cumsum(1).norm(dim=2) <= selection.surrounded * count
    surrounded &= _unevenness(directions) <= selection.uneven * count
    surrounded[:, : few - 1] = False
    first = torch.where(surrounded.any(1), surrounded.int().argmax(1) + 1, otherwise)
    keep = torch.zeros(near.indices.shape, dtype=torch.bool, device=length.device)
    keep[:, :most] = count <= first[:, None]
    if frames.shape[2] == 3:
        keep |= near.distances <= (1 + selection.tie) * near.distances.gather(1, first[:, None] - 1)
    return keep


def _unevenness(directions: Tensor) -> Tensor:
    """How far the second moments of the first 1, 2, ... unit vectors ``(n, k, dim)`` are from round, ``(n, k)``.

    0 where they are, and the count where they lie in a line (in a solid: in a plane).
    """
    dimension = directions.shape[2]
    if dimension == 2:
        x, y = directions.unbind(2)
        moments = torch.stack([x.square() - y.square(), 2 * x * y], 2).cumsum(1)
        return moments.norm(dim=2)
    round_part = torch.eye(dimension, dtype=directions.dtype, device=directions.device) / dimension
    moments = (directions[..., :, None] * directions[..., None, :] - round_part).cumsum(1)
    return moments.flatten(2).norm(dim=2) * (dimension * (dimension - 1)) ** 0.5


def _adjacent(near: Neighbours, frames: Tensor) -> Tensor:
    """On a curve, the nearest neighbour on either side: weights 1/length are then balanced as they stand."""
    side = (near.offsets @ frames)[..., 0]  # (n, k)
    ahead, behind = side > 0, side < 0
    return (ahead & (ahead.cumsum(1) == 1)) | (behind & (behind.cumsum(1) == 1))


def _bridged(near: Neighbours, keep: Tensor, frames: Tensor, selection: Selection) -> Edges:
    """The kept edges; a gap in a sheet wider than the kept stencils is bridged by whatever the whole graph offers.

    Two sheets stay two parts: an edge between them leaves at least one of them steeply.
    """
    edges, _ = undirected(near.indices, keep)
    count, labels = edges.components
    if count == 1:
        return edges
    crossing = labels[:, None] != labels[near.indices]
    if frames.shape[1] > frames.shape[2]:
        head, place = crossing.nonzero(as_tuple=True)
        tail = near.indices[head, place]
        unit = near.offsets[head, place] / near.distances[head, place, None]
        size = torch.bincount(labels)[labels]
        crumb, speck = size < selection.crumb, size < selection.speck * len(labels)
        sixth = selection.beside * near.distances[:, min(selection.nearest, near.distances.shape[1]) - 1]
        beside = near.distances[head, place] < torch.minimum(sixth[head], sixth[tail])
        crossing[head, place] = (
            (_along(unit, frames[head], selection) & _along(unit, frames[tail], selection))
            | (_open(unit, head, near, labels, selection) & _open(-unit, tail, near, labels, selection))
            | (crumb[head] | crumb[tail])
            | ((speck[head] | speck[tail]) & beside)
        )
    if not bool(crossing.any()):
        return edges
    return _bridged(near, keep | crossing, frames, selection)


def _along(unit: Tensor, frames: Tensor, selection: Selection) -> Tensor:
    """Whether directions ``(e, d)`` run along the sheet with these frames."""
    return (unit[:, None] @ frames)[:, 0].norm(dim=1) > selection.along


def _open(unit: Tensor, ends: Tensor, near: Neighbours, labels: Tensor, selection: Selection) -> Tensor:
    """Whether directions ``(e, d)`` leave their part where it ends: its points lie on the other side of ``ends``."""
    rows, place = ends.unique(return_inverse=True)
    inside = (labels[rows, None] == labels[near.indices[rows]])[..., None]
    length = near.distances[rows, :, None].clamp_min(torch.finfo(unit.dtype).tiny)
    mean = (inside * near.offsets[rows] / length).sum(1) / inside.sum(1).clamp_min(1)
    return (unit * mean[place]).sum(1) < -selection.one_sided
