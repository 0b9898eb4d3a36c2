"""The learned probe scale: differentiable, equivariant, and a gain where the default has something to lose."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe import decompose
from eigenprobe.errors import InputError
from eigenprobe.graph.graph import build_graph
from eigenprobe.probes.scale import ScaleCriterion, learn_scale
from eigenprobe.training import ProbeSettings, fit_network


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
    least = min(value for _, value in scale.history)
    for factor in (0.6, 1.6):
        assert float(criterion(torch.tensor(scale.sigma * factor, dtype=torch.float64))) > least
    again = learn_scale(sphere(300), dimension=2, start=1.5 * scale.start)
    assert again.sigma == pytest.approx(scale.sigma, rel=0.02)  # from another start


def test_the_scale_follows_the_units_and_the_noise_of_the_sampling():
    clean, rough = learn_scale(sphere(500), dimension=2), learn_scale(sphere(500, noise=0.02), dimension=2)
    assert learn_scale(7 * sphere(500), dimension=2).sigma == pytest.approx(7 * clean.sigma, rel=1e-3)
    assert rough.sigma / rough.start > clean.sigma / clean.start  # a rougher sample must be averaged more widely


def test_close_sheets_are_told_apart():
    # Two flat sheets closer than ten neighbours reach: the default kernel sees both as one.
    grid = torch.cartesian_prod(*(torch.linspace(0, 1, 20, dtype=torch.float64),) * 2)
    sheet = torch.cat([grid, torch.zeros(400, 1)], 1)
    both = torch.cat([sheet, sheet + torch.tensor([0.0, 0.0, 0.08])])
    scale = learn_scale(both, dimension=2)
    assert scale.sigma < 0.75 * scale.start
    values = [
        decompose(both, 4, smoother="symmetric", neighbours=15, bandwidth=sigma, dimension=2).eigenvalues
        for sigma in (scale.start, scale.sigma)
    ]
    # On separate sheets every eigenvalue comes twice, the first of them 0.
    assert float(values[1][1]) < 0.5 * float(values[0][1])


def test_a_fit_may_learn_it_and_bad_input():
    probes = ProbeSettings(learn_scale=True, smoother={"dimension": 2})
    basis = fit_network(sphere(200), 4, smoother="symmetric", probes=probes, steps=40)
    torch.testing.assert_close(basis.eigenvalues[1:], torch.full((3,), 2.0, dtype=torch.float64), rtol=0.1, atol=0)
    with pytest.raises(InputError, match="Euclidean"):
        learn_scale(build_graph(sphere(50), 10, metric="cosine"))
    with pytest.raises(InputError, match="zero"):
        learn_scale(torch.ones(30, 3))


def criterion_by_loops(x: np.ndarray, k: int, sigma: float) -> float:
    """``(|drift|^2 + normal parts) / reach``, by loops over points; planes through 12 neighbours."""
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
    assert float(loops(at)) == pytest.approx(float(ScaleCriterion(build_graph(x, loops.squared.shape[1]), 2)(at)))
    whole = ScaleCriterion(build_graph(x, 15), dimension=7)  # no more directions than the space has
    assert whole.tangential.shape == (80, 15, 3) and float(whole.normal.max()) < 1e-9


def test_the_learned_scale_is_the_minimum_within_its_range():
    x = sphere(150, noise=0.03)
    scale = learn_scale(x, dimension=2)
    assert len(scale.history) == 60 and scale.history[0][0] == pytest.approx(scale.start)
    criterion = ScaleCriterion(build_graph(x, 30), dimension=2)
    grid = scale.start * np.geomspace(0.2, 4, 80)
    values = [float(criterion(torch.tensor(s, dtype=torch.float64))) for s in grid]
    assert min(v for _, v in scale.history) <= min(values) * 1.002
    assert scale.sigma == pytest.approx(grid[int(np.argmin(values))], rel=0.06)
    assert scale.sigma == min(scale.history, key=lambda pair: pair[1])[0]
    few = learn_scale(x[:20], dimension=2, steps=3)  # fewer points than neighbours
    assert len(few.history) == 3
    far = learn_scale(x, dimension=2, start=100.0, steps=5)
    assert far.start == 100.0 and min(s for s, _ in far.history) >= 20.0 - 1e-6
    small = learn_scale(x, dimension=2, start=1e-3, steps=200)
    assert max(s for s, _ in small.history) <= 4e-3 + 1e-9
    with pytest.raises(InputError, match="median distance of zero"):
        learn_scale(x, dimension=2, start=0.0)


def test_tangent_spaces_of_many_dimensions_are_found_whole():
    """Fourteen of them need fifteen neighbours: what is left of a flat cloud in a larger space is nothing."""
    generator = torch.Generator().manual_seed(0)
    flat = torch.rand(200, 14, generator=generator, dtype=torch.float64)
    space = torch.linalg.qr(torch.randn(20, 14, generator=generator, dtype=torch.float64))[0]
    criterion = ScaleCriterion(build_graph(flat @ space.T, 30), dimension=14)
    assert criterion.tangential.shape == (200, 30, 14)
    assert float(criterion.normal.max()) < 1e-9 * float(criterion.squared.max())


def test_steps_are_those_of_adam_with_a_rate_along_a_cosine():
    """From ``rate`` to a twentieth of it; the scale stays between a fifth and four times its start."""
    x = sphere(80, noise=0.02)
    found = learn_scale(x, dimension=2, steps=12, rate=0.1)
    criterion = ScaleCriterion(build_graph(x, 30), dimension=2)
    place, first, second = np.log(criterion.start), 0.0, 0.0
    for t, (sigma, value) in enumerate(found.history):
        assert sigma == pytest.approx(np.exp(place), rel=1e-6)
        log = torch.tensor(place, dtype=torch.float64, requires_grad=True)
        criterion(log.exp()).backward()
        assert value == pytest.approx(float(criterion(log.exp()).detach()), rel=1e-6)
        slope = float(log.grad)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        rate = 0.005 + 0.095 * (1 + np.cos(np.pi * t / 12)) / 2
        place -= rate * (first / (1 - 0.9 ** (t + 1))) / (np.sqrt(second / (1 - 0.999 ** (t + 1))) + 1e-8)
        place = np.clip(place, np.log(0.2 * criterion.start), np.log(4 * criterion.start))
