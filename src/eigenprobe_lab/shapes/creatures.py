"""Creatures: capsule skeletons with bilateral symmetry (y = 0 is the mirror plane, x forward, z
up).

Every family is a function that builds `b` shapes from the draws of a `Rng`; proportions, pose and
optional parts are drawn per shape, so a batch of one family still holds `b` different animals.
"""

import torch
from torch import Tensor

from .fields import Builder, Rng, family, tapered, unit


def _legs(
    builder: Builder, hip: Tensor, length: Tensor, thick: Tensor, spread: float, pose: float
) -> None:
    """One pair of legs of three segments and a foot; the two sides are posed independently half of
    the time.
    """
    rng = builder.rng
    shared = rng.chance(0.4)[:, None]
    swing = rng.normal(pose)
    first = rng.point(swing, spread, -1.0)
    knee = rng.normal(0.35)
    split = rng.uniform(0.35, 0.6)
    taper, foot = rng.uniform(0.4, 0.9), rng.log_uniform(0.12, 0.4)
    other = rng.point(rng.normal(pose), spread, -1.0)
    for direction, facing in zip(
        (first, torch.where(shared, first, other)), rng.sides, strict=True
    ):
        upper = unit(direction)
        top = hip * facing
        middle = top + upper * facing * (length * split)[:, None]
        lower = unit(upper - rng.point(knee, 0.5 * spread, 0.0))
        ankle = middle + lower * facing * (length * (1 - split))[:, None]
        toe = ankle + rng.point(foot * length, 0.0, -0.03) * facing
        builder.path([top, middle, ankle], [thick, thick * (0.5 + 0.5 * taper), thick * taper])
        builder.capsule(ankle, toe, thick * taper, thick * taper * 0.9)


def _head(builder: Builder, base: Tensor, direction: Tensor, size: Tensor) -> None:
    """Skull, snout (sometimes a trunk), ears or horns."""
    rng = builder.rng
    direction = unit(direction)
    skull = builder.capsule(
        base, base + direction * (0.8 * size)[:, None], size, size * rng.uniform(0.7, 1.1)
    )
    down = unit(direction + rng.point(0.3, 0.0, -1.0) * rng.uniform(0, 1.0, 1))
    snout = size * rng.uniform(0.3, 0.75)
    tip = builder.capsule(
        skull, skull + down * (size * rng.log_uniform(0.4, 2.0))[:, None], snout, snout * 0.8
    )
    trunk = rng.chance(0.12)
    piece = size * rng.uniform(0.4, 1.2)
    curl = rng.point(rng.uniform(-0.3, 0.4), 0.0, -0.3)
    builder.chain(
        tip, down, [piece] * 4, tapered(snout, 0.7, 0.6, 0.5, 0.45, 0.4), curl=curl, valid=trunk
    )
    ear = rng.chance(0.7)
    side = unit(rng.point(rng.normal(0.3), rng.uniform(0.2, 1.2), rng.uniform(0.2, 1.2)))
    root = base + rng.point(0.0, 0.6, 0.5) * size[:, None]
    flap = size * rng.log_uniform(0.15, 0.6)
    tip = root + side * (size * rng.log_uniform(0.4, 2.2))[:, None]
    end, flat = flap * rng.uniform(0.3, 1.3), rng.log_uniform(1.0, 4.0)
    builder.pair(root, tip, flap, end, flat=flat, flat_axis=rng.point(1.0, 0.3, 0.0), valid=ear)
    horn, reach = rng.chance(0.15), size * rng.uniform(0.4, 0.9)
    radii = tapered(size, 0.22, 0.18, 0.12, 0.06)
    builder.chain(root, side, [reach] * 3, radii, curl=rng.normal(0.4, 3), pair=True, valid=horn)


def wings(
    builder: Builder, root: Tensor, span: Tensor, chord: Tensor, valid: Tensor | bool
) -> None:
    """A pair of flat wings or fins of three pieces."""
    rng = builder.rng
    out = rng.point(rng.normal(0.35), 1.0, rng.normal(0.5))
    bend = rng.point(rng.normal(0.3), 0.0, rng.normal(0.4))
    thin = rng.log_uniform(3.0, 7.0)
    up = rng.point(rng.normal(0.2), rng.normal(0.3), 1.0)
    lengths = tapered(span, 0.4, 0.35, 0.25)
    radii = [chord, chord * rng.uniform(0.7, 1.2), chord * 0.6, chord * rng.uniform(0.15, 0.5)]
    builder.chain(
        root, out, lengths, radii, curl=bend, pair=True, flat=thin, flat_axis=up, valid=valid
    )


@family(3.0, (0.01, 0.06), bump=0.02, frequency=10.0)
def quadruped(builder: Builder, rng: Rng) -> None:
    """Horses, cats, dogs, camels, elephants, lions; sometimes winged, humped or with a human torso
    in front.
    """
    length, girth = rng.uniform(0.7, 1.3), rng.log_uniform(0.13, 0.36)
    arch = rng.normal(0.12)
    rear = rng.point(-length / 2, 0.0, 0.0)
    middle = rng.point(0.0, rng.normal(0.04), arch)
    front = rng.point(length / 2, rng.normal(0.06), rng.normal(0.06))
    builder.capsule(rear, middle, girth * rng.uniform(0.7, 1.1), girth * rng.uniform(0.7, 1.1))
    builder.capsule(middle, front, girth * rng.uniform(0.7, 1.1), girth * rng.uniform(0.8, 1.2))
    hump = middle + rng.point(rng.uniform(-0.2, 0.3), 0.0, girth)
    builder.capsule(
        hump,
        hump + rng.point(0.0, 0.0, 0.4 * girth),
        girth * 0.7,
        girth * 0.4,
        valid=rng.chance(0.12),
    )
    leg, thick = rng.uniform(0.35, 0.95), girth * rng.log_uniform(0.2, 0.6)
    drop = -0.35 * girth
    _legs(builder, rear + rng.point(0.0, 0.5 * girth, drop), leg, thick, 0.1, 0.25)
    _legs(
        builder,
        front + rng.point(-0.05, 0.5 * girth, drop),
        leg * rng.uniform(0.85, 1.15),
        thick,
        0.1,
        0.25,
    )
    neck_direction = rng.point(rng.uniform(0.2, 1.0), rng.normal(0.2), rng.uniform(-0.1, 1.3))
    neck = girth * rng.log_uniform(0.35, 0.8)
    reach = rng.log_uniform(0.15, 0.7)
    human = rng.chance(0.08)
    top = builder.chain(
        front, neck_direction, [reach / 2] * 2, [girth * 0.8, neck, neck * 0.9], wobble=0.15
    )
    _head(
        builder,
        top,
        rng.point(1.0, rng.normal(0.3), rng.uniform(-0.8, 0.3)),
        neck * rng.log_uniform(0.7, 1.5),
    )
    arm = unit(rng.point(rng.normal(0.5), 1.0, rng.normal(0.5)))
    radii = tapered(neck, 0.6, 0.4, 0.3)
    builder.chain(top, arm, [reach * 0.8] * 2, radii, wobble=0.4, pair=True, valid=human)
    tail = rng.log_uniform(0.05, 0.35)
    direction = rng.point(-1.0, rng.normal(0.3), rng.normal(0.6))
    root = girth * rng.log_uniform(0.12, 0.45)
    curl, radii = rng.normal(0.25, 3), tapered(root, 1.0, 0.9, 0.8, 0.65, 0.5)
    builder.chain(rear, direction, [tail] * 4, radii, curl=curl, valid=rng.chance(0.85))
    wings(
        builder,
        middle + rng.point(0.15, 0.5 * girth, 0.5 * girth),
        rng.uniform(0.5, 1.2),
        girth,
        rng.chance(0.1),
    )


@family(3.0, (0.008, 0.04), bump=0.012, frequency=14.0)
def biped(builder: Builder, rng: Rng) -> None:
    """Humans, teddies, armadillos, penguins: torso, head, arms with hands, legs, sometimes a
    tail.
    """
    plump = rng.log_uniform(0.7, 2.2)
    pelvis, chest = (
        rng.point(0.0, 0.0, 0.0),
        rng.point(rng.normal(0.08), rng.normal(0.06), rng.uniform(0.4, 0.65)),
    )
    waist = 0.5 * (pelvis + chest) + rng.normal(0.03, 3)
    wide = 0.14 * plump
    hips, loins = pelvis + rng.point(0.0, 0.06, 0.0), waist + rng.point(0.0, 0.04, 0.0)
    builder.pair(hips, loins, wide, wide * rng.uniform(0.7, 1.2))
    shoulder = rng.uniform(0.05, 0.16) * plump.sqrt()
    lower, upper = wide * rng.uniform(0.7, 1.1), wide * rng.uniform(0.6, 1.0)
    builder.pair(waist, chest + rng.point(0.0, shoulder, 0.0), lower, upper)
    neck = chest + rng.point(rng.normal(0.03), 0.0, rng.uniform(0.1, 0.25) + 0.5 * wide)
    builder.capsule(chest, neck, 0.06 * plump, 0.06 * plump)
    head = rng.log_uniform(0.09, 0.22)
    crown = neck + rng.point(rng.normal(0.03), rng.normal(0.03), 0.0) + rng.point(0.0, 0.0, head)
    builder.capsule(neck, crown, head * 0.8, head)
    nose = crown + rng.point(head * rng.uniform(0.9, 1.6), 0.0, -0.2 * head)
    builder.capsule(crown, nose, head * 0.5, head * 0.3, valid=rng.chance(0.4))
    ear = crown + rng.point(0.0, head * 0.9, head * 0.3)
    tip = ear + rng.point(0.0, 0.5, 1.0) * (head * rng.uniform(0.2, 1.6))[:, None]
    front = rng.point(1.0, 0.0, 0.0)
    builder.pair(
        ear, tip, head * 0.35, head * 0.25, flat=2.0, flat_axis=front, valid=rng.chance(0.35)
    )
    _limbs(builder, pelvis, chest, wide, shoulder, plump)
    tail = rng.log_uniform(0.08, 0.25)
    curl, radii = rng.normal(0.2, 3), tapered(wide, 0.7, 0.5, 0.35, 0.2)
    builder.chain(
        pelvis, rng.point(-1.0, 0.0, -0.4), [tail] * 3, radii, curl=curl, valid=rng.chance(0.2)
    )


def _limbs(
    builder: Builder, pelvis: Tensor, chest: Tensor, wide: Tensor, shoulder: Tensor, plump: Tensor
) -> None:
    """Two arms with hands and two legs with feet; half of the time both sides are posed alike."""
    rng = builder.rng
    arm, thick = rng.uniform(0.35, 0.75), rng.log_uniform(0.035, 0.08) * plump
    leg, thigh = rng.log_uniform(0.2, 1.0), rng.log_uniform(0.055, 0.11) * plump
    hand, foot = rng.uniform(0.7, 1.6), rng.uniform(0.08, 0.25)
    symmetric = rng.chance(0.5)[:, None]
    fingers = rng.chance(0.35)
    pose = unit(rng.point(rng.normal(0.4), 1.0, rng.normal(0.8)))
    bend, stride, knee = (
        rng.normal(0.5, 3),
        rng.point(rng.normal(0.3), rng.uniform(0, 0.35), -1.0),
        rng.normal(0.3),
    )
    for mirrored, facing in enumerate(rng.sides):
        if mirrored:
            pose = torch.where(symmetric, pose, unit(pose + rng.normal(0.6, 3)))
            bend = torch.where(symmetric, bend, rng.normal(0.5, 3))
            stride = torch.where(
                symmetric, stride, rng.point(rng.normal(0.35), rng.uniform(0, 0.35), -1.0)
            )
        start = chest + rng.point(0.0, shoulder + 0.6 * wide, 0.0) * facing
        elbow = start + pose * facing * (0.5 * arm)[:, None]
        fore = unit(pose + bend) * facing
        wrist = elbow + fore * (0.45 * arm)[:, None]
        builder.path([start, elbow, wrist], tapered(thick, 1.0, 0.85, 0.65))
        palm = wrist + fore * 0.08 * hand[:, None]
        builder.capsule(wrist, palm, thick * 0.7 * hand, flat=1.8, flat_axis=rng.direction())
        for _ in range(3):
            ray = unit(fore + rng.normal(0.45, 3))
            builder.capsule(
                palm, palm + ray * 0.1 * hand[:, None], thick * 0.4, thick * 0.25, valid=fingers
            )
        hip = pelvis + rng.point(0.0, 0.7 * wide + 0.03, -0.3 * wide) * facing
        down = unit(stride) * facing
        joint = hip + down * (0.5 * leg)[:, None]
        ankle = joint + unit(down - rng.point(knee.abs(), 0.0, 0.0)) * (0.5 * leg)[:, None]
        builder.path([hip, joint, ankle], tapered(thigh, 1.0, 0.75, 0.5))
        builder.capsule(
            ankle, ankle + rng.point(foot, 0.03, -0.02) * facing, thigh * 0.5, thigh * 0.45
        )


@family(1.0, (0.01, 0.04), bump=0.01, frequency=12.0)
def hand(builder: Builder, rng: Rng) -> None:
    """A palm, five (sometimes fewer) fingers of three joints, a wrist."""
    up = rng.point(0.0, 0.0, 1.0)
    for y in (-0.18, -0.06, 0.06, 0.18):
        builder.capsule(
            rng.point(-0.35, 0.7 * y, 0.0),
            rng.point(0.3, y, 0.0),
            0.13,
            0.11,
            flat=1.4,
            flat_axis=up,
        )
    thick = rng.log_uniform(0.05, 0.1)
    flexion = rng.uniform(-0.1, 0.6)
    for i, y in enumerate((-0.24, -0.08, 0.08, 0.24)):
        direction = rng.point(1.0, y * rng.uniform(0, 2.5), rng.normal(0.15))
        piece = rng.uniform(0.15, 0.32) * (1.0 if i in (1, 2) else 0.85)
        curl = rng.point(0.0, 0.0, -(flexion + rng.normal(0.2)).clamp(-0.15, 0.9))
        radii = tapered(thick, 1.05, 1.0, 0.9, 0.75)
        builder.chain(
            rng.point(0.32, y, 0.0), direction, [piece, piece * 0.8, piece * 0.6], radii, curl=curl
        )
    direction = rng.point(0.5, -1.0, rng.normal(0.4))
    piece = rng.uniform(0.18, 0.28)
    radii = tapered(thick, 1.4, 1.1, 0.8)
    builder.chain(
        rng.point(-0.15, -0.2, 0.0), direction, [piece * 1.2, piece], radii, curl=rng.normal(0.2, 3)
    )
    wrist = rng.point(-rng.uniform(0.5, 1.2), 0.0, rng.normal(0.15))
    builder.capsule(rng.point(-0.3, 0.0, 0.0), wrist, 0.17, rng.uniform(0.12, 0.22), flat=1.2)


@family(1.0, (0.006, 0.025), bump=0.008, frequency=14.0)
def crawler(builder: Builder, rng: Rng) -> None:
    """Ants, spiders, scorpions, crabs: a segmented body, several pairs of legs, claws, a curled
    tail.
    """
    x = rng.uniform(-0.5, -0.3)
    previous = rng.point(x, 0.0, 0.0)
    radius = rng.log_uniform(0.1, 0.3)
    for _ in range(3):
        nxt = previous + rng.point(rng.uniform(0.15, 0.4), 0.0, rng.normal(0.04))
        wide = rng.log_uniform(0.09, 0.26)
        previous = builder.capsule(previous, nxt, radius, wide, flat=rng.uniform(1.0, 1.8))
        radius = wide
    length, thick = rng.uniform(0.25, 0.6), rng.log_uniform(0.018, 0.05)
    rise = rng.uniform(-0.2, 1.2)
    for i in range(4):
        root = rng.point(-0.15 + 0.13 * i, 0.1, 0.0)
        out = rng.point(-0.7 + 0.45 * i + rng.normal(0.15), 1.0, rise)
        lengths, radii = [length, length * 0.9, length * 0.5], tapered(thick, 1.1, 1.0, 0.8, 0.5)
        valid = True if i < 3 else rng.chance(0.6)
        builder.chain(
            root,
            out,
            lengths,
            radii,
            curl=rng.point(0, 0, -0.9 * (rise + 0.4)),
            pair=True,
            valid=valid,
        )
    claw = rng.chance(0.45)
    direction, curl = rng.point(1.0, 0.8, 0.1), rng.point(0.2, -0.25, 0.0)
    fat = tapered(thick, 1.0, 1.2, 2.6, 0.8)
    builder.chain(previous, direction, [length * 0.6] * 3, fat, curl=curl, pair=True, valid=claw)
    feeler, thread = rng.point(1.0, 0.5, rng.normal(0.5)), [thick * 0.7] * 3
    builder.chain(
        previous, feeler, [length * 0.5] * 2, thread, wobble=0.3, pair=True, valid=rng.chance(0.4)
    )
    tail = rng.chance(0.4)
    back, curl = rng.point(-1, 0, 0.3), rng.point(0.3, 0, 0.4)
    radii = tapered(thick, 2.5, 2.2, 2.0, 1.8, 1.5, 0.8)
    builder.chain(
        rng.point(x, 0.0, 0.0), back, [rng.uniform(0.14, 0.25)] * 5, radii, curl=curl, valid=tail
    )


@family(0.7, (0.01, 0.05), bump=0.01)
def octopus(builder: Builder, rng: Rng) -> None:
    """A head and five to eight wavy tentacles around it (also starfish, squids, trees turned
    over).
    """
    size = rng.log_uniform(0.12, 0.3)
    crown = rng.point(rng.normal(0.1), rng.normal(0.1), rng.uniform(0.0, 0.7))
    builder.capsule(rng.point(0.0, 0.0, 0.0), crown, size, size * 1.2)
    count = rng.integers(5, 8)
    piece, drop = rng.uniform(0.14, 0.3), rng.normal(0.4)
    thick = size * rng.log_uniform(0.2, 0.5)
    for i in range(8):
        angle = 2 * torch.pi * (i + rng.normal(0.12)) / count
        direction = rng.point(angle.cos(), angle.sin(), drop)
        radii, curl = tapered(thick, 1.2, 1.0, 0.85, 0.7, 0.5, 0.35), rng.normal(0.25, 3)
        builder.chain(
            rng.point(0, 0, 0),
            direction,
            [piece] * 5,
            radii,
            wobble=0.25,
            curl=curl,
            valid=i < count,
        )
