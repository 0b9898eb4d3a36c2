"""Tests of `sampling.quality`: how a cloud was sampled."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.sampling import quality
from eigenprobe.sampling.farthest import farthest_points
from eigenprobe.sampling.quality import SCALES, Quality, glance, survey
from eigenprobe.search.neighbours import query
from tests import clouds as c


def _even_at_a_glance(points: torch.Tensor) -> bool:
    near, distances = query(points, points, 17)
    return glance(points, near[:, 1:], distances[:, 1:]).even


def test_an_even_sample_looks_even_and_copies_do_not(rng: np.random.Generator) -> None:
    dense = c.random_sphere(8000, rng)
    even = torch.from_numpy(dense[farthest_points(dense, 1500, start=0)])
    assert _even_at_a_glance(even)
    copies = torch.cat([even, even + 1e-6 * torch.from_numpy(rng.normal(size=even.shape))])
    assert not _even_at_a_glance(copies)


@pytest.mark.parametrize("noise", [0.02, 0.04])
def test_the_noise_of_a_sphere_is_measured(noise: float, rng: np.random.Generator) -> None:
    x = c.random_sphere(20_000, rng)
    clean, noisy = (survey(torch.from_numpy(x + s * rng.normal(size=x.shape))) for s in (0.0, noise))
    spacing = math.sqrt(4 * math.pi / 20_000)
    assert float(clean.noise.median()) < 0.1 * spacing
    assert float(noisy.noise.median()) == pytest.approx(noise, rel=0.25)
    assert clean.dimension == noisy.dimension == 2
    assert float(clean.spacing.median()) == pytest.approx(spacing, rel=0.25)


def test_a_clean_cloud_has_its_quality_in_info_too(rng: np.random.Generator) -> None:
    """In the units of the points: 2000 samples of a sphere of radius 5 are .4 apart, sqrt(area / n)."""
    x = rng.normal(size=(2000, 3))
    found = ep.decompose(5 * x / np.linalg.norm(x, axis=1, keepdims=True), k=3).info["quality"]
    assert found["spacing"] == pytest.approx(5 * (4 * np.pi / 2000) ** 0.5, rel=0.1)
    assert found["thickness"] < 0.02 * found["spacing"]
    assert found["anisotropy"] == 1 and found["strays"] == 0 and found["copies"] == 1
    assert found["cleaned"] is False and found["stray_share"] == 0
    assert found["noise_over_spacing"] == pytest.approx(found["thickness"] / found["spacing"], abs=1e-4)


def test_a_narrow_vote_is_said(rng: np.random.Generator) -> None:
    """Half a sphere and half a ball beside it: surface and solid."""
    sphere = rng.normal(size=(3000, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    ball = rng.uniform(-1, 1, (6000, 3))
    ball = ball[np.linalg.norm(ball, axis=1) < 1][:3000] + [2.2, 0, 0]
    said = survey(torch.from_numpy(np.concatenate([sphere, ball]))).narrow(0.6)
    assert said is not None and "a surface in" in said and "a solid in" in said
    assert survey(torch.from_numpy(sphere)).narrow(0.6) is None


def test_even_clouds_have_no_lines_and_facts_are_their_medians(rng: np.random.Generator) -> None:
    x = torch.as_tensor(c.random_sphere(2000, rng))
    found = survey(x)
    facts = found.facts(3, 2000)
    assert facts["anisotropy"] == 1.0 and facts["strays"] == 3 and facts["stray_share"] == 0.0015
    assert facts["spacing"] == pytest.approx(float(found.spacing.median()))
    assert facts["thickness"] == pytest.approx(float(found.noise.median()))
    ratio = float((found.noise / found.spacing).median())
    assert facts["noise_over_spacing"] == pytest.approx(ratio, abs=1e-4)
    assert sum(facts["dimension_votes"].values()) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_spacing_is_a_root_of_the_volume_of_a_point(dimension: int, rng: np.random.Generator) -> None:
    """Length, area or volume over the number of points, in a circle, on a torus without curvature and in a cube."""
    n = 1500
    if dimension == 1:
        angle = 2 * np.pi * np.arange(n) / n
        x, volume = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1), 2 * np.pi
    elif dimension == 2:
        x, volume = np.concatenate([rng.random((n, 2)), np.zeros((n, 1))], 1), 1.0
    else:
        x, volume = rng.random((n, 3)), 1.0
    found = survey(torch.from_numpy(x))
    assert found.dimension == dimension
    assert float(found.spacing.median()) == pytest.approx((volume / n) ** (1 / dimension), rel=0.15)


def test_the_noise_of_a_curve_is_its_deviation_from_parabolas(rng: np.random.Generator) -> None:
    """Against loops over points and scales: medians over the nearest centres, the first scale at which it is thin."""
    n = 300
    angle = np.sort(rng.random(n)) * 2 * np.pi
    x = np.stack([np.cos(angle), np.sin(angle)], 1) * (1 + 0.01 * rng.normal(size=(n, 1)))
    distance = np.linalg.norm(x[:, None] - x, axis=2)
    order = distance.argsort(1, kind="stable")
    counts = [count for count in SCALES.counts if count <= n // 4]
    bend, reach = np.zeros((n, len(counts))), np.zeros((n, len(counts)))
    for column, count in enumerate(counts):
        for i in range(n):
            near = x[order[i, : count + 1]] - x[i]
            reach[i, column] = distance[i, order[i, count]]
            axes = np.linalg.eigh(np.cov(near.T))[1]
            across, along = (near @ axes).T
            rest = np.polyval(np.polyfit(along, across, 2), along) - across
            bend[i, column] = np.sqrt((rest**2).sum() / (len(rest) - 3))
    around = order[:, : SCALES.around]
    bend, reach = np.median(bend[around], 1), np.median(reach[around], 1)
    expected = []
    for row, radius in zip(bend, reach, strict=True):
        scale = next((i for i, thin in enumerate(row <= SCALES.flat * radius) if thin), len(counts) - 1)
        expected.append(min(row[scale], row[min(scale + 1, len(counts) - 1)]))
    found = survey(torch.from_numpy(x), dimension=1)
    np.testing.assert_allclose(found.noise, expected, rtol=1e-5)
    np.testing.assert_allclose(found.spacing, 2 * reach[:, 0] / (counts[0] + 1), rtol=1e-9)


def _quadric(near: np.ndarray, terms: int) -> tuple[float, float]:
    """Deviation of points from a quadric (six terms) or parabola (three) over their principal plane or axis."""
    local = near @ np.linalg.eigh(np.cov(near.T, bias=True))[1][:, ::-1]
    x, y = local[:, 0], local[:, 1]
    columns = [np.ones_like(x), x, x * x] + ([y, x * y, y * y] if terms == 6 else [])
    rest = local[:, 2:] if terms == 6 else local[:, 1:]
    design = np.stack(columns, 1)
    squared = ((rest - design @ np.linalg.lstsq(design, rest, rcond=None)[0]) ** 2).sum(1)
    deviation = np.sqrt(squared.sum() / (len(near) - terms) / rest.shape[1])
    return deviation, (squared**2).mean() / squared.mean() ** 2


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("terms", [3, 6])
def test_deviations_from_quadrics_are_those_of_least_squares(
    columns: int, terms: int, rng: np.random.Generator
) -> None:
    offsets = rng.normal(size=(7, 20, columns)) * np.linspace(3, 0.3, columns)
    radius = np.linalg.norm(offsets, axis=2).max(1)
    values, axes = quality._axes(torch.from_numpy(offsets))
    for found, near in zip(values.numpy(), offsets, strict=True):
        np.testing.assert_allclose(found, np.linalg.eigvalsh(np.cov(near.T, bias=True)), rtol=1e-9)
    given = (torch.from_numpy(offsets), axes, torch.from_numpy(radius), 1 if terms == 3 else 2)
    deviation, kurtosis = quality._residual(*given)
    if terms == 6 and columns == 2:  # nothing stands out of a plane
        assert bool((deviation == 0).all()) and bool((kurtosis == 3).all())
        return
    expected = np.array([_quadric(near, terms) for near in offsets])
    np.testing.assert_allclose(deviation, expected[:, 0], rtol=1e-6)
    np.testing.assert_allclose(kurtosis, expected[:, 1], rtol=1e-5)


def _lined(n: int, rng: np.random.Generator) -> np.ndarray:
    """A plane of lines, twenty times as far apart as their points."""
    lines = round((n / 20) ** 0.5)
    y, x = np.meshgrid(np.arange(lines), np.arange(n // lines) * lines / (n // lines))
    flat = np.stack([x.ravel(), y.ravel()], 1) + 0.01 * rng.random((x.size, 2))
    return np.column_stack([flat, 0.02 * rng.normal(size=len(flat))])


@pytest.mark.parametrize("kind", ["even", "lines", "noisy", "copies", "few"])
def test_a_glance_is_its_formulas(kind: str, rng: np.random.Generator) -> None:
    """Every third point: axes of its sixteen nearest, their deviation from a quadric, and how many are copies."""
    x = {
        "even": lambda: c.even(c.random_sphere, 1200, rng),
        "lines": lambda: _lined(1200, rng),
        "noisy": lambda: c.random_sphere(1200, rng) + 0.03 * rng.normal(size=(1200, 3)),
        "copies": lambda: np.repeat(c.even(c.random_sphere, 600, rng), 2, 0) + 1e-6 * rng.normal(size=(1200, 3)),
        "few": lambda: c.random_sphere(900, rng) + 0.04 * rng.normal(size=(900, 3)),
    }[kind]()
    n = len(x)
    distance = np.linalg.norm(x[:, None] - x, axis=2)
    order = distance.argsort(1)[:, 1:21]
    sizes, spacing, thickness, kurtosis, several = [], [], [], [], []
    for i in range(0, n, n // 400):
        near = x[order[i, :16]] - x[i]
        reach = distance[i, order[i, 15]]
        sizes.append(np.linalg.eigvalsh(np.cov(near.T, bias=True)))
        spacing.append(reach * np.sqrt(np.pi / 17))
        found = _quadric(near, 6)
        thickness.append(found[0])
        kurtosis.append(found[1])
        several.append((distance[i, order[i, :16]] < 0.1 * reach).sum())
    axes, h, sigma = np.array(sizes), np.array(spacing), np.array(thickness)
    lined = (axes[:, 1] < 0.4 * axes[:, 2]).mean() >= 0.3
    rough = (sigma > 0.13 * h) & (np.array(kurtosis) > 1.9) & (n >= 1000)
    even = not lined and rough.mean() < 0.5 and np.sort(several)[(len(several) - 1) // 2] < 1
    lists = (torch.from_numpy(order), torch.from_numpy(np.take_along_axis(distance, order, 1)))
    found = glance(torch.from_numpy(x), *lists)
    assert found.even == even == (kind in ("even", "few"))
    middle = (len(h) - 1) // 2
    assert found.spacing == pytest.approx(np.sort(h)[middle]) and found.thickness == pytest.approx(
        np.sort(sigma)[middle]
    )
    longer = np.sort(np.sqrt(axes[:, 2] / axes[:, 1]))[middle]
    assert found.anisotropy == pytest.approx(longer if lined else 1.0) and lined == (kind == "lines")
    facts = found.facts(10.0)
    assert facts["spacing"] == pytest.approx(10 * found.spacing)
    assert facts["thickness"] == pytest.approx(10 * found.thickness)
    assert facts["noise_over_spacing"] == pytest.approx(found.thickness / found.spacing, abs=1e-4)
    assert (
        facts["copies"] == 1
        and facts["strays"] == 0
        and facts["anisotropy"] == pytest.approx(longer if lined else 1, abs=0.01)
    )


@pytest.mark.parametrize("kind", ["noise", "lines", "copies", "solid"])
def test_a_survey_is_its_formulas(kind: str, rng: np.random.Generator) -> None:
    """Against loops over points and scales: medians over nine centres, the first scale that has two lasting sides."""
    x = {
        "noise": lambda: c.random_sphere(600, rng) + 0.05 * rng.normal(size=(600, 3)),
        "lines": lambda: _lined(600, rng),
        "copies": lambda: np.repeat(c.random_sphere(200, rng), 3, 0) + 1e-6 * rng.normal(size=(600, 3)),
        "solid": lambda: rng.random((600, 3)),
    }[kind]()
    n, counts = len(x), [count for count in SCALES.counts if count <= len(x) // 4]
    distance = np.linalg.norm(x[:, None] - x, axis=2)
    order = distance.argsort(1)
    sides, sigma, reach, kurtosis = (np.zeros((n, len(counts))) for _ in range(4))
    for column, count in enumerate(counts):
        for i in range(n):
            near = x[order[i, : count + 1]] - x[i]
            values = np.linalg.eigvalsh(np.cov(near.T, bias=True))
            sides[i, column], reach[i, column] = values[1] / values[2], distance[i, order[i, count]]
            sigma[i, column], kurtosis[i, column] = _quadric(near, 6)
    copies = np.sort((np.sort(distance, 1)[:, : counts[-1] + 1] < 0.1 * np.sort(distance, 1)[:, [16]]).sum(1))
    sides, sigma, reach, kurtosis = (np.median(each[order[:, :9]], 1) for each in (sides, sigma, reach, kurtosis))
    around = sides >= 0.4
    lasting = around & np.column_stack([around[:, 1:], around[:, -1]])
    flat = sigma <= 0.25 * reach
    label = np.where(lasting.any(1), np.where(flat.any(1), 2, 3), 1)
    scales = replace(SCALES, many=len(x))
    found = survey(torch.from_numpy(x), scales=scales)
    assert found.votes == pytest.approx({each: (label == each).mean() for each in (1, 2, 3)})
    dimension = 3 if kind == "solid" else 2
    assert found.dimension == dimension and len(found.centres) == n
    first, rows = lasting.argmax(1), np.arange(n)
    ball = (math.pi, 4 * math.pi / 3)[dimension - 2]
    expected = (ball * reach[rows, first] ** dimension / (np.array(counts)[first] + 1)) ** (1 / dimension)
    np.testing.assert_allclose(found.spacing, expected, rtol=1e-6)
    if kind == "solid":
        assert not bool(found.noise.any()) and not bool(found.lines.any())
        return
    np.testing.assert_allclose(found.lines, np.where(first > 0, reach[rows, first], 0), rtol=1e-6)
    assert bool((found.lines > 0).double().mean() > 0.5) == (kind in ("lines", "copies"))
    scale = np.maximum(np.where(flat.any(1), flat.argmax(1), len(counts) - 1), first)
    after = np.minimum(scale + 1, len(counts) - 1)
    noise = np.where(kurtosis[rows, scale] > 1.9, np.minimum(sigma[rows, scale], sigma[rows, after]), 0)
    np.testing.assert_allclose(found.noise, noise, rtol=1e-4, atol=2e-6 if kind == "copies" else 1e-9)
    fewer = survey(torch.from_numpy(x), scales=replace(SCALES, many=len(x) + 1))  # too few to tell either
    assert not bool(fewer.noise.any()) and not bool(fewer.lines.any())
    assert found.copies == copies[(n - 1) // 2] == (3 if kind == "copies" else 1)
    lined = found.facts(0, n)["anisotropy"]
    ratio = np.sort((found.lines / found.spacing)[found.lines > 0])
    if kind == "lines":
        assert lined == pytest.approx(ratio[(len(ratio) - 1) // 2], abs=0.01)
    known = survey(torch.from_numpy(x), dimension=1)
    np.testing.assert_allclose(known.spacing, 2 * reach[:, 0] / 13, rtol=1e-9)


def test_very_many_points_are_looked_at_by_some_of_them_too(rng: np.random.Generator) -> None:
    """Where these see more noise than all do, they speak: at the spacing of all, by the share of them."""
    x = torch.from_numpy(c.random_sphere(3000, rng))
    for noise, apart in ((0.05, False), (0.2, True)):
        points = x + noise * torch.from_numpy(rng.normal(size=(3000, 3)))
        scales = replace(SCALES, dense=1200, centres=300)
        some = torch.randperm(3000, generator=torch.Generator().manual_seed(4))[:1200]
        whole, part = (quality._survey(each, 4, scales, None) for each in (points, points[some]))
        found = survey(points, 4, scales)
        assert torch.equal(found.centres, part.centres if apart else whole.centres)
        expected = part.spacing * 0.4 ** (1 / part.dimension) if apart else whole.spacing
        torch.testing.assert_close(found.spacing, expected)
        assert not apart or (not bool(found.lines.any()) and found.copies == whole.copies)
        same = survey(points, 4, replace(scales, dense=1500))  # not more than twice as many
        assert torch.equal(same.centres, whole.centres) and torch.equal(same.spacing, whole.spacing)


def _made(noise: list[float], **other: Any) -> Quality:
    one = torch.ones(len(noise), dtype=torch.float64)
    usual = {"votes": {1: 0.0, 2: 1.0, 3: 0.0}, "spacing": 2 * one, "lines": 0 * one, "copies": 1}
    return Quality(torch.zeros(len(noise), 3), 2, **{**usual, "noise": torch.tensor(noise).double(), **other})


def test_noise_has_one_level_and_details_have_not() -> None:
    """In spacings of 2: above .25 for sure; above .15 where a fifth of the places sees at least .6 of the median."""
    rule = (0.15, 0.25, 0.6)
    assert _made([0.52] * 5).noisy(*rule) and _made([0.0, 0.0, 0.52, 0.52, 0.52]).noisy(*rule)
    assert _made([0.4] * 5).noisy(*rule) and not _made([0.28] * 5).noisy(*rule)
    assert _made([0.0, 0.26, 0.4, 0.4, 0.4, 0.4]).noisy(*rule) and not _made([0.0, 0.22, 0.4, 0.4, 0.4, 0.4]).noisy(
        *rule
    )


def test_a_vote_in_words() -> None:
    said = _made([0.0], votes={1: 0.05, 2: 0.5, 3: 0.45}).narrow(0.6)
    assert (
        said
        == "the cloud looks like a surface in 50% and like a solid in 45% of its places, and is taken for a surface"
    )
    assert _made([0.0], votes={1: 0.0, 2: 0.6, 3: 0.4}).narrow(0.6) is None


def test_anisotropy_is_told_of_lines_in_a_third_of_the_places() -> None:
    few, many = ([6.0] * count + [0.0] * (10 - count) for count in (3, 4))
    for lines, expected in ((few, 1.0), (many, 3.0)):
        facts = _made([0.0] * 10, lines=torch.tensor(lines).double()).facts(1, 10)
        assert facts["anisotropy"] == expected and facts["stray_share"] == 0.1


def test_a_glance_at_fewer_neighbours(rng: np.random.Generator) -> None:
    """Of twelve: their last distance is the radius."""
    x = c.even(c.random_sphere, 500, rng)
    near, distances = query(torch.from_numpy(x), torch.from_numpy(x), 13)
    found = glance(torch.from_numpy(x), near[:, 1:], distances[:, 1:])
    assert found.even and found.spacing == pytest.approx(float(distances[:, 12].median()) * math.sqrt(math.pi / 13))


def test_facts_are_rounded_for_people() -> None:
    lines = torch.full((7,), 5.4321, dtype=torch.float64)
    facts = _made([0.34375] * 7, lines=lines, votes={1: 1 / 7, 2: 6 / 7}, copies=3).facts(1, 7)
    expected = {"spacing": 2.0, "thickness": 0.34375, "noise_over_spacing": 0.1719, "anisotropy": 2.72, "copies": 3}
    expected |= {"cleaned": False, "strays": 1, "stray_share": 0.14286, "dimension_votes": {"1": 0.143, "2": 0.857}}
    assert facts == expected
    expected = {"spacing": pytest.approx(2.1), "thickness": pytest.approx(0.3), "noise_over_spacing": 0.1429}
    expected |= {"anisotropy": 1.23, "copies": 1, "cleaned": False, "strays": 0, "stray_share": 0.0}
    assert quality.Glance(True, 0.7, 0.1, 1.2345).facts(3.0) == expected
    assert quality.Glance(True, 0.0, 0.0, 1.0).facts(1.0)["noise_over_spacing"] == 0


def test_a_place_was_sampled_once_at_least(rng: np.random.Generator) -> None:
    """Even where the sixteenth neighbour is a copy too, and no length is there to compare with."""
    x = torch.from_numpy(np.repeat(rng.random((30, 3)), 20, axis=0))
    assert quality._survey(x, 0, SCALES, 2).copies == 1
    few = torch.from_numpy(np.repeat(c.random_sphere(300, rng), 3, axis=0))
    assert quality._survey(few, 0, SCALES, 2).copies == 3


@pytest.mark.parametrize("columns", [2, 3])
def test_all_places_of_a_curve_vote_for_one(columns: int, rng: np.random.Generator) -> None:
    """And each place has a vote."""
    angle = np.sort(rng.random(400)) * 2 * math.pi
    x = np.zeros((400, columns))
    x[:, :2] = np.stack([np.cos(angle), np.sin(angle)], 1)
    found = survey(torch.from_numpy(x))
    assert found.dimension == 1 and found.votes[1] > 0.9 and sum(found.votes.values()) == pytest.approx(1)
