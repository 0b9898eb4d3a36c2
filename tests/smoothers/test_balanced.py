"""Which edges the balanced weights take: parts stay parts, gaps are bridged, a stray point changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning
from eigenprobe.graph.graph import Edges, build_graph, stack
from eigenprobe.search.layout import Segments
from eigenprobe.smoothers.balanced import _Incidence
from eigenprobe.smoothers.prepared import laplacian_stencil
from eigenprobe.smoothers.stencil import BALANCE, Stencil
from tests import clouds as c


def stencil(points: np.ndarray, dimension: int = 2, k: int = 30) -> Stencil:
    x = torch.as_tensor(points)
    graph = build_graph(x, k)
    return laplacian_stencil(graph, dimension)


def sheets(gap: float, rng: np.random.Generator, n: int = 600) -> np.ndarray:
    """Two even parallel squares, ``gap`` spacings apart."""
    parts = [c.even(lambda m, r: r.random((m, 2)), n, rng) for _ in range(2)]
    return np.concatenate([np.c_[part, np.full(n, level * gap / n**0.5)] for level, part in enumerate(parts)])


@pytest.mark.parametrize("gap", [4, 5])
def test_parallel_sheets_are_two_parts(gap: float, rng: np.random.Generator) -> None:
    count, labels = stencil(sheets(gap, rng)).edges.components
    assert count == 2
    assert torch.equal(labels, torch.arange(2).repeat_interleave(600))


def test_two_objects_are_said_once(rng: np.random.Generator) -> None:
    sphere, gap = c.fibonacci_sphere(700), 2.5 * (4 * np.pi / 700) ** 0.5
    turned = c.fibonacci_sphere(700) @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    with pytest.warns(EigenprobeWarning, match=r"2 separate parts \(700, 700 points\)") as said:
        basis = ep.decompose(np.concatenate([sphere, turned + [2 + gap, 0, 0]]), k=8)
    assert len(said) == 1
    assert np.allclose(basis.eigenvalues[:2], 0, atol=1e-8)
    assert np.allclose(basis.eigenvalues[2:], 2, rtol=0.02)


@pytest.mark.parametrize("shape", ["plane", "tube"])
def test_a_gap_in_one_sheet_is_bridged(shape: str, rng: np.random.Generator) -> None:
    n, spacing = 700, 700**-0.5
    x = c.even(lambda m, r: r.random((m, 2)), n, rng)
    x[:, 0] += 2.3 * spacing * (x[:, 0] > 0.5)
    if shape == "plane":
        points = np.c_[x, 0.2 * x[:, 0] ** 2]
    else:  # rings, whose own frames do not see the way along the tube
        angle, place = np.meshgrid(np.arange(12) * np.pi / 6, np.arange(40) * 0.3 + 0.4 * (np.arange(40) > 20))
        points = np.c_[0.4 * np.cos(angle).ravel(), 0.4 * np.sin(angle).ravel(), place.ravel()]
    assert stencil(points).edges.components[0] == 1


@pytest.mark.parametrize(("n", "radii"), [(200, 20), (1000, 8), (1000, 1e6), (5000, 4), (5000, 1.3)])
def test_a_stray_point_changes_nothing_else(n: int, radii: float, rng: np.random.Generator) -> None:
    """16 vectors: whole multiplets of the sphere, so that the subspace is well defined."""
    x = c.random_sphere(n, rng)
    stray = radii * c.random_sphere(1, rng)
    alone, joined = ep.decompose(x, k=16), ep.decompose(np.concatenate([x, stray]), k=16)
    assert c.alignment(joined.vectors[:n], alone.vectors, alone.mass) > 0.999
    assert np.allclose(joined.eigenvalues, alone.eigenvalues, rtol=0.01, atol=1e-8)
    assert joined.mass[n] < alone.mass.mean()
    nearest = np.argsort(np.linalg.norm(x - stray, axis=1))[:10]
    assert np.allclose(joined.vectors[n, :4], joined.vectors[nearest, :4].mean(0), atol=0.1)  # it follows them


def test_a_pair_of_stray_points(rng: np.random.Generator) -> None:
    x = c.random_sphere(1000, rng)
    alone = ep.decompose(x, k=16)
    joined = ep.decompose(np.concatenate([x, [[9, 0, 0], [9, 0.1, 0]]]), k=16)
    assert c.alignment(joined.vectors[:1000], alone.vectors, alone.mass) > 0.999
    assert np.allclose(joined.eigenvalues, alone.eigenvalues, rtol=0.01, atol=1e-8)


@pytest.mark.parametrize("dimension", [1, 2])
def test_copies_that_fill_a_row_do_not_count(dimension: int, rng: np.random.Generator) -> None:
    if dimension == 1:
        x = torch.as_tensor(c.flat_torus(np.stack([rng.random(400) * 6, np.zeros(400)], 1)))
    else:
        x = torch.as_tensor(c.random_sphere(400, rng))
    graph = build_graph(x, 30)
    short = laplacian_stencil(graph.truncate(20), dimension)
    for order in (slice(None), [0, *range(20, 30), *range(1, 20)]):  # copies last, copies in ascending order
        indices, distances = graph.indices.clone(), graph.distances.clone()
        indices[:, 20:], distances[:, 20:] = indices[:, :1], distances[:, :1]
        rows = replace(graph, indices=indices[:, order], distances=distances[:, order])
        filled = laplacian_stencil(rows, dimension)
        assert torch.equal(filled.edges.head, short.edges.head)
        assert torch.equal(filled.edges.tail, short.edges.tail)
        torch.testing.assert_close(filled.weight, short.weight)
        torch.testing.assert_close(filled.mass, short.mass)


def test_a_stacked_cloud_has_the_weights_it_has_alone(rng: np.random.Generator) -> None:
    """Each has its own conjugate gradients: with one residual for all of them weights differed by 1e-3."""
    clouds = [torch.as_tensor(c.random_sphere(n, rng)) for n in (300, 500, 900)]
    graphs = [build_graph(x, 30) for x in clouds]
    alone = [laplacian_stencil(graph, 2) for graph in graphs]
    together = laplacian_stencil(stack(graphs), 2)
    torch.testing.assert_close(together.weight, torch.cat([part.weight for part in alone]), rtol=1e-5, atol=0)
    torch.testing.assert_close(together.mass, torch.cat([part.mass for part in alone]), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("gap", "parts"), [(8.0, 1), (15.0, 2)])
def test_a_small_dense_patch_belongs_to_the_sheet_beside_it(gap: float, parts: int) -> None:
    """21 points, a third of the sheet's spacing apart, above its middle by `gap` of their own spacings."""
    grid = torch.cartesian_prod(torch.arange(50.0), torch.arange(50.0)).double() / 50
    patch = 0.5 + torch.cartesian_prod(torch.arange(7.0), torch.arange(3.0)).double() / 150
    height = torch.cat([torch.zeros(len(grid)), torch.full((len(patch),), gap / 150)]).double()
    x = torch.cat([torch.cat([grid, patch]), height[:, None]], 1)
    x = x + 1e-4 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert stencil(x.numpy()).edges.components[0] == parts


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_directions_at_both_ends_are_a_matrix(dimension: int, rng: np.random.Generator) -> None:
    """``B`` has a column per edge: its sums over edges and points, with derivatives and without, and the solves with
    ``B W B^T + ridge``, of a start or of none, are those of the dense matrix; so are the derivatives."""
    n, count = 12, 30
    ends = np.array([rng.choice(n, 2, replace=False) for _ in range(count)])
    head, tail = torch.from_numpy(np.sort(ends, 1)).T
    edges = Edges(head, tail, n)
    forward, backward = (torch.from_numpy(rng.normal(size=(count, dimension))) for _ in range(2))
    weight, ridge = torch.from_numpy(rng.random(count) + 0.1), torch.from_numpy(rng.random((n, dimension)) + 0.1)

    def dense(forward: torch.Tensor, backward: torch.Tensor) -> torch.Tensor:
        columns = []
        for e in range(count):
            column = torch.zeros(n, dimension, dtype=torch.float64)
            column = column.index_add(0, head[e : e + 1], forward[e : e + 1])
            columns.append(column.index_add(0, tail[e : e + 1], backward[e : e + 1]).reshape(-1))
        return torch.stack(columns, 1)

    def solved(forward: torch.Tensor, backward: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        b = dense(forward, backward)
        return torch.linalg.solve(b @ torch.diag(weight) @ b.T + torch.diag(ridge.reshape(-1)), -(b @ weight))

    exact = replace(BALANCE, tolerance=1e-12, steps=500)
    clouds = Segments((n * dimension,), torch.device("cpu"))
    dual = torch.from_numpy(rng.normal(size=n * dimension))
    b = dense(forward, backward)
    for moving in (False, True):
        own = [forward.clone().requires_grad_(moving), backward.clone().requires_grad_(moving)]
        found = _Incidence(*own, edges, weight, ridge)
        torch.testing.assert_close(found.gather(dual).detach(), b.T @ dual)
        torch.testing.assert_close(found.scatter(weight).detach(), b @ weight)
        if not moving:
            for before in (None, dual, torch.zeros_like(dual)):
                torch.testing.assert_close(
                    found.solve(weight, exact, clouds, before), solved(forward, backward, weight)
                )
            continue
        given = weight.clone().requires_grad_()
        values = torch.from_numpy(rng.normal(size=n * dimension))
        ours = torch.autograd.grad((found.solve(given, exact, clouds) * values).sum(), [*own, given])
        again = [each.detach().clone().requires_grad_() for each in (*own, given)]
        theirs = torch.autograd.grad((solved(*again) * values).sum(), again)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)
