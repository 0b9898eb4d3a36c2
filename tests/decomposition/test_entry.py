"""`decompose`: types in and out, bad input, duplicates, separate parts, agreement with dense
eigenvectors.
"""

from __future__ import annotations

import logging
import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.smoothers import build_smoother
from tests import clouds as c
from tests.meshes import blob


@pytest.mark.parametrize("smoother", ["row", "symmetric", "adaptive"])
def test_laws_of_a_basis(smoother: str, rng: np.random.Generator) -> None:
    x = c.random_sphere(700, rng)
    basis = ep.decompose(x, k=12, smoother=smoother)
    q, v, m = basis.normalized, basis.vectors, basis.mass
    assert m.sum() == pytest.approx(1)
    assert m.min() > 0
    np.testing.assert_allclose(v[:, 0], 1, atol=1e-6)
    if (
        smoother != "row"
    ):  # the paper's probes define the mass by a vector that is orthonormal to the others only
        np.testing.assert_allclose(v.T @ (m[:, None] * v), np.eye(12), atol=1e-8)
    np.testing.assert_allclose(q[:, 0], np.sqrt(m), atol=1e-10)
    assert basis.eigenvalues[0] == 0
    assert np.all(np.diff(basis.eigenvalues) >= 0)
    assert basis.info["method"] == "direct"
    assert basis.info["dimension"] == 2
    again = ep.decompose(x, k=12, smoother=smoother)
    np.testing.assert_array_equal(again.normalized, q)


@pytest.mark.parametrize("kind", ["symmetric", "adaptive"])
def test_direct_agrees_with_dense_eigenvectors(kind: str, rng: np.random.Generator) -> None:
    smoother = build_smoother(torch.as_tensor(c.random_sphere(2000, rng)), kind)
    k = 50
    values, vectors = np.linalg.eigh(smoother.matrix.to_dense().numpy())
    from eigenprobe.eigen.solve import solve

    pairs = solve(smoother, k)
    q, mu = pairs.vectors, pairs.factors
    np.testing.assert_allclose(mu.numpy(), values[::-1][:k], atol=1e-8)
    residual = smoother.apply(q) - q * mu
    assert float(residual.norm(dim=0).max()) < 1e-6
    leading = vectors[:, ::-1][:, :k]
    cosines = np.linalg.svd(leading.T @ q.numpy(), compute_uv=False)
    assert cosines[: k - 5].min() > 1 - 1e-6


def test_types_and_precision_come_back(rng: np.random.Generator) -> None:
    x = c.random_sphere(300, rng)
    double, single = ep.decompose(x, k=6), ep.decompose(x.astype(np.float32), k=6)
    assert double.vectors.dtype == np.float64
    assert single.vectors.dtype == np.float32
    assert single.points.dtype == np.float32
    np.testing.assert_allclose(single.eigenvalues, double.eigenvalues, rtol=1e-3, atol=1e-4)
    tensor = ep.decompose(torch.as_tensor(x), k=6)
    assert isinstance(tensor.vectors, torch.Tensor)
    np.testing.assert_allclose(tensor.eigenvalues.numpy(), double.eigenvalues, atol=1e-10)
    assert isinstance(tensor(torch.as_tensor(x[:3])), torch.Tensor)
    assert isinstance(double(x[:3]), np.ndarray)
    whole = ep.decompose((x * 1000).astype(int), k=6)
    assert whole.vectors.dtype == np.float64
    listed = ep.decompose(x.tolist(), k=6)
    np.testing.assert_allclose(listed.eigenvalues, double.eigenvalues)


def test_new_points(rng: np.random.Generator) -> None:
    x, new = c.random_sphere(3000, rng), c.random_sphere(500, rng)
    basis = ep.decompose(x, k=9)
    values = basis(new)
    np.testing.assert_allclose(basis(x[:200]), basis.vectors[:200], atol=1e-8)
    np.testing.assert_allclose(
        np.concatenate([basis(new[i : i + 1]) for i in range(20)]), values[:20], atol=1e-10
    )
    functions = c.sphere_functions(new)[:, :9]
    fitted = functions @ np.linalg.lstsq(functions, values, rcond=None)[0]
    for j in range(1, 9):
        assert np.corrcoef(fitted[:, j], values[:, j])[0, 1] > 0.99


@pytest.mark.parametrize(
    ("points", "k", "message"),
    [
        (np.zeros(10), 3, r"shape \(n, d\), got \(10,\)"),
        (np.zeros((2, 4, 5, 3)), 3, r"shape \(n, d\), got \(2, 4, 5, 3\)"),
        (np.zeros((4, 5, 3)), 3, "cloud 0: .*5 that are all equal"),
        ([], 3, "at least one cloud, got an empty list"),
        ([np.eye(9), np.eye(3)], 3, "cloud 1: .*at least 4 points, got 3"),
        (np.ones((20, 3)), 3, "20 that are all equal"),
        (np.eye(3), 3, "at least 4 points, got 3"),
        (np.random.default_rng(0).random((20, 2)), 0, "whole number of at least 1, got 0"),
        (np.random.default_rng(0).random((20, 2)), 2.5, "k must be a whole number, got 2.5"),
        (np.array([["a", "b"]] * 9), 2, "real numbers, got dtype"),
        (np.ones((9, 2), complex), 2, "real numbers, got dtype complex128"),
        (torch.ones(9, 2, dtype=torch.bool), 2, "real numbers, got dtype torch.bool"),
        (np.repeat(np.random.default_rng(0).random((5, 2)), 6, 0), 6, "7 distinct points, got 5"),
    ],
)
def test_bad_input_is_one_clear_line(points: object, k: object, message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EigenprobeWarning)
        with pytest.raises(InputError, match=message) as caught:
            ep.decompose(points, k=k)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_rows_that_are_not_finite_are_named(bad: float, rng: np.random.Generator) -> None:
    x = rng.random((50, 3))
    x[[17, 30], 1] = bad
    with pytest.raises(InputError, match="got 2 with NaN or infinity, the first in row 17"):
        ep.decompose(x, k=4)


def test_options_are_checked(rng: np.random.Generator) -> None:
    x = rng.random((50, 3))
    with pytest.raises(InputError, match="method must be"):
        ep.decompose(x, k=4, method="other")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="does not know the option 'stepps'"):
        ep.decompose(x, k=4, stepps=3)
    with pytest.raises(InputError, match="smoother must be"):
        ep.decompose(x, k=4, smoother="other")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="metric must be"):
        ep.decompose(x, k=4, metric="other")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="these 50 points, got one of 40"):
        ep.decompose(x, k=4, smoother=build_smoother(torch.as_tensor(x[:40])))


def test_coinciding_points_share_value_and_mass(rng: np.random.Generator) -> None:
    x = c.random_sphere(400, rng)
    plain = ep.decompose(x, k=6)
    with pytest.warns(EigenprobeWarning, match="100 of 500 points coincide") as told:
        doubled = ep.decompose(np.concatenate([x, x[:100]]), k=6)
    assert told[0].filename == __file__  # a warning points to the user's line
    np.testing.assert_allclose(doubled.eigenvalues, plain.eigenvalues, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(doubled.vectors[400:], doubled.vectors[:100])
    np.testing.assert_allclose(doubled.mass[:100] + doubled.mass[400:], plain.mass[:100], rtol=1e-6)
    assert doubled.mass.sum() == pytest.approx(1)
    assert doubled.info["duplicates"] == 100
    np.testing.assert_allclose(doubled(x[:5]), doubled.vectors[:5], atol=1e-8)


def test_cosine_metric_ignores_the_length_of_rows(rng: np.random.Generator) -> None:
    x = rng.normal(size=(300, 20)) + 1
    base = ep.decompose(x, k=5, metric="cosine", smoother="symmetric")
    scaled = ep.decompose(
        x * rng.uniform(0.5, 2, (300, 1)), k=5, metric="cosine", smoother="symmetric"
    )
    np.testing.assert_allclose(scaled.eigenvalues, base.eigenvalues, rtol=1e-5, atol=1e-9)
    with pytest.raises(InputError, match="row 3 is all zeros"):
        ep.decompose(np.where(np.arange(300)[:, None] == 3, 0, x), k=5, metric="cosine")


def test_nothing_prints(rng: np.random.Generator, capfd: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("eigenprobe").setLevel(logging.WARNING)
    ep.decompose(rng.random((200, 3)), k=5)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_several_clouds_give_the_bases_of_each(rng: np.random.Generator) -> None:
    clouds = [c.fibonacci_sphere(n) for n in (300, 200)] + [
        c.random_sphere(250, rng).astype(np.float32)
    ]
    bases = ep.decompose(clouds, k=5, tol=1e-8)
    assert [basis.n for basis in bases] == [300, 200, 250]
    for cloud, basis in zip(clouds, bases):
        alone = ep.decompose(cloud, k=5, tol=1e-8)
        assert basis.vectors.dtype == cloud.dtype
        assert np.allclose(basis.eigenvalues, alone.eigenvalues, rtol=1e-5, atol=1e-6)
    batch = torch.as_tensor(np.stack([clouds[0], 2 * clouds[0]]))
    small, large = ep.decompose(batch, k=5)
    assert isinstance(large.vectors, torch.Tensor)
    assert torch.allclose(small.eigenvalues / 4, large.eigenvalues, atol=1e-8)
    assert len(ep.decompose([cloud.tolist() for cloud in clouds[:2]], k=3)) == 2


@dataclass
class Carrier:
    """What libraries call their points and triangles."""

    vertices: object = None
    points: object = None
    pos: object = None
    faces: object = None
    triangles: object = None
    face: object = None


@pytest.mark.parametrize("copies", [0, 30])
def test_rows_of_a_boundary_are_those_given(copies: int, rng: np.random.Generator) -> None:
    """As they were given, whether points are merged or not."""
    x = rng.random((300, 2))
    x = np.concatenate([x, x[:copies]])
    mask = x[:, 0] < 0.2
    assert ep.decompose(x, k=4, boundary=mask).info["boundary"] == np.flatnonzero(mask).tolist()


def test_whatever_carries_points(tmp_path: Path) -> None:
    vertices, faces = blob(8)
    expected = ep.decompose(vertices, k=6)
    flat = np.column_stack([np.full(len(faces), 3), faces]).ravel()
    ep.geometry.save(ep.geometry.Shape(vertices, faces), tmp_path / "blob.ply")
    trimesh = pytest.importorskip("trimesh")
    carriers: list[object] = [
        (vertices, faces),
        ep.geometry.Shape(vertices, faces),
        trimesh.Trimesh(vertices, faces, process=False),
        Carrier(vertices=vertices, triangles=faces),  # Open3D mesh
        Carrier(points=vertices, faces=flat),  # PyVista
        Carrier(pos=vertices, face=faces.T),  # PyTorch Geometric
        tmp_path / "blob.ply",
        str(tmp_path / "blob.ply"),
    ]
    for carrier, basis in zip(carriers, ep.decompose(carriers, k=6)):
        assert np.allclose(basis.eigenvalues, expected.eigenvalues, rtol=1e-4, atol=1e-6), carrier
        assert np.array_equal(basis.faces, faces), carrier
    assert np.allclose(ep.decompose(carriers[0], k=6).eigenvalues, expected.eigenvalues)
    cloud = ep.decompose(Carrier(points=vertices), k=6)
    assert cloud.faces is None and np.allclose(cloud.eigenvalues, expected.eigenvalues)
    assert ep.laplacian(carriers[2])[0].shape == (len(vertices),) * 2
    encoded = ep.SpectralModel.from_pretrained("surface").encode(carriers[2], k=6)
    assert encoded.n == len(vertices)
    assert len(ep.decompose((vertices, vertices[::2]), k=4)) == 2, "two clouds, not a mesh"


@pytest.mark.parametrize("tol", [-1.0, -1e-9])
def test_a_tolerance_is_not_negative(tol: float, rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="tol must be a number of at least 0"):
        ep.decompose(rng.normal(size=(50, 3)), 3, tol=tol)


def test_probes_are_an_array_a_list_or_what_makes_them(rng: np.random.Generator) -> None:
    x = c.random_sphere(150, rng)
    functions = np.concatenate([np.ones((150, 1)), x, x**2], 1)
    wanted = ep.decompose(x, k=4, probes=functions)
    for given in (
        functions.tolist(),
        lambda points: np.concatenate([np.ones((150, 1)), points, points**2], 1),
    ):
        found = ep.decompose(x, k=4, probes=given)
        np.testing.assert_allclose(found.eigenvalues, wanted.eigenvalues, rtol=1e-6)
        np.testing.assert_allclose(found.vectors, wanted.vectors, atol=1e-6)


def test_a_pretrained_model_has_its_own_graph(rng: np.random.Generator) -> None:
    """Settings of graph, seed and tolerance are refused where they are not the usual ones."""
    x = c.random_sphere(120, rng)
    usual = {"seed": 0, "tol": 1e-6, "metric": "euclidean", "smoother": "adaptive"}
    found = ep.decompose(x, 4, "pretrained", **usual)
    assert found.info["method"] == "pretrained" and isinstance(found.vectors, np.ndarray)
    unusual = {"seed": 1, "tol": 1e-5, "metric": "cosine", "smoother": "row", "neighbours": 9}
    for name, value in (unusual | {"dimension": 2.0, "bandwidth": 1.0}).items():
        with pytest.raises(InputError, match=f"'pretrained' does not take {name}, got {name}="):
            ep.decompose(x, 4, "pretrained", **{name: value})
    for name, value in {"potential": np.ones(120), "eigenvalues": "mean", "probes": "heat"}.items():
        for method in ("pretrained", "network"):
            with pytest.raises(InputError, match=f"^{name} is known to method 'direct' only"):
                ep.decompose(x, 4, method, **{name: value})
    with pytest.raises(InputError, match="method 'direct' does not know the option 'refine'"):
        ep.decompose(x, 4, refine=3, steps=1)
