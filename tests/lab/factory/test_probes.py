"""Learned probes lower the held-out error, follow the units, and refuse what they cannot use."""

from __future__ import annotations

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe_lab.factory.probes import learn_probes, monomials


def cloud(n: int = 240) -> torch.Tensor:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x / x.norm(dim=1, keepdim=True) * torch.tensor([1.0, 0.8, 0.5])


def test_learning_lowers_the_held_out_error_and_follows_the_units():
    found = learn_probes(cloud(), 8, trials=40, degree=3)
    assert (
        min(found.history) < 0.99 * found.history[0]
    )  # at the points it learns from; the default is good here
    assert (
        found.errors["learned"] < 1.01 * found.errors["fixed"]
    )  # and no worse at those it has never seen
    assert sum(found.weights) == pytest.approx(1) and found.steps % 2 == 0
    torch.testing.assert_close(
        found.basis.T @ found.basis, torch.eye(8, dtype=torch.float64), atol=1e-8, rtol=0
    )
    large = learn_probes(50 * cloud() + 3, 8, trials=40, degree=3)
    assert large.sigma == pytest.approx(50 * found.sigma, rel=1e-3)


def test_functions_of_ones_own_and_bad_input():
    x = cloud()
    own = learn_probes(x, 6, x, trials=10)
    assert len(own.history) >= 10 and monomials(x).shape == (240, 3 + 9 + 27)
    torch.testing.assert_close(
        torch.from_numpy(learn_probes(x.numpy(), 6, x.numpy(), trials=10).basis), own.basis
    )
    with pytest.raises(InputError, match="points for k=100"):
        learn_probes(x, 100)
    with pytest.raises(InputError, match=r"functions \(n, m\) of 240 values"):
        learn_probes(x, 6, x[:10])
