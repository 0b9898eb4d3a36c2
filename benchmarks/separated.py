"""Surfaces of revolution, shells, curves and rolled sheets, whose spectra are those of functions of
one variable.

    surface of revolution    -(r f')' / r + (m / r)^2 f = lambda f   m = 0, 1, 1, 2, 2, ...; along
                             the profile
    spherical shell          -(r^2 f')' / r^2 + l (l + 1) / r^2 f = lambda f   2 l + 1 times
    curve of length L        (pi i / L)^2 between free ends, (2 pi i / L)^2 twice where it closes
    product                  sums of the eigenvalues of its factors

Profiles are functions of ``t (n,)`` in [0, 1]; a draw is uniform in length, area or volume.  Finite
volumes of `CELLS` cells solve for ``f`` with free ends, to about 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.sparse import coo_array
from scipy.sparse.linalg import eigsh

Draw = Callable[[int, np.random.Generator], np.ndarray]
Spectrum = Callable[[int], np.ndarray]
Number = Callable[[np.ndarray], np.ndarray]  # (n,) -> (n,)
Profile = Callable[[np.ndarray], np.ndarray]  # (n,) -> (n, d)
CELLS, FINE = 2000, 40_000
WAVES = 14  # m and l up to which waves are among the first twenty


def along(
    area: np.ndarray, inside: np.ndarray, size: float, potential: np.ndarray, k: int, closed: bool
) -> np.ndarray:
    """The first ``k`` of -(a f')' + a q f = lambda a f, from ``a`` at faces (N + 1,) and ``a``,
    ``q`` in cells (N,).
    """
    mass, flux = inside * size, area[1:-1] / size
    diagonal = mass * potential
    diagonal[:-1] += flux
    diagonal[1:] += flux
    root = np.sqrt(mass)
    if not closed:
        off = -flux / (root[1:] * root[:-1])
        return eigh_tridiagonal(diagonal / mass, off, select="i", select_range=(0, k - 1))[0]
    n, last = len(mass), area[0] / size
    diagonal[0] += last
    diagonal[-1] += last
    one, other = np.arange(n), np.roll(np.arange(n), -1)
    weights = -np.append(flux, last) / (root[one] * root[other])
    entries = np.concatenate([diagonal / mass, weights, weights])
    ends = (np.concatenate([one, one, other]), np.concatenate([one, other, one]))
    matrix = coo_array((entries, ends), shape=(n, n)).tocsc()
    return np.sort(eigsh(matrix, k, sigma=-1e-3, return_eigenvectors=False))


def merged(parts: list[np.ndarray], k: int) -> np.ndarray:
    return np.maximum(np.sort(np.concatenate(parts))[:k], 0.0)


def _arc(profile: Profile) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parameters, points and arc lengths of a profile, finely."""
    t = np.linspace(0, 1, FINE + 1)
    x = profile(t)
    return t, x, np.append(0.0, np.cumsum(np.linalg.norm(np.diff(x, axis=0), axis=1)))


def revolution(radius: Number, height: Number, closed: bool = False) -> tuple[Draw, Spectrum]:
    """The surface that a profile (radius, height) sweeps; flat where its height is constant."""
    t, x, arc = _arc(lambda t: np.stack([radius(t), height(t)], 1))
    swept = np.append(0.0, np.cumsum((x[1:, 0] + x[:-1, 0]) / 2 * np.diff(arc)))

    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        at, angle = np.interp(rng.random(n) * swept[-1], swept, t), rng.random(n) * 2 * np.pi
        flat = np.stack([radius(at) * np.cos(angle), radius(at) * np.sin(angle)], 1)
        return np.column_stack([flat, height(at)]) if np.ptp(x[:, 1]) else flat

    @cache
    def spectrum(k: int) -> np.ndarray:
        faces, size = np.linspace(0, arc[-1], CELLS + 1, retstep=True)
        around, inside = (
            np.maximum(np.interp(s, arc, x[:, 0]), 1e-12) for s in (faces, faces[1:] - size / 2)
        )
        waves = [
            along(around, inside, size, (m / inside) ** 2, min(k, 12), closed) for m in range(WAVES)
        ]
        return merged([waves[0], *waves[1:], *waves[1:]], k)

    return draw, spectrum


def shell(inner: float) -> tuple[Draw, Spectrum]:
    """What lies between a sphere of radius ``inner`` and one of radius 1."""

    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        x = rng.normal(size=(n, 3))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        return x * (inner**3 + rng.random((n, 1)) * (1 - inner**3)) ** (1 / 3)

    @cache
    def spectrum(k: int) -> np.ndarray:
        faces, size = np.linspace(inner, 1, CELLS + 1, retstep=True)
        r = faces[1:] - size / 2
        waves = [
            (along(faces**2, r**2, size, m * (m + 1) / r**2, min(k, 6), False), 2 * m + 1)
            for m in range(8)
        ]
        return merged([each for each, count in waves for _ in range(count)], k)

    return draw, spectrum


def lengths(size: float, closed: bool, k: int) -> np.ndarray:
    """The first ``k`` of a curve of length ``size``."""
    waves = (
        (np.arange(k) + 1) // 2 * 2 if closed else np.arange(k)
    )  # halves: 0, 2, 2, 4, 4, ... or 0, 1, 2, ...
    return (np.pi * waves / size) ** 2


def curve(profile: Profile, closed: bool = False, width: float = 0.0) -> tuple[Draw, Spectrum]:
    """A curve; with a ``width`` a sheet that stands on it, in one dimension more."""
    t, _, arc = _arc(profile)

    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        x = profile(np.interp(rng.random(n) * arc[-1], arc, t))
        return np.column_stack([x, width * rng.random(n)]) if width else x

    def spectrum(k: int) -> np.ndarray:
        own = lengths(arc[-1], closed, k)
        return np.sort((own[:, None] + lengths(width, False, k)).ravel())[:k] if width else own

    return draw, spectrum
