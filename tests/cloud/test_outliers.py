"""Outliers: points off every surface are left out, whatever the draw; what is sparse is kept."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning
from tests import clouds as c


def with_outliers(n: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """A sphere, and points beyond it at 1.3 to 4 times its radius."""
    far = c.random_sphere(count, rng) * rng.uniform(1.3, 4, (count, 1))
    return np.concatenate([c.random_sphere(n, rng), far])


def turning_scanner(rings: int, count: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Ground as a scanner 1.5 above it sees it in rings, and how far away every point is: the
    rings of a car's scanner lie the farther apart the farther away they are.
    """
    angle = 2 * np.pi * np.arange(count) / count
    reach = 1.5 / np.tan(np.linspace(np.radians(25), np.radians(1.5), rings))
    x = reach[:, None, None] * np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    return x.reshape(-1, 3) + 0.01 * rng.normal(size=(rings * count, 3)), reach.repeat(count)


def left_out(points: np.ndarray, **options: object) -> tuple[np.ndarray, list[str]]:
    """Rows of outliers, and what was said."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        basis = ep.decompose(points, k=5, **options)
    return np.array(basis.info.get("strays", []), int), [str(each.message) for each in said]


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("count", [10, 40, 120])
def test_outliers_do_not_change_the_basis(count: int, rng: np.random.Generator) -> None:
    x = with_outliers(2000, count, rng)
    basis = ep.decompose(x, k=16)
    found = np.array(basis.info["strays"])
    assert (found >= 2000).mean() > 0.9 and (found >= 2000).sum() > 0.8 * count
    np.testing.assert_allclose(basis.eigenvalues[1:], c.sphere_spectrum(16)[1:], rtol=0.15)
    assert np.abs(basis.eigenvalues[1:] / c.sphere_spectrum(16)[1:] - 1).mean() < 0.05
    np.testing.assert_array_equal(basis.mass[found], 0)
    assert np.isfinite(basis.vectors).all()
    np.testing.assert_allclose(basis.normalized.T @ basis.normalized, np.eye(16), atol=1e-8)


def test_draws_of_one_cloud_agree(rng: np.random.Generator) -> None:
    """Three draws of a fifth of the points: the same outliers but for a few."""
    x = with_outliers(30_000, 600, rng)
    shares = []
    for _ in range(3):
        drawn = rng.permutation(len(x))[:6000]
        found = drawn[left_out(x[drawn])[0]]
        outside = (drawn >= 30_000).sum()
        assert (found < 30_000).sum() <= 10 and (found >= 30_000).sum() > 0.8 * outside
        shares.append((found >= 30_000).sum() / outside)
    assert np.ptp(shares) < 0.1


def test_rings_of_a_turning_scanner_are_kept(rng: np.random.Generator) -> None:
    """However far apart they lie, of the whole and of draws of a half."""
    x, reach = turning_scanner(32, 600, rng)
    for rows in (np.arange(len(x)), *(rng.permutation(len(x))[: len(x) // 2] for _ in range(2))):
        found, far = left_out(x[rows])[0], reach[rows] > 20
        assert far.sum() > 500 and far[found].sum() < 0.05 * far.sum()
        assert len(found) < 0.02 * len(rows)


@pytest.mark.parametrize("kind", ["random", "even", "gradual", "noisy", "edge"])
def test_clean_clouds_have_hardly_any(kind: str, rng: np.random.Generator) -> None:
    x = c.random_sphere(6000, rng)
    if kind == "even":
        x = x[ep.geometry.farthest_points(x, 2000)]
    elif kind == "gradual":  # eleven times as dense at one pole as at the other
        x = x[rng.random(len(x)) < 0.3 ** (1 - x[:, 2])]
    elif kind == "noisy":
        x = x + 0.01 * rng.normal(size=x.shape)
    elif kind == "edge":
        x = np.c_[rng.random((3000, 2)), np.zeros(3000)]
    assert len(left_out(x)[0]) <= 0.002 * len(x)


def test_many_are_told_and_too_many_are_for_the_user(rng: np.random.Generator) -> None:
    """More than 2 % are said, and more than 10 % stay until they are removed by hand."""
    found, said = left_out(with_outliers(2000, 15, rng))
    assert len(found) and not any("outliers" in each for each in said)
    found, said = left_out(with_outliers(2000, 120, rng))
    assert any(f"left out {len(found)} outliers" in each for each in said)
    with pytest.warns(EigenprobeWarning, match="too many to leave out unasked"):
        basis = ep.decompose(with_outliers(2000, 500, rng), k=5)
    assert "strays" not in basis.info and basis.mass.min() > 0


def test_all_points_are_taken_where_that_is_asked(rng: np.random.Generator) -> None:
    x = with_outliers(2000, 40, rng)
    for options in ({"resolution": "all"}, {"smoother": "symmetric"}):
        assert len(left_out(x, **options)[0]) == 0


@pytest.mark.parametrize(("n", "radii"), [(1000, 8), (1000, 1e6), (5000, 4), (5000, 1.3)])
def test_a_stray_point_changes_nothing_else(n: int, radii: float, rng: np.random.Generator) -> None:
    """16 vectors: whole multiplets of the sphere, so that the subspace is well defined."""
    x = c.random_sphere(n, rng)
    stray = radii * c.random_sphere(1, rng)
    alone, joined = ep.decompose(x, k=16), ep.decompose(np.concatenate([x, stray]), k=16)
    assert c.alignment(joined.vectors[:n], alone.vectors, alone.mass) > 0.999
    assert np.allclose(joined.eigenvalues, alone.eigenvalues, rtol=0.01, atol=1e-8)
    assert joined.mass[n] < alone.mass.mean()
    nearest = np.argsort(np.linalg.norm(x - stray, axis=1))[:10]
    assert np.allclose(
        joined.vectors[n, :4], joined.vectors[nearest, :4].mean(0), atol=0.1
    )  # it follows them


def test_a_pair_of_stray_points(rng: np.random.Generator) -> None:
    x = c.random_sphere(1000, rng)
    alone = ep.decompose(x, k=16)
    joined = ep.decompose(np.concatenate([x, [[3, 0, 0], [3, 0.1, 0]]]), k=16)
    assert c.alignment(joined.vectors[:1000], alone.vectors, alone.mass) > 0.999
    assert np.allclose(joined.eigenvalues, alone.eigenvalues, rtol=0.01, atol=1e-8)
