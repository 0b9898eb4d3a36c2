"""Tests of `decomposition.settings`: which operator is meant, and what a file keeps of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.cloud import Origin
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


def _parts(*sizes: int, rows: torch.Tensor | None = None) -> Any:
    """An operator of parts of these sizes."""
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    smoother = SimpleNamespace(components=(len(sizes), labels))
    return SimpleNamespace(smoother=smoother, cloud=SimpleNamespace(rows=rows))


def test_parts_that_are_left_out() -> None:
    """Below a twentieth of the largest, where they hold a tenth of all at most; or all but the largest."""

    def left(made: Any, **options: Any) -> list[int] | None:
        found = OperatorSettings(**options)._left_out(made)
        return None if found is None else found.nonzero()[:, 0].tolist()

    assert left(_parts(100, 4)) == [100, 101, 102, 103] and left(_parts(4, 100)) == [0, 1, 2, 3]
    assert left(_parts(100, 5)) is None and left(_parts(100, 5, 4)) == [105, 106, 107, 108]
    assert left(_parts(180, 4, 4, 4, 4, 4)) == list(range(180, 200))  # a tenth
    assert left(_parts(179, 4, 4, 4, 4, 4)) is None
    assert left(_parts(100)) is None and left(_parts(100), parts="largest") is None
    assert left(_parts(60, 70, 3), parts="largest") == [*range(60), 130, 131, 132]
    assert left(_parts(100, 4), parts="all") is None
    assert left(_parts(100, 4), bandwidth=1.0) is None and left(_parts(100, 4), smoother="symmetric") is None
    assert left(_parts(60, 2, rows=torch.tensor([61, 0, 5, 60, 61]))) == [0, 3, 4]  # of the given points


def test_large_clouds_are_sampled_before_they_are_searched(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator is the same either way: that of the working sample."""
    x = torch.from_numpy(np.repeat(c.random_sphere(500, rng), 3, 0) + 1e-4 * rng.normal(size=(1500, 3)))
    searched: list[int] = []
    real = settings.arrange
    monkeypatch.setattr(settings, "arrange", lambda x, **own: searched.append(len(x)) or real(x, **own))

    def build(**options: Any) -> Any:
        searched.clear()
        return OperatorSettings(**options).build(x, 3)

    plain = build()
    size = plain.smoother.n
    assert searched == [1500, size] and size < 1500
    taken = list(searched)
    for large, options, expected in (
        (1500, {}, taken),
        (1499, {}, [size]),
        (1499, {"resolution": "all"}, [1500]),
        (1499, {"resolution": 600}, None),
        (1499, {"bandwidth": 0.2}, [1500]),
        (1499, {"smoother": "symmetric"}, [1500]),
    ):
        monkeypatch.setattr(settings, "LARGE", large)
        found = build(**options)
        assert searched == expected or (expected is None and searched[0] == 1500 > searched[1])
        if not options:
            torch.testing.assert_close(found.smoother.mass, plain.smoother.mass)
            assert torch.equal(found.sample.points, plain.sample.points)


def test_a_number_of_points_is_asked_of_the_plain_operator(rng: np.random.Generator) -> None:
    x = torch.from_numpy(c.random_sphere(700, rng))
    for options in ({"smoother": "symmetric"}, {"metric": "cosine"}, {"bandwidth": 0.3}, {"potential": np.ones(700)}):
        with pytest.raises(InputError, match="a resolution is known to the plain operator"):
            OperatorSettings(resolution=300, **options).build(x, 3)
        assert OperatorSettings(resolution="all", **options).build(x, 3).sample is None
    made = OperatorSettings(resolution=300).build(x, 3)
    assert made.sample is not None and made.smoother.n == len(made.sample.points) < 500


def test_derivatives_are_wanted_of_tensors_that_require_them() -> None:
    x = torch.zeros(4, 3)
    for points, numpy, enabled, expected in (
        (x.clone().requires_grad_(), False, True, True),
        (x.clone().requires_grad_(), False, False, False),
        (x, False, True, False),
        (x.clone().requires_grad_(), True, True, False),
    ):
        with torch.set_grad_enabled(enabled):
            origin = Origin(points, torch.float32, torch.device("cpu"), numpy=numpy)
            assert OperatorSettings().traced(origin).moving == expected
            if expected:
                for settings_, extra in ((OperatorSettings(measure=0.5), None), (OperatorSettings(), ["probes"])):
                    with pytest.warns(ep.EigenprobeWarning, match="there are none with (measure|probes)"):
                        assert not settings_.traced(origin, extra).moving


def test_requests_that_no_stack_knows() -> None:
    assert Request(5).stackable and Request(5, operator=OperatorSettings(dimension=2.0, parts="all")).stackable
    for unusual in (
        Request(5, method="network"),
        Request(5, probes="heat"),
        Request(5, eigenvalues="mean"),
        Request(5, operator=OperatorSettings(resolution=500)),
        Request(5, operator=OperatorSettings(parts="largest")),
        Request(5, operator=OperatorSettings(bandwidth=1.0)),
        Request(5, operator=OperatorSettings(measure=0.5)),
    ):
        assert not unusual.stackable
    asked = Request(5, operator=OperatorSettings("row", "scale-invariant", 7, 0.5, 2.0)).graph_settings
    assert asked == {"metric": "euclidean", "smoother": "row", "neighbours": 7, "bandwidth": 0.5, "dimension": 2.0}
    assert Request(5, operator=OperatorSettings(metric="cosine")).graph_settings["metric"] == "cosine"


def test_names_of_arrays_in_a_record_are_words() -> None:
    assert settings_from_record({}) == OperatorSettings()
    for wrong in ("potential", [3], {"potential": 1}, ["potential", 2]):
        with pytest.raises(InputError, match="expected names of arrays"):
            settings_from_record({"arrays": wrong})


def test_the_geometry_of_a_basis_is_its_own_where_it_is_one(rng: np.random.Generator) -> None:
    """Symmetric, Euclidean and plain: that of the basis itself; else one of the same graph; of no source the usual."""
    x = c.random_sphere(150, rng) + 3
    plain = ep.decompose(x, 3, neighbours=9)
    assert geometry_of(plain) is plain.prepared()
    for options in ({"measure": 0.5}, {"smoother": "row"}, {"metric": "cosine"}):
        other = ep.decompose(x, 3, neighbours=9, **options)
        found = geometry_of(other)
        assert found is not other.prepared() and found.graph.k == 9 and found.graph.metric == "euclidean"
        torch.testing.assert_close(found.smoother.matrix.to_dense(), plain.smoother.matrix.to_dense())
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
