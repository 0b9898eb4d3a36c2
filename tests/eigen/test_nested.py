"""The nested start: sparse algebra on any device equal to scipy's, eigenvalues equal to Lanczos."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from eigenprobe.eigen import inverse, multigrid, nested, solve
from eigenprobe.eigen import multigrid as sparse
from eigenprobe.eigen.problem import SparseOperator
from eigenprobe.errors import EigenprobeWarning
from eigenprobe.graph.graph import Edges
from eigenprobe.smoothers import Smoother, build_smoother, laplacian_smoother
from eigenprobe.smoothers import smoother as matrices
from tests import clouds as c


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """From the call on, everything is done as on a device without scipy."""
    return lambda: [monkeypatch.setattr(each, "on_host", lambda matrix: False) for each in (sparse, matrices)]


def smoother(n: int, rng: np.random.Generator) -> Smoother:
    return build_smoother(torch.as_tensor(c.random_sphere(n, rng)))


def problem(n: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """``I - A`` and its null vector."""
    operator = smoother(n, rng)
    assert operator.mass is not None
    return SparseOperator(operator.matrix, None, operator.leaving).laplacian(), operator.mass.sqrt()[:, None]


def test_a_hierarchy_is_the_same_on_every_device(anywhere, rng):
    operator = smoother(5000, rng)
    laplacian, known = (
        SparseOperator(operator.matrix, None, operator.leaving).laplacian(),
        operator.mass.sqrt()[:, None],
    )
    host = multigrid.hierarchy(laplacian, known, 20)
    anywhere()
    device = multigrid.hierarchy(laplacian, known, 20)
    assert [level.n for level in host] == [level.n for level in device] and len(host) == 3
    for one, other in zip(host, device, strict=True):
        torch.testing.assert_close(one.laplacian.to_dense(), other.laplacian.to_dense(), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(one.scale, other.scale)


def test_columns_that_have_converged_are_no_longer_improved(rng, monkeypatch):
    """Of exact vectors but for a few columns only those, and the guards, are swept; all end exact."""
    laplacian, known = problem(900, rng)
    exact, vectors = torch.linalg.eigh(laplacian.to_dense())
    levels = multigrid.hierarchy(laplacian, known, 20)
    block = vectors[:, 1:25].clone()
    block[:, 10:14] += 1e-3 * torch.from_numpy(rng.normal(size=(900, 4)))
    widths: list[int] = []
    real = nested.inverse

    def spy(levels, residual, at):
        widths.append(residual.shape[1])
        return real(levels, residual, at)

    monkeypatch.setattr(nested, "inverse", spy)
    goal = nested.Goal(20, 1e-8, 1e-10)
    found = nested.improve(levels, 0, block, goal, 40, torch.zeros(20, dtype=torch.float64))
    guards = min(20 + nested.NESTING.swept_guards, 24) - 20
    assert widths and max(widths) < 20 + guards and min(widths) > guards
    torch.testing.assert_close(found.g[:20], exact[1:21], rtol=1e-8, atol=0)
    residual = laplacian @ found.x[:, :20] - found.x[:, :20] * found.g[:20]
    torch.testing.assert_close(found.norms, residual.norm(dim=0), rtol=1e-3, atol=1e-13)


def test_sweeps_in_double_precision_go_on_to_the_end(rng):
    """From random columns: directions that float32 cannot tell from rounding were dropped, and all ended at 1e-6."""
    operator = build_smoother(torch.as_tensor(c.random_sphere(2000, rng) * [1.0, 0.05, 0.02]))
    assert operator.mass is not None
    laplacian, known = SparseOperator(operator.matrix).laplacian(), operator.mass.sqrt()[:, None]
    levels = multigrid.hierarchy(laplacian, known, 40)
    block = torch.randn((2000, 30), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = nested.improve(levels, 0, block, nested.Goal(20, 1e-11, 1e-12), 40)
    x = found.x[:, :20]
    assert float((laplacian @ x - x * found.g[:20]).norm(dim=0).max()) <= 1e-10
    exact = torch.linalg.eigvalsh(laplacian.to_dense())[1:21]
    torch.testing.assert_close(found.g[:20], exact, rtol=1e-8, atol=0)
    torch.testing.assert_close(found.x.mT @ found.x, torch.eye(30, dtype=torch.float64), rtol=0, atol=1e-9)


def hubs_and_leaves(rng):
    """A smoother of 40 hubs with 1460 leaves, and its first eight gaps."""
    n, hubs = 1500, 40
    leaf = np.repeat(np.arange(hubs, n), 5)
    key = np.unique(rng.integers(hubs, size=len(leaf)) * n + leaf)
    edges = Edges(torch.from_numpy(key // n), torch.from_numpy(key % n), n)
    ones = torch.ones(n, dtype=torch.float64)
    operator = laplacian_smoother(edges, torch.ones(len(key), dtype=torch.float64), ones, None, 2)
    return operator, torch.linalg.eigvalsh(SparseOperator(operator.matrix).laplacian().to_dense())[:8]


def test_a_graph_that_does_not_coarsen_is_not_inverted_densely(rng, monkeypatch):
    """Nearly all points are roots, and a dense inverse of all of them would be n x n."""
    operator, exact = hubs_and_leaves(rng)
    laplacian, known = SparseOperator(operator.matrix).laplacian(), operator.mass.sqrt()[:, None]
    (only,) = multigrid.hierarchy(laplacian, known, 20)
    assert only.inverse is not None and only.inverse.layout == torch.sparse_csr
    monkeypatch.setattr(inverse, "INVERSION", inverse.Inversion(most=0))
    monkeypatch.setattr(nested, "NESTING", nested.Nesting(points=1000))
    torch.testing.assert_close(solve(operator, 8).gaps, exact, rtol=2e-6, atol=1e-12)  # 1.3e-6 at most of 80 draws


def test_lapack_has_the_last_word(monkeypatch):
    """Filters stop short of these eigenvalues, which lie close together: .54 too high after 200 sweeps."""
    rng = np.random.default_rng(3134724569)
    operator, exact = hubs_and_leaves(rng)
    monkeypatch.setattr(inverse, "INVERSION", inverse.Inversion(most=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(solve(operator, 8).gaps, exact, rtol=1e-6, atol=1e-12)
    with pytest.warns(EigenprobeWarning, match="stopped after 20 sweeps"):
        solve(operator, 8, max_sweeps=20)


def test_every_level_takes_part_in_a_cycle(rng):
    """Without the scale of a coarser level its correction was a tenth of what it should be: 0.9 per cycle."""
    operator = smoother(8000, rng)
    laplacian, known = (
        SparseOperator(operator.matrix, None, operator.leaving).laplacian(),
        operator.mass.sqrt()[:, None],
    )
    levels = multigrid.hierarchy(laplacian, known, 20)
    assert len(levels) >= 3
    scaled, null = levels[0].scaled, known.float() / levels[0].scale
    null /= null.norm()
    x = torch.randn((8000, 1), generator=torch.Generator().manual_seed(0))
    energies = []
    for _ in range(9):
        x = x - multigrid.cycle(levels, scaled @ x)
        x = x - null @ (null.mT @ x)
        energies.append(float((x * (scaled @ x)).sum()) ** 0.5)
    assert energies[-1] < 0.6**4 * energies[-5]


def test_a_sweep_spans_residuals_and_the_last_directions(rng, monkeypatch):
    """Two blocks in the first sweep, three in all others; every sweep is reported by its number and its residual."""
    laplacian, known = problem(900, rng)
    levels = multigrid.hierarchy(laplacian, known, 20)
    counts: list[int] = []
    said: list[str] = []
    real = nested._Problem.ritz

    def ritz(own, blocks, *rest):
        counts.append(len(blocks))
        return real(own, blocks, *rest)

    monkeypatch.setattr(nested._Problem, "ritz", ritz)
    monkeypatch.setattr(nested, "report", said.append)
    block = torch.from_numpy(rng.normal(size=(900, 12)))
    found = nested.improve(levels, 0, block, nested.Goal(6, 1e-12, 1e-13), 4)
    assert counts == [2, 3, 3, 3]
    assert [line.rpartition(",")[0] for line in said] == [f"level 0, sweep {i}" for i in (1, 2, 3, 4)]
    residuals = [float(line.split()[-1]) for line in said]
    assert residuals == sorted(residuals, reverse=True) and float(found.norms.max()) < residuals[-1]
