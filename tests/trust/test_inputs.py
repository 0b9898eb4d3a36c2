"""Odd clouds: a right answer or one clear line, never NaN, infinity or a foreign error."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.errors import InputError
from tests.clouds import fibonacci_sphere

SPHERE = np.asarray(fibonacci_sphere(200))


@pytest.fixture(scope="module")
def model() -> ep.SpectralModel:
    return ep.SpectralModel.from_pretrained("surface")


def test_masked_entries_are_not_numbers(rng: np.random.Generator) -> None:
    mask = np.zeros(SPHERE.shape, bool)
    masked = np.ma.masked_array(SPHERE, mask)
    basis = ep.decompose(masked, 4)  # a mask without entries hides nothing
    mask[7, 1] = True
    masked = np.ma.masked_array(SPHERE, mask)
    for use in (lambda: ep.decompose(masked, 4), lambda: basis(masked)):
        with pytest.raises(InputError, match=r"masked.*first 7"):
            use()


@pytest.mark.parametrize("smoother", ["adaptive", "symmetric", "row"])
@pytest.mark.parametrize("scale", [1e-160, 1e-139, 1e-20, 1e20, 1e139, 1e160, 1e300])
def test_scales(scale: float, smoother: str) -> None:
    if not 1e-140 < scale < 1e140:
        with pytest.raises(InputError, match="change the unit"):
            ep.decompose(scale * SPHERE, 4, smoother=smoother)
        return
    basis, unit = (ep.decompose(s * SPHERE, 4, smoother=smoother) for s in (scale, 1.0))
    np.testing.assert_allclose(basis.eigenvalues[1:] * scale**2, unit.eigenvalues[1:], rtol=1e-9)
    np.testing.assert_allclose(basis(scale * SPHERE[:5]), basis.vectors[:5], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e18, 1e30])
def test_scales_in_single_precision(scale: float) -> None:
    x = (scale * SPHERE).astype(np.float32)
    basis = ep.decompose(x, 4)
    expected = ep.decompose(x.astype(np.float64), 4).eigenvalues
    assert basis.vectors.dtype == np.float32
    np.testing.assert_allclose(basis.eigenvalues[1:].astype(np.float64), expected[1:], rtol=1e-5)


def test_any_order_in_memory() -> None:
    basis = ep.decompose(SPHERE[::-1], 4)
    np.testing.assert_allclose(basis(SPHERE[:9][::-1]), basis(SPHERE[:9])[::-1], atol=1e-12)
    np.testing.assert_allclose(basis(np.asfortranarray(SPHERE)), basis(SPHERE), atol=1e-12)
    for wrong in (SPHERE > 0, SPHERE * 1j, SPHERE.astype(str), [["a", "b", "c"]]):
        with pytest.raises(InputError):
            basis(wrong)


def test_a_row_with_ties_depends_on_itself_alone(rng: np.random.Generator) -> None:
    """Corners of a cube in 16 dimensions: most distances are equal to many others."""
    basis = ep.decompose(rng.integers(0, 2, size=(300, 16)).astype(float), 5)
    new = rng.integers(0, 2, size=(150, 16)).astype(float)
    whole = basis(new)
    single = np.concatenate([basis(row[None]) for row in new])
    np.testing.assert_allclose(whole, single, atol=1e-9)
    np.testing.assert_allclose(basis(new[::-1])[::-1], single, atol=1e-9)


@pytest.mark.parametrize("smoother", ["auto", "heat", "symmetric"])
def test_encode_a_line_and_one_point(model: ep.SpectralModel, smoother: str) -> None:
    line = np.zeros((100, 3))
    line[:, 0] = np.linspace(0, 1, 100)
    line[-1] = [0.5, 5, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        basis = model.encode(line, k=10, smoother=smoother)
    assert np.isfinite(basis.vectors).all() and np.isfinite(basis.eigenvalues).all()
    np.testing.assert_allclose(basis.normalized.T @ basis.normalized, np.eye(10), atol=1e-5)
    assert np.isfinite(basis(line[:5] + 0.01)).all()


def test_encode_far_clusters(model: ep.SpectralModel, rng: np.random.Generator) -> None:
    """Farthest points of far clusters: no index outside the cloud, no NaN."""
    for distance in (1e2, 1e4):
        x = rng.normal(size=(120, 3))
        x[60:] += distance
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            basis = model.encode(x, k=8)
        assert np.isfinite(basis.vectors).all() and np.isfinite(basis.eigenvalues).all()
        np.testing.assert_allclose(basis.normalized.T @ basis.normalized, np.eye(8), atol=1e-5)
    x[60:] += 1e8
    with pytest.raises(InputError, match="one by one"):
        model.encode(x, k=8)


@pytest.mark.long
def test_row_on_ordinary_small_clouds() -> None:
    """240 clouds of 50 to 300 points: spheres, cubes, planes and Gaussians in 2 to 10
    dimensions.
    """
    for seed in range(240):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(50, 301)), int(rng.integers(2, 11))
        x = rng.normal(size=(n, d)) if seed % 2 else rng.random((n, d))
        if seed % 3 == 0:
            x /= np.linalg.norm(x, axis=1, keepdims=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            basis = ep.decompose(x, int(rng.integers(2, 21)), smoother="row")
        assert np.isfinite(basis.vectors).all() and np.isfinite(basis.eigenvalues).all(), seed
        assert np.abs(basis.normalized.T @ basis.normalized - np.eye(basis.k)).max() < 1e-8, seed


def test_one_bad_shape_does_not_lose_the_good_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from eigenprobe.cli import main

    monkeypatch.chdir(tmp_path)
    far = SPHERE.copy()
    far[100:] += 1e9
    np.savetxt("good.xyz", SPHERE)
    np.savetxt("far.xyz", far)
    Path("broken.ply").write_bytes(b"ply\nformat ascii 1.0\nelement vertex 9\n")
    assert main(["encode", "far.xyz", "good.xyz", "broken.ply", "-k", "5", "--out", "e"]) == 2
    told = capsys.readouterr().out
    assert "encoded 1 of 3" in told and "skipped far.xyz" in told and "skipped broken.ply" in told
    assert [path.name for path in Path("e").glob("*.safetensors")] == ["good.safetensors"]
