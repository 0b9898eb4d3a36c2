"""The dominant plane under an object."""

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
