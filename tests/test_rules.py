"""Rules that the pages state, exactly: a factor of two, a sign or an off-by-one in any of them is a failure."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenprobe.eigen.span import ritz
from eigenprobe.estimators.rows import affordable_rows
from eigenprobe.estimators.tables import read_table
from eigenprobe.extensions import neighbourhood
from eigenprobe.graph.arranged import arrange
from eigenprobe.probes.families import family
from eigenprobe.smoothers import Smoother, build_smoother
from eigenprobe.smoothers.altered import Alteration, with_potential
from eigenprobe.smoothers.neighbourhood import neighbourhood_smoother
from tests import clouds as c


@pytest.fixture(scope="module")
def sphere() -> Smoother:
    return build_smoother(torch.from_numpy(c.fibonacci_sphere(120)), "adaptive", k=12, dimension=2)


def walk(smoother: Smoother) -> torch.Tensor:
    """``M^-1/2 A M^1/2``, whose rows sum to 1 where nothing is lost."""
    assert smoother.mass is not None
    root = smoother.mass.double().sqrt()
    return smoother.matrix.to_dense().double() / root[:, None] * root


def test_a_potential_is_added_to_the_laplacian_and_the_step_is_the_largest_safe_one(sphere: Smoother) -> None:
    potential = torch.linspace(-1, 3, sphere.n, dtype=torch.float64)
    altered = with_potential(sphere, potential)
    eye = torch.eye(sphere.n, dtype=torch.float64)
    plain, changed = (eye - walk(sphere)) / float(sphere.step_time), (eye - walk(altered)) / float(altered.step_time)
    torch.testing.assert_close(changed + altered.lowest * eye, plain + torch.diag(potential), atol=1e-8, rtol=1e-8)
    off = walk(altered).sum(1) - walk(altered).diagonal()
    assert float((walk(altered).diagonal() - off).min()) == pytest.approx(0, abs=1e-12)  # Gershgorin: A >= 0, just so
    assert Alteration().fixes_constant and Alteration(measure=0.5).fixes_constant
    assert not Alteration(potential=potential).fixes_constant and not Alteration(boundary="dirichlet").fixes_constant


@pytest.mark.parametrize(("name", "terms"), [("wavelet", {3: 1, 6: -1}), ("polynomial", dict.fromkeys(range(4), 0.25))])
def test_probes_of_a_family_are_its_polynomial_of_the_same_noise(sphere: Smoother, name: str, terms: dict) -> None:
    noise, drawn = (
        family(each).draw(sphere, 5, steps, generator=torch.Generator().manual_seed(3))
        for each, steps in (("heat", 0), (name, 3))
    )
    dense = sphere.matrix.to_dense()
    expected = sum(weight * torch.linalg.matrix_power(dense, power) @ noise for power, weight in terms.items())
    torch.testing.assert_close(drawn, expected, atol=1e-10, rtol=1e-8)
    rows = family("hadamard").draw(sphere, 128, 0)  # any random numbers: rows of one Hadamard matrix are orthogonal
    torch.testing.assert_close(rows @ rows.T, 128 * torch.eye(sphere.n, dtype=rows.dtype))


@pytest.mark.parametrize("power", [1, 3])
@pytest.mark.parametrize("known", [0, 1])
def test_ritz_gives_ascending_gaps_and_their_vectors(sphere: Smoother, power: int, known: int) -> None:
    mu, u = torch.linalg.eigh(sphere.matrix.to_dense().double())
    mu, u = mu.flip(0)[:6], u.flip(1)[:, :6]
    turn = torch.linalg.qr(
        torch.randn(6 - known, 6 - known, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ).Q
    q = torch.cat([u[:, :known], u[:, known:] @ turn], 1)
    gaps, rotation = ritz(q, sphere, power=power, known=known)
    torch.testing.assert_close(gaps, 1 - mu, atol=1e-7, rtol=1e-6)
    vectors = q @ rotation
    image = sphere.apply(vectors.to(sphere.dtype)).double()
    torch.testing.assert_close(image, (1 - gaps) * vectors, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(6, dtype=torch.float64), atol=1e-8, rtol=1e-8)


def test_rows_that_half_of_the_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2_000_000}.__getitem__)
    for columns, neighbours, components in ((128, 12, 10), (768, 30, 2)):
        expected = 4096 * 2_000_000 / 2 / (16 * columns + 400 * neighbours + 60 * (components + 10))
        assert affordable_rows(columns, neighbours, components, torch.device("cpu")) == int(expected)
    assert affordable_rows(10**7, 12, 10, torch.device("cpu")) == 20_000
    assert affordable_rows(1, 1, 1, torch.device("cpu")) == 2_000_000


def test_the_only_table_of_a_file_is_the_features(tmp_path: Path, rng: np.random.Generator) -> None:
    h5py = pytest.importorskip("h5py")
    features, labels = rng.normal(size=(7, 3)), np.arange(7)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["weird"], file["y"], file["cube"] = features, labels, np.zeros((2, 2, 2))
    table = read_table(tmp_path / "a.h5")
    np.testing.assert_array_equal(table.features, features)
    np.testing.assert_array_equal(table.labels, labels)
    assert table.names == ["x0", "x1", "x2"]


def test_new_points_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    cloud = arrange(torch.from_numpy(rng.normal(size=(60, 3))), 6, 4)
    smoother = neighbourhood_smoother(cloud.graph)
    mu, u = torch.linalg.eigh(smoother.matrix.to_dense().double())
    extension = neighbourhood.NeighbourhoodExtension.of(cloud, smoother, u[:, -4:], mu[-4:])
    new = torch.from_numpy(rng.normal(size=(9, 3)))
    whole, mass = extension.with_mass(new)
    for block in (1, 30, 100):
        monkeypatch.setattr(neighbourhood, "BLOCK", block)
        values, own = extension.with_mass(new)
        assert torch.equal(values, whole) and torch.equal(own, mass)
