"""What a basis knows of its operator: the smoother has its eigenpairs, in the order and the units
of the points.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import InputError
from tests import clouds as c

SETTINGS: dict[str, dict[str, Any]] = {
    "usual": {},
    "few neighbours": {"neighbours": 18},
    "plain": {"neighbours": "plain"},
    "dimension": {"dimension": 3.0},
    "symmetric": {"smoother": "symmetric"},
    "bandwidth": {"bandwidth": 3.0},
    "potential": {"potential": np.linspace(0.0, 2.0, 700)},
    "boundary": {"boundary": np.arange(700) < 60},
    "anisotropy": {"anisotropy": np.tile([0.0, 0.0, 1.0], (700, 1))},
    "measure": {"measure": 0.5},
}
RECORDED = ("usual", "few neighbours", "plain", "dimension", "symmetric", "bandwidth", "measure")


@pytest.fixture(scope="module")
def sphere() -> np.ndarray:
    """An ellipsoid of a size and at a place that are not one and zero."""
    points = c.random_sphere(700, np.random.default_rng(3))
    return points * [30.0, 25.0, 20.0] + 100.0


def _residual(basis: ep.Basis) -> float:
    """The largest |A q - (1 - (lambda - lowest) step_time) q| on the distinct points."""
    smoother, q = basis.smoother, torch.as_tensor(basis.normalized).double()
    factors = (
        1 - (torch.as_tensor(basis.eigenvalues) - (smoother.lowest or 0.0)) * smoother.step_time
    )
    return float((smoother.apply(q) - q * factors).norm(dim=0).max())


@pytest.mark.parametrize("name", SETTINGS)
def test_smoother_has_the_eigenpairs(sphere: np.ndarray, name: str) -> None:
    settings = dict(SETTINGS[name])
    if "potential" in settings:
        settings["potential"] = settings["potential"] / 30.0**2
    basis = ep.decompose(sphere, k=8, **settings)
    assert _residual(basis) < 2e-6
    assert np.allclose(basis.smoother.mass.numpy(), basis.mass, atol=1e-12)


@pytest.mark.parametrize("n", [700, 6000])  # the larger one is put into memory order
def test_graph_is_of_the_given_points(n: int) -> None:
    points = 7.0 + 3.0 * c.random_sphere(n, np.random.default_rng(0))
    graph = ep.decompose(points, k=4, neighbours=12).graph
    assert isinstance(graph.indices, np.ndarray) and graph.indices.shape == (n, 12)
    lengths = np.linalg.norm(points[graph.indices] - points[:, None], axis=2)
    assert np.allclose(lengths, graph.distances, rtol=1e-9)
    nearest = np.sort(np.linalg.norm(points[:20, None] - points[None], axis=2), axis=1)[:, 1:13]
    assert np.allclose(nearest, graph.distances[:20], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*coincide")
@pytest.mark.parametrize("n", [600, 5000])
def test_copies_are_one_row(n: int) -> None:
    points = c.random_sphere(n, np.random.default_rng(1))
    doubled = np.concatenate([points[:50], points])
    basis = ep.decompose(doubled, k=6)
    assert basis.graph.n == basis.smoother.n == n
    assert np.allclose(basis.graph.points, points)  # distinct points by their first copies
    distinct = np.arange(n) + 50 * (np.arange(n) >= 50)
    vectors = torch.as_tensor(basis.vectors[distinct])
    q = vectors * basis.smoother.mass.sqrt()[:, None]
    factors = 1 - torch.as_tensor(basis.eigenvalues) * basis.smoother.step_time
    assert float((basis.smoother.apply(q) - q * factors).norm(dim=0).max()) < 2e-6
    laplacian, mass = ep.laplacian(basis)
    expected, expected_mass = ep.laplacian(doubled)
    assert abs(laplacian - expected).max() < 1e-12 and abs(mass - expected_mass).max() < 1e-15


def test_copies_of_a_basis_share_it(sphere: np.ndarray) -> None:
    basis = ep.decompose(sphere, k=8, neighbours=14)
    smoother = basis.smoother
    for other in (basis.truncate(3), basis.numpy(), basis.torch(), replace(basis, info={})):
        assert other.smoother is smoother
    assert torch.is_tensor(basis.torch().graph.indices) and not torch.is_tensor(basis.graph.indices)
    single = ep.decompose(sphere.astype(np.float32), k=8)
    assert single.normalized.dtype == np.float32 and _residual(single) < 1e-5


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda basis: pickle.loads(pickle.dumps(basis))]
)
def test_pickle_holds_settings_only(sphere: np.ndarray, duplicate: Any) -> None:
    basis = ep.decompose(sphere, k=8, potential=np.linspace(0, 0.01, 700))
    again = duplicate(basis)
    bare = len(pickle.dumps(replace(basis, source=None)))
    assert len(pickle.dumps(basis)) < bare + 2 * basis.mass.nbytes  # the potential and a few words
    assert np.allclose(
        again.smoother.matrix.to_dense(), basis.smoother.matrix.to_dense(), atol=1e-12
    )


@pytest.mark.parametrize("name", RECORDED)
def test_file_has_the_settings(sphere: np.ndarray, name: str, tmp_path: Path) -> None:
    basis = ep.decompose(sphere, k=8, **SETTINGS[name])
    basis.save(tmp_path / "basis.safetensors")
    again = ep.Basis.load(tmp_path / "basis.safetensors")
    assert _residual(again) < 2e-6
    for one, other in zip(ep.laplacian(again), ep.laplacian(basis), strict=True):
        assert abs(one - other).max() < 1e-9 * abs(other).max()
    again.truncate(4).save(tmp_path / "again.safetensors")
    assert _residual(ep.Basis.load(tmp_path / "again.safetensors")) < 2e-6


def test_what_a_file_does_not_hold(sphere: np.ndarray, tmp_path: Path) -> None:
    given = ep.decompose(sphere, k=4).smoother
    for settings in ({"potential": np.ones(700)}, {"smoother": given}):
        basis = ep.decompose(sphere, k=4, **settings)
        assert _residual(basis) < 2e-6
        basis.save(tmp_path / "basis.safetensors")
        with pytest.raises(InputError, match=f"its {next(iter(settings))} was"):
            _ = ep.Basis.load(tmp_path / "basis.safetensors").smoother
    unknown = ep.Basis(np.eye(4)[:, :2], np.ones(4) / 4, np.arange(2.0))
    with pytest.raises(InputError, match="does not know what made it"):
        _ = unknown.graph


def test_smoother_goes_back_in(sphere: np.ndarray) -> None:
    basis = ep.decompose(sphere, k=8, neighbours=16)
    again = ep.decompose(sphere, k=8, smoother=basis.smoother)
    assert np.allclose(again.eigenvalues, basis.eigenvalues, rtol=1e-5, atol=1e-9)


def test_network_and_pretrained_know_theirs() -> None:
    points = c.random_sphere(500, np.random.default_rng(0))
    trained = ep.decompose(points, k=4, method="network", steps=5)
    assert trained.smoother.n == 500 and np.allclose(
        trained.smoother.mass.numpy(), trained.mass, atol=1e-6
    )
    model = ep.SpectralModel.from_pretrained("surface")
    for basis in [
        model.encode(points, k=4),
        *model.encode([points, points[:300]], k=4, smoother="heat"),
    ]:
        assert basis.graph.n == basis.n
        assert np.allclose(basis.smoother.mass.numpy(), basis.mass, rtol=1e-4)
        q = torch.as_tensor(basis.normalized).double()
        quotients = (q * basis.smoother.apply(q)).sum(0)
        values = (1 - quotients) / basis.smoother.step_time
        assert np.allclose(values.numpy(), basis.eigenvalues, rtol=1e-3, atol=1e-3)


def test_a_graph_of_angles_has_one_minus_their_cosines(rng: np.random.Generator) -> None:
    """In any unit of the rows, whose lengths do not count."""
    rows = rng.normal(size=(90, 6)) * rng.uniform(1, 50, (90, 1))
    graph = ep.decompose(rows, 4, metric="cosine").graph
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    nearest = np.sort(1 - unit @ unit.T, axis=1)[:, 1 : graph.distances.shape[1] + 1]
    np.testing.assert_allclose(graph.distances, nearest, atol=1e-9)
