"""Colours of functions and classes (..., 3), floats in [0, 1].

    diverging    t in [-1, 1] -> blue, near-white at zero, orange; lightness depends on |t| only
    sequential   t in [0, 1]  -> matplotlib's viridis
    categorical  classes      -> Okabe and Ito's colours up to eight, then hues once around

Blue against orange and a monotone lightness are what the common colour-vision deficiencies keep
apart. Signed functions always use a symmetric range, so that zero is the neutral colour.
"""

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LinearSegmentedColormap, hsv_to_rgb, to_rgb
from numpy.typing import NDArray

Array = NDArray[np.floating]

# Okabe and Ito's eight colours, without black and with the yellow darkened enough to be read on
# white.
OKABE_ITO = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#d4c21c", "#7f7f7f")
BLUE_TO_ORANGE = (
    "#2a4586 #3863b3 #4a83da #62a5f8 #85c5ff #b3e1ff #f3f3f3 "
    "#ffd1a0 #fcab66 #e9853a #cc611d #a74211 #7d2911"
)
CLAY = np.array([0.80, 0.78, 0.75])
INK = "#22262b"
DIVERGING = LinearSegmentedColormap.from_list("blue to orange", BLUE_TO_ORANGE.split(), 1025)
SEQUENTIAL = colormaps["viridis"]
MAPS = {  # what a page offers; the first is for signed functions, the second for the others
    "blue to orange": DIVERGING,
    "viridis": SEQUENTIAL,
    "purple to green": colormaps["PRGn"],
    "grey": colormaps["gray"],
}


def symmetric_limit(values: Array, quantile: float = 0.995) -> float:
    """The `c` of a symmetric range [-c, c]: a high quantile of |values|, against outliers."""
    sizes = np.abs(values[np.isfinite(values)])
    return float(np.quantile(sizes, quantile) or sizes.max()) or 1.0 if sizes.size else 1.0


def robust_range(values: Array) -> tuple[float, float]:
    """A range that leaves out the outermost tails; a constant gets a range around it."""
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite if finite.size else [0.0, 1.0], [0.01, 0.99])
    if high - low <= 1e-6 * max(abs(low), abs(high), 1e-30):
        spread = 0.5 * max(abs(low), 1e-12)
        low, high = low - spread, high + spread
    return float(low), float(high)


def diverging(values: Array, limit: float | None = None) -> Array:
    """Colours of signed values on the symmetric range [-limit, limit]."""
    limit = symmetric_limit(values) if limit is None else limit
    return np.asarray(DIVERGING(0.5 + 0.5 * np.nan_to_num(values) / limit))[..., :3]


def categorical(count: int) -> Array:
    """`count` distinguishable colours (count, 3); neighbours have near hues and other lightness."""
    if count <= len(OKABE_ITO):
        return np.array([to_rgb(colour) for colour in OKABE_ITO[:count]]).reshape(count, 3)
    place = np.arange(count)
    strength = np.array([[0.62, 0.8], [0.5, 1], [0.75, 0.58]])[place % 3]
    rgb = hsv_to_rgb(np.column_stack([(0.58 + place / count) % 1, strength]))
    light = rgb @ [0.21, 0.72, 0.07]
    return rgb * np.minimum(1, 0.66 / light)[:, None]  # no yellow and green too pale for white
