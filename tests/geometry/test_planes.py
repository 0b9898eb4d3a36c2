"""The dominant plane under an object."""

import sys

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.errors import InputError


@pytest.mark.parametrize("seed", range(4))
def test_a_tilted_floor_is_found_and_the_object_is_left(seed):
    rng = np.random.default_rng(seed)
    ball = rng.normal(size=(1500, 3))
    ball = ball / np.linalg.norm(ball, axis=1, keepdims=True) + [0, 0, 1.1]
    floor = np.c_[rng.uniform(-2, 2, (1500, 2)), 0.01 * rng.normal(size=1500)]
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    x = np.concatenate([ball, floor]) @ turn.T + [5, -3, 2]
    rows, plane = ep.geometry.remove_plane(x)
    assert abs(plane.normal @ turn[:, 2]) > 0.9999
    assert np.mean(np.isin(np.arange(1500), rows)) > 0.97 and np.mean(rows >= 1500) < 0.02
    np.testing.assert_array_equal(np.sort(np.concatenate([rows, plane.rows])), np.arange(3000))
    np.testing.assert_allclose(np.abs(x[plane.rows] @ plane.normal - plane.offset).max(), plane.thickness, rtol=0.2)


def test_no_plane_is_one_line():
    with pytest.raises(InputError, match="no dominant plane"):
        ep.geometry.remove_plane(np.random.default_rng(0).normal(size=(3000, 3)))
    with pytest.raises(InputError, match=r"points \(n, 3\)"):
        ep.geometry.remove_plane(np.zeros((20, 2)))


def test_the_command_line_leaves_the_floor_out(tmp_path):
    from eigenprobe.cli.clouds import read_points

    rng = np.random.default_rng(0)
    ball = rng.normal(size=(600, 3))
    ball = ball / np.linalg.norm(ball, axis=1, keepdims=True)
    floor = np.c_[rng.uniform(-3, 3, (900, 2)), np.full(900, -1.2)]
    np.save(tmp_path / "scene.npy", np.concatenate([ball, floor]))
    read = read_points(tmp_path / "scene.npy", None, False, 0, remove_plane=True)
    assert 550 <= len(read.points) <= 600 and read.rows.max() < 600
    assert len(read_points(tmp_path / "scene.npy", 200, False, 0, remove_plane=True).points) == 200


def test_triples_of_equal_points_span_no_plane():
    """Most of the points are copies of a few: their triples are left out, and the floor is found."""
    rng = np.random.default_rng(0)
    floor = np.c_[rng.uniform(-2, 2, (900, 2)), np.zeros(900)]
    x = np.concatenate([floor, np.tile(rng.normal(size=(3, 3)) + [0, 0, 3], (200, 1))])
    rows, plane = ep.geometry.remove_plane(x, thickness=0.05)
    assert abs(plane.normal[2]) > 0.9999
    np.testing.assert_array_equal(plane.rows, np.arange(900))
    np.testing.assert_array_equal(rows, np.arange(900, 1500))


@pytest.mark.parametrize(("noise", "lost"), [(0.0, 0), (0.002, 12)])
@pytest.mark.parametrize("seed", range(3))
def test_feet_on_the_floor_stay_whole(noise, lost, seed):
    """A ball that touches the floor loses no more points than the floor is thick: 1500 times 4 noise / 2 on average."""
    rng = np.random.default_rng(seed)
    ball = rng.normal(size=(1500, 3))
    ball = ball / np.linalg.norm(ball, axis=1, keepdims=True) + [0, 0, 1.0]
    floor = np.c_[rng.uniform(-2, 2, (1500, 2)), noise * rng.normal(size=1500)]
    rows, plane = ep.geometry.remove_plane(np.concatenate([ball, floor]))
    assert (rows < 1500).sum() >= 1500 - lost and (rows >= 1500).sum() <= 2
    assert 3.5 * noise <= plane.thickness <= 4.5 * noise + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_a_tenth_of_the_points_is_found(seed):
    rng = np.random.default_rng(seed)
    ball = rng.normal(size=(4000, 3))
    ball = ball / np.linalg.norm(ball, axis=1, keepdims=True) + [0, 0, 1.5]
    floor = np.c_[rng.uniform(-2, 2, (550, 2)), np.zeros(550)]
    rows, _ = ep.geometry.remove_plane(np.concatenate([ball, floor]), seed=seed)
    assert np.array_equal(rows, np.arange(4000))


def test_ten_points_have_a_plane() -> None:
    x = np.random.default_rng(0).random((10, 3))
    x[:8, 2] = 0
    rows, plane = ep.geometry.remove_plane(x, thickness=1e-3)
    assert rows.tolist() == [8, 9]
    assert abs(plane.normal[2]) > 0.999
    for points in (x[:9], x[:, :2], x[None]):
        with pytest.raises(InputError, match=r"at least 10 points \(n, 3\) to find a plane in"):
            ep.geometry.remove_plane(points, thickness=1e-3)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.4])
@pytest.mark.parametrize("seed", range(2))
def test_a_plane_is_as_thick_as_its_formula_says(noise: float, seed: int) -> None:
    """Four deviations by the median height in a layer of 1.5 spacings; 1e-6 of that layer at least, it at most."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), 2).reshape(-1, 2)
    floor = np.c_[grid + rng.uniform(-0.2, 0.2, grid.shape), noise * rng.uniform(-1, 1, 400)]
    far = rng.uniform(0, 20, (60, 3)) + [0, 0, 8]
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    x = np.concatenate([far, floor]) @ turn.T * 0.1
    rows, plane = ep.geometry.remove_plane(x, seed=seed)
    lengths = np.sort(np.linalg.norm(x[:, None] - x, axis=2), 1)
    layer = 1.5 * np.median(lengths[:, 1:5].mean(1))
    height = np.abs(x @ plane.normal - plane.offset)
    deviation = np.median(height[height <= layer]) / 0.6745
    assert plane.thickness == pytest.approx(min(max(4 * deviation, 1e-6 * layer), layer), rel=1e-9)
    np.testing.assert_array_equal(plane.rows, np.flatnonzero(height <= plane.thickness))
    np.testing.assert_array_equal(rows, np.flatnonzero(height > plane.thickness))
    on = x[plane.rows]
    least = np.linalg.eigh(np.cov(on.T))[1][:, 0]
    assert abs(least @ plane.normal) == pytest.approx(1, abs=1e-9)
    assert plane.offset == pytest.approx(float(plane.normal @ on.mean(0)), abs=1e-9)


@pytest.mark.parametrize(("beside", "found"), [(40, True), (41, False)])
def test_few_points_lie_just_beside_a_floor(beside: int, found: bool) -> None:
    """Up to .4 of those on it, between one and two thicknesses away on either side; those beyond do not count."""
    rng = np.random.default_rng(0)
    sides = np.where(np.arange(beside) % 2, 0.0199, -0.0199)
    heights = np.concatenate([np.zeros(100), sides, np.tile([0.021, -0.021], 20)])
    x = np.c_[rng.uniform(-5, 5, (len(heights), 2)), heights]
    if found:
        rows, plane = ep.geometry.remove_plane(x, thickness=0.01)
        np.testing.assert_array_equal(plane.rows, np.arange(100))
        assert plane.thickness == 0.01 and len(rows) == len(x) - 100
        return
    with pytest.raises(InputError, match=r"41 of 100 lie as thick beside it"):
        ep.geometry.remove_plane(x, thickness=0.01)


@pytest.mark.parametrize(("on", "found"), [(101, True), (99, False)])
def test_a_floor_holds_its_share_of_the_points(on: int, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One half is asked for here, a tenth without it."""
    x = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    x[:on, 2] = 3
    monkeypatch.setattr(sys.modules["eigenprobe.geometry.planes"], "LEAST", 0.5)
    if found:
        assert ep.geometry.remove_plane(x, thickness=1e-4)[0].tolist() == list(range(on, 200))
        return
    with pytest.raises(InputError, match=r"holds 49\.5% of the points"):
        ep.geometry.remove_plane(x, thickness=1e-4)


def test_less_than_a_tenth_is_no_floor() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    x[:45, 2] = 3
    with pytest.raises(InputError, match="no dominant plane"):
        ep.geometry.remove_plane(x, thickness=1e-4)


def test_points_in_a_line_span_no_plane() -> None:
    for x in (np.arange(20.0)[:, None] * [1, 0, 0], np.ones((20, 3))):
        with pytest.raises(InputError, match="got points in a line"):
            ep.geometry.remove_plane(x, thickness=0.1)


def test_a_plane_of_few_points_is_looked_for_among_all_of_them() -> None:
    """Four of twelve: a third of them is missed where points are drawn more than once."""
    x = np.random.default_rng(0).uniform(-1, 1, (12, 3))
    x[3:7, 1] = 2
    for seed in range(12):
        assert ep.geometry.remove_plane(x, thickness=1e-6, seed=seed)[1].rows.tolist() == [3, 4, 5, 6]


def test_the_seed_draws_the_triples(monkeypatch: pytest.MonkeyPatch) -> None:
    """One trial among ten points: the plane of three of them, in the order that they are drawn in."""
    monkeypatch.setattr(sys.modules["eigenprobe.geometry.planes"], "TRIALS", 1)
    x, found = np.random.default_rng(0).uniform(-1, 1, (10, 3)), 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        triple = sorted(set(rng.choice(10, 10, replace=False)[rng.integers(0, 10, 3)].tolist()))
        if len(triple) == 3:
            assert ep.geometry.remove_plane(x, thickness=1e-9, seed=seed)[1].rows.tolist() == triple
            found += 1
    assert found > 5
