"""The neighbourhood smoother against its definition, and its extension to new points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from eigenprobe.cloud.cloud import CloudGraph, arrange
from eigenprobe.eigen.solve import solve
from eigenprobe.errors import InputError
from eigenprobe.extensions import NeighbourhoodExtension
from eigenprobe.extensions.functions import packed, unpacked
from eigenprobe.neighbors.graph import build_graph
from eigenprobe.points import Frame
from eigenprobe.smoothers.neighbourhood import fuzzy_weights, neighbourhood_smoother


@pytest.fixture
def points(generator: torch.Generator) -> torch.Tensor:
    return torch.randn(80, 5, generator=generator, dtype=torch.float64)


def test_extension_keeps_fitted_values_and_constants(
    points: torch.Tensor, generator: torch.Generator
) -> None:
    extension = _extension(points, 8)
    vectors = extension.values
    np.testing.assert_allclose(extension(points).numpy(), vectors.numpy(), atol=1e-12)
    new = torch.randn(30, 5, generator=generator, dtype=torch.float64)
    values = extension(new)
    np.testing.assert_allclose(
        values[:, 0].numpy(), float(vectors[0, 0]), rtol=1e-6
    )  # a constant stays one
    alone = torch.cat([extension(new[i : i + 1]) for i in range(30)])
    np.testing.assert_allclose(values.numpy(), alone.numpy(), atol=1e-10)
    again = unpacked(*packed(extension))
    np.testing.assert_array_equal(again(new).numpy(), values.numpy())


def test_stored_parts_must_fit_together(points: torch.Tensor) -> None:
    tensors, facts = packed(_extension(points, 8))
    spoiled = {
        "points": tensors["points"][:-1],
        "values": tensors["values"][:, :-1],
        "factors": tensors["factors"][:-1],
        "indices": torch.full_like(tensors["indices"], 80),
        "frame.centre": tensors["frame.centre"][:-1],
    }
    for name, value in spoiled.items():
        with pytest.raises(InputError, match="of one cloud"):
            unpacked({**tensors, name: value}, facts)


def written_out(extension: NeighbourhoodExtension, fitted: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``sum_j p_j J_j v_j / sum_j p_j J_j`` with all sets written out."""
    k = extension.indices.shape[1]
    sets = [{i, *row} for i, row in enumerate(extension.indices.tolist())]
    distances = np.linalg.norm(fitted - x, axis=1)
    near = np.argsort(distances)[:k]
    p = fuzzy_weights(torch.from_numpy(distances[near])[None])[0].numpy()
    common = np.array([len(sets[j] & set(near.tolist())) for j in near])
    w = (
        p * (common + 1) / (2 * k + 1 - common)
    )  # the new point is in its own set and, as a guest, in theirs
    w /= w.sum()
    return w @ extension.values.numpy()[near]


def test_extension_is_the_formula(points: torch.Tensor, generator: torch.Generator) -> None:
    extension, new = (
        _extension(points, 6),
        torch.randn(9, 5, generator=generator, dtype=torch.float64),
    )
    plain = extension.averages(new, extension.values)
    for x, value, average in zip(new.numpy(), extension(new).numpy(), plain.numpy(), strict=True):
        expected = written_out(extension, points.numpy(), x)
        np.testing.assert_allclose(value, expected / extension.factors.numpy())
        np.testing.assert_allclose(average, expected)


def test_nystrom_divides_by_the_eigenvalue_of_the_average(points: torch.Tensor) -> None:
    """A = (I + S) / 2 with the average S, so that S v = (2 mu - 1) v: what the average of v at a
    fitted point loses.
    """
    graph = build_graph(points, 8)
    smoother = neighbourhood_smoother(graph)
    root = smoother.mass.sqrt()[:, None]
    pairs = solve(smoother, 5)
    vectors = pairs.vectors / root
    average = 2 * (smoother.apply(pairs.vectors) / root) - vectors
    cloud = CloudGraph(points, Frame(torch.zeros_like(points[0]), 1.0), graph=graph)
    extension = NeighbourhoodExtension.of(cloud, smoother, vectors, pairs.factors)
    torch.testing.assert_close(average, extension.factors * vectors, atol=1e-4, rtol=0)
    low = NeighbourhoodExtension.of(
        cloud, smoother, vectors, torch.full((5,), 0.5, dtype=torch.float64)
    )
    assert low.factors.tolist() == [0.1] * 5  # noise is not blown up
    with pytest.raises(InputError, match="keeps no points"):
        NeighbourhoodExtension.of(cloud, replace(smoother, graph=None), vectors, pairs.factors)


def test_ties_do_not_depend_on_the_batch(rng: np.random.Generator) -> None:
    """Corners of a cube in 16 dimensions: every new point has hundreds of fitted points at the same
    distance.
    """
    corners = torch.from_numpy(rng.integers(0, 2, (600, 16)).astype(np.float64)).unique(dim=0)
    extension = _extension(corners, 8)
    new = torch.from_numpy(np.concatenate([rng.integers(0, 2, (300, 16)), np.full((20, 16), 0.5)]))
    together = extension(new)
    alone = torch.cat([extension(new[i : i + 1]) for i in range(len(new))])
    np.testing.assert_allclose(together.numpy(), alone.numpy(), atol=1e-12)
    assert float(together[300:].std(0).max()) < 1e-12  # one point, asked twenty times


def _extension(points: torch.Tensor, k: int) -> NeighbourhoodExtension:
    frame = Frame(torch.zeros_like(points[0]), 1.0)
    cloud = CloudGraph(points, frame, graph=build_graph(points, k))
    smoother = neighbourhood_smoother(cloud.graph)
    pairs = solve(smoother, 4)
    return NeighbourhoodExtension.of(
        cloud, smoother, pairs.vectors / smoother.mass.sqrt()[:, None], pairs.factors
    )


def test_affinities_of_new_rows_are_weights(rng: np.random.Generator) -> None:
    """The mean of fitted values by given affinities, over the factors; none or negative
    ones are refused.
    """
    cloud = arrange(torch.from_numpy(rng.normal(size=(30, 3))), 5, 4)
    smoother = neighbourhood_smoother(cloud.graph)
    values, factors = (
        torch.from_numpy(rng.normal(size=(30, 3))),
        torch.tensor([1.0, 0.8, 0.5], dtype=torch.float64),
    )
    extension = replace(
        NeighbourhoodExtension.of(cloud, smoother, values, factors), metric="precomputed_affinity"
    )
    affinities = torch.from_numpy(rng.random((7, 30)) * (rng.random((7, 30)) < 0.3))
    affinities[:, 0] += 0.01
    found = extension(affinities)
    weight = (affinities / affinities.sum(1, keepdim=True)).numpy()
    np.testing.assert_allclose(
        found, weight @ extension.values.numpy() / extension.factors.numpy(), atol=1e-6
    )
    for bad in (
        torch.zeros(1, 30),
        torch.cat([affinities[:1], -affinities[:1] + 1e-3]),
        affinities - 1e-3,
    ):
        with pytest.raises(InputError, match="affinities of at least 0"):
            extension(bad.double())


def test_distances_to_fitted_points_are_as_good_as_points(
    points: torch.Tensor, generator: torch.Generator
) -> None:
    """New rows of distances to all fitted points, in any order of these, and the points themselves:
    the same values.
    """
    extension, new = (
        _extension(points, 6),
        torch.randn(9, 5, generator=generator, dtype=torch.float64),
    )
    frame = Frame(torch.zeros(len(points), dtype=torch.float64), 1.0)
    other = replace(extension, metric="precomputed", frame=frame)
    found = other(torch.cdist(new, points))
    torch.testing.assert_close(found, extension(new), rtol=1e-6, atol=1e-9)
