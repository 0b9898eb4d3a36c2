"""Colour maps built in OkLCh, so that equal steps in value look like equal steps in colour.

    diverging:  t in [-1, 1] -> blue (negative), near-white (zero), orange (positive); lightness depends on |t| only
    sequential: t in [ 0, 1] -> dark violet, teal, pale yellow; lightness rises linearly

Blue against orange and a monotone lightness are what the common colour-vision deficiencies keep apart. Signed functions
always use a symmetric range, so that zero is the neutral colour. Colours are (..., 3) float arrays in [0, 1], sRGB.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.floating]

# Okabe and Ito's eight colours, without black and with the yellow darkened enough to be read on white.
OKABE_ITO = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#d4c21c", "#7f7f7f")
CLAY = np.array([0.80, 0.78, 0.75])
INK = "#22262b"
TO_CONES = np.array(
    [[1, 1, 1], [0.3963377774, -0.1055613458, -0.0894841775], [0.2158037573, -0.0638541728, -1.2914855480]]
)
TO_LINEAR = np.array(
    [
        [4.0767416621, -1.2684380046, -0.0041960863],
        [-3.3077115913, 2.6097574011, -0.7034186147],
        [0.2309699292, -0.3413193965, 1.7076147010],
    ]
)


def oklch(lightness: ArrayLike, chroma: ArrayLike, hue_degrees: ArrayLike) -> Array:
    """sRGB of OkLCh colours, clipped to the gamut."""
    light, chroma, hue = np.broadcast_arrays(lightness, chroma, np.radians(hue_degrees))
    lab = np.stack([light, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1)
    linear = (lab @ TO_CONES) ** 3 @ TO_LINEAR
    linear = np.clip(linear, 0.0, 1.0)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def _diverging_table(hues: tuple[float, float], turns: tuple[float, float]) -> Array:
    t = np.linspace(-1.0, 1.0, 257)
    s = np.abs(t)
    lightness = 0.965 - 0.56 * s**1.15
    # Chroma rises fast so that small values already show their sign, then falls towards the dark ends.
    chroma = np.where(t < 0, 0.145, 0.155) * np.sin(np.pi * np.minimum(s, 1.0) ** 0.8 * 0.72) ** 0.9
    hue = np.where(t < 0, hues[0] + turns[0] * s, hues[1] + turns[1] * s)
    return oklch(lightness, chroma, hue)


DIVERGING = _diverging_table((245, 72), (20, -36))
_T = np.linspace(0.0, 1.0, 256)
SEQUENTIAL = oklch(0.34 + 0.59 * _T, 0.075 + 0.07 * np.sin(np.pi * _T) ** 0.8, 292 - 190 * _T)
MAPS = {  # what a page offers; the first is for signed functions, the second for the others
    "blue to orange": DIVERGING,
    "violet to yellow": SEQUENTIAL,
    "purple to green": _diverging_table((312, 150), (-8, 8)),
    "grey": oklch(np.linspace(0.25, 0.97, 257), 0.0, 0.0),
}


def lookup(table: Array, t: Array) -> Array:
    """Linear interpolation in a colour table at t in [0, 1]."""
    places = np.linspace(0.0, 1.0, len(table))
    return np.stack([np.interp(np.nan_to_num(t), places, channel) for channel in table.T], -1)


def symmetric_limit(values: Array, quantile: float = 0.995) -> float:
    """The `c` of a symmetric range [-c, c]: a high quantile of |values|, so one outlier does not compress the rest."""
    finite = np.abs(values[np.isfinite(values)])
    if finite.size == 0:
        return 1.0
    limit = float(np.quantile(finite, quantile))
    return limit if limit > 0 else float(finite.max()) or 1.0


def diverging(values: Array, limit: float | None = None) -> Array:
    """Colours of signed values on the symmetric range [-limit, limit]."""
    limit = symmetric_limit(values) if limit is None else limit
    return lookup(DIVERGING, 0.5 + 0.5 * values / limit)


def robust_range(values: Array) -> tuple[float, float]:
    """A range that leaves out the outermost tails; a constant gets a range around it."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = (float(v) for v in np.quantile(finite, [0.01, 0.99]))
    if high - low <= 1e-6 * max(abs(low), abs(high), 1e-30):
        spread = 0.5 * max(abs(low), 1e-12)
        return low - spread, high + spread
    return low, high


def sequential(values: Array, low: float | None = None, high: float | None = None) -> Array:
    """Colours of unsigned values on [low, high]."""
    auto_low, auto_high = robust_range(values)
    low = auto_low if low is None else low
    high = auto_high if high is None else high
    return lookup(SEQUENTIAL, (values - low) / max(high - low, 1e-30))


def categorical(count: int, *, ordered: bool = False) -> Array:
    """`count` distinguishable colours (count, 3): Okabe-Ito up to eight, then golden-angle hues.

    Classes whose order tells which are near (`ordered`) go once around the hues, and neighbours differ in lightness.
    """
    if count <= len(OKABE_ITO):
        return np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in OKABE_ITO[:count]])
    index = np.arange(count)
    step = 360 / count if ordered else 137.50776
    return oklch(np.array([0.62, 0.76, 0.48])[index % 3], 0.14, 250 + index * step)


def hexadecimal(colours: Array) -> list[str]:
    """`#rrggbb` for each row."""
    return ["#" + "".join(f"{round(c):02x}" for c in row) for row in np.clip(colours, 0, 1) * 255]
