r"""Implicit solids, batched: a shape is the zero set of one smooth field made of tapered capsules
and superquadrics.

    f(x) = -kappa log sum_j exp(-f_j(x)/kappa)        smooth union of the positive primitives
    f(x) <- max(f(x), -h_l(x))                        minus the negative ones (holes)
    f(x) <- f(x) + sum_w a_w sin(k_w . x + phi_w)     bumps

A capsule has end points `a, b`, radii `ra, rb`, an optional flattening along one direction (fins,
ears, wings) and may be revolved about the z axis, where it draws a ring or the shell of a vase. A
superquadric has centre, rotation, half axes, two exponents (2, 2: ellipsoid; 8, 8: box; 2, 8:
cylinder) and an optional ring radius (superquadric torus).

Shapes: `b` shapes, `J` capsules, `S` superquadrics, `N` query points; `x (b, N, 3)` -> `f (b, N)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

Scalar = float | Tensor  # one for all shapes, or (b,)
Truth = bool | Tensor
FAR = 1e3  # the distance to a primitive that is switched off


def unit(x: Tensor) -> Tensor:
    """Vectors along the last axis, of length one."""
    return torch.nn.functional.normalize(x, dim=-1)


def take(values: Tensor, rows: Tensor) -> Tensor:
    """Values ``(b, n, c)`` at rows ``(b, m)`` of each, ``(b, m, c)``."""
    return values.gather(1, rows[..., None].expand(-1, -1, values.shape[2]))


def tapered(radius: Tensor, *factors: float) -> list[Tensor]:
    """The radii of a chain: `radius (b,)` times each factor."""
    return [radius * factor for factor in factors]


@dataclass
class Rng:
    """Uniform and normal draws for a batch of `b` shapes, from one generator on one device."""

    b: int
    generator: torch.Generator

    @property
    def device(self) -> torch.device:
        return self.generator.device

    @property
    def sides(self) -> tuple[Tensor, Tensor]:
        """Factors `(3,)` of the left side and of its mirror image in the plane y = 0."""
        return torch.ones(3, device=self.device), torch.tensor([1.0, -1.0, 1.0], device=self.device)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(
            self.b, *shape, generator=self.generator, device=self.device
        )

    def log_uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return self.uniform(math.log(low), math.log(high), *shape).exp()

    def normal(self, scale: float, *shape: int) -> Tensor:
        return scale * torch.randn(self.b, *shape, generator=self.generator, device=self.device)

    def chance(self, probability: float, *shape: int) -> Tensor:
        return (
            torch.rand(self.b, *shape, generator=self.generator, device=self.device) < probability
        )

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Integers in `low..high`, both included."""
        return torch.randint(
            low, high + 1, (self.b, *shape), generator=self.generator, device=self.device
        )

    def direction(self, *shape: int) -> Tensor:
        return unit(self.normal(1.0, *shape, 3))

    def rotation(self, *shape: int) -> Tensor:
        """Random rotations `(b, *shape, 3, 3)`."""
        q = torch.linalg.qr(self.normal(1.0, *shape, 3, 3)).Q
        return q * torch.linalg.det(q)[..., None, None]

    def each(self, value: Scalar, dtype: torch.dtype = torch.float32) -> Tensor:
        """One number for every shape, `(b,)`."""
        return torch.as_tensor(value, dtype=dtype, device=self.device).expand(self.b)

    def point(self, x: Scalar, y: Scalar, z: Scalar) -> Tensor:
        """Stack scalars or `(b,)` tensors to points `(b, 3)`."""
        return torch.stack([self.each(value) for value in (x, y, z)], -1)


class Capsules(NamedTuple):
    a: Tensor  # (b, J, 3)
    b: Tensor  # (b, J, 3)
    ra: Tensor  # (b, J)
    rb: Tensor  # (b, J)
    flat_axis: Tensor  # (b, J, 3) unit
    flat: Tensor  # (b, J) thickness divided by this along flat_axis
    revolved: Tensor  # (b, J) bool
    valid: Tensor  # (b, J) bool


class Solids(NamedTuple):
    centre: Tensor  # (b, S, 3)
    rotation: Tensor  # (b, S, 3, 3), rows are the local axes
    half: Tensor  # (b, S, 3)
    p: Tensor  # (b, S) exponent in the local xy plane
    q: Tensor  # (b, S) exponent between xy and z
    ring: Tensor  # (b, S) tube half-width of a torus; 0 for a solid
    negative: Tensor  # (b, S) bool
    valid: Tensor  # (b, S) bool


@dataclass
class Builder:
    """Collects primitives for a batch of shapes; every tensor argument is `(b, 3)` or `(b,)`."""

    rng: Rng
    _capsules: list[Capsules] = field(default_factory=list)
    _solids: list[Solids] = field(default_factory=list)

    def capsule(
        self,
        a: Tensor,
        b: Tensor,
        ra: Scalar,
        rb: Scalar | None = None,
        *,
        flat: Scalar = 1.0,
        flat_axis: Tensor | None = None,
        revolved: bool = False,
        valid: Truth = True,
    ) -> Tensor:
        """Add one capsule and return its end point, so that chains read as a walk. One that is
        ``revolved`` lies in the half plane y = 0, x > 0, and turns about the z axis: a ring, or a
        piece of a shell.
        """
        axis = unit(self.rng.point(0.0, 0.0, 1.0) if flat_axis is None else flat_axis)
        first, last, thin = (self.rng.each(value) for value in (ra, ra if rb is None else rb, flat))
        truths = [self.rng.each(value, torch.bool) for value in (revolved, valid)]
        self._capsules.append(Capsules(a, b, first, last, axis, thin, *truths))
        return b

    def path(
        self, points: Sequence[Tensor], radii: Sequence[Tensor], *, valid: Truth = True
    ) -> None:
        """Capsules from point to point, `radii` one per point."""
        for (a, b), (ra, rb) in zip(pairwise(points), pairwise(radii), strict=True):
            self.capsule(a, b, ra, rb, valid=valid)

    def pair(
        self, a: Tensor, b: Tensor, ra: Scalar, rb: Scalar | None = None, **options: Any
    ) -> Tensor:
        """A capsule and its mirror image in the plane y = 0 (bilateral symmetry)."""
        mirror = self.rng.sides[1]
        axis = {"flat_axis": options["flat_axis"] * mirror} if "flat_axis" in options else {}
        self.capsule(a * mirror, b * mirror, ra, rb, **(options | axis))
        return self.capsule(a, b, ra, rb, **options)

    def chain(
        self,
        start: Tensor,
        direction: Tensor,
        lengths: list[Tensor],
        radii: list[Tensor],
        *,
        wobble: float = 0.0,
        curl: Tensor | None = None,
        pair: bool = False,
        **options: Any,
    ) -> Tensor:
        """A walk of capsules from `start`: `wobble` turns every joint at random, `curl (b, 3)` adds
        a steady turn.
        """
        add = self.pair if pair else self.capsule
        point = start
        for length, ra, rb in zip(lengths, radii[:-1], radii[1:], strict=True):
            if wobble:
                direction = direction + self.rng.normal(wobble, 3)
            if curl is not None:
                direction = direction + curl
            direction = unit(direction)
            point = add(point, point + direction * length[:, None], ra, rb, **options)
        return point

    def solid(
        self,
        centre: Tensor,
        half: Tensor,
        exponents: tuple[Scalar, Scalar] = (2.0, 2.0),
        *,
        rotation: Tensor | None = None,
        ring: Scalar = 0.0,
        negative: Truth = False,
        valid: Truth = True,
    ) -> None:
        """Add one superquadric with exponents `(p, q)`; a `negative` one is a hole."""
        if rotation is None:
            rotation = torch.eye(3, device=self.rng.device).expand(self.rng.b, 3, 3)
        numbers = [self.rng.each(value) for value in (*exponents, ring)]
        truths = [self.rng.each(value, torch.bool) for value in (negative, valid)]
        self._solids.append(Solids(centre, rotation, half, *numbers, *truths))

    def build(self, blend: Scalar = 0.03, bump: Scalar = 0.0, frequency: float = 6.0) -> Field:
        rng, each = self.rng, self.rng.each
        capsules = (
            Capsules(*(torch.stack(c, 1) for c in zip(*self._capsules, strict=True)))
            if self._capsules
            else None
        )
        solids = (
            Solids(*(torch.stack(s, 1) for s in zip(*self._solids, strict=True)))
            if self._solids
            else None
        )
        waves = rng.direction(6) * rng.uniform(0.4, 1.6, 6, 1) * frequency
        return Field(
            capsules, solids, each(blend), waves, rng.uniform(0, 2 * math.pi, 6), each(bump)
        )


@dataclass
class Field:
    capsules: Capsules | None
    solids: Solids | None
    blend: Tensor  # (b,)
    waves: Tensor  # (b, 6, 3)
    phases: Tensor  # (b, 6)
    bump: Tensor  # (b,) amplitude

    def __call__(self, x: Tensor) -> Tensor:
        """`f (b, N)` at `x (b, N, 3)`: negative inside, roughly a distance near the surface."""
        kappa = self.blend[:, None, None].clamp_min(1e-4)
        parts = [] if self.capsules is None else [capsule_distance(self.capsules, x)]
        if self.solids is not None:
            distance, negative = (
                superquadric_distance(self.solids, x),
                self.solids.negative[:, None],
            )
            parts.append(distance.masked_fill(negative, FAR))
        f = -kappa[..., 0] * torch.logsumexp(-torch.cat(parts, -1) / kappa, -1)
        if self.solids is not None:
            sharp = 0.3 * kappa  # than the union: machined holes have crisp edges
            stacked = torch.cat([f[..., None], -distance.masked_fill(~negative, FAR)], -1)
            f = sharp[..., 0] * torch.logsumexp(stacked / sharp, -1)
        ripple = torch.sin(x @ self.waves.mT + self.phases[:, None]).mean(-1)
        return f + self.bump[:, None] * ripple


Family = Callable[[Rng], Field]
FAMILIES: dict[str, tuple[Family, float]] = {}  # by name, with how often they are drawn


def family(
    weight: float, blend: float | tuple[float, float], *, bump: float = 0.0, frequency: float = 6.0
) -> Callable[[Callable[[Builder, Rng], None]], Family]:
    """Enter a family of shapes: what the function builds, blended over a length, or one drawn from
    a range, with bumps of up to a height."""

    def enter(build: Callable[[Builder, Rng], None]) -> Family:
        @wraps(build)
        def draw(rng: Rng) -> Field:
            build(builder := Builder(rng), rng)
            length = rng.log_uniform(*blend) if isinstance(blend, tuple) else blend
            return builder.build(length, rng.uniform(0, bump) if bump else 0.0, frequency)

        FAMILIES[build.__name__] = draw, weight
        return draw

    return enter


def capsule_distance(c: Capsules, x: Tensor) -> Tensor:
    """Signed distances `(b, N, J)` to the capsules; `FAR` where a primitive is switched off."""
    x = x[:, :, None]  # (b, N, 1, 3)
    if bool(c.revolved.any()):
        radius = x[..., :2].square().sum(-1).add(1e-12).sqrt()
        turned = torch.stack([radius, torch.zeros_like(radius), x[..., 2]], -1)
        x = torch.where(c.revolved[:, None, :, None], turned, x)
    axis = (c.b - c.a)[:, None]  # (b, 1, J, 3)
    offset = x - c.a[:, None]
    t = ((offset * axis).sum(-1) / axis.square().sum(-1).clamp_min(1e-9)).clamp(0, 1)
    normal = offset - t[..., None] * axis
    along = (normal * c.flat_axis[:, None]).sum(-1)
    flat = c.flat[:, None]
    radius = c.ra[:, None] + t * (c.rb - c.ra)[:, None]
    distance = (normal.square().sum(-1) + (flat.square() - 1) * along.square()).add(
        1e-12
    ).sqrt() - radius
    # The flattened metric overestimates distance by up to `flat`; dividing keeps thin parts visible
    # in a blend.
    return (distance / flat.sqrt()).masked_fill(~c.valid[:, None], FAR)


def superquadric_distance(s: Solids, x: Tensor) -> Tensor:
    """Approximate signed distances `(b, N, S)` to the superquadrics; `FAR` where switched off."""
    local = torch.einsum(
        "bnsd,bsed->bnse", x[:, :, None] - s.centre[:, None], s.rotation
    )  # (b, N, S, 3)
    half = s.half[:, None]
    u = (local / half).abs().clamp(1e-4, 1e2)
    p, q = s.p[:, None], s.q[:, None]
    planar = (u[..., 0] ** p + u[..., 1] ** p) ** (1 / p)
    level = (planar**q + u[..., 2] ** q) ** (1 / q)
    flank = (planar / level) ** (q - 1) * (u[..., :2] / planar[..., None]).movedim(-1, 0) ** (
        p - 1
    )  # (2, b, N, S)
    slope = (
        torch.stack([*flank, (u[..., 2] / level) ** (q - 1)], -1) / half
    )  # its length: else rims of plates are lost
    solid = (level - 1) / slope.norm(dim=-1)
    ring = s.ring[:, None].clamp_min(1e-3)
    width = ((planar - 1) * half[..., :2].mean(-1)).abs().clamp_min(1e-5) / ring
    torus = ((width**q + u[..., 2] ** q) ** (1 / q) - 1) * torch.minimum(ring, half[..., 2])
    distance = torch.where(s.ring[:, None] > 0, torus, solid)
    return distance.masked_fill(~s.valid[:, None], FAR)
