"""Colours of functions and classes (..., 3), floats in [0, 1].

    diverging    t in [-1, 1] -> blue, near-white at zero, orange; lightness depends on |t| only
    sequential   t in [0, 1]  -> matplotlib's viridis
    categorical  classes      -> Okabe and Ito's colours up to eight, then hues once around

Blue against orange and a monotone lightness are what the common colour-vision deficiencies keep
apart. Signed functions always use a symmetric range, so that zero is the neutral colour.

Labels are classes: names in the order in which people count, a code per row, and a colour each.
Colours follow the map, so that near classes have near hues and different lightness:

    order = optimal leaf order of Ward's tree of the centres (c, 2);   hue = 360 * place / c

Groups of a map without labels: k-means, with as many groups as separate best.

    x (n, k) -> labels (n,), the largest group first;  s(c) = mean silhouette of c groups on a
    sample of rows;  typical rows of a group = those nearest to its centre
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LinearSegmentedColormap, hsv_to_rgb, to_hex, to_rgb
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..io.mesh import to_numpy

Array = NDArray[np.floating]
Names = Mapping[Any, str] | Sequence[str]
Codes = NDArray[np.int64]
MOST = 20  # groups
SAMPLE = 3000  # rows that are enough to compare their numbers
TYPICAL = 3  # rows that stand for a group

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


class Classes(NamedTuple):
    """The names of the classes, a code (n,) per row, and a colour per class."""

    names: list[str]
    codes: Codes
    colours: list[str]


def classes(labels: ArrayLike, names: Names | None, places: Array) -> Classes:
    """Classes of the labels (n,) of rows that are drawn at places (n, 2 or more).

    `names` turns a label into words: a mapping, or a sequence indexed by an integer label.
    """
    values = to_numpy(labels, None)
    if values.shape != (len(places),):
        raise InputError(f"expected a label for each of {len(places)} rows, got {values.shape}")
    texts = values.astype(str) if values.dtype.kind not in "biuf" else values
    known, codes = np.unique(texts, return_inverse=True)
    if len(known) > 65_535:
        raise InputError(f"at most 65535 different labels can be drawn, got {len(known)}")
    if texts.dtype.kind == "U":
        # Numbers inside are counted: 2 comes before 10.
        counted = [re.sub(r"\d+", lambda m: m[0].zfill(30), name.lower()) for name in known]
        order = np.argsort(counted, kind="stable")
        known, codes = known[order], np.argsort(order)[codes]
    words = names if isinstance(names, Mapping) else dict(enumerate(names or ()))
    palette = categorical(len(known))
    if len(known) > len(OKABE_ITO):
        from scipy.cluster.hierarchy import leaves_list, linkage

        centres = [np.median(places[codes == c, :2], axis=0) for c in range(len(known))]
        tree = linkage(centres, "ward", optimal_ordering=len(known) <= 1000)
        palette = palette[np.argsort(leaves_list(tree))]
    named = [str(words.get(label, label)) for label in known.tolist()]
    return Classes(named, codes, [to_hex(colour) for colour in palette])


class Groups(NamedTuple):
    """A group per row (n,), their names, and the rows nearest to the centre of each."""

    labels: Codes
    names: list[str]
    typical: list[list[int]]


def find_groups(x: Array, texts: Sequence[str] | None = None) -> Groups | None:
    """Groups of the rows of ``x (n, k)``, named by the texts of typical rows; None where there are
    too few rows to speak of groups.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    rows = x[np.random.default_rng(0).permutation(len(x))[:SAMPLE]]
    most = min(MOST, (len(np.unique(rows, axis=0)) - 1) // 2)
    if most < 2:
        return None
    fits = [KMeans(count, n_init=4, random_state=0).fit(rows) for count in range(2, most + 1)]
    away = max(fits, key=lambda fit: silhouette_score(rows, fit.labels_)).transform(x)
    away = away[:, np.argsort(-np.bincount(away.argmin(1)), kind="stable")]
    typical = np.argsort(away, axis=0, kind="stable")[:TYPICAL].T.tolist()
    names = [f"group {group + 1}" for group in range(len(typical))]
    if texts is not None:
        names = [f"{name}: {texts[nearest]}" for name, (nearest, *_) in zip(names, typical)]
    return Groups(away.argmin(1), names, typical)
