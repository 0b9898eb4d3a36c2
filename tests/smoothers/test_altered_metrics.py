"""Anisotropic, weighted and scale-invariant operators against spectra known in closed form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import eigh_tridiagonal

import eigenprobe as ep
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.smoothers.alteration import curvature
from tests import clouds as c


def _square(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random((n, 2))


def _torus(n: int, rng: np.random.Generator) -> np.ndarray:
    return c.flat_torus(2 * np.pi * rng.random((n, 2)))


def _cylinder(n: int, rng: np.random.Generator) -> np.ndarray:
    angle = 2 * np.pi * rng.random(n)
    return np.stack([np.cos(angle), np.sin(angle), 3 * rng.random(n)], 1)


def _catenoid(n: int, rng: np.random.Generator) -> np.ndarray:
    """|z| < 1.2, even in area."""
    z = 1.2 * (2 * rng.random(5 * n) - 1)
    z = z[rng.random(5 * n) < (np.cosh(z) / np.cosh(1.2)) ** 2][:n]
    angle = 2 * np.pi * rng.random(len(z))
    return np.stack([np.cosh(z) * np.cos(angle), np.cosh(z) * np.sin(angle), z], 1)


def _errors(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    assert abs(found[0]) < 1e-6 * found[-1]
    return np.abs(found[1:] / expected[1:] - 1)


def _sums(a: np.ndarray, b: np.ndarray, k: int = 20) -> np.ndarray:
    return np.sort((a[:, None] + b).ravel())[:k]


@pytest.mark.parametrize("strength", [0.5, 1.0, 2.0])
def test_a_stretched_torus(strength: float, rng: np.random.Generator) -> None:
    x = 2 * c.even(_torus, 4000, rng)
    field = (
        strength * np.stack([-x[:, 2], np.zeros(4000), x[:, 0], np.zeros(4000)], 1) / 2
    )  # along the first angle
    whole = np.arange(-20, 21.0) ** 2 / 4
    basis = ep.decompose(x, k=20, anisotropy=field)
    assert _errors(basis.eigenvalues, _sums(whole / (1 + strength) ** 2, whole)).max() < 0.02
    assert basis.info["anisotropy"] and np.allclose(basis.vectors[:, 0], 1)
    stiffness, mass = ep.laplacian(x, anisotropy=torch.as_tensor(field))
    assert mass.sum() == pytest.approx(16 * np.pi**2 * (1 + strength), rel=0.03)
    f = basis.vectors[:, 5]
    assert f @ (stiffness @ f) / (f @ (mass @ f)) == pytest.approx(basis.eigenvalues[5], rel=1e-5)


def test_a_stretched_square_is_a_rectangle(rng: np.random.Generator) -> None:
    x, turn = c.even(_square, 4000, rng), np.array([[0.8, -0.6], [0.6, 0.8]])
    free = np.arange(30.0) ** 2 * np.pi**2
    basis = ep.decompose(x @ turn.T, k=20, anisotropy=np.tile(turn[:, 0], (4000, 1)))
    assert _errors(basis.eigenvalues, _sums(free / 4, free)).max() < 0.02
    longer = ep.decompose(x * [2, 1], k=20, anisotropy=np.zeros((4000, 2)))
    np.testing.assert_allclose(basis.eigenvalues[1:], longer.eigenvalues[1:], rtol=0.02)


def test_a_zero_field_and_the_length_of_a_curve(rng: np.random.Generator) -> None:
    x = c.random_sphere(600, rng)
    still = ep.decompose(x, k=6, anisotropy=np.zeros((600, 3)), dimension=2)
    np.testing.assert_allclose(
        still.eigenvalues, ep.decompose(x, k=6, dimension=2).eigenvalues, rtol=0.03, atol=1e-6
    )
    line = np.linspace(0, 1, 800)[:, None]
    longer = ep.decompose(
        line, k=12, anisotropy=1.0 + line
    )  # length of the metric: int 1 + 1 + t dt = 5/2
    assert _errors(longer.eigenvalues, (np.arange(12) * np.pi / 2.5) ** 2).max() < 0.0005


def test_strongest_curvature_of_a_cylinder(rng: np.random.Generator) -> None:
    x = 2 * c.even(_cylinder, 4000, rng)
    basis = ep.decompose(x, k=20, anisotropy=1.0)  # around the axis: a cylinder of twice the radius
    around, along = np.arange(-30, 31.0) ** 2 / 4, (np.arange(20) * np.pi / 3) ** 2
    assert (
        _errors(4 * basis.eigenvalues, _sums(around, along)).max() < 0.028
    )  # eight draws: .015 to .0278


def test_rows_of_a_grid_are_no_lines() -> None:
    # Neighbours up to the first that cancel were those of one row: 65 per cent off.
    x = c.grid(60) * [3, 1]
    free = np.arange(30.0) ** 2 * np.pi**2
    assert _errors(ep.decompose(x, k=20).eigenvalues, _sums(free / 9, free)).max() < 0.04


def test_a_weighted_square(rng: np.random.Generator) -> None:
    # rho = exp(-2 c x): f'' - 2 c f' = -lambda f with free ends has 0 and c^2 + (j pi)^2.
    x, slope = c.even(_square, 4000, rng), 2.0
    free = np.arange(30.0) ** 2 * np.pi**2
    drifting = free + slope**2 * (free > 0)
    rho = 7 * np.exp(-2 * slope * x[:, 0])
    basis = ep.decompose(3 * x, k=20, measure=rho)
    assert _errors(9 * basis.eigenvalues, _sums(drifting, free)).max() < 0.02
    _, mass = ep.laplacian(3 * x, measure=rho)
    assert mass.sum() == pytest.approx(9 * 7 * (1 - np.exp(-2 * slope)) / (2 * slope), rel=0.03)
    np.testing.assert_allclose(mass.diagonal() / mass.sum(), basis.mass, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_alpha_of_diffusion_maps(alpha: float) -> None:
    # Samples of density exp(-2 x) on [0, 1]: rho = q^(2 - 2 alpha), a drift of (1 - alpha) 2.
    place = (np.arange(3000) + 0.5) / 3000
    x = -np.log(1 - place * (1 - np.exp(-2.0))) / 2
    values = ep.decompose(x[:, None], k=20, measure=alpha).eigenvalues
    line = (np.arange(20) * np.pi) ** 2
    assert _errors(values, line + (2 * (1 - alpha)) ** 2 * (line > 0)).max() < 0.0025


def test_alpha_on_random_samples(rng: np.random.Generator) -> None:
    x = c.uneven(_square, lambda x: 10 * np.exp(-2 * x[:, 0]), 4000, rng)
    free = np.arange(30.0) ** 2 * np.pi**2
    values = ep.decompose(x, k=20, measure=0.5).eigenvalues
    assert _errors(values, _sums(free + (free > 0), free)).mean() < 0.04


def _spherical_zone(end: float, k: int, n: int = 3000) -> np.ndarray:
    """The catenoid |z| < end in the metric |K| g is a zone of the unit sphere: -f'' + m^2 f =
    lambda f / cosh^2 z.
    """
    step = 2 * end / n
    weight = np.cosh(-end + step * (np.arange(n) + 0.5)) ** -2.0
    values: list[float] = []
    for m in range(8):
        diagonal = np.full(n, 2.0)
        diagonal[[0, -1]] = 1
        diagonal, off = (
            (diagonal / step**2 + m**2) / weight,
            -1 / step**2 / np.sqrt(weight[1:] * weight[:-1]),
        )
        found = eigh_tridiagonal(diagonal, off, select="i", select_range=(0, 7), eigvals_only=True)
        values += list(found) * (1 if m == 0 else 2)
    return np.sort(values)[:k]


@pytest.mark.parametrize("size", [0.2, 5.0])
def test_scale_invariant_sphere_and_catenoid(size: float, rng: np.random.Generator) -> None:
    sphere = ep.decompose(size * c.fibonacci_sphere(3000), k=20, metric="scale-invariant")
    assert _errors(sphere.eigenvalues, c.sphere_spectrum(20)).max() < 0.02
    catenoid = size * c.even(_catenoid, 4000, rng)
    values = ep.decompose(catenoid, k=20, metric="scale-invariant").eigenvalues
    assert _errors(values, _spherical_zone(1.2, 20)).max() < 0.02
    _, mass = ep.laplacian(catenoid, metric="scale-invariant")
    assert mass.sum() == pytest.approx(
        4 * np.pi * np.tanh(1.2), rel=0.03
    )  # the area of its image under the Gauss map


def test_curvatures_of_a_torus(rng: np.random.Generator) -> None:
    u, v = 2 * np.pi * rng.random((2, 12000))
    keep = rng.random(12000) < (1 + 0.4 * np.cos(v)) / 1.4
    u, v = u[keep][:6000], v[keep][:6000]
    radius = 1 + 0.4 * np.cos(v)
    x = torch.as_tensor(np.stack([radius * np.cos(u), radius * np.sin(u), 0.4 * np.sin(v)], 1))
    found = curvature(build_graph(x, 30), 2)
    off = np.abs(found.gaussian.numpy() - np.cos(v) / (0.4 * radius))
    assert np.quantile(off, 0.999) < 0.15 and off.max() < 0.4  # the worst of 6000: .29 of 13 draws
    np.testing.assert_allclose(found.values[:, 0].abs(), 2.5, rtol=0.1)
    around = np.stack(
        [-np.sin(v) * np.cos(u), -np.sin(v) * np.sin(u), np.cos(v)], 1
    )  # the small circles
    assert np.abs((found.direction.numpy() * around).sum(1)).min() > 0.98


def test_potential_and_boundary_in_the_matrices(rng: np.random.Generator) -> None:
    line = np.linspace(0, 2, 900)[:, None]
    v = 5 * line[:, 0]
    basis = ep.decompose(line, k=6, potential=v, boundary="dirichlet")
    stiffness, mass = ep.laplacian(line, potential=v, boundary="dirichlet")
    assert abs(stiffness - stiffness.T).max() == 0
    residual = stiffness @ basis.vectors - (mass @ basis.vectors) * basis.eigenvalues
    assert np.abs(residual / mass.diagonal()[:, None]).max() < 1e-3 * basis.eigenvalues[-1]


def test_lists_files_and_meshes_are_taken_by_both_doors(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    clouds = [c.fibonacci_sphere(200), 2 * c.fibonacci_sphere(300)]
    np.save(tmp_path / "cloud.npy", clouds[0])
    weights = [np.exp(x[:, 2]) for x in clouds]
    pairs = ep.laplacian(clouds, measure=weights)
    for x, rho, (stiffness, mass) in zip(clouds, weights, pairs, strict=True):
        one, own = ep.laplacian(x, measure=rho)
        assert abs(stiffness - one).max() == 0 and abs(mass - own).max() == 0
    from_file, _ = ep.laplacian(tmp_path / "cloud.npy")
    mesh = (clouds[0], np.array([[0, 1, 2], [1, 2, 3]]))
    assert abs(from_file - ep.laplacian(mesh)[0]).max() == 0
    assert abs(from_file - ep.laplacian([tmp_path / "cloud.npy"])[0][0]).max() == 0
    with pytest.raises(ep.InputError, match="cloud 1: expected measure of shape"):
        ep.laplacian(clouds, measure=[weights[0], weights[0]])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"anisotropy": np.ones((200, 2))}, r"anisotropy of shape \(200, 3\), got \(200, 2\)"),
        ({"anisotropy": np.ones((9, 3))}, "with n=200"),
        ({"anisotropy": -1.0}, "above 0, got -1"),
        ({"anisotropy": float("nan")}, "anisotropy must be a finite number or .*, got nan"),
        ({"anisotropy": 1.0, "smoother": "symmetric"}, "'adaptive'"),
        ({"anisotropy": 1.0, "bandwidth": 0.1}, "without a bandwidth"),
        ({"measure": np.zeros(200)}, "weights above 0, got 0"),
        ({"measure": np.ones(7)}, "measure of shape"),
        ({"measure": float("inf")}, "measure must be a finite number or .*, got inf"),
        ({"measure": 0.5, "smoother": "row"}, "symmetric smoother"),
        ({"measure": 0.5, "method": "network"}, "measure is known to method 'direct' only"),
        ({"metric": "scale-invariant", "method": "pretrained"}, "'direct' only"),
        ({"metric": "hyperbolic"}, "metric"),
    ],
)
def test_bad_input_is_one_clear_line(options: dict[str, object], told: str) -> None:
    with pytest.raises(ep.InputError, match=told):
        ep.decompose(c.fibonacci_sphere(200), 4, **options)  # type: ignore[call-overload]


def test_a_flat_cloud_has_no_scale_invariant_metric(rng: np.random.Generator) -> None:
    with pytest.raises(ep.InputError, match="surface in three dimensions"):
        ep.decompose(rng.random((300, 2)), k=4, metric="scale-invariant")
    with pytest.raises(ep.InputError, match="curved surface, got a flat one"):
        flat = np.concatenate([rng.random((300, 2)), np.zeros((300, 1))], 1)
        ep.decompose(flat, k=4, metric="scale-invariant", dimension=2)
