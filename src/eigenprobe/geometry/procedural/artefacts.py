"""Made things: machined parts with holes, vases and cups, furniture, tools, plates."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .fields import Builder, Field, Rng, chain

_SHARP = 8.0


def _axis_frame(rng: Rng) -> Tensor:
    """One of the three axis permutations, as rotations: machined parts are mostly axis-aligned."""
    eye = torch.eye(3, device=rng.device)
    choices = torch.stack([eye, eye[[1, 2, 0]], eye[[2, 0, 1]]])
    return choices[rng.integers(0, 2)]


def machined(rng: Rng) -> Field:
    """Blocks, cylinders, discs and rings joined and drilled through: bearings, brackets, rocker arms."""
    builder = Builder(rng)
    centre = rng.point(0.0, 0.0, 0.0)
    count = rng.integers(1, 4)
    places: list[Tensor] = []
    for i in range(4):
        half = torch.stack([rng.log_uniform(0.15, 0.6), rng.log_uniform(0.15, 0.5), rng.log_uniform(0.06, 0.4)], -1)
        cylinder, ring = rng.chance(0.5), rng.chance(0.25)
        half = torch.where(cylinder[:, None], half[:, [0, 0, 2]], half)
        p = torch.where(cylinder, 2.0, _SHARP)
        width = torch.where(ring, half[:, 0] * rng.uniform(0.2, 0.6), 0.0)
        rotation = _axis_frame(rng)
        valid = i < count
        builder.solid(centre, half, rotation=rotation, p=p, q=_SHARP, ring=width, valid=valid)
        bore = half * torch.stack([rng.uniform(0.3, 0.7)] * 2 + [torch.full_like(width, 3.0)], -1)
        round_bore = torch.where(rng.chance(0.7), 2.0, _SHARP)
        drilled = valid & ~ring & rng.chance(0.55)
        builder.solid(centre, bore, rotation=rotation, p=round_bore, q=_SHARP, negative=True, valid=drilled)
        places.append(centre)
        axis = torch.eye(3, device=rng.device)[rng.integers(0, 2)] * torch.where(rng.chance(0.5, 1), 1.0, -1.0)
        centre = centre + axis * half.amax(-1, keepdim=True) * rng.uniform(0.8, 1.3, 1)
    for i in range(1, 4):
        thick = rng.uniform(0.06, 0.18)
        builder.capsule(
            places[i - 1], places[i], thick, thick, flat=rng.uniform(1, 2), valid=(i < count) & rng.chance(0.5)
        )
    slot = rng.point(0.0, 0.0, 0.0) + rng.normal(0.2, 3)
    half = torch.stack([rng.uniform(0.05, 0.12), rng.uniform(0.05, 0.12), rng.uniform(1.0, 1.5)], -1)
    builder.solid(slot, half, rotation=_axis_frame(rng), p=2.0, q=_SHARP, negative=True, valid=rng.chance(0.4))
    return builder.build(rng.log_uniform(0.004, 0.04))


def pierced(rng: Rng) -> Field:
    """A blob or block with up to five tunnels through it: genus by drilling."""
    builder = Builder(rng)
    half = rng.uniform(0.35, 0.8, 3)
    exponent = torch.where(rng.chance(0.5), 2.0, 5.0)
    builder.solid(rng.point(0, 0, 0), half, p=exponent, q=exponent)
    count = rng.integers(1, 5)
    for i in range(5):
        bore = rng.log_uniform(0.08, 0.22)
        size = torch.stack([bore, bore, torch.full_like(bore, 2.5)], -1)
        builder.solid(
            rng.normal(0.28, 3), size, rotation=rng.rotation(), p=2.0, q=_SHARP, negative=True, valid=i < count
        )
    return builder.build(rng.log_uniform(0.02, 0.08), bump=rng.uniform(0, 0.05))


def vessel(rng: Rng, pieces: int = 10) -> Field:
    """Vases, cups, glasses, bottles: the shell or the solid of a random profile, with handles and spouts."""
    builder = Builder(rng)
    t = torch.linspace(0, 1, pieces + 1, device=rng.device)
    k = torch.arange(1, 4, device=rng.device)
    wave = (rng.normal(0.35, 3, 1) / k[:, None] * torch.sin(math.pi * k[:, None] * t + rng.uniform(0, 6.3, 3, 1))).sum(
        1
    )
    radius = rng.uniform(0.2, 0.5, 1) * wave.exp()  # (b, pieces + 1)
    height = rng.uniform(0.5, 1.6, 1) * t
    wall = rng.log_uniform(0.02, 0.06)
    solid = rng.chance(0.35)
    for i in range(pieces):
        a, b = rng.point(radius[:, i], 0, height[:, i]), rng.point(radius[:, i + 1], 0, height[:, i + 1])
        builder.capsule(a, b, wall, wall, revolved=True, valid=~solid)
        low, high = rng.point(0, 0, height[:, i]), rng.point(0, 0, height[:, i + 1])
        builder.capsule(low, high, radius[:, i], radius[:, i + 1], valid=solid)
    floor = rng.point(0, 0, height[:, 0])
    builder.capsule(floor, rng.point(radius[:, 0], 0, height[:, 0]), wall, wall, revolved=True, valid=~solid)
    handle = rng.chance(0.55)
    twice = handle & rng.chance(0.3)
    first, last = 2, pieces - 3
    top, bottom = rng.point(radius[:, last], 0, height[:, last]), rng.point(radius[:, first], 0, height[:, first])
    out = rng.point(rng.uniform(0.1, 0.35), 0, 0)
    thick = rng.log_uniform(0.03, 0.08)
    for sign, valid in ((1.0, handle), (-1.0, twice)):
        facing = torch.tensor([sign, 1.0, 1.0], device=rng.device)
        upper, lower = (top * 0.7 + bottom * 0.3 + out) * facing, (top * 0.3 + bottom * 0.7 + out) * facing
        builder.capsule(top * facing, upper, thick, thick, valid=valid)
        builder.capsule(upper, lower, thick, thick, valid=valid)
        builder.capsule(lower, bottom * facing, thick, thick, valid=valid)
    spout = rng.chance(0.2)
    start = rng.point(0, radius[:, first], height[:, first])
    chain(
        builder,
        start,
        rng.point(0, 1, 0.8),
        [rng.uniform(0.1, 0.25)] * 2,
        [thick * 1.5, thick * 1.2, thick],
        curl=rng.point(0, 0, 0.3),
        valid=spout,
    )
    return builder.build(rng.log_uniform(0.006, 0.03), bump=rng.uniform(0, 0.01))


def furniture(rng: Rng) -> Field:
    """Tables, chairs, benches: a slab, legs, sometimes a back, rails and arms."""
    builder = Builder(rng)
    x, y = rng.uniform(0.3, 0.7), rng.uniform(0.25, 0.6)
    slab = rng.log_uniform(0.03, 0.1)
    round_top = torch.where(rng.chance(0.25), 2.0, _SHARP)
    builder.solid(rng.point(0, 0, 0), torch.stack([x, y, slab], -1), p=round_top, q=_SHARP)
    leg, thick = rng.uniform(0.3, 1.0), rng.log_uniform(0.03, 0.09)
    splay = rng.uniform(-0.05, 0.2)
    central = rng.chance(0.15)
    inset = torch.where(round_top < 3, 0.6, 0.88)
    for sx in (-1.0, 1.0):
        top = rng.point(sx * x * inset, y * inset, 0)
        foot = rng.point(sx * (x * inset + splay), y * inset + splay, -leg)
        builder.pair(top, foot, thick, thick * rng.uniform(0.5, 1.0), valid=~central)
    builder.capsule(rng.point(0, 0, 0), rng.point(0, 0, -leg), thick * 1.5, thick * 1.5, valid=central)
    base = torch.stack([x * 0.6, y * 0.6, slab], -1)
    builder.solid(rng.point(0, 0, -leg), base, p=2.0, q=_SHARP, valid=central)
    chair = rng.chance(0.55)
    back = rng.uniform(0.3, 0.9)
    lean = rng.uniform(0, 0.2)
    builder.solid(
        rng.point(-x, 0, back / 2),
        torch.stack([slab, y, back / 2 + slab], -1),
        p=_SHARP,
        q=_SHARP,
        valid=chair & rng.chance(0.6),
    )
    builder.pair(rng.point(-x * 0.95, y * 0.85, 0), rng.point(-x - lean, y * 0.85, back), thick, thick, valid=chair)
    builder.capsule(
        rng.point(-x - lean, -y * 0.85, back), rng.point(-x - lean, y * 0.85, back), thick, thick, valid=chair
    )
    arm = chair & rng.chance(0.4)
    builder.pair(rng.point(-x, y * 0.9, back / 2), rng.point(x * 0.7, y * 0.95, back / 2), thick, thick, valid=arm)
    builder.pair(rng.point(x * 0.7, y * 0.95, back / 2), rng.point(x * 0.7, y * 0.9, 0), thick, thick, valid=arm)
    rail = rng.chance(0.3) & ~central
    builder.pair(
        rng.point(-x * inset, y * inset, -leg / 2), rng.point(x * inset, y * inset, -leg / 2), thick * 0.7, valid=rail
    )
    return builder.build(rng.log_uniform(0.004, 0.02))


def tool(rng: Rng) -> Field:
    """Pliers, wrenches, spectacles, spanners, keys: long bars, rings at the ends, crossing halves."""
    builder = Builder(rng)
    thick = rng.log_uniform(0.05, 0.12)
    up = rng.point(0, 0, 1)
    opening = rng.uniform(0.1, 0.7)
    crossed = rng.chance(0.5)
    handle, jaw = rng.uniform(0.5, 1.0), rng.uniform(0.2, 0.5)
    pivot = rng.point(0, 0, 0)
    bow = rng.point(0, rng.normal(0.2), 0)
    outward = rng.point(-1.0, opening, 0)
    chain(
        builder,
        pivot,
        outward,
        [handle / 2] * 2,
        [thick, thick * 0.9, thick * 0.8],
        curl=bow,
        pair=True,
        flat=1.3,
        flat_axis=up,
        valid=crossed,
    )
    chain(
        builder,
        pivot,
        rng.point(1.0, opening * 0.6, 0),
        [jaw / 2] * 2,
        [thick, thick, thick * 0.5],
        curl=-bow,
        pair=True,
        flat=1.3,
        valid=crossed,
    )
    straight = ~crossed
    left, right = rng.point(-handle, 0, rng.normal(0.05)), rng.point(handle, rng.normal(0.1), rng.normal(0.05))
    builder.capsule(
        left, right, thick, thick * rng.uniform(0.7, 1.3), flat=rng.uniform(1, 2.5), flat_axis=up, valid=straight
    )
    for end in (left, right):
        size = rng.uniform(0.14, 0.34)
        half = torch.stack([size, size * rng.uniform(0.7, 1.1), thick * rng.uniform(0.5, 1.0)], -1)
        closed = rng.chance(0.65)
        builder.solid(
            end, half, p=2.0, q=4.0, ring=torch.where(closed, thick * rng.uniform(0.5, 0.9), 0.0), valid=straight
        )
        gap = end * (1 + 0.7 * size / handle)[:, None]
        notch = torch.stack([size * 0.7, size * 0.4, thick * 3], -1)
        builder.solid(gap, notch, p=_SHARP, q=_SHARP, negative=True, valid=straight & rng.chance(0.4))
    temples = straight & rng.chance(0.3)
    for end in (left, right):
        builder.capsule(
            end, end + rng.point(0, 0, 1) * rng.uniform(0.5, 1.2, 1), thick * 0.6, thick * 0.5, valid=temples
        )
    return builder.build(rng.log_uniform(0.004, 0.03))


def plate(rng: Rng) -> Field:
    """Thin plates, discs and crosses with holes; bending later turns them into sheets."""
    builder = Builder(rng)
    thin = rng.log_uniform(0.025, 0.1)
    p = torch.where(rng.chance(0.4), 2.0, _SHARP)
    builder.solid(
        rng.point(0, 0, 0), torch.stack([rng.uniform(0.4, 1.0), rng.uniform(0.25, 0.8), thin], -1), p=p, q=_SHARP
    )
    cross = torch.stack([rng.uniform(0.15, 0.3), rng.uniform(0.6, 1.0), thin], -1)
    builder.solid(rng.point(rng.normal(0.2), 0, 0), cross, p=_SHARP, q=_SHARP, valid=rng.chance(0.35))
    count = rng.integers(0, 4)
    for i in range(4):
        bore = torch.stack([rng.uniform(0.06, 0.2), rng.uniform(0.06, 0.2), torch.full_like(thin, 0.5)], -1)
        place = rng.point(rng.normal(0.35), rng.normal(0.25), 0)
        builder.solid(place, bore, p=2.0, q=_SHARP, negative=True, valid=i < count)
    wall = torch.stack([rng.uniform(0.3, 0.6), thin, rng.uniform(0.2, 0.5)], -1)
    builder.solid(rng.point(0, 0, wall[:, 2]), wall, p=_SHARP, q=_SHARP, valid=rng.chance(0.3))
    return builder.build(rng.log_uniform(0.004, 0.02))
