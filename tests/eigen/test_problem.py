"""The eigenproblem as solvers see it, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.eigen import smoother_filter
from eigenprobe.eigen.filtered import spectral_bounds
from eigenprobe.eigen.problem import (
    FunctionOperator,
    Problem,
    SparseOperator,
    normal_block,
    null_vectors,
)
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.smoothers import Smoother, build_smoother
from tests import clouds as c

DOUBLE = torch.float64


def stack(sizes: tuple[int, ...], rng: np.random.Generator, k: int = 10) -> Smoother:
    points = torch.from_numpy(np.concatenate([c.random_sphere(n, rng) for n in sizes]))
    return build_smoother(build_graph(points, k, clouds=sizes), dimension=2)


def random_block(n: int, p: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return normal_block((n, p), generator, torch.device("cpu"), DOUBLE)


@pytest.mark.parametrize("degree", [0, 1, 2, 9])
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_every_cloud_has_its_filter(degree, dtype, rng) -> None:
    sizes = (40, 30, 25)
    operator = SparseOperator(stack(sizes, rng).matrix, clouds=sizes)
    x = random_block(95, 3)
    lo, hi = torch.tensor([0.0, -0.1, 0.2]).double(), torch.tensor([0.8, 0.9, 0.95]).double()
    found = operator.filter(x.to(dtype), degree, lo, hi)
    assert found.dtype == dtype
    parts = zip(x.split(sizes), found.split(sizes), range(3), strict=True)
    for given, swept, i in parts:
        rows = slice(sum(sizes[:i]), sum(sizes[: i + 1]))
        mu, u = torch.linalg.eigh(operator.matrix.to_dense()[rows, rows])
        place = (2 * mu - hi[i] - lo[i]) / (hi[i] - lo[i])
        factor = np.polynomial.chebyshev.chebval(place.numpy(), [0] * degree + [1])
        exact = u @ (torch.from_numpy(factor)[:, None] * (u.mT @ given))
        torch.testing.assert_close(
            swept.double(), exact, rtol=1e-4, atol=1e-5 if dtype == torch.float32 else 1e-9
        )


def test_filters_of_functions_and_smoothers(rng) -> None:
    smoother = stack((30, 30), rng)
    matrix = smoother.matrix.to_dense()
    operator = FunctionOperator(lambda x: matrix @ x, 60, matrix.device)
    x = random_block(60, 2)
    lo, hi = torch.tensor([0.1]).double(), torch.tensor([0.7]).double()
    sparse = SparseOperator(smoother.matrix)
    torch.testing.assert_close(
        operator.filter(x, 6, lo, hi), sparse.filter(x, 6, lo, hi), rtol=1e-8, atol=1e-8
    )
    coefficients = torch.tensor([[0.2, -1.0, 0.5], [1.0, 0.3, 0.0]]).double()
    found = smoother_filter(smoother, x.view(2, 30, 2), coefficients)
    for i, rows in enumerate((slice(0, 30), slice(30, 60))):
        b = 2 * matrix[rows, rows] - torch.eye(30)
        exact = coefficients[i, 0] * x[rows] + coefficients[i, 1] * (b @ x[rows])
        exact = exact + coefficients[i, 2] * (2 * b @ b @ x[rows] - x[rows])
        torch.testing.assert_close(found[i], exact)


def test_bounds_hold_the_spectrum_of_every_cloud(rng) -> None:
    sizes = (80, 50)
    matrix = stack(sizes, rng).matrix

    def bounds(clouds: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        operator, known = SparseOperator(matrix, clouds=clouds), torch.zeros((130, 0)).double()
        generator = torch.Generator().manual_seed(0)
        return spectral_bounds(Problem(operator, known, (3,) * len(clouds), 9, 1e-6, generator))

    lo, hi = bounds(sizes)
    for i, rows in enumerate((slice(0, 80), slice(80, 130))):
        mu = torch.linalg.eigvalsh(matrix.to_dense()[rows, rows])
        assert lo[i] <= mu[0] + 1e-3 and mu[-1] <= hi[i] + 1e-3 and hi[i] - lo[i] < 1.3
    assert bounds((130,))[0].shape == (1,)


def test_dimension_is_that_of_the_graph() -> None:
    """Of rings, grids in two and three dimensions, whose edges are many or few, and an expander."""
    rng = np.random.default_rng(0)
    ring = np.stack([np.cos(np.arange(400)), np.sin(np.arange(400))], 1)
    for x, k, dimension in (
        (ring, 2, 1),
        (c.grid(30), 4, 2),
        (c.grid(30), 20, 2),
        (c.random_sphere(3000, rng), 10, 2),
        (c.grid(14, 3), 6, 3),
    ):
        matrix = build_smoother(build_graph(torch.from_numpy(x), k), "symmetric").matrix
        assert SparseOperator(matrix).dimension == dimension
    matrix = build_smoother(torch.from_numpy(rng.normal(size=(2000, 30))), "symmetric").matrix
    assert SparseOperator(matrix).dimension > 3


def test_weyls_law_finds_the_gaps_of_even_points() -> None:
    smoother = build_smoother(torch.from_numpy(c.fibonacci_sphere(1500)))
    operator = SparseOperator(smoother.matrix, laplacian_diagonal=smoother.leaving)
    exact = torch.linalg.eigvalsh(operator.laplacian().to_dense())
    for k in (16, 25, 49):
        assert 0.8 < float(operator.weyl_gap(k)[0] / exact[k - 1 : k + 1].mean()) < 1.25


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_null_vectors_are_constants_of_the_parts(k, rng) -> None:
    """Of clouds with one, three and two parts, one of them a single point."""
    sphere = c.random_sphere(40, rng)
    clouds = [
        sphere,
        np.concatenate([sphere, sphere[:20] + 9, sphere[:20] * 0.5 - 9]),
        np.concatenate([sphere, sphere[:15] + 9]),
    ]
    sizes = tuple(map(len, clouds))
    graph = build_graph(torch.from_numpy(np.concatenate(clouds)), 6, clouds=sizes)
    smoother = build_smoother(graph, dimension=2)
    known, parts = null_vectors(smoother, k)
    assert parts == (1, min(k, 3), min(k, 2))
    torch.testing.assert_close(smoother.matrix @ known, known, atol=1e-12, rtol=0)
    torch.testing.assert_close(known[:, 0], smoother.mass.sqrt())
    for rows, count in zip(known.split(sizes), parts, strict=True):
        gram = torch.diag((torch.arange(min(k, 3)) < count).double())
        torch.testing.assert_close(rows.mT @ rows, gram, atol=1e-12, rtol=0)


def test_an_expander_is_one_though_its_edges_are_long_paths(rng: np.random.Generator) -> None:
    """Six random partners of each of 400 points, three edges away: a line as far as two edges
    reach."""
    n = 400
    near = np.stack([rng.permutation(n) for _ in range(3)], 1)
    one, other = np.repeat(np.arange(n), 3), near.ravel()
    first = n + np.arange(3 * n)
    pairs = [(one, first), (first, first + 3 * n), (first + 3 * n, other)]
    head, tail = (torch.from_numpy(np.concatenate(each)) for each in zip(*pairs))
    rows, columns = torch.cat([head, tail]), torch.cat([tail, head])
    whole = torch.sparse_coo_tensor(torch.stack([rows, columns]), torch.ones(len(rows)))
    loops = torch.sparse_coo_tensor(torch.arange(7 * n).expand(2, -1), torch.ones(7 * n))
    assert SparseOperator((whole + loops).coalesce().to_sparse_csr().double()).dimension > 2
