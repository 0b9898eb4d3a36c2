"""Tests of `decomposition.settings`: which operator is meant, and what a file keeps of it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from benchmarks.ledger import PARTS, SOURCE
from eigenprobe.decomposition import OperatorSettings, geometry_of
from eigenprobe.decomposition.settings import settings_from_record
from eigenprobe.errors import InputError
from eigenprobe.smoothers import build_smoother
from tests import clouds as c


def test_a_record_holds_what_is_unusual_and_makes_the_same_settings() -> None:
    assert OperatorSettings().record() == {}
    chosen = OperatorSettings(neighbours=12, boundary="dirichlet", measure=0.5, resolution="all")
    assert chosen.record() == {
        "neighbours": 12,
        "boundary": "dirichlet",
        "measure": 0.5,
        "resolution": "all",
    }
    assert settings_from_record(chosen.record()) == chosen
    lost = settings_from_record(OperatorSettings(potential=np.ones(5)).record())
    with pytest.raises(InputError, match="its potential was an array"):
        lost.prepare(np.ones((5, 3)))
    both = settings_from_record(OperatorSettings(potential=np.ones(5), measure=np.ones(5)).record())
    with pytest.raises(InputError, match="its potential was an array"):  # the first of them
        both.prepare(np.ones((5, 3)))


def test_the_operator_is_built_again_from_its_settings(rng: np.random.Generator) -> None:
    x = c.random_sphere(400, rng)
    wanted = OperatorSettings(neighbours=15, resolution="all")
    first, again = wanted.prepare(x), wanted.prepare(torch.from_numpy(x))
    torch.testing.assert_close(first.smoother.matrix.to_dense(), again.smoother.matrix.to_dense())
    assert first.graph.k == 15
    given = build_smoother(torch.from_numpy(x), k=15)
    assert OperatorSettings(given).prepare(x).smoother is given
    with pytest.raises(InputError, match="a smoother of these 399 points, got one of 400"):
        OperatorSettings(given).prepare(x[1:])


def test_the_geometry_of_a_basis_has_no_potential_and_no_boundary(rng: np.random.Generator) -> None:
    x = c.random_sphere(300, rng)
    plain = ep.decompose(x, k=4, resolution="all", parts="all")
    assert geometry_of(plain).smoother is plain.prepared().smoother
    altered = ep.decompose(x, k=4, potential=np.ones(300), resolution="all", parts="all")
    found = geometry_of(altered).smoother
    assert found.lowest is None
    torch.testing.assert_close(found.matrix.to_dense(), plain.prepared().smoother.matrix.to_dense())


def test_the_largest_part_of_one_is_the_cloud(rng: np.random.Generator) -> None:
    x = rng.random((400, 2))
    found, plain = ep.decompose(x, 4, parts="largest"), ep.decompose(x, 4)
    assert (
        found.info["components"] == 1
        and "resolution" not in found.info
        and found.prepared().sample is None
    )
    np.testing.assert_allclose(found.vectors, plain.vectors)


@pytest.mark.parametrize(
    "options", [{"bandwidth": 0.3}, {"smoother": "symmetric"}, {"metric": "cosine"}]
)
def test_there_are_no_derivatives_of_other_weights(
    options: dict[str, Any], rng: np.random.Generator
) -> None:
    x = torch.from_numpy(rng.normal(size=(150, 3))).requires_grad_()
    with pytest.warns(ep.EigenprobeWarning, match="no derivatives with respect to the points"):
        assert not ep.decompose(x, 3, **options).eigenvalues.requires_grad
    plain = OperatorSettings(dimension=2.0, moving=True)
    assert plain.differentiable(plain.prepare(x.detach()).smoother)


def test_fragments_are_left_out_and_parts_are_not(rng: np.random.Generator) -> None:
    """Below a twentieth of the largest part, where they are few."""
    sheet = rng.random((1200, 2))
    for count, left in ((40, 40), (300, 0)):
        x = np.concatenate([sheet, [8.0, 0.0] + rng.random((count, 2)) * (count / 1200) ** 0.5])
        with pytest.warns(ep.EigenprobeWarning):
            basis = ep.decompose(x, 4)
        assert basis.info.get("left_out", []) == list(range(1200, 1200 + left)), count
        assert left <= int((basis.mass == 0).sum()) <= left + 5


def test_a_number_of_points_is_asked_of_the_plain_operator(rng: np.random.Generator) -> None:
    x = c.random_sphere(700, rng)
    for options in (
        {"smoother": "symmetric"},
        {"metric": "cosine"},
        {"bandwidth": 0.3},
        {"potential": np.ones(700)},
    ):
        with pytest.raises(InputError, match="a resolution is known to the plain operator"):
            ep.decompose(x, 3, resolution=300, **options)
    assert ep.decompose(x, 3, resolution=300).info["resolution"] < 500


def test_names_of_arrays_in_a_record_are_words() -> None:
    assert settings_from_record({}) == OperatorSettings()
    for wrong in ("potential", [3], {"potential": 1}, ["potential", 2]):
        with pytest.raises(InputError, match="expected names of arrays"):
            settings_from_record({"arrays": wrong})


def test_the_geometry_of_a_basis_is_its_own_where_it_is_one(rng: np.random.Generator) -> None:
    """Symmetric, Euclidean and plain: that of the basis itself; else one of the same graph; of no
    source the usual.
    """
    x = c.random_sphere(150, rng) + 3
    plain = ep.decompose(x, 3, neighbours=9)
    assert geometry_of(plain) is plain.prepared()
    for options in ({"measure": 0.5}, {"smoother": "row"}, {"metric": "cosine"}):
        other = ep.decompose(x, 3, neighbours=9, **options)
        found = geometry_of(other)
        assert (
            found is not other.prepared()
            and found.graph.k == 9
            and found.graph.metric == "euclidean"
        )
        torch.testing.assert_close(
            found.smoother.matrix.to_dense(), plain.smoother.matrix.to_dense()
        )
    unknown = geometry_of(replace(plain, source=None))
    torch.testing.assert_close(unknown.smoother.mass, OperatorSettings().prepare(x).smoother.mass)
    with pytest.raises(InputError, match="without points has no geometry"):
        geometry_of(replace(plain, points=None))


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_three_points_have_an_operator() -> None:
    for points, kind in ((np.eye(3)[:2], ""), (np.eye(3)[[0, 1, 1, 0]], "distinct ")):
        with pytest.raises(InputError, match=f"^k=1 needs at least 3 {kind}points, got 2$"):
            OperatorSettings().prepare(points)
    assert OperatorSettings().prepare(np.eye(3)).smoother.n == 3


def test_parts_of_the_ledger_are_those_of_the_library() -> None:
    for module, name, _, path in PARTS.values():
        assert hasattr(import_module(f"eigenprobe.{module}"), name), name
        assert (SOURCE / path).is_file()
