"""Clouds whose spectrum is known in closed form, clean and damaged: what the estimate of errors is
measured on.

    spectrum (k,)    box: pi^2 sum_a (i_a / L_a)^2    flat torus: sum_a i_a^2    sphere: l (l + 1)
                     ball: (zero of j_l')^2, 2 l + 1 times    others: `separated`

A damage (copies, strays, noise, scan lines, uneven density) changes the sample and not the
manifold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np

from benchmarks.separated import curve, revolution, shell
from eigenprobe.cloud.farthest import farthest_points

Draw = Callable[[int, np.random.Generator], np.ndarray]
Damage = Callable[[np.ndarray, np.random.Generator], np.ndarray]
EVEN = 4  # random points per even one that is chosen among them


@dataclass(frozen=True)
class Manifold:
    """A manifold of dimension ``dimension``, its random samples and its first eigenvalues."""

    dimension: int
    draw: Draw
    spectrum: Callable[[int], np.ndarray]
    grid: Callable[[int], np.ndarray] | None = None  # an even sample that is exact


def box(*sides: float) -> Manifold:
    """A free boundary: cosines."""
    lengths = np.array(sides)

    def spectrum(k: int) -> np.ndarray:
        most = [min(k, int(np.ceil(k * length / lengths.max())) + 2) for length in lengths]
        if len(lengths) > 3:
            most = [min(m, 4) for m in most]
        waves = np.array(list(product(*(range(m) for m in most))), float)
        return np.sort(((np.pi * waves / lengths) ** 2).sum(1))[:k]

    def grid(n: int) -> np.ndarray:
        count = np.maximum(
            1, np.round(lengths * (n / lengths.prod()) ** (1 / len(lengths)))
        ).astype(int)
        axes = [(np.arange(m) + 0.5) / m * length for m, length in zip(count, lengths, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(lengths))

    return Manifold(
        len(lengths), lambda n, rng: rng.random((n, len(lengths))) * lengths, spectrum, grid
    )


def torus(dimension: int) -> Manifold:
    """The flat torus in twice as many dimensions; a circle in the plane."""

    def embed(angle: np.ndarray) -> np.ndarray:
        return np.concatenate([np.cos(angle), np.sin(angle)], 1)

    def spectrum(k: int) -> np.ndarray:
        most = k if dimension == 1 else int(np.sqrt(k)) + 2
        waves = np.array(list(product(range(-most, most + 1), repeat=dimension)), float)
        return np.sort((waves**2).sum(1))[:k]

    def grid(n: int) -> np.ndarray:
        side = round(n ** (1 / dimension))
        axes = [np.arange(side) * 2 * np.pi / side] * dimension
        return embed(np.stack(np.meshgrid(*axes), -1).reshape(-1, dimension))

    return Manifold(
        dimension, lambda n, rng: embed(rng.random((n, dimension)) * 2 * np.pi), spectrum, grid
    )


def _on_sphere(n: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _spiral(n: int) -> np.ndarray:
    place = np.arange(n) + 0.5
    height, angle = 1 - 2 * place / n, np.pi * (1 + 5**0.5) * place
    radius = np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], 1)


def _sphere_spectrum(k: int) -> np.ndarray:
    return np.concatenate(
        [[degree * (degree + 1.0)] * (2 * degree + 1) for degree in range(int(k**0.5) + 2)]
    )[:k]


@cache
def _ball_spectrum(k: int) -> np.ndarray:
    from scipy.optimize import brentq
    from scipy.special import spherical_jn

    found = [0.0]
    steps = np.linspace(0.05, 20, 2000)
    for degree in range(12):
        slope = spherical_jn(degree, steps, derivative=True)
        for i in np.flatnonzero(slope[1:] * slope[:-1] < 0):
            zero = brentq(
                lambda t, d=degree: spherical_jn(d, t, derivative=True), steps[i], steps[i + 1]
            )
            found += [zero**2] * (2 * degree + 1)
    return np.sort(found)[:k]


def _in_ball(n: int, rng: np.random.Generator) -> np.ndarray:
    return _on_sphere(n, rng) * rng.random((n, 1)) ** (1 / 3)


MANIFOLDS: dict[str, Manifold] = {
    "circle": torus(1),
    "interval": box(1.0),
    "sphere": Manifold(2, _on_sphere, _sphere_spectrum, _spiral),
    "torus": torus(2),
    "square": box(1.0, 1.0),
    "ribbon": box(1.0, 0.1),
    "long": box(1000.0, 1.0),
    "box": box(1.0, 10.0, 100.0),
    "cube": box(1.0, 1.0, 1.0),
    "ball": Manifold(3, _in_ball, _ball_spectrum),
    **{f"{d}-cube": box(*[1.0] * d) for d in (4, 5, 6, 8)},
}


def _helix(turns: float, rise: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda t: np.stack(
        [np.cos(2 * np.pi * turns * t), np.sin(2 * np.pi * turns * t), rise * turns * t], 1
    )


def _roll(turns: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda t: (
        (0.2 + t)[:, None]
        * np.stack([np.cos(2 * np.pi * turns * t), np.sin(2 * np.pi * turns * t)], 1)
    )


def _knot(t: np.ndarray) -> np.ndarray:
    u = 2 * np.pi * t
    return np.stack(
        [np.sin(u) + 2 * np.sin(2 * u), np.cos(u) - 2 * np.cos(2 * u), -np.sin(3 * u)], 1
    )


def _tube(t: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)], 1)


def _three_sphere(k: int) -> np.ndarray:
    return np.concatenate([[degree * (degree + 2.0)] * (degree + 1) ** 2 for degree in range(6)])[
        :k
    ]


def _on_three_sphere(n: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(n, 4))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _flat(t: np.ndarray) -> np.ndarray:
    return 0 * t


FURTHER: dict[str, Manifold] = {  # of a few sizes and kinds each
    "long ellipsoid": Manifold(
        2, *revolution(lambda t: np.sin(np.pi * t), lambda t: 4 * np.cos(np.pi * t))
    ),
    "flat ellipsoid": Manifold(
        2, *revolution(lambda t: np.sin(np.pi * t), lambda t: 0.3 * np.cos(np.pi * t))
    ),
    "tyre": Manifold(
        2,
        *revolution(
            lambda t: 1 + 0.2 * np.cos(2 * np.pi * t),
            lambda t: 0.2 * np.sin(2 * np.pi * t),
            closed=True,
        ),
    ),
    "dumbbell": Manifold(
        2,
        *revolution(
            lambda t: np.sin(np.pi * t) * (0.1 + 0.9 * np.cos(np.pi * t) ** 2),
            lambda t: 2 * np.cos(np.pi * t),
        ),
    ),
    "disc": Manifold(2, *revolution(lambda t: t, _flat)),
    "ring": Manifold(2, *revolution(lambda t: 0.5 + 0.5 * t, _flat)),
    "thin ring": Manifold(2, *revolution(lambda t: 0.9 + 0.1 * t, _flat)),
    "cone": Manifold(2, *revolution(lambda t: t, lambda t: t)),
    "cut sphere": Manifold(2, *revolution(lambda t: np.sin(2.6 * t), lambda t: np.cos(2.6 * t))),
    "tube": Manifold(2, *curve(_tube, closed=True, width=0.5)),
    "roll": Manifold(2, *curve(_roll(1.5), width=3.0)),
    "helix": Manifold(1, *curve(_helix(3, 0.5))),
    "spiral": Manifold(1, *curve(_roll(3))),
    "knot": Manifold(1, *curve(_knot, closed=True)),
    "shell": Manifold(3, *shell(0.9)),
    "slab": box(1.0, 1.0, 0.2),
    "rod": box(1.0, 0.1, 0.1),
    "3-sphere": Manifold(3, _on_three_sphere, _three_sphere),
}
KNOWN: dict[str, Manifold] = MANIFOLDS | FURTHER


def even(manifold: Manifold, n: int, rng: np.random.Generator) -> np.ndarray:
    """About ``n`` points: the exact grid where there is one, else farthest points of random
    ones.
    """
    if manifold.grid is not None:
        return manifold.grid(n)
    x = manifold.draw(EVEN * n, rng)
    return x[farthest_points(x, n, seed=0)]


def copies(count: int, distance: float) -> Damage:
    """Every point ``count`` times, each within about ``distance``."""
    return lambda x, rng: np.concatenate(
        [x + distance * rng.normal(size=x.shape) for _ in range(count)]
    )


def strays(count: int) -> Damage:
    """``count`` points around, at 1.2 to 5 times the radius."""

    def add(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        away = rng.normal(size=(count, x.shape[1]))
        away /= np.linalg.norm(away, axis=1, keepdims=True)
        radius = np.linalg.norm(x - x.mean(0), axis=1).max()
        return np.concatenate([x, x.mean(0) + away * radius * rng.uniform(1.2, 5, (count, 1))])

    return add


def noise(level: float) -> Damage:
    """Gaussian, of standard deviation ``level``."""
    return lambda x, rng: x + level * rng.normal(size=x.shape)


def jitter(level: float) -> Damage:
    """Gaussian in the directions of a box, which it does not leave: reflected."""
    return lambda x, rng: np.abs(x + level * rng.normal(size=x.shape))


def single_copy(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A float32 copy behind the float64 points."""
    return np.concatenate([x, x.astype(np.float32).astype(np.float64)])


def scan_lines(ratio: float) -> Callable[[int], np.ndarray]:
    """A grid of the unit square whose steps differ by ``ratio``."""

    def make(n: int) -> np.ndarray:
        lines = max(2, round(np.sqrt(n / ratio)))
        across, along = (
            (np.arange(lines) + 0.5) / lines,
            (np.arange(n // lines) + 0.5) / (n // lines),
        )
        return np.stack(np.meshgrid(across, along), -1).reshape(-1, 2)

    return make


def steps(manifold: Manifold, n: int, rng: np.random.Generator) -> np.ndarray:
    """Random points of three densities, 20 : 6 : 1, along the first coordinate."""
    x = manifold.draw(3 * n, rng)
    third = np.minimum(3 * (x[:, 0] - x[:, 0].min()) / np.ptp(x[:, 0]), 2).astype(int)
    return x[rng.random(len(x)) < np.array([1.0, 0.3, 0.05])[third]]


def uneven(manifold: Manifold, ratio: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Random points of a density that falls by ``ratio`` along the first coordinate."""
    found = np.empty((0, manifold.draw(1, rng).shape[1]))
    while len(found) < n:
        x = manifold.draw(20 * n, rng)
        place = (x[:, 0] - x[:, 0].min()) / np.ptp(x[:, 0])
        found = np.concatenate([found, x[rng.random(len(x)) < ratio**-place]])
    return found[:n]


@dataclass(frozen=True)
class Truth:
    """A cloud by name, and the first eigenvalues of the manifold that it samples."""

    name: str
    points: Callable[[np.random.Generator], np.ndarray]
    manifold: str

    def spectrum(self, k: int) -> np.ndarray:
        return KNOWN[self.manifold].spectrum(k)


def _clean() -> list[Truth]:
    sizes = {
        1: (12, 16, 25, 100, 2000, 20_000),
        2: (60, 200, 500, 1500, 4000, 20_000),
        3: (200, 1000, 4000, 20_000),
    }
    found = []
    for name, manifold in MANIFOLDS.items():
        for n in sizes.get(manifold.dimension, (1000, 4000)):
            for kind in ("even", "random"):
                if manifold.dimension > 3 and kind == "even":
                    continue

                def make(
                    rng: np.random.Generator, name: str = name, n: int = n, kind: str = kind
                ) -> np.ndarray:
                    own = MANIFOLDS[name]
                    return even(own, n, rng) if kind == "even" else own.draw(n, rng)

                found.append(Truth(f"{name}, {kind}, {n}", make, name))
    return found


def _damaged() -> list[Truth]:
    def of(
        name: str, n: int, damage: Damage, kind: str = "random"
    ) -> Callable[[np.random.Generator], np.ndarray]:
        own = MANIFOLDS[name]
        return lambda rng: damage(even(own, n, rng) if kind == "even" else own.draw(n, rng), rng)

    rows: list[tuple[str, str, Callable[[np.random.Generator], np.ndarray]]] = []
    for count, distance in product((2, 3, 5), (1e-12, 1e-6, 1e-4, 1e-3, 1e-2)):
        rows.append(
            (
                f"{count} copies within {distance:g}",
                "sphere",
                of("sphere", 1000, copies(count, distance)),
            )
        )
    rows.append(("exact copies", "sphere", of("sphere", 1000, copies(2, 0.0))))
    rows.append(("exact copies", "ball", of("ball", 1000, copies(2, 0.0))))
    rows.append(("copies within 1e-6", "ball", of("ball", 2000, copies(2, 1e-6))))
    rows.append(("copies within 1e-6", "circle", of("circle", 500, copies(3, 1e-6), "even")))
    rows.append(("float32 copy", "sphere", of("sphere", 2000, single_copy)))
    rows.append(("float32 copy", "torus", of("torus", 2000, single_copy)))
    for count in (1, 20, 40, 200):
        rows.append((f"{count} strays", "sphere", of("sphere", 2000, strays(count))))
    rows.append(("20 strays", "circle", of("circle", 2000, strays(20))))
    for level in (1e-3, 1e-2, 3e-2):
        rows.append((f"noise {level:g}", "circle", of("circle", 2000, noise(level))))
        rows.append((f"noise {level:g}", "sphere", of("sphere", 2000, noise(level))))
        rows.append((f"jitter {level:g}", "square", of("square", 2000, jitter(level), "even")))
    for ratio in (3.0, 10.0, 30.0):
        # type: ignore[misc]
        rows.append((f"scan lines {ratio:g}:1", "square", lambda rng, r=ratio: scan_lines(r)(2000)))
    for ratio in (10.0, 100.0, 1e4):
        for name in ("circle", "sphere", "square", "cube"):
            make = partial(uneven, MANIFOLDS[name], ratio, 3000)
            rows.append((f"uneven {ratio:g}:1", name, make))
    return [Truth(f"{name}, {what}", make, name) for what, name, make in rows]


def _further() -> list[Truth]:
    """Further manifolds, clean and damaged, of 500 and 1500 points."""

    def noisy(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        radius = np.linalg.norm(x - x.mean(0), axis=1).max()
        return x + 0.02 * radius * rng.normal(size=x.shape)

    makes: dict[str, Callable[[Manifold, int, np.random.Generator], np.ndarray]] = {
        "even": even,
        "random": lambda manifold, n, rng: manifold.draw(n, rng),
        "steps": steps,
        "noise": lambda manifold, n, rng: noisy(manifold.draw(n, rng), rng),
        "strays": lambda manifold, n, rng: strays(n // 100)(manifold.draw(n, rng), rng),
        "copies": lambda manifold, n, rng: copies(2, 1e-5)(manifold.draw(n // 2, rng), rng),
    }
    return [
        Truth(
            f"{name}, {kind}, {n}",
            lambda rng, m=manifold, n=n, make=makes[kind]: make(m, n, rng),
            name,
        )  # type: ignore[misc]
        for name, manifold in FURTHER.items()
        for kind, n in (*product(makes, (500,)), ("random", 1500), ("steps", 1500))
    ]


def _large() -> list[Truth]:
    """A few random clouds of many points: seconds each."""
    sizes = {"circle": 100_000, "square": 100_000, "sphere": 50_000}
    return [
        # type: ignore[misc]
        Truth(f"{name}, random, {n}", lambda rng, m=name, n=n: MANIFOLDS[m].draw(n, rng), name)
        for name, n in sizes.items()
    ]


TRUTHS: list[Truth] = _clean() + _damaged() + _further() + _large()
