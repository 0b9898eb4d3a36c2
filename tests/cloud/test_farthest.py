"""Farthest points against brute force; surface and volume samples against their distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenprobe.cloud.farthest import farthest_points
from eigenprobe.errors import InputError


def brute_force(x: np.ndarray, n: int, start: int) -> list[int]:
    chosen = [start]
    while len(chosen) < n:
        chosen.append(int(((x[:, None] - x[chosen]) ** 2).sum(2).min(1).argmax()))
    return chosen


@given(st.integers(5, 60), st.integers(1, 4), st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_farthest_points_are_the_farthest(n, d, seed) -> None:
    x = np.random.default_rng(seed).standard_normal((n, d))
    assert farthest_points(x, n // 2, start=1).tolist() == brute_force(x, n // 2, 1)


@pytest.mark.parametrize("d", [2, 15, 16, 40])
def test_both_ways_to_a_distance(rng, d) -> None:
    x = rng.standard_normal((120, d)) + 100
    assert farthest_points(x, 40, start=7).tolist() == brute_force(x, 40, 7)


def test_tensors_and_batches_agree_with_arrays(rng) -> None:
    x = rng.standard_normal((2, 200, 3))
    arrays = farthest_points(x, 50, start=3)
    tensors = farthest_points(torch.from_numpy(x), 50, start=3)
    single = farthest_points(torch.from_numpy(x[0]), 50, start=3)
    assert isinstance(tensors, torch.Tensor)
    assert isinstance(arrays, np.ndarray)
    assert (tensors.numpy() == arrays).all()
    assert (single.numpy() == arrays[0]).all()
    assert farthest_points(torch.from_numpy(x), 50).shape == (2, 50)


def test_weights_and_validity_mean_the_same_everywhere(rng) -> None:
    x, weight = rng.standard_normal((2, 80, 3)), rng.uniform(1, 9, (2, 80))
    valid = rng.random((2, 80)) < 0.6
    arrays = farthest_points(x, 20, start=3, weight=weight, valid=valid)
    for cloud, w, mask, chosen in zip(x, weight, valid, arrays, strict=True):
        kept = np.flatnonzero(mask)
        expected = [kept[3]]
        while len(expected) < 20:
            reach = w * ((cloud[:, None] - cloud[expected]) ** 2).sum(2).min(1)
            expected.append(kept[reach[kept].argmax()])
        assert chosen.tolist() == expected
        assert farthest_points(cloud, 20, start=3, weight=w, valid=mask).tolist() == expected
    tensors = [torch.from_numpy(a) for a in (x, weight, valid)]
    for options in ({"start": 3}, {}):
        arrays = farthest_points(x, 20, **options, weight=weight, valid=valid)
        found = farthest_points(tensors[0], 20, **options, weight=tensors[1], valid=tensors[2])
        assert (found.numpy() == arrays).all()
    assert tensors[2].gather(1, farthest_points(tensors[0], 20, 5, valid=tensors[2])).all()
    hidden = tensors[0].masked_fill(~tensors[2][..., None], torch.nan)
    assert (
        farthest_points(hidden, 20, valid=tensors[2])
        == farthest_points(tensors[0], 20, valid=tensors[2])
    ).all()
    with pytest.raises(InputError, match="one weight per point"):
        farthest_points(x, 3, weight=weight[0])
    with pytest.raises(InputError, match="1 to 4 of 4"):
        farthest_points(x[0], 5, valid=np.arange(80) < 4)


def test_the_start_is_random_or_fixed(rng) -> None:
    x = rng.standard_normal((100, 3))
    assert farthest_points(x, 1, seed=1)[0] == farthest_points(x, 1, seed=1)[0]
    assert len({int(farthest_points(x, 1, seed=s)[0]) for s in range(20)}) > 5
    order = rng.permutation(100)
    fixed = farthest_points(x, 20)
    assert (order[farthest_points(x[order], 20)] == fixed).all(), (
        "the default start does not depend on the order"
    )


def test_duplicates_come_last_and_all_can_be_chosen(rng) -> None:
    x = np.repeat(rng.standard_normal((10, 3)), 2, axis=0)
    assert len(np.unique(x[farthest_points(x, 10, start=0)], axis=0)) == 10
    assert len(farthest_points(x, 20, start=0)) == 20


@pytest.mark.parametrize(
    ("x", "n", "message"),
    [
        (np.zeros(3), 1, r"\(n, d\)"),
        (np.zeros((3, 3)), 4, "1 to 3 of 3"),
        (np.zeros((3, 3)), 0, "got n=0"),
        (np.full((3, 3), np.nan), 1, "finite"),
        (torch.full((1, 3, 3), torch.inf), 1, "finite"),
    ],
)
def test_farthest_points_refuses(x, n, message) -> None:
    with pytest.raises(InputError, match=message):
        farthest_points(x, n)
    with pytest.raises(InputError, match="start"):
        farthest_points(np.zeros((3, 3)), 1, start=3)


@pytest.mark.parametrize("where", ["host", "batch"])
def test_points_that_are_left_out_may_be_anything(where: str, rng) -> None:
    x = rng.standard_normal((2, 30, 3))
    valid = np.arange(30) % 3 > 0
    x[:, ~valid] = np.nan
    masks = np.stack([valid, valid])
    make = torch.from_numpy if where == "batch" else np.asarray
    found = np.asarray(farthest_points(make(x), 6, start=1, valid=make(masks)))
    kept = np.flatnonzero(valid)
    assert found.tolist() == [kept[brute_force(cloud[kept], 6, 1)].tolist() for cloud in x]
    x[1, 1] = np.inf
    with pytest.raises(InputError, match="finite coordinates"):
        farthest_points(make(x), 6, start=1, valid=make(masks))
