"""The neighbourhood smoother against its definition, and its extension to new points."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenprobe.cloud import Frame
from eigenprobe.eigen.solve import solve
from eigenprobe.errors import InputError
from eigenprobe.extensions import NeighbourhoodExtension
from eigenprobe.extensions import neighbourhood as extensions
from eigenprobe.graph import Graph, estimate_dimension
from eigenprobe.graph.arranged import Arranged, arrange
from eigenprobe.graph.graph import build_graph
from eigenprobe.search.neighbours import Metric
from eigenprobe.smoothers.neighbourhood import fuzzy_weights, neighbourhood_smoother


@pytest.fixture
def points(generator: torch.Generator) -> torch.Tensor:
    return torch.randn(80, 5, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_time_of_a_step_is_the_formula(points: torch.Tensor, metric: Metric) -> None:
    """``(1 - delta)^4 sum_ij w d^2 / (4 dim sum r)`` with dense matrices; cosine distances are half a squared chord."""
    x = points * torch.linspace(0.5, 3, len(points), dtype=points.dtype)[:, None]  # rows of different lengths
    graph = build_graph(x, 7, metric=metric)
    smoother = neighbourhood_smoother(graph)
    n, a = len(x), smoother.matrix.to_dense().numpy()
    mass = smoother.mass.numpy()
    off = 2 * (a - np.eye(n) / 2) * np.sqrt(np.outer(mass, mass))  # w over the sum of r
    rows = x.numpy() if metric == "euclidean" else (x / x.norm(dim=1, keepdim=True)).numpy()
    squared = ((rows[:, None] - rows) ** 2).sum(-1)
    energy = off * (squared if metric == "euclidean" else squared / 2)
    centred = np.sqrt(mass)[:, None] * (rows - mass @ rows)
    step = centred - a @ centred
    measured = (step**2).sum() / (centred * step).sum()
    random = (energy * off * (1 / mass[:, None] + 1 / mass) / 2).sum() / energy.sum()
    chords = Graph(torch.from_numpy(rows), graph.indices, torch.from_numpy(squared).sqrt().gather(1, graph.indices))
    time = energy.sum() / (4 * estimate_dimension(chords)) * (1 - min(measured, random)) ** 4
    assert float(smoother.step_time) == pytest.approx(time, rel=1e-6)


def test_extension_keeps_fitted_values_and_constants(points: torch.Tensor, generator: torch.Generator) -> None:
    extension = _extension(points, 8)
    vectors = extension.values
    np.testing.assert_allclose(extension(points).numpy(), vectors.numpy(), atol=1e-12)
    new = torch.randn(30, 5, generator=generator, dtype=torch.float64)
    values = extension(new)
    np.testing.assert_allclose(values[:, 0].numpy(), float(vectors[0, 0]), rtol=1e-6)  # a constant stays one
    alone = torch.cat([extension(new[i : i + 1]) for i in range(30)])
    np.testing.assert_allclose(values.numpy(), alone.numpy(), atol=1e-10)
    again = NeighbourhoodExtension.from_tensors(extension.tensors(), extension.facts())
    np.testing.assert_array_equal(again(new).numpy(), values.numpy())


def written_out(extension: NeighbourhoodExtension, fitted: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, float]:
    """``sum_j p_j J_j v_j / ((2 mu - 1) sum_j p_j J_j)`` with all sets written out; the mass is averaged undivided."""
    k = extension.indices.shape[1]
    sets = [{i, *row} for i, row in enumerate(extension.indices.tolist())]
    distances = np.linalg.norm(fitted - x, axis=1)
    near = np.argsort(distances)[:k]
    p = fuzzy_weights(torch.from_numpy(distances[near])[None])[0].numpy()
    common = np.array([len(sets[j] & set(near.tolist())) for j in near])
    w = p * (common + 1) / (2 * k + 1 - common)  # the new point is in its own set and, as a guest, in theirs
    w /= w.sum()
    return w @ extension.values.numpy()[near] / extension.factors.numpy(), w @ extension.mass.numpy()[near]


def test_extension_is_the_formula(points: torch.Tensor, generator: torch.Generator) -> None:
    extension, new = _extension(points, 6), torch.randn(9, 5, generator=generator, dtype=torch.float64)
    values, mass = extension.with_mass(new)
    for x, value, share in zip(new.numpy(), values.numpy(), mass.numpy(), strict=True):
        expected, own = written_out(extension, points.numpy(), x)
        np.testing.assert_allclose(value, expected)
        np.testing.assert_allclose(share, own)


@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
def test_a_fitted_point_is_one_within_a_share_of_its_neighbourhood(points: torch.Tensor, unit: float) -> None:
    """A hundred-thousandth of the distance to the farthest neighbour, in any unit; beyond it is the formula."""
    x = unit * points
    extension = _extension(x, 6)
    for i in range(0, len(x), 9):
        reach = float((x - x[i]).norm(dim=1).sort().values[5])
        side = torch.zeros(5, dtype=torch.float64)
        side[i % 5] = reach
        value, mass = extension.with_mass(torch.stack([x[i] + 0.9e-5 * side, x[i] + 1.1e-5 * side]))
        assert torch.equal(value[0], extension.values[i]) and torch.equal(mass[0], extension.mass[i])
        expected, own = written_out(extension, x.numpy(), (x[i] + 1.1e-5 * side).numpy())
        np.testing.assert_allclose(value[1].numpy(), expected, atol=1e-9)
        np.testing.assert_allclose(float(mass[1]), own)
        assert np.abs(expected - extension.values[i].numpy()).max() > 1e-3


def test_fitted_points_are_looked_up_and_not_searched(points: torch.Tensor, generator: torch.Generator) -> None:
    """Values and mass are those of the fit, bit by bit; of the others only is a search made."""
    extension, sought = _extension(points, 6), []
    search, n = extension._search, len(points)
    extension.__dict__["_search"] = lambda rows, k: sought.append(rows) or search(rows, k)
    new = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    mixed = torch.cat([points.flip(0), new, points[3:4], -0.0 * points[:1]])
    values, mass = extension.with_mass(mixed)
    assert torch.equal(values[:n], extension.values.flip(0)) and torch.equal(mass[:n], extension.mass.flip(0))
    assert torch.equal(values[n + 4], extension.values[3])
    assert [len(rows) for rows in sought] == [5] and torch.equal(sought[0], mixed[[*range(n, n + 4), n + 5]])
    np.testing.assert_allclose(values[n].numpy(), written_out(extension, points.numpy(), new[0].numpy())[0])
    assert torch.equal(values[n : n + 4], torch.cat([extension(row[None]) for row in new]))  # whatever the company


def test_rows_of_a_frame_are_their_own_in_any_company(generator: torch.Generator) -> None:
    """Blocks change no bit; a row of zeros has its number in the table, not in a block."""
    rows = torch.randn(9000, 40, generator=generator)
    frame = Frame.of(rows, "cosine", centred=False)
    moved = frame(rows, torch.float32)
    assert torch.equal(moved[8990:], frame(rows[8990:], torch.float32))
    torch.testing.assert_close(moved, rows / rows.norm(dim=1, keepdim=True))
    rows[8765] = 0
    with pytest.raises(InputError, match="row 8765 is all zeros"):
        frame(rows)


def test_rows_are_taken_as_many_as_a_block_has_neighbours(
    points: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    extension, taken = _extension(points, 6), [0][:0]
    real = NeighbourhoodExtension._rows
    monkeypatch.setattr(NeighbourhoodExtension, "_rows", lambda self, part: taken.append(len(part)) or real(self, part))
    for block, rows in ((1, 1), (5, 1), (6, 1), (12, 2), (41, 6), (1000, 9)):
        monkeypatch.setattr(extensions, "BLOCK", block)
        taken.clear()
        extension(points[:9] + 0.1)
        assert taken == [rows] * (9 // rows) + [9 % rows] * (9 % rows > 0)


def test_nystrom_divides_by_the_eigenvalue_of_the_average(points: torch.Tensor) -> None:
    """A = (I + S) / 2 with the average S, so that S v = (2 mu - 1) v: what the average of v at a fitted point loses."""
    graph = build_graph(points, 8)
    smoother = neighbourhood_smoother(graph)
    root = smoother.mass.sqrt()[:, None]
    pairs = solve(smoother, 5)
    vectors = pairs.vectors / root
    average = 2 * (smoother.apply(pairs.vectors) / root) - vectors
    cloud = Arranged(points, Frame(torch.zeros_like(points[0]), 1.0), graph=graph)
    extension = NeighbourhoodExtension.of(cloud, smoother, vectors, pairs.factors)
    torch.testing.assert_close(average, extension.factors * vectors, atol=1e-4, rtol=0)
    low = NeighbourhoodExtension.of(cloud, smoother, vectors, torch.full((5,), 0.5, dtype=torch.float64))
    assert low.factors.tolist() == [0.1] * 5  # noise is not blown up
    with pytest.raises(InputError, match="keeps no points"):
        NeighbourhoodExtension.of(cloud, replace(smoother, graph=None), vectors, pairs.factors)


def test_ties_do_not_depend_on_the_batch(rng: np.random.Generator) -> None:
    """Corners of a cube in 16 dimensions: every new point has hundreds of fitted points at the same distance."""
    corners = torch.from_numpy(rng.integers(0, 2, (600, 16)).astype(np.float64)).unique(dim=0)
    extension = _extension(corners, 8)
    new = torch.from_numpy(np.concatenate([rng.integers(0, 2, (300, 16)), np.full((20, 16), 0.5)]))
    together = extension(new)
    alone = torch.cat([extension(new[i : i + 1]) for i in range(len(new))])
    np.testing.assert_allclose(together.numpy(), alone.numpy(), atol=1e-12)
    assert float(together[300:].std(0).max()) < 1e-12  # one point, asked twenty times


def test_a_complete_graph_has_equal_weights_and_bounded_memory() -> None:
    """With all others as neighbours J is 1, and counting common neighbours takes less than n^3 entries."""
    script = """
import resource, torch
from eigenprobe.graph import build_graph
from eigenprobe.smoothers import neighbourhood_smoother
from eigenprobe.smoothers.neighbourhood import fuzzy_weights
x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
neighbourhood_smoother(build_graph(x, 5))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
graph = build_graph(x, 299)
smoother = neighbourhood_smoother(graph)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
p = torch.zeros(300, 300, dtype=torch.float64).scatter_(1, graph.indices, fuzzy_weights(graph.distances))
w = torch.maximum(p, p.T)
r = w.sum(1)
expected = torch.eye(300) / 2 + w / (r[:, None] * r).sqrt() / 2
assert torch.allclose(smoother.matrix.to_dense(), expected, atol=1e-12)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 300, "MiB"


def _extension(points: torch.Tensor, k: int) -> NeighbourhoodExtension:
    frame = Frame(torch.zeros_like(points[0]), 1.0)
    cloud = Arranged(points, frame, graph=build_graph(points, k))
    smoother = neighbourhood_smoother(cloud.graph)
    pairs = solve(smoother, 4)
    return NeighbourhoodExtension.of(cloud, smoother, pairs.vectors / smoother.mass.sqrt()[:, None], pairs.factors)


def test_new_points_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    cloud = arrange(torch.from_numpy(rng.normal(size=(60, 3))), 6, 4)
    smoother = neighbourhood_smoother(cloud.graph)
    mu, u = torch.linalg.eigh(smoother.matrix.to_dense().double())
    extension = NeighbourhoodExtension.of(cloud, smoother, u[:, -4:], mu[-4:])
    new = torch.from_numpy(rng.normal(size=(9, 3)))
    whole, mass = extension.with_mass(new)
    for block in (1, 30, 100):
        monkeypatch.setattr(extensions, "BLOCK", block)
        values, own = extension.with_mass(new)
        assert torch.equal(values, whole) and torch.equal(own, mass)


def test_affinities_of_new_rows_are_weights(rng: np.random.Generator) -> None:
    """The mean of fitted values and masses by given affinities, over the factors; none or negative ones are refused."""
    cloud = arrange(torch.from_numpy(rng.normal(size=(30, 3))), 5, 4)
    smoother = neighbourhood_smoother(cloud.graph)
    values, factors = torch.from_numpy(rng.normal(size=(30, 3))), torch.tensor([1.0, 0.8, 0.5], dtype=torch.float64)
    extension = replace(NeighbourhoodExtension.of(cloud, smoother, values, factors), metric="precomputed_affinity")
    affinities = torch.from_numpy(rng.random((7, 30)) * (rng.random((7, 30)) < 0.3))
    affinities[:, 0] += 0.01
    found, mass = extension.with_mass(affinities)
    weight = (affinities / affinities.sum(1, keepdim=True)).numpy()
    np.testing.assert_allclose(found, weight @ extension.values.numpy() / extension.factors.numpy(), atol=1e-6)
    np.testing.assert_allclose(mass, weight @ extension.mass.numpy(), atol=1e-9)
    for bad in (torch.zeros(1, 30), torch.cat([affinities[:1], -affinities[:1] + 1e-3]), affinities - 1e-3):
        with pytest.raises(InputError, match="affinities of at least 0"):
            extension.with_mass(bad.double())


def test_distances_to_fitted_points_are_as_good_as_points(points: torch.Tensor, generator: torch.Generator) -> None:
    """New rows of distances to all fitted points, in any order of these, and the points themselves: the same values."""
    extension, new = _extension(points, 6), torch.randn(9, 5, generator=generator, dtype=torch.float64)
    frame = Frame(torch.zeros(len(points), dtype=torch.float64), 1.0)
    other = replace(extension, metric="precomputed", frame=frame)
    for found, expected in zip(other.with_mass(torch.cdist(new, points)), extension.with_mass(new), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


def test_files_of_before_have_the_usual_sameness(points: torch.Tensor) -> None:
    extension = _extension(points, 6)
    facts = {name: fact for name, fact in extension.facts().items() if name != "same"}
    assert NeighbourhoodExtension.from_tensors(extension.tensors(), facts).same == 1e-5
