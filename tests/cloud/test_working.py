"""Working samples: what is averaged, merged or left out, and that clean clouds stay as they are."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.linalg import eigsh

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning, InputError
from tests import clouds as c

quiet = pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")


def sphere(n: int, seed: int = 0) -> np.ndarray:
    return c.random_sphere(n, np.random.default_rng(seed))


def error(basis: ep.Basis) -> float:
    expected = c.sphere_spectrum(16)[1:]
    return float(np.mean(np.abs(basis.eigenvalues[1:16] / expected - 1)))


def assert_orthonormal(basis: ep.Basis) -> None:
    assert basis.mass.sum() == pytest.approx(1) and np.isfinite(basis.vectors).all()
    gram = basis.vectors.T @ (basis.mass[:, None] * basis.vectors)
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-8)


def rings(n: int, ratio: float, seed: int = 0) -> np.ndarray:
    """A sphere in rings of latitude, ``ratio`` times as far apart as their points."""
    step = np.sqrt(4 * np.pi / n / ratio)  # along a ring
    rng, parts = np.random.default_rng(seed), []
    for height in np.arange(-np.pi / 2 + ratio * step / 2, np.pi / 2, ratio * step):
        count = max(3, round(2 * np.pi * np.cos(height) / step))
        angle = 2 * np.pi * (np.arange(count) + rng.random()) / count
        flat = np.cos(height) * np.stack([np.cos(angle), np.sin(angle)], 1)
        parts.append(np.c_[flat, np.full(count, np.sin(height))])
    return np.concatenate(parts)


@pytest.mark.parametrize("n", [400, 2000, 6000])
def test_clean_clouds_are_their_own_sample(n: int) -> None:
    basis = ep.decompose(sphere(n), k=16)
    assert "resolution" not in basis.info and basis.lifted is None


@quiet
@pytest.mark.parametrize(
    "cloud",
    [
        lambda r: c.flat_torus(6 * r.random((900, 1))),
        lambda r: r.random((900, 2)),
        lambda r: r.random((900, 3)),
    ],
)
def test_so_are_random_curves_squares_and_solids(cloud, rng: np.random.Generator) -> None:
    assert "resolution" not in ep.decompose(cloud(rng), k=6).info


@quiet
def test_small_parts_are_left_out_unless_asked_for() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([sphere(2000), [3, 0, 0] + 0.05 * rng.normal(size=(40, 3))])
    usual, every = ep.decompose(x, k=9), ep.decompose(x, k=9, parts="all", resolution="all")
    gone = set(usual.info.get("left_out", [])) | set(usual.info.get("strays", []))
    assert gone == set(range(2000, 2040)) and usual.info["components"] == 1
    assert usual.mass[2000:].max() == 0 and np.isfinite(usual.vectors).all()
    assert every.info["components"] > 1 and every.eigenvalues[1] < 1e-8
    two = np.concatenate([sphere(900), sphere(600, 1) + [4, 0, 0]])
    assert ep.decompose(two, k=9).info["components"] == 2  # neither is small
    largest = ep.decompose(two, k=9, parts="largest")
    assert largest.info["left_out"] == list(range(900, 1500))
    np.testing.assert_allclose(largest.eigenvalues[1:4], 2, rtol=0.06)


def test_zeros_of_separate_parts_are_exact() -> None:
    """One eigenvalue 0 per part, with vectors that are constant on it, then those of the parts."""
    place = np.repeat([[0, 0, 0], [4, 0, 0], [0, 5, 0]], [2000, 1500, 800], 0)
    x = np.concatenate([sphere(2000), 0.5 * sphere(1500, 1), 0.4 * sphere(800, 2)]) + place
    x[:2000] += 0.005 * np.random.default_rng(0).normal(size=(2000, 3))
    with pytest.warns(EigenprobeWarning, match="3 separate parts"):
        basis = ep.decompose(x, k=10)
    np.testing.assert_array_equal(basis.eigenvalues[:3], 0)
    np.testing.assert_allclose(basis.eigenvalues[3:6], 2, rtol=0.1)
    np.testing.assert_allclose(basis.eigenvalues[6:], 6, rtol=0.15)
    for part in (slice(0, 2000), slice(2000, 3500), slice(3500, 4300)):
        assert np.ptp(basis.vectors[part, :3], axis=0).max() < 1e-6
    assert_orthonormal(basis)


@quiet
def test_copies_of_one_point_among_rings() -> None:
    """A turning scanner that writes what it did not see as the origin: the spacing there is 0."""
    angle = 2 * np.pi * np.arange(200) / 200
    ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1)
    reach = np.linspace(3, 40, 30)[:, None, None]
    x = np.concatenate([(reach * ring).reshape(-1, 3), np.zeros((600, 3))])
    basis = ep.decompose(x, k=10)
    assert basis.n == 6600
    np.testing.assert_allclose(np.ptp(basis.vectors[6000:], axis=0), 0, atol=1e-9)
    assert_orthonormal(basis)


@quiet
def test_a_noisy_cloud_and_its_copy_come_to_an_end() -> None:
    x = sphere(20_000) + 0.01 * np.random.default_rng(1).normal(size=(20_000, 3))
    began = time.process_time()
    basis = ep.decompose(np.concatenate([x, x]), k=16)
    assert error(basis) < 0.06 and time.process_time() - began < 60
    np.testing.assert_allclose(basis.vectors[:20_000], basis.vectors[20_000:], atol=1e-9)
    assert_orthonormal(basis)


@quiet
@pytest.mark.parametrize("jitter", [1e-6, 1e-4])
@pytest.mark.parametrize("times", [2, 3, 5])
def test_copies_have_the_spectrum_of_their_places(times: int, jitter: float) -> None:
    places = sphere(1000)
    x = np.repeat(places, times, 0)
    x = x + jitter * np.random.default_rng(0).normal(size=x.shape)
    alone, basis = ep.decompose(places, k=16), ep.decompose(x, k=16)
    np.testing.assert_allclose(basis.eigenvalues[1:], alone.eigenvalues[1:], rtol=0.02)
    assert_orthonormal(basis)


@quiet
@pytest.mark.parametrize("ratio", [5, 10])
def test_scan_lines_are_a_surface(ratio: float) -> None:
    basis = ep.decompose(rings(4000, ratio), k=16)
    assert basis.info["components"] == 1 and round(basis.info["dimension"]) == 2
    assert error(basis) < 0.08


@quiet
def test_a_number_of_points_is_about_kept_and_vectors_are_lifted() -> None:
    x = sphere(5000)
    basis = ep.decompose(x, k=16, resolution=1200)
    assert 1000 <= basis.info["resolution"] <= 1300 and basis.n == 5000 and error(basis) < 0.05
    assert_orthonormal(basis)
    whole = ep.decompose(x, k=16, resolution="all")
    assert c.alignment(basis.vectors[:, :4], whole.vectors[:, :4], whole.mass) > 0.99
    np.testing.assert_allclose(basis(x[:50]), basis.vectors[:50], atol=0.02)


def test_what_cannot_be_is_one_line() -> None:
    with pytest.raises(
        InputError, match="resolution must be 'auto', 'all' or a number of points up to 500"
    ):
        ep.decompose(sphere(500), k=5, resolution=600)
    with pytest.raises(InputError, match="plain operator"):
        ep.decompose(sphere(500), k=5, resolution=300, smoother="symmetric")
    with pytest.raises(
        InputError, match="needs a cloud of 300 points or more, got 200 points of 3"
    ):
        ep.decompose(sphere(200), k=5, resolution=50)
    with pytest.raises(
        InputError, match="needs a cloud of 300 points or more, got 100 points of 2"
    ):
        ep.decompose(sphere(100)[:, :2], k=5, resolution=50)
    with pytest.raises(InputError, match="needs a cloud of 2 or 3 dimensions, got 400 points of 4"):
        ep.decompose(np.random.default_rng(0).normal(size=(400, 4)), k=5, resolution=50)
    with pytest.raises(InputError, match="parts must be"):
        ep.decompose(sphere(500), k=5, parts="some")


@quiet
def test_operators_and_files_of_a_sampled_cloud(tmp_path: Path) -> None:
    x = np.concatenate([sphere(2000)] * 2)
    x = x[:2030] + 1e-6 * np.random.default_rng(0).normal(size=(2030, 3))
    basis = ep.decompose(x, k=9, resolution=1500)
    basis.save(tmp_path / "b.safetensors")
    again = ep.Basis.load(tmp_path / "b.safetensors")
    np.testing.assert_array_equal(again.vectors, basis.vectors)
    for L, M in (ep.laplacian(basis), ep.laplacian(x, resolution=1500)):
        assert L.shape == M.shape == (2030, 2030)
        np.testing.assert_allclose(M.sum(), 4 * np.pi, rtol=0.05)
        size = abs(L).max()
        assert abs(L - L.T).max() < 1e-9 * size and abs(L.sum(1)).max() < 1e-9 * size
        values = eigsh(L, 9, M, sigma=-0.1)[0]
        np.testing.assert_allclose(np.sort(values), basis.eigenvalues, rtol=1e-3, atol=1e-6)
    distance = ep.apps.geodesic_distance(basis, 0)
    angle = np.arccos(np.clip(x[:2000] @ x[0], -1, 1))
    assert np.abs(distance[:2000] - angle).mean() < 0.04
