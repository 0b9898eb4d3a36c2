"""L and M of a cloud: units, order, copies, and solves with known answers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import eigsh, splu, spsolve

import eigenprobe as ep
from eigenprobe.decomposition import OperatorSettings
from tests import clouds as c

N = 2000


def _torus(n: int, rng: np.random.Generator) -> np.ndarray:
    return c.flat_torus(rng.random((n, 2)) * 2 * np.pi)


def _square(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random((n, 2))


def _cube(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random((n, 3))


def _circle(n: int, rng: np.random.Generator) -> np.ndarray:
    angle = rng.random(n) * 2 * np.pi
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def _interval(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random((n, 1))


MANIFOLDS: dict[str, tuple[c.Draw, float, int]] = {
    "circle": (_circle, 2 * np.pi, 1),
    "interval": (_interval, 1.0, 1),
    "sphere": (c.random_sphere, 4 * np.pi, 2),
    "torus": (_torus, 4 * np.pi**2, 2),
    "square": (_square, 1.0, 2),
    "cube": (_cube, 1.0, 3),
}


@pytest.mark.parametrize("name", MANIFOLDS)
@pytest.mark.parametrize("sampling", ["even", "random"])
def test_total_mass_is_the_size_in_the_units_of_the_points(
    name: str, sampling: str, rng: np.random.Generator
) -> None:
    draw, size, dimension = MANIFOLDS[name]
    x = c.even(draw, N, rng) if sampling == "even" else draw(N, rng)
    _, mass = ep.laplacian(7 * x)
    assert (mass.diagonal() > 0).mean() > 0.998
    assert mass.sum() / (7**dimension * size) == pytest.approx(
        1, abs=0.03 if sampling == "even" else 0.06
    )


def test_total_mass_of_the_vertices_of_a_mesh() -> None:
    u, v = np.meshgrid(
        np.arange(80) * 2 * np.pi / 80, np.arange(32) * 2 * np.pi / 32, indexing="ij"
    )
    radius = 1 + 0.4 * np.cos(v)
    x = np.stack([radius * np.cos(u), radius * np.sin(u), 0.4 * np.sin(v)], -1).reshape(-1, 3)
    _, mass = ep.laplacian(x)
    assert mass.sum() / (4 * np.pi**2 * 0.4) == pytest.approx(1, abs=0.03)


def test_volume_above_three_dimensions(rng: np.random.Generator) -> None:
    _, mass = ep.laplacian(c.flat_torus(rng.random((N, 2)) * 2 * np.pi), dimension=2)
    assert mass.sum() / (4 * np.pi**2) == pytest.approx(1, abs=0.03)
    angles = rng.random((6000, 4)) * 2 * np.pi
    x = np.concatenate([np.cos(angles), np.sin(angles)], 1)
    _, mass = ep.laplacian(x, dimension=4)
    assert mass.sum() / (2 * np.pi) ** 4 == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("name", ["circle", "sphere", "square", "cube"])
def test_symmetric_semidefinite_and_the_spectrum_of_decompose(
    name: str, rng: np.random.Generator
) -> None:
    x = 3 * MANIFOLDS[name][0](600, rng)
    stiffness, mass = ep.laplacian(x)
    assert abs(stiffness - stiffness.T).max() == 0
    largest = abs(stiffness).max()
    assert np.abs(stiffness @ np.ones(600)).max() < 1e-12 * largest
    root = mass.diagonal() ** -0.5
    values = np.linalg.eigvalsh(root[:, None] * stiffness.toarray() * root)
    assert values[0] > -1e-10 * values[-1]
    basis = ep.decompose(x, k=10)
    np.testing.assert_allclose(values[1:10], basis.eigenvalues[1:], rtol=1e-6)
    np.testing.assert_allclose(mass.diagonal() / mass.sum(), basis.mass, rtol=1e-9)


def test_rows_follow_the_given_order_and_units_scale(rng: np.random.Generator) -> None:
    x = c.fibonacci_sphere(5000)  # enough for points to be moved in memory
    order = rng.permutation(len(x))
    stiffness, mass = ep.laplacian(x)
    other, moved = ep.laplacian(10 * x[order])
    np.testing.assert_allclose(moved.diagonal(), 100 * mass.diagonal()[order], rtol=1e-6)
    smooth = x[:, 0] * x[:, 1]
    np.testing.assert_allclose(
        other @ smooth[order], (stiffness @ smooth)[order], rtol=1e-6, atol=1e-9
    )  # length^0


def test_copies_are_tied_and_share_the_mass(rng: np.random.Generator) -> None:
    x = c.random_sphere(400, rng)
    again = np.concatenate([x, x[:50], x[:10], x[:10]])
    single, own = ep.laplacian(x)
    with pytest.warns(ep.EigenprobeWarning, match="coincide"):
        stiffness, mass = ep.laplacian(again)
    m = mass.diagonal()
    assert (m > 0).all() and m.sum() == pytest.approx(own.sum(), rel=1e-9)
    np.testing.assert_allclose(m[400:450][10:], m[10:50])
    np.testing.assert_allclose(m[:10] * 4, own.diagonal()[:10], rtol=1e-9)
    values, vectors = np.linalg.eigh((stiffness / np.sqrt(m[:, None] * m)).toarray())
    root = own.diagonal() ** -0.5
    alone = np.linalg.eigvalsh(root[:, None] * single.toarray() * root)
    assert values[0] > -1e-9 * values[-1] and values[-1] < 2.01 * alone[-1] + 1e-9
    np.testing.assert_allclose(
        values[1:100], alone[1:100], rtol=1e-7
    )  # and nothing new among the low ones
    v = vectors[:, 1:20] / np.sqrt(m)[:, None]
    np.testing.assert_allclose(v[400:450], v[:50], atol=1e-8)


def test_poisson_on_the_sphere(rng: np.random.Generator) -> None:
    # -lap u = f with f = z + x y: degree 1 has eigenvalue 2 and degree 2 has 6, so u = z / 2 + x y
    # / 6.
    x = 2 * c.even(c.random_sphere, 3000, rng)  # radius 2: eigenvalues are l (l + 1) / 4
    stiffness, mass = ep.laplacian(x)
    f = x[:, 2] + x[:, 0] * x[:, 1]
    expected = 4 * (x[:, 2] / 2 + x[:, 0] * x[:, 1] / 6)
    pinned = np.zeros(len(x))
    pinned[1:] = spsolve(stiffness[1:, 1:].tocsc(), (mass @ f)[1:])
    found = pinned - (mass @ pinned).sum() / mass.sum()
    error = found - expected
    assert np.sqrt(error @ (mass @ error) / (expected @ (mass @ expected))) < 0.02


def test_heat_on_the_sphere(rng: np.random.Generator) -> None:
    x = c.even(c.random_sphere, 3000, rng)
    stiffness, mass = ep.laplacian(x)
    time, steps = 0.2, 200
    u = x[:, 2] + x[:, 0] * x[:, 1]  # backward Euler
    factor = splu((mass + time / steps * stiffness).tocsc())
    for _ in range(steps):
        u = factor.solve(mass @ u)
    expected = np.exp(-2 * time) * x[:, 2] + np.exp(-6 * time) * x[:, 0] * x[:, 1]
    assert np.abs(u - expected).max() < 0.02 * np.abs(expected).max()


def test_drop_in_for_generalised_eigenproblems() -> None:
    stiffness, mass = ep.laplacian(c.fibonacci_sphere(1000))
    values = np.sort(eigsh(stiffness, 9, mass, sigma=-1e-6)[0])
    np.testing.assert_allclose(values[1:], c.sphere_spectrum(9)[1:], rtol=0.02)


def test_a_solid_without_boundary_follows_its_dispersion(rng: np.random.Generator) -> None:
    angle = lambda n, rng: 2 * np.pi * rng.random((n, 3))  # noqa: E731
    x = c.even(lambda n, rng: np.concatenate([np.cos(a := angle(n, rng)), np.sin(a)], 1), 2000, rng)
    whole = np.arange(-4, 5.0) ** 2
    expected = np.sort((whole[:, None, None] + whole[:, None] + whole).ravel())[1:20]
    low = (
        0.074 * expected * (2 * np.pi / 2000 ** (1 / 3)) ** 2
    )  # the fourth moment of the stencil, in volumes of a point
    found = ep.decompose(2 * x, k=20, dimension=3).eigenvalues[1:]
    np.testing.assert_allclose(
        4 * found, expected * (1 - low), rtol=0.02
    )  # .0185 at most of 24 draws


def test_lists_and_tensors(rng: np.random.Generator) -> None:
    clouds = [c.random_sphere(200, rng), c.random_sphere(300, rng)]
    pairs = ep.laplacian(clouds)
    assert [stiffness.shape[0] for stiffness, _ in pairs] == [200, 300]
    stiffness, mass = ep.laplacian(torch.tensor(clouds[0], dtype=torch.float32))
    assert stiffness.layout == torch.sparse_csr and stiffness.dtype == mass.dtype == torch.float32
    np.testing.assert_allclose(
        stiffness.to_dense().numpy(), pairs[0][0].toarray(), rtol=2e-5, atol=1e-4
    )
    assert len(ep.laplacian(np.stack([clouds[0], clouds[0]]))) == 2


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda x: ep.laplacian(x[:, 0]), "shape"),
        (lambda x: ep.laplacian([]), "empty list"),
        (lambda x: ep.laplacian(x, smoother="row"), "symmetric smoother"),
        (lambda x: ep.laplacian(x, metric="cosine"), "Euclidean"),
    ],
)
def test_bad_input_is_one_clear_line(
    call: Callable[[np.ndarray], object], told: str, rng: np.random.Generator
) -> None:
    with pytest.raises(ep.InputError, match=told):
        call(rng.random((50, 3)) + 1)


@pytest.mark.parametrize("name", ["sphere", "square", "circle"])
def test_a_traced_operator_is_the_untraced_one(name: str, rng: np.random.Generator) -> None:
    """L and M of tensors with derivatives, up to the tolerance of the balance: the energy of
    coordinates, the mass of the whole, and its derivative along the points, dim times the mass."""
    x = MANIFOLDS[name][0](250, rng) * 3  # fewer than are looked at for a working sample
    stiffness, mass = ep.laplacian(x)
    moving = torch.from_numpy(x).requires_grad_()
    traced, own = ep.laplacian(moving)
    energy = x.T @ (traced.detach().to_dense().numpy() @ x)
    np.testing.assert_allclose(
        energy, x.T @ (stiffness @ x), rtol=0.01, atol=0.01 * np.abs(energy).max()
    )
    total = float(own.values().sum())
    assert total == pytest.approx(mass.diagonal().sum(), rel=0.01)
    own.values().sum().backward()
    assert moving.grad is not None
    grown = float(
        (moving.grad * moving.detach()).sum()
    )  # grown by a factor s it has s^dim times the mass
    assert grown == pytest.approx(MANIFOLDS[name][2] * total, rel=1e-6)


def test_a_potential_is_the_sum_of_every_row(rng: np.random.Generator) -> None:
    """L 1 = M V: the edges take nothing from the constant, and the potential is what is left."""
    x = c.random_sphere(250, rng) * 5
    for potential in (rng.random(250) + 0.5, 3 * x[:, 0]):
        stiffness, mass = ep.laplacian(x, potential=potential)
        expected = mass.diagonal() * potential
        np.testing.assert_allclose(
            stiffness @ np.ones(250), expected, atol=1e-9 * np.abs(stiffness).max()
        )
        plain, same = ep.laplacian(x)
        assert abs(same - mass).max() <= 1e-9 * abs(mass).max()
        np.testing.assert_allclose(
            (stiffness - plain).toarray(), np.diag(expected), atol=1e-3 * np.abs(stiffness).max()
        )


@pytest.mark.parametrize(("size", "dimension"), [(1e-98, 3), (1e98, 3), (1e-146, 2), (1e146, 2)])
def test_sizes_whose_areas_and_volumes_are_beyond_all_numbers(
    size: float, dimension: int, rng: np.random.Generator
) -> None:
    x = rng.random((120, dimension))
    with pytest.raises(ep.InputError, match="change the unit"):
        ep.laplacian(size * x, dimension=dimension)
    near = size**0.9
    stiffness, mass = ep.laplacian(near * x, dimension=dimension)
    unit, own = ep.laplacian(x, dimension=dimension)
    np.testing.assert_allclose(mass.diagonal() / near**dimension, own.diagonal(), rtol=1e-6)
    np.testing.assert_allclose(
        stiffness.diagonal() / near ** (dimension - 2), unit.diagonal(), rtol=1e-6
    )


def test_one_point_off_the_boundary_is_enough() -> None:
    angle = np.arange(60) * np.pi / 30
    x, mask = np.stack([np.cos(angle), np.sin(angle)], 1), np.arange(60) != 3
    stiffness, _ = ep.laplacian(x, boundary=mask)
    row = stiffness.toarray()[3]
    assert row[3] == pytest.approx(ep.laplacian(x)[0][3, 3]) and not np.delete(row, 3).any()


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("call", [ep.laplacian, ep.operators.gradient, OperatorSettings().prepare])
def test_an_operator_needs_three_points_as_one_vector_does(
    call: Callable[[np.ndarray], object],
) -> None:
    with pytest.raises(ep.InputError, match=r"^k=1 needs at least 3 points, got 2$"):
        call(np.eye(3)[:2])
    with pytest.raises(ep.InputError, match=r"^k=1 needs at least 3 distinct points, got 2$"):
        call(np.eye(3)[[0, 1, 1, 0]])
    call(np.eye(3))
