r"""An endless, seeded source of procedural clouds, all on one device.

    seeds on the primitives,   x <- x - f(x) grad f(x) / |grad f(x)|^2   to the zero set of a field,
    farthest points

    source = ProceduralShapes(seed=0, device="cuda")
    clouds = source.draw(256, n=1500)          # (256, 1500, 3) in the unit sphere, farthest-point
    order

The order matters: the first `m` points of a cloud are themselves a near-uniform sample of `m`
points.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eigenprobe.errors import InputError
from eigenprobe.geometry import farthest_points
from eigenprobe.neighbors.graph import build_graph

# They enter their families, in this order.
from . import creatures, forms, artefacts  # isort: skip  # noqa: F401
from .fields import FAMILIES, Field, Rng, take, unit


@dataclass(frozen=True)
class Variation:
    """How often and how strongly clouds are varied after the surface is found."""

    scale: float = 0.15  # standard deviation of the log of the anisotropic scale
    bend: float = 0.3  # probability
    twist: float = 0.15
    taper: float = 0.15
    partial: float = 0.08  # cut by a plane: an open surface, as in a partial scan
    uneven: float = 0.12  # density varies smoothly over the shape
    random: float = 0.08  # independent samples instead of farthest points
    noise: float = 0.2  # probability of noise, of up to noise_level
    noise_level: float = 0.01  # of the radius


@dataclass
class ProceduralShapes:
    """Draws of random shapes as clouds; a draw number of a seed gives the same clouds on the same
    kind of device.
    """

    seed: int = 0
    device: str | torch.device = "cpu"
    families: list[str] | None = None  # names from `FAMILIES`, all by default
    variation: Variation = Variation()
    oversample: float = 4.0  # candidates on the surface per point kept
    draws: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        chosen = [*FAMILIES] if self.families is None else self.families
        if (unknown := sorted(set(chosen) - set(FAMILIES))) or not chosen:
            raise InputError(
                f"expected families among {', '.join(FAMILIES)}, got {', '.join(unknown) or 'none'}"
            )
        self.weights = {name: FAMILIES[name][1] for name in chosen}

    @torch.no_grad()
    def draw(self, count: int, n: int = 1500, draw: int | None = None) -> Tensor:
        """`(count, n, 3)` clouds; `draw` replays one numbered draw, the default goes on to the
        next.
        """
        if count < 1 or n < 16:
            raise InputError(
                f"expected at least one cloud of at least 16 points, got count={count}, n={n}"
            )
        if draw is None:
            draw, self.draws = self.draws, self.draws + 1
        generator = self.generator(draw)
        clouds: list[Tensor] = []
        have = 0
        while have < count:
            if len(clouds) == 20:
                raise InputError(
                    f"expected connected shapes from {', '.join(self.weights)}, "
                    "got too few in 20 rounds"
                )
            clouds.append(self._round(int(1.1 * (count - have)) + 4, n, generator))
            have += clouds[-1].shape[0]
        order = torch.randperm(have, generator=generator, device=self.device)[:count]
        return torch.cat(clouds)[order]

    def generator(self, draw: int) -> torch.Generator:
        """The random numbers of one draw."""
        return torch.Generator(self.device).manual_seed(
            (self.seed * 1_000_003 + draw * 7_919) % (2**63 - 1)
        )

    def candidates(
        self, count: int, n: int, generator: torch.Generator, at_once: int
    ) -> tuple[Tensor, ...]:
        """Points, outward normals and which of them arrived on `count` surfaces, `at_once`
        evaluated together.
        """
        weights = torch.tensor(list(self.weights.values()), device=self.device)
        drawn = torch.multinomial(weights, count, replacement=True, generator=generator)
        found = []
        for name, tally in zip(
            self.weights, torch.bincount(drawn, minlength=len(weights)).tolist(), strict=True
        ):
            for start in range(0, tally, at_once):
                rng = Rng(min(at_once, tally - start), generator)
                solid = FAMILIES[name][0](rng)
                found.append(project(solid, seeds(solid, rng, int(self.oversample * n))))
        return tuple(torch.cat(parts) for parts in zip(*found, strict=True))

    def surfaces(
        self, count: int, n: int, generator: torch.Generator, at_once: int, side: float = 0.0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Points of warped surfaces, points ``side`` beside them along the normal (none for 0), and
        which count.
        """
        x, normals, valid = self.candidates(count, n, generator, at_once)
        size = x.shape[1]
        if side:
            x, valid = (
                torch.cat([x, x + side * normals], 1),
                torch.cat([valid, torch.zeros_like(valid)], 1),
            )
        x, valid = self.warp(unit_sphere(x, valid), valid, Rng(count, generator))
        x = unit_sphere(x, valid)
        # Fewer than 1.3 candidates per point leave the thinning nothing to choose from.
        keep = (valid.sum(-1) > 1.3 * n) & torch.isfinite(x).flatten(1).all(1)
        return x[keep, :size], x[keep, size:], valid[keep, :size]

    def _round(self, count: int, n: int, generator: torch.Generator) -> Tensor:
        x, _, valid = self.surfaces(count, n, generator, count)
        if not x.shape[0]:
            return x[:, :n]
        rng = Rng(x.shape[0], generator)
        cloud = self._thin(x, valid, n, rng)
        whole = connected(cloud) > 0.995
        noise = rng.uniform(0, self.variation.noise_level, 1, 1) * rng.chance(
            self.variation.noise, 1, 1
        )
        cloud = cloud + noise * rng.normal(1.0, n, 3)
        return unit_sphere(cloud)[whole]

    def _thin(self, x: Tensor, valid: Tensor, n: int, rng: Rng) -> Tensor:
        v = self.variation
        slope = rng.direction() * rng.uniform(0.3, 1.5, 1) * rng.chance(v.uneven, 1)
        weight = torch.exp(2 * (x * slope[:, None]).sum(-1))
        order = farthest_points(x, n, start=0, weight=weight, valid=valid)
        lottery = torch.where(valid, rng.uniform(0, 1, x.shape[1]), -1.0)
        order = torch.where(rng.chance(v.random, 1), lottery.topk(n).indices, order)
        return take(x, order)

    def warp(self, x: Tensor, valid: Tensor, rng: Rng) -> tuple[Tensor, Tensor]:
        """Anisotropic scale, bend, twist and taper in a random frame; a plane cuts some shapes
        open.
        """
        v = self.variation
        frame = rng.rotation()
        x = (x[..., None] * frame[:, None]).sum(-2)  # not a product: TF32 would roughen the surface
        scale = rng.normal(v.scale, 1, 3).exp()
        x = x * scale
        k = rng.normal(0.8, 1) * rng.chance(v.bend, 1)
        k = torch.where(k.abs() < 0.05, torch.full_like(k, 1e-3), k)
        u, side, w = x.unbind(-1)
        radius = 1 / k + w
        bent = torch.stack([radius * (k * u).sin(), side, radius * (k * u).cos() - 1 / k], -1)
        x = torch.where(k.abs()[..., None] > 0.01, bent, x)
        angle = x[..., 0] * (rng.normal(0.9, 1) * rng.chance(v.twist, 1))
        cos, sin = angle.cos(), angle.sin()
        taper = 1 + x[..., 0] * (rng.normal(0.3, 1) * rng.chance(v.taper, 1)).clamp(-0.6, 0.6)
        u, side, w = x.unbind(-1)
        x = torch.stack([u, taper * (cos * side - sin * w), taper * (sin * side + cos * w)], -1)
        cut = rng.uniform(0.0, 0.5, 1)
        inside = (x * rng.direction()[:, None]).sum(-1) < cut
        return x, valid & (inside | ~rng.chance(v.partial, 1))


def unit_sphere(x: Tensor, valid: Tensor | None = None) -> Tensor:
    """Centre at the mean and scale to radius 1; `valid (b, n)` says which points count."""
    share = torch.ones_like(x[..., :1]) if valid is None else valid[..., None].float()
    x = x - (x * share).sum(1, keepdim=True) / share.sum(1, keepdim=True).clamp_min(1)
    radius = (x.norm(dim=-1) * share[..., 0]).amax(-1).clamp_min(1e-9)
    return x / radius[:, None, None]


def seeds(field: Field, rng: Rng, count: int) -> Tensor:
    """`(b, count, 3)` points near the surface, spread over the primitives by their area."""
    areas: list[Tensor] = []
    c, s = field.capsules, field.solids
    if c is not None:
        length, radius = (c.b - c.a).norm(dim=-1), 0.5 * (c.ra + c.rb)
        orbit = 0.5 * (c.a[..., 0] + c.b[..., 0]).abs() + radius
        area = 2 * math.pi * torch.where(c.revolved, 2 * orbit, radius) * (length + 2 * radius)
        areas.append(area * c.valid)
    if s is not None:
        h = s.half.clamp_max(1.2)
        area = 8 * (h[..., 0] * h[..., 1] + h[..., 1] * h[..., 2] + h[..., 2] * h[..., 0])
        areas.append(area * s.valid)
    weights = torch.cat(areas, -1) + 1e-9
    index = torch.multinomial(
        weights, count, replacement=True, generator=rng.generator
    )  # (b, count)
    out, first, direction = rng.normal(0.5, count, 3), 0, rng.direction(count)
    if c is not None:
        first = c.a.shape[1]
        j = index.clamp_max(first - 1)
        a, b, flat_axis, flat = (
            take(c.a, j),
            take(c.b, j),
            take(c.flat_axis, j),
            c.flat.gather(1, j)[..., None],
        )
        # Slightly beyond the ends, so that caps are reached too.
        t = rng.uniform(-0.15, 1.15, count, 1)
        radius = c.ra.gather(1, j) + t[..., 0].clamp(0, 1) * (c.rb - c.ra).gather(1, j)
        axis = b - a
        along = (direction * axis).sum(-1, keepdim=True) / axis.square().sum(
            -1, keepdim=True
        ).clamp_min(1e-9)
        blunt = (t < 0) | (t > 1)
        normal = unit(torch.where(blunt, direction, direction - axis * along))
        normal = normal - (1 - 1 / flat) * (normal * flat_axis).sum(-1, keepdim=True) * flat_axis
        point = a + t.clamp(0, 1) * axis + normal * radius[..., None]
        angle = rng.uniform(0, 2 * math.pi, count)
        turned = torch.stack(
            [point[..., 0] * angle.cos(), point[..., 0] * angle.sin(), point[..., 2]], -1
        )
        point = torch.where(c.revolved.gather(1, j)[..., None], turned, point)
        out = torch.where((index < first)[..., None], point, out)
    if s is not None:
        j = (index - first).clamp_min(0)
        p = s.q.gather(1, j)[..., None]
        cube = direction / (direction.abs() ** p).sum(-1, keepdim=True).clamp_min(1e-12) ** (1 / p)
        spread = torch.where(p > 4, rng.uniform(-1, 1, count, 3), cube)
        # On a box the directions bunch up at the face centres: draw the face, then a point on it.
        face = torch.nn.functional.one_hot(rng.integers(0, 2, count), 3).bool()
        spread = torch.where((p > 4) & face, spread.sign(), spread)
        rotation = s.rotation[torch.arange(rng.b, device=index.device)[:, None], j]
        point = torch.einsum("bnd,bnde->bne", spread * take(s.half, j), rotation)
        out = torch.where((index >= first)[..., None], point + take(s.centre, j), out)
    return out


def project(field: Field, x: Tensor, steps: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """Newton steps to the zero set; returns points, outward normals and which of them arrived."""
    start = x
    for step in range(steps + 1):
        with torch.enable_grad():
            moving = x.detach().requires_grad_(True)
            value = field(moving)
            (gradient,) = torch.autograd.grad(value.sum(), moving)
        value = value.detach()
        if step < steps:
            move = (
                value[..., None]
                * gradient
                / gradient.square().sum(-1, keepdim=True).clamp_min(0.05)
            )
            x = x - move.clamp(-0.15, 0.15)
    arrived = (
        (value.abs() < 4e-3) & (gradient.norm(dim=-1) > 0.1) & ((x - start).norm(dim=-1) < 0.6)
    )
    return x, unit(gradient), arrived


def connected(points: Tensor, k: int = 8) -> Tensor:
    """Share ``(b,)`` of the points ``(b, n, 3)`` that lie in the largest component of the graph of
    ``k`` nearest neighbours.
    """
    b, n = points.shape[:2]
    _, labels = build_graph(points.flatten(0, 1), k, clouds=(n,) * b).components()
    return torch.bincount(labels)[labels].view(b, n).amax(-1) / n
