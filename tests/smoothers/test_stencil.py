"""Balanced weights and the choice of neighbours, point by point against loops and dense solves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from eigenprobe.decomposition import decompose
from eigenprobe.errors import InputError
from eigenprobe.graph import Edges, Graph, stack, undirected
from eigenprobe.graph.graph import build_graph, local_spacing
from eigenprobe.smoothers import build_smoother, laplacian_smoother
from eigenprobe.smoothers import stencil as stencils
from eigenprobe.smoothers.prepared import balanced_smoother, laplacian_stencil
from eigenprobe.smoothers.smoother import csr
from eigenprobe.smoothers.stencil import (
    BALANCE,
    EXACT,
    SELECTION,
    STRETCHED,
    Balance,
    Neighbours,
    choose_edges,
    principal,
    stretch,
    tangent_frames,
)
from tests import clouds as c


def bumpy(n: int, rng: np.random.Generator) -> np.ndarray:
    x = c.random_sphere(n, rng)
    return x * (1 + 0.2 * np.sin(3 * x[:, :1])) * [1.0, 0.8, 1.2]


CLOUDS: dict[str, Any] = {
    "solid": (3, lambda rng: rng.random((160, 3))),
    "bent solid": (3, lambda rng: bent(160, rng)),
    "curve": (
        1,
        lambda rng: c.flat_torus(np.stack([np.pi / 30 * (np.arange(60) + 0.6 * rng.random(60)), np.zeros(60)], 1))[
            :, :2
        ],
    ),
    "stray": (3, lambda rng: np.concatenate([bent(140, rng), [[4.0, 0.5, 0.2, 0.1]]])),
}


def bent(n: int, rng: np.random.Generator) -> np.ndarray:
    """A solid in four dimensions."""
    x = rng.random((n, 3))
    return np.concatenate([x, 0.2 * np.sin(2 * x[:, :1]) * x[:, 1:2]], 1)


def leading(matrix: np.ndarray, count: int) -> np.ndarray:
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :count]


def reference(graph: Graph, dimension: int, s: Balance, field: np.ndarray | None = None) -> tuple[Any, ...]:
    """Edges, weights, squared lengths and mass, as the head of the module says, by loops over points and edges."""
    x = graph.points.numpy()
    n, d = x.shape
    few = SELECTION.frame
    near = Neighbours.of(graph.points, graph.indices, graph.distances)
    frames = tangent_frames(near.offsets[:, :few], near.distances[:, :few], dimension)
    if field is not None:
        flat = tangential(field, frames.numpy())
        near = near.stretched(torch.from_numpy(np.einsum("ndk,nk->nd", frames.numpy(), flat)))
    measured = local_spacing(near.indices, near.distances, near.real, SELECTION.nearest)
    spacing, excess = (part.numpy() for part in measured)
    stray = excess > math.log(SELECTION.stray)
    edges = choose_edges(near, frames, SELECTION if field is None else STRETCHED)
    head, tail = edges.head.numpy(), edges.tail.numpy()
    chord = x[tail] - x[head]
    chord2 = (chord**2).sum(1)
    spread = spacing[head] * spacing[tail]
    turned = frames.numpy()
    if dimension < d:
        close = np.exp(-np.minimum(chord2 / (2 * spread), s.farthest))
        turned = np.empty((n, d, dimension))
        for i in range(n):
            mine = np.concatenate([chord[head == i], -chord[tail == i]])
            w = np.concatenate([close[head == i], close[tail == i]])
            mean = w @ mine / w.sum() * (len(mine) > dimension)
            turned[i] = leading((w[:, None] * (mine - mean)).T @ (mine - mean), dimension)
    else:
        turned = np.tile(np.eye(d), (n, 1, 1))

    def logarithm(ends: np.ndarray, chords: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        flat = np.einsum("ed,edk->ek", chords, turned[ends])
        if dimension == d:
            return flat, (flat**2).sum(1)
        sine = np.sqrt(np.clip(1 - (flat**2).sum(1) / chord2, 1e-8, s.steepest**2))
        arc = np.sqrt(chord2) * np.arcsin(sine) / sine
        return flat / np.linalg.norm(flat, axis=1, keepdims=True) * arc[:, None], arc**2

    (forward, ahead), (backward, behind) = logarithm(head, chord), logarithm(tail, -chord)
    length2 = (ahead + behind) / 2
    if field is not None:
        flat = tangential(field, turned)
        forward, backward = longer(forward, flat[head]), longer(backward, flat[tail])
        length2 = ((forward**2).sum(1) + (backward**2).sum(1)) / 2
    if dimension == 1:
        weight = 1 / np.sqrt(length2)
    else:
        loose = stray[head] | stray[tail]
        length2 = np.where(loose, np.minimum(spacing[head], spacing[tail]) ** 2, length2)
        forward, backward = forward * ~loose[:, None], backward * ~loose[:, None]
        weight = length2 ** ((dimension - 2) / 2) * (1 + length2 / (2 * s.bandwidth * spread)) ** -2
        weight = np.where(loose, s.stray_weight * weight, weight)
        inward = boundary(near, torch.from_numpy(turned), s)
        weight = balanced(weight, forward, backward, length2, inward, head, tail, s)
    mass = np.bincount(head, weight * length2, n) + np.bincount(tail, weight * length2, n)
    return head, tail, weight, length2, mass / (2 * dimension)


def tangential(field: np.ndarray, frames: np.ndarray) -> np.ndarray:
    flat = np.einsum("nd,ndk->nk", field, frames)
    return flat / np.linalg.norm(flat, axis=1, keepdims=True) * np.linalg.norm(field, axis=1, keepdims=True)


def longer(vectors: np.ndarray, field: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(field, axis=1, keepdims=True)
    unit = field / size
    along = (vectors * unit).sum(1, keepdims=True)
    return vectors + size * along * unit


def boundary(near: Neighbours, frames: torch.Tensor, s: Balance) -> np.ndarray:
    """The inward direction where next to no neighbours lie outwards, else 0."""
    flat, length = (near.offsets @ frames).numpy(), near.distances.numpy()
    found = np.zeros((len(flat), flat.shape[2]))
    for i, (offsets, reach) in enumerate(zip(flat, length, strict=True)):
        pull = ((1 - (reach / reach[-1]) ** 2) / reach) @ offsets
        pull = pull / np.linalg.norm(pull)
        cosine = offsets @ pull / np.linalg.norm(offsets, axis=1)
        real = near.real if isinstance(near.real, int) else int(near.real[i])
        if (cosine < s.outside).sum() < s.few_outside * real:
            found[i] = pull
    return found


def traceless(t: np.ndarray) -> np.ndarray:
    if t.shape[1] == 2:
        x, y = t.T
        return np.stack([x * x - y * y, 2 * x * y], 1)
    x, y, z = t.T
    root = 3**0.5 / 2
    parts = [x * x - y * y, 2 * x * y, 2 * z * x, 2 * z * y]
    return np.stack([root * part for part in parts] + [z * z - (x * x + y * y) / 2], 1)


def balanced(
    weight: np.ndarray,
    forward: np.ndarray,
    backward: np.ndarray,
    length2: np.ndarray,
    inward: np.ndarray,
    head: np.ndarray,
    tail: np.ndarray,
    s: Balance,
) -> np.ndarray:
    """Newton rounds with a dense matrix."""
    n, dimension = inward.shape

    def at(values: np.ndarray) -> np.ndarray:
        return np.bincount(head, values, n) + np.bincount(tail, values, n)

    first, second = np.sqrt(dimension / at(weight * length2)), np.sqrt(dimension / at(weight * length2**2))

    def rows(along: np.ndarray, ends: np.ndarray) -> np.ndarray:
        free = along - inward[ends] * (inward[ends] * along).sum(1, keepdims=True)
        return np.concatenate([free * first[ends, None], traceless(along) * second[ends, None]], 1)

    ahead, behind = rows(forward, head), rows(backward, tail)
    width, count = ahead.shape[1], len(head)
    b = np.zeros((n, width, count))
    b[head, :, np.arange(count)] += ahead
    b[tail, :, np.arange(count)] += behind
    ridge = np.full((n, width), s.round_ridge)
    ridge[(inward != 0).any(1)] = s.end_ridge
    ridge[:, :dimension] = s.ridge
    b = b.reshape(n * width, count)
    for _ in range(s.rounds):
        dual = np.linalg.solve((b * weight) @ b.T + np.diag(ridge.ravel()), -b @ weight)
        weight = weight * np.maximum(1 + b.T @ dual, s.least_factor)
    return weight


@pytest.mark.parametrize("name", list(CLOUDS))
def test_balanced_weights_are_those_of_a_dense_solve(name: str, rng: np.random.Generator) -> None:
    dimension, make = CLOUDS[name]
    x = torch.from_numpy(np.ascontiguousarray(make(rng)))
    graph = build_graph(x, 30)
    for settings in (EXACT, replace(EXACT, end_ridge=0.2, rounds=1, bandwidth=1.0)):
        head, tail, weight, length2, mass = reference(graph, dimension, settings)
        found = laplacian_stencil(graph, dimension, settings)
        assert np.array_equal(found.edges.head.numpy(), head) and np.array_equal(found.edges.tail.numpy(), tail)
        np.testing.assert_allclose(found.length2.numpy(), length2, rtol=1e-9)
        np.testing.assert_allclose(found.weight.numpy(), weight, rtol=1e-5)
        np.testing.assert_allclose(found.mass.numpy(), mass, rtol=1e-6)
    usual = laplacian_stencil(graph, dimension)  # the steps that are not taken change little
    np.testing.assert_allclose(usual.mass.numpy(), reference(graph, dimension, BALANCE)[4], rtol=0.1)


@pytest.mark.parametrize("name", ["solid", "bent solid"])
def test_balanced_weights_of_a_stretched_metric(name: str, rng: np.random.Generator) -> None:
    dimension, make = CLOUDS[name]
    x = np.ascontiguousarray(make(rng))
    graph = build_graph(torch.from_numpy(x), 30)
    field = 0.3 + 0.4 * rng.random(x.shape)
    head, tail, weight, length2, mass = reference(graph, dimension, EXACT, field)
    found = laplacian_stencil(graph, dimension, EXACT, torch.from_numpy(field))
    assert np.array_equal(found.edges.head.numpy(), head) and np.array_equal(found.edges.tail.numpy(), tail)
    np.testing.assert_allclose(found.length2.numpy(), length2, rtol=1e-8)
    np.testing.assert_allclose(found.weight.numpy(), weight, rtol=1e-4)
    np.testing.assert_allclose(found.mass.numpy(), mass, rtol=1e-5)
    smoother = balanced_smoother(graph, float(dimension), EXACT, torch.from_numpy(field))
    np.testing.assert_allclose(smoother.density.numpy(), 1 + np.linalg.norm(field, axis=1))
    assert balanced_smoother(graph, float(dimension)).density is None


def test_the_dual_system_is_solved_in_twenty_steps_with_a_boundary(rng: np.random.Generator) -> None:
    """Ridges of a hundredth and of a thousand in one system: 45 steps without the inverses of its blocks."""
    graph = build_graph(torch.from_numpy(rng.random((2000, 3))), 30)
    found = laplacian_stencil(graph, 3, replace(BALANCE, steps=20)).weight
    assert torch.equal(found, laplacian_stencil(graph, 3, replace(BALANCE, steps=500)).weight)
    exact = laplacian_stencil(graph, 3, EXACT).weight
    assert float((found - exact).norm() / exact.norm()) < 0.015


def test_dimensions_are_whole_and_at_most_those_of_the_space(rng: np.random.Generator) -> None:
    graph = build_graph(torch.from_numpy(bumpy(100, rng)), 20)
    for given, whole in ((2.4, 2.0), (1.6, 2.0), (3.4, 3.0), (0.3, 1.0), (9.0, 3.0)):
        assert balanced_smoother(graph, given).dimension == whole


def test_the_shortest_list_that_surrounds_a_point(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.random((90, 3)))
    graph = build_graph(x, 30)
    near = Neighbours.of(x, graph.indices, graph.distances)
    frames = torch.eye(3, dtype=torch.float64).expand(90, -1, -1)
    s = SELECTION
    least, most, otherwise = s.solid
    keep = stencils._surrounding(near, near.directions(frames, most), s).numpy()
    for i in range(90):
        unit = (near.offsets[i] / near.distances[i, :, None]).numpy()
        count = otherwise
        for j in range(least, most + 1):
            mean = unit[:j].mean(0)
            second = unit[:j].T @ unit[:j] - j * np.eye(3) / 3
            if np.linalg.norm(mean) <= s.surrounded and 6**0.5 * np.linalg.norm(second) <= s.uneven * j:
                count = j
                break
        expected = np.arange(30) < count
        expected |= near.distances[i].numpy() <= (1 + 1e-6) * float(near.distances[i, count - 1])
        np.testing.assert_array_equal(keep[i], expected)
    narrow = Neighbours(near.indices[:, :5], near.distances[:, :5], near.offsets[:, :5], 5)
    assert bool(stencils._surrounding(narrow, narrow.directions(frames, 5), s).all())


def test_a_shell_of_a_lattice_is_kept_whole() -> None:
    grid = torch.cartesian_prod(*(torch.arange(7.0, dtype=torch.float64),) * 3)
    middle = int(((grid - 3) ** 2).sum(1).argmin())
    graph = build_graph(grid, 30)
    near = Neighbours.of(grid, graph.indices, graph.distances)
    directions = near.directions(torch.eye(3, dtype=torch.float64).expand(343, -1, -1), SELECTION.solid[1])
    keep = stencils._surrounding(near, directions, SELECTION)[middle]
    lengths = graph.distances[middle][keep]
    count = int(keep.sum())
    assert float(lengths.max()) == pytest.approx({18: 2**0.5, 26: 3**0.5}[count])


def test_unevenness_is_zero_when_round_and_one_in_a_plane() -> None:
    angle = torch.arange(6) * math.pi / 3
    plane = torch.stack([angle.cos(), angle.sin(), 0 * angle], 1)[None].double()
    assert float(stencils._unevenness(plane)[0, 5]) == pytest.approx(6)
    axes = torch.cat([torch.eye(3), -torch.eye(3)])[None].double()
    assert float(stencils._unevenness(axes)[0, 5]) == pytest.approx(0, abs=1e-12)


def test_the_nearest_on_either_side_of_a_curve() -> None:
    offsets = torch.tensor([[0.3, -0.4, 0.5, -0.6], [0.1, 0.2, 0.3, 0.4], [-0.1, -0.2, 0.3, 0.0]], dtype=torch.float64)
    near = Neighbours(torch.zeros(3, 4, dtype=torch.int64), offsets.abs(), offsets[..., None], 4)
    keep = stencils._adjacent(near, torch.ones(3, 1, 1, dtype=torch.float64))
    assert keep.int().tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0]]


def test_lengths_along_a_field() -> None:
    vectors, field = torch.tensor([[3.0, 4.0]]), torch.tensor([[2.0, 0.0]])
    torch.testing.assert_close(stretch(vectors, field), torch.tensor([[9.0, 4.0]]))  # three times as long along it
    torch.testing.assert_close(stretch(vectors, -field), torch.tensor([[9.0, 4.0]]))
    torch.testing.assert_close(stretch(vectors, 0 * field), vectors)
    torch.testing.assert_close(
        stretch(vectors[:, None].expand(1, 3, 2), field[:, None])[0, 2], torch.tensor([9.0, 4.0])
    )


def test_the_nearest_in_a_stretched_metric(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.random((60, 2)))
    graph = build_graph(x, 20)
    field = torch.from_numpy(np.stack([rng.random(60), 0.5 * rng.random(60)], 1))
    near = Neighbours.of(x, graph.indices, graph.distances).stretched(field)
    few = round(20 / (1 + float(field.norm(dim=1).max())))
    assert near.indices.shape == (60, few) and torch.equal(
        torch.as_tensor(near.real).expand(60), torch.full((60,), few)
    )
    for i in range(60):
        offsets = longer((x[graph.indices[i]] - x[i]).numpy(), field[i].numpy()[None])
        order = np.argsort(np.linalg.norm(offsets, axis=1), kind="stable")[:few]
        np.testing.assert_array_equal(near.indices[i].numpy(), graph.indices[i].numpy()[order])
        np.testing.assert_allclose(near.offsets[i].numpy(), offsets[order])
        np.testing.assert_allclose(near.distances[i].numpy(), np.linalg.norm(offsets[order], axis=1))
    far = Neighbours.of(x, graph.indices, graph.distances).stretched(100 * field)
    assert far.indices.shape == (60, 1)


def test_rows_that_repeat_their_first_neighbour() -> None:
    x = torch.tensor([[0.0], [1.0], [3.0], [7.0]], dtype=torch.float64)
    indices = torch.tensor([[1, 2, 3], [0, 2, 0], [1, 1, 1], [2, 1, 2]])
    distances = (x[indices] - x[:, None])[..., 0].abs()
    near = Neighbours.of(x, indices, distances)
    assert near.real.tolist() == [3, 2, 1, 2]
    assert near.indices.tolist() == [[1, 2, 3], [0, 2, 0], [1, 1, 1], [2, 1, 2]]
    assert near.distances.tolist() == [[1, 3, 7], [1, 2, 2], [2, 2, 2], [4, 6, 6]]  # copies are as far as the last
    assert near.offsets[..., 0].tolist() == [[1, 3, 7], [-1, 2, 0], [-2, 0, 0], [-4, -6, 0]]
    assert Neighbours.of(x, indices[:1].expand(4, 3), distances).real == 3
    wide = near.stretched(torch.zeros(4, 1, dtype=torch.float64))
    assert wide.real.tolist() == [3, 2, 1, 2] and wide.distances.tolist() == near.distances.tolist()


def test_frames_are_weighted_principal_directions(rng: np.random.Generator) -> None:
    for d, k in ((4, 9), (12, 6)):
        offsets = torch.from_numpy(rng.normal(size=(5, k, d)) * np.linspace(2, 0.1, d))
        distances = offsets.norm(dim=2).sort(1).values
        frames = tangent_frames(offsets, distances, 2)
        for i in range(5):
            w = np.exp(-((distances[i] / distances[i, -1]).numpy() ** 2))
            expected = leading((w[:, None] * offsets[i].numpy()).T @ offsets[i].numpy(), 2)
            overlap = np.abs(frames[i].numpy().T @ expected)
            np.testing.assert_allclose(np.linalg.svd(overlap)[1], 1, atol=1e-6)
            np.testing.assert_allclose(frames[i].numpy().T @ frames[i].numpy(), np.eye(2), atol=1e-6)


def test_leading_spaces_have_derivatives(rng: np.random.Generator) -> None:
    a = rng.normal(size=(2, 4, 4))
    a = torch.from_numpy(a + a.transpose(0, 2, 1)).requires_grad_()

    def projection(m: torch.Tensor) -> torch.Tensor:
        m = (m + m.mT) / 2
        v = principal(m, 2)
        return v @ v.mT

    assert torch.autograd.gradcheck(projection, (a,), atol=1e-5)
    torch.testing.assert_close(principal(a, 2).detach().abs(), principal(a.detach(), 2).abs())


def test_edges_between_parts_run_along_or_leave_at_an_end() -> None:
    s = SELECTION
    frames = torch.eye(3, dtype=torch.float64)[:, :2].expand(4, 3, 2)
    for height, along in ((0.0, True), (0.6, True), (0.7, False), (1.0, False)):  # 0.75 of a length: 41 degrees
        unit = torch.tensor([[(1 - height**2) ** 0.5, 0.0, height]], dtype=torch.float64)
        assert bool(stencils._along(unit, frames[:1], s)[0]) == along
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [5.0, 0.0]], dtype=torch.float64)
    indices = torch.tensor([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [1, 2, 3]])
    distances = (x[indices] - x[:, None]).norm(dim=2)
    near = Neighbours.of(x, indices, distances)
    labels = torch.tensor([0, 0, 0, 0, 1])
    mean = (near.offsets[0] / near.distances[0, :, None]).mean(0)  # a third to the right
    assert mean.tolist() == pytest.approx([1 / 3, 0])
    for direction, is_open in (([-1.0, 0.0], False), ([1.0, 0.0], False)):
        unit = torch.tensor([direction], dtype=torch.float64)
        assert bool(stencils._open(unit, torch.tensor([0]), near, labels, s)[0]) == is_open
    loose = replace(s, one_sided=0.3)
    assert bool(stencils._open(torch.tensor([[-1.0, 0.0]]).double(), torch.tensor([0]), near, labels, loose)[0])
    assert not bool(stencils._open(torch.tensor([[1.0, 0.0]]).double(), torch.tensor([0]), near, labels, loose)[0])
    others = torch.tensor([0, 0, 1, 1, 1])  # only the neighbours of the own part count
    assert bool(stencils._open(torch.tensor([[-1.0, 0.0]]).double(), torch.tensor([0]), near, others, s)[0])
    with_two = stencils._open(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]).double(), torch.tensor([0, 4]), near, others, s)
    assert with_two.tolist() == [True, True]


def test_a_laplacian_smoother_is_its_formula(rng: np.random.Generator) -> None:
    edges = Edges(torch.tensor([0, 0, 1, 2, 1]), torch.tensor([1, 2, 2, 3, 3]), 4)
    weight, mass = torch.from_numpy(rng.random(5) + 0.1), torch.from_numpy(rng.random(4) + 0.1)
    smoother = laplacian_smoother(edges, weight, mass, None, 2.0)
    w = np.zeros((4, 4))
    w[edges.head, edges.tail] = w[edges.tail, edges.head] = weight
    rate = w.sum(1) / mass.numpy()
    step = 0.5 / rate.max()
    root = np.sqrt(mass.numpy())
    expected = np.eye(4) - step * (np.diag(w.sum(1)) - w) / np.outer(root, root)
    np.testing.assert_allclose(smoother.matrix.to_dense().numpy(), expected)
    np.testing.assert_allclose(smoother.leaving.numpy(), step * rate)
    assert smoother.step_time == pytest.approx(step) and smoother.kind == "adaptive"
    np.testing.assert_allclose(smoother.mass.numpy(), mass.numpy() / mass.sum().item())
    empty = laplacian_smoother(edges, weight, mass * torch.tensor([0.0, 1, 1, 1]), None, 2.0)  # no mass is 0
    assert float(empty.mass[0]) == pytest.approx(1e-14 / 4, rel=1e-3, abs=0)
    with pytest.raises(InputError, match="at least 2 points, got 1"):
        laplacian_smoother(Edges(torch.tensor([0])[:0], torch.tensor([0])[:0], 1), weight[:0], mass[:1], None, 1.0)
    matrix = smoother.matrix
    assert matrix.crow_indices().dtype == torch.int32 == matrix.col_indices().dtype
    many = csr(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), (1, 2**31))
    assert many.crow_indices().dtype == torch.int64
    fits = csr(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), (1, 2**31 - 1))
    assert fits.crow_indices().dtype == torch.int32


def test_dense_blocks_of_stacked_clouds(rng: np.random.Generator) -> None:
    graphs = [build_graph(torch.from_numpy(bumpy(40, rng)), 12) for _ in range(2)]
    smoother = build_smoother(stack(graphs), dimension=2)
    blocks = smoother.dense()
    whole = smoother.matrix.to_dense()
    torch.testing.assert_close(blocks.matrix, torch.stack([whole[:40, :40], whole[40:, 40:]]))
    assert blocks.n == 80 == smoother.n and blocks.dense() is blocks
    x = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for each in (smoother, blocks):
        torch.testing.assert_close(each.apply(x), blocks.matrix @ x)
        torch.testing.assert_close(each.apply_symmetric(x), blocks.matrix @ x)
        torch.testing.assert_close(each.power(x, 2), blocks.matrix @ blocks.matrix @ x)
    single = build_smoother(graphs[0], dimension=2)
    assert single.dense().matrix.shape == (1, 40, 40)
    np.testing.assert_allclose(single.apply(x[0].numpy()), (single.matrix @ x[0]).numpy())
    row = build_smoother(graphs[0], "row", dimension=2)
    s = row.matrix.to_dense()
    torch.testing.assert_close(row.apply_symmetric(x[0], 2), s @ s @ s.T @ s.T @ x[0])
    power = torch.linalg.matrix_power(s, 20)
    torch.testing.assert_close(row.apply_symmetric(x[0]), power @ (power.T @ x[0]))


@pytest.mark.parametrize(("dimension", "balanced"), [(3, True), (3.4, True), (3.6, False), (4, False)])
def test_balance_is_for_at_most_three_dimensions(dimension: float, balanced: bool) -> None:
    """Above them the adaptive smoother is the one of variable bandwidth, number by number."""
    x = torch.from_numpy(np.random.default_rng(0).random((300, 4)))
    found = build_smoother(x, dimension=dimension)
    same = build_smoother(x, dimension=dimension, balance=balanced)
    torch.testing.assert_close(found.matrix.to_dense(), same.matrix.to_dense(), rtol=0, atol=0)
    other = build_smoother(x, dimension=dimension, balance=not balanced)
    assert float((found.matrix.to_dense() - other.matrix.to_dense()).abs().max()) > 1e-3


def test_the_spectrum_of_an_open_curve_does_not_turn_with_it(rng: np.random.Generator) -> None:
    """Its ends have one neighbour, about whose own mean there is no direction; lengths are those of the arc."""
    t = np.sort(rng.random(200)) * 4
    x = np.stack([np.cos(t), np.sin(t), t / 2], 1)
    turned = x @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    found, again = (decompose(y, 4).eigenvalues[1:] for y in (x, turned))
    np.testing.assert_allclose(again, found, rtol=1e-7)
    np.testing.assert_allclose(found, (np.pi * np.arange(1, 4) / (np.ptp(t) * 1.25**0.5)) ** 2, rtol=2e-3)


@pytest.mark.parametrize("kind", ["even", "random"])
@pytest.mark.parametrize("shape", ["helix", "spiral"])
def test_the_ends_of_a_wound_curve_are_not_joined_to_its_other_turns(shape: str, kind: str) -> None:
    """The nearest point beyond an end lies on the next turn, ten spacings away."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        t = (np.arange(400) + 0.5) / 400 if kind == "even" else np.sort(rng.random(400))
        x = np.stack([np.cos(6 * np.pi * t), np.sin(6 * np.pi * t), 1.5 * t], 1)
        if shape == "spiral":
            t = np.sqrt((0.04 + 1.4 * t) / 1.44)  # about as far from each other everywhere
            x = t[:, None] * np.stack([np.cos(6 * np.pi * t), np.sin(6 * np.pi * t)], 1)
        graph = build_graph(torch.tensor(x), 30)
        near = Neighbours.of(graph.points, graph.indices, graph.distances)
        edges = choose_edges(near, tangent_frames(near.offsets[:, :4], near.distances[:, :4], 1))
        ends = torch.stack([edges.head, edges.tail]).sort(0).values
        expected = torch.stack([torch.arange(399), torch.arange(1, 400)])
        torch.testing.assert_close(ends[:, ends[0].argsort()], expected)


def arc(share: float, n: int, rng: np.random.Generator | None) -> tuple[np.ndarray, float]:
    """Even or random points of a circle without ``share`` of it, and the length of what is left."""
    place = np.arange(n) / (n - 1) if rng is None else rng.random(n)
    angle = 2 * np.pi * (share / 2 + (1 - share) * place)
    return np.stack([np.cos(angle), np.sin(angle)], 1), 2 * np.pi * (1 - share)


@pytest.mark.parametrize(("share", "n"), [(0.02, 400), (0.05, 200), (0.1, 100), (0.14, 100), (0.2, 100), (0.02, 1000)])
def test_an_arc_is_open_where_its_gap_is_wider_than_its_points_lie_apart(share: float, n: int) -> None:
    """Closed, as it was with gaps of up to thirty spacings, its first eigenvalue is almost four times as large."""
    points, length = arc(share, n, None)
    found = decompose(points, 6, dimension=1).eigenvalues
    np.testing.assert_allclose(found[1:], (np.pi * np.arange(1, 6) / length) ** 2, rtol=3e-3)


def test_random_curves_are_closed_and_open_as_they_are(rng: np.random.Generator) -> None:
    """A gap of forty spacings is none of random points, and one of ten may be."""
    for _ in range(4):
        points, length = arc(0.05, 800, rng)
        assert decompose(points, 3).eigenvalues[1] == pytest.approx((np.pi / length) ** 2, rel=0.02)
    closed = [decompose(arc(0.0, 2000, rng)[0], 3).eigenvalues[1] for _ in range(6)]
    assert sum(each == pytest.approx(1, rel=0.02) for each in closed) >= 5


@pytest.mark.parametrize("ratio", [30.0, 300.0])
def test_sparse_parts_of_a_closed_curve_are_no_gaps(ratio: float, rng: np.random.Generator) -> None:
    """A quarter of the circle has so many times fewer points per length: those of it have far neighbours, too."""
    few = max(4, int(1500 / (3 * ratio)))
    angle = np.concatenate([np.pi / 2 + 1.5 * np.pi * rng.random(1500), (np.arange(few) + 0.5) / few * np.pi / 2])
    found = decompose(np.stack([np.cos(angle), np.sin(angle)], 1), 4, dimension=1, resolution="all").eigenvalues
    np.testing.assert_allclose(found[1:3], 1, rtol=0.1)


def test_a_gap_is_wide_for_the_points_at_both_its_ends() -> None:
    """Steps of 1, then one of 7.5: cut where six points lie nearer at either end, kept where at one they are sparse."""
    for steps, cut in (([1.0] * 30 + [7.5] + [1.0] * 30, True), ([1.0] * 30 + [7.5] + [6.0] * 30, False)):
        x = torch.tensor(np.cumsum([0.0, *steps])[:, None] * [1.0, 0.0])
        graph = build_graph(x, 12)
        near = Neighbours.of(x, graph.indices, graph.distances)
        keep = stencils._adjacent(near, torch.eye(2, 1, dtype=x.dtype).expand(len(x), 2, 1))
        kept = bool((keep[30] & (near.indices[30] == 31)).any())
        assert kept != cut


@pytest.mark.parametrize("scale", [1e-80, 1e-3, 1e70])
def test_frames_of_edges_are_those_of_any_unit(scale: float, rng: np.random.Generator) -> None:
    """Tangent planes of a bowl, whose moments are squares of lengths: of these only ratios count."""
    x = rng.random((80, 2)) * 2 - 1
    x = torch.from_numpy(np.column_stack([x, 0.3 * (x**2).sum(1)]))
    edges = undirected(build_graph(x, 8).indices)[0]
    chord, weight = x[edges.tail] - x[edges.head], torch.ones(len(edges.head), dtype=x.dtype)
    frames = [stencils.edge_frames(s * chord, edges, weight, 2, torch.zeros(80, 3, 2)) for s in (1.0, scale)]
    planes = [frame @ frame.mT for frame in frames]
    torch.testing.assert_close(*planes)
    normal = torch.from_numpy(np.column_stack([-0.6 * x[:, :2].numpy(), np.ones(80)]))
    assert float((planes[1] @ normal[..., None]).norm(dim=1).median()) < 0.2


def test_two_points_are_enough_for_a_smoother() -> None:
    one = torch.ones(2, dtype=torch.float64)
    edges = Edges(torch.tensor([0]), torch.tensor([1]), 2)
    found = laplacian_smoother(edges, torch.tensor([3.0]).double(), one, None, 1.0)
    torch.testing.assert_close(found.matrix.to_dense(), torch.full((2, 2), 0.5, dtype=torch.float64))
    assert found.step_time == pytest.approx(1 / 6) and found.mass.tolist() == [0.5, 0.5]
    with pytest.raises(InputError, match="at least 2 points, got 1"):
        laplacian_smoother(Edges(torch.tensor([0]), torch.tensor([0]), 1), one[:1], one[:1], None, 1.0)


def test_gaps_of_points_with_one_neighbour_each() -> None:
    """No point has two: as random ones, a gap is what the farther neighbours of both ends are nearer than."""
    x = torch.tensor([0.0, 1, 2, 3, 4, 40, 41, 42, 43, 44]).double()[:, None]
    graph = build_graph(x, 9)
    near = Neighbours.of(x, graph.indices, graph.distances)
    keep = torch.zeros(10, 9, dtype=torch.bool)
    keep[0, 0] = keep[5, 0] = keep[2, 8] = True
    for gap, expected in (((3, 4), keep & (near.distances > 9)), ((4, 10), torch.zeros_like(keep))):
        found = stencils._wide(near, keep, replace(SELECTION, gap=stencils.GapRank(*gap)))
        assert torch.equal(found, expected)
