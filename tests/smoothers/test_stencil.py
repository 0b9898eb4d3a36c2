"""Edges and weights of curves, surfaces and solids; curves that are open or closed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.decomposition import decompose
from eigenprobe.errors import InputError
from eigenprobe.neighbors.graph import Edges, build_graph
from eigenprobe.smoothers import build_smoother, laplacian_smoother
from tests import clouds as c
from tests.clouds import stacked


def bumpy(n: int, rng: np.random.Generator) -> np.ndarray:
    x = c.random_sphere(n, rng)
    return x * (1 + 0.2 * np.sin(3 * x[:, :1])) * [1.0, 0.8, 1.2]


def test_a_laplacian_smoother_is_its_formula(rng: np.random.Generator) -> None:
    edges = Edges(torch.tensor([0, 0, 1, 2, 1]), torch.tensor([1, 2, 2, 3, 3]), 4)
    weight, mass = torch.from_numpy(rng.random(5) + 0.1), torch.from_numpy(rng.random(4) + 0.1)
    smoother = laplacian_smoother(edges, weight, mass, None, 2.0)
    w = np.zeros((4, 4))
    w[edges.head, edges.tail] = w[edges.tail, edges.head] = weight
    rate = w.sum(1) / mass.numpy()
    step = 0.5 / rate.max()
    root = np.sqrt(mass.numpy())
    expected = np.eye(4) - step * (np.diag(w.sum(1)) - w) / np.outer(root, root)
    np.testing.assert_allclose(smoother.matrix.to_dense().numpy(), expected)
    np.testing.assert_allclose(smoother.degree.numpy(), step * rate)
    assert smoother.step_time == pytest.approx(step) and smoother.kind == "adaptive"
    np.testing.assert_allclose(smoother.mass.numpy(), mass.numpy() / mass.sum().item())
    empty = laplacian_smoother(
        edges, weight, mass * torch.tensor([0.0, 1, 1, 1]), None, 2.0
    )  # no mass is 0
    assert float(empty.mass[0]) == pytest.approx(1e-14 / 4, rel=1e-3, abs=0)
    with pytest.raises(InputError, match="at least 2 points, got 1"):
        laplacian_smoother(
            Edges(torch.tensor([0])[:0], torch.tensor([0])[:0], 1), weight[:0], mass[:1], None, 1.0
        )


def test_stacked_clouds_are_blocks_of_one_matrix(rng: np.random.Generator) -> None:
    graphs = [build_graph(torch.from_numpy(bumpy(40, rng)), 12) for _ in range(2)]
    smoother = build_smoother(stacked(graphs), dimension=2)
    whole = smoother.matrix.to_dense()
    blocks = torch.stack([whole[:40, :40], whole[40:, 40:]])
    assert smoother.n == 80 and torch.equal(whole[:40, 40:], torch.zeros_like(whole[:40, 40:]))
    x = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(smoother.apply(x), blocks @ x)
    torch.testing.assert_close(smoother.apply_symmetric(x), blocks @ x)
    torch.testing.assert_close(smoother.power(x, 2), blocks @ blocks @ x)
    single = build_smoother(graphs[0], dimension=2)
    np.testing.assert_allclose(single.apply(x[0].numpy()), (single.matrix @ x[0]).numpy())
    row = build_smoother(graphs[0], "row", dimension=2)
    s = row.matrix.to_dense()
    torch.testing.assert_close(row.apply_symmetric(x[0], 2), s @ s @ s.T @ s.T @ x[0])
    power = torch.linalg.matrix_power(s, 20)
    torch.testing.assert_close(row.apply_symmetric(x[0]), power @ (power.T @ x[0]))


def test_the_spectrum_of_an_open_curve_does_not_turn_with_it(rng: np.random.Generator) -> None:
    """Its ends have one neighbour, about whose own mean there is no direction; lengths are those of
    the arc.
    """
    t = np.sort(rng.random(200)) * 4
    x = np.stack([np.cos(t), np.sin(t), t / 2], 1)
    turned = x @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    found, again = (decompose(y, 4).eigenvalues[1:] for y in (x, turned))
    np.testing.assert_allclose(again, found, rtol=1e-7)
    np.testing.assert_allclose(
        found, (np.pi * np.arange(1, 4) / (np.ptp(t) * 1.25**0.5)) ** 2, rtol=2e-3
    )


@pytest.mark.parametrize("kind", ["even", "random"])
@pytest.mark.parametrize("shape", ["helix", "spiral"])
def test_the_ends_of_a_wound_curve_are_not_joined_to_its_other_turns(shape: str, kind: str) -> None:
    """The nearest point beyond an end lies on the next turn, ten spacings away."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        t = (np.arange(400) + 0.5) / 400 if kind == "even" else np.sort(rng.random(400))
        x = np.stack([np.cos(6 * np.pi * t), np.sin(6 * np.pi * t), 1.5 * t], 1)
        if shape == "spiral":
            t = np.sqrt((0.04 + 1.4 * t) / 1.44)  # about as far from each other everywhere
            x = t[:, None] * np.stack([np.cos(6 * np.pi * t), np.sin(6 * np.pi * t)], 1)
        length = np.linalg.norm(np.diff(x, axis=0), axis=1).sum()
        found = decompose(x, 4, dimension=1, resolution="all").eigenvalues[1:]
        np.testing.assert_allclose(found, (np.pi * np.arange(1, 4) / length) ** 2, rtol=0.02)


def arc(share: float, n: int, rng: np.random.Generator | None) -> tuple[np.ndarray, float]:
    """Even or random points of a circle without ``share`` of it, and the length of what is left."""
    place = np.arange(n) / (n - 1) if rng is None else rng.random(n)
    angle = 2 * np.pi * (share / 2 + (1 - share) * place)
    return np.stack([np.cos(angle), np.sin(angle)], 1), 2 * np.pi * (1 - share)


@pytest.mark.parametrize(
    ("share", "n"), [(0.02, 400), (0.05, 200), (0.1, 100), (0.14, 100), (0.2, 100), (0.02, 1000)]
)
def test_an_arc_is_open_where_its_gap_is_wider_than_its_points_lie_apart(
    share: float, n: int
) -> None:
    """Closed, as it was with gaps of up to thirty spacings, its first eigenvalue is almost four
    times as large.
    """
    points, length = arc(share, n, None)
    found = decompose(points, 6, dimension=1).eigenvalues
    np.testing.assert_allclose(found[1:], (np.pi * np.arange(1, 6) / length) ** 2, rtol=3e-3)


def test_random_curves_are_closed_and_open_as_they_are(rng: np.random.Generator) -> None:
    """A gap of forty spacings is none of random points, and one of ten may be."""
    for _ in range(4):
        points, length = arc(0.05, 800, rng)
        assert decompose(points, 3).eigenvalues[1] == pytest.approx((np.pi / length) ** 2, rel=0.02)
    closed = [decompose(arc(0.0, 2000, rng)[0], 3).eigenvalues[1] for _ in range(6)]
    assert sum(each == pytest.approx(1, rel=0.02) for each in closed) >= 5


@pytest.mark.parametrize("ratio", [30.0, 300.0])
def test_sparse_parts_of_a_closed_curve_are_no_gaps(ratio: float, rng: np.random.Generator) -> None:
    """A quarter of the circle has so many times fewer points per length: those of it have far
    neighbours, too.
    """
    few = max(4, int(1500 / (3 * ratio)))
    angle = np.concatenate(
        [np.pi / 2 + 1.5 * np.pi * rng.random(1500), (np.arange(few) + 0.5) / few * np.pi / 2]
    )
    found = decompose(
        np.stack([np.cos(angle), np.sin(angle)], 1), 4, dimension=1, resolution="all"
    ).eigenvalues
    np.testing.assert_allclose(found[1:3], 1, rtol=0.1)
