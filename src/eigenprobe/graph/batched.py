"""Neighbours and connectedness of many small clouds at once, brute force, on any device.

points (b, n, d) -> distances, indices (b, n, k) of the k nearest others
"""

from __future__ import annotations

import torch
from torch import Tensor

from .edges import components


def nearest(points: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Distances and indices `(b, n, k)` of the `k` nearest others, ascending; exact, batched."""
    # Differences, not the Gram form: three coordinates are cheap and neighbours at 1e-3 survive TF32 settings.
    # One coordinate at a time: torch.cdist without its matrix form takes tens of times longer on a GPU.
    distance = torch.zeros(*points.shape[:2], points.shape[1], dtype=points.dtype, device=points.device)
    for x in points.unbind(-1):
        distance.add_((x[:, :, None] - x[:, None]).square_())
    distance.sqrt_()
    distance.diagonal(dim1=-2, dim2=-1).fill_(float("inf"))
    if not distance.is_cuda:
        values, index = distance.topk(k, largest=False)
        return values, index
    found = []
    for _ in range(k):  # on a GPU k reductions are many times quicker than one selection along rows this long
        found.append(distance.min(-1, keepdim=True))
        distance.scatter_(-1, found[-1].indices, float("inf"))
    return torch.cat([f.values for f in found], -1), torch.cat([f.indices for f in found], -1)


def connected(points: Tensor, k: int = 8) -> Tensor:
    """Share `(b,)` of the points that lie in the largest component of the `k` nearest-neighbour graph."""
    label = part_labels(nearest(points, k)[1])
    counts = torch.zeros(label.shape, device=points.device).scatter_add_(1, label, torch.ones_like(points[..., 0]))
    return counts.amax(-1) / label.shape[1]


def parts(indices: Tensor) -> list[int]:
    """The number of connected components of every cloud, from its neighbours `(b, n, k)`."""
    n, k = indices.shape[1:]
    own = torch.arange(n, device=indices.device)
    counts = (part_labels(indices) == own).sum(-1).tolist()
    heads = own.repeat_interleave(k)
    # A very long shape may need more rounds: what seems to be in parts is counted again.
    return [1 if c == 1 else components(heads, x.flatten(), n)[0] for c, x in zip(counts, indices, strict=True)]


def part_labels(indices: Tensor, rounds: int = 24) -> Tensor:
    """Labels `(b, n)`, equal within a component: the smallest index that `rounds` of looking at neighbours find."""
    b, n, k = indices.shape
    label = torch.arange(n, device=indices.device).expand(b, n).contiguous()
    flat = indices.flatten(1)
    for _ in range(rounds):
        smallest = torch.minimum(label, label.gather(1, flat).view(b, n, k).amin(-1))
        smallest = smallest.scatter_reduce(1, flat, smallest.repeat_interleave(k, 1), "amin")
        label = smallest.gather(1, smallest)  # pointer jumping: a long tube needs log, not linear, many rounds
    return label
