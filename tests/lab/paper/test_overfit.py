"""The paper's own way of training: probes in the unit sphere, one kernel, fresh samplings, its
losses and schedule.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.eigenvalues import best_factor
from benchmarks.samples import shape_sample
from eigenprobe.points import Frame
from eigenprobe.probes.objective import Objective
from eigenprobe.probes.probes import Probes
from eigenprobe.smoothers import build_smoother
from eigenprobe.training.data import ProbeSettings, prepare
from eigenprobe_lab.paper.overfit import (
    SETTINGS,
    best_of_probes,
    covariance,
    learn_their_way,
    shortened,
)


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
    # sigma is a length in the unit sphere: the armadillo (radius 100) and its copy of radius 1 have
    # the same probes.
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


@pytest.mark.parametrize("sigma", [0.3, (0.2, 0.5)])
def test_the_covariance_is_that_of_drawn_probes(sigma):
    points, probes = ellipsoid(60), Probes(200_000, steps=3, k=6, sigma=sigma)
    drawn = probes.draw(points, torch.Generator().manual_seed(0))
    exact, found = covariance(points, probes) / 3, drawn @ drawn.T / probes.count
    assert float((exact - found).norm() / exact.norm()) < 0.02
    best = best_of_probes(points, probes, 5)
    left = [
        float(exact.trace() - (q.T @ exact @ q).trace())
        for q in (best, torch.linalg.qr(drawn[:, :5]).Q)
    ]
    assert left[0] < left[1]


def test_fewer_steps_end_the_cosine_with_them():
    schedule = shortened(SETTINGS, 3000).optimisation
    assert schedule is not None and (schedule.steps, schedule.anneal) == (3000, 3000)
    assert 1e-3 * schedule.factor(3000) == pytest.approx(1e-5)
    assert shortened(SETTINGS, 8000).optimisation.anneal == 5000
    assert shortened(SETTINGS, None).schedule("overfit") == SETTINGS.optimisation


def test_the_factor_of_least_discrepancy_against_a_grid():
    g = np.random.default_rng(0)
    values, exact = (np.sort(g.uniform(1, 9, 12)) for _ in range(2))

    def discrepancy(c):
        return np.mean(np.abs(c * values - exact) / exact)

    best = min(map(discrepancy, np.linspace(0.2, 3, 2000)))
    assert discrepancy(best_factor(values, exact)) <= best + 1e-9


def test_training_lowers_the_loss_towards_that_of_the_closed_form():
    paper = Probes(100, steps=10, k=10, sigma=(0.1, 0.4))
    settings = replace(
        shortened(SETTINGS, 150),
        preset="tiny",
        size=200,
        probes=replace(SETTINGS.probes, paper=paper),
    )
    rows = learn_their_way(shape_sample(200, 6, 0), 6, settings)
    loss = {row["method"]: row["loss"] for row in rows}
    trained, untrained = loss["the paper's way"], loss["random weights"]
    best = loss["closed form of its probes"]
    assert trained < untrained and (untrained - trained) > 0.5 * (untrained - best)
