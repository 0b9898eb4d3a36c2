r"""From a field to a cloud: seeds on the primitives, Newton steps to the zero set.

    x <- x - f(x) grad f(x) / |grad f(x)|^2

`b` shapes; nothing loops over shapes or points.
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
