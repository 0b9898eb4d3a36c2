"""How a cloud was sampled: spacing, noise, copies, lines and the dimension of its places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.cloud.inspection import Inspection, inspect
from eigenprobe.neighbors.graph import build_graph
from tests import clouds as c


def table(points: np.ndarray) -> Inspection:
    graph = build_graph(torch.from_numpy(np.ascontiguousarray(points)), 30)
    return inspect(graph.points, graph.indices, graph.distances)


def facts(points: np.ndarray) -> dict[str, Any]:
    return ep.decompose(points, 4).info["quality"]


def test_spacing_and_noise_are_those_of_the_samples(rng: np.random.Generator) -> None:
    for level in (0.0, 0.01):
        x = 5 * (c.random_sphere(2000, rng) * (1 + level * rng.normal(size=(2000, 1))))
        found = facts(x)
        assert found["spacing"] == pytest.approx((4 * np.pi * 25 / 2000) ** 0.5, rel=0.15)
        assert found["thickness"] == pytest.approx(5 * level, rel=0.25, abs=0.02)
        assert found["copies"] == 1 and found["anisotropy"] < 1.6
        assert found["dimension_votes"]["2"] > 0.95


@pytest.mark.parametrize("copies", [2, 3, 5])
def test_copies_are_counted(copies: int, rng: np.random.Generator) -> None:
    x = np.repeat(c.random_sphere(1000, rng), copies, 0)
    assert facts(x + 1e-4 * rng.normal(size=x.shape))["copies"] == copies


def test_lines_are_longer_than_they_are_apart(rng: np.random.Generator) -> None:
    line = np.stack(np.meshgrid(np.arange(120.0), 20 * np.arange(20.0)), -1).reshape(-1, 2)
    x = np.c_[line + 0.1 * rng.normal(size=line.shape), np.zeros(len(line))]
    assert facts(x)["anisotropy"] > 1.8
    assert facts(x * [1, 1 / 20, 1])["anisotropy"] < 1.6


@pytest.mark.parametrize(
    ("dimension", "make"),
    [
        (
            1,
            lambda r: np.c_[c.flat_torus(r.random((900, 2)) * [6.28, 0])[:, [0, 2]], np.zeros(900)],
        ),
        (2, lambda r: c.random_sphere(900, r)),
        (2, lambda r: np.c_[r.random((900, 2)), np.zeros(900)]),
        (2, lambda r: r.random((900, 2))),
        (3, lambda r: r.random((2000, 3))),
    ],
)
def test_places_vote_for_a_dimension(dimension: int, make: Any, rng: np.random.Generator) -> None:
    assert facts(make(rng))["dimension_votes"][str(dimension)] > 0.8


def test_numbers_have_the_units_of_the_points_and_no_pose(rng: np.random.Generator) -> None:
    x = c.random_sphere(900, rng) * [1, 0.8, 0.6] + 0.01 * rng.normal(size=(900, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    plain, moved = facts(x), facts(50 * x @ turn + 7)
    for name, power in (("spacing", 1), ("thickness", 1), ("anisotropy", 0)):
        assert moved[name] == pytest.approx(50**power * plain[name], rel=0.02)


def test_it_is_told_of_a_basis(rng: np.random.Generator) -> None:
    x = c.random_sphere(900, rng)
    told = ep.decompose(7 * x, 4).info["quality"]
    assert told["spacing"] == pytest.approx(7 * (4 * np.pi / 900) ** 0.5, rel=0.15)
    assert "quality" not in ep.decompose(x, 4, metric="cosine").info
    assert "quality" not in ep.decompose(x[:200], 4).info
