"""Derivatives with respect to the points: against finite differences, for equal eigenvalues, and in
a descent.
"""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import eigenprobe as ep
from tests import clouds as c

STEP = 1e-7  # small enough for no neighbour to be chosen anew
CLOUDS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "line": lambda rng: ((np.arange(80) + rng.uniform(0.05, 0.95, 80)) / 80)[
        :, None
    ],  # no gap of the size of a step
    "rectangle": lambda rng: rng.random((120, 2)) * [1, 0.7],
    "ellipsoid": lambda rng: c.even(c.random_sphere, 150, rng) * [1, 1.3, 1.7],
    "box": lambda rng: rng.random((150, 3)) * [1, 0.8, 0.6],
}
DIMENSION = {"line": 1, "rectangle": 2, "ellipsoid": 2, "box": 3}


def _moving(x: np.ndarray) -> Tensor:
    return torch.tensor(x, requires_grad=True)


def _along(
    function: Callable[[Tensor], Tensor], x: np.ndarray, direction: np.ndarray
) -> tuple[float, float]:
    """The derivative along a direction of all points: by the gradient, and by central differences
    of two steps, whose combination leaves an error of the fourth order: where two points nearly
    coincide, the third derivative is large.
    """
    point = _moving(x)
    (gradient,) = torch.autograd.grad(function(point), point)

    def difference(step: float) -> float:
        after, before = (
            float(function(_moving(x + sign * step * direction)).detach()) for sign in (1, -1)
        )
        return (after - before) / (2 * step)

    return float((gradient.numpy() * direction).sum()), (
        4 * difference(STEP / 2) - difference(STEP)
    ) / 3


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("what", ["eigenvalues", "vectors", "normalized", "mass", "L", "M"])
def test_derivatives_are_those_of_differences(
    name: str, what: str, rng: np.random.Generator
) -> None:
    x = 3 * CLOUDS[name](rng)
    direction, weight = rng.normal(size=x.shape), torch.tensor(rng.normal(size=len(x)))

    def function(points: Tensor) -> Tensor:
        if what in ("L", "M"):
            matrix = ep.laplacian(points, dimension=DIMENSION[name], neighbours="plain")[
                "LM".index(what)
            ]
            return (weight * (matrix @ weight)).sum()
        basis = ep.decompose(points, k=5, dimension=DIMENSION[name], neighbours="plain")
        if what == "eigenvalues":
            return (basis.eigenvalues * torch.arange(5)).sum()
        return (
            (weight * basis.mass).sum()
            if what == "mass"
            else (weight * getattr(basis, what)[:, 2]).sum()
        )

    for _ in range(6):
        now, after, before = (
            float(function(_moving(x + s * STEP * direction)).detach()) for s in (0, 1, -1)
        )
        if abs(after - 2 * now + before) <= 1e-5 * abs(after - before) + 1e-14:
            break
        direction = rng.normal(
            size=x.shape
        )  # a neighbour is chosen anew within this step: there is no derivative
    found, expected = _along(function, x, direction)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_gradcheck_of_a_separated_spectrum(rng: np.random.Generator) -> None:
    x = _moving(rng.random((16, 2)) * [1, 0.6])

    def pairs(points: Tensor) -> tuple[Tensor, Tensor]:
        basis = ep.decompose(points, k=4, dimension=2)
        return basis.eigenvalues[1:], basis.vectors[:, 1:3]

    assert torch.autograd.gradcheck(pairs, (x,), eps=1e-7, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", CLOUDS)
def test_a_moving_basis_is_orthonormal_and_near_the_fixed_one(
    name: str, rng: np.random.Generator
) -> None:
    """Its weights are balanced to the end, those of a fixed one to a few per cent of a point's mass
    and of a value.
    """
    x = 3 * CLOUDS[name](rng)
    plain, moving = (
        ep.decompose(each, k=5, dimension=DIMENSION[name]) for each in (torch.tensor(x), _moving(x))
    )
    q, v, mass = (getattr(moving, part).detach() for part in ("normalized", "vectors", "mass"))
    torch.testing.assert_close(q.T @ q, torch.eye(5, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(
        v.T @ (mass[:, None] * v), torch.eye(5, dtype=torch.float64), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(mass, plain.mass, rtol=0.1, atol=1e-4)
    torch.testing.assert_close(moving.eigenvalues.detach(), plain.eigenvalues, rtol=0.02, atol=1e-6)
    signs = (
        (q * plain.normalized).sum(0).sign()
    )  # of a vector that is nearly as large below as above they may differ
    assert float((signs * q - plain.normalized).norm(dim=0).max()) < 0.05


def test_equal_eigenvalues() -> None:
    # A regular polygon has pairs of equal eigenvalues.
    angle = 2 * np.pi * np.arange(60) / 60
    x = np.stack([np.cos(angle), np.sin(angle)], 1)
    rng = np.random.default_rng(0)
    weight, direction = torch.tensor(rng.normal(size=60)), rng.normal(size=(60, 2))

    def symmetric(points: Tensor) -> Tensor:
        basis = ep.decompose(points, k=5)
        return (basis.eigenvalues[1:3] ** 2).sum() + (
            weight * (basis.vectors[:, 1:3] ** 2).sum(1)
        ).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, expected = _along(symmetric, x, direction)
    assert np.isfinite(found) and found == pytest.approx(expected, rel=1e-3)
    points = _moving(x)
    single = (weight * ep.decompose(points, k=5).vectors[:, 1] ** 3).sum()
    with pytest.warns(ep.EigenprobeWarning, match="leave the choice among their vectors free"):
        (gradient,) = torch.autograd.grad(single, points)
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_columns_without_a_part_beyond_the_basis(k: int) -> None:
    """On an even ring conjugate gradients ran on rounding alone, to NaN; pairs are cut at 2 and at
    4 vectors.
    """
    angle = 2 * np.pi * np.arange(40) / 40
    x = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    weight = torch.tensor(x[:, 0])

    def function(points: Tensor) -> Tensor:
        return (weight * ep.decompose(points, k=k, dimension=1).vectors.square().sum(1)).sum()

    if k % 2:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found, expected = _along(function, x, np.random.default_rng(0).normal(size=x.shape))
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
        return
    point = _moving(x)
    vectors = ep.decompose(point, k=k, dimension=1).vectors
    with pytest.warns(ep.EigenprobeWarning, match="copies beyond the vectors asked for"):
        (gradient,) = torch.autograd.grad(
            (torch.tensor(np.cos(angle * (k // 2) + 1)) * vectors[:, -1]).sum(), point
        )
    assert bool(torch.isfinite(gradient).all()) and float(gradient.abs().max()) < 5


def test_what_has_no_derivative_says_so(rng: np.random.Generator) -> None:
    x = _moving(c.random_sphere(200, rng))
    with pytest.warns(ep.EigenprobeWarning, match="none with potential"):
        basis = ep.decompose(x, k=4, potential=np.ones(200))
    assert not basis.eigenvalues.requires_grad
    with pytest.warns(ep.EigenprobeWarning, match="only 'adaptive' weights"):
        ep.laplacian(x, smoother="symmetric")
    with (
        pytest.raises(ep.InputError, match="2 that coincide"),
        pytest.warns(ep.EigenprobeWarning, match="coincide"),
    ):
        ep.laplacian(torch.cat([x, x[:2]]))


def test_points_move_to_a_spectrum(capsys: pytest.CaptureFixture[str]) -> None:
    demo = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "isospectral.py"))
    losses = demo["descend"](points=150, steps=20)[1]
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("k", [2, 4, 6])
@pytest.mark.parametrize("n", [40, 57])
def test_what_depends_on_a_group_that_k_cuts_says_so(n: int, k: int) -> None:
    """The last eigenvalue of a circle is one of two: its gradient is that of either, or of
    neither.
    """
    angle = 2 * np.pi * np.arange(n) / n
    turn = np.linalg.qr(np.random.default_rng(n + k).normal(size=(3, 3)))[0]
    points = _moving(np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1) @ turn)
    basis = ep.decompose(points, k=k, dimension=1)
    heat = (basis.vectors * torch.exp(-basis.eigenvalues)) @ basis.vectors.T
    for asked in (
        basis.eigenvalues.sum(),
        basis.eigenvalues[-1] ** 2,
        heat[3, 7],
        heat.diagonal().square().sum(),
    ):
        with pytest.warns(ep.EigenprobeWarning, match="copies beyond the vectors asked for"):
            torch.autograd.grad(asked, points, retain_graph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.autograd.grad(basis.eigenvalues[: k - 1].sum(), points)
