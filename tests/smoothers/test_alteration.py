"""Altered operators against dense matrices: potentials, boundaries, measures, in the units of the caller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.graph.arranged import Arranged, arrange
from eigenprobe.graph.graph import build_graph
from eigenprobe.smoothers import Smoother, build_smoother
from eigenprobe.smoothers.alteration import alter, anisotropic_field, neighbours_along, numbers, vanishing
from tests import clouds as c


@pytest.fixture(scope="module")
def sphere() -> Smoother:
    return build_smoother(torch.from_numpy(c.fibonacci_sphere(120)), "adaptive", k=12, dimension=2)


def walk(smoother: Smoother) -> torch.Tensor:
    """``M^-1/2 A M^1/2``, whose rows sum to 1 where nothing is lost."""
    assert smoother.mass is not None
    root = smoother.mass.double().sqrt()
    return smoother.matrix.to_dense().double() / root[:, None] * root


def arranged(x: np.ndarray) -> tuple[Arranged, Smoother]:
    cloud = arrange(torch.from_numpy(x), 20, 5)
    return cloud, build_smoother(cloud.graph, "adaptive", dimension=2)


def dense_operator(smoother: Smoother) -> tuple[np.ndarray, np.ndarray]:
    """``M^-1 (R - W) (n, n)`` and the mass."""
    eye = torch.eye(smoother.n, dtype=torch.float64)
    return ((eye - walk(smoother)) / float(smoother.step_time)).numpy(), smoother.mass.numpy()


@pytest.fixture
def bowl(rng: np.random.Generator) -> tuple[Arranged, Smoother]:
    x = 4 * c.random_sphere(220, rng) * [1.0, 0.8, 1.2] + 3  # other units, off the origin
    return arranged(x)


@pytest.mark.parametrize(
    ("anisotropy", "expected"),
    [(0.5, 45), (2.0, 90), (9.0, 120), (-1.0, 30), ([[3.0, 4.0], [0.3, 0.4]], 120), ([[0.3, 0.4]], 45)]
    + [(float("nan"), 30), (np.empty((0, 3)), 30)],
)
def test_an_ellipse_needs_more_neighbours(anisotropy: Any, expected: int) -> None:
    assert neighbours_along(anisotropy, 30) == expected


def test_a_strength_follows_the_strongest_curvature(rng: np.random.Generator) -> None:
    from eigenprobe.smoothers.alteration import curvature

    cloud, smoother = arranged(c.random_sphere(200, rng) * [1.0, 0.6, 1.5])
    bent = curvature(cloud.graph, 2)
    large, small = bent.values.square().unbind(1)
    expected = 1.5 * ((large - small) / (large + small))[:, None] * bent.direction
    torch.testing.assert_close(anisotropic_field(1.5, cloud, 2), expected)
    given = rng.normal(size=(200, 3))
    found = anisotropic_field(given, cloud, 2)
    torch.testing.assert_close(found, cloud.collect(torch.from_numpy(given)))
    for wrong, match in (
        (0.0, "above 0, got 0"),
        (-1.0, "above 0, got -1"),
        (float("inf"), "above 0, got inf"),
        (given[:, :2], r"anisotropy of shape \(200, 3\), got \(200, 2\)"),
        (given[:9], "n=200"),
    ):
        with pytest.raises(InputError, match=match):
            anisotropic_field(wrong, cloud, 2)
    assert alter(smoother, cloud, 3) is smoother


def test_weights_of_a_measure_are_those_of_a_weighted_laplacian(bowl: tuple[Arranged, Smoother], rng: Any) -> None:
    cloud, smoother = bowl
    rho = rng.random(220) + 0.3
    plain, mass = dense_operator(smoother)
    mine = cloud.collect(torch.from_numpy(rho)).numpy()
    w = -plain * mass[:, None]
    np.fill_diagonal(w, 0)
    w = w * np.sqrt(np.outer(mine, mine))
    heavy = mass * mine
    expected = (np.diag(w.sum(1)) - w) / heavy[:, None]
    altered = alter(smoother, cloud, 3, measure=rho)
    found, own = dense_operator(altered)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(own, heavy / heavy.sum())
    np.testing.assert_allclose(altered.density.numpy(), mine)
    assert float(altered.leaving.max()) == pytest.approx(0.5) and altered.lowest is None
    again = alter(altered, cloud, 3, measure=rho)
    np.testing.assert_allclose(again.density.numpy(), mine**2)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_alpha_is_a_power_of_the_density_of_the_samples(bowl: tuple[Arranged, Smoother], alpha: float) -> None:
    cloud, smoother = bowl
    size = smoother.mass.numpy()
    mean = (size + size[smoother.graph.indices.numpy()].sum(1)) / (1 + smoother.graph.k)
    rho = (mean / np.exp(np.log(mean).mean())) ** (2 * (alpha - 1))
    altered = alter(smoother, cloud, 3, measure=alpha)
    np.testing.assert_allclose(altered.density.numpy(), rho, rtol=1e-9)
    for wrong, match in (
        (float("nan"), "expected alpha, a finite number"),
        (float("inf"), "expected alpha, a finite number"),
        (-float("inf"), "expected alpha, a finite number"),
        (np.zeros(220), "weights above 0, got 0"),
        (-np.ones(220), "weights above 0, got -1"),
    ):
        with pytest.raises(InputError, match=match):
            alter(smoother, cloud, 3, measure=wrong)


def test_a_scale_invariant_metric_multiplies_the_mass(bowl: tuple[Arranged, Smoother]) -> None:
    from eigenprobe.smoothers.alteration import curvature

    cloud, smoother = bowl
    bent = curvature(smoother.graph, 2).gaussian.abs()
    bent = (bent.clamp_min(0.02 * float(bent.mean())) / cloud.frame.scale**2).numpy()
    plain, mass = dense_operator(smoother)
    altered = alter(smoother, cloud, 3, scale_invariant=True)
    found, own = dense_operator(altered)
    np.testing.assert_allclose(own, mass * bent / (mass * bent).sum(), rtol=1e-9)
    np.testing.assert_allclose(found, plain / bent[:, None], atol=1e-8 * np.abs(found).max())
    with pytest.raises(InputError, match="keeps no points"):
        from dataclasses import replace

        alter(replace(smoother, graph=None), cloud, 3, scale_invariant=True)


def test_a_potential_and_a_boundary_in_the_units_of_the_caller(bowl: tuple[Arranged, Smoother], rng: Any) -> None:
    cloud, smoother = bowl
    v, mask = rng.random(220), np.zeros(220, bool)
    mask[:40] = True
    plain, _ = dense_operator(smoother)
    mine = cloud.collect(torch.from_numpy(v)).numpy() * cloud.frame.scale**2
    altered = alter(smoother, cloud, 3, potential=v)
    found, _ = dense_operator(altered)
    np.testing.assert_allclose(found + altered.lowest * np.eye(220), plain + np.diag(mine), atol=1e-7)
    assert altered.lowest == pytest.approx(mine.min())
    vanished = alter(smoother, cloud, 3, boundary=mask)
    fixed = cloud.collect(torch.from_numpy(mask * 1.0)).numpy() > 0
    found, _ = dense_operator(vanished)
    np.testing.assert_allclose(found[~fixed][:, ~fixed], plain[~fixed][:, ~fixed], atol=1e-8)
    assert not found[fixed][:, ~fixed].any() and not found[~fixed][:, fixed].any()
    np.testing.assert_allclose(vanished.leaving.numpy()[fixed], 1)
    np.testing.assert_allclose(np.diag(found)[fixed] * float(vanished.step_time), 1)
    assert vanished.lowest == 0 and vanishing(altered, torch.from_numpy(fixed)).lowest == altered.lowest
    alter(smoother, cloud, 180, boundary=mask)
    with pytest.raises(InputError, match="k=181 vectors need at least 181 points off the boundary, got 180 of 220"):
        alter(smoother, cloud, 181, boundary=mask)
    with pytest.raises(InputError, match="found no boundary: the cloud is closed"):
        alter(*reversed(arranged(c.fibonacci_sphere(400))), 3, boundary="dirichlet")
    for wrong, match in (
        (np.ones(220, bool), "covers all 220 points"),
        ("neumann", "must be 'dirichlet' or a bool mask"),
        (mask[:9], r"mask of bools \(220,\)"),
        (mask * 1, r"mask of bools \(220,\), got torch.int64"),
    ):
        with pytest.raises(InputError, match=match):
            alter(smoother, cloud, 3, boundary=wrong)


def test_what_leaves_a_point_is_what_its_diagonal_lacks(bowl: tuple[Arranged, Smoother], rng: Any) -> None:
    """A smoother that does not keep it, as one read from a file, is altered to the same operator."""
    cloud, own = bowl
    bare = replace(own, leaving=None)
    torch.testing.assert_close(bare.known_leaving, 1 - own.matrix.to_dense().diagonal())
    torch.testing.assert_close(bare.known_leaving, own.known_leaving)
    potential = rng.random(len(cloud.frame.scale * cloud.points))
    one, other = (alter(each, cloud, 5, potential=potential) for each in (own, bare))
    torch.testing.assert_close(one.matrix.to_dense(), other.matrix.to_dense())


def test_numbers_must_be_real_finite_and_of_the_points() -> None:
    assert numbers([1, 2, 3], "potential", 3).dtype == torch.float64
    assert numbers(np.ones((3, 2)), "anisotropy", 3).shape == (3, 2)
    for values, name, match in (
        ([1.0, 2.0], "potential", r"potential of shape \(n,\) with n=3, got \(2,\)"),
        (np.ones((3, 1)), "measure", r"measure of shape \(n,\) with n=3, got \(3, 1\)"),
        (np.ones(3), "anisotropy", r"anisotropy of shape \(n, m\) with n=3, got \(3,\)"),
        ([1.0, np.nan, 2.0], "potential", "expected finite potential"),
        ([1.0, np.inf, 2.0], "potential", "expected finite potential"),
        ([True, False, True], "potential", "potential of real numbers, got torch.bool"),
        (np.ones(3) * 1j, "measure", "measure of real numbers, got torch.complex128"),
    ):
        with pytest.raises(InputError, match=match):
            numbers(values, name, 3)


@pytest.mark.parametrize("ridge", [1e-9, 0.05])
def test_curvature_is_a_weighted_fit_of_a_cubic(
    ridge: float, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Point by point: chords for lengths, normal equations with their ridge, and the eigenvalues of G^-1 H."""
    from eigenprobe.smoothers import alteration

    monkeypatch.setattr(alteration, "RIDGE", ridge)
    flat = rng.random((60, 2)) * 2
    points = np.column_stack([flat, np.sin(flat[:, 0]) * flat[:, 1] + 0.3 * flat[:, 1] ** 2])
    graph = build_graph(torch.from_numpy(points), 14)
    found = alteration.curvature(graph, 2)
    for i in range(60):
        chords = points[graph.indices[i].numpy()] - points[i]
        scale = np.linalg.norm(chords, axis=1).max()
        chords /= scale
        weight = np.diag(np.exp(-((np.linalg.norm(chords, axis=1) / 0.55) ** 2) / 2))
        frame = np.linalg.eigh(chords.T @ weight @ chords)[1][:, ::-1]
        x, y, z = (chords @ frame).T
        longer = np.sqrt(1 + z**2 / (x**2 + y**2))
        x, y = x * longer, y * longer
        d = np.stack([x, y, x * x / 2, x * y, y * y / 2, x**3, x * x * y, x * y * y, y**3], 1)
        a, b, p, q, r, *_ = np.linalg.solve(d.T @ weight @ d + ridge * np.eye(9), d.T @ weight @ z)
        metric = np.eye(2) + np.outer([a, b], [a, b])
        values, vectors = np.linalg.eig(np.linalg.solve(metric, [[p, q], [q, r]]) / np.sqrt(1 + a * a + b * b) / scale)
        order = np.argsort(-np.abs(values))
        side = 1 if np.abs(values[order] - found.values[i].numpy()).sum() < np.abs(values).sum() else -1
        np.testing.assert_allclose(found.values[i].numpy(), side * values[order], rtol=1e-6, atol=1e-8)
        along = vectors[:, order[0]]
        direction = frame @ [*along, along @ [a, b]]
        assert abs(float(found.direction[i].numpy() @ direction)) == pytest.approx(np.linalg.norm(direction), rel=1e-6)
    torch.testing.assert_close(found.direction.norm(dim=1), torch.ones(60).double())
