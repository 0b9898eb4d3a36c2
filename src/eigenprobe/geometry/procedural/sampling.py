r"""From a field to a cloud: seeds on the primitives, Newton steps to the zero set, farthest-point thinning.

    x <- x - f(x) grad f(x) / |grad f(x)|^2

`b` shapes, `N` candidates, `n` points. Nothing loops over points; farthest-point sampling is `n` steps for all shapes
at once.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .fields import Field, Rng


def seeds(field: Field, rng: Rng, count: int) -> Tensor:
    """`(b, count, 3)` points near the surface, spread over the primitives by their area."""
    areas: list[Tensor] = []
    c, s = field.capsules, field.solids
    if c is not None:
        length, radius = (c.b - c.a).norm(dim=-1), 0.5 * (c.ra + c.rb)
        orbit = 0.5 * (c.a[..., 0] + c.b[..., 0]).abs() + radius
        area = 2 * math.pi * torch.where(c.revolved, 2 * orbit, radius) * (length + 2 * radius)
        areas.append(torch.where(c.valid, area, torch.zeros_like(area)))
    if s is not None:
        h = s.half.clamp_max(1.2)
        area = 8 * (h[..., 0] * h[..., 1] + h[..., 1] * h[..., 2] + h[..., 2] * h[..., 0])
        areas.append(torch.where(s.valid, area, torch.zeros_like(area)))
    weights = torch.cat(areas, -1) + 1e-9
    index = torch.multinomial(weights, count, replacement=True, generator=rng.generator)  # (b, count)
    out = rng.normal(0.5, count, 3)
    first = 0
    direction = rng.direction(count)
    if c is not None:
        first = c.a.shape[1]
        j = index.clamp_max(first - 1)
        pick = j[..., None].expand(-1, -1, 3)
        a, b = c.a.gather(1, pick), c.b.gather(1, pick)
        # Slightly beyond the ends, so that caps are reached too.
        t = rng.uniform(-0.15, 1.15, count, 1)
        radius = c.ra.gather(1, j) + t[..., 0].clamp(0, 1) * (c.rb - c.ra).gather(1, j)
        axis = b - a
        normal = direction - axis * (
            (direction * axis).sum(-1, keepdim=True) / axis.square().sum(-1, keepdim=True).clamp_min(1e-9)
        )
        blunt = (t < 0) | (t > 1)
        normal = torch.nn.functional.normalize(torch.where(blunt, direction, normal), dim=-1)
        flat_axis, flat = c.flat_axis.gather(1, pick), c.flat.gather(1, j)[..., None]
        normal = normal - (1 - 1 / flat) * (normal * flat_axis).sum(-1, keepdim=True) * flat_axis
        point = a + t.clamp(0, 1) * axis + normal * radius[..., None]
        angle = rng.uniform(0, 2 * math.pi, count)
        turned = torch.stack([point[..., 0] * angle.cos(), point[..., 0] * angle.sin(), point[..., 2]], -1)
        point = torch.where(c.revolved.gather(1, j)[..., None], turned, point)
        out = torch.where((index < first)[..., None], point, out)
    if s is not None:
        j = (index - first).clamp_min(0)
        pick = j[..., None].expand(-1, -1, 3)
        p = s.q.gather(1, j)[..., None]
        cube = direction / (direction.abs() ** p).sum(-1, keepdim=True).clamp_min(1e-12) ** (1 / p)
        spread = torch.where(p > 4, rng.uniform(-1, 1, count, 3), cube)
        # On a box the directions bunch up at the face centres: draw the face, then a point on it.
        face = torch.nn.functional.one_hot(rng.integers(0, 2, count), 3).bool()
        spread = torch.where((p > 4) & face, spread.sign(), spread)
        point = torch.einsum(
            "bnd,bnde->bne",
            spread * s.half.gather(1, pick),
            s.rotation[torch.arange(rng.b, device=index.device)[:, None], j],
        )
        out = torch.where((index >= first)[..., None], point + s.centre.gather(1, pick), out)
    return out


def project(field: Field, x: Tensor, steps: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """Newton steps to the zero set; returns points, outward normals and which of them arrived."""
    start = x
    gradient = torch.zeros_like(x)
    value = torch.zeros(x.shape[:2], device=x.device)
    for step in range(steps + 1):
        with torch.enable_grad():
            moving = x.detach().requires_grad_(True)
            value = field(moving)
            (gradient,) = torch.autograd.grad(value.sum(), moving)
        value = value.detach()
        if step < steps:
            move = value[..., None] * gradient / gradient.square().sum(-1, keepdim=True).clamp_min(0.05)
            x = x - move.clamp(-0.15, 0.15)
    arrived = (value.abs() < 4e-3) & (gradient.norm(dim=-1) > 0.1) & ((x - start).norm(dim=-1) < 0.6)
    return x, torch.nn.functional.normalize(gradient, dim=-1), arrived


def farthest(points: Tensor, count: int, valid: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
    """Farthest-point order `(b, count)` of `points (b, N, 3)`; `weight (b, N)` above 1 asks for more points there."""
    b = points.shape[0]
    rows = torch.arange(b, device=points.device)
    distance = torch.full(points.shape[:2], 1e10, device=points.device)
    if valid is not None:
        distance = torch.where(valid, distance, torch.full_like(distance, -1.0))
    order = torch.empty(b, count, dtype=torch.long, device=points.device)
    current = distance.argmax(-1)
    for i in range(count):
        order[:, i] = current
        offset = (points - points[rows, current][:, None]).square().sum(-1)
        distance = torch.minimum(distance, offset if weight is None else offset * weight)
        current = distance.argmax(-1)
    return order


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


def connected(points: Tensor, k: int = 8, rounds: int = 24) -> Tensor:
    """Share `(b,)` of the points that lie in the largest component of the `k` nearest-neighbour graph."""
    _, index = nearest(points, k)
    b, n, _ = index.shape
    label = torch.arange(n, device=points.device).expand(b, n).contiguous()
    flat = index.flatten(1)
    for _ in range(rounds):
        smallest = torch.minimum(label, label.gather(1, flat).view(b, n, k).amin(-1))
        smallest = smallest.scatter_reduce(1, flat, smallest.repeat_interleave(k, 1), "amin")
        label = smallest.gather(1, smallest)  # pointer jumping: a long tube needs log, not linear, many rounds
    counts = torch.zeros(b, n, device=points.device).scatter_add_(1, label, torch.ones_like(points[..., 0]))
    return counts.amax(-1) / n
