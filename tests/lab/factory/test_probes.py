"""Learned probes lower the held-out error, follow the units, and refuse what they cannot use."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.cloud import Frame
from eigenprobe.errors import InputError
from eigenprobe.graph.graph import build_graph
from eigenprobe.probes.covariance import visible_scales
from eigenprobe.smoothers.gaussian import row_smoother
from eigenprobe_lab.factory import probes as learned
from eigenprobe_lab.factory.probes import learn_probes, monomials


def cloud(n: int = 240) -> torch.Tensor:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x / x.norm(dim=1, keepdim=True) * torch.tensor([1.0, 0.8, 0.5])


def test_learning_lowers_the_held_out_error_and_follows_the_units():
    found = learn_probes(cloud(), 8, trials=40, degree=3)
    assert min(found.history) < 0.99 * found.history[0]  # at the points it learns from; the default is good here
    assert found.errors["learned"] < 1.01 * found.errors["fixed"]  # and no worse at those it has never seen
    assert sum(found.weights) == pytest.approx(1) and found.steps % 2 == 0
    torch.testing.assert_close(found.basis.T @ found.basis, torch.eye(8, dtype=torch.float64), atol=1e-8, rtol=0)
    large = learn_probes(50 * cloud() + 3, 8, trials=40, degree=3)
    assert large.sigma == pytest.approx(50 * found.sigma, rel=1e-3)


def test_functions_of_ones_own_and_bad_input():
    x = cloud()
    own = learn_probes(x, 6, x, trials=10)
    assert len(own.history) >= 10 and monomials(x).shape == (240, 3 + 9 + 27)
    torch.testing.assert_close(torch.from_numpy(learn_probes(x.numpy(), 6, x.numpy(), trials=10).basis), own.basis)
    with pytest.raises(InputError, match="points for k=100"):
        learn_probes(x, 100)
    with pytest.raises(InputError, match=r"functions \(n, m\) of 240 values"):
        learn_probes(x, 6, x[:10])


def test_settings_of_a_choice():
    theta = np.array([0.5, -0.3, 0.0, 1.0, -1.0])
    sigma, steps, weights = learned._settings(0.2, 12, theta)
    assert sigma == pytest.approx(0.2 * np.exp(0.5)) and steps == 2 * round(6 * np.exp(-0.3))
    np.testing.assert_allclose(weights, np.exp([0, 1, -1]) / np.exp([0, 1, -1]).sum())
    for first, second, expected, count in ((9.0, 9.0, 1.4, 88), (-9.0, -9.0, -1.6, 2), (0.0, 0.0, 0.0, 12)):
        sigma, steps, _ = learned._settings(0.2, 12, np.array([first, second, 0, 0, 0]))
        assert sigma == pytest.approx(0.2 * np.exp(expected)) and steps == count
    assert learned._settings(0.2, 2, np.array([0, -2.0, 0, 0, 0]))[1] == 2
    assert learned._settings(0.2, 400, np.array([0, -9.0, 0, 0, 0]))[1] == 2 * round(200 * np.exp(-2))


def test_monomials_are_centred_products():
    x = cloud(30)
    found = monomials(x, 2)
    products = [x[:, i] for i in range(3)] + [x[:, i] * x[:, j] for i in range(3) for j in range(3)]
    expected = {tuple((p - p.mean()).numpy().round(12)) for p in products}
    assert found.shape == (30, 12) and {tuple(column.numpy().round(12)) for column in found.T} == expected
    assert monomials(torch.cat([x, x], 1), 1).shape == (30, 3)


@pytest.mark.parametrize(("k", "prefixes"), [(8, (2, 4, 8)), (5, (1, 2, 5)), (3, (1, 3))])
def test_errors_are_those_of_held_out_thirds(k, prefixes):
    """The first trial is the fixed setting: its basis and its error by dense matrices and separate fits."""
    x = cloud()
    found = learn_probes(x, k, trials=6, degree=2, seed=4)
    unit = Frame.of(x)(x)
    graph = build_graph(unit, 15)
    sigma = float(graph.distances[:, 9].median())
    g = torch.Generator().manual_seed(4)
    fit, seen, last = torch.randperm(240, generator=g).tensor_split(3)
    steps = max(2, visible_scales(row_smoother(graph, sigma, 2.0), k, spread=(1,), generator=g)[0])
    s = row_smoother(graph, sigma, 2.0).matrix.to_dense()
    total = torch.zeros(240, 240, dtype=torch.float64)
    for spread in (1, 4, 16):
        half = torch.linalg.matrix_power(s, steps // 2 * spread)
        total += half @ half.T / (half @ half.T).trace() / 3
    q = torch.linalg.eigh(total).eigenvectors.flip(1)[:, :k]
    f = monomials(unit, 2)

    def error(where):
        rest = []
        for j in prefixes:
            solved = torch.linalg.lstsq(q[fit, :j], f[fit]).solution
            rest.append((f[where] - q[where, :j] @ solved).square().sum())
        return float(torch.stack(rest).mean() / f[where].square().sum())

    assert found.history[0] == pytest.approx(error(seen), rel=1e-6)
    assert found.errors["fixed"] == pytest.approx(error(last), rel=1e-6)
    assert 6 <= len(found.history) <= 12
    if k != 8:
        return
    with pytest.raises(InputError, match="between 25 and 3000 points for k=8, got 24"):
        learn_probes(x[:24], 8)
    tiny = learn_probes(x[:31], 3, trials=2, degree=1, neighbours=5)
    assert tiny.basis.shape == (31, 3)
    with pytest.raises(InputError, match="between 10 and 3000 points"):
        learn_probes(torch.zeros(3001, 3), 3)
