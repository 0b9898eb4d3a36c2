"""The defaults against spectra known in closed form, and against robust_laplacian on the same
points.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import eigenprobe as ep
from tests import clouds as c

N = 4000


def _plane(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random((n, 2))


def _line(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random((n, 1))


def _torus(n: int, rng: np.random.Generator) -> np.ndarray:
    return c.flat_torus(rng.random((n, 2)) * 2 * np.pi)


def _circle(n: int, rng: np.random.Generator) -> np.ndarray:
    angle = rng.random(n) * 2 * np.pi
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def _ring(n: int) -> np.ndarray:
    angle = np.arange(n) * 2 * np.pi / n
    return np.stack([np.cos(angle), np.sin(angle)], 1)


Case = tuple[Callable[[np.random.Generator], np.ndarray], Callable[[int], np.ndarray], float]
CASES: dict[str, Case] = {
    "sphere, Fibonacci": (lambda r: c.fibonacci_sphere(N), c.sphere_spectrum, 0.02),
    "sphere, farthest points": (lambda r: c.even(c.random_sphere, N, r), c.sphere_spectrum, 0.02),
    "sphere, random": (lambda r: c.random_sphere(N, r), c.sphere_spectrum, 0.025),
    "sphere, uneven": (
        lambda r: c.uneven(c.random_sphere, lambda x: 1 + 4.5 * (x[:, 2] + 1), N, r),
        c.sphere_spectrum,
        0.03,
    ),
    "torus, grid": (lambda r: c.flat_torus(c.grid(63) * 2 * np.pi), c.torus_spectrum, 0.02),
    "torus, farthest points": (lambda r: c.even(_torus, N, r), c.torus_spectrum, 0.02),
    "torus, random": (lambda r: _torus(N, r), c.torus_spectrum, 0.03),
    "torus, uneven": (
        lambda r: c.uneven(_torus, lambda x: 1 + 4.5 * (x[:, 0] + 1), N, r),
        c.torus_spectrum,
        0.04,
    ),
    "square, grid": (lambda r: c.grid(63), c.square_spectrum, 0.02),
    "square, vertices of a grid": (
        lambda r: (c.grid(63) - 1 / 126) * 63 / 62,
        c.square_spectrum,
        0.02,
    ),
    "square, farthest points": (lambda r: c.even(_plane, N, r), c.square_spectrum, 0.02),
    "square, random": (lambda r: _plane(N, r), c.square_spectrum, 0.03),
    "square, uneven": (
        lambda r: c.uneven(_plane, lambda x: 1 + 9 * x[:, 0], N, r),
        c.square_spectrum,
        0.04,
    ),
    "circle, grid": (lambda r: _ring(N), c.circle_spectrum, 0.001),
    "circle, random": (lambda r: _circle(N, r), c.circle_spectrum, 0.01),
    "circle, uneven": (
        lambda r: c.uneven(_circle, lambda x: 1 + 4.5 * (x[:, 0] + 1), N, r),
        c.circle_spectrum,
        0.01,
    ),
    "interval, grid": (lambda r: np.linspace(0, 1, N)[:, None], c.interval_spectrum, 0.001),
    "interval, random": (lambda r: _line(N, r), c.interval_spectrum, 0.01),
    "interval, uneven": (
        lambda r: c.uneven(_line, lambda x: 1 + 9 * x[:, 0], N, r),
        c.interval_spectrum,
        0.02,
    ),
}
FUNCTIONS = {"sphere": c.sphere_functions, "torus": c.torus_functions, "square": c.square_functions}


@pytest.mark.parametrize("name", CASES)
def test_analytic_spectrum(name: str, rng: np.random.Generator) -> None:
    make, spectrum, bound = CASES[name]
    x = make(rng)
    basis = ep.decompose(x, k=21)
    expected = spectrum(21)[1:]
    error = np.abs(basis.eigenvalues[1:] - expected) / expected
    assert error.mean() < bound
    manifold = name.split(",")[0]
    if manifold in FUNCTIONS:
        functions = FUNCTIONS[manifold](x)
        assert c.alignment(basis.vectors[:, : functions.shape[1]], functions, basis.mass) > 0.98
    else:
        steps = np.arange(11) if manifold == "interval" else np.arange(6)
        phase = np.pi * x[:, :1] if manifold == "interval" else np.arctan2(x[:, 1:], x[:, :1])
        waves = np.cos(phase * steps)
        if manifold == "circle":
            waves = np.concatenate([waves, np.sin(phase * steps[1:])], 1)
        assert c.alignment(basis.vectors[:, : waves.shape[1]], waves, basis.mass) > 0.98


@pytest.mark.parametrize("name", ["sphere", "torus", "square"])
def test_mass_measures_area_on_uneven_clouds(name: str, rng: np.random.Generator) -> None:
    x = CASES[f"{name}, uneven"][0](rng)
    coordinate = {"sphere": 2, "torus": 0, "square": 0}[name]
    density = 1 + (9 * x[:, 0] if name == "square" else 4.5 * (x[:, coordinate] + 1))
    mass = ep.decompose(x, k=5).mass
    assert np.isclose(mass.sum(), 1)
    # The area that belongs to one random point fluctuates; its expectation is one over the density.
    order = np.argsort(density)
    blocks = [order[i : i + 50] for i in range(0, len(order) - 49, 50)]
    found = [mass[block].mean() for block in blocks]
    assert np.corrcoef(found, [1 / density[block].mean() for block in blocks])[0, 1] > 0.95


@pytest.mark.parametrize(
    "name",
    [
        "sphere, farthest points",
        "sphere, random",
        "sphere, uneven",
        "donut, random",
        "donut, uneven",
    ],
)
def test_no_worse_than_robust_laplacian(name: str, rng: np.random.Generator) -> None:
    robust_laplacian = pytest.importorskip("robust_laplacian")
    from scipy.sparse.linalg import eigsh

    if name.startswith("donut"):
        x, expected = _donut(N, rng, name.endswith("uneven"))
    else:
        x, expected = CASES[name][0](rng), c.sphere_spectrum(21)[1:]
    stiffness, mass = robust_laplacian.point_cloud_laplacian(x)
    theirs = np.sort(eigsh(stiffness, 21, mass, sigma=-1e-6)[0])[1:]
    ours = ep.decompose(x, k=21).eigenvalues[1:]
    assert np.mean(np.abs(ours / expected - 1)) <= np.mean(np.abs(theirs / expected - 1))


def _donut(n: int, rng: np.random.Generator, uneven: bool) -> tuple[np.ndarray, np.ndarray]:
    """A torus of revolution in R^3; its reference spectrum from a fine grid of its one-dimensional
    problems.
    """
    big, small = 1.0, 0.4
    angles = rng.random((30 * n, 2)) * 2 * np.pi
    radius = big + small * np.cos(angles[:, 1])
    keep = rng.random(len(angles)) * (big + small) < radius
    if uneven:
        keep &= rng.random(len(angles)) * 10 < 1 + 4.5 * (1 + np.cos(angles[:, 0]))
    u, v = angles[keep][:n].T
    radius = big + small * np.cos(v)
    # f(v) e^{imu}:  -(r f')' / (small^2 r) + m^2 f / r^2 = lambda f, by finite volumes on 800 cells
    cells = 800
    step = 2 * np.pi / cells
    centre = big + small * np.cos(np.arange(cells) * step)
    face = big + small * np.cos((np.arange(cells) + 0.5) * step)
    values = []
    for m in range(8):
        matrix = np.diag((face + np.roll(face, 1)) / (small * step) ** 2 + m**2 / centre)
        index = np.arange(cells)
        matrix[index, (index + 1) % cells] -= face / (small * step) ** 2
        matrix[(index + 1) % cells, index] -= face / (small * step) ** 2
        scale = 1 / np.sqrt(centre)
        low = np.linalg.eigvalsh(matrix * scale[:, None] * scale)[:12]
        values.append(np.repeat(low, 1 if m == 0 else 2))
    points = np.stack([radius * np.cos(u), radius * np.sin(u), small * np.sin(v)], 1)
    return points, np.sort(np.concatenate(values))[1:21]
