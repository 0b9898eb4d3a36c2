"""Tests of `estimators.solvers`: the closed form of an embedding."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.estimators import solvers
from eigenprobe.graph.arranged import arrange
from eigenprobe.graph.graph import build_graph
from eigenprobe.smoothers import Smoother, neighbourhood_smoother
from eigenprobe.smoothers.smoother import csr
from tests.estimators.test_coordinates import _parts


def test_columns_of_parts_are_principal_directions_of_their_centres(rng: np.random.Generator) -> None:
    smoother = _parts(rng)
    count, labels = smoother.components
    assert count == 5
    columns = solvers._part_columns(smoother, 3).numpy()
    np.testing.assert_allclose(columns.T @ columns, np.eye(3), atol=1e-12)
    mass = smoother.mass.double().numpy()
    v = columns / np.sqrt(mass)[:, None]
    np.testing.assert_allclose(np.abs(v[:, 0]), 1, rtol=1e-6)
    x, weight = smoother.graph.points.numpy(), np.bincount(labels, mass)
    centres = np.stack([np.bincount(labels, mass * x[:, j]) / weight for j in range(3)], 1)
    values = np.array([v[labels.numpy() == part][0] for part in range(5)])
    for part in range(5):
        np.testing.assert_allclose(v[labels.numpy() == part], values[[part]].repeat((labels == part).sum(), 0))
    spread = (centres - weight @ centres) * np.sqrt(weight)[:, None]
    left = np.linalg.svd(spread, full_matrices=False)[0][:, :2]
    overlap = np.abs(left.T @ (values[:, 1:] * np.sqrt(weight)[:, None]))
    np.testing.assert_allclose(overlap, np.eye(2), atol=1e-6)


def test_vectors_that_are_not_found_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    cloud = arrange(torch.from_numpy(rng.normal(size=(300, 8))), 12, 5)
    monkeypatch.setattr(solvers, "needed_vectors", lambda *_: 30)
    asked, exact = [], solvers.solve

    def solve(smoother: Smoother, k: int, **options: Any) -> Any:
        asked.append(k)
        return exact(smoother, k, **options)._replace(residual=0.1 if k == 30 else 1e-6)

    monkeypatch.setattr(solvers, "solve", solve)
    assert solvers.fit_direct(cloud, 5, 0, None, 2.5).k == 5 and asked == [30, 5]


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_large_parts_among_many_keep_their_insides(rng: np.random.Generator) -> None:
    """A body of three groups and 110 islands: with 100 vectors constant on the parts the body would be one place."""
    group, island = rng.integers(3, size=400), np.repeat(np.arange(110), 14)
    body = rng.standard_normal((400, 10)) + 3 * rng.standard_normal((3, 10))[group]
    x = np.concatenate([body, 40 * rng.standard_normal((110, 10))[island] + rng.standard_normal((len(island), 10))])
    model = OptimalApproximationEigenmaps(6, diffusion_steps=30.0, random_state=0, device="cpu").fit(x)
    mapped = OptimalApproximationEigenmaps(6, random_state=0, device="cpu").fit(x)
    parts = model.basis_.info["components"]
    assert parts > solvers.MOST_FOLDED and model.suggest_components_ == parts - 1
    assert model.basis_.k == solvers.MOST_FOLDED + 1 and model.basis_.info["residual"] < solvers.TOLERANCE
    smoother = neighbourhood_smoother(model._graph)
    q, matrix = model.basis_.normalized.astype(np.float64), smoother.matrix.to_dense().double().numpy()
    mu = 1 - model.basis_.eigenvalues * model.basis_.info["step_time"]
    np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), atol=1e-5)
    assert np.linalg.norm(matrix @ q - q * mu, axis=0).max() < 2e-5
    inside = np.linalg.eigvalsh(matrix)[::-1][parts : parts + 5]  # the leading ones are those of the largest parts
    np.testing.assert_allclose(mu[51:56], inside, atol=1e-5)
    labels = np.append(group, 3 + island)
    for y in (model.embedding_, mapped.embedding_):
        assert KNeighborsClassifier().fit(y[::2], labels[::2]).score(y[1::2], labels[1::2]) > 0.97
    assert mapped.basis_.k == 7 and mapped.coordinates_ == "map"


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_groups_that_end_at_the_last_coordinate_are_not_folded(rng: np.random.Generator) -> None:
    """Ten digits in ten coordinates (ARI .80 folded, .85 not); five groups in ten, whose insides never end."""
    from sklearn.datasets import load_digits

    def fitted(x: np.ndarray) -> OptimalApproximationEigenmaps:
        return OptimalApproximationEigenmaps(10, random_state=0, device="cpu").fit(x)

    digits = fitted(load_digits().data)
    assert digits.basis_.k == 11 and digits.suggest_components_ == 10
    x = rng.standard_normal((900, 20)) + 1.2 * rng.standard_normal((5, 20))[rng.integers(5, size=900)]
    few = fitted(x)
    assert few.basis_.k == 11 and few.suggest_components_ == 4


@pytest.mark.parametrize(("n", "bulk"), [(9000, 0.6), (200_000, 0.75), (1_000_000, 0.77)])
def test_what_is_inside_of_groups_is_no_group(n: int, bulk: float) -> None:
    """Twenty values of 1, and as many as rows below: each adds a little to the trace, a million of them hundreds."""
    values = torch.full((n,), bulk)
    values[:20] = 1
    every = torch.arange(n + 1)
    smoother = Smoother("diagonal", csr(every, every[:-1], values, (n, n)), None, torch.full((n,), 1 / n), 1.0, 2.0)
    smoother.__dict__["components"] = (1, torch.zeros(n, dtype=torch.int64))
    assert solvers.needed_vectors(smoother, 21, 2.5) == 21
    assert solvers.needed_vectors(smoother, 4, 2.5) in range(40, 44), "twice as many as groups"


def test_groups_ask_for_twice_as_many_vectors(rng: np.random.Generator) -> None:
    """Groups that a walk does not leave: twice their number and the constant; at most a quarter of the rows."""
    x = torch.from_numpy(np.repeat(100.0 * rng.normal(size=(12, 4)), 20, 0) + rng.normal(size=(240, 4)))
    smoother = neighbourhood_smoother(build_graph(x, 6))
    traced = np.trace(np.linalg.matrix_power(smoother.matrix.to_dense().double().numpy(), 30))
    found = solvers.needed_vectors(smoother, 5, 1.0)
    assert traced > 12 and abs(found - 1 - 2 * traced) < 0.2 * 2 * traced
    few = neighbourhood_smoother(build_graph(x[::5], 3))  # 48 rows: a quarter are 12
    assert solvers.needed_vectors(few, 3, 1.0) == 13
    assert solvers.needed_vectors(few, 40, 1e9) == 40


def test_gaps_say_how_many_vectors_overlapping_groups_need() -> None:
    steady = np.linspace(0.05, 0.09, 40)  # which leaves no place to stop
    assert solvers.needed_by_gaps(steady, 10, 10) == solvers.MOST_FOLDED
    ended = np.concatenate([np.linspace(0.01, 0.07, 24), np.linspace(0.2, 0.25, 16)])
    assert solvers.needed_by_gaps(ended, 10, 10) == 48
    here = np.concatenate([np.linspace(0.01, 0.02, 10), np.linspace(0.1, 0.14, 30)])
    assert solvers.needed_by_gaps(here, 10, 10) == 10, "the gap is that of the vectors asked for"
    near = np.concatenate([np.linspace(0.01, 0.02, 12), np.linspace(0.1, 0.14, 28)])
    assert solvers.needed_by_gaps(near, 10, 10) == 10, "a few more"
    grown = np.concatenate([np.linspace(0.001, 0.07, 24), np.linspace(0.2, 0.25, 16)])
    assert solvers.needed_by_gaps(grown * np.arange(1, 41), 10, 10) == 10, "what follows is not like the first"
    assert solvers.needed_by_gaps(np.zeros(40), 10, 10) == solvers.MOST_FOLDED
    assert solvers.largest_gap(1 - ended) == 24 and solvers.largest_gap(np.array([0.5])) == 1
    # Groups that end below the tenth vector: what is beyond hardly grows, because it is inside of them.
    inside = np.concatenate([np.linspace(0.01, 0.02, 7), np.linspace(0.2, 0.24, 33)])
    assert solvers.needed_by_gaps(inside, 10, 10) == 10 and solvers.largest_gap(1 - inside) == 7


def test_gaps_grow_by_the_power_of_weyls_law() -> None:
    """A gap of separate parts counts for as much as it is wide, the first one too."""
    for power in (2.0, 1.0, 0.4):
        np.testing.assert_allclose(solvers.gap_strengths(0.01 * np.arange(1, 30) ** power), power)
    assert solvers.largest_gap(1 - np.r_[1e-9, 0.001 * np.arange(1, 90) ** 1.2]) == 1, "two parts"
    small, nested = 1e-3 * np.arange(1, 12), 0.2 + 1e-3 * np.arange(60)
    assert solvers.needed_by_gaps(np.r_[small, nested], 10, 62) == 10, "groups that end at the eleventh"
    assert solvers.needed_by_gaps(np.r_[small, nested, 0.9 + 1e-4 * np.arange(20)], 10, 62) == 62, "twelve of six"
    assert solvers.needed_by_gaps(np.r_[small, nested[:9], 0.6 + 1e-3 * np.arange(20)], 10, 10) == 10, "unlike them"
    within = np.r_[small[:9], np.linspace(0.02, 0.05, 11), 0.6 + 1e-3 * np.arange(20)]
    assert solvers.needed_by_gaps(within, 10, 10) == 40, "ten of two"
    assert solvers.needed_by_gaps(np.linspace(0.1, 0.2, 40), 10, 30) == 30, "no gap at all"


def _stub(n: int, size: float = 1.0, parts: int = 1, dimension: float = 9.0) -> Any:
    """A smoother whose powers are multiples, and the numbers of steps that it was asked for."""
    asked: list[int] = []
    power = lambda x, steps: asked.append(steps) or size * x  # noqa: E731
    facts = {"components": (parts, None), "dimension": dimension, "asked": asked}
    return SimpleNamespace(n=n, matrix=torch.zeros(1), power=power, **facts)


def test_a_trace_is_that_of_a_walk_and_longer_for_large_tables() -> None:
    """tr A^30 by half of the steps, squared; 5 more for every five times as many rows above ten thousand."""
    for n, steps in ((100, 15), (10_000, 15), (12_000, 15), (50_000, 20), (250_000, 25)):
        smoother = _stub(n, 1e-3)
        assert solvers.needed_vectors(smoother, 5, 1.0) == 5 and smoother.asked == [steps]
    groups = lambda count: (count / 400) ** 0.5  # noqa: E731  # of 400 rows: n size^2 of them
    assert solvers.needed_vectors(_stub(400, groups(12.4)), 5, 2.5) == 5  # 12.5 or fewer are enough
    assert solvers.needed_vectors(_stub(400, groups(12.6)), 5, 2.5) == 26
    assert solvers.needed_vectors(_stub(400, groups(70)), 5, 2.5) == 101  # a quarter of the rows
    assert solvers.needed_vectors(_stub(4000, (70 / 4000) ** 0.5), 5, 2.5) == solvers.MOST_FOLDED + 1
    assert solvers.needed_vectors(_stub(400, groups(4), parts=6), 5, 2.5) == 9  # more parts than vectors
    assert solvers.needed_vectors(_stub(400, groups(4), parts=5), 5, 2.5) == 5
    assert solvers.needed_vectors(_stub(400, groups(1), parts=9), 5, 2.5) == 5  # never fewer than asked for


@pytest.mark.parametrize(
    ("n", "dimension", "groups", "expected"),
    [
        *((641, 9.0, 2.5, True), (640, 9.0, 2.5, False)),  # 16 rows for four times as many groups as ten vectors
        *((20_000, 9.0, 2.5, True), (20_001, 9.0, 2.5, False)),
        *((900, 9.0, math.inf, False), (900, 9.0, 1e9, True), (900, 6.0, 1e9, False), (900, 6.1, 2e9, True)),
        (900, 2.0, 2.5, True),  # no shape
    ],
)
def test_which_tables_may_have_overlapping_groups(n: int, dimension: float, groups: float, expected: bool) -> None:
    assert solvers._may_go_on(_stub(n, dimension=dimension), 10, groups) == expected


def test_vectors_are_solved_for_once_or_as_many_as_gaps_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as many are looked at where a trace asks for no more; of a residual that is lost, those asked for."""
    asked: list[int] = []
    needs, residual = [10], [0.0]

    def solve(smoother: Any, k: int, tol: float, start: Any, generator: Any) -> Any:
        asked.append(k)
        gaps = torch.arange(float(k))
        return solvers.Eigenpairs(torch.zeros(900, k), gaps)._replace(residual=residual[0])

    monkeypatch.setattr(solvers, "solve", solve)
    monkeypatch.setattr(solvers, "needed_by_gaps", lambda gaps, k, traced: needs[0])
    generator = torch.Generator()

    def found(asked_for: int, count: int, further: bool, n: int = 900) -> tuple[int, list[int]]:
        asked.clear()
        pairs = solvers._enough(_stub(n), asked_for, count, further, None, generator)
        return len(pairs.gaps), list(asked)

    assert found(11, 11, False) == (11, [11]) and found(11, 40, False) == (40, [40])
    assert found(11, 11, True) == (11, [41, 11])
    needs[0] = 24
    assert found(11, 11, True) == (25, [41, 25]) and found(11, 11, True, n=60) == (16, [41, 16])
    needs[0] = 3
    assert found(11, 11, True) == (11, [41, 11])  # never fewer
    assert found(11, 30, True) == (11, [101, 11])
    needs[0] = 100
    assert found(11, 30, True) == (101, [101]) and found(11, 120, True) == (120, [120])
    residual[0] = 1.01 * solvers.INSIDE * solvers.TOLERANCE
    assert found(11, 40, False) == (11, [40, 11]) and found(11, 11, False) == (11, [11])
    residual[0] = 0.99 * solvers.INSIDE * solvers.TOLERANCE
    assert found(11, 40, False) == (40, [40])


def test_new_rows_start_from_averages_of_known_neighbours(rng: np.random.Generator) -> None:
    """Without the constant; of neighbours that are new as well there is nothing to average."""
    x = torch.from_numpy(rng.normal(size=(40, 3)))
    cloud = arrange(x, 5, 3)
    known = torch.from_numpy(rng.normal(size=(25, 4)))
    found = solvers.starting_vectors(known, cloud)
    assert found.shape == (40, 3)
    torch.testing.assert_close(found[:25], known[:, 1:])
    for i in range(25, 40):
        old = [int(j) for j in cloud.graph.indices[i] if j < 25]
        expected = known[old, 1:].mean(0) if old else torch.zeros(3, dtype=torch.float64)
        torch.testing.assert_close(found[i], expected)
    with pytest.warns(UserWarning, match="coincide"):
        copied = arrange(torch.cat([x[:3], x]), 5, 3)
    values = torch.from_numpy(rng.normal(size=(25, 4)))
    assert copied.kept is not None
    torch.testing.assert_close(solvers.starting_vectors(values, copied)[:3], values[copied.kept[:3], 1:])
    assert torch.equal(copied.kept[3:6], torch.tensor([6, 7, 8]))


@pytest.mark.parametrize(
    ("asked", "count", "parts", "n", "maps", "way"),
    [
        *((5, 20, 9, 4000, True, "mapped"), (5, 20, 9, 4000, False, "enough"), (5, 20, 5, 4000, True, "enough")),
        *((5, 20, 30, 4000, False, "insides"), (5, 20, 30, 20_001, True, "insides"), (5, 5, 9, 4000, True, "enough")),
    ],
)
def test_which_vectors_a_table_gets(
    asked: int, count: int, parts: int, n: int, maps: bool, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A map of more parts than vectors has those asked for; elsewhere half of them are inside of the largest parts."""
    went: list[Any] = []

    def pairs(k: int) -> Any:
        return solvers.Eigenpairs(torch.zeros(7, k), torch.arange(float(k)))._replace(residual=0.0, solver="none")

    monkeypatch.setattr(solvers, "described", lambda cloud: (_stub(n), {"components": parts}))
    monkeypatch.setattr(solvers, "needed_vectors", lambda *given: count)
    monkeypatch.setattr(solvers, "solve", lambda smoother, k, **how: went.append("mapped") or pairs(k))
    monkeypatch.setattr(solvers, "_parts_and_insides", lambda smoother, k, g: went.append("insides") or pairs(k))
    monkeypatch.setattr(solvers, "_enough", lambda *given: went.append(("enough", given[3])) or pairs(given[2]))
    monkeypatch.setattr(solvers, "_part_columns", lambda smoother, k: torch.ones(7, k))
    monkeypatch.setattr(solvers, "basis_from_span", lambda span, smoother, k, cloud, extension, info: (span, k, info))
    span, k, info = solvers.fit_direct(None, asked, 0, None, 2.5, maps)  # type: ignore[arg-type, misc]
    if way == "enough":
        more = count == asked or (parts <= asked and 400 < n <= 20_000)
        assert went == [("enough", more)]
    else:
        assert went == [way]
    mapped = way == "mapped" or (maps and n <= 20_000 and count > asked and way == "enough")
    assert info["mapped"] == mapped and k == (asked if mapped else count)
    assert bool(span.columns.any()) == (k == asked < parts)  # functions that are constant on the parts
