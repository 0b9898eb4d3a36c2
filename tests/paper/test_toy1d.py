"""The paper's toy experiment: five cosines, with the paper's loss and with the expected one."""

from __future__ import annotations

import torch

from eigenprobe.paper import toy1d
from eigenprobe.probes.objective import expected_errors, prefix_errors
from eigenprobe.probes.probes import Probes


def test_both_losses_learn_the_cosines(tmp_path):
    toy = toy1d.toy1d(steps=700, probes=100_000)
    assert set(toy.cosines) == {"paper", "expected"}
    for cosines in toy.cosines.values():
        assert cosines.min() >= 0.99
    for vectors in toy.vectors.values():
        assert abs(vectors[:, 0] - 1).max() < 1e-9
    assert toy.markdown().count("\n") == 3
    assert toy1d.figure(toy, tmp_path / "toy.png").stat().st_size > 10_000


def test_the_empirical_covariance_is_the_sampled_loss_exactly():
    points = torch.linspace(0, 1, 100, dtype=torch.float64)[:, None]
    probes = Probes(300, steps=10, k=16, sigma=0.05).draw(points, torch.Generator().manual_seed(0))
    q = torch.randn(100, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mass = q[:, 0].square() / q[:, 0].square().sum()
    covariance = probes @ probes.T / 300
    torch.testing.assert_close(
        expected_errors(q, lambda x: covariance @ x, covariance.trace(), mass), prefix_errors(q, probes, mass).mean(-1)
    )
