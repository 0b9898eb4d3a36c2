"""The learned probe scale: differentiable, equivariant, and a gain where the default has something
to lose.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe import decompose
from eigenprobe.errors import InputError
from eigenprobe.neighbors.graph import build_graph
from eigenprobe_lab.factory.scale import ScaleCriterion, learn_scale


def sphere(n: int, noise: float = 0.0) -> torch.Tensor:
    i = torch.arange(n, dtype=torch.float64) + 0.5
    height, angle = 1 - 2 * i / n, np.pi * (1 + 5**0.5) * i
    ring = (1 - height.square()).sqrt()
    x = torch.stack([ring * angle.cos(), ring * angle.sin(), height], 1)
    shift = torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = x + noise * shift
    return x / x.norm(dim=1, keepdim=True)


def test_the_criterion_is_differentiable_and_has_an_inner_minimum():
    criterion = ScaleCriterion(build_graph(sphere(300), 30), dimension=2)
    sigma = torch.tensor(criterion.start, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(criterion, (sigma,))
    scale = learn_scale(sphere(300), dimension=2)
    assert 0.25 * scale.start < scale.sigma < 2 * scale.start
    for factor in (0.6, 1.6):
        beside = criterion(torch.tensor(scale.sigma * factor, dtype=torch.float64))
        assert float(beside) > scale.criterion


def test_the_scale_follows_the_units_and_the_noise_of_the_sampling():
    clean, rough = (
        learn_scale(sphere(500), dimension=2),
        learn_scale(sphere(500, noise=0.02), dimension=2),
    )
    assert learn_scale(7 * sphere(500), dimension=2).sigma == pytest.approx(
        7 * clean.sigma, rel=1e-3
    )
    assert (
        rough.sigma / rough.start > clean.sigma / clean.start
    )  # a rougher sample must be averaged more widely


def test_close_sheets_are_told_apart():
    # Two flat sheets closer than ten neighbours reach: the default kernel sees both as one.
    grid = torch.cartesian_prod(*(torch.linspace(0, 1, 20, dtype=torch.float64),) * 2)
    sheet = torch.cat([grid, torch.zeros(400, 1)], 1)
    both = torch.cat([sheet, sheet + torch.tensor([0.0, 0.0, 0.08])])
    scale = learn_scale(both, dimension=2)
    assert scale.sigma < 0.75 * scale.start
    values = [
        decompose(
            both, 4, smoother="symmetric", neighbours=15, bandwidth=sigma, dimension=2
        ).eigenvalues
        for sigma in (scale.start, scale.sigma)
    ]
    # On separate sheets every eigenvalue comes twice, the first of them 0.
    assert float(values[1][1]) < 0.5 * float(values[0][1])


def test_bad_input():
    with pytest.raises(InputError, match="Euclidean"):
        learn_scale(build_graph(sphere(50), 10, metric="cosine"))
    with pytest.raises(InputError, match="zero"):
        learn_scale(torch.ones(30, 3))


def criterion_by_loops(x: np.ndarray, k: int, sigma: float) -> float:
    """``(|drift|^2 + normal parts) / reach``, by loops over points; planes through 12
    neighbours.
    """
    drift, normal, reach = [], [], []
    for i in range(len(x)):
        distance = np.linalg.norm(x - x[i], axis=1)
        near = np.argsort(distance)[1 : k + 1]
        u = x[near] - x[i]
        weight = np.exp(-(distance[near] ** 2) / sigma**2)
        weight = weight / weight.sum()
        plane = u[:12] - u[:12].mean(0)
        axes = np.linalg.svd(plane)[2][:2]
        flat = u @ axes.T
        drift.append(((weight @ flat) ** 2).sum())
        normal.append(weight @ np.maximum((u**2).sum(1) - (flat**2).sum(1), 0))
        reach.append(weight @ distance[near] ** 2)
    return (np.mean(drift) + np.mean(normal)) / np.mean(reach)


def test_the_criterion_is_its_definition():
    x = sphere(80, noise=0.05) * torch.tensor([1.0, 0.7, 1.2])
    criterion = ScaleCriterion(build_graph(x, 15), dimension=2)
    for sigma in (0.2, 0.5, 1.0):
        value = float(criterion(torch.tensor(sigma, dtype=torch.float64)))
        assert value == pytest.approx(criterion_by_loops(x.numpy(), 15, sigma), rel=1e-9)
    distances = build_graph(x, 15).distances
    assert criterion.start == pytest.approx(float(distances[:, 9].median()))
    few = ScaleCriterion(build_graph(x, 6), dimension=2)
    assert few.start == pytest.approx(float(distances[:, 5].median()))
    loops = ScaleCriterion(build_graph(x, 16, self_loops=True), dimension=2)
    at = torch.tensor(0.5, dtype=torch.float64)
    assert float(loops(at)) == pytest.approx(
        float(ScaleCriterion(build_graph(x, loops.squared.shape[1]), 2)(at))
    )
    whole = ScaleCriterion(build_graph(x, 15), dimension=7)  # no more directions than the space has
    assert whole.tangential.shape == (80, 15, 3) and float(whole.normal.max()) < 1e-9
