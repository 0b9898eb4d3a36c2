"""The paper's toy experiment: five cosines, with the paper's loss and with the expected one."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.probes.objective import expected_errors, prefix_errors
from eigenprobe.probes.probes import Probes
from eigenprobe_lab.paper import toy1d


@pytest.mark.long
def test_both_losses_learn_the_cosines(tmp_path):
    toy = toy1d.toy1d(toy1d.ToyRecipe(steps=700, probes=100_000))
    assert set(toy.bases) == {"paper", "expected"} and len(toy.rows) == 2
    for row in toy.rows:
        assert min(row[name] for name in toy1d.FUNCTIONS) >= 0.99
    for basis in toy.bases.values():
        assert abs(basis.vectors[:, 0] - 1).max() < 1e-9
    assert toy.markdown().count("\n") == 3
    written = toy.write(tmp_path, "toy").written
    assert [path.name for path in written] == ["toy.png", "toy.csv", "toy.json", "toy.md"]
    assert written[0].stat().st_size > 10_000


def test_the_empirical_covariance_is_the_sampled_loss_exactly():
    points = torch.linspace(0, 1, 100, dtype=torch.float64)[:, None]
    probes = Probes(300, steps=10, k=16, sigma=0.05).draw(points, torch.Generator().manual_seed(0))
    q = torch.randn(100, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mass = q[:, 0].square() / q[:, 0].square().sum()
    covariance = probes @ probes.T / 300
    torch.testing.assert_close(
        expected_errors(q, lambda x: covariance @ x, covariance.trace(), mass),
        prefix_errors(q, probes, mass).mean(-1),
    )
