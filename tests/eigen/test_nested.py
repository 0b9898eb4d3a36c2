"""The nested start: sparse algebra on any device equal to scipy's, eigenvalues equal to Lanczos."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import eigsh
from torch import Tensor

from eigenprobe.eigen import inverse, multigrid, nested, solve, sparse
from eigenprobe.eigen.chebyshev import SparseOperator
from eigenprobe.graph.edges import Edges, _joined, components
from eigenprobe.smoothers import Smoother, build_smoother, laplacian_smoother
from tests import clouds as c


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, everything is done as on a device without scipy."""
    return lambda: monkeypatch.setattr(sparse, "on_host", lambda matrix: False)


def random_sparse(rows: int, columns: int, rng: np.random.Generator) -> Tensor:
    dense = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < 0.1)
    dense[rows // 2] = 0
    return torch.from_numpy(dense).to_sparse_csr()


def smoother(n: int, rng: np.random.Generator) -> Smoother:
    return build_smoother(torch.as_tensor(c.random_sphere(n, rng)))


def problem(n: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """``I - A`` and its null vector."""
    operator = smoother(n, rng)
    assert operator.mass is not None
    return SparseOperator(operator.matrix, None, operator.leaving).laplacian(), operator.mass.sqrt()[:, None]


@pytest.mark.parametrize("device", [False, True])
def test_sparse_algebra_is_dense_algebra(device, anywhere, monkeypatch, rng):
    if device:
        anywhere()
        monkeypatch.setattr(sparse, "PRODUCTS", 50)  # several parts, some of one row
    a, b = random_sparse(60, 40, rng), random_sparse(40, 70, rng)
    left, right = torch.rand(60, dtype=torch.float64), torch.rand(40, dtype=torch.float64)
    torch.testing.assert_close(sparse.multiply(a, b).to_dense(), a.to_dense() @ b.to_dense())
    assert torch.equal(sparse.transpose(a).to_dense(), a.to_dense().mT)
    torch.testing.assert_close(
        sparse.scaled(a, left, right).to_dense(), left[:, None] * a.to_dense() * right, rtol=1e-12, atol=0
    )
    square = random_sparse(50, 50, rng)
    key = torch.from_numpy(rng.permutation(50))
    near = torch.where(square.to_dense() != 0, key, -1).amax(1)
    assert torch.equal(sparse.row_max(square, key), torch.maximum(near, key))


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


def test_nested_eigenvalues_are_those_of_lanczos(anywhere, rng):
    operator = smoother(12_000, rng)
    laplacian = sparse.as_scipy(SparseOperator(operator.matrix, None, operator.leaving).laplacian())
    exact = np.sort(eigsh(laplacian.tocsc(), 20, sigma=-1e-6, tol=1e-12)[0])[1:]
    for device in (False, True):
        if device:
            anywhere()
        pairs = solve(operator, 20)
        np.testing.assert_allclose(pairs.gaps[1:].numpy(), exact, rtol=1e-6)
        torch.testing.assert_close(
            pairs.vectors.mT @ pairs.vectors, torch.eye(20, dtype=torch.float64), rtol=0, atol=1e-9
        )
        residual = torch.from_numpy(laplacian @ pairs.vectors.numpy()) - pairs.vectors * pairs.gaps
        assert float(residual.norm(dim=0).max()) <= 1e-6


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


def test_a_graph_that_does_not_coarsen_is_not_inverted_densely(rng, monkeypatch):
    """Hubs and leaves: nearly all points are roots, and a dense inverse of all of them would be n x n."""
    n, hubs = 1500, 40
    leaf = np.repeat(np.arange(hubs, n), 5)
    key = np.unique(rng.integers(hubs, size=len(leaf)) * n + leaf)
    edges = Edges(torch.from_numpy(key // n), torch.from_numpy(key % n), n)
    ones = torch.ones(n, dtype=torch.float64)
    operator = laplacian_smoother(edges, torch.ones(len(key), dtype=torch.float64), ones, None, 2)
    laplacian, known = SparseOperator(operator.matrix).laplacian(), operator.mass.sqrt()[:, None]
    (only,) = multigrid.hierarchy(laplacian, known, 20)
    assert only.inverse is not None and only.inverse.layout == torch.sparse_csr
    monkeypatch.setattr(inverse, "INVERSION", inverse.Inversion(most=0))
    monkeypatch.setattr(nested, "NESTING", nested.Nesting(points=1000))
    exact = torch.linalg.eigvalsh(laplacian.to_dense())[:8]
    torch.testing.assert_close(solve(operator, 8).gaps, exact, rtol=1e-6, atol=1e-12)


def test_parts_without_a_loop_over_points(rng):
    n = 4000
    chain = torch.arange(n - 1)
    chain = chain[chain % 1000 != 999]  # four long chains: the hardest case
    shuffled = torch.from_numpy(rng.permutation(n))
    head, tail = shuffled[chain], shuffled[chain + 1]
    count, labels = _joined(head, tail, n)
    expected, names = components(head, tail, n)
    assert count == expected == 4
    assert len(torch.stack([labels, names]).unique(dim=1).T) == 4  # the same parts


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
