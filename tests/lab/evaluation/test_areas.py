"""Reconstruction errors and true areas."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.geometry import face_areas, oracle
from eigenprobe.geometry.oracle import cotangent
from eigenprobe_lab.evaluation.areas import (
    mass_correlation,
    nearest_sample_areas,
    rebuild,
    rebuild_weighted,
    weighted_error,
)
from tests.meshes import blob, cube


def test_errors_fall_with_k_and_match_the_definition() -> None:
    vertices, faces = blob(8)
    basis = oracle(vertices, faces, 30)
    areas = basis.mass * basis.info["area"]
    ks = (1, 5, 10, 30)
    ours = {k: weighted_error(vertices, rebuild(basis, vertices, k), areas) for k in ks}
    exact = {
        k: weighted_error(vertices, rebuild_weighted(basis.vectors, vertices, k, areas), areas)
        for k in ks
    }
    assert list(ours.values()) == sorted(ours.values(), reverse=True)
    assert ours == pytest.approx(exact), (
        "with its own areas the oracle's projection is the weighted best"
    )
    mean = (areas[:, None] * vertices).sum(0) / areas.sum()
    assert np.allclose(rebuild(basis, vertices, 1), mean)
    assert ours[1] == pytest.approx(
        np.sqrt((areas * ((vertices - mean) ** 2).sum(1)).sum() / areas.sum())
    )


def test_the_best_coefficients_are_best() -> None:
    vertices, faces = blob(6)
    basis = oracle(vertices, faces, 12)
    other = np.random.default_rng(0).uniform(0.5, 2, len(vertices))
    best = weighted_error(vertices, rebuild_weighted(basis.vectors, vertices, 12, other), other)
    assert best < weighted_error(vertices, rebuild(basis, vertices, 12), other)
    assert weighted_error(vertices, vertices, other) == 0


def test_nearest_sample_areas_share_out_the_surface() -> None:
    vertices, faces = cube(3)
    corners = cube(1)[0]
    areas = nearest_sample_areas((vertices, faces), corners)
    assert areas.sum() == pytest.approx(6)
    assert np.allclose(areas, 6 / 8, rtol=0.05)
    found, voronoi = nearest_sample_areas(blob(8), blob(8)[0]), cotangent(*blob(8))[1]
    assert found.sum() == pytest.approx(face_areas(*blob(8)).sum())
    assert np.abs(found - voronoi).mean() < 0.03 * voronoi.mean(), (
        "Voronoi areas, found another way"
    )
    with pytest.raises(InputError, match=r"\(n, 3\)"):
        nearest_sample_areas((vertices, faces), corners[:, :2])


def test_mass_against_area(rng) -> None:
    areas = rng.uniform(1, 2, 50)
    assert mass_correlation(areas / areas.sum(), areas) == pytest.approx(1)
    assert mass_correlation(3 - areas, areas) == pytest.approx(-1)
    assert np.isnan(mass_correlation(np.full(50, 0.02), areas))
    with pytest.raises(InputError, match="one area per mass"):
        mass_correlation(areas[:3], areas)
