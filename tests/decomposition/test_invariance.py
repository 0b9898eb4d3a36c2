"""Moving, turning, scaling or reordering the points changes nothing but what it must."""

from __future__ import annotations

import numpy as np
import pytest

import eigenprobe as ep
from tests.meshes import blob, torus

K = 16
TORUS = torus(60, 24)[0]
CLOUDS = {
    "blob": blob(13)[0],
    # A regular grid has neighbours at equal distances, and rounding decides which of them are kept:
    # move it a little.
    "torus": TORUS + 1e-3 * np.random.default_rng(5).standard_normal(TORUS.shape),
    "random": np.random.default_rng(3).uniform(-1, 1, (900, 2)),
}


def rotation(seed: int, d: int) -> np.ndarray:
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))
    return q * np.sign(np.diag(r))


def assert_same(ours: ep.Basis, theirs: ep.Basis, scale: float = 1.0) -> None:
    """Eigenvalues to 1e-5 after the length^-2 law; vectors as subspaces where eigenvalues are
    close.
    """
    top = theirs.eigenvalues[-1]
    assert np.allclose(ours.eigenvalues * scale**2, theirs.eigenvalues, rtol=1e-5, atol=1e-5 * top)
    assert np.allclose(ours.mass, theirs.mass, rtol=1e-4, atol=1e-9)
    gaps = np.flatnonzero(np.diff(theirs.eigenvalues) > 1e-3 * top) + 1
    for start, stop in zip([0, *gaps[:-1]], gaps, strict=True):  # the last group may be cut in two
        cosines = np.linalg.svd(
            ours.normalized[:, start:stop].T @ theirs.normalized[:, start:stop], compute_uv=False
        )
        assert cosines.min() > 1 - 1e-4, (start, stop)


@pytest.fixture(scope="module", params=CLOUDS)
def cloud(request) -> tuple[np.ndarray, ep.Basis]:
    points = CLOUDS[request.param]
    return points, ep.decompose(points, k=K)


@pytest.mark.parametrize("shift", [10.0, 1000.0])
def test_translation(cloud, shift) -> None:
    points, basis = cloud
    assert_same(ep.decompose(points + shift, k=K), basis)


def test_rotation_and_reflection(cloud) -> None:
    points, basis = cloud
    turn = rotation(1, points.shape[1])
    assert_same(ep.decompose(points @ turn.T, k=K), basis)
    assert_same(ep.decompose(points * np.r_[-1.0, np.ones(points.shape[1] - 1)], k=K), basis)


@pytest.mark.parametrize("scale", [1e-3, 37.0, 1e4])
def test_scaling(cloud, scale) -> None:
    points, basis = cloud
    assert_same(ep.decompose(points * scale, k=K), basis, scale)


def test_permutation(cloud) -> None:
    points, basis = cloud
    order = np.random.default_rng(2).permutation(len(points))
    found = ep.decompose(points[order], k=K)
    back = np.argsort(order)
    assert_same(ep.Basis(found.normalized[back], found.mass[back], found.eigenvalues), basis)


def test_more_ambient_dimensions(cloud) -> None:
    points, basis = cloud
    wide = (
        np.concatenate([points, np.zeros((len(points), 2))], axis=1)
        @ rotation(4, points.shape[1] + 2).T
    )
    assert_same(ep.decompose(wide, k=K), basis)


def test_ties_cost_little() -> None:
    """On the regular torus equal distances are cut either way, which moves eigenvalues by less than
    a percent.
    """
    basis, turned = ep.decompose(TORUS, k=K), ep.decompose(TORUS @ rotation(6, 3).T, k=K)
    assert np.allclose(turned.eigenvalues[1:], basis.eigenvalues[1:], rtol=0.01)
