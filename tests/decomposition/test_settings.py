"""Tests of `decomposition.settings`: which operator is meant, and what a file keeps of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.decomposition import OperatorSettings, Request, geometry_of, settings
from eigenprobe.decomposition.settings import settings_from_record
from eigenprobe.errors import InputError
from eigenprobe.smoothers import build_smoother
from eigenprobe.smoothers.stencil import BALANCE, EXACT, FIRM
from tests import clouds as c


def test_a_record_holds_what_is_unusual_and_makes_the_same_settings() -> None:
    assert OperatorSettings().record() == {}
    chosen = OperatorSettings(neighbours=12, boundary="dirichlet", measure=0.5, resolution="all")
    assert chosen.record() == {"neighbours": 12, "boundary": "dirichlet", "measure": 0.5, "resolution": "all"}
    assert settings_from_record(chosen.record()) == chosen
    lost = settings_from_record(OperatorSettings(potential=np.ones(5)).record())
    with pytest.raises(InputError, match="its potential was an array"):
        lost.prepare(np.ones((5, 3)))
    both = settings_from_record(OperatorSettings(potential=np.ones(5), measure=np.ones(5)).record())
    with pytest.raises(InputError, match="its potential was an array"):  # the first of them
        both.prepare(np.ones((5, 3)))


def test_what_is_asked_decides_the_settings() -> None:
    ones = np.ones(5)
    assert OperatorSettings().asked == [] and OperatorSettings(moving=True).asked == []
    assert OperatorSettings(potential=ones, measure=2.0, moving=True).asked == ["potential", "measure"]
    assert OperatorSettings(metric="scale-invariant").asked == ["scale_invariant"]
    assert OperatorSettings().balance is BALANCE is OperatorSettings(potential=ones).balance
    assert (
        OperatorSettings(boundary="dirichlet").balance is FIRM is OperatorSettings(potential=ones, measure=1.0).balance
    )
    assert OperatorSettings(measure=1.0, moving=True).balance is EXACT
    assert OperatorSettings().fixes_constant and OperatorSettings(measure=0.5).fixes_constant
    assert not OperatorSettings(potential=ones).fixes_constant
    assert not OperatorSettings(boundary="dirichlet").fixes_constant
    with pytest.raises(InputError, match="potential needs a symmetric smoother, got kind 'row'"):
        ep.decompose(c.fibonacci_sphere(60), k=3, smoother="row", potential=np.zeros(60))


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


def test_the_network_is_told_of_points_that_were_cleaned(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []
    real = settings.without_short_cuts

    def spy(cloud: Any, neighbours: Any, dimension: Any, moved: bool) -> Any:
        told.append(moved)
        return real(cloud, neighbours, dimension, moved)

    monkeypatch.setattr(settings, "without_short_cuts", spy)
    x = c.random_sphere(1500, rng)
    for noise, cleaned in ((0.0, False), (0.03, True)):
        prepared = OperatorSettings().prepare(x + noise * rng.normal(size=x.shape))
        facts = {} if prepared.sample is None else prepared.sample.facts
        assert told == [cleaned] and facts.get("cleaned", False) == cleaned
        told.clear()


def test_which_requests_are_stacked() -> None:
    plain = OperatorSettings(neighbours="plain")
    assert not Request(5, operator=plain, options={"steps": 10}).stackable  # other options are not known to stacks
    assert Request(5, operator=plain, seed=3, tol=1e-4).stackable
    assert Request(5, operator=OperatorSettings(neighbours=8)).stackable
    assert not Request(5, operator=OperatorSettings("row")).stackable
    assert Request(5, eigenvalues="mean").asked == ["eigenvalues"]


def test_the_largest_part_of_one_is_the_cloud(rng: np.random.Generator) -> None:
    x = rng.random((400, 2))
    found, plain = ep.decompose(x, 4, parts="largest"), ep.decompose(x, 4)
    assert found.info["components"] == 1 and "resolution" not in found.info and found.prepared().sample is None
    np.testing.assert_allclose(found.vectors, plain.vectors)


@pytest.mark.parametrize("options", [{"bandwidth": 0.3}, {"smoother": "symmetric"}, {"metric": "cosine"}])
def test_there_are_no_derivatives_of_other_weights(options: dict[str, Any], rng: np.random.Generator) -> None:
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
        assert int((basis.mass == 0).sum()) == left
