"""Tests of `decomposition.lift`: from the basis of a working sample to one of all points."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.decomposition import lift as lifting
from eigenprobe.decomposition.lift import _make_orthonormal, lift
from eigenprobe.extensions import KernelExtension
from eigenprobe.sampling import WorkingSample
from tests import clouds as c


def test_functions_become_orthonormal_with_the_least_change(rng: np.random.Generator) -> None:
    """``V G^-1/2`` is the orthonormal system nearest to V, by the singular values of M^1/2 V."""
    mass = torch.from_numpy(rng.random(40) + 0.2)
    mass = mass / mass.sum()
    values = torch.from_numpy(np.column_stack([np.ones(40), rng.normal(size=(40, 3))]))
    found = values.clone()
    turn = _make_orthonormal(found, mass)
    torch.testing.assert_close(found.mT @ (mass[:, None] * found), torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(values @ turn, found)
    centred = mass.sqrt()[:, None] * (values[:, 1:] - mass @ values[:, 1:])
    left, _, right = torch.linalg.svd(centred, full_matrices=False)
    torch.testing.assert_close(mass.sqrt()[:, None] * found[:, 1:], left @ right)  # the polar factor


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_a_lifted_basis_is_one_of_all_points(rng: np.random.Generator) -> None:
    x = c.random_sphere(3000, rng)
    basis = ep.decompose(x, k=9, resolution=1000)
    assert basis.n == 3000 and basis.info["resolution"] < 2000
    v, mass = basis.vectors, basis.mass
    np.testing.assert_allclose(v.T @ (mass[:, None] * v), np.eye(9), atol=1e-8)
    np.testing.assert_allclose(v[:, 0], 1, atol=1e-10)
    span = np.linalg.qr(np.sqrt(mass)[:, None] * x)[0]  # the first harmonics are the coordinates
    share = np.linalg.norm(span.T @ (np.sqrt(mass)[:, None] * v[:, 1:4]), axis=0)
    assert share.min() > 0.99
    np.testing.assert_allclose(basis(x[:20]), v[:20], atol=1e-6)


def test_functions_that_depend_on_each_other_stay_finite(rng: np.random.Generator) -> None:
    """Two that are equal leave a direction without a size: it is not divided by rounding."""
    one, two = rng.normal(size=(2, 40))
    values = torch.from_numpy(np.column_stack([np.ones(40), one, two, one]))
    mass = torch.full((40,), 1 / 40, dtype=torch.float64)
    found = values.clone()
    turn = _make_orthonormal(found, mass)
    assert float(turn.abs().max()) < 2e6  # 1 over the root of 1e-12 of the largest
    torch.testing.assert_close(values @ turn, found, atol=1e-6, rtol=0)
    gram = found.mT @ (mass[:, None] * found)
    shared = torch.tensor([1.0, 0, 1], dtype=torch.float64)[:, None] / 2**0.5  # what the equal ones share
    torch.testing.assert_close(shared.mT @ gram[1:, 1:] @ shared, torch.ones(1, 1, dtype=torch.float64))


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_functions_of_any_size_and_in_any_blocks(
    size: float, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifting, "BLOCK", 7)
    mass = torch.from_numpy(rng.random(40))
    mass = mass / mass.sum()
    values = size * torch.from_numpy(rng.normal(size=(40, 4)))
    values[:, 0] = 1.0
    found = values.clone()
    turn = _make_orthonormal(found, mass)
    torch.testing.assert_close(found.mT @ (mass[:, None] * found), torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(values @ turn, found)
    alone = torch.ones(5, 1, dtype=torch.float64)  # the constant has no other to be turned with
    assert _make_orthonormal(alone, torch.full((5,), 0.2, dtype=torch.float64)).tolist() == [[1.0]]


def _sampled(rows: list[int], shares: list[float], rng: np.random.Generator) -> tuple[ep.Basis, WorkingSample]:
    """A basis of sampled points and a sample of given ones: cells are the means of their points."""
    place, share = torch.tensor(rows), torch.tensor(shares).double()
    given = torch.from_numpy(rng.normal(size=(len(rows), 3)))
    count = int(place.max()) + 1
    sample = WorkingSample(given, given[:count], place, share, share == 0, {"averaged": True})
    sample = replace(sample, points=sample.collect(given))
    mass = torch.from_numpy(rng.random(count))
    mass = mass / mass.sum()
    values = torch.from_numpy(rng.normal(size=(count, 3)))
    values[:, 0] = 1.0
    _make_orthonormal(values, mass)
    cuts = torch.tensor([[0, 3], [2, 1]])
    return ep.Basis(values * mass.sqrt()[:, None], mass, torch.arange(3.0), sample.points, short_cuts=cuts), sample


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_points_without_mass_have_values_of_the_extension(rng: np.random.Generator) -> None:
    """Where every sampled point is a given one, vectors and mass are those of the sample."""
    basis, sample = _sampled([3, 0, 1, 2, 5, 4, 1, 0], [1, 1, 1, 1, 1, 1, 0, 0], rng)
    found = lift(basis, KernelExtension(sample.points, basis.vectors), sample)
    kept = sample.shares > 0
    assert torch.equal(found.vectors[kept], basis.vectors[sample.rows[kept]])
    torch.testing.assert_close(found.mass[kept], basis.mass[sample.rows[kept]])
    assert found.mass[~kept].tolist() == [0, 0] and float(found.mass.sum()) == pytest.approx(1)
    expected = KernelExtension(sample.given[kept], found.vectors[kept])(sample.given[~kept])
    torch.testing.assert_close(found.vectors[~kept], expected)
    torch.testing.assert_close(found.normalized, found.vectors * found.mass.sqrt()[:, None])
    torch.testing.assert_close(found(sample.given[kept]), found.vectors[kept], atol=1e-8, rtol=0)
    assert found.short_cuts.tolist() == [[1, 0], [3, 2]]  # rows of the given points
    assert found.info["strays"] == [6, 7] and found.info["resolution"] == 6 and "left_out" not in found.info


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("many", [8, 9, 10])
def test_means_over_cells_give_an_orthonormal_basis_of_all_points(
    many: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of the extension, turned; up to some number of points the extension is turned first, and then they are."""
    monkeypatch.setattr(lifting, "MANY", many)
    basis, sample = _sampled([0, 0, 1, 1, 2, 3, 3, 2, 3], [0.4, 0.6, 0.3, 0.7, 1, 0.4, 0.6, 0, 0], rng)
    sample = replace(sample, strays=torch.arange(9) == 8)
    extension = KernelExtension(sample.points, basis.vectors)
    found = lift(basis, extension, sample)
    mass = basis.mass[sample.rows] * sample.shares
    torch.testing.assert_close(found.mass, mass / mass.sum())
    torch.testing.assert_close(found.normalized.mT @ found.normalized, torch.eye(3, dtype=torch.float64))
    expected = extension(sample.given)
    turn = _make_orthonormal(expected, found.mass)
    turned = KernelExtension(sample.points, basis.vectors @ turn)
    torch.testing.assert_close(found(sample.given), turned(sample.given))
    if many >= 9:
        expected = turned(sample.given)
        _make_orthonormal(expected, found.mass)
    torch.testing.assert_close(found.vectors, expected)
    nearest = torch.cdist(sample.points, sample.given).argmin(1)
    assert torch.equal(found.short_cuts, nearest[basis.short_cuts])
    assert found.info["strays"] == [8] and found.info["left_out"] == [7]
    whole = replace(sample, shares=torch.tensor([0.5, 0.5, 0.3, 0.7, 1, 0.2, 0.5, 0, 0.3]).double())
    assert lift(replace(basis, short_cuts=torch.zeros(0, 2).long()), extension, whole).lifted is not None
    full = replace(sample, shares=torch.tensor([0.5, 0.5, 0.3, 0.7, 0.5, 0.2, 0.5, 0.5, 0.3]).double())
    assert lift(replace(basis, short_cuts=None), extension, full).lifted is None


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, None),
        ({"strays": [1, 2]}, "of 9 points: left out 2 strays"),
        ({"left_out": [1]}, r"of 9 points: left out 1 points in small parts \(parts='all' keeps them\)"),
        ({"quality": {"cleaned": True}}, "of 9 points: moved noisy points back onto their surface"),
        ({"quality": {"averaged": True, "merged": 3}}, "of 9 points: worked on 4 .* because of noise and copies"),
        ({"strays": [1], "quality": {"scan_lines": True}}, "left out 1 strays; worked on 4 .* because of scan lines"),
    ],
)
def test_what_was_done_is_said_in_one_line(facts: dict[str, Any], words: str | None) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        lifting._say({"quality": {}} | facts, 9, 4)
    assert len(said) == (words is not None)
    assert words is None or re.search(words, str(said[0].message))


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_mass_sums_to_one_whatever_the_shares_do(rng: np.random.Generator) -> None:
    basis, sample = _sampled([0, 0, 1, 1, 2, 3, 3], [0.4, 0.6, 0.3, 0.7, 1, 0.4, 0.6], rng)
    extension = KernelExtension(sample.points, basis.vectors)
    found = lift(basis, extension, sample)
    for times in (0.2, 7.0):
        other = lift(basis, extension, replace(sample, shares=times * sample.shares))
        torch.testing.assert_close(other.mass, found.mass)
        assert float(other.mass.sum()) == pytest.approx(1)
