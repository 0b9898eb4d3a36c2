"""Bases for given functions, and the paper's estimators of eigenvalues through `decompose`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from tests import clouds as c


def _bumps(x: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """A family of bumps around random centres within one cap."""
    centre = np.concatenate([0.4 * rng.normal(size=(count, 2)), np.ones((count, 1))], 1)
    centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    return np.exp(8 * (x @ centre.T - 1))


def _loss(basis: ep.Basis, f: np.ndarray) -> float:
    rest = f - basis.reconstruct(basis.project(f))
    return float((basis.mass @ rest**2).sum() / (basis.mass @ f**2).sum())


def test_best_basis_is_the_pca_in_the_norm_of_the_mass(rng: np.random.Generator) -> None:
    x = c.uneven(c.random_sphere, lambda x: 1 + 4.5 * (x[:, 2] + 1), 800, rng)
    f = rng.normal(size=(800, 30))
    basis = ep.decompose(x, k=10, probes=f)
    np.testing.assert_allclose(basis.normalized.T @ basis.normalized, np.eye(10), atol=1e-10)
    np.testing.assert_allclose(basis.mass, ep.decompose(x, k=2).mass)
    energy = np.linalg.eigvalsh(f.T @ (basis.mass[:, None] * f))[::-1]
    np.testing.assert_allclose(basis.info["explained"], energy[:10] / energy.sum(), rtol=1e-8)
    assert basis.info["probes"] == f.shape[1]
    assert _loss(basis, f) == pytest.approx(1 - sum(basis.info["explained"]), rel=1e-8)
    stiffness, mass = ep.laplacian(
        x
    )  # eigenvalues are Rayleigh quotients, in the units of the points
    v = basis.vectors
    quotient = (v * (stiffness @ v)).sum(0) / (v * (mass @ v)).sum(0)
    np.testing.assert_allclose(basis.eigenvalues, quotient, rtol=1e-8)


def test_generalises_to_held_out_functions_of_the_family(rng: np.random.Generator) -> None:
    x = c.random_sphere(1500, rng)
    train, test = _bumps(x, 100, rng), _bumps(x, 100, rng)
    own, smooth = ep.decompose(x, k=8, probes=train), ep.decompose(x, k=8)
    assert 4 * _loss(own, test) < _loss(smooth, test)
    assert _loss(own, train) < _loss(own, test) < 0.05  # what was given is reconstructed best


def test_probes_follow_order_copies_and_units(rng: np.random.Generator) -> None:
    x = c.random_sphere(2500, rng)
    f, order = x[:, :1] * rng.normal(size=(2500, 6)), rng.permutation(2500)
    basis = ep.decompose(x, k=4, probes=f)
    other = ep.decompose(10 * x[order], k=4, probes=f[order])
    np.testing.assert_allclose(other.vectors, basis.vectors[order], atol=1e-6)
    np.testing.assert_allclose(100 * other.eigenvalues, basis.eigenvalues, rtol=1e-6)
    with pytest.warns(ep.EigenprobeWarning, match="coincide"):
        again = ep.decompose(np.concatenate([x, x[:9]]), k=4, probes=np.concatenate([f, f[:9]]))
    np.testing.assert_allclose(again.vectors[:2500], basis.vectors, atol=1e-6)


@pytest.mark.parametrize("kind", ["mean", "worst"])
def test_estimators_of_eigenvalues(kind: str, rng: np.random.Generator) -> None:
    x = 3 * c.random_sphere(1200, rng)
    plain = ep.decompose(x, k=17)
    basis = ep.decompose(x, k=17, eigenvalues=kind)
    np.testing.assert_allclose(basis.vectors, plain.vectors)
    assert basis.eigenvalues[0] == 0 and (np.diff(basis.eigenvalues) >= 0).all()
    assert basis.eigenvalues.sum() == pytest.approx(plain.eigenvalues.sum())
    assert np.corrcoef(basis.eigenvalues[1:], plain.eigenvalues[1:])[0, 1] > 0.8
    assert basis.info["estimator"] == kind


def test_mean_estimator_is_one_over_the_tail_of_the_covariance(rng: np.random.Generator) -> None:
    x = c.random_sphere(300, rng)
    basis = ep.decompose(x, k=9, eigenvalues="mean")
    full = ep.decompose(x, k=299)
    smoother = ep.build_smoother(torch.tensor(x))
    mu = np.sort(np.linalg.eigvalsh(smoother.matrix.to_dense().numpy()))[::-1]
    power = 2 ** np.arange(1, 15)
    best = min(power, key=lambda s: abs(np.log((mu**s).sum() / 9)))
    candidates = [best // 2, best, 2 * best]  # the power is found from random signs
    errors = []
    for s in candidates:
        tail = 1 / ((mu**s).sum() - np.cumsum(mu**s))[:8]
        errors.append(
            np.abs(basis.eigenvalues[1:] / tail / (basis.eigenvalues[1:] / tail).mean() - 1).max()
        )
    assert min(errors) < 1e-6 and full.k == 299


@pytest.mark.parametrize(("kind", "size"), [("mean", np.mean), ("worst", np.max)])
def test_estimators_of_given_functions(kind: str, size: Any, rng: np.random.Generator) -> None:
    """One over the mean or the largest error that the vectors before leave, up to one factor."""
    x = c.random_sphere(600, rng)
    f = rng.normal(size=(600, 12))
    basis = ep.decompose(x, k=5, probes=f, eigenvalues=kind)
    assert basis.eigenvalues[0] == 0
    left = []
    for k in range(1, 5):
        v = basis.vectors[:, :k]
        rest = f - v @ (v.T @ (basis.mass[:, None] * f))
        left.append(size(basis.mass @ rest**2))
    np.testing.assert_allclose(basis.eigenvalues[1:] * left, basis.eigenvalues[1] * left[0])


def test_a_list_of_clouds_has_a_list_of_potentials(rng: np.random.Generator) -> None:
    clouds = [c.random_sphere(200, rng), c.random_sphere(300, rng)]
    bases = ep.decompose(clouds, k=3, potential=[np.full(200, 1.0), np.full(300, 2.0)])
    assert [round(float(b.eigenvalues[0]), 6) for b in bases] == [1.0, 2.0]
    with pytest.raises(ep.InputError, match="each of 2 clouds"):
        ep.decompose(clouds, k=3, potential=[np.zeros(200)])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"probes": np.ones((200, 3))}, "at least 4 independent probes, got 1"),
        ({"probes": np.ones(200)}, "probes of shape"),
        ({"probes": np.ones((100, 8))}, "probes of shape"),
        ({"probes": np.ones((200, 8)), "smoother": "row"}, "with a mass"),
        ({"probes": np.ones((200, 8)), "potential": np.ones(200)}, "not together"),
        ({"eigenvalues": "best"}, "must be 'rayleigh'"),
        ({"eigenvalues": "mean", "potential": np.ones(200)}, "not with a potential"),
        ({"eigenvalues": "mean", "method": "pretrained"}, "'direct' only"),
    ],
)
def test_bad_input_is_one_clear_line(options: dict[str, object], told: str) -> None:
    with pytest.raises(ep.InputError, match=told):
        ep.decompose(c.fibonacci_sphere(200), k=4, **options)  # type: ignore[call-overload]
