"""Curves, surfaces and solids are told apart, sample by sample and as a whole, thin and noisy ones too."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from eigenprobe.graph import estimate_dimension, local_dimension, stack
from eigenprobe.graph import graph as dimensions
from eigenprobe.graph.graph import Graph, build_graph
from tests import clouds as c


def dimension(points: np.ndarray) -> float:
    return estimate_dimension(build_graph(torch.as_tensor(points), 30))


def plate(n: int, thickness: float, rng: np.random.Generator, even: bool) -> np.ndarray:
    """The surface of a box 1 x 1 x t, t that many spacings."""
    t = thickness * (2 / n) ** 0.5
    for _ in range(5):
        t = thickness * ((2 + 4 * t) / n) ** 0.5

    def draw(m: int, rng: np.random.Generator) -> np.ndarray:
        axis = rng.choice(3, size=m, p=np.array([t, t, 1]) / (1 + 2 * t))
        x = rng.random((m, 3))
        x[np.arange(m), axis] = rng.integers(2, size=m)
        return x * [1, 1, t]

    return c.even(draw, n, rng) if even else draw(n, rng)


def tube(n: int, radius: float, rng: np.random.Generator, solid: bool) -> np.ndarray:
    """A long cylinder of that many spacings of radius, hollow or filled."""
    length = n / (np.pi * radius**2 if solid else 2 * np.pi * radius)

    def draw(m: int, rng: np.random.Generator) -> np.ndarray:
        angle, distance = 2 * np.pi * rng.random(m), radius * np.sqrt(rng.random(m) if solid else np.ones(m))
        return np.stack([distance * np.cos(angle), distance * np.sin(angle), length * rng.random(m)], 1)

    return c.even(draw, n, rng)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("thickness", [1, 1.3, 1.6, 2, 2.5, 4])
def test_a_thin_plate_is_a_surface(thickness: float, even: bool, rng: np.random.Generator) -> None:
    assert dimension(plate(1500, thickness, rng, even)) == 2


@pytest.mark.parametrize("radius", [1, 1.5, 3])
def test_a_thin_tube_is_a_surface(radius: float, rng: np.random.Generator) -> None:
    assert dimension(tube(1000, radius, rng, solid=False)) == 2


@pytest.mark.parametrize("radius", [2, 4])
def test_a_rod_is_solid(radius: float, rng: np.random.Generator) -> None:
    assert dimension(tube(1000, radius, rng, solid=True)) == 3


@pytest.mark.parametrize("thickness", [3, 6])
def test_a_slab_is_solid(thickness: float, rng: np.random.Generator) -> None:
    assert dimension(rng.random((1500, 3)) * [1, 1, (thickness / 1500 ** (1 / 3)) ** 1.5]) == 3


@pytest.mark.parametrize("n", [500, 1500, 4000])
def test_a_noisy_surface_is_a_surface(n: int, rng: np.random.Generator) -> None:
    for noise in (0, 0.005, 0.01, 0.02):
        assert dimension(c.even(c.random_sphere, n, rng) + noise * rng.normal(size=(n, 3))) == 2


@pytest.mark.parametrize(("noise", "expected"), [(0, {1}), (0.5, {1}), (1, {1}), (6, {2, 3})])
def test_a_noisy_curve(noise: float, expected: set[int], rng: np.random.Generator) -> None:
    """Noise in spacings: below one it is a curve, far above it is a tube."""
    t = 6 * rng.random(800)
    helix = np.stack([np.cos(t), np.sin(t), 0.5 * t], 1)
    assert dimension(helix + noise * (6 * 1.25**0.5 / 800) * rng.normal(size=helix.shape)) in expected


def test_mixed_clouds_sample_by_sample(rng: np.random.Generator) -> None:
    """A ball, a sphere and a curve, apart; then a whole whose most samples decide."""
    ball = c.even(lambda m, r: c.random_sphere(m, r) * r.random((m, 1)) ** (1 / 3), 1500, rng)
    sphere = c.random_sphere(700, rng) + [2.5, 0, 0]
    curve = np.c_[np.linspace(1.02, 6, 300), np.zeros(300), np.zeros(300)] * [-1, 1, 1]
    graph = build_graph(torch.as_tensor(np.concatenate([ball, sphere, curve])), 30)
    label = local_dimension(graph)
    assert label.shape == (2500,)
    for part, expected in ((slice(0, 1500), 3), (slice(1500, 2200), 2), (slice(2200, 2500), 1)):
        assert float((label[part] == expected).double().mean()) > 0.9, expected
    assert estimate_dimension(graph) == 3


def test_local_dimension_above_three(rng: np.random.Generator) -> None:
    """A plane beside a cloud of six dimensions, both in R^8 (principal components) and in R^40 (growth)."""
    for ambient in (8, 40):
        plane, full = np.zeros((800, ambient)), np.zeros((1500, ambient))
        plane[:, :2], full[:, :6] = rng.random((800, 2)), 5 + rng.random((1500, 6))
        label = local_dimension(build_graph(torch.as_tensor(np.concatenate([plane, full])), 30))
        assert float(label[:800].median()) == pytest.approx(2, abs=0.3)
        if ambient == 8:  # a count, and not a growth
            assert float((label[:800] == 2).double().mean()) > 0.9 and bool((label[800:] > 2).all())
        assert 4 < float(label[800:].median()) < 7


def test_self_loops_and_few_neighbours(rng: np.random.Generator) -> None:
    x = torch.as_tensor(c.random_sphere(600, rng))
    assert estimate_dimension(build_graph(x, 31, self_loops=True)) == 2
    assert estimate_dimension(build_graph(x, 8)) == 2
    assert local_dimension(build_graph(x, 31, self_loops=True)).shape == (600,)
    assert estimate_dimension(build_graph(x, 1)) == 1


def test_a_solid_of_four_dimensions_has_more_than_three_and_pairs_of_neighbours_whole_ones(
    rng: np.random.Generator,
) -> None:
    assert float(local_dimension(build_graph(torch.from_numpy(rng.random((1500, 4))), 30)).median()) > 3.2
    for columns in (2, 3):
        label = local_dimension(build_graph(torch.from_numpy(rng.random((300, columns))), 2))
        assert set(label.tolist()) <= {1.0, 2.0, 3.0}  # by axes: a growth is no whole number


def test_the_number_of_samples_that_decide(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """400 of a cloud in space; 2000 where principal components of more columns are compared."""
    taken: list[int] = []
    real = dimensions._variances
    monkeypatch.setattr(dimensions, "_variances", lambda graph, rows: taken.append(len(rows)) or real(graph, rows))
    monkeypatch.setattr(dimensions, "local_dimension", lambda graph, rows: taken.append(len(rows)) or torch.ones(3))
    for columns, expected in ((2, 400), (3, 400), (4, 2000)):
        taken.clear()
        estimate_dimension(build_graph(torch.from_numpy(rng.random((4000, columns))), 20))
        assert taken == [expected]


@pytest.mark.parametrize("columns", [4, 6])
def test_curves_and_surfaces_among_more_columns(columns: int, rng: np.random.Generator) -> None:
    turn = np.linalg.qr(rng.normal(size=(columns, columns)))[0]
    for flat in (1, 2):
        x = np.zeros((900, columns))
        x[:, :flat] = rng.random((900, flat))
        assert dimension(x @ turn) == flat
    assert dimension(rng.random((900, columns))) > 2.5


def test_stacked_clouds_have_the_dimensions_of_each_alone(rng: np.random.Generator) -> None:
    curve = np.c_[np.linspace(0, 1, 300), np.zeros((300, 2))]
    parts = [c.even(c.random_sphere, 500, rng), curve, rng.random((1500, 3))]
    graph = stack([build_graph(torch.as_tensor(each), 30) for each in parts])
    assert dimensions.cloud_dimensions(graph) == [2.0, 1.0, 3.0]


def test_the_dimension_by_angles_is_that_by_lengths_of_unit_rows(rng: np.random.Generator) -> None:
    """The cosine distance is half of a squared length, so its logarithms are twice as large."""
    x = rng.normal(size=(500, 20)) * np.linspace(1, 0.1, 20)
    x = torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True))
    angles, lengths = (build_graph(x, 12, metric=metric) for metric in ("cosine", "euclidean"))
    assert 2 < estimate_dimension(lengths) < 19
    assert estimate_dimension(angles) == pytest.approx(estimate_dimension(lengths), rel=1e-4)
    torch.testing.assert_close(local_dimension(angles), local_dimension(lengths), rtol=1e-3, atol=1e-3)


def test_stacked_clouds_are_sampled_from_end_to_end(rng: np.random.Generator) -> None:
    """A wire before a sphere and a sphere before a wire: what most of the points are, wherever they stand."""
    wire = np.stack([2 + np.linspace(0, 1, 150), *np.zeros((2, 150))], 1)
    ball = c.even(c.random_sphere, 500, rng)
    parts = [np.concatenate([wire, ball]), np.concatenate([wire, ball[:60]]), np.concatenate([ball, wire])]
    graph = stack([build_graph(torch.from_numpy(part), 30) for part in parts])
    assert dimensions.cloud_dimensions(graph) == [2.0, 1.0, 2.0]


def _graph_of(distances: np.ndarray, metric: str = "precomputed", columns: int = 0) -> Graph:
    """Lists of these lengths to anyone."""
    n, k = distances.shape
    indices = (np.arange(n)[:, None] + np.arange(1, k + 1)) % n
    return Graph(torch.zeros((n, columns)), torch.from_numpy(indices), torch.from_numpy(distances), metric)


@pytest.mark.parametrize("metric", ["precomputed", "euclidean"])
def test_growth_of_lists_without_coordinates(metric: str, rng: np.random.Generator) -> None:
    """k ~ r^dim: log 2 over the mean logarithm of two radii. Rows of copies or of equal lengths say nothing."""
    lengths = np.sort(rng.random((60, 8)) ** (1 / 5) + 0.01, 1)
    ratio = np.log(lengths[:, 7] / lengths[:, 3])
    assert estimate_dimension(_graph_of(lengths, metric)) == pytest.approx(np.log(2) / ratio.mean())
    odd = lengths.copy()
    odd[:10, :5], odd[10:15] = 0, 1.0  # four copies or more, and a row of equal lengths
    assert estimate_dimension(_graph_of(odd, metric)) == pytest.approx(np.log(2) / ratio[15:].mean())
    around = (np.arange(60)[:, None] + [0, 1, 4, 7]) % 60  # every third neighbour, from the first on
    known = np.where(np.arange(60) < 15, np.nan, ratio)[around]
    with warnings.catch_warnings(action="ignore"):  # of rows that see such rows only
        grown = np.nanmean(known, 1)
    expected = np.where(np.isnan(grown), 1, np.maximum(np.log(2) / grown, 1))
    np.testing.assert_allclose(local_dimension(_graph_of(odd, metric)).numpy(), expected)
    assert np.isnan(grown).any()


def test_a_dimension_is_at_least_one() -> None:
    slow = np.tile(np.logspace(0, 6, 8), (30, 1))
    for lengths in (slow, np.ones((30, 8)), np.zeros((30, 8))):
        assert estimate_dimension(_graph_of(lengths)) == 1
        assert bool((local_dimension(_graph_of(lengths)) == 1).all())
    assert estimate_dimension(_graph_of(np.ones((30, 8)), "euclidean", 5)) == 1  # equal points in five columns


@pytest.mark.parametrize("columns", [12, 40])
def test_distances_that_are_equal_but_for_rounding_are_no_growth(columns: int, rng: np.random.Generator) -> None:
    """Rows of zeros and ones have few distances: their dimension does not depend on the unit, nor on a rotation."""
    x = rng.integers(0, 2, (400, columns)).astype(float)
    turned = x @ np.linalg.qr(rng.normal(size=(columns, columns)))[0]
    expected = dimension(x)
    for other in (1e-3 * x, x / 7, turned, turned / 3):
        assert dimension(other) == pytest.approx(expected, rel=1e-9)


def test_three_dimensions_among_more_are_a_growth(rng: np.random.Generator) -> None:
    """Principal axes count curves and surfaces, of at most sixteen columns; beyond, dimensions are no whole numbers."""
    for columns, flat, whole in ((6, 2, True), (16, 2, True), (6, 3, False), (17, 2, False)):
        x = np.zeros((1200, columns))
        x[:, :flat] = rng.random((1200, flat))
        found = dimension(x @ np.linalg.qr(rng.normal(size=(columns, columns)))[0])
        assert abs(found - flat) < 0.4 and found.is_integer() == whole


@pytest.mark.parametrize(
    ("columns", "n", "expected"), [(3, 799, 799), (3, 1999, 500), (4, 5999, 3000), (4, 3999, 3999)]
)
def test_samples_are_spread_over_all_rows(
    columns: int, n: int, expected: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every (n // 400)-th, or every (n // 2000)-th row."""
    taken: list[torch.Tensor] = []
    name = "local_dimension" if columns <= 3 else "_variances"
    answer = torch.ones(3) if columns <= 3 else torch.ones((3, columns))
    monkeypatch.setattr(dimensions, name, lambda graph, rows: taken.append(rows) or answer)
    estimate_dimension(build_graph(torch.from_numpy(rng.random((n, columns))), 4))
    assert len(taken[0]) == expected and int(taken[0][0]) == 0 and len(taken[0].diff().unique()) == 1


@pytest.mark.parametrize("expected", [1.0, 2.0, 4.0])
def test_growth_of_the_shortest_lists(expected: float) -> None:
    """Two or three neighbours: the radius of the last over that of the first has two or three times as many points."""
    for k in (2, 3):
        lengths = np.linspace(1, k ** (1 / expected), k)
        assert estimate_dimension(_graph_of(np.tile(lengths, (30, 1)))) == pytest.approx(expected)


@pytest.mark.parametrize(("columns", "k"), [(2, 20), (3, 9), (6, 20)])
def test_variances_are_those_of_principal_components(columns: int, k: int, rng: np.random.Generator) -> None:
    """Of the sixteen nearest neighbours, or of all there are, without the point itself; descending, over the first."""
    graph = build_graph(torch.from_numpy(rng.normal(size=(60, columns)) * np.arange(1, columns + 1)), k)
    rows = torch.from_numpy(rng.permutation(60)[:25])
    near = graph.points[graph.indices[rows]].numpy()[:, :16]
    expected = np.stack([np.linalg.eigvalsh(np.cov(each.T, bias=True))[::-1] for each in near])
    found = dimensions._variances(graph, rows).numpy()
    np.testing.assert_allclose(found, expected / expected[:, :1], rtol=1e-7, atol=1e-12)


def test_points_are_surrounded_where_every_direction_has_two_neighbours(rng: np.random.Generator) -> None:
    """Neighbours within the angle whose cosine is .3, for each of 48 directions, one by one."""
    x = rng.normal(size=(250, 3))
    graph, rows = build_graph(torch.from_numpy(x), 24), np.arange(0, 250, 2)
    directions = c.fibonacci_sphere(48)
    expected = []
    for i in rows:
        chords = x[graph.indices[i].numpy()] - x[i]
        cosines = chords @ directions.T / np.linalg.norm(chords, axis=1)[:, None]
        expected.append(float(((cosines > 0.3).sum(0) >= 2).all()))
    found = dimensions._surrounded(graph, torch.from_numpy(rows)).tolist()
    assert found == expected and 10 < sum(found) < 120


def test_labels_of_curves_surfaces_and_more_among_five_columns(rng: np.random.Generator) -> None:
    """Whole numbers up to two, by principal axes; what more there is grows."""
    parts = []
    for flat in (1, 2, 4):
        x = np.zeros((500, 5))
        x[:, :flat], x[:, 4] = rng.random((500, flat)), 10 * flat
        parts.append(x)
    graph = build_graph(torch.from_numpy(np.concatenate(parts)), 20)
    line, plane, solid = local_dimension(graph).split(500)
    assert bool((line == 1).all()) and float((plane == 2).double().mean()) > 0.9
    assert float((solid.round() == solid).double().mean()) < 0.1 and 3 < float(solid.median()) < 4.2
    some = torch.tensor([700, 3, 1200])  # of samples alone what they have among all
    torch.testing.assert_close(local_dimension(graph, some), local_dimension(graph)[some])


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_one_neighbour_tells_of_a_curve(columns: int, rng: np.random.Generator) -> None:
    graph = build_graph(torch.from_numpy(rng.random((50, columns))), 1)
    assert estimate_dimension(graph) == 1 and bool((local_dimension(graph) == 1).all())


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_labels_by_ratios_of_variances(columns: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upper quartiles around a sample: r_2 of a surface above .28; a solid has r_3 above .375 too, and more than .35 of
    the points around are surrounded."""
    ratios, inside = torch.from_numpy(rng.uniform(0, 0.55, (80, columns))), torch.from_numpy(rng.integers(0, 2, 80))
    graph = build_graph(torch.from_numpy(rng.random((80, columns))), 10)
    monkeypatch.setattr(dimensions, "_variances", lambda _, rows: ratios[rows])
    monkeypatch.setattr(dimensions, "_surrounded", lambda _, rows: inside[rows].double())
    samples = torch.from_numpy(rng.permutation(80)[:60])
    expected = []
    for i in samples.tolist():
        around = [i, *graph.indices[i, [0, 3, 6, 9]].tolist()]
        typical = np.quantile(ratios[around].numpy(), 0.75, axis=0)
        surface = columns > 1 and typical[1] > 0.28
        solid = surface and columns == 3 and typical[2] > 0.375 and inside[around].double().mean() > 0.35
        expected.append(1 + int(surface) + int(solid))
    assert dimensions._ordinary(graph, samples).tolist() == expected
    assert len(set(expected)) == columns


def test_points_of_one_column_are_a_curve(rng: np.random.Generator) -> None:
    """However uneven they are, where lengths of lists alone would tell of more."""
    graph = build_graph(torch.from_numpy(rng.random((80, 1)) ** 3), 8)
    assert bool((local_dimension(graph) == 1).all()) and estimate_dimension(graph) == 1
    grown = (dimensions._growth(graph) / dimensions._slopes(graph)[dimensions._around(graph, torch.arange(80))]).amax()
    assert float(grown) > 1.5


def test_lengths_are_tied_up_to_a_millionth() -> None:
    lengths = np.array([[1, 1, 1, 1 + 5e-7], [1, 1, 1, 1 + 5e-6], [0, 0, 1, 2]])
    found = dimensions._slopes(_graph_of(lengths)).numpy()
    np.testing.assert_allclose(found, [np.nan, np.log1p(5e-6), np.nan])
