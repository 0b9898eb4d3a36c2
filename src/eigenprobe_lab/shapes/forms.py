"""Free forms: fish and planes, heads, blobs, random trees with and without loops, knots and frames
of high genus.
"""

import math

import torch
from torch import Tensor

from .creatures import wings
from .fields import Builder, Rng, family, tapered, unit

SAMPLES = 56  # of the curve that a tube follows
_POLYHEDRA: dict[str, tuple[list[tuple[float, float, float]], float | None]] = {
    "tetrahedron": ([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)], None),
    "cube": ([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], 2.01),
    "octahedron": (
        [(1.4, 0, 0), (-1.4, 0, 0), (0, 1.4, 0), (0, -1.4, 0), (0, 0, 1.4), (0, 0, -1.4)],
        2.1,
    ),
}


@family(1.3, (0.008, 0.04), bump=0.008)
def swimmer(builder: Builder, rng: Rng) -> None:
    """Fish, dolphins, birds and aeroplanes: a spindle, flat wings or fins, a tail."""
    length, girth = rng.uniform(0.8, 1.4), rng.log_uniform(0.07, 0.3)
    ranges = ((0.25, 0.7), (0.8, 1.1), (0.8, 1.1), (0.4, 0.8), (0.15, 0.4))
    radii = [girth * profile for profile in [rng.uniform(low, high) for low, high in ranges]]
    start = rng.point(length / 2, 0.0, 0.0)
    curl, squash = rng.point(0.0, rng.normal(0.08), rng.normal(0.05)), rng.log_uniform(1.0, 2.2)
    side = rng.point(0.0, 1.0, 0.0)
    backward, lengths = rng.point(-1, 0, 0), [length / 4] * 4
    end = builder.chain(start, backward, lengths, radii, curl=curl, flat=squash, flat_axis=side)
    plane = rng.chance(0.5)
    root = rng.point(rng.uniform(-0.1, 0.25), 0.3 * girth, 0.0)
    wings(builder, root, rng.uniform(0.3, 1.1), girth * rng.uniform(0.4, 1.0), True)
    root = rng.point(-0.35 * length, 0.2 * girth, 0.0)
    wings(builder, root, rng.uniform(0.15, 0.4), girth * rng.uniform(0.25, 0.6), plane)
    fin = rng.uniform(0.15, 0.4)
    up = rng.point(-0.6, 0.0, 1.0)
    for sign, valid in ((1.0, True), (-1.0, ~plane)):
        direction = up * rng.point(1.0, 1.0, sign)
        tip = end + direction * fin[:, None]
        builder.capsule(end, tip, girth * 0.4, girth * 0.25, flat=4.0, flat_axis=side, valid=valid)
    back = rng.point(rng.uniform(-0.1, 0.1), 0.0, 0.6 * girth)
    tip, upright = back + up * (0.5 * fin)[:, None], rng.chance(0.5)
    builder.capsule(back, tip, girth * 0.5, girth * 0.2, flat=4.0, flat_axis=side, valid=upright)
    engine = rng.point(0.1, rng.uniform(0.2, 0.4), -0.05)
    builder.pair(engine, engine + rng.point(0.2, 0, 0), 0.05, 0.06, valid=plane & rng.chance(0.3))


@family(1.2, (0.015, 0.06), bump=0.05, frequency=11.0)
def bust(builder: Builder, rng: Rng) -> None:
    """Heads and busts: skull, jaw, nose, ears, neck, shoulders, hair as bumps."""
    half = rng.point(rng.uniform(0.35, 0.5), rng.uniform(0.3, 0.42), rng.uniform(0.42, 0.6))
    builder.solid(rng.point(0.0, 0.0, 0.45), half)
    jaw = rng.point(rng.uniform(0.1, 0.35), 0.0, rng.uniform(-0.05, 0.15))
    builder.capsule(rng.point(0.0, 0.0, 0.3), jaw, 0.28, rng.uniform(0.12, 0.25))
    nose = rng.point(rng.uniform(0.35, 0.55), 0.0, rng.uniform(0.25, 0.4))
    builder.capsule(rng.point(0.3, 0.0, 0.5), nose, 0.08, rng.uniform(0.06, 0.12))
    ear = rng.point(rng.uniform(-0.1, 0.1), half[:, 1] * 0.95, 0.4)
    tip = ear + rng.point(rng.normal(0.1), rng.uniform(0.05, 0.2), rng.log_uniform(0.05, 0.5))
    builder.pair(
        ear, tip, 0.11, 0.07, flat=2.5, flat_axis=rng.point(0.3, 1.0, 0.0), valid=rng.chance(0.7)
    )
    base = rng.point(rng.normal(0.1), 0.0, -rng.uniform(0.25, 0.7))
    neck = rng.uniform(0.15, 0.28)
    builder.capsule(rng.point(-0.05, 0.0, 0.1), base, neck, neck * 1.1)
    shoulder = base + rng.point(0.0, rng.uniform(0.2, 0.55), -rng.uniform(0.05, 0.2))
    builder.pair(base, shoulder, neck * 1.1, neck * rng.uniform(0.7, 1.2), valid=rng.chance(0.6))
    knot = rng.point(-rng.uniform(0.3, 0.5), rng.normal(0.1), rng.uniform(0.4, 0.9))
    builder.capsule(
        knot, knot + rng.normal(0.15, 3), 0.16, rng.uniform(0.08, 0.2), valid=rng.chance(0.5)
    )
    stand = base - rng.point(0.0, 0.0, 0.3)
    half = rng.point(rng.uniform(0.2, 0.5), rng.uniform(0.2, 0.5), rng.uniform(0.1, 0.2))
    builder.solid(stand, half, (8.0, 8.0), valid=rng.chance(0.25))


@family(1.2, (0.01, 0.1), bump=0.1, frequency=7.0)
def blob(builder: Builder, rng: Rng) -> None:
    """Two to seven ellipsoids and superquadrics in a chain of overlaps, bumpy."""
    centre = rng.point(0.0, 0.0, 0.0)
    count = rng.integers(1, 7)
    for i in range(7):
        half = rng.log_uniform(0.15, 0.6, 3)
        box = rng.chance(0.25)
        p, q = torch.where(box, 6.0, 2.0), torch.where(rng.chance(0.25), 6.0, 2.0)
        builder.solid(centre, half, (p, q), rotation=rng.rotation(), valid=i < count)
        step = rng.direction() * half.mean(-1, keepdim=True) * rng.uniform(0.5, 1.2, 1)
        restart = rng.chance(0.4)[:, None]
        centre = torch.where(restart, step, centre + step)


@family(2.0, (0.01, 0.06), bump=0.02)
def tree(builder: Builder, rng: Rng) -> None:
    """Random trees of branches, mirrored half of the time, closed to loops now and then (genus
    above 0).
    """
    core = rng.log_uniform(0.06, 0.3)
    ends = [rng.point(0.0, 0.0, 0.0)]
    direction, radii = rng.direction(), tapered(core, 1.0, 0.9, 0.8)
    spine = builder.chain(ends[0], direction, [rng.uniform(0.1, 0.5)] * 2, radii, wobble=0.4)
    ends.append(spine)
    count = rng.integers(2, 7)
    mirrored = rng.chance(0.6)
    for i in range(7):
        pick = rng.integers(0, len(ends) - 1)[:, None, None].expand(-1, 1, 3)
        start = torch.stack(ends, 1).gather(1, pick)[:, 0]
        direction, piece = rng.direction(), rng.log_uniform(0.1, 0.4)
        root = core * rng.log_uniform(0.25, 0.9)
        curl = rng.normal(0.25, 3)
        flat = torch.where(rng.chance(0.2), 3.0, 1.0)
        taper = rng.uniform(0.4, 1.2)
        state = rng.generator.get_state()
        for side, (facing, valid) in enumerate(
            zip(rng.sides, (i < count, (i < count) & mirrored), strict=True)
        ):
            rng.generator.set_state(state)
            point, walk, radius = start * facing, direction, root
            for _ in range(3):
                walk = unit(walk + curl + rng.normal(0.2, 3))
                nxt = point + walk * facing * piece[:, None]
                shrunk = radius * (0.6 + 0.4 * taper)
                point = builder.capsule(
                    point, nxt, radius, shrunk, flat=flat, flat_axis=rng.direction(), valid=valid
                )
                radius = shrunk
            if side == 0:
                ends.append(torch.where((i < count)[:, None], point, start))
        builder.capsule(point, spine, root * 0.6, root * 0.6, valid=(i < count) & rng.chance(0.12))


def closed_curve(rng: Rng, samples: int) -> Tensor:
    """Closed curves `(b, samples, 3)`: torus knots, Lissajous knots, random Fourier loops, plain
    rings.
    """
    t = torch.linspace(0, 2 * math.pi, samples + 1, device=rng.device)[:-1].expand(rng.b, -1)
    p = rng.integers(1, 4, 1).float()
    q = rng.integers(1, 5, 1).float()
    minor = rng.uniform(0.2, 0.5, 1)
    orbit = 1 + minor * (q * t).cos()
    knot = torch.stack([orbit * (p * t).cos(), orbit * (p * t).sin(), minor * (q * t).sin()], -1)
    frequency, phase = rng.integers(1, 4, 3).float(), rng.uniform(0, 2 * math.pi, 3)
    lissajous = torch.cos(t[..., None] * frequency[:, None] + phase[:, None])
    order = torch.arange(1, 5, device=rng.device)
    amplitude = rng.normal(1.0, 4, 2, 3) / order[None, :, None, None] ** 1.2
    waves = torch.stack(
        [(t[..., None] * order).cos(), (t[..., None] * order).sin()], -1
    )  # (b, s, 4, 2)
    fourier = torch.einsum("bsow,bowd->bsd", waves, amplitude)
    kind = rng.integers(0, 2)[:, None, None]
    curve = torch.where(kind == 0, knot, torch.where(kind == 1, lissajous, fourier))
    return curve / curve.square().sum(-1).amax(-1).sqrt()[:, None, None]


@family(1.0, 0.004, bump=0.01, frequency=9.0)
def tube(builder: Builder, rng: Rng) -> None:
    """Tubes of varying width along closed curves and (open) snakes and springs."""
    curve = closed_curve(rng, SAMPLES)
    t = torch.linspace(0, 1, SAMPLES, device=rng.device)
    turns, other, pitch = rng.uniform(2, 9, 1), rng.uniform(2, 9, 1), rng.uniform(0.5, 2.0, 1)
    spring = torch.stack(
        [0.5 * (turns * t * 2).cos(), 0.5 * (other * t * 2).sin(), (t - 0.5) * pitch], -1
    )
    snake = 0.06 * unit(
        rng.normal(1.0, 1, 3) + torch.cumsum(rng.normal(0.35, SAMPLES, 3), 1)
    ).cumsum(1)
    is_open = rng.chance(0.3)
    line = torch.where(rng.chance(0.5)[:, None, None], spring, snake)
    curve = torch.where(is_open[:, None, None], line, curve)
    base = rng.log_uniform(0.035, 0.2)[:, None]
    swing, waves, phase = rng.uniform(0, 0.5, 1), rng.integers(1, 3, 1), rng.uniform(0, 6.3, 1)
    width = base * (1 + swing * torch.sin(2 * math.pi * t * waves + phase))
    for i in range(SAMPLES):
        j = (i + 1) % SAMPLES
        closing = ~is_open if j == 0 else True
        builder.capsule(curve[:, i], curve[:, j], width[:, i], width[:, j], valid=closing)


@family(0.7, (0.01, 0.05), bump=0.03)
def frame(builder: Builder, rng: Rng) -> None:
    """Wire frames of polyhedra with thick struts, bent and with struts missing: genus 1 to about
    10.
    """
    name = list(_POLYHEDRA)[int(torch.randint(3, (1,), generator=rng.generator, device=rng.device))]
    corners, reach = _POLYHEDRA[name]
    points = torch.tensor(corners, dtype=torch.float32, device=rng.device) * 0.5 + rng.normal(
        0.12, len(corners), 3
    )
    thick = rng.log_uniform(0.05, 0.2)
    for i, a in enumerate(corners):
        for j, b in enumerate(corners[:i]):
            if reach is None or math.dist(a, b) < reach:
                middle = 0.5 * (points[:, i] + points[:, j]) * rng.uniform(0.9, 1.3, 1)
                kept = rng.chance(0.85)
                width = thick * rng.uniform(0.7, 1.2)
                builder.capsule(points[:, i], middle, thick, width, valid=kept)
                builder.capsule(middle, points[:, j], width, thick, valid=kept)
