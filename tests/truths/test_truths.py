"""The table of truths: clouds of known spectrum, clean and damaged, are right or said to be wrong,
never neither.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import eigenprobe as ep
from benchmarks.truths import TRUTHS, Truth

pytestmark = pytest.mark.long

SILENT = 0.10  # mean relative error of the first ten eigenvalues above which there is a warning
LARGE = (  # all of 20,000 points take a minute
    "circle, random, 20000",
    "sphere, even, 20000",
    "ribbon, random, 20000",
    "cube, random, 20000",
)
OPEN = (  # wrong in silence
    "long, even, 4000",  # two points wide, and taken for a curve
    "box, even, 4000",  # four points thick, and taken for a surface
    "tyre, noise, 500",
    "dumbbell, steps, 500",
    "roll, steps, 1500",
)
ROWS = [truth for truth in TRUTHS if not truth.name.endswith(", 20000") or truth.name in LARGE]


def error(truth: Truth, seed: int) -> tuple[float, list[str]]:
    """The mean relative error of the first ten, and what was said."""
    points = truth.points(np.random.default_rng(seed))
    k = min(11, len(points) // 2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        basis = ep.decompose(points, k=k)
    expected = truth.spectrum(k)[1:]
    return float(np.abs(basis.eigenvalues[1:] / expected - 1).mean()), [
        str(each.message) for each in said
    ]


def _row(truth: Truth) -> object:
    marks = (
        [pytest.mark.xfail(reason="wrong in silence", strict=True)] if truth.name in OPEN else []
    )
    return pytest.param(truth, marks=marks, id=truth.name)


@pytest.mark.parametrize("truth", map(_row, ROWS))
def test_right_or_said_to_be_wrong(truth: Truth) -> None:
    found, said = error(truth, seed=1)
    assert found < SILENT or said


def test_most_wrong_clouds_are_told_and_few_right_ones() -> None:
    """Of another draw: nine in ten of those that are off by a tenth are said to be, and one in
    fifteen of those within a twentieth.
    """
    found = [error(truth, seed=11) for truth in ROWS if not truth.name.endswith("0000")]
    wrong = [bool(said) for off, said in found if off > SILENT]
    right = [any("off by more" in each for each in said) for off, said in found if off < 0.05]
    assert np.mean(wrong) >= 0.9
    assert np.mean(right) <= 1 / 15


BOUNDS = {  # of well-sampled manifolds, where a warning would be false
    **dict.fromkeys(("circle, even, 100", "circle, random, 2000", "interval, random, 2000"), 0.01),
    **dict.fromkeys(
        (
            "sphere, even, 500",
            "sphere, random, 1500",
            "torus, random, 1500",
            "square, random, 1500",
        ),
        0.04,
    ),
    **dict.fromkeys(
        ("ball, random, 4000", "cube, random, 4000", "sphere, uneven 10:1", "square, uneven 10:1"),
        0.06,
    ),
    **dict.fromkeys(
        ("circle, random, 100000", "square, random, 100000", "sphere, random, 50000"), 0.03
    ),
    **dict.fromkeys(("sphere, noise 0.001", "square, jitter 0.01", "ribbon, random, 4000"), 0.06),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_well_sampled_manifolds_are_right_without_a_word(name: str) -> None:
    (truth,) = (truth for truth in TRUTHS if truth.name == name)
    for seed in (1,) if name.endswith("0000") else (1, 2):
        found, said = error(truth, seed)
        assert found < BOUNDS[name] and not said


def test_the_reason_is_named() -> None:
    reasons = {
        "sphere, random, 60": "too few",
        "5-cube, random, 4000": "pass dimension=",
        "square, uneven 10000:1": "hardly a point",
        "cube, uneven 100:1": "boundary",
    }
    for truth in TRUTHS:
        if truth.name in reasons:
            said = error(truth, seed=1)[1]
            assert any(reasons[truth.name] in each for each in said), truth.name
