"""One set of laws over every smoother, then what each adds; brute-force float64 references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import InputError
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.smoothers import KINDS, Smoother, build_smoother
from tests import clouds as c

N = 400
VARIANTS = [
    ("row", {}),
    ("symmetric", {}),
    ("symmetric", {"self_loops": True}),
    ("symmetric", {"alpha": 0.0}),
] + [("adaptive", {"balance": choice}) for choice in (True, False)]


def cloud(n: int = N, seed: int = 0) -> torch.Tensor:
    return torch.as_tensor(c.random_sphere(n, np.random.default_rng(seed)))


@pytest.fixture(params=VARIANTS, ids=lambda v: f"{v[0]} {v[1]}")
def smoother(request: pytest.FixtureRequest) -> Smoother:
    kind, options = request.param
    return build_smoother(cloud(), kind, **options)


def test_laws_of_every_smoother(smoother: Smoother, generator: torch.Generator) -> None:
    dense = smoother.matrix.to_dense()
    x = torch.randn(N, 3, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(smoother.apply(x), dense @ x)
    torch.testing.assert_close(smoother.apply_transpose(x), dense.T @ x)
    torch.testing.assert_close(smoother.power(x[:, 0], 3), dense @ dense @ dense @ x[:, 0])
    assert (smoother.n, smoother.dtype) == (N, torch.float64)
    assert smoother.step_time > 0
    assert smoother.dimension == 2
    values = torch.linalg.eigvals(dense).real
    assert values.max() < 1 + 1e-10
    one = torch.ones(N, dtype=torch.float64)
    if not smoother.symmetric:
        torch.testing.assert_close(dense.sum(1), one)
        return
    torch.testing.assert_close(dense, dense.T)
    assert float(smoother.mass.sum()) == pytest.approx(1)
    assert bool((smoother.mass > 0).all())
    root = smoother.mass.sqrt()
    torch.testing.assert_close(smoother.apply(root), root)  # q_1 = sqrt(mass) exactly
    if smoother.kind == "adaptive":
        assert values.min() > -1e-10  # positive semi-definite


def test_precision_and_device_follow(smoother: Smoother) -> None:
    single = smoother.to(dtype=torch.float32)
    x = torch.randn(N, 2, dtype=torch.float64)
    torch.testing.assert_close(
        single.apply(x.float()).double(), smoother.apply(x), atol=1e-5, rtol=1e-5
    )
    assert single.dtype == torch.float32


@pytest.mark.parametrize("dimension", [2, 3])
def test_coordinates_are_harmonic_and_their_squares_are_not(
    dimension: int, rng: np.random.Generator
) -> None:
    """Away from the boundary ``L x = 0`` and ``M^-1 L |x|^2 = -2 dim``, in the mean."""
    x = rng.random((1500, dimension))
    laplacian, mass = ep.laplacian(x, dimension=dimension)
    inside = ((x > 0.15) & (x < 0.85)).all(1)
    scale = abs(laplacian).max(1).toarray().ravel() * np.ptp(x) / 1500 ** (1 / dimension)
    imbalance = np.linalg.norm(laplacian @ x, axis=1) / scale
    assert np.median(imbalance[inside]) < (1e-6 if dimension == 2 else 0.02)
    assert imbalance[inside].mean() < 0.05
    centred = x - 0.5
    curved = laplacian @ (centred**2).sum(1) - 2 * (centred * (laplacian @ x)).sum(1)
    mean = curved[inside].sum() / mass.diagonal()[inside].sum()
    assert mean == pytest.approx(-2 * dimension, rel=0.05)


def test_unknown_kinds_and_coinciding_points() -> None:
    with pytest.raises(InputError, match=" or ".join(map(repr, KINDS))):
        build_smoother(cloud(), "other")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="most points coincide"):
        build_smoother(torch.zeros(40, 2, dtype=torch.float64), "symmetric", dimension=2)


def test_a_constant_is_the_first_vector_of_symmetric_smoothers_alone() -> None:
    """Unless something is known to vanish somewhere; the mass of a directed average is learned."""
    graph = build_graph(cloud(60), 8)
    for kind in KINDS:
        made = build_smoother(graph, kind)
        assert made.symmetric == made.fixes_mass == (kind != "row")
    assert not replace(made, lowest=0.5).fixes_mass
