"""The paper's own way of training: probes in the unit sphere, one kernel, fresh samplings, its losses and schedule."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.probes import best_scale
from eigenprobe import networks
from eigenprobe.cloud import Frame
from eigenprobe.errors import InputError
from eigenprobe.probes.objective import Objective, prefix_errors
from eigenprobe.probes.probes import Probes
from eigenprobe.smoothers import build_smoother
from eigenprobe.training.data import Fresh, ProbeSettings, prepare
from eigenprobe.training.fit import fit_network
from eigenprobe.training.module import Optimisation, SpectralModule, Whole
from eigenprobe_lab.paper.overfit import SETTINGS, best_of_probes, covariance, shortened


def ellipsoid(n: int = 300) -> torch.Tensor:
    i = torch.arange(n, dtype=torch.float64) + 0.5
    height, angle = 1 - 2 * i / n, np.pi * (1 + 5**0.5) * i
    ring = (1 - height.square()).sqrt()
    return torch.stack([ring * angle.cos(), 0.8 * ring * angle.sin(), 0.6 * height], 1)


def draw(points: torch.Tensor, paper: Probes) -> torch.Tensor:
    settings = ProbeSettings("row", paper=paper)
    batch = prepare(points, Frame.of(points), settings, Objective("sampled", "hybrid"), 5)
    assert callable(batch.probes)
    return batch.probes(torch.Generator().manual_seed(0))[0]


def test_probes_of_the_paper_do_not_depend_on_the_unit_of_the_file():
    # sigma is a length in the unit sphere: the armadillo (radius 100) and its copy of radius 1 have the same probes.
    paper = Probes(20, steps=10, k=10, sigma=(0.05, 0.2))
    small, large = draw(ellipsoid(), paper), draw(100 * ellipsoid() + 7, paper)
    torch.testing.assert_close(small, large, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(
        small, paper.draw(ellipsoid().float(), torch.Generator().manual_seed(0)), atol=5e-3, rtol=0
    )


def test_the_row_smoother_is_the_operator_of_the_probes_with_the_cosine_metric_too():
    rows = torch.randn(80, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    graph = {"k": 9, "metric": "cosine", "self_loops": True}
    probes, g = Probes(4, steps=1, sigma=0.3, **graph), torch.Generator()
    seed = Probes(4, steps=0, sigma=0.3, **graph).draw(rows, g.manual_seed(1))
    smoother = build_smoother(rows, "row", bandwidth=0.3, dimension=3, **graph)
    torch.testing.assert_close(smoother.apply(seed), probes.draw(rows, g.manual_seed(1)))


def test_the_step_that_a_gpu_replays_has_the_loss_and_the_gradient_of_the_plain_one():
    points, paper = ellipsoid(), Probes(30, steps=8, k=6, sigma=(0.1, 0.3))
    fresh = Fresh(Frame.of(points)(points, torch.float32), paper, 120)
    network = networks.build("cpu", 3, 6, torch.Generator().manual_seed(0))
    module = SpectralModule(network, Objective("sampled", "hybrid", relative=True))
    batch = fresh.at(3)
    found = []
    for whole in ([], [Whole(module.mixed, module.objective, paper)]):
        module._whole = whole
        loss = module.loss(batch, torch.Generator().manual_seed(5))
        found.append((loss.detach(), torch.autograd.grad(loss.sum(), list(network.parameters()))))
    (plain, gradients), (replayed, others) = found
    torch.testing.assert_close(replayed, plain, rtol=1e-3, atol=0)  # probes of half precision
    cosine = torch.cosine_similarity(*(torch.cat([g.flatten() for g in each]) for each in (gradients, others)), dim=0)
    assert float(cosine) > 0.999
    with torch.no_grad():  # a measure is never replayed
        assert torch.equal(module.loss(batch, torch.Generator().manual_seed(5)), plain)


@pytest.mark.parametrize(("projection", "probe"), [("hybrid", "mean"), ("hybrid", "worst"), ("mass", "mean")])
def test_the_papers_losses_against_k_separate_solves(projection, probe):
    g = torch.Generator().manual_seed(0)
    features, probes = (torch.randn(40, m, generator=g, dtype=torch.float64) for m in (6, 30))
    mass = features[:, 0].square() / features[:, 0].square().sum()
    errors = []
    for k in range(1, 7):
        q = features[:, :k]
        rest = probes - q @ torch.linalg.solve(q.T @ (mass[:, None] * q), q.T @ (mass[:, None] * probes))
        weight = mass[:, None] if projection == "mass" else 1.0
        each = (weight * rest.square()).sum(0)
        errors.append(each.max() if probe == "worst" else each.mean())
    found, _ = Objective("sampled", projection, probe=probe).errors(features, probes=probes)
    torch.testing.assert_close(found, torch.stack(errors))


def test_the_rate_falls_over_the_annealing_steps_and_stays():
    schedule = Optimisation(steps=12_000, rate=1e-3, final_rate=1e-5, warmup=0, anneal=5000)
    rates = [1e-3 * schedule.factor(step) for step in (0, 2500, 5000, 11_999)]
    assert rates == pytest.approx([1e-3, 0.5 * (1e-3 + 1e-5), 1e-5, 1e-5])


@pytest.mark.parametrize("sigma", [0.3, (0.2, 0.5)])
def test_the_covariance_is_that_of_drawn_probes(sigma):
    points, probes = ellipsoid(60), Probes(200_000, steps=3, k=6, sigma=sigma)
    drawn = probes.draw(points, torch.Generator().manual_seed(0))
    exact, found = covariance(points, probes) * probes.variance, drawn @ drawn.T / probes.count
    assert float((exact - found).norm() / exact.norm()) < 0.02
    best = best_of_probes(points, probes, 5)
    left = [float(exact.trace() - (q.T @ exact @ q).trace()) for q in (best, torch.linalg.qr(drawn[:, :5]).Q)]
    assert left[0] < left[1]


def test_fewer_steps_end_the_cosine_with_them():
    schedule = shortened(SETTINGS, 3000).optimisation
    assert schedule is not None and (schedule.steps, schedule.anneal) == (3000, 3000)
    assert 1e-3 * schedule.factor(3000) == pytest.approx(1e-5)
    assert shortened(SETTINGS, 8000).optimisation.anneal == 5000
    assert shortened(SETTINGS, None).schedule("overfit") == SETTINGS.optimisation


def test_the_factor_of_least_discrepancy_against_a_grid():
    g = np.random.default_rng(0)
    values, exact = (np.concatenate([[0.0], np.sort(g.uniform(1, 9, 12))]) for _ in range(2))

    def discrepancy(c):
        return np.mean(np.abs(c * values[1:] - exact[1:]) / exact[1:])

    assert discrepancy(best_scale(values, exact)) <= min(map(discrepancy, np.linspace(0.2, 3, 2000))) + 1e-9


def test_bad_input():
    with pytest.raises(InputError, match="fresh"):
        fit_network(ellipsoid(), 4, resamplings="fresh")
    with pytest.raises(InputError, match="drawn probes"):
        Objective("expected", "mass")
    with pytest.raises(InputError, match="probe must be 'mean' or 'worst', got 'least'"):
        Objective("sampled", probe="least")
    assert prefix_errors(torch.ones(5, 1), torch.ones(5, 2)).shape == (1, 2)
