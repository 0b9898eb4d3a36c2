"""Neighbours and connectedness of many small clouds at once, brute force, on any device.

points (b, n, d) -> distances, indices (b, n, k) of the k nearest others
"""

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
    b, n = points.shape[:2]
    first = n * torch.arange(b, device=points.device)[:, None, None]
    heads = torch.arange(b * n, device=points.device).repeat_interleave(k)
    _, labels = components(heads, (nearest(points, k)[1] + first).flatten(), b * n)
    return torch.bincount(labels)[labels].view(b, n).amax(-1) / n
