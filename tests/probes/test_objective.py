"""The one-Cholesky errors against K separate solves, the expected loss against many probes, and
gradients.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenprobe.eigen import orthonormalise
from eigenprobe.errors import InputError
from eigenprobe.probes.objective import (
    Objective,
    expected_errors,
    first_mass,
    nested_basis,
    prefix_errors,
)


def textbook(q: torch.Tensor, f: torch.Tensor, mass: torch.Tensor | None) -> torch.Tensor:
    """K separate least-squares solves, straight from the definition."""
    m = torch.ones(q.shape[0], dtype=q.dtype) if mass is None else mass
    rows = []
    for k in range(1, q.shape[1] + 1):
        head = q[:, :k]
        weighted = head * m[:, None]
        c = torch.linalg.solve(head.T @ weighted, weighted.T @ f)
        rows.append((f - head @ c).square().sum(0))
    return torch.stack(rows)


def draw(seed: int, n: int, k: int, m: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    q = torch.randn(n, k, generator=g, dtype=torch.float64)
    f = torch.randn(n, m, generator=g, dtype=torch.float64)
    mass = torch.rand(n, generator=g, dtype=torch.float64) + 0.05
    return q, f, mass / mass.sum()


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**20),
    st.integers(12, 60),
    st.integers(1, 10),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
)
def test_prefix_errors_equal_separate_solves(seed, n, k, m, weighted, orthonormal):
    q, f, mass = draw(seed, n, k, m)
    q = torch.linalg.qr(q).Q if orthonormal else q
    use = mass if weighted else None
    torch.testing.assert_close(prefix_errors(q, f, use), textbook(q, f, use), atol=1e-9, rtol=1e-9)


def test_prefix_errors_batch_is_every_cloud_on_its_own():
    items = [draw(seed, 30, 5, 4) for seed in range(3)]
    q, f, mass = (torch.stack(parts) for parts in zip(*items))
    each = torch.stack([prefix_errors(*item) for item in items])
    torch.testing.assert_close(prefix_errors(q, f, mass), each)
    covariance = f @ f.mT
    trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
    batched = expected_errors(q, lambda x: covariance @ x, trace, mass)
    single = [
        expected_errors(q[i], lambda x, i=i: covariance[i] @ x, trace[i], mass[i]) for i in range(3)
    ]
    torch.testing.assert_close(batched, torch.stack(single))
    batched = expected_errors(q, lambda x: covariance @ x, trace)
    single = [expected_errors(q[i], lambda x, i=i: covariance[i] @ x, trace[i]) for i in range(3)]
    torch.testing.assert_close(batched, torch.stack(single))


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_never_grow_in_their_own_norm_and_depend_on_spans_only(weighted):
    q, f, mass = draw(3, 40, 8, 6)
    use = mass if weighted else None
    errors = prefix_errors(q, f, use)
    if not weighted:  # the hybrid's 2-norm error of an M-projection may grow: it is another norm
        assert bool((errors.diff(dim=0) <= 1e-12).all())
    triangular = torch.randn(8, 8, dtype=torch.float64).triu() + 4 * torch.eye(
        8, dtype=torch.float64
    )
    torch.testing.assert_close(prefix_errors(q @ triangular, f, use), errors)


@pytest.mark.parametrize("weighted", [False, True])
def test_expected_errors_are_the_mean_over_the_empirical_covariance(weighted):
    # For C = F F^T / m the expectation is the sample mean, exactly.
    q, f, mass = draw(5, 30, 6, 50)
    use = mass if weighted else None
    covariance = f @ f.T / f.shape[1]
    expected = expected_errors(q, lambda x: covariance @ x, covariance.trace(), use)
    torch.testing.assert_close(expected, prefix_errors(q, f, use).mean(-1), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("kind", ["sampled", "expected"])
@pytest.mark.parametrize("projection", ["euclidean", "hybrid"])
@pytest.mark.parametrize("relative", [False, True])
def test_gradients(kind, projection, relative):
    q, f, _ = draw(7, 9, 3, 5)
    covariance = f @ f.T
    objective = Objective(kind, projection, relative=relative)

    def loss(z: torch.Tensor) -> torch.Tensor:
        return objective(z, covariance=lambda x: covariance @ x, trace=covariance.trace(), probes=f)

    assert torch.autograd.gradcheck(loss, (q.clone().requires_grad_(),))


def test_expected_euclidean_optimum_is_the_eigenbasis():
    _, f, _ = draw(8, 20, 1, 40)
    covariance = f @ f.T
    values, vectors = torch.linalg.eigh(covariance)
    best = vectors.flip(-1)[:, :5]
    errors = expected_errors(best, lambda x: covariance @ x, covariance.trace())
    torch.testing.assert_close(errors, covariance.trace() - values.flip(0)[:5].cumsum(0))
    for seed in range(5):
        other = best + 0.1 * draw(seed, 20, 5, 1)[0]
        assert (
            Objective()(other, covariance=lambda x: covariance @ x, trace=covariance.trace())
            > errors.mean()
        )


def test_float32_features_of_fifty_columns_stay_accurate():
    # A float32 Gram matrix of such correlated columns is not positive definite; the float64 one is.
    x = torch.linspace(-1, 1, 400, dtype=torch.float64)
    from numpy.polynomial.legendre import legvander

    exact = torch.from_numpy(legvander(x.numpy(), 49)) @ (
        torch.eye(50, dtype=torch.float64)
        + 3 * torch.from_numpy(np.random.default_rng(0).normal(size=(50, 50))).triu(1) / 50
    )
    basis, upper = orthonormalise(exact.float(), check=False, passes=1)
    factor = upper.mT
    identity = torch.eye(50, dtype=torch.float64)
    torch.testing.assert_close(basis.mT @ basis, identity, atol=1e-8, rtol=0)
    torch.testing.assert_close(basis @ factor.mT, exact.float().double(), atol=1e-9, rtol=1e-9)
    assert bool((factor.diagonal() > 0).all())


def test_rank_deficient_features_are_nan_not_an_exception():
    z = torch.ones(10, 3)
    assert bool(nested_basis(z).isnan().all())
    good = torch.randn(10, 3)
    both = nested_basis(torch.stack([z, good]))
    assert bool(both[0].isnan().all()) and bool(both[1].isfinite().all())


def test_the_loss_is_the_mean_over_prefixes():
    errors = torch.tensor([[4.0, 2.0, 1.0], [8.0, 4.0, 2.0]], dtype=torch.float64)
    energy = torch.tensor([8.0, 16.0])
    torch.testing.assert_close(Objective().reduce(errors, energy), errors.mean(1))
    relative = Objective(relative=True).reduce(errors, energy)
    torch.testing.assert_close(relative, errors.mean(1) / energy)


@pytest.mark.parametrize("probe", ["mean", "worst"])
@pytest.mark.parametrize("projection", ["euclidean", "hybrid", "mass"])
@pytest.mark.parametrize("relative", [False, True])
def test_a_sampled_loss_is_its_definition(projection, probe, relative):
    """Solves prefix by prefix; the mass is the square of the first column, the energy |f|^2, in the
    M-norm over n.
    """
    (q, f, _), (other, g, _) = draw(11, 15, 4, 6), draw(12, 15, 4, 6)
    losses = []
    for basis, probes in ((q, f), (other, g)):
        mass = basis[:, 0].square() / basis[:, 0].square().sum()
        if projection == "mass":
            roots = mass.sqrt()[:, None]
            errors, energy = (
                textbook(roots * basis, roots * probes, None),
                probes.square().sum(0).mean() / 15,
            )
        else:
            errors = textbook(basis, probes, mass if projection == "hybrid" else None)
            energy = probes.square().sum(0).mean()
        each = errors.amax(1) if probe == "worst" else errors.mean(1)
        losses.append(each.mean() / (energy if relative else 1))
    objective = Objective("sampled", projection, probe=probe, relative=relative)
    found = objective(torch.stack([q, other]), probes=torch.stack([f, g]))
    torch.testing.assert_close(found, torch.stack(losses).mean())
    single = objective(torch.stack([q, other]).float(), probes=torch.stack([f, g]).float())
    assert single.dtype == torch.float64
    torch.testing.assert_close(single, found, rtol=1e-4, atol=0)


def test_first_mass_and_bad_input():
    assert float(first_mass(torch.randn(50, 3)).sum()) == pytest.approx(1)
    with pytest.raises(InputError, match="one n"):
        prefix_errors(torch.ones(4, 2), torch.ones(5, 2))
    with pytest.raises(InputError, match="mass of length"):
        prefix_errors(torch.ones(4, 2), torch.ones(4, 2), torch.ones(3))
    with pytest.raises(InputError, match="needs probes"):
        Objective("sampled")(torch.ones(4, 2))
    with pytest.raises(InputError, match="needs a covariance"):
        Objective()(torch.ones(4, 2))
    with pytest.raises(InputError, match="kind must be 'expected' or 'sampled', got 'typo'"):
        Objective("typo")
