"""Many clouds solved together, on the host as on a device: what each of them gets alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas
import pytest
import torch

import eigenprobe as ep
from eigenprobe.decomposition import OperatorSettings, Request, stack
from eigenprobe.errors import EigenprobeWarning
from tests import clouds as c

SIZES = (400, 700, 250, 1100)


@pytest.fixture
def surfaces(rng: np.random.Generator) -> list[np.ndarray]:
    return [(1 + i) * c.random_sphere(n, rng) * [1, 0.8, 0.6] + i for i, n in enumerate(SIZES)]


def together(clouds: Sequence[np.ndarray], k: int, **options: Any) -> list[ep.Basis | None]:
    """As a device solves them; None for those that are to be solved alone."""
    request = Request(k, operator=OperatorSettings(**options))
    found = stack.solve_stack([torch.from_numpy(x) for x in clouds], request)
    return [None if basis is None else basis.numpy() for basis in found]


@pytest.mark.parametrize("neighbours", ["plain", "learned"])
def test_every_cloud_gets_what_it_gets_alone(surfaces, neighbours):
    k = 20
    bases = together(surfaces, k, neighbours=neighbours)
    for x, basis in zip(surfaces, bases, strict=True):
        alone = ep.decompose(x, k, neighbours=neighbours)
        assert basis is not None and basis.info["components"] == 1
        assert basis.info.get("short_cuts") == alone.info.get("short_cuts")
        np.testing.assert_allclose(basis.eigenvalues, alone.eigenvalues, rtol=1e-5, atol=1e-9)
        difference = np.abs(
            basis.mass / alone.mass - 1
        )  # a step of conjugate gradients magnifies rounding
        assert difference.max() < 1e-3 and difference.mean() < 1e-5
        gram = basis.vectors.T @ (basis.mass[:, None] * basis.vectors)
        np.testing.assert_allclose(gram, np.eye(k), atol=1e-9)
        # Each vector beyond the last pair of equal eigenvalues, and values at new points.
        overlap = np.abs(basis.normalized[:, 1:6].T @ alone.normalized[:, 1:6])
        assert np.linalg.svd(overlap)[1].min() > 0.99
        np.testing.assert_allclose(basis(x[:5]), basis.vectors[:5], atol=1e-8)


def test_edges_and_thin_plates_are_those_of_the_cloud_alone(rng):
    """Rounding differs between the two ways: no step may magnify it, at boundaries or at lonely
    points.
    """
    cubes = [rng.uniform(-1, 1, (500, 3)) for _ in range(6)]
    for x in cubes:
        sides = np.arange(500), rng.integers(0, 3, 500)
        x[sides] = np.sign(x[sides])
    plates = [rng.random((n, 3)) for n in (900, 1200, 1500)]
    for x in plates:
        x[:, 2] = 0.02 * (x[:, 2] < 0.5)
    for x, basis in zip(cubes + plates, together(cubes + plates, 10), strict=True):
        alone = ep.decompose(x, 10, resolution="all")
        np.testing.assert_allclose(
            basis.mass, alone.mass, rtol=1e-5
        )  # rounding of another order of sums: 1.1e-6 at most of 24 draws
        np.testing.assert_allclose(basis.eigenvalues, alone.eigenvalues, rtol=5e-6, atol=1e-9)


def test_large_clouds_are_judged_as_alone(rng):
    """Above eight thousand points lie in memory as in space, and what the network sees of the whole
    depends on that.
    """
    plates = [rng.random((n, 3)) for n in (9000, 8500)]
    for x in plates:
        x[:, 2] = 0.02 * (x[:, 2] < 0.5)
    for x, basis in zip(plates, together(plates, 6), strict=True):
        alone = ep.decompose(x, 6, resolution="all")
        assert basis.info["short_cuts"] == alone.info["short_cuts"] > 0
        assert {tuple(pair) for pair in basis.short_cuts.tolist()} == {
            tuple(pair) for pair in alone.short_cuts.tolist()
        }
        np.testing.assert_allclose(basis.mass, alone.mass, rtol=1e-7)
        np.testing.assert_allclose(basis.eigenvalues, alone.eigenvalues, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(basis(x[:5]), basis.vectors[:5], atol=1e-8)


@pytest.mark.parametrize("other", ["coinciding", "nan", "solid", "far"])
def test_one_unsuited_cloud_leaves_the_others_together(surfaces, rng, other):
    unsuited = surfaces[1].copy()
    if other == "coinciding":
        unsuited[:5] = unsuited[5:10]
    elif other == "solid":
        unsuited = rng.random((700, 3))
    else:
        unsuited[3] = np.nan if other == "nan" else 1e90
    clouds = [surfaces[0], unsuited, surfaces[3]]
    first, none, last = together(clouds, 10, neighbours="plain")
    assert none is None and first is not None and last is not None
    for x, basis in ((surfaces[0], first), (surfaces[3], last)):
        alone = ep.decompose(x, 10, neighbours="plain")
        np.testing.assert_allclose(basis.eigenvalues, alone.eigenvalues, rtol=1e-6, atol=1e-9)
    assert together(clouds, 10, neighbours="plain", dimension=1.0) == [None] * 3


def test_whatever_carries_clouds(surfaces):
    """Generators, data frames and settings by cloud are what each cloud gets alone; nothing and
    nowhere are errors.
    """
    some = surfaces[:2]
    alone = [ep.decompose(x, 5).eigenvalues for x in some]
    for given in ((x for x in some), [pandas.DataFrame(x) for x in some], map(np.asarray, some)):
        for found, expected in zip(ep.decompose(given, 5), alone, strict=True):
            np.testing.assert_allclose(found.eigenvalues, expected, rtol=1e-9, atol=1e-12)
    for name, values in (("measure", [0.5, 0.0]), ("probes", ["heat", "wavelet"])):
        for x, value, found in zip(
            some, values, ep.decompose(some, 5, **{name: values}), strict=True
        ):
            expected = ep.decompose(x, 5, **{name: value}).eigenvalues
            np.testing.assert_allclose(found.eigenvalues, expected, rtol=1e-9, atol=1e-12)
    flat = ep.decompose([x[:, :2] for x in some], 5, boundary=["dirichlet"] * 2)
    np.testing.assert_allclose(
        flat[1].eigenvalues, ep.decompose(some[1][:, :2], 5, boundary="dirichlet").eigenvalues
    )
    flat = ep.decompose(some[0], 5, potential=[1.0] * 400)  # one cloud: a list is an array
    np.testing.assert_allclose(flat.eigenvalues, 1 + alone[0], rtol=1e-5)
    with pytest.raises(ep.InputError, match="an empty batch"):
        ep.decompose(np.zeros((0, 50, 3)), 5)
    with pytest.raises(ep.InputError, match="device 'nowhere' cannot be used"):
        ep.decompose(some, 5, device="nowhere")


def test_a_bad_cloud_is_named(surfaces):
    surfaces[2][7, 1] = np.nan
    with pytest.raises(ep.InputError, match=r"cloud 2: .*row 7"):
        ep.decompose(surfaces, 10)


def test_parts_of_one_cloud_are_told(surfaces):
    two = np.concatenate([surfaces[0], surfaces[0] + 50])
    with pytest.warns(EigenprobeWarning, match="a cloud of 800 points has 2 separate parts"):
        bases = together([surfaces[1], two], 6)
    assert bases[1] is not None and bases[1].info["components"] == 2
    np.testing.assert_allclose(bases[1].eigenvalues[:2], 0, atol=1e-9)


def test_a_batch_keeps_its_kind(surfaces):
    batch = torch.as_tensor(np.stack([surfaces[0], surfaces[0][::-1].copy()]), dtype=torch.float32)
    bases = ep.decompose(batch, 5)
    assert all(
        isinstance(b.vectors, torch.Tensor) and b.vectors.dtype == torch.float32 for b in bases
    )
