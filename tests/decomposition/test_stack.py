"""Many clouds solved together, on the host as on a device: what each of them gets alone."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import torch

import eigenprobe as ep
from eigenprobe.cli import clouds, main
from eigenprobe.cloud import Frame
from eigenprobe.decomposition import OperatorSettings, Request, stack
from eigenprobe.errors import EigenprobeWarning
from eigenprobe.graph import Graph
from eigenprobe.search.layout import Segments
from eigenprobe.smoothers import NEIGHBOURS
from tests import clouds as c

SIZES = (400, 700, 250, 1100)


@pytest.fixture
def surfaces(rng: np.random.Generator) -> list[np.ndarray]:
    return [(1 + i) * c.random_sphere(n, rng) * [1, 0.8, 0.6] + i for i, n in enumerate(SIZES)]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host behaves like a device."""
    monkeypatch.setattr(stack, "gains_from_stacks", lambda place: True)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("neighbours", ["plain", "learned"])
def test_every_cloud_gets_what_it_gets_alone(surfaces, neighbours):
    k = 20
    bases = ep.decompose(surfaces, k, neighbours=neighbours)
    for x, basis in zip(surfaces, bases, strict=True):
        alone = ep.decompose(x, k, neighbours=neighbours)
        assert basis.info["method"] == "direct" and basis.info["components"] == 1
        assert basis.info.get("short_cuts") == alone.info.get("short_cuts")
        np.testing.assert_allclose(basis.eigenvalues, alone.eigenvalues, rtol=1e-5, atol=1e-9)
        difference = np.abs(basis.mass / alone.mass - 1)  # a step of conjugate gradients magnifies rounding
        assert difference.max() < 1e-3 and difference.mean() < 1e-5
        gram = basis.vectors.T @ (basis.mass[:, None] * basis.vectors)
        np.testing.assert_allclose(gram, np.eye(k), atol=1e-9)
        # Each vector beyond the last pair of equal eigenvalues, and values at new points.
        overlap = np.abs(basis.normalized[:, 1:6].T @ alone.normalized[:, 1:6])
        assert np.linalg.svd(overlap)[1].min() > 0.99
        np.testing.assert_allclose(basis(x[:5]), basis.vectors[:5], atol=1e-8)


@pytest.mark.usefixtures("at_once")
def test_edges_and_thin_plates_are_those_of_the_cloud_alone(rng):
    """Rounding differs between the two ways: no step may magnify it, at boundaries or at lonely points."""
    cubes = [rng.uniform(-1, 1, (500, 3)) for _ in range(6)]
    for x in cubes:
        sides = np.arange(500), rng.integers(0, 3, 500)
        x[sides] = np.sign(x[sides])
    plates = [rng.random((n, 3)) for n in (900, 1200, 1500)]
    for x in plates:
        x[:, 2] = 0.02 * (x[:, 2] < 0.5)
    for x, basis in zip(cubes + plates, ep.decompose(cubes + plates, 10, resolution="all"), strict=True):
        alone = ep.decompose(x, 10, resolution="all")
        np.testing.assert_allclose(
            basis.mass, alone.mass, rtol=1e-5
        )  # rounding of another order of sums: 1.1e-6 at most of 24 draws
        np.testing.assert_allclose(basis.eigenvalues, alone.eigenvalues, rtol=5e-6, atol=1e-9)


@pytest.mark.usefixtures("at_once")
def test_others_are_solved_alone(surfaces, rng):
    """Solids, curves, coinciding points, few points and unusual settings take the way of one cloud."""
    solid = rng.random((900, 3))
    mixed = [surfaces[0], solid, surfaces[1], surfaces[2][:60]]
    bases = ep.decompose(mixed, 10)
    for x, basis in zip(mixed, bases, strict=True):
        np.testing.assert_allclose(basis.eigenvalues, ep.decompose(x, 10).eigenvalues, rtol=1e-5, atol=1e-9)
    twice = [np.concatenate([surfaces[0], surfaces[0][:3]]), surfaces[1]]
    with pytest.warns(EigenprobeWarning, match="3 of 403 points coincide"):
        assert ep.decompose(twice, 10)[0].info["duplicates"] == 3
    assert stack.solve_stacks(surfaces, Request(10, operator=OperatorSettings("symmetric"))) == {}


@pytest.mark.usefixtures("at_once")
def test_large_clouds_are_judged_as_alone(rng):
    """Above eight thousand points lie in memory as in space, and what the network sees of the whole depends on that."""
    plates = [rng.random((n, 3)) for n in (9000, 8500)]
    for x in plates:
        x[:, 2] = 0.02 * (x[:, 2] < 0.5)
    for x, basis in zip(plates, ep.decompose(plates, 6), strict=True):
        alone = ep.decompose(x, 6)
        assert basis.info["short_cuts"] == alone.info["short_cuts"] > 0
        assert {tuple(pair) for pair in basis.short_cuts.tolist()} == {
            tuple(pair) for pair in alone.short_cuts.tolist()
        }
        np.testing.assert_allclose(basis.mass, alone.mass, rtol=1e-7)
        np.testing.assert_allclose(basis.eigenvalues, alone.eigenvalues, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(basis(x[:5]), basis.vectors[:5], atol=1e-8)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("other", ["coinciding", "nan", "solid", "far"])
def test_one_unsuited_cloud_leaves_the_others_together(surfaces, rng, other):
    unsuited = surfaces[1].copy()
    if other == "coinciding":
        unsuited[:5] = unsuited[5:10]
    elif other == "solid":
        unsuited = rng.random((700, 3))
    else:
        unsuited[3] = np.nan if other == "nan" else 1e90
    stacked = [torch.from_numpy(x) for x in (surfaces[0], unsuited, surfaces[3])]
    first, none, last = stack.solve_stack(stacked, Request(10, operator=OperatorSettings(neighbours="plain")))
    assert none is None and first is not None and last is not None
    for x, basis in ((surfaces[0], first), (surfaces[3], last)):
        alone = ep.decompose(x, 10, neighbours="plain")
        np.testing.assert_allclose(basis.eigenvalues, alone.eigenvalues, rtol=1e-6, atol=1e-9)
    assert (
        stack.solve_stack(stacked, Request(10, operator=OperatorSettings(neighbours="plain", dimension=1.0)))
        == [None] * 3
    )


def test_whatever_carries_clouds(surfaces):
    """Generators, data frames and settings by cloud are what each cloud gets alone; nothing and nowhere are errors."""
    some = surfaces[:2]
    alone = [ep.decompose(x, 5).eigenvalues for x in some]
    for given in ((x for x in some), [pandas.DataFrame(x) for x in some], map(np.asarray, some)):
        for found, expected in zip(ep.decompose(given, 5), alone, strict=True):
            np.testing.assert_allclose(found.eigenvalues, expected, rtol=1e-9, atol=1e-12)
    for name, values in (("measure", [0.5, 0.0]), ("probes", ["heat", "wavelet"])):
        for x, value, found in zip(some, values, ep.decompose(some, 5, **{name: values}), strict=True):
            expected = ep.decompose(x, 5, **{name: value}).eigenvalues
            np.testing.assert_allclose(found.eigenvalues, expected, rtol=1e-9, atol=1e-12)
    flat = ep.decompose([x[:, :2] for x in some], 5, boundary=["dirichlet"] * 2)
    np.testing.assert_allclose(flat[1].eigenvalues, ep.decompose(some[1][:, :2], 5, boundary="dirichlet").eigenvalues)
    flat = ep.decompose(some[0], 5, potential=[1.0] * 400)  # one cloud: a list is an array
    np.testing.assert_allclose(flat.eigenvalues, 1 + alone[0], rtol=1e-5)
    with pytest.raises(ep.InputError, match="an empty batch"):
        ep.decompose(np.zeros((0, 50, 3)), 5)
    with pytest.raises(ep.InputError, match="device 'nowhere' cannot be used"):
        ep.decompose(some, 5, device="nowhere")


@pytest.mark.usefixtures("at_once")
def test_a_bad_cloud_is_named(surfaces):
    surfaces[2][7, 1] = np.nan
    with pytest.raises(ep.InputError, match=r"cloud 2: .*row 7"):
        ep.decompose(surfaces, 10)


@pytest.mark.usefixtures("at_once")
def test_parts_of_one_cloud_are_told(surfaces):
    two = np.concatenate([surfaces[0], surfaces[0] + 50])
    with pytest.warns(EigenprobeWarning, match="a cloud of 800 points has 2 separate parts"):
        bases = ep.decompose([surfaces[1], two], 6)
    assert bases[1].info["components"] == 2
    np.testing.assert_allclose(bases[1].eigenvalues[:2], 0, atol=1e-9)


def test_groups_are_of_similar_sizes():
    groups = stack.stacks_by_size([300] * 30 + [5000, 10, 4900, 100_000], 20)
    assert groups == [[30, 32, *range(4)], [*range(4, 30)]]  # rows are at most three times the points


def test_a_batch_keeps_its_kind(surfaces):
    batch = torch.as_tensor(np.stack([surfaces[0], surfaces[0][::-1].copy()]), dtype=torch.float32)
    bases = ep.decompose(batch, 5)
    assert all(isinstance(b.vectors, torch.Tensor) and b.vectors.dtype == torch.float32 for b in bases)


@pytest.mark.usefixtures("at_once")
def test_a_folder_is_solved_at_once(surfaces, tmp_path, monkeypatch, capsys):
    """By `eigenprobe decompose folder`: the bases are those of the files alone; a bad file does not stop the others."""
    for i, x in enumerate(surfaces):
        np.save(tmp_path / f"{i}.npy", x)
    np.save(tmp_path / "bad.npy", np.full((300, 3), np.nan))
    np.save(tmp_path / "large.npy", np.concatenate(surfaces)[:1200])
    monkeypatch.setattr(clouds, "HOSTS", ())
    monkeypatch.setattr(clouds, "SMALL", 1100)
    monkeypatch.setattr(stack, "LARGEST", 1100)  # larger ones are not held
    np.save(tmp_path / "solid.npy", np.random.default_rng(0).random((400, 3)))
    read, load = [], clouds.read_points
    monkeypatch.setattr(clouds, "read_points", lambda file, *a, **how: read.append(file.stem) or load(file, *a, **how))
    groups, solve = [], stack.solve_stack
    monkeypatch.setattr(stack, "solve_stack", lambda x, *rest: groups.append(len(x)) or solve(x, *rest))
    assert main(["decompose", str(tmp_path), "-k", "10", "--out", str(tmp_path / "out"), "--device", "cpu"]) != 0
    assert "expected finite" in "".join(capsys.readouterr()) and groups == [5, 4]  # without the solid
    assert sorted(read) == ["0", "1", "2", "3", "bad", "bad", "large", "large", "solid"]
    for i, x in enumerate(surfaces):
        basis = ep.Basis.load(tmp_path / "out" / str(i) / "basis.safetensors")
        np.testing.assert_allclose(basis.eigenvalues, ep.decompose(x, 10).eigenvalues, rtol=1e-5, atol=1e-9)


def test_groups_hold_so_many_rows_and_clouds_of_so_many_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes from the fewest that a block has room in up to the largest; a cloud alone is no group."""
    fewest = stack.STACKING.room * stack.columns(20)
    assert stack.stacks_by_size([fewest, fewest - 1, fewest], 20) == [[0, 2]]
    assert stack.stacks_by_size([20_000, 20_001, 20_000], 20) == [[0, 2]]
    assert stack.stacks_by_size([900], 20) == [] == stack.stacks_by_size([], 20)
    monkeypatch.setattr(stack, "ROWS", 3000)
    assert stack.stacks_by_size([1000] * 7, 20) == [[0, 1, 2], [3, 4, 5]]  # the last one is alone
    assert stack.stacks_by_size([1000, 999, 998, 997, 996], 20) == [[0, 1, 2], [3, 4]]  # rows of the largest
    monkeypatch.setattr(stack, "ROWS", 1 << 20)
    monkeypatch.setattr(stack, "PADDED", 1.5)
    assert stack.stacks_by_size([1000, 400, 400, 200], 20) == [[0, 1], [2, 3]]  # 2000 of 1400, and 3000 of 1800 points


@pytest.mark.parametrize(
    ("place", "expected"),
    [("cpu", False), ("cuda", True), ("cuda:1", True), (torch.device("cpu"), False), (torch.device("meta"), True)]
    + [(torch.zeros(3), False), (torch.zeros(3, device="meta"), True), (np.zeros(3), False), (None, False)],
)
def test_stacks_are_for_devices(place: object, expected: bool) -> None:
    assert stack.gains_from_stacks(place) == expected


@pytest.mark.usefixtures("at_once")
def test_clouds_that_a_stack_takes(surfaces: list[np.ndarray]) -> None:
    """Of three columns, without derivatives, enough points for the vectors; others by their number are left."""
    x = surfaces[0]
    traced = torch.from_numpy(x).requires_grad_()
    given = [x[:, :2], x, traced, torch.from_numpy(x), x[0], x[:2], "no points", np.full((300, 3), np.inf)]
    found = dict(stack._on_device(given, Request(10)))
    assert list(found) == [1, 3, 7] and found[1][1].numpy and not found[3][1].numpy
    assert torch.equal(found[1][0], torch.from_numpy(x)) and found[7][0].shape == (300, 3)


def test_frames_of_stacked_clouds_are_those_of_each_alone(rng: np.random.Generator) -> None:
    clouds = [torch.from_numpy(size * rng.normal(size=(n, 3)) + 2 * size) for n, size in ((30, 1.0), (20, 1e-60))]
    points, frames, fits = stack._framed(clouds)
    assert fits == [True, True] and points.shape == (50, 3)
    for x, frame, own in zip(clouds, frames, points.split([30, 20]), strict=True):
        alone = Frame.of(x, "euclidean", centred=False)
        torch.testing.assert_close(own, alone(x, torch.float64))
        torch.testing.assert_close(frame.centre, alone.centre)
        assert frame.scale == pytest.approx(alone.scale)
    x = clouds[0]
    for other, fitting in (
        (1e-71 * x, False),
        (1e-68 * x, True),
        (1e71 * x, False),
        (1e68 * x, True),
        (1e-12 * x + 1, False),
        (1e-8 * x + 1, True),
        (x * torch.nan, False),
        (0 * x, False),
    ):
        assert stack._framed([x, other])[2] == [True, fitting]


def test_short_cuts_of_every_cloud_are_rows_of_it() -> None:
    each = Segments((4, 3, 5), torch.device("cpu"))
    pairs = torch.tensor([[8, 11], [1, 3], [0, 2], [7, 9]])
    assert [own.tolist() for own in stack._cuts(pairs, each)] == [[[1, 3], [0, 2]], [], [[1, 4], [0, 2]]]
    assert stack._cuts(None, each) == [None] * 3
    assert [len(own) for own in stack._cuts(pairs[:0], each)] == [0, 0, 0]


def test_stacked_surfaces_of_distinct_points_have_a_graph(rng: np.random.Generator) -> None:
    sphere, solid = c.random_sphere(300, rng), rng.random((500, 3))
    twice = np.concatenate([sphere[:200], sphere[:1]])

    def found(*clouds: np.ndarray, **settings: object) -> object:
        each = [torch.from_numpy(x) for x in clouds]
        return stack._graph_of_surfaces(torch.cat(each), each, OperatorSettings(**settings))

    assert found(sphere, solid) == [True, False] and found(sphere, twice, solid) == [True, False, True]
    graph = found(sphere, sphere[:100], neighbours=7)
    assert isinstance(graph, Graph) and graph.k == 7 and graph.clouds == (300, 100)
    assert isinstance(found(sphere, solid, dimension=2.4), Graph) and found(sphere, dimension=2.6) == [False]
    usual = found(sphere, neighbours="plain")
    assert isinstance(usual, Graph) and usual.k == NEIGHBOURS["adaptive"]
