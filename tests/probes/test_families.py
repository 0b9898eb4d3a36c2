"""Families of probes: drawn ones have the covariance that is claimed, and the closed form is its
eigenvectors.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe import decompose
from eigenprobe.errors import InputError
from eigenprobe.probes.families import FAMILIES, best_of_family, family, register
from eigenprobe.smoothers import Smoother, build_smoother


def smoother(n: int = 64) -> Smoother:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return build_smoother(x / x.norm(dim=1, keepdim=True), "symmetric", k=8, dimension=2)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_drawn_probes_have_the_exact_covariance(name):
    a, g = smoother(), torch.Generator().manual_seed(1)
    exact = family(name).covariance(a, 3)
    dense = exact.apply(torch.eye(64, dtype=torch.float64))
    count = 4096 if name == "hadamard" else 30_000
    drawn = family(name).draw(a, count, 3, generator=g)
    assert drawn.shape == (64, count)
    error = (drawn @ drawn.T / count - dense).norm() / dense.norm()
    assert float(error) < (
        1e-9 if name == "hadamard" else 0.1
    )  # all columns of a Hadamard matrix: no noise at all
    assert float(exact.trace()) == pytest.approx(float(dense.trace()))


def test_responses_against_the_matrix_function():
    a = smoother()
    mu, u = torch.linalg.eigh(a.matrix.to_dense())
    responses = {
        "heat": mu**6,
        "wavelet": (mu**3 - mu**6) ** 2,
        "polynomial": ((1 + mu + mu**2 + mu**3) / 4) ** 2,
    }
    for name, response in responses.items():
        dense = family(name).covariance(a, 3).apply(torch.eye(64, dtype=torch.float64))
        torch.testing.assert_close(dense, u @ torch.diag(response) @ u.T, atol=1e-10, rtol=1e-8)
    constant = u[:, -1:]  # mu = 1
    assert float(family("wavelet").covariance(a, 3).apply(constant).norm()) < 1e-10
    # the geometric law of steps makes the resolvent, but for its tail
    resolvent = family("resolvent").covariance(a, 3).apply(torch.eye(64, dtype=torch.float64))
    torch.testing.assert_close(
        resolvent, u @ torch.diag(1 / (1 + 3 * (1 - mu**2))) @ u.T, atol=2e-3, rtol=2e-3
    )


def test_the_closed_form_is_the_best_basis_by_descending_energy():
    a = smoother()
    rotation, facts = best_of_family("wavelet", a, 6, steps=3)
    dense = family("wavelet").covariance(a, 3).apply(torch.eye(64, dtype=torch.float64))
    best = torch.linalg.eigvalsh(dense).flip(0)[:6]
    energies = (rotation.q * (dense @ rotation.q)).sum(0)
    torch.testing.assert_close(energies, best)
    np.testing.assert_allclose(facts["explained"], (best / dense.trace()).numpy(), rtol=1e-9)
    large = smoother(1500)  # matrix-free
    rotation, _ = best_of_family("wavelet", large, 4, steps=3)
    dense = family("wavelet").covariance(large, 3).dense().matrix
    torch.testing.assert_close(
        (rotation.q * (dense @ rotation.q)).sum(0), torch.linalg.eigvalsh(dense).flip(0)[:4]
    )


def test_families_through_the_front_door():
    x = np.random.default_rng(0).normal(size=(300, 3)) * [1, 0.7, 0.5]
    x /= np.linalg.norm(x / [1, 0.7, 0.5], axis=1, keepdims=True)
    usual = decompose(x, 6)
    heat = decompose(x, 6, probes="heat")
    np.testing.assert_allclose(np.abs(np.sum(heat.normalized * usual.normalized, 0)), 1, atol=1e-6)
    assert heat.info["probes"] == "heat" and sum(heat.info["explained"]) < 1
    band = decompose(x, 6, probes="wavelet")
    assert float(band.eigenvalues.min()) > 0.5 * float(
        usual.eigenvalues[1]
    )  # no constant among the first
    own = decompose(x, 4, probes=lambda points: np.column_stack([np.ones(len(points)), points]))
    given = decompose(x, 4, probes=np.column_stack([np.ones(300), x]))
    np.testing.assert_allclose(own.normalized, given.normalized, atol=1e-9)
    register("double", lambda t: {t: 1.0, 3 * t: 1.0})
    try:
        assert decompose(x, 5, probes="double").k == 5
    finally:
        del FAMILIES["double"]
    with pytest.raises(InputError, match="one of heat, resolvent"):
        decompose(x, 5, probes="cold")
    with pytest.raises(InputError, match="mass"):
        decompose(x, 5, probes="heat", smoother="row")


def test_row_smoothers_have_families_of_one_power_only():
    points = smoother().graph.points
    row = build_smoother(points, "row", k=8, dimension=2)
    dense = torch.linalg.matrix_power(row.matrix.to_dense(), 3)
    for name in ("heat", "hadamard"):
        torch.testing.assert_close(family(name).covariance(row, 3).dense().matrix, dense @ dense.T)
    for name in ("wavelet", "polynomial", "resolvent"):
        with pytest.raises(InputError, match="need a symmetric smoother, got 'row'"):
            family(name).covariance(row, 3)


@pytest.mark.parametrize(
    ("name", "terms"), [("wavelet", {3: 1, 6: -1}), ("polynomial", dict.fromkeys(range(4), 0.25))]
)
def test_probes_of_a_family_are_its_polynomial_of_the_same_noise(name, terms):
    sphere = smoother(120)
    noise, drawn = (
        family(each).draw(sphere, 5, steps, generator=torch.Generator().manual_seed(3))
        for each, steps in (("heat", 0), (name, 3))
    )
    dense = sphere.matrix.to_dense()
    expected = sum(
        weight * torch.linalg.matrix_power(dense, power) @ noise for power, weight in terms.items()
    )
    torch.testing.assert_close(drawn, expected, atol=1e-10, rtol=1e-8)
    rows = family("hadamard").draw(
        sphere, 128, 0
    )  # any random numbers: rows of one Hadamard matrix are orthogonal
    torch.testing.assert_close(rows @ rows.T, 128 * torch.eye(sphere.n, dtype=rows.dtype))
