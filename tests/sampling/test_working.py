"""Working samples: what is left out, averaged or merged, and that clean even clouds stay as they are."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.sampling import WorkingSample, working, working_sample
from eigenprobe.sampling.farthest import farthest_points
from eigenprobe.sampling.quality import Quality, survey

SPHERE = np.array([2.0] * 3 + [6.0] * 5 + [12.0] * 7)


def sphere(n: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def error(basis: ep.Basis) -> float:
    return float(np.mean(np.abs(basis.eigenvalues[1:16] - SPHERE) / SPHERE))


def rings(n: int, ratio: float, seed: int = 0) -> np.ndarray:
    """A sphere in rings of latitude, ``ratio`` times as far apart as their points."""
    step = np.sqrt(4 * np.pi / n / ratio)  # along a ring
    rng, parts = np.random.default_rng(seed), []
    for height in np.arange(-np.pi / 2 + ratio * step / 2, np.pi / 2, ratio * step):
        count = max(3, round(2 * np.pi * np.cos(height) / step))
        angle = 2 * np.pi * (np.arange(count) + rng.random()) / count
        parts.append(
            np.stack(
                [np.cos(height) * np.cos(angle), np.cos(height) * np.sin(angle), np.full(count, np.sin(height))], 1
            )
        )
    return np.concatenate(parts)


@pytest.mark.parametrize("n", [400, 2000, 6000])
def test_clean_clouds_are_their_own_sample(n):
    assert working_sample(torch.from_numpy(sphere(n))) is None
    basis = ep.decompose(sphere(n), k=16)
    assert "resolution" not in basis.info and basis.lifted is None


@pytest.mark.filterwarnings("ignore::eigenprobe.errors.EigenprobeWarning")
@pytest.mark.parametrize("count", [20, 40, 100])
def test_strays_do_not_change_the_basis(count):
    """2000 points of a sphere and strays at radius 1.2 to 5: eigenvalues were off by .28 and .80."""
    rng = np.random.default_rng(count)
    strays = sphere(count, 7) * rng.uniform(1.2, 5, (count, 1))
    x = np.concatenate([sphere(2000), strays])
    basis = ep.decompose(x, k=16)
    assert error(basis) < 0.05
    assert set(basis.info["strays"]) <= set(range(2000, 2000 + count))
    assert len(basis.info["strays"]) > 0.8 * count
    listed = basis.info["strays"] + basis.info.get("left_out", [])
    np.testing.assert_array_equal(basis.mass[listed], 0)
    assert np.isfinite(basis.vectors).all()
    np.testing.assert_allclose(basis.normalized.T @ basis.normalized, np.eye(16), atol=1e-8)


def test_a_warning_says_what_was_left_out():
    x = np.concatenate([sphere(2000), sphere(40, 3) * 3])
    with pytest.warns(EigenprobeWarning, match="of 2040 points: left out 40 strays"):
        ep.decompose(x, k=5)


@pytest.mark.filterwarnings("ignore::eigenprobe.errors.EigenprobeWarning")
def test_small_parts_are_left_out_unless_asked_for():
    rng = np.random.default_rng(0)
    x = np.concatenate([sphere(2000), [3, 0, 0] + 0.05 * rng.normal(size=(40, 3))])
    usual, every = ep.decompose(x, k=9), ep.decompose(x, k=9, parts="all", resolution="all")
    assert usual.info["left_out"] == list(range(2000, 2040)) and usual.info["components"] == 1
    assert every.info["components"] > 1 and every.eigenvalues[1] < 1e-8
    two = np.concatenate([sphere(900), sphere(600, 1) + [4, 0, 0]])
    assert ep.decompose(two, k=9).info["components"] == 2  # neither is small
    largest = ep.decompose(two, k=9, parts="largest")
    assert largest.info["left_out"] == list(range(900, 1500))
    np.testing.assert_allclose(largest.eigenvalues[1:4], 2, rtol=0.06)


@pytest.mark.filterwarnings("ignore::eigenprobe.errors.EigenprobeWarning")
@pytest.mark.parametrize(("n", "bound"), [(2000, 0.065), (8000, 0.03), (32_000, 0.03)])
def test_more_noisy_points_are_no_worse(n, bound):
    """lambda_1 of a sphere with noise .01 was 1.92, 1.74 and 1.50. Now .054 (too little noise to clean), .011, .011."""
    x = sphere(n) + 0.01 * np.random.default_rng(1).normal(size=(n, 3))
    assert error(ep.decompose(x, k=16)) < bound


@pytest.mark.filterwarnings("ignore::eigenprobe.errors.EigenprobeWarning")
@pytest.mark.parametrize("jitter", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("times", [2, 3, 5])
def test_registered_copies_count_once(times, jitter):
    x = np.concatenate([sphere(1000)] * times) + jitter * np.random.default_rng(0).normal(size=(1000 * times, 3))
    assert error(ep.decompose(x, k=16)) < 0.06


@pytest.mark.filterwarnings("ignore::eigenprobe.errors.EigenprobeWarning")
@pytest.mark.parametrize("ratio", [5, 10])
def test_scan_lines_are_a_surface(ratio):
    basis = ep.decompose(rings(4000, ratio), k=16)
    assert basis.info["components"] == 1 and round(basis.info["dimension"]) == 2
    assert error(basis) < 0.08


def test_a_number_of_points_is_about_kept_and_vectors_are_lifted():
    x = sphere(5000)
    basis = ep.decompose(x, k=16, resolution=1200)
    assert 1000 <= basis.info["resolution"] <= 1300 and basis.n == 5000 and error(basis) < 0.05
    np.testing.assert_allclose(basis.mass.sum(), 1)
    np.testing.assert_allclose(basis.normalized.T @ basis.normalized, np.eye(16), atol=1e-8)
    whole = ep.decompose(x, k=16, resolution="all")
    first, second = (np.linalg.qr(each.vectors[:, :4])[0] for each in (whole, basis))
    overlap = np.linalg.svd(first.T @ second)[1]
    assert overlap.min() > 0.995
    np.testing.assert_allclose(basis(x[:50]), basis.vectors[:50], atol=0.02)


def test_what_cannot_be_is_one_line():
    with pytest.raises(InputError, match="resolution must be 'auto', 'all' or a number of points up to 500"):
        ep.decompose(sphere(500), k=5, resolution=600)
    with pytest.raises(InputError, match="plain operator"):
        ep.decompose(sphere(500), k=5, resolution=300, smoother="symmetric")
    with pytest.raises(InputError, match="needs a cloud of 300 points or more, got 200 points of 3"):
        ep.decompose(sphere(200), k=5, resolution=50)
    with pytest.raises(InputError, match="needs a cloud of 300 points or more, got 100 points of 2"):
        ep.decompose(sphere(100)[:, :2], k=5, resolution=50)
    with pytest.raises(InputError, match="needs a cloud of 2 or 3 dimensions, got 400 points of 4"):
        ep.decompose(np.random.default_rng(0).normal(size=(400, 4)), k=5, resolution=50)
    with pytest.raises(InputError, match="parts must be"):
        ep.decompose(sphere(500), k=5, parts="some")


@pytest.mark.filterwarnings("ignore::eigenprobe.errors.EigenprobeWarning")
def test_operators_and_files_of_a_sampled_cloud(tmp_path):
    x = np.concatenate([sphere(2000), sphere(30, 3) * 2])
    basis = ep.decompose(x, k=9)
    basis.save(tmp_path / "b.safetensors")
    again = ep.Basis.load(tmp_path / "b.safetensors")
    np.testing.assert_array_equal(again.vectors, basis.vectors)
    for L, M in (ep.laplacian(basis), ep.laplacian(x)):
        assert L.shape == M.shape == (2030, 2030)
        np.testing.assert_allclose(M.sum(), 4 * np.pi, rtol=0.05)
        assert abs(L - L.T).max() < 1e-9 * abs(L).max() and abs(L.sum(1)).max() < 1e-9 * abs(L).max()
        v = basis.vectors[:, 1]
        quotient = (v @ (L @ v)) / (v @ (M @ v))
        np.testing.assert_allclose(quotient, basis.eigenvalues[1], rtol=0.05)
    distance = ep.apps.geodesic_distance(basis, 0)
    angle = np.arccos(np.clip(x[:2000] @ x[0], -1, 1))
    assert np.abs(distance[:2000] - angle).mean() < 0.04


def test_cells_share_their_mass():
    x = torch.from_numpy(sphere(3000))
    sample = working_sample(x, 500)
    assert isinstance(sample, WorkingSample)
    total = torch.zeros(len(sample.points), dtype=torch.float64).index_add_(0, sample.rows, sample.shares)
    torch.testing.assert_close(total, torch.ones_like(total))
    torch.testing.assert_close(sample.collect(x), sample.points, atol=0.05, rtol=0)
    nearest = torch.cdist(x, sample.points).argmin(1)
    assert float((nearest == sample.rows).double().mean()) > 0.99


@pytest.mark.parametrize("copies", [2, 3, 5])
def test_copies_ask_for_the_spacing_of_one_of_them(copies):
    """As many points fewer: the root of the number, of the dimension of the cloud."""
    found = survey(torch.from_numpy(sphere(2000)))
    plain = replace(found, noise=0 * found.noise, lines=0 * found.lines)
    torch.testing.assert_close(working._spacing(plain, {}, 2000), found.spacing)
    asked = working._spacing(replace(plain, copies=copies), {}, 2000)
    torch.testing.assert_close(asked, found.spacing * copies**0.5)
    lined = replace(plain, lines=6 * found.spacing)
    facts: dict[str, object] = {}
    torch.testing.assert_close(working._spacing(lined, facts, 2000), 6 * found.spacing / working.RULE.across)
    assert facts["scan_lines"]


def test_very_many_noisy_points_have_no_strays_and_a_small_sample(rng: np.random.Generator) -> None:
    """Noise of several spacings: cells of the grid that thins them are no strays; their means lie on it."""
    x = rng.normal(size=(300_000, 3))
    x = x / np.linalg.norm(x, axis=1, keepdims=True) + 0.02 * rng.normal(size=x.shape)
    sample = working_sample(torch.from_numpy(x))
    assert sample is not None and len(sample.points) <= 20_000 and not bool(sample.strays.any())
    radius = sample.points.norm(dim=1)
    assert float(radius.mean()) == pytest.approx(1, abs=0.01) and float(radius.std()) < 0.01


def test_an_even_sample_is_a_farthest_point_order_while_that_is_affordable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to as many distances as the rule allows: exactly so many points; beyond, a maximal set of far ones."""
    x = torch.from_numpy(sphere(900))
    quality = survey(x)
    asked = 2 * quality.spacing
    found = {}
    for passes in (900 * 225, 900 * 225 - 1):
        monkeypatch.setattr(working, "RULE", replace(working.RULE, passes=passes, rounds=0))
        found[passes] = working._even(x, quality, asked, 225, 0, {})[0]
    chosen = x[farthest_points(x, 225, 0, weight=torch.ones(900))]
    assert len(found[900 * 225]) == 225 and torch.equal(found[900 * 225][:1], chosen[:1])
    spread = found[900 * 225 - 1]
    assert not torch.equal(spread[:225], found[900 * 225][: len(spread)])
    near = torch.cdist(spread, spread).fill_diagonal_(9).amin(1)
    assert float(near.min()) > 0.5 * float(asked.median()) and 120 < len(spread) < 400


def test_thin_regions_of_very_many_points_are_no_strays(monkeypatch: pytest.MonkeyPatch) -> None:
    """One half has a fiftieth of the density: its cells are light, and belong to the surface all the same."""
    monkeypatch.setattr(working, "RULE", replace(working.RULE, large=10_000, most=400))
    x = sphere(9000, 3)
    rng = np.random.default_rng(0)
    x = x[(x[:, 0] < 0) | (rng.random(len(x)) < 0.02)]
    sample = working._of_many(torch.from_numpy(x + 0.08 * rng.normal(size=x.shape)), 0)
    assert sample is not None and float(sample.strays.double().mean()) < 0.002


def test_the_anisotropy_of_lines_is_their_distance_over_the_spacing() -> None:
    """Lines eight times as far apart as their points: the square root of 8 over the mean spacing; none, one."""
    lined = survey(torch.from_numpy(rings(3000, 8.0))).facts(0, 3000)
    assert 1.5 < lined["anisotropy"] < 6 and survey(torch.from_numpy(sphere(3000))).facts(0, 3000)["anisotropy"] == 1


def test_means_of_more_noisy_points_than_are_cleaned_are_cleaned(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sphere with noise of four spacings, and strays: means alone had eigenvalues 5 to 10 % too small."""
    monkeypatch.setattr(working, "RULE", replace(working.RULE, cleaned=8000))
    x = rng.normal(size=(20_000, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    x = np.concatenate([x + 0.02 * rng.normal(size=x.shape), rng.uniform(-1.4, 1.4, size=(40, 3))])
    with pytest.warns(EigenprobeWarning, match=r"strays; moved noisy points back.*averaged points because of noise"):
        basis = ep.decompose(x, k=9)
    assert basis.eigenvalues[1:4] == pytest.approx(2, rel=0.03) and basis.eigenvalues[4:9] == pytest.approx(6, rel=0.03)
    far = np.abs(np.linalg.norm(x, axis=1) - 1) > 0.15
    assert (basis.mass[far] == 0).mean() > 0.8 and (basis.mass[~far] > 0).mean() > 0.995


def test_strays_among_very_many_noisy_points(rng: np.random.Generator) -> None:
    """One point in a thousand: found by the network among the means, and hardly a point of the sheet with them."""
    x = rng.normal(size=(210_000, 3))
    x = x / np.linalg.norm(x, axis=1, keepdims=True) + 0.01 * rng.normal(size=x.shape)
    far = rng.uniform(-1.4, 1.4, size=(400, 3))
    far = far[np.abs(np.linalg.norm(far, axis=1) - 1) > 0.1][:210]
    sample = working_sample(torch.from_numpy(np.concatenate([x, far])))
    assert sample is not None and sample.facts["cleaned"]
    assert float(sample.strays[210_000:].double().mean()) > 0.9 and int(sample.strays[:210_000].sum()) < 60
    assert bool((sample.shares[sample.strays] == 0).all())


@pytest.mark.parametrize("even", [True, False])
def test_a_dimension_that_is_known_is_that_of_the_sample(even: bool, rng: np.random.Generator) -> None:
    """A closed curve, 40 times round a torus: its turns were taken for the scan lines of a surface and averaged."""
    t = np.linspace(0, 2 * np.pi, 400_001)
    radius = 2 + 0.5 * np.cos(40 * t)
    curve = np.stack([radius * np.cos(t), radius * np.sin(t), 0.5 * np.sin(40 * t)], 1)
    length = np.concatenate([[0.0], np.linalg.norm(np.diff(curve, axis=0), axis=1).cumsum()])
    at = ((np.arange(4000) + 0.5) / 4000 if even else rng.random(4000)) * length[-1]
    x = np.stack([np.interp(at, length, each) for each in curve.T], 1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        basis = ep.decompose(x, k=7, dimension=1)
    assert "resolution" not in basis.info
    waves = np.array([1, 1, 2, 2, 3, 3])
    if said and not even:  # the widest gap of random points may be as wide as turns are apart: cut there, and told
        assert len(said) == 1 and "ends of the curve" in str(said[0].message)
        waves = np.arange(1, 7) / 2
    else:
        assert not said
    expected = (2 * np.pi * waves / length[-1]) ** 2
    assert np.allclose(basis.eigenvalues[1:], expected, rtol=0.01)


def test_a_sample_is_one_to_one_where_every_kept_point_is_its_own() -> None:
    x = torch.from_numpy(sphere(50))
    whole = WorkingSample.whole(x)
    some = torch.zeros(50, dtype=torch.bool)
    some[:3] = True
    assert whole.one_to_one and whole.without(some).one_to_one
    halved = replace(whole, points=x[:25], rows=whole.rows // 2, shares=whole.shares / 2)
    assert not halved.one_to_one


def test_cells_that_nothing_lies_in_are_left_out(rng: np.random.Generator) -> None:
    points = torch.from_numpy(rng.random((200, 3)))
    z = torch.cat([torch.full((1, 3), 50.0, dtype=torch.float64), points[::10]])
    nothing = torch.zeros(200, dtype=torch.bool)
    for chosen in (z, z[1:]):
        sample = working._in_cells(points, nothing, chosen, torch.zeros(len(chosen), dtype=torch.bool), {})
        assert torch.equal(sample.points, points[::10]) and sample.facts["sampled"] == 20
        nearest = torch.cdist(points, points[::10]).argmin(1)
        assert torch.equal(sample.rows, nearest)
        assert torch.allclose(sample.shares, 1 / torch.bincount(nearest, minlength=20)[nearest].double())


def test_a_narrow_vote_on_the_dimension_is_said_of_many_points(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ball = rng.uniform(-1, 1, (6000, 3))
    ball = ball[np.linalg.norm(ball, axis=1) < 1][:3000] + [2.2, 0, 0]
    x = torch.from_numpy(np.concatenate([sphere(3000), ball]))

    def unsure(**given: float) -> bool:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            working_sample(x, **given)  # type: ignore[arg-type]
        return any("pass dimension=" in str(each.message) for each in said)

    assert unsure() and not unsure(dimension=2)
    monkeypatch.setattr(working, "RULE", replace(working.RULE, judged=6001))
    assert not unsure()


def test_the_spacing_asked_for_is_its_formula() -> None:
    """Noise s on spacing h: (s h / c)^(1/2) on a surface, and no less than h or, where nothing was cleaned, 5 s."""
    one = torch.ones(4, dtype=torch.float64)
    plain = Quality(torch.zeros(4, 3), 2, {2: 1.0}, 2 * one, 0 * one, 0 * one, 1)

    def asked(n: int = 10_000, **changes: object) -> tuple[float, set[str]]:
        facts: dict[str, object] = {}
        found = working._spacing(replace(plain, **changes), facts, n)  # type: ignore[arg-type]
        assert float(found.max() - found.min()) == 0
        return float(found[0]), set(facts)

    assert asked() == (2.0, set())
    assert asked(copies=9) == (6.0, {"merged"})
    assert asked(lines=7 * one) == (4.0, {"scan_lines"})
    assert asked(noise=0.8 * one) == (pytest.approx((0.8 * 2 / 0.09) ** 0.5), {"averaged"})
    assert asked(noise=4.0 * one) == (20.0, {"averaged"})
    # Cleaned: (.8 * 2 / .2)^(1/2) leaves half of the points, averaged where these are 2500
    assert asked(5001, noise=0.8 * one, cleaned=True) == (pytest.approx(8**0.5), {"averaged"})
    assert asked(4999, noise=0.8 * one, cleaned=True) == (2.0, set())


def _made(n: int, dimension: int = 2, **changes: Any) -> Quality:
    """A cloud that looks everywhere alike, as a survey would say it."""
    one = torch.ones(n, dtype=torch.float64)
    plain = Quality(torch.zeros(n, 3, dtype=torch.float64), dimension, {dimension: 1.0}, 0.1 * one, 0 * one, 0 * one, 1)
    return replace(plain, **changes)


class _Asked(Exception):
    """Carries what a function was called with."""


def _ask(*given: Any, **_: Any) -> Any:
    raise _Asked(*given)


@pytest.mark.parametrize(
    ("resolution", "copies", "dimension", "count", "times"),
    [
        ("auto", 1, 2, None, 0),  # the cloud itself
        ("auto", 2, 2, 500, 2**0.5),
        ("auto", 2, 1, 500, 2.0),
        ("auto", 5, 2, 400, 5**0.5 * (200 / 400) ** 0.5),  # no fewer than 400
        ("auto", 5, 1, 400, 5 * 200 / 400),
        (600, 1, 2, 600, (1000 / 600) ** 0.5),
        (600, 5, 2, 600, (1000 / 600) ** 0.5),
        (900, 1, 1, 900, 1000 / 900),
    ],
)
def test_how_many_points_are_asked_for(
    resolution: Any, copies: int, dimension: int, count: int | None, times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n (h / h')^dim, unless a number is given; the spacing is the one that gives as many."""
    x = torch.from_numpy(sphere(1000))
    monkeypatch.setattr(working, "find_strays", lambda points: torch.zeros(1000, dtype=torch.bool))
    monkeypatch.setattr(working, "survey", lambda *_, **__: _made(20, dimension, copies=copies))
    monkeypatch.setattr(working, "_even", _ask)
    if count is None:
        assert working_sample(x, resolution) is None
        return
    with pytest.raises(_Asked) as caught:
        working_sample(x, resolution, 3)
    points, _, asked, found, seed, _ = caught.value.args
    assert torch.equal(points, x) and found == count and seed == 3
    torch.testing.assert_close(asked, torch.full((20,), 0.1 * times, dtype=torch.float64))


def test_strays_are_left_out_of_what_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other point is its own cell; a stray lies in the nearest, without a share. A solid has no strays."""
    x, stray = torch.from_numpy(sphere(1000)), torch.zeros(1000, dtype=torch.bool)
    stray[[3, 700]] = True
    monkeypatch.setattr(working, "find_strays", lambda points: stray.clone())
    monkeypatch.setattr(working, "survey", lambda points, *_, **__: _made(20))
    sample = working_sample(x)
    assert sample is not None and torch.equal(sample.strays, stray) and torch.equal(sample.points, x[~stray])
    assert torch.equal(sample.shares, (~stray).double()) and sample.one_to_one
    assert torch.equal(sample.points[sample.rows[~stray]], x[~stray])
    assert torch.equal(sample.rows[stray], torch.cdist(x[stray], x[~stray]).argmin(1))
    assert sample.facts["sampled"] == 998 and sample.facts["strays"] == 2 and sample.facts["stray_share"] == 0.002
    monkeypatch.setattr(working, "survey", lambda points, *_, **__: _made(20, 3))
    assert working_sample(x) is None


def test_lines_are_worth_a_sample_of_nearly_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """.9 of the points: a sample where there are scan lines, the cloud itself where there are none."""
    x, one = torch.from_numpy(sphere(1000)), torch.ones(20, dtype=torch.float64)
    monkeypatch.setattr(working, "find_strays", lambda points: torch.zeros(1000, dtype=torch.bool))
    monkeypatch.setattr(working, "_even", _ask)
    lines = 0.1 * working.RULE.across * (1 / 0.9) ** 0.5 * one
    monkeypatch.setattr(working, "survey", lambda *_, **__: _made(20, lines=lines))
    with pytest.raises(_Asked) as caught:
        working_sample(x)
    assert caught.value.args[3] == 900
    few = torch.where(torch.arange(20) < 7, lines, 0.0)  # lines in no more than .35 of the places
    monkeypatch.setattr(working, "survey", lambda *_, **__: _made(20, lines=few))
    assert working_sample(x) is None


def test_facts_of_a_sample_say_why() -> None:
    one, facts = torch.ones(4, dtype=torch.float64), {}
    working._spacing(_made(4, copies=2, lines=one, noise=one), facts, 1000)  # type: ignore[arg-type]
    assert facts == {"merged": True, "scan_lines": True, "averaged": True}


def test_a_spacing_changes_slowly_between_centres(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weighted by inverse squares of distances to the six nearest, and no less than .35 per length below any of 16."""
    x, centres = torch.from_numpy(rng.random((200, 3))), torch.from_numpy(rng.random((40, 3)))
    asked = torch.from_numpy(rng.uniform(0.05, 0.4, 40))
    seen: dict[str, Any] = {}

    def chosen(points: torch.Tensor, n: int, seed: int, weight: torch.Tensor) -> torch.Tensor:
        seen.update(n=n, seed=seed, weight=weight)
        return torch.arange(n)

    monkeypatch.setattr(working, "farthest_points", chosen)
    monkeypatch.setattr(working, "RULE", replace(working.RULE, rounds=0))
    z, bad = working._even(x, _made(40, centres=centres, spacing=asked), asked, 30, 5, {})
    distance = np.linalg.norm(x.numpy()[:, None] - centres.numpy(), axis=2)
    order = distance.argsort(1)
    expected = []
    for i in range(200):
        near, d = order[i, :16], distance[i, order[i, :16]]
        mean = (asked.numpy()[near[:6]] / d[:6] ** 2).sum() / (1 / d[:6] ** 2).sum()
        expected.append(max(mean, (asked.numpy()[near] - 0.35 * d).max()))
    np.testing.assert_allclose(seen["weight"], np.array(expected) ** -2.0, rtol=1e-9)
    assert (seen["n"], seen["seed"]) == (30, 5) and torch.equal(z, x[:30]) and not bool(bad.any())


def test_means_of_cells_and_of_a_grid(rng: np.random.Generator) -> None:
    x, weight = torch.from_numpy(rng.random((300, 3))), torch.from_numpy(rng.random(300))
    z = torch.cat([x[:20], torch.full((1, 3), 9.0, dtype=torch.float64)])  # nothing lies in the last cell
    nearest = torch.cdist(x, z).argmin(1)
    expected = [(weight[nearest == i, None] * x[nearest == i]).sum(0) / weight[nearest == i].sum() for i in range(20)]
    torch.testing.assert_close(working._means(z, x, weight), torch.stack(expected))
    for columns in (2, 3):
        given = x[:, :columns] * 3 - 7
        means, rows, counts = working._by_grid(given, 0.8)
        place = ((given - given.amin(0)) / 0.8).floor()
        same = (place[:, None] == place).all(2)
        assert torch.equal(rows[:, None] == rows, same) and torch.equal(counts[rows], same.sum(1).double())
        torch.testing.assert_close(means[rows], same.double() @ given / same.sum(1, keepdim=True))


def test_a_maximal_set_of_points(rng: np.random.Generator) -> None:
    """No two of an edge, and no point without an edge to one of them; the first in the order wins, taken ones stay."""
    pairs = torch.from_numpy(rng.integers(60, size=(90, 2)))
    head, tail = pairs[pairs[:, 0] != pairs[:, 1]].T
    order = torch.from_numpy(rng.permutation(60))
    taken = torch.zeros(60, dtype=torch.bool)
    taken[int(head[0])] = True
    found = working._maximal(head, tail, order, taken)
    joined = torch.zeros((60, 60), dtype=torch.bool)
    joined[head, tail] = joined[tail, head] = True
    expected = taken.clone()
    for point in order.argsort().tolist():  # greedily, in the order
        expected[point] |= not bool(expected[joined[point]].any())
    assert torch.equal(found, expected) and bool(found[int(head[0])])


def test_points_of_a_spread_keep_their_distances(rng: np.random.Generator) -> None:
    """At least .9 of the smaller distance asked for by two of them, and every point has one of them so near."""
    x = torch.from_numpy(rng.random((400, 2)))
    distance = torch.from_numpy(rng.uniform(0.07, 0.09, 400))
    chosen = working._spread(x, distance, 2)
    lengths = torch.cdist(x, x) / torch.minimum(distance[:, None], distance)
    between = lengths[chosen][:, chosen].fill_diagonal_(torch.inf)
    assert float(between.min()) >= 0.9 and float(lengths[:, chosen].amin(1).max()) < 0.9
    assert not torch.equal(chosen, working._spread(x, distance, 3))


def test_bad_cells_give_their_points_to_others(rng: np.random.Generator) -> None:
    """Points in them are strays where they are farther from the next cell than 99.9 % of others from their own."""
    points = torch.from_numpy(rng.random((2000, 3)))
    z = torch.cat([points[::20], torch.full((1, 3), 3.0, dtype=torch.float64)])
    points[:4] = 3 + 0.1 * torch.from_numpy(rng.random((4, 3)))
    bad = torch.zeros(101, dtype=torch.bool)
    bad[[100, 50]] = True
    known = torch.zeros(2000, dtype=torch.bool)
    known[7] = True
    sample = working._in_cells(points, known, z, bad, {"strays": 9})
    lengths = torch.cdist(points, z)
    own = lengths.argmin(1)
    usual = lengths.amin(1)[~bad[own]].sort().values
    apart = lengths[:, ~bad].amin(1)
    stray = torch.where(bad[own], apart > usual[round(0.999 * len(usual)) - 1], known)
    assert torch.equal(sample.strays, stray) and bool(stray[:4].all()) and bool(stray[7]) and not bool(known[0])
    assert torch.equal(sample.points, z[~bad]) and sample.facts == {"strays": int(stray.sum()), "sampled": 99}
    assert torch.equal(sample.rows, lengths[:, ~bad].argmin(1))
    total = torch.zeros(99, dtype=torch.float64).index_add_(0, sample.rows, sample.shares)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_points_left_out_of_a_sample(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.random((60, 3)))
    rows = torch.arange(60) % 20
    sample = WorkingSample(x, x[:20], rows, torch.full((60,), 1 / 3).double(), torch.zeros(60, dtype=torch.bool), {})
    left_out = torch.zeros(20, dtype=torch.bool)
    left_out[[2, 11]] = True
    found = sample.without(left_out)
    lost = left_out[rows]
    assert torch.equal(found.points, x[:20][~left_out]) and torch.equal(found.shares == 0, lost)
    assert torch.equal(found.points[found.rows[~lost]], x[:20][rows[~lost]])
    assert torch.equal(found.rows[lost], torch.cdist(x[lost], found.points).argmin(1))
    for shape in ((60,), (60, 2), (60, 2, 2)):
        values = torch.from_numpy(rng.random(shape))
        torch.testing.assert_close(sample.collect(values), values.view(3, 20, *shape[1:]).mean(0))


@pytest.mark.parametrize(("most", "count", "times"), [(20_000, 100, 10), (64, 64, 12.5)])
def test_very_many_points_are_thinned_by_a_grid(
    most: int, count: int, times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the spacing asked for is more than thrice theirs; cells of a third of it, light ones may be strays."""
    x = torch.from_numpy(sphere(10_000))
    one = torch.ones(20, dtype=torch.float64)
    rule = replace(working.RULE, most=most, left=1.0)
    monkeypatch.setattr(working, "RULE", rule)
    monkeypatch.setattr(working, "_even", _ask)
    for noise in (0.05, 0.2):  # five times as much is asked for: two and a half spacings, and ten
        monkeypatch.setattr(working, "survey", lambda *_, noise=noise, **__: _made(20, noise=noise * one))
        assert noise > 0.1 or working._of_many(x, 0) is None
    with pytest.raises(_Asked) as caught:
        working._of_many(x, 3)
    means, _, asked, found, seed, _, weight = caught.value.args
    torch.testing.assert_close(asked, 0.1 * times * one)
    assert found == count and seed == 3 and float(weight.sum()) == 10_000
    expected = working._by_grid(x, 0.1 * times / 3)
    assert torch.equal(means, expected[0]) and torch.equal(weight, expected[2])
    light = torch.zeros(len(means), dtype=torch.bool)
    light[:9] = True
    monkeypatch.setattr(working, "find_strays", lambda points: light)
    monkeypatch.setattr(working, "_is_noisy", lambda *_: False)  # of a thin sheet
    monkeypatch.setattr(working, "RULE", replace(rule, light=0.8))
    with pytest.raises(_Asked) as caught:
        working._of_many(x, 3)
    bad = light & (expected[2] < 0.8 * expected[2].square().sum() / expected[2].sum())
    assert torch.equal(caught.value.args[0], means[~bad]) and torch.equal(caught.value.args[6], weight[~bad])


def test_a_sample_has_two_points_at_least_and_all_at_most() -> None:
    for resolution in (-3, 0, 1, 11):
        with pytest.raises(InputError, match=f"a number of points up to 10, got {resolution}"):
            working._check(resolution, 10)
    for resolution in (2, 10):
        working._check(resolution, 10)


@pytest.mark.parametrize(("noise", "most", "cleaned"), [(0.1, 50, True), (0.1, 49, False), (0.001, 50, False)])
def test_noisy_points_are_cleaned_up_to_so_many(
    noise: float, most: int, cleaned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And judged; others stay, unjudged. Where the network moves nothing, there was no noise."""
    x, logits = torch.from_numpy(sphere(50)), torch.linspace(-1, 1, 50)
    found = _made(20, noise=noise * torch.ones(20, dtype=torch.float64))
    monkeypatch.setattr(working, "RULE", replace(working.RULE, cleaned=most))
    monkeypatch.setattr(working, "clean", lambda points: (0.9 * points, logits))
    places, judged, quality = working._cleaned(x, found)
    torch.testing.assert_close(places, 0.9 * x if cleaned else x)
    assert torch.equal(judged, (logits > 0) if cleaned else torch.zeros(50, dtype=torch.bool))
    assert quality.cleaned == cleaned and torch.equal(quality.noise, found.noise)
    monkeypatch.setattr(working, "clean", lambda points: (points, logits))
    places, judged, quality = working._cleaned(x, found)
    assert places is x and not bool(judged.any()) and not quality.cleaned
    assert bool((quality.noise == 0).all()) == cleaned


def test_only_enough_points_of_ordinary_space_with_lists_long_enough_are_looked_at() -> None:
    def looked_at(n: int, columns: int, k: int) -> bool:
        lists = torch.zeros((n, k), dtype=torch.int64)
        try:
            assert working.is_even(torch.zeros((n, columns)), lists, lists.double(), _ask)
        except _Asked:
            return True
        return False

    assert looked_at(300, 2, 12) and looked_at(300, 3, 30)
    assert not any(looked_at(*each) for each in ((299, 3, 12), (300, 1, 12), (300, 4, 12), (300, 3, 11), (300, 2, 11)))


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("noise", [0.0074, 0.0076])
@pytest.mark.parametrize("strays", [None, False, True])
def test_a_first_look_at_curves_and_solids(
    dimension: int, noise: float, strays: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solid is even; a curve is with noise below .075 spacings, without strays, which a closer look tells where some
    points are far off."""
    x, lists = torch.from_numpy(sphere(400)), torch.zeros((400, 12), dtype=torch.int64)
    few = _made(20, dimension, noise=noise * torch.ones(20, dtype=torch.float64))
    asked: list[tuple[torch.Tensor, torch.Tensor]] = []

    def closer(points: torch.Tensor, found: Any) -> torch.Tensor:
        asked.append(found)
        return torch.arange(400) < (5 if strays else 0)

    seen = SimpleNamespace(even=False)
    monkeypatch.setattr(working, "may_have_strays", lambda *_: strays is not None)
    monkeypatch.setattr(working, "find_strays", closer)
    monkeypatch.setattr(working, "survey", lambda points, scales: few)
    expected = dimension == 3 or (dimension == 1 and noise < 0.0075 and not strays)
    assert working.is_even(x, lists, lists.double(), lambda: seen) == expected
    assert len(asked) == (dimension == 1 and noise < 0.0075 and strays is not None)
    for changes in ({"copies": 2}, {"votes": {dimension: 0.96}}):
        monkeypatch.setattr(working, "survey", lambda points, scales, changes=changes: replace(few, **changes))
        assert not working.is_even(x, lists, lists.double(), lambda: seen)
    monkeypatch.setattr(working, "survey", _ask)
    even = SimpleNamespace(even=True)
    assert working.is_even(x, lists, lists.double(), lambda: even) == (strays is None)
    assert not working.is_even(x, lists, lists.double(), lambda: seen, 2.0)


@pytest.mark.parametrize(("crowded", "expected"), [(1.2, 40), (0.9, 20)])
def test_a_crowded_sample_is_thinned_once_more(
    crowded: float, expected: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it has more than so many times the points asked for."""
    x, one = torch.from_numpy(rng.random((200, 3))), torch.full((30,), 0.1, dtype=torch.float64)
    monkeypatch.setattr(working, "RULE", replace(working.RULE, most=20, crowded=crowded))
    quality = _made(30, centres=x[:30], spacing=one)
    z, bad = working._even(x, quality, one, 40, 0, {})
    assert len(z) == len(bad) == expected
    chosen = x[farthest_points(x, 40, 0)]
    for _ in range(2):
        chosen = working._means(chosen, x, torch.ones_like(x[:, 0]))
    if expected == 20:
        chosen = working._means(chosen[farthest_points(chosen, 20, 0)], x, torch.ones_like(x[:, 0]))
    torch.testing.assert_close(z, chosen)


@pytest.mark.parametrize("given", [False, True])
def test_dense_points_are_thinned_by_a_grid_before_they_are_spread(
    given: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where more than three spacings are asked for, unless they were: cells of a third of the least one."""
    x, centres = torch.from_numpy(rng.random((500, 3))), torch.from_numpy(rng.random((30, 3)))
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(working, "farthest_points", lambda points, n, *_, **__: seen.append(points) or torch.arange(n))
    monkeypatch.setattr(working, "RULE", replace(working.RULE, rounds=1))
    for times in (2.9, 3.1):
        asked = 0.1 * times * torch.linspace(1, 1.5, 30).double() / 1.25
        weight = torch.from_numpy(rng.random(500)) if given else None
        z, _ = working._even(x, _made(30, centres=centres), asked, 20, 0, {}, weight)
        cells, _, counts = working._by_grid(x, 0.1 * times / 1.25 / 3)
        thinned = times > 3 and not given
        torch.testing.assert_close(seen[-1], cells if thinned else x)
        mass = counts if thinned else torch.ones(500, dtype=torch.float64) if weight is None else weight
        torch.testing.assert_close(z, working._means(seen[-1][:20], seen[-1], mass))


def test_means_of_a_noisy_sheet_are_cleaned(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strays among them are those of a logit above 2.5 with less than a tenth of the usual mass."""
    x, one = torch.from_numpy(rng.random((300, 3))), torch.ones(30, dtype=torch.float64)
    weight = torch.tensor([0.02, 0.5, 1, 1, 1], dtype=torch.float64).repeat(60)
    logits = torch.where(torch.arange(300) % 3 == 0, 2.4, 2.6).double()
    monkeypatch.setattr(working, "RULE", replace(working.RULE, rounds=0))
    monkeypatch.setattr(working, "clean", lambda z: (z + 1, logits))
    quality = _made(30, centres=x[:30], noise=0.05 * one)
    for changes, cleaned in (({}, True), ({"cleaned": True}, False), ({"noise": 0 * one}, False)):
        facts: dict[str, Any] = {}
        z, bad = working._even(x, replace(quality, **changes), 0.1 * one, 300, 0, facts, weight)
        own = torch.cdist(z - int(cleaned), x).argmin(1)
        expected = (logits > 2.5) & (weight[own] < 0.1) if cleaned else torch.zeros(300, dtype=torch.bool)
        assert torch.equal(bad, expected) and facts == ({"cleaned": True} if cleaned else {})
        assert bool(bad.any()) == cleaned
    monkeypatch.setattr(working, "RULE", replace(working.RULE, rounds=0, cleaned=299))
    facts = {}
    assert not bool(working._even(x, quality, 0.1 * one, 300, 0, facts, weight)[1].any()) and not facts
    monkeypatch.setattr(working, "RULE", replace(working.RULE, rounds=0, cleaned=300))
    monkeypatch.setattr(working, "clean", lambda z: (z, logits))
    working._even(x, quality, 0.1 * one, 300, 0, facts, weight)
    assert facts == {"cleaned": False}
