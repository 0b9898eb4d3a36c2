"""The direct solver against dense eigendecompositions and against scipy's Lanczos, whatever the graph looks like."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh
from torch import Tensor

from eigenprobe.eigen import filtered, inverse, multigrid, nested
from eigenprobe.eigen import solve as eigenpairs
from eigenprobe.eigen.chebyshev import SparseOperator, growth, spectral_bounds
from eigenprobe.eigen.solve import SOLVERS
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.graph import stack
from eigenprobe.smoothers import Smoother, build_smoother


def solve(*arguments, **options) -> tuple[Tensor, Tensor]:
    pairs = eigenpairs(*arguments, **options)
    return pairs.vectors, pairs.factors


def sphere(n: int, seed: int = 0) -> Tensor:
    x = torch.randn((n, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x / x.norm(dim=1, keepdim=True)


def torus(n: int, seed: int = 0) -> Tensor:
    u, v = 2 * torch.pi * torch.rand((2, n), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    ring = 1 + 0.4 * v.cos()
    return torch.stack([ring * u.cos(), ring * u.sin(), 0.4 * v.sin()], 1)


def residuals(smoother: Smoother, q: Tensor, mu: Tensor) -> Tensor:
    return (smoother.matrix.double() @ q.double() - q.double() * mu).norm(dim=0)


def exact(smoother: Smoother, k: int) -> Tensor:
    return torch.linalg.eigvalsh(smoother.matrix.to_dense().double()).flip(0)[:k]


def check(smoother: Smoother, k: int, q: Tensor, mu: Tensor) -> None:
    assert q.shape == (smoother.n, k) and mu.shape == (k,)
    assert float(residuals(smoother, q, mu).max()) < 1e-6
    assert torch.allclose(q.mT @ q, torch.eye(k, dtype=q.dtype), atol=1e-10)
    assert bool((mu.diff() <= 1e-12).all())


@pytest.mark.parametrize("kind", ["symmetric", "adaptive"])
@pytest.mark.parametrize("shape", [sphere, torus])
def test_agrees_with_dense_eigh(kind, shape):
    smoother = build_smoother(shape(2000), kind)
    q, mu = solve(smoother, 50)
    check(smoother, 50, q, mu)
    assert torch.allclose(mu, exact(smoother, 50), rtol=0, atol=1e-8)
    assert torch.allclose(q[:, 0], smoother.mass.sqrt(), atol=1e-7)


def test_nested_iteration_agrees_with_lanczos(monkeypatch):
    smoother = build_smoother(torus(8000))
    called = []
    start = nested.nested_start
    monkeypatch.setattr(nested, "nested_start", lambda *a: called.append(a) or start(*a))
    monkeypatch.setattr(inverse, "suits", lambda problem: False)
    q, mu = solve(smoother, 40)
    assert called, "8000 points in R^3 should start from a coarse level"
    check(smoother, 40, q, mu)
    m = smoother.matrix
    matrix = csr_array((m.values().numpy(), m.col_indices().numpy(), m.crow_indices().numpy()), shape=(8000, 8000))
    reference = np.sort(eigsh(matrix, 40, which="LA", ncv=160, return_eigenvectors=False))[::-1]
    assert np.allclose(mu.numpy(), reference, rtol=0, atol=1e-8)


def test_all_solvers_agree(monkeypatch):
    smoother = build_smoother(sphere(7000))
    _, first = solve(smoother, 30)
    for solver in (inverse, nested):
        monkeypatch.setattr(solver, "suits", lambda problem: False)
        q, mu = solve(smoother, 30)
        check(smoother, 30, q, mu)
        assert torch.allclose(mu, first, rtol=0, atol=1e-8)


def test_all_copies_of_repeated_eigenvalues_are_found():
    """Equal parts side by side: every eigenvalue has as many copies, more than a block of Lanczos has columns."""
    alone = build_smoother(torus(300))
    matrix = torch.block_diag(*[alone.matrix.to_dense()] * 5).to_sparse_csr()
    several = replace(alone, matrix=matrix, mass=alone.mass.repeat(5) / 5, leaving=None, edges=None)
    q, mu = solve(several, 60)
    check(several, 60, q, mu)
    assert torch.allclose(mu.view(-1, 5), exact(alone, 12)[:, None].expand(-1, 5), rtol=0, atol=1e-9)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.97, 1.4])
def test_a_pole_amid_the_spectrum_counts_what_is_below_it(share):
    """Seven copies of every eigenvalue, more than twice a block; a pole above them all is not used."""
    alone = torch.eye(150, dtype=torch.float64) - build_smoother(torus(150)).matrix.to_dense()
    values = torch.linalg.eigvalsh(alone).repeat_interleave(7)
    pole = share * float(values[62]) * (1 + 1e-3)  # of 63: the ninth and last, seven times
    matrix = csr_array(torch.block_diag(*[alone] * 7).numpy())
    _, used, below = inverse._counted(matrix, pole, 0.85 * 63)
    assert below == (int((values < pole).sum()) if used > 0 else 0)
    assert (used > 0) == (int((values < pole).sum()) <= 0.85 * 63)
    found, vectors = inverse.smallest_pairs(matrix, 63, pole=pole, accuracy=1e-9)
    assert np.allclose(found, values[:63], rtol=0, atol=1e-10)
    assert np.allclose(vectors.T @ vectors, np.eye(63), atol=1e-10)
    assert np.linalg.norm(matrix @ vectors - vectors * found, axis=0).max() < 1e-8


def test_lanczos_ends_where_the_residual_is_what_was_asked(monkeypatch: pytest.MonkeyPatch):
    """Not a hundred times below it: little more than two solutions for each wanted vector."""
    rough = np.random.default_rng(0).normal(size=(1500, 3)) * [1, 1, 0.5]
    rough /= np.linalg.norm(rough, axis=1)[:, None] ** 0.9
    smoother, solved, factor = build_smoother(torch.from_numpy(rough)), [], inverse._factor

    class Counting:
        def __init__(self, *given):
            self.own = factor(*given)
            self.U, self.perm_r, self.perm_c = self.own.U, self.own.perm_r, self.own.perm_c

        def solve(self, right):
            solved.append(right[0].size)
            return self.own.solve(right)

    monkeypatch.setattr(inverse, "_factor", Counting)
    q, mu = solve(smoother, 50)
    check(smoother, 50, q, mu)
    assert torch.allclose(1 - mu, 1 - exact(smoother, 50), rtol=1e-8, atol=1e-12)
    assert sum(solved) <= 109  # one of them a test of the factor


@pytest.mark.parametrize("n", [900, 7000])
def test_components_have_exact_vectors(n):
    centres = torch.tensor([0.0, 10.0, 25.0, 60.0], dtype=torch.float64)
    cloud = torch.cat([sphere(n // 4, seed=i) * (1 + i / 2) + c for i, c in enumerate(centres)])
    smoother = build_smoother(cloud)
    q, mu = solve(smoother, 20)
    check(smoother, 20, q, mu)
    assert torch.allclose(mu[:4], torch.ones(4, dtype=torch.float64), atol=1e-9)
    assert float(mu[4]) < 1 - 1e-6
    assert torch.allclose(q[:, 0], smoother.mass.sqrt(), atol=1e-7)
    v = q[:, :4] / smoother.mass.sqrt()[:, None]
    for part in v.split(n // 4):  # constant on every component
        assert float((part - part.mean(0)).abs().max()) < 1e-6


def test_more_components_than_vectors():
    cloud = torch.cat([sphere(60, seed=i) + 10.0 * i for i in range(20)])
    q, mu = solve(build_smoother(cloud), 8)
    assert torch.allclose(mu, torch.ones(8, dtype=torch.float64), atol=1e-9)
    assert torch.allclose(q.mT @ q, torch.eye(8, dtype=torch.float64), atol=1e-10)


def test_high_multiplicity():
    """Twelve copies of one cloud: every eigenvalue comes twelve times."""
    one = build_smoother(torus(300))
    smoother = build_smoother(stack([one.graph] * 12))
    q, mu = solve(smoother, 36)
    check(smoother, 36, q, mu)
    assert torch.allclose(mu, exact(one, 3).repeat_interleave(12), atol=1e-8)


@pytest.mark.parametrize(("n", "k"), [(30, 29), (30, 30), (700, 300), (5, 1)])
def test_many_vectors_of_few_points(n, k):
    smoother = build_smoother(sphere(n), "symmetric", k=min(8, n - 2))
    q, mu = solve(smoother, k)
    check(smoother, k, q, mu)
    assert torch.allclose(mu, exact(smoother, k), atol=1e-10)


def test_precisions_and_tolerance():
    smoother = build_smoother(sphere(1500), "symmetric")
    q, mu = solve(smoother, 20, tol=1e-11)
    assert float(residuals(smoother, q, mu).max()) < 1e-11
    single = smoother.to(dtype=torch.float32)
    q32, mu32 = solve(single, 20)
    assert q32.dtype == torch.float32 and mu32.dtype == torch.float64
    assert torch.allclose(mu32, mu, atol=1e-6)


def test_reproducible_and_independent_of_the_order_of_points():
    cloud = torus(9000)
    first, again = (solve(build_smoother(cloud), 12) for _ in range(2))
    assert torch.equal(first[0], again[0])
    order = torch.randperm(9000, generator=torch.Generator().manual_seed(1))
    q, mu = solve(build_smoother(cloud[order]), 12)
    assert torch.allclose(mu, first[1], atol=1e-9)
    overlap = first[0][order].mT @ q
    assert torch.allclose(overlap @ overlap.mT, torch.eye(12, dtype=torch.float64), atol=1e-4)


def test_matrix_function_and_start():
    smoother = build_smoother(sphere(1200), "symmetric")
    q, mu = solve(smoother.matrix, 15)  # nothing known about its first vector
    check(smoother, 15, q, mu)
    by_function = solve(lambda x: smoother.matrix.to(x.dtype) @ x, 15, n=1200)
    assert torch.allclose(by_function[1], mu, atol=1e-9)
    warm = solve(smoother, 15, start=q[:, 1:], max_sweeps=1)
    assert torch.allclose(warm[1], mu, atol=1e-9)
    dense = solve(smoother.matrix.to_dense(), 15)
    assert torch.allclose(dense[1], mu, atol=1e-9)


def test_says_what_went_wrong():
    smoother = build_smoother(sphere(1500), "symmetric")
    with pytest.warns(EigenprobeWarning, match="residual"):
        solve(smoother, 20, max_sweeps=1)
    with pytest.raises(InputError, match="between 1 and 1500"):
        solve(smoother, 1501)
    with pytest.raises(InputError, match="needs the number of points"):
        solve(lambda x: x, 5)
    with pytest.raises(InputError, match="square matrix"):
        solve(torch.zeros(3, 4), 2)


def test_filter_is_the_chebyshev_polynomial():
    smoother = build_smoother(sphere(300), "symmetric")
    operator = SparseOperator(smoother.matrix, torch.randperm(300, generator=torch.Generator().manual_seed(0)))
    full = operator.matrix.to_dense()
    values, vectors = torch.linalg.eigh(full)
    lo, hi = -0.3, 0.8
    x = torch.eye(300, dtype=torch.float64)[:, :7].contiguous()
    t = torch.special.chebyshev_polynomial_t((2 * values - hi - lo) / (hi - lo), torch.tensor(9.0, dtype=torch.float64))
    assert torch.allclose(operator.filter(x, 9, lo, hi), vectors @ (t[:, None] * (vectors.mT @ x)), atol=1e-8)
    assert np.isclose(np.cosh(9 * float(growth(values[-1], lo, hi))), float(t[-1]))
    low, high = spectral_bounds(operator, torch.Generator().manual_seed(0))
    assert low <= float(values[0]) + 1e-9 and high >= float(values[-1]) - 1e-9


def test_multigrid_keeps_null_vectors_and_reduces_errors():
    smoother = build_smoother(torus(6000))
    operator = SparseOperator(smoother.matrix)
    known = smoother.mass.sqrt()[:, None]
    levels = multigrid.hierarchy(operator.laplacian(), known, 60)
    assert len(levels) > 1 and levels[-1].n < 6000 / 4
    for level in levels:
        assert float((level.laplacian @ level.known).abs().max()) < 1e-10
    scaled, root = levels[0].scaled, levels[0].scale
    null = known.float() / root
    null /= null.norm()
    x = torch.randn((6000, 4), generator=torch.Generator().manual_seed(0))
    x -= null @ (null.mT @ x)
    error = x - multigrid.inverse(levels, scaled @ x)
    error -= null @ (null.mT @ error)
    energy = [float(((scaled @ e) * e).sum()) for e in (x, error)]
    assert energy[1] < 0.05 * energy[0]


def test_aggregates_are_connected_groups():
    smoother = build_smoother(sphere(2000))
    laplacian = SparseOperator(smoother.matrix).laplacian()
    labels, count = multigrid.aggregate(laplacian)
    assert labels.unique().tolist() == list(range(count))
    assert 2 < 2000 / count < 20
    _, found = nested.nested_start(laplacian, smoother.mass.sqrt()[:, None], 16, nested.Goal(10, 1e-6, 1e-6))
    assert found.x.shape == (2000, 16)


def test_every_solver_has_the_same_two_methods():
    assert all(callable(solver.suits) and callable(solver.solve) for solver in SOLVERS)
    assert SOLVERS[-1] is filtered, "the last one takes whatever the others leave"


def test_a_row_smoother_enters_as_the_covariance_of_its_probes():
    smoother = build_smoother(sphere(300), "row")
    s = torch.linalg.matrix_power(smoother.matrix.to_dense(), 20)
    q, mu = solve(smoother, 5)
    assert torch.allclose(mu, torch.linalg.eigvalsh(s @ s.mT).flip(0)[:5], atol=1e-9)
    assert torch.allclose(q.mT @ q, torch.eye(5, dtype=q.dtype), atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_random_curve_of_many_points_is_exact(seed):
    """Spacings down to 1e-9 of the length: 1 - mu of the wanted pairs is near 1e-13."""
    x = torch.rand((20_000, 1), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    smoother = build_smoother(x)
    pairs = eigenpairs(smoother, 5)
    length = float(x.max() - x.min())
    expected = (torch.arange(5, dtype=torch.float64) * torch.pi / length) ** 2
    assert torch.allclose(pairs.gaps[1:] / smoother.step_time, expected[1:], rtol=2e-3)
    assert torch.allclose(pairs.vectors.mT @ pairs.vectors, torch.eye(5, dtype=torch.float64), atol=1e-9)


def test_converged_pairs_far_above_the_rest_do_not_overflow_a_sweep() -> None:
    """Eigenvalues 2^(1 - i), as those of probes with a large bandwidth: the twentieth is a millionth of the first."""
    generator = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn((737, 737), generator=generator).double())[0]
    values = 2 * 0.5 ** torch.arange(737).double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EigenprobeWarning)  # single precision ends above the smallest of them
        found = eigenpairs(lambda x: (turn.to(x) * values.to(x)) @ (turn.to(x).T @ x), 20, n=737)
    torch.testing.assert_close(1 - found.gaps, values[:20], atol=1e-4, rtol=0)
