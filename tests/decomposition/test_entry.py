"""`decompose`: types in and out, bad input, duplicates, separate parts, agreement with dense eigenvectors."""

from __future__ import annotations

import logging
import math
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.decomposition import OperatorSettings, Request, entry
from eigenprobe.decomposition.entry import _quality
from eigenprobe.eigen import solve
from eigenprobe.eigen.filtered import UNRESOLVED
from eigenprobe.errors import EigenprobeWarning, InputError, warn
from eigenprobe.graph import arrange
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
    if smoother != "row":  # the paper's probes define the mass by a vector that is orthonormal to the others only
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


def test_units_and_offsets(rng: np.random.Generator) -> None:
    x = c.random_sphere(600, rng)
    base = ep.decompose(x, k=9)
    for scale, shift in ((1e-6, 0.0), (1e5, 0.0), (1.0, 1e4)):
        moved = ep.decompose(x * scale + shift, k=9)
        np.testing.assert_allclose(moved.eigenvalues * scale**2, base.eigenvalues, rtol=1e-5, atol=1e-8)


def test_new_points(rng: np.random.Generator) -> None:
    x, new = c.random_sphere(3000, rng), c.random_sphere(500, rng)
    basis = ep.decompose(x, k=9)
    values = basis(new)
    np.testing.assert_allclose(basis(x[:200]), basis.vectors[:200], atol=1e-8)
    np.testing.assert_allclose(np.concatenate([basis(new[i : i + 1]) for i in range(20)]), values[:20], atol=1e-10)
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


def test_separate_parts_have_a_zero_each(rng: np.random.Generator) -> None:
    x = c.random_sphere(500, rng)
    with pytest.warns(EigenprobeWarning, match=r"3 separate parts \(500, 400, 300 points\)") as told:
        basis = ep.decompose(np.concatenate([x, x[:400] + 9, x[:300] - 9]), k=8)
    assert told[0].filename == __file__
    np.testing.assert_allclose(basis.eigenvalues[:3], 0, atol=1e-9)
    assert basis.eigenvalues[3] > 0.5
    label = np.repeat([0, 1, 2], [500, 400, 300])
    for part in range(3):  # the first three vectors are constant on every part
        assert np.ptp(basis.vectors[label == part][:, :3], axis=0).max() < 1e-6
    assert basis.info["components"] == 3


def test_cosine_metric_ignores_the_length_of_rows(rng: np.random.Generator) -> None:
    x = rng.normal(size=(300, 20)) + 1
    base = ep.decompose(x, k=5, metric="cosine", smoother="symmetric")
    scaled = ep.decompose(x * rng.uniform(0.5, 2, (300, 1)), k=5, metric="cosine", smoother="symmetric")
    np.testing.assert_allclose(scaled.eigenvalues, base.eigenvalues, rtol=1e-5, atol=1e-9)
    with pytest.raises(InputError, match="row 3 is all zeros"):
        ep.decompose(np.where(np.arange(300)[:, None] == 3, 0, x), k=5, metric="cosine")


def test_nothing_prints(rng: np.random.Generator, capfd: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("eigenprobe").setLevel(logging.WARNING)
    ep.decompose(rng.random((200, 3)), k=5)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_several_clouds_give_the_bases_of_each(rng: np.random.Generator) -> None:
    clouds = [c.fibonacci_sphere(n) for n in (300, 200)] + [c.random_sphere(250, rng).astype(np.float32)]
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


def test_what_the_solver_says_of_an_altered_operator_is_heard(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what is done about: eigenvalues that are not resolved are solved again from a factor."""
    x, real = c.random_sphere(150, rng), entry.solve

    def talking(*args: Any, **options: Any) -> Any:
        warn("something else")
        warn(f"eigenvalues 1 - mu of 1e-9 {UNRESOLVED}: ask for a smaller tol")
        return real(*args, **options)

    monkeypatch.setattr(entry, "solve", talking)
    with pytest.warns(ep.EigenprobeWarning, match="something else") as said:
        ep.decompose(x, k=5, potential=x[:, 0] + 2)
    assert len([each for each in said if "smaller tol" in str(each.message)]) == 0


@pytest.mark.parametrize("copies", [0, 30])
def test_rows_of_a_boundary_are_those_given(copies: int, rng: np.random.Generator) -> None:
    """As they were given, whether points are merged or not."""
    x = rng.random((300, 2))
    x = np.concatenate([x, x[:copies]])
    mask = x[:, 0] < 0.2
    assert ep.decompose(x, k=4, boundary=mask).info["boundary"] == np.flatnonzero(mask).tolist()


def test_a_list_of_one_cloud(rng: np.random.Generator) -> None:
    x = torch.from_numpy(c.random_sphere(150, rng))
    wall = torch.where(x[:, 0] > 0, 50.0, 0.0)
    for single, listed in (({}, {}), ({"potential": wall}, {"potential": [wall]})):
        (alone,) = ep.decompose([x], k=5, **listed)
        torch.testing.assert_close(alone.eigenvalues, ep.decompose(x, k=5, **single).eigenvalues)


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


def test_how_a_cloud_was_sampled_is_told_where_it_is_taken_as_it_is(rng: np.random.Generator) -> None:
    x = rng.normal(size=(900, 3))
    x = 5 * x / np.linalg.norm(x, axis=1, keepdims=True)
    told = ep.decompose(x, 4).info["quality"]
    assert told["copies"] == 1 and told["strays"] == 0
    assert told["spacing"] == pytest.approx((4 * np.pi * 25 / 900) ** 0.5, rel=0.15)
    twice = ep.decompose(np.concatenate([x, x + 1e-6]), 4)
    assert twice.info["quality"]["copies"] == 2 and twice.info["quality"]["merged"]
    assert "quality" not in ep.decompose(x, 4, metric="cosine").info


@pytest.mark.parametrize("tol", [-1.0, -1e-9])
def test_a_tolerance_is_not_negative(tol: float, rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="tol must be a number of at least 0"):
        ep.decompose(rng.normal(size=(50, 3)), 3, tol=tol)


def test_the_quality_of_a_cloud_is_told_in_two_and_three_dimensions(rng: np.random.Generator) -> None:
    told = {d: _quality(arrange(torch.from_numpy(rng.random((90, d))), 20, 2)) for d in (1, 2, 3, 4)}
    assert told[1] == told[4] == {} and told[2]["quality"]["copies"] == told[3]["quality"]["copies"] == 1
    assert _quality(arrange(torch.from_numpy(rng.random((11, 3))), 20, 2)) == {}
    assert _quality(arrange(torch.from_numpy(rng.random((90, 3))), 5, 2)) == {}
    spacing = _quality(arrange(torch.from_numpy(7 * rng.random((900, 2))), 20, 2))["quality"]["spacing"]
    assert spacing == pytest.approx(7 / 30, rel=0.15)


def test_the_operator_is_kept_up_to_a_size_and_a_given_one_always(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond it the operator is built again when it is asked for."""
    from eigenprobe.decomposition import entry
    from eigenprobe.decomposition.settings import OperatorSettings

    built, prepare = [], OperatorSettings.prepare
    monkeypatch.setattr(OperatorSettings, "prepare", lambda *given: built.append(given) or prepare(*given))
    x = c.random_sphere(200, rng)
    for most, expected in ((200, 0), (199, 1)):
        monkeypatch.setattr(entry, "KEPT", most)
        built.clear()
        basis = ep.decompose(x, k=4)
        assert basis.smoother.n == 200 and basis.prepared() is basis.prepared() and len(built) == expected
        again = ep.decompose(x, k=4, smoother=basis.smoother)
        assert again.prepared().smoother.n == 200 and len(built) == expected


def test_probes_are_an_array_a_list_or_what_makes_them(rng: np.random.Generator) -> None:
    x = c.random_sphere(150, rng)
    functions = np.concatenate([np.ones((150, 1)), x, x**2], 1)
    wanted = ep.decompose(x, k=4, probes=functions)
    for given in (functions.tolist(), lambda points: np.concatenate([np.ones((150, 1)), points, points**2], 1)):
        found = ep.decompose(x, k=4, probes=given)
        np.testing.assert_allclose(found.eigenvalues, wanted.eigenvalues, rtol=1e-6)
        np.testing.assert_allclose(found.vectors, wanted.vectors, atol=1e-6)


def test_a_pretrained_model_has_its_own_graph(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of graph, seed and tolerance are refused where they are not the usual ones; options go to `encode`."""
    from eigenprobe.pretrained.model import SpectralModel

    x = c.random_sphere(120, rng)
    made, asked = ep.decompose(torch.from_numpy(x), 4), []

    def load(name: str) -> Any:
        return SimpleNamespace(encode=lambda points, **options: asked.append((name, len(points), options)) or made)

    monkeypatch.setattr(SpectralModel, "from_pretrained", staticmethod(load))
    found = ep.decompose(x, 4, "pretrained", seed=0, tol=1e-6, metric="euclidean", smoother="adaptive")
    assert found.info["method"] == "pretrained" and isinstance(found.vectors, np.ndarray)
    ep.decompose(x, 4, "pretrained", model="other", refine=3)
    assert asked == [("surface", 120, {"k": 4}), ("other", 120, {"k": 4, "refine": 3})]
    unusual = {"seed": 1, "tol": 1e-5, "metric": "cosine", "smoother": "row", "neighbours": 9, "bandwidth": 1.0}
    for name, value in (unusual | {"dimension": 2.0}).items():
        with pytest.raises(InputError, match=f"method 'pretrained' does not take {name}, got {name}={value!r}"):
            ep.decompose(x, 4, "pretrained", **{name: value})
    for name, value in {"potential": np.ones(120), "eigenvalues": "mean", "probes": "heat"}.items():
        for method in ("pretrained", "network"):
            with pytest.raises(InputError, match=f"^{name} is known to method 'direct' only, got method '{method}'"):
                ep.decompose(x, 4, method, **{name: value})
    with pytest.raises(InputError, match="method 'direct' does not know the option 'refine'"):
        ep.decompose(x, 4, refine=3, steps=1)


def test_a_network_has_the_settings_of_the_graph(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    x, asked = c.random_sphere(120, rng), []
    made = ep.decompose(torch.from_numpy(x), 4)
    stub = SimpleNamespace(fit_network=lambda points, k, **options: asked.append((k, options)) or made)
    for name in ("eigenprobe.training", "eigenprobe.training.fit"):  # which takes seconds to import
        monkeypatch.setitem(sys.modules, name, stub)
    found = ep.decompose(x, 4, "network", seed=5, neighbours=9, dimension=2.0, steps=7)
    graph = {"metric": "euclidean", "smoother": "adaptive", "neighbours": 9, "bandwidth": None, "dimension": 2.0}
    assert asked == [(4, {"seed": 5, "steps": 7} | graph)] and found.info["method"] == "network"


def test_the_eigenvalue_after_the_last_one_is_known_where_points_move(rng: np.random.Generator) -> None:
    prepared = OperatorSettings(resolution="all").prepare(c.random_sphere(90, rng))
    values = solve(prepared.smoother, 7).gaps / prepared.smoother.step_time
    for moving, expected in ((True, float(values[6])), (False, math.inf)):
        rotation, facts, following = entry._rotation(prepared.smoother, prepared.cloud, Request(6), moving)
        assert following == pytest.approx(expected, rel=1e-4) and facts == {}
        torch.testing.assert_close(rotation.eigenvalues[1:], values[1:6], rtol=1e-4, atol=0)
    few = OperatorSettings(resolution="all").prepare(c.random_sphere(6, rng))
    assert entry._rotation(few.smoother, few.cloud, Request(6), True)[2] == math.inf  # there is none
    mean, facts, _ = entry._rotation(prepared.smoother, prepared.cloud, Request(6, eigenvalues="mean"), False)
    assert facts == {"estimator": "mean"} and float(mean.eigenvalues.sum()) == pytest.approx(
        float(values[:6].sum()), rel=1e-4
    )
    with pytest.raises(InputError, match="not together with a potential or a boundary"):
        entry._rotation(replace(prepared.smoother, lowest=0.0), prepared.cloud, Request(6, probes="heat"), False)


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("gap", [None, 1e-9])
def test_which_solver_an_altered_operator_gets(
    failing: bool, small: bool, shifted: bool, gap: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A factor at once of small gaps; else sweeps, a factor where they fail or do not resolve, at last a warning."""
    went: list[Any] = []

    def sweeps(*given: Any, **options: Any) -> Any:
        went.append("sweeps")
        if failing:
            raise InputError("no pairs")
        return SimpleNamespace(gaps=torch.tensor([0.0, 1.0]))

    def factor(smoother: Any, count: int, pole: float) -> Any:
        went.append(pole)
        return "factor" if shifted else None

    monkeypatch.setattr(entry, "solve", sweeps)
    monkeypatch.setattr(entry, "solve_shifted", factor)
    monkeypatch.setattr(entry, "has_small_gaps", lambda smoother, count: small)
    monkeypatch.setattr(entry, "unresolved_gap", lambda gaps, tol: gap)
    monkeypatch.setattr(entry, "warn_of_tolerance", lambda gap, tol: went.append("warning"))
    altered = Request(3, operator=OperatorSettings(measure=0.5), tol=1e-7)
    expected: list[Any] = [entry.GAP] if small else []
    if not (small and shifted):
        expected.append("sweeps")
        pole = 1e-7 if failing else gap
        expected += [] if pole is None else [pole]
        expected += ["warning"] if not failing and gap is not None and not shifted else []
    if failing and not shifted:
        with pytest.raises(InputError, match="no pairs"):
            entry._pairs(None, altered, None, 3)  # type: ignore[arg-type]
    else:
        found = entry._pairs(None, altered, None, 3)  # type: ignore[arg-type]
        assert (found == "factor") == (shifted and (small or failing or gap is not None))
    assert went == expected
    if not failing:
        went.clear()
        entry._pairs(None, Request(3), None, 3)  # type: ignore[arg-type]
        assert went == ["sweeps"]


@pytest.mark.parametrize(
    ("options", "told"),
    [({}, 1), ({"smoother": "symmetric"}, 0), ({"measure": 0.5}, 0), ({"probes": "heat"}, 0), ({"dimension": 2.0}, 1)],
)
def test_signs_of_errors_are_looked_for_in_the_plain_operator(
    options: dict[str, Any], told: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(entry, "warn_of_errors", lambda prepared, rotation, chosen, half: asked.append(chosen))
    x = c.random_sphere(150, rng)
    ep.decompose(x, 3, **options)
    assert asked == ["dimension" in options] * told
    if not options:
        asked.clear()
        with pytest.warns(ep.EigenprobeWarning, match="separate parts"):
            ep.decompose(np.concatenate([x, x + 50]), 3, parts="all")
        assert not asked


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("auto", None)),
        ({"probes": "heat"}, ("all", "all")),
        ({"eigenvalues": "mean"}, ("all", "all")),
        ({"eigenvalues": "mean", "resolution": 500}, (500, None)),
        ({"resolution": "all"}, ("all", None)),
    ],
)
def test_given_probes_are_those_of_all_points(
    options: dict[str, Any], expected: tuple[Any, Any], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No working sample stands for a cloud whose probes are given, unless one is asked for."""
    seen: list[Any] = []

    def build(self: OperatorSettings, x: torch.Tensor, k: int) -> Any:
        seen.append((self.resolution, self.parts))
        raise InputError("enough")

    monkeypatch.setattr(OperatorSettings, "build", build)
    with pytest.raises(InputError, match="enough"):
        ep.decompose(c.random_sphere(100, rng), 3, **options)
    assert seen == [expected]


@pytest.mark.parametrize("most", [59, 60])
def test_a_small_operator_is_kept(most: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of Gaussian weights, by the shortest way through `decompose`: as asked for, and as solved."""
    made: list[Any] = []
    build = OperatorSettings.build
    monkeypatch.setattr(OperatorSettings, "build", lambda *given: made.append(build(*given)) or made[-1])
    monkeypatch.setattr(entry, "KEPT", most)
    x = 2 * c.random_sphere(60, rng) + 5
    basis = ep.decompose(x, 4, smoother="symmetric", resolution="all")
    assert (basis.prepared() is made[0]) == (most == 60) and len(made) == (1 if most == 60 else 2)
    smoother, scale = made[0].smoother, made[0].cloud.frame.scale
    values = np.linalg.eigvalsh(smoother.matrix.to_dense().numpy())[::-1][:4]
    np.testing.assert_allclose(basis.eigenvalues, (1 - values) / smoother.step_time / scale**2, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(basis.mass, smoother.mass)
    assert basis.info["method"] == "direct" and basis.info["components"] == 1 and 0 <= basis.info["seconds"] < 60
    np.testing.assert_allclose(basis(x[:5]), basis.vectors[:5], atol=1e-6)
    assert "boundary" not in basis.info and basis.faces is None
    assert basis.info["quality"]["spacing"] > 0
    assert "quality" not in ep.decompose(x, 4, smoother="symmetric", resolution="all", metric="cosine").info


def test_half_of_the_points_is_solved_as_it_is(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without derivatives and without a sample; of few points as many eigenvalues as there are."""
    asked: list[Any] = []
    build = OperatorSettings.build

    def spy(self: OperatorSettings, x: torch.Tensor, k: int) -> Any:
        asked.append((self.moving, self.resolution, self.parts, len(x), k))
        return build(self, x, k)

    monkeypatch.setattr(OperatorSettings, "build", spy)
    x = torch.from_numpy(c.random_sphere(41, rng))
    wanted = OperatorSettings(moving=True, dimension=2, neighbours="plain")
    found = entry._half(x, wanted, Request(9), 1.0, 5)
    assert asked == [(False, "all", "all", 20, 5)] and found.shape == (5,) and not found.requires_grad
    assert len(entry._half(x, wanted, Request(9), 1.0, 30)) == 19
    torch.testing.assert_close(entry._half(x, wanted, Request(9), 3.0, 5), 9 * found)
