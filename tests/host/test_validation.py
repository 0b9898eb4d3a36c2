"""Tests of `host.validation`: what an argument must be, from its annotation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.host.validation import as_array, validated
from eigenprobe.points import Array

Side = Literal["left", "right"]


@validated
def asked(
    count: int,
    share: float = 0.5,
    side: Side = "left",
    values: Array | Sequence[Array] | None = None,
) -> Any:
    return count, share, side, values


@pytest.mark.parametrize(
    "given, told",
    [
        ({"count": 1.5}, "count must be a whole number, got 1.5"),
        ({"count": True}, "count must be a whole number, got True"),
        ({"count": 1, "share": float("nan")}, "share must be a finite number"),
        ({"count": 1, "side": "up"}, "side must be 'left' or 'right', got 'up'"),
        ({"count": 1, "values": np.array([1.0, np.inf])}, "with NaN, infinity or masked entries"),
        ({"count": 1, "values": "text"}, "values must be an array of finite numbers"),
    ],
)
def test_what_does_not_fit_is_told_in_words(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        asked(**given)


def test_what_fits_comes_through() -> None:
    assert asked(np.int64(3), 1, "right") == (3, 1, "right", None)
    tensor = torch.ones(2)
    assert asked(1, values=tensor)[3] is tensor
    parts = [np.ones(2), np.ones(3)]
    assert asked(1, values=parts)[3] is parts  # one per cloud
    np.testing.assert_array_equal(asked(1, values=[1.0, 2.0])[3], np.array([1.0, 2.0]))


def test_arrays_of_anything() -> None:
    np.testing.assert_array_equal(as_array(torch.arange(3).requires_grad_(False)), [0, 1, 2])
    assert as_array([1, 2], float).dtype == np.float64
    with pytest.raises(InputError, match="expected an array of numbers"):
        as_array(["a"], float)


def test_neighbors_are_neighbours() -> None:
    @validated
    def counted(neighbours: int) -> int:
        return neighbours

    assert counted(neighbors=3) == counted(neighbours=3) == 3  # type: ignore[call-arg]
    with pytest.raises(InputError, match="neighbours must be a whole number, got 'x'"):
        counted(neighbors="x")  # type: ignore[call-arg]
