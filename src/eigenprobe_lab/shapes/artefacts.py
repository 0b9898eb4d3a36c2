"""Made things: machined parts with holes, vases and cups, furniture, tools, plates, folded sheets.

Every family is a function that builds `b` shapes from the draws of a `Rng`.
"""

import math

import torch
from torch import Tensor

from .fields import Builder, Rng, family, tapered

SHARP = 8.0
RINGS, PLATES = 10, 14  # of a vessel, at most of a sheet
BOX, CYLINDER = (SHARP, SHARP), (2.0, SHARP)  # exponents of superquadrics


def _axis_frame(rng: Rng) -> Tensor:
    """One of the three axis permutations, as rotations: machined parts are mostly axis-aligned."""
    eye = torch.eye(3, device=rng.device)
    choices = torch.stack([eye, eye[[1, 2, 0]], eye[[2, 0, 1]]])
    return choices[rng.integers(0, 2)]


@family(1.5, (0.004, 0.04))
def machined(builder: Builder, rng: Rng) -> None:
    """Blocks, cylinders, discs and rings joined and drilled through: bearings, brackets, rocker
    arms.
    """
    centre = rng.point(0.0, 0.0, 0.0)
    count = rng.integers(1, 4)
    places: list[Tensor] = []
    for i in range(4):
        half = rng.point(
            rng.log_uniform(0.15, 0.6), rng.log_uniform(0.15, 0.5), rng.log_uniform(0.06, 0.4)
        )
        cylinder, ring = rng.chance(0.5), rng.chance(0.25)
        half = torch.where(cylinder[:, None], half[:, [0, 0, 2]], half)
        p = torch.where(cylinder, 2.0, SHARP)
        width = torch.where(ring, half[:, 0] * rng.uniform(0.2, 0.6), 0.0)
        rotation = _axis_frame(rng)
        valid = i < count
        builder.solid(centre, half, (p, SHARP), rotation=rotation, ring=width, valid=valid)
        wide = rng.uniform(0.3, 0.7)
        bore = half * rng.point(wide, wide, 3.0)
        round_bore = torch.where(rng.chance(0.7), 2.0, SHARP)
        drilled = valid & ~ring & rng.chance(0.55)
        builder.solid(
            centre, bore, (round_bore, SHARP), rotation=rotation, negative=True, valid=drilled
        )
        places.append(centre)
        axis = torch.eye(3, device=rng.device)[rng.integers(0, 2)] * torch.where(
            rng.chance(0.5, 1), 1.0, -1.0
        )
        centre = centre + axis * half.amax(-1, keepdim=True) * rng.uniform(0.8, 1.3, 1)
    for i in range(1, 4):
        thick, flat = rng.uniform(0.06, 0.18), rng.uniform(1, 2)
        builder.capsule(
            places[i - 1], places[i], thick, flat=flat, valid=(i < count) & rng.chance(0.5)
        )
    slot = rng.point(0.0, 0.0, 0.0) + rng.normal(0.2, 3)
    half = rng.point(rng.uniform(0.05, 0.12), rng.uniform(0.05, 0.12), rng.uniform(1.0, 1.5))
    builder.solid(
        slot, half, CYLINDER, rotation=_axis_frame(rng), negative=True, valid=rng.chance(0.4)
    )


@family(0.7, (0.02, 0.08), bump=0.05)
def pierced(builder: Builder, rng: Rng) -> None:
    """A blob or block with up to five tunnels through it: genus by drilling."""
    half = rng.uniform(0.35, 0.8, 3)
    exponent = torch.where(rng.chance(0.5), 2.0, 5.0)
    builder.solid(rng.point(0, 0, 0), half, (exponent, exponent))
    count = rng.integers(1, 5)
    for i in range(5):
        bore = rng.log_uniform(0.08, 0.22)
        place, size = rng.normal(0.28, 3), rng.point(bore, bore, 2.5)
        builder.solid(
            place, size, CYLINDER, rotation=rng.rotation(), negative=True, valid=i < count
        )


@family(1.2, (0.006, 0.03), bump=0.01)
def vessel(builder: Builder, rng: Rng) -> None:
    """Vases, cups, glasses, bottles: the shell or the solid of a random profile, with handles and
    spouts.
    """
    t = torch.linspace(0, 1, RINGS + 1, device=rng.device)
    k = torch.arange(1, 4, device=rng.device)[:, None]
    wave = (
        rng.normal(0.35, 3, 1) / k * torch.sin(math.pi * k * t + rng.uniform(0, 6.3, 3, 1))
    ).sum(1)
    radius = rng.uniform(0.2, 0.5, 1) * wave.exp()  # (b, RINGS + 1)
    height = rng.uniform(0.5, 1.6, 1) * t
    wall = rng.log_uniform(0.02, 0.06)
    solid = rng.chance(0.35)
    profile = [rng.point(radius[:, i], 0, height[:, i]) for i in range(RINGS + 1)]
    axis = [rng.point(0, 0, height[:, i]) for i in range(RINGS + 1)]
    for i in range(RINGS):
        builder.capsule(profile[i], profile[i + 1], wall, revolved=True, valid=~solid)
        builder.capsule(axis[i], axis[i + 1], radius[:, i], radius[:, i + 1], valid=solid)
    builder.capsule(axis[0], profile[0], wall, revolved=True, valid=~solid)
    handle = rng.chance(0.55)
    twice = handle & rng.chance(0.3)
    first, last = 2, RINGS - 3
    top, bottom = profile[last], profile[first]
    out = rng.point(rng.uniform(0.1, 0.35), 0, 0)
    thick = rng.log_uniform(0.03, 0.08)
    for sign, valid in ((1.0, handle), (-1.0, twice)):
        corners = (top, top * 0.7 + bottom * 0.3 + out, top * 0.3 + bottom * 0.7 + out, bottom)
        facing = torch.tensor([sign, 1.0, 1.0], device=rng.device)
        builder.path([corner * facing for corner in corners], [thick] * 4, valid=valid)
    spout = rng.chance(0.2)
    start, up, rise = (
        rng.point(0, radius[:, first], height[:, first]),
        rng.point(0, 1, 0.8),
        rng.point(0, 0, 0.3),
    )
    lengths, radii = [rng.uniform(0.1, 0.25)] * 2, tapered(thick, 1.5, 1.2, 1.0)
    builder.chain(start, up, lengths, radii, curl=rise, valid=spout)


@family(0.8, (0.004, 0.02))
def furniture(builder: Builder, rng: Rng) -> None:
    """Tables, chairs, benches: a slab, legs, sometimes a back, rails and arms."""
    x, y = rng.uniform(0.3, 0.7), rng.uniform(0.25, 0.6)
    slab = rng.log_uniform(0.03, 0.1)
    round_top = torch.where(rng.chance(0.25), 2.0, SHARP)
    builder.solid(rng.point(0, 0, 0), rng.point(x, y, slab), (round_top, SHARP))
    leg, thick = rng.uniform(0.3, 1.0), rng.log_uniform(0.03, 0.09)
    splay = rng.uniform(-0.05, 0.2)
    central = rng.chance(0.15)
    inset = torch.where(round_top < 3, 0.6, 0.88)
    for sx in (-1.0, 1.0):
        top = rng.point(sx * x * inset, y * inset, 0)
        foot = rng.point(sx * (x * inset + splay), y * inset + splay, -leg)
        builder.pair(top, foot, thick, thick * rng.uniform(0.5, 1.0), valid=~central)
    builder.capsule(rng.point(0, 0, 0), rng.point(0, 0, -leg), thick * 1.5, valid=central)
    builder.solid(rng.point(0, 0, -leg), rng.point(x * 0.6, y * 0.6, slab), CYLINDER, valid=central)
    chair = rng.chance(0.55)
    back = rng.uniform(0.3, 0.9)
    lean = rng.uniform(0, 0.2)
    board = rng.point(slab, y, back / 2 + slab)
    builder.solid(rng.point(-x, 0, back / 2), board, BOX, valid=chair & rng.chance(0.6))
    post = rng.point(-x - lean, y * 0.85, back)
    builder.pair(rng.point(-x * 0.95, y * 0.85, 0), post, thick, valid=chair)
    builder.capsule(rng.point(-x - lean, -y * 0.85, back), post, thick, valid=chair)
    arm = chair & rng.chance(0.4)
    rest = rng.point(x * 0.7, y * 0.95, back / 2)
    builder.pair(rng.point(-x, y * 0.9, back / 2), rest, thick, valid=arm)
    builder.pair(rest, rng.point(x * 0.7, y * 0.9, 0), thick, valid=arm)
    rail = rng.chance(0.3) & ~central
    left, right = (rng.point(sx * x * inset, y * inset, -leg / 2) for sx in (-1.0, 1.0))
    builder.pair(left, right, thick * 0.7, valid=rail)


@family(0.8, (0.004, 0.03))
def tool(builder: Builder, rng: Rng) -> None:
    """Pliers, wrenches, spectacles, spanners, keys: long bars, rings at the ends, crossing
    halves.
    """
    thick = rng.log_uniform(0.05, 0.12)
    up = rng.point(0, 0, 1)
    opening = rng.uniform(0.1, 0.7)
    crossed = rng.chance(0.5)
    handle, jaw = rng.uniform(0.5, 1.0), rng.uniform(0.2, 0.5)
    bow = rng.point(0, rng.normal(0.2), 0)
    for reach, direction, radii, curl in (
        (handle, rng.point(-1.0, opening, 0), tapered(thick, 1.0, 0.9, 0.8), bow),
        (jaw, rng.point(1.0, opening * 0.6, 0), tapered(thick, 1.0, 1.0, 0.5), -bow),
    ):
        lengths, start = [reach / 2] * 2, rng.point(0, 0, 0)
        builder.chain(
            start,
            direction,
            lengths,
            radii,
            curl=curl,
            pair=True,
            flat=1.3,
            flat_axis=up,
            valid=crossed,
        )
    straight = ~crossed
    left, right = (
        rng.point(-handle, 0, rng.normal(0.05)),
        rng.point(handle, rng.normal(0.1), rng.normal(0.05)),
    )
    tip, flat = thick * rng.uniform(0.7, 1.3), rng.uniform(1, 2.5)
    builder.capsule(left, right, thick, tip, flat=flat, flat_axis=up, valid=straight)
    for end in (left, right):
        size = rng.uniform(0.14, 0.34)
        half = rng.point(size, size * rng.uniform(0.7, 1.1), thick * rng.uniform(0.5, 1.0))
        closed = rng.chance(0.65)
        ring = torch.where(closed, thick * rng.uniform(0.5, 0.9), 0.0)
        builder.solid(end, half, (2.0, 4.0), ring=ring, valid=straight)
        gap = end * (1 + 0.7 * size / handle)[:, None]
        notch = rng.point(size * 0.7, size * 0.4, thick * 3)
        builder.solid(gap, notch, BOX, negative=True, valid=straight & rng.chance(0.4))
    temples = straight & rng.chance(0.3)
    for end in (left, right):
        builder.capsule(
            end, end + up * rng.uniform(0.5, 1.2, 1), thick * 0.6, thick * 0.5, valid=temples
        )


@family(0.8, (0.004, 0.02))
def plate(builder: Builder, rng: Rng) -> None:
    """Thin plates, discs and crosses with holes; bending later turns them into sheets."""
    thin = rng.log_uniform(0.025, 0.1)
    p = torch.where(rng.chance(0.4), 2.0, SHARP)
    sheet = rng.point(rng.uniform(0.4, 1.0), rng.uniform(0.25, 0.8), thin)
    builder.solid(rng.point(0, 0, 0), sheet, (p, SHARP))
    cross = rng.point(rng.uniform(0.15, 0.3), rng.uniform(0.6, 1.0), thin)
    builder.solid(rng.point(rng.normal(0.2), 0, 0), cross, BOX, valid=rng.chance(0.35))
    count = rng.integers(0, 4)
    for i in range(4):
        bore = rng.point(rng.uniform(0.06, 0.2), rng.uniform(0.06, 0.2), 0.5)
        place = rng.point(rng.normal(0.35), rng.normal(0.25), 0)
        builder.solid(place, bore, CYLINDER, negative=True, valid=i < count)
    wall = rng.point(rng.uniform(0.3, 0.6), thin, rng.uniform(0.2, 0.5))
    builder.solid(rng.point(0, 0, wall[:, 2]), wall, BOX, valid=rng.chance(0.3))


@family(1.0, (0.003, 0.012))
def sheet(builder: Builder, rng: Rng) -> None:
    """Rolls, folded cloth and brackets: a strip of thin plates that turns at every joint, or by
    right angles at few.
    """
    thin, piece, count = (
        rng.log_uniform(0.012, 0.06),
        rng.uniform(0.1, 0.2),
        rng.integers(4, PLATES),
    )
    bracket, roll, wave = rng.chance(0.5), rng.normal(0.25), rng.normal(0.7)
    point, angle, side = rng.point(0, 0, 0), rng.each(0.0), rng.point(0, 1, 0)
    for i in range(PLATES):
        corner = math.pi / 2 * torch.where(rng.chance(0.3), rng.uniform(-1, 1).sign(), 0.0)
        angle = angle + torch.where(bracket, corner, roll + wave * math.sin(0.9 * i))
        along, up = rng.point(angle.cos(), 0, angle.sin()), rng.point(-angle.sin(), 0, angle.cos())
        middle, turn = point + 0.5 * piece[:, None] * along, torch.stack([along, side, up], 1)
        half = rng.point(0.5 * piece + thin, rng.uniform(0.25, 0.5), thin)
        builder.solid(middle, half, BOX, rotation=turn, valid=i < count)
        bore, holed = (
            rng.point(0.4 * piece, rng.uniform(0.04, 0.15), 0.1),
            bracket & rng.chance(0.2),
        )
        builder.solid(
            middle, bore, CYLINDER, rotation=turn, negative=True, valid=holed & (i < count)
        )
        point = point + piece[:, None] * along
