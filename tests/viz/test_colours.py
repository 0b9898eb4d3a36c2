"""The maps keep their promises: neutral zero, equal lightness on both arms, apart for colour-blind
eyes.
"""

from __future__ import annotations

import numpy as np

from eigenprobe.viz import colours

# Machado, Oliveira and Fernandes 2009, severity 1: what deuteranopes and protanopes see (linear
# RGB).
BLINDNESS = {
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
}


def linear(rgb: np.ndarray) -> np.ndarray:
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def luminance(rgb: np.ndarray) -> np.ndarray:
    return linear(rgb) @ [0.2126, 0.7152, 0.0722]


def test_diverging_is_neutral_at_zero_and_darkens_both_ways() -> None:
    middle = colours.diverging(np.zeros(1), 1.0)[0]
    assert middle.min() > 0.9
    assert np.ptp(middle) < 0.05
    t = np.linspace(0, 1, 50)
    for sign in (-1, 1):
        assert np.all(np.diff(luminance(colours.diverging(sign * t, 1.0))) < 1e-3)
    np.testing.assert_allclose(
        luminance(colours.diverging(t, 1.0)) ** (1 / 3),
        luminance(colours.diverging(-t, 1.0)) ** (1 / 3),
        atol=0.06,
    )


def test_signs_stay_apart_for_colour_blind_eyes() -> None:
    t = np.linspace(0.25, 1, 20)
    for matrix in BLINDNESS.values():
        seen = [linear(colours.diverging(s * t, 1.0)) @ np.transpose(matrix) for s in (-1, 1)]
        assert np.linalg.norm(seen[0] - seen[1], axis=1).min() > 0.1


def test_ranges_are_symmetric_and_survive_odd_input() -> None:
    values = np.array([-1.0, 0.5, 2.0, np.nan])
    assert colours.symmetric_limit(values, 1.0) == 2.0
    assert colours.symmetric_limit(np.zeros(4)) == 1.0
    assert colours.symmetric_limit(np.full(3, np.nan)) == 1.0
    low, high = colours.robust_range(np.full(5, 3.0))
    assert low < 3.0 < high
    assert np.isfinite(colours.diverging(values)).all()


def test_categories_differ() -> None:
    for count in (1, 8, 20, 77):
        palette = colours.categorical(count)
        assert palette.shape == (count, 3)
        assert len(np.unique(palette.round(3), axis=0)) == count
