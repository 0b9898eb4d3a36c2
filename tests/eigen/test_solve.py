"""Leading eigenpairs, whichever solver finds them: against LAPACK and scipy's Lanczos."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

import eigenprobe as ep
from eigenprobe.eigen import solve, solve_each
from eigenprobe.eigen.problem import SparseOperator
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.neighbors.graph import Edges, build_graph
from eigenprobe.neighbors.layout import as_scipy
from eigenprobe.smoothers import (
    Smoother,
    build_smoother,
    laplacian_smoother,
    neighbourhood_smoother,
)
from tests import clouds as c


def sphere(n: int) -> torch.Tensor:
    return torch.from_numpy(c.random_sphere(n, np.random.default_rng(0)))


def ball(n: int) -> torch.Tensor:
    return sphere(n) * torch.from_numpy(np.random.default_rng(1).random((n, 1))) ** (1 / 3)


def expander(n: int) -> Smoother:
    rows = np.random.default_rng(0).normal(size=(n, 48)).astype(np.float32)
    return neighbourhood_smoother(build_graph(torch.from_numpy(rows), 8))


def chain(n: int) -> Smoother:
    head = torch.arange(n - 1)
    weight = torch.rand(n - 1, generator=torch.Generator().manual_seed(0)).double() + 0.5
    return laplacian_smoother(Edges(head, head + 1, n), weight, torch.ones(n).double(), None, 1.0)


CASES = {
    "dense": lambda: build_smoother(sphere(250)),
    "inverse": lambda: build_smoother(sphere(2000)),
    "chain": lambda: chain(3000),
    "nested": lambda: build_smoother(ball(7000)),
    "filtered": lambda: expander(3000),
}


def exact_gaps(smoother: Smoother, k: int) -> np.ndarray:
    """Of ``L v = lambda M v``, by Lanczos on many points; LAPACK on ``M v = (L + a M) v / (lambda +
    a)`` sees small eigenvalues beside points of hardly any mass.
    """
    laplacian = as_scipy(SparseOperator(smoother.matrix, None, smoother.degree).laplacian())
    if smoother.n > 1500:
        return np.sort(eigsh(laplacian.tocsc(), k, sigma=-1e-6, tol=1e-13, ncv=80)[0])
    root, step = smoother.mass.double().sqrt().numpy(), float(smoother.step_time)
    whole = root[:, None] * laplacian.toarray() * root / step
    mass = np.diag(root**2)
    shift = 1.0 / np.trace(np.linalg.pinv(whole) @ mass)
    return step * (1 / eigh(mass, whole + shift * mass, eigvals_only=True)[::-1][:k] - shift)


@pytest.mark.parametrize("name", CASES)
def test_pairs_are_those_of_lanczos(name: str) -> None:
    smoother, k = CASES[name](), 12
    pairs = solve(smoother, k)
    assert pairs.solver == name.replace("chain", "inverse")
    np.testing.assert_allclose(pairs.gaps[1:], exact_gaps(smoother, k)[1:], rtol=2e-5)
    q = pairs.vectors.double()
    torch.testing.assert_close(q.mT @ q, torch.eye(k).double(), atol=1e-5, rtol=0)
    left = (smoother.matrix.double() @ q - q * pairs.factors).norm(dim=0)
    assert float(left.max()) <= 2e-6 and pairs.residual <= 1.01e-6
    torch.testing.assert_close(q[:, 0], smoother.mass.double().sqrt(), atol=1e-6, rtol=0)
    assert float(pairs.gaps[0]) == 0


def parts(sizes: tuple[int, ...], radii: tuple[float, ...], tiny: bool = False) -> Smoother:
    """Spheres far apart, with no edge between them; ``tiny``: two points of hardly any mass."""
    rng = np.random.default_rng(1)
    each = [
        np.array([4.0 * i, 0, 0]) + r * c.random_sphere(n, rng)
        for i, (n, r) in enumerate(zip(sizes, radii, strict=True))
    ]
    joined = build_smoother(torch.from_numpy(np.concatenate(each)))
    label = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    rows, columns, values = joined.entries()
    kept = (rows < columns) & (label[rows] == label[columns])
    rows, columns = rows[kept], columns[kept]
    weight = values[kept] * (joined.mass[rows] * joined.mass[columns]).sqrt()
    mass = joined.mass.clone()
    if tiny:
        mass[[5, 17]] *= 1e-13
    return laplacian_smoother(Edges(rows, columns, joined.n), weight, mass, joined.graph, 2.0)


PARTS = {
    "unequal": ((900, 200), (1.0, 0.02)),
    "small": ((900, 5, 4, 3, 2, 1), (1.0, 0.01, 0.02, 0.1, 0.3, 1.0)),
    "twelve": ((700,) + (4,) * 11, (1.0,) + (0.1,) * 11),
}


@pytest.mark.parametrize("tiny", [False, True])
@pytest.mark.parametrize("name", PARTS)
def test_components_are_zeros_exactly_and_nothing_between_is_lost(name: str, tiny: bool) -> None:
    """However short the step that points of hardly any mass ask for: gaps of 1e-17 are right."""
    smoother = parts(*PARTS[name], tiny)
    count = len(PARTS[name][0])
    assert smoother.components[0] == count
    exact = exact_gaps(smoother, count + 6)
    for k in {max(1, count - 1), count, count + 6}:
        pairs = solve(smoother, k)
        zeros = min(k, count)
        assert pairs.gaps[:zeros].tolist() == [0.0] * zeros
        np.testing.assert_allclose(pairs.gaps[zeros:], exact[zeros:k], rtol=2e-5)
        q = pairs.vectors
        torch.testing.assert_close(q.mT @ q, torch.eye(k).double(), atol=1e-9, rtol=0)
        constant = q[:, :zeros] / smoother.mass.sqrt()[:, None]
        labels = smoother.components[1]
        for part in range(count):
            inside = constant[labels == part]
            torch.testing.assert_close(inside, inside[:1].expand_as(inside), rtol=1e-9, atol=1e-9)


def test_small_components_beside_a_large_one_keep_their_functions() -> None:
    """Three points far apart have low eigenvalues, which no coarse level of a large part holds."""
    smoother = parts((26_000, 300, 3), (1.0, 0.3, 0.5))
    pairs = solve(smoother, 12)
    assert pairs.gaps[:3].tolist() == [0.0] * 3
    np.testing.assert_allclose(pairs.gaps[3:], exact_gaps(smoother, 12)[3:], rtol=2e-5)
    assert float(pairs.vectors[-3:, 3:].abs().max()) > 0.1  # one lives there


def test_an_edge_of_weight_zero_joins_nothing() -> None:
    smoother = parts((300, 80), (1.0, 0.5))
    edges = smoother.edges
    assert edges is not None
    head, tail = (
        torch.cat([a, torch.tensor([b])]) for a, b in ((edges.head, 0), (edges.tail, 310))
    )
    bridge = Edges(head, tail, 380)
    rows = smoother.matrix.to_dense()[bridge.head, bridge.tail]
    weight = rows * (smoother.mass[bridge.head] * smoother.mass[bridge.tail]).sqrt()
    joined = laplacian_smoother(bridge, weight, smoother.mass, None, 2.0)
    assert joined.components[0] == 1
    gaps = solve(joined, 5).gaps
    assert gaps[:2].tolist() == [0, 0] and float(gaps[2]) > 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cloud_of_parts_has_as_many_zeros(dtype: type, rng: np.random.Generator) -> None:
    """Two spheres of very different size and a few small balls, as a user has them."""
    balls = [c.random_sphere(80, rng) * 0.05 + [3.0 * i, 5, 0] for i in range(4)]
    x = np.concatenate([c.random_sphere(900, rng), 0.05 * c.random_sphere(300, rng) + 8, *balls])
    with pytest.warns(EigenprobeWarning, match="separate parts"):
        basis = ep.decompose(x.astype(dtype), k=9, parts="all")
    count = basis.info["components"]
    assert 3 <= count <= 6 and basis.eigenvalues[:count].tolist() == [0.0] * count
    np.testing.assert_allclose(basis.eigenvalues[count : count + 3], 2.0, rtol=0.1)
    gram = basis.vectors.T @ (basis.mass[:, None] * basis.vectors)
    np.testing.assert_allclose(gram, np.eye(9), atol=1e-5)


def test_every_cloud_of_a_stack_is_solved_as_alone(rng: np.random.Generator) -> None:
    """Sizes and numbers of parts differ; zeros are exact, rows that pad are zero."""
    whole = c.random_sphere(400, rng) * [1.0, 1.2, 1.5]
    two = np.concatenate([c.random_sphere(240, rng), 0.3 * c.random_sphere(110, rng) + 5])
    three = np.concatenate([c.random_sphere(220, rng), two[240:], two[240:300] - 11])
    clouds = [whole, three, two]
    sizes = tuple(map(len, clouds))
    graph = build_graph(torch.from_numpy(np.concatenate(clouds)), 8, clouds=sizes)
    stacked = build_smoother(graph, dimension=2)
    for k in (2, 12):
        found = solve_each(stacked, k, generator=torch.Generator().manual_seed(0))
        assert found.vectors.shape == (3, 400, k) and found.gaps.shape == (3, k)
        for i, (x, count) in enumerate(zip(clouds, (1, 3, 2), strict=True)):
            alone = build_smoother(build_graph(torch.from_numpy(x), 8), dimension=2)
            one = solve(alone, k)
            zeros = min(k, count)
            assert found.gaps[i, :zeros].tolist() == [0.0] * zeros
            torch.testing.assert_close(found.gaps[i], one.gaps, rtol=1e-5, atol=1e-9)
            q = found.vectors[i]
            assert float(q[len(x) :].abs().sum()) == 0
            torch.testing.assert_close(q.mT @ q, torch.eye(k).double(), atol=1e-8, rtol=0)
            left = alone.matrix @ q[: len(x)] - q[: len(x)] * (1 - found.gaps[i])
            assert float(left.norm(dim=0).max()) <= 1e-6


def test_choice_by_size_and_kind() -> None:
    assert solve(build_smoother(sphere(900)), 400).solver == "dense"
    surface = build_smoother(sphere(2000))
    assert solve(lambda x: surface.matrix.to(x) @ x, 10, n=2000).solver == "filtered"
    with pytest.raises(InputError, match="expected between 1 and 2000"):
        solve(surface, 2001)


def test_functions_and_single_precision(rng: np.random.Generator) -> None:
    smoother = build_smoother(sphere(1000))
    exact = solve(smoother, 8)
    single = solve(smoother.to(dtype=torch.float32), 8)
    assert single.vectors.dtype == torch.float32 and single.gaps.dtype == torch.float64
    for found in (single, solve(lambda x: smoother.matrix.to(x) @ x, 8, n=1000)):
        torch.testing.assert_close(found.gaps, exact.gaps, rtol=1e-3, atol=2e-7)
    with pytest.raises(InputError, match="needs the number of points"):
        solve(smoother.apply, 2)


@pytest.mark.parametrize("fault", [RuntimeError("no\nmore"), MemoryError(), torch.nan])
def test_an_operator_that_fails_is_one_line(fault: object) -> None:
    def operator(x: torch.Tensor) -> torch.Tensor:
        if isinstance(fault, Exception):
            raise fault
        return x * fault

    with pytest.raises(InputError, match=r"no solver found 3 eigenpairs .* on 700 points") as error:
        solve(operator, 3, n=700)
    assert "\n" not in str(error.value)


def test_reproducible_and_independent_of_the_order_of_points(rng: np.random.Generator) -> None:
    x = c.random_sphere(600, rng) * [1.0, 1.4, 2.0]
    first, again = ep.decompose(x, k=6), ep.decompose(x, k=6)
    assert np.array_equal(first.vectors, again.vectors)
    order = rng.permutation(600)
    other = ep.decompose(x[order], k=6)
    np.testing.assert_allclose(other.eigenvalues, first.eigenvalues, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(other.vectors, first.vectors[order], atol=2e-2)


def test_clouds_of_a_stack_that_have_converged_stay_as_they_are() -> None:
    """Even and random clouds need sweeps of other lengths: none drives another out of range."""
    rng = np.random.default_rng(0)
    draws = [(rng.normal(size=(1500, 3)), rng.uniform(0.2, 2, 3)) for _ in range(96)][64:]
    even = c.fibonacci_sphere(1500)
    clouds = [
        size * (x / np.linalg.norm(x, axis=1, keepdims=True) if i % 2 else even)
        for i, (x, size) in enumerate(draws)
    ]
    points = torch.from_numpy(np.concatenate(clouds))
    smoother = build_smoother(build_graph(points, 12, clouds=(1500,) * 32), dimension=2)
    gaps = solve_each(smoother, 50, generator=torch.Generator().manual_seed(0)).gaps
    assert bool(gaps.isfinite().all()) and bool((gaps.diff(dim=1) >= 0).all())
