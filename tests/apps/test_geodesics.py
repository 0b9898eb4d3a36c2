"""Distances from sources against dense n x n formulas."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

import eigenprobe as ep
from eigenprobe.apps import distance, spectral_embedding
from eigenprobe.apps.geodesics import _wedges
from eigenprobe.basis import Basis
from eigenprobe.errors import InputError


def dense(basis: Basis, gain: np.ndarray) -> np.ndarray:
    """All pairs, from the kernel G = V diag(gain) V^T: d^2 = G_xx + G_yy - 2 G_xy."""
    kernel = basis.vectors @ np.diag(gain) @ basis.vectors.T
    diagonal = np.diag(kernel)
    return np.sqrt(np.maximum(diagonal[:, None] + diagonal[None] - 2 * kernel, 0))


@pytest.mark.parametrize("kind", ["diffusion", "commute", "biharmonic"])
def test_distances_match_the_dense_formula(basis: Basis, kind: str) -> None:
    values = basis.eigenvalues
    with np.errstate(divide="ignore"):
        gain = {"diffusion": np.exp(-2 * 0.05 * values), "commute": 1 / values, "biharmonic": 1 / values**2}[kind]
    if kind != "diffusion":
        gain[0] = 0
    time = 0.05 if kind == "diffusion" else None
    expected = dense(basis, gain)
    np.testing.assert_allclose(distance(basis, [5, 9], kind, time=time), expected[:, [5, 9]], atol=1e-6)
    np.testing.assert_allclose(distance(basis, 5, kind, time=time), expected[:, 5], atol=1e-6)


def test_diffusion_distance_is_the_distance_of_heat_kernels(basis: Basis) -> None:
    from eigenprobe.apps import heat_kernel

    kernels = [heat_kernel(basis, i, 0.04) for i in (2, 8)]
    expected = np.sqrt((basis.mass * (kernels[0] - kernels[1]) ** 2).sum())
    np.testing.assert_allclose(distance(basis, 2, "diffusion", time=0.04)[8], expected, rtol=1e-9)


def test_without_a_time_the_first_mode_has_decayed_by_half(basis: Basis) -> None:
    time = np.log(2) / basis.eigenvalues[1]
    np.testing.assert_allclose(distance(basis, 2, "diffusion"), distance(basis, 2, "diffusion", time=time))
    embedding = spectral_embedding(basis, "diffusion")
    np.testing.assert_allclose(embedding[:, 1], basis.vectors[:, 1] / 2)


def test_a_metric(basis: Basis) -> None:
    d = distance(basis, np.arange(60), "biharmonic")[:60]
    np.testing.assert_allclose(d, d.T, atol=1e-12)
    assert np.all(np.diag(d) == 0)
    assert np.all(d[:, None, :] <= d[:, :, None] + d[None, :, :].transpose(0, 2, 1) + 1e-9)


def test_types_and_shapes(basis: Basis) -> None:
    assert distance(basis, 3).shape == (basis.n,)
    assert distance(basis, np.int64(3)).shape == (basis.n,)
    assert distance(basis, [3]).shape == (basis.n, 1)
    tensor = distance(basis.torch(), torch.tensor([1, 2]), "commute")
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), distance(basis, [1, 2], "commute"), rtol=1e-12)
    assert spectral_embedding(basis, "commute").shape == (basis.n, basis.k - 1)


def test_bad_input(basis: Basis) -> None:
    with pytest.raises(InputError, match="kind must be 'diffusion' or 'commute' or 'biharmonic', got 'geodesic'"):
        distance(basis, 0, "geodesic")
    with pytest.raises(InputError, match="only the diffusion distance has a time"):
        distance(basis, 0, "commute", time=1.0)
    with pytest.raises(InputError, match="point indices in 0"):
        distance(basis, -1)
    with pytest.raises(InputError, match=">= 0"):
        distance(basis, 0, "diffusion", time=-1.0)


def test_fronts_pass_doubtful_edges_as_twenty_times_as_long() -> None:
    """Two unit squares, one above the other, joined by two doubtful edges: twenty times the gap on the way."""
    from dataclasses import replace

    from eigenprobe.graph import stack
    from eigenprobe.graph.graph import build_graph
    from eigenprobe.smoothers import build_smoother

    m, gap = 21, 0.3
    grid = torch.stack(torch.meshgrid(torch.arange(m), torch.arange(m), indexing="ij"), -1).reshape(-1, 2).double()
    below = torch.cat([grid / (m - 1), torch.zeros(m * m, 1)], 1)
    above = below + torch.tensor([0.0, 0.0, gap])
    one = build_graph(below, 24)
    doors = torch.tensor([m * 10 + 4, m * 10 + 16])
    pairs = torch.stack([doors, doors + m * m], 1)
    graph = replace(stack([one, replace(one, points=above)]), clouds=(), doubtful=pairs)
    basis = ep.decompose(graph.points, k=4, smoother=build_smoother(graph, dimension=2))
    found = ep.apps.geodesic_distance(basis, 0)
    within = torch.cdist(below, below)
    way = (within[0, doors, None] + gap / 0.05 + within[doors]).amin(0)
    torch.testing.assert_close(found[: m * m], within[0], rtol=0.03, atol=0.01)
    torch.testing.assert_close(found[m * m :], way, rtol=0.03, atol=0.01)


def test_distances_on_a_working_sample_are_those_of_the_sphere(rng: np.random.Generator) -> None:
    """At all points of a sampled cloud, from several sources: great circles, and never shorter than the chord."""
    x = rng.normal(size=(1200, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    basis = ep.decompose(x, 4, resolution=400)
    sources = [7, 700]
    found = ep.apps.geodesic_distance(basis, sources)
    chords = np.linalg.norm(x[:, None] - x[sources], axis=2)
    true = 2 * np.arcsin(np.clip(chords / 2, 0, 1))
    assert found.shape == (1200, 2) and bool((found >= chords - 1e-12).all())
    assert float(np.abs(found - true).mean()) < 0.05 and float(np.abs(found - true).max()) < 0.25
    assert bool((found[sources, [0, 1]] < 0.15).all())


def test_parts_of_a_working_sample_that_are_not_reached(rng: np.random.Generator) -> None:
    x = rng.normal(size=(900, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[450:] += [9, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        basis = ep.decompose(x, 4, resolution=300, parts="all")
    found = ep.apps.geodesic_distance(basis, 3)
    assert bool(np.isinf(found[450:]).all()) and bool(np.isfinite(found[:450]).all())


def test_wedges_of_points_in_a_line_have_no_height() -> None:
    """Rounding leaves |one|^2 - along^2 a little below zero: heights are zero, not undefined."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        direction = rng.normal(size=3)
        x = np.sort(rng.random(12))[:, None] * direction
        rows, columns = np.nonzero(np.abs(np.subtract.outer(np.arange(12), np.arange(12))) <= 3)
        rows, columns = rows[rows != columns], columns[rows != columns]
        edges = csr_matrix((np.linalg.norm(x[rows] - x[columns], axis=1), (rows, columns)), shape=(12, 12))
        frames = np.broadcast_to(np.linalg.qr(rng.normal(size=(3, 2)))[0], (12, 3, 2))
        found = _wedges(x, edges, frames)
        assert np.isfinite(found.across).all()
        apart = found.j != found.k
        assert found.across[apart].max(initial=0) < 1e-6 * np.linalg.norm(direction)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_distances_by_heat_are_those_of_the_sphere(scale: float) -> None:
    """Of points far from the source too, where the field of the heat is small beyond the squares of numbers."""
    i = np.arange(900) + 0.5
    height, angle = 1 - 2 * i / 900, np.pi * (1 + 5**0.5) * i
    x = np.column_stack([np.sqrt(1 - height**2) * np.cos(angle), np.sqrt(1 - height**2) * np.sin(angle), height])
    exact = scale * np.arccos(np.clip(x @ x[0], -1, 1))
    for time in (0.002, 0.02):
        found = ep.apps.geodesic_distance(scale * x, 0, time=time * scale**2)
        assert found[0] == 0 and np.abs(found - exact).mean() < 0.03 * exact.mean(), time


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_three_distinct_points_have_distances() -> None:
    for points, kind in ((np.eye(3)[:2], ""), (np.eye(3)[[0, 1, 1, 0]], "distinct ")):
        with pytest.raises(InputError, match=f"^k=1 needs at least 3 {kind}points, got 2$"):
            ep.apps.geodesic_distance(points, 0)
    assert ep.apps.geodesic_distance(np.eye(3), 0).shape == (3,)
