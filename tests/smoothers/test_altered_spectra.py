"""Potentials and boundaries against spectra known in closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import jn_zeros, spherical_jn

import eigenprobe as ep
from tests import clouds as c


def _disk(n: int, rng: np.random.Generator) -> np.ndarray:
    """Even points of the unit disk: rings of equal spacing, the last one on the boundary."""
    rings = round(np.sqrt(n / np.pi))
    radii = np.arange(1, rings + 1) / rings
    parts = [np.zeros((1, 2))]
    for ring, radius in enumerate(radii, 1):
        count = round(2 * np.pi * ring)
        angle = (np.arange(count) + rng.random()) * 2 * np.pi / count
        parts.append(radius * np.stack([np.cos(angle), np.sin(angle)], 1))
    return np.concatenate(parts)


def _random_disk(n: int, rng: np.random.Generator) -> np.ndarray:
    radius, angle = np.sqrt(rng.random(n)), rng.random(n) * 2 * np.pi
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


def _disk_spectrum(k: int) -> np.ndarray:
    values = [np.repeat(jn_zeros(order, 10) ** 2, 1 if order == 0 else 2) for order in range(12)]
    return np.sort(np.concatenate(values))[:k]


def _dirichlet_square(k: int) -> np.ndarray:
    a = np.arange(1, 20.0) ** 2 * np.pi**2
    return np.sort((a[:, None] + a).ravel())[:k]


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found / expected - 1).max())


def test_harmonic_well_on_an_interval() -> None:
    # -u'' + (w x)^2 u = lambda u on the line: lambda = w (2 j + 1).  Length 4 instead of 2: units
    # count.
    x, w = np.linspace(-2, 2, 3000)[:, None], 50.0
    basis = ep.decompose(x, k=20, potential=(w * x[:, 0]) ** 2)
    assert _error(basis.eigenvalues, w * (2 * np.arange(20) + 1)) < 0.0003
    ground = np.exp(-w * x[:, 0] ** 2 / 2)
    ground /= np.sqrt(basis.mass @ ground**2)
    np.testing.assert_allclose(basis.vectors[:, 0], ground, atol=0.01 * ground.max())
    np.testing.assert_allclose(basis.normalized.T @ basis.normalized, np.eye(20), atol=1e-8)
    assert basis.mass.sum() == pytest.approx(1) and basis.info["potential"]
    np.testing.assert_allclose(
        basis.mass[1:-1], 1 / 2999, rtol=1e-6
    )  # lengths, as without the potential


def test_harmonic_well_on_a_disk(rng: np.random.Generator) -> None:
    x, w = 3 * _disk(6000, rng), 20.0 / 9
    basis = ep.decompose(x, k=20, potential=w**2 * (x**2).sum(1))
    expected = np.concatenate([[2 * w * (level + 1)] * (level + 1) for level in range(6)])[:20]
    assert _error(basis.eigenvalues, expected) < 0.02


def test_a_constant_potential_shifts_the_spectrum(rng: np.random.Generator) -> None:
    x = c.random_sphere(700, rng)
    plain, shifted = ep.decompose(x, k=8), ep.decompose(x, k=8, potential=np.full(700, -3.0))
    np.testing.assert_allclose(shifted.eigenvalues, plain.eigenvalues - 3, atol=1e-6)
    np.testing.assert_allclose(shifted.mass, plain.mass)


def test_potential_has_the_units_of_eigenvalues_and_the_order_of_points(
    rng: np.random.Generator,
) -> None:
    x = c.random_sphere(2500, rng)
    order, v = rng.permutation(2500), 5 * x[:, 2]
    basis = ep.decompose(x, k=6, potential=v)
    other = ep.decompose(10 * x[order], k=6, potential=torch.tensor(v[order] / 100))
    np.testing.assert_allclose(100 * other.eigenvalues, basis.eigenvalues, rtol=1e-5)
    np.testing.assert_allclose(
        np.abs(other.vectors[:, 0]), np.abs(basis.vectors[order, 0]), atol=1e-4
    )
    # Symmetric: sum of v q^2 + Dirichlet energy is the eigenvalue.
    stiffness, mass = ep.laplacian(x)
    u = basis.vectors[:, 3]
    energy = (u @ (stiffness @ u) + (mass @ (v * u**2)).sum()) / (u @ (mass @ u))
    assert energy == pytest.approx(basis.eigenvalues[3], rel=1e-5)


def test_dirichlet_interval() -> None:
    x = np.linspace(0, 3, 1000)[:, None]
    basis = ep.decompose(x, k=20, boundary="dirichlet")
    assert _error(basis.eigenvalues, (np.pi * np.arange(1, 21) / 3) ** 2) < 0.001
    assert np.abs(basis.vectors[[0, -1]]).max() < 1e-8
    np.testing.assert_allclose(basis.vectors[:, 0], 2**0.5 * np.sin(np.pi * x[:, 0] / 3), atol=1e-2)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_dirichlet_disk_in_space(noise: float, rng: np.random.Generator) -> None:
    """The first zero of J_0 squared, 5.783: gaps of a noisy sheet are no boundary (26.4 when they
    were).
    """
    radius, angle = rng.random(4000) ** 0.5, rng.uniform(0, 2 * np.pi, 4000)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle], 1)
    x += noise * rng.normal(size=x.shape)
    basis = ep.decompose(x, k=3, boundary="dirichlet", dimension=2)
    rows = basis.info["boundary"]
    inside = (
        np.linalg.norm(x[rows, :2], axis=1) < 0.9
    )  # with noise 0 to 2 of 104 to 141 in eight draws
    assert inside.mean() < (0.1 if noise else 0.001) and len(rows) > 60
    assert basis.eigenvalues[0] == pytest.approx(
        5.783, rel=0.27 if noise else 0.15
    )  # 4.4 to 4.9 in eight draws
    assert np.abs(basis.vectors[rows]).max() < 1e-5


def test_a_noisy_closed_surface_has_no_boundary(rng: np.random.Generator) -> None:
    x = c.random_sphere(4000, rng)
    with pytest.raises(ep.InputError, match="the cloud is closed"):
        ep.decompose(x + 0.02 * rng.normal(size=x.shape), k=3, boundary="dirichlet", dimension=2)


@pytest.mark.parametrize("sampling", ["vertices", "even"])
def test_dirichlet_square(sampling: str, rng: np.random.Generator) -> None:
    if sampling == "even":
        x = c.even(lambda n, r: r.random((n, 2)), 4000, rng)
    else:
        x = (c.grid(63) - 1 / 126) * 63 / 62
    basis = ep.decompose(2 * x, k=20, boundary="dirichlet")
    error = np.abs(basis.eigenvalues / (_dirichlet_square(20) / 4) - 1)
    assert error.mean() < 0.02 and error.max() < 0.06
    assert (basis.vectors[:, 0] > -1e-8).all()


@pytest.mark.parametrize("draw", [_disk, lambda n, r: c.even(_random_disk, n, r)])
def test_dirichlet_disk(draw: c.Draw, rng: np.random.Generator) -> None:
    basis = ep.decompose(draw(4000, rng), k=20, boundary="dirichlet")
    error = np.abs(basis.eigenvalues / _disk_spectrum(20) - 1)
    assert error.mean() < 0.01 and error.max() < 0.02


def _cube_spectrum(k: int) -> np.ndarray:
    a = np.arange(1, 8.0) ** 2 * np.pi**2
    return np.sort((a[:, None, None] + a[:, None] + a).ravel())[:k]


def test_dirichlet_lattice_errs_by_its_dispersion_alone() -> None:
    # A lattice of step h with weights w, v to its 6 + 12 nearest: sum w l^4 / (120 m) = h^2 / 20 (w
    # + 8 v) / (w + 4 v), and v = w as they start: .41 per cent per pi^2. Faces that the last,
    # half-seen shell of neighbours tilted were no boundary: 14 per cent.
    line = np.linspace(0, 1, 16)
    x = np.stack(np.meshgrid(line, line, line), -1).reshape(-1, 3)
    found, exact = ep.decompose(x, k=20, boundary="dirichlet").eigenvalues, _cube_spectrum(20)
    assert _error(found, exact * (1 - 9 / 5 / 20 / 15**2 * exact)) < 0.004


def test_dirichlet_ball(rng: np.random.Generator) -> None:
    # Points up to the boundary and on it: a wave of the twentieth mode is 20 points long.
    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        x = c.random_sphere(n, rng)
        return x * np.minimum(1.07 * rng.random((n, 1)) ** (1 / 3), 1)

    roots = [(_roots(order), 2 * order + 1) for order in range(6)]
    expected = np.sort(np.concatenate([np.repeat(each**2, count) for each, count in roots]))[:20]
    basis = ep.decompose(c.even(draw, 20000, rng), k=20, boundary="dirichlet")
    assert _error(basis.eigenvalues, expected) < 0.02


def _roots(order: int) -> np.ndarray:
    """Where a spherical Bessel function vanishes, up to 12."""
    x = np.linspace(0.5, 12, 200)
    value = spherical_jn(order, x)
    places = np.flatnonzero(value[1:] * value[:-1] < 0)
    return np.array([brentq(lambda t: spherical_jn(order, t), x[i], x[i + 1]) for i in places])


def test_mixed_boundary_by_a_mask() -> None:
    x = np.linspace(0, 1, 1500)[
        :, None
    ]  # 0 at the left end, free at the right one: ((j + 1/2) pi)^2
    basis = ep.decompose(x, k=20, boundary=x[:, 0] == 0)
    assert _error(basis.eigenvalues, (np.pi * (np.arange(20) + 0.5)) ** 2) < 0.0004


def test_well_with_walls() -> None:
    x = np.linspace(0, 1, 2000)[:, None]
    basis = ep.decompose(x, k=5, potential=np.full(2000, 7.0), boundary="dirichlet")
    assert _error(basis.eigenvalues, (np.pi * np.arange(1, 6)) ** 2 + 7) < 0.00005


def test_mask_holds_for_copies(rng: np.random.Generator) -> None:
    x = c.random_sphere(500, rng)
    again, mask = np.concatenate([x, x[:5]]), np.zeros(505, bool)
    mask[500:] = True
    with pytest.warns(ep.EigenprobeWarning, match="coincide"):
        basis = ep.decompose(again, k=4, boundary=mask)
    assert np.abs(basis.vectors[mask]).max() < 1e-5 and np.abs(basis.vectors[:5]).max() < 1e-5
    assert basis.eigenvalues[0] > 0.01


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"potential": np.zeros(3)}, "potential of shape"),
        (
            {"potential": np.full(200, np.nan)},
            "potential must be an array of finite numbers or None, got .* with NaN",
        ),
        ({"boundary": np.zeros(200)}, "mask of bools"),
        ({"boundary": np.ones(200, bool)}, "covers all 200"),
        (
            {"boundary": np.arange(200) > 2},
            "k=4 vectors need at least 4 points off the boundary, got 3",
        ),
        ({"boundary": "neumann"}, "must be 'dirichlet'"),
        ({"boundary": "dirichlet"}, "no boundary"),
        ({"potential": np.zeros(200), "smoother": "row"}, "symmetric smoother"),
        ({"potential": np.zeros(200), "method": "network"}, "'direct' only"),
    ],
)
def test_bad_input_is_one_clear_line(options: dict[str, object], told: str) -> None:
    call: Callable[..., object] = ep.decompose
    with pytest.raises(ep.InputError, match=told):
        call(c.fibonacci_sphere(200), k=4, **options)
